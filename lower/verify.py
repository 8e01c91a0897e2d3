"""Whether a hard instance, such as a file holds, is what it says: its heads are read, all else is computed again."""

import math
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from decimal import Decimal
from itertools import takewhile
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from attention import AttentionLayer, Inputs
from attention._arrays import shown
from attention.inputs import inputs_to_json
from attention.validation import checked
from lower.certificate import Certificate
from lower.instance import HardInstance
from lower.known import GatedKnownPart, KnownPart

__all__ = ["Definition", "Heads", "Verification", "verify_instance"]

# what a number that was computed on another machine may be off, relative to its size
_AGREES = 1e-9
_NUMBER = re.compile(r"[-+]?\d+(?:\.\d+)?(?:e[-+]?\d+)?")


@dataclass(frozen=True, eq=False)
class Heads:
    """Heads behind a gate, by their numbers: Theta_i = beta_i (sum_j v_j E_j - t_i E_o) and W_i = c_i e_g w^T.

    E_j is 1 at one place of coordinate j and 0 elsewhere, and o is a coordinate with v_o = 0.

    Attributes
    ----------
    form : array of int (d,)
        v.
    rows, columns : int or array of int (d,)
        Where the 1 of each E_j is: row and column j for heads that compare two tokens.
    offset : int
        The coordinate o.
    gate : int
        The gate coordinate g.
    direction : array (d,)
        The output direction w.
    slopes, thresholds, coefficients : array (m,)
        beta_i, t_i and c_i.
    """

    form: Int[np.ndarray, " d"]
    rows: int | Int[np.ndarray, " d"]
    columns: int | Int[np.ndarray, " d"]
    offset: int
    gate: int
    direction: Float[np.ndarray, " d"]
    slopes: Float[np.ndarray, " m"]
    thresholds: Float[np.ndarray, " m"]
    coefficients: Float[np.ndarray, " m"]

    def differences(self, layer: AttentionLayer) -> Iterator[str]:
        """What of a layer is not made of these heads, one sentence each; nothing if every entry is theirs.

        Entries must be the float64 products of the numbers exactly, and all other entries 0; O(m d^2).
        """
        if len(self.slopes) != layer.heads:
            yield f"the layer has {layer.heads} heads, the family's has {len(self.slopes)}"
            return
        rows, columns = np.broadcast_arrays(self.rows, self.columns, np.arange(layer.dim))[:2]
        with np.errstate(all="ignore"):
            theta = np.outer(self.slopes, self.form)
            theta[:, self.offset] = -self.slopes * self.thresholds
            w = np.outer(self.coefficients, self.direction)
        for name, array, own, at, expected in (
            ("Theta", layer.theta, layer.theta[:, rows, columns], (rows, columns), theta),
            ("W", layer.w, layer.w[:, self.gate], (np.full(layer.dim, self.gate), np.arange(layer.dim)), w),
        ):
            wrong = np.argwhere(own != expected)
            if len(wrong):
                head, j = wrong[0]
                yield (
                    f"{name} of head {head} is {own[head, j]} at ({at[0][j]}, {at[1][j]}), the family's has "
                    f"{expected[head, j]} there" + (f" ({len(wrong)} such entries)" if len(wrong) > 1 else "")
                )
            elsewhere = np.count_nonzero(array) - np.count_nonzero(own)
            if elsewhere:
                yield f"{name} has {elsewhere} entries other than 0 where the family's heads have none"


@dataclass(frozen=True, eq=False)
class Definition:
    """What a family says of one instance, from nothing but the instance's public numbers and its secret.

    Attributes
    ----------
    heads : Heads
        The heads that the layer must consist of.
    error : callable
        Gives a proved bound, over all inputs, on the row norm of what these heads compute minus the family's ideal
        target.
    inputs, secret, known, certificate, parameters
        What the instance must have under these names.
    """

    heads: Heads
    error: Callable[[], float]
    inputs: Inputs
    secret: Int[np.ndarray, " entries"]
    known: KnownPart
    certificate: Certificate
    parameters: Mapping[str, Any]

    @classmethod
    def of(cls, made: HardInstance, heads: Heads, error: Callable[[], float]) -> "Definition":
        """The definition whose every statement is that of an instance that the family made again."""
        return cls(heads, error, made.inputs, made.secret, made.known, made.certificate, made.parameters)


@dataclass(frozen=True)
class Verification:
    """Whether an instance is what it says, on all inputs at once.

    Attributes
    ----------
    family : str
        The family it says it is of.
    reasons : tuple of str
        What contradicts that; empty if nothing does.
    realisation_error : float or None
        The bound on the layer's distance from its ideal target, proved again from the heads read; None where they
        are not the family's.
    heads : int
        How many heads were read; 0 where they are not the family's.
    """

    family: str
    reasons: tuple[str, ...]
    realisation_error: float | None
    heads: int

    @property
    def holds(self) -> bool:
        """Whether nothing contradicts the instance."""
        return not self.reasons

    def __str__(self) -> str:
        if self.reasons:
            return "\n  - ".join(["NOT verified:", *self.reasons])
        return (
            f"Verified on all inputs: {self.heads} head{'s' * (self.heads != 1)} read back, realisation error "
            f"{self.realisation_error:.2g}, certificate and known part recomputed."
        )

    def to_json(self) -> dict[str, Any]:
        """The verdict `holds` and the fields as plain JSON values."""
        return {"holds": self.holds, **asdict(self), "reasons": list(self.reasons)}


@checked
def verify_instance(
    instance: HardInstance, definitions: Mapping[str, Callable[[HardInstance], Definition]]
) -> Verification:
    """Hold an instance to its family's definition: the heads of its layer, and every other statement it makes.

    Parameters
    ----------
    instance : HardInstance
        The instance.
    definitions : mapping of str to callable
        Maps the name of a family to its `Definition` of an instance: `sq.DEFINITIONS`, `lwe.DEFINITIONS` or both.

    Raises
    ------
    ValueError
        If something else than an instance is given. An instance that contradicts itself is not verified, with reasons.

    Notes
    -----
    The layer must consist of the family's heads, entry by entry. Its value on every input then follows from their
    numbers, and no input is tried. All else is computed again from the parameters and the secret. Numbers may differ by
    1e-9 of their size, and numbers within texts by one unit of their last digit: machines differ in the last digits of
    a tanh. The realisation error is proved again from the stored numbers in decimal arithmetic, alike on all machines:
    the file's must be that number, as a larger one hides a wrong layer and a smaller one is false.

    O(m d^2), and what making the certificate takes.

    Examples
    --------
    >>> from sq import DEFINITIONS, BumpFamily
    >>> print(verify_instance(BumpFamily(dim=6, bits=4).instance(3), DEFINITIONS))
    Verified on all inputs: 2 heads read back, realisation error 3.1e-17, certificate and known part recomputed.
    """
    family = instance.family
    if family not in definitions:
        return Verification(family, (f"no definition of the family {family!r} is known",), None, 0)
    try:
        defined = definitions[family](instance)
        proved = float(defined.error())
    except KeyError as error:
        return Verification(family, (f"parameter {error.args[0]}: missing",), None, 0)
    except (ValueError, TypeError, LookupError, ArithmeticError) as error:
        return Verification(family, (f"parameters and secret describe no {family}: {error}",), None, 0)
    differences = tuple(defined.heads.differences(instance.layer))
    reasons = (*differences, *_contradictions(instance, defined, proved))
    if differences:
        return Verification(family, reasons, None, 0)
    return Verification(family, reasons, proved, instance.layer.heads)


def _contradictions(instance: HardInstance, made: Definition, error: float) -> Iterator[str]:
    if inputs_to_json(instance.inputs) != inputs_to_json(made.inputs):
        yield f"inputs: {instance.inputs}, the family's are {made.inputs}"
    if not np.array_equal(instance.secret, made.secret):
        yield f"secret: {shown(instance.secret.tolist())}, the family writes it {shown(made.secret.tolist())}"
    for name in sorted({*instance.parameters, *made.parameters}):
        if name not in made.parameters:
            yield f"parameter {name}: the family has none of that name"
        elif name not in instance.parameters:
            yield f"parameter {name}: missing, the family's is {shown(made.parameters[name])}"
        elif not _alike(instance.parameters[name], made.parameters[name]):
            yield (
                f"parameter {name}: the file's is {shown(instance.parameters[name])}, the family's "
                f"{shown(made.parameters[name])}"
            )
    difference = _difference(instance.known, made.known)
    if difference is None:
        yield "known part: the file's has another gate or another number of tokens than the family's"
    elif difference:
        yield f"known part: the file's differs from the family's by {difference:.3g}"
    if not _alike(instance.realisation_error, error):
        yield f"realisation error: the file's is {instance.realisation_error:.6g}, proved is {error:.6g}"
    yield from _misstatements(instance.certificate, made.certificate, error)


def _misstatements(certificate: Certificate, made: Certificate, error: float) -> Iterator[str]:
    own, wanted = ([one.name for one in each] for each in (certificate, made))
    if own != wanted:
        missing, more = (
            [name for name in one if name not in other] for one, other in ((wanted, own), (own, wanted))
        )
        said = [f"{word} {', '.join(names)}" for word, names in (("lacks", missing), ("adds", more)) if names]
        yield f"certificate: {' and '.join(said) or 'its statements are in another order'}"
    for one in made:
        if one.name not in own:
            continue
        given = certificate[one.name]
        # proved from the stored numbers, on whose last digits it depends
        value = error if one.name == "realisation error" else one.value
        if not _alike(given.value, value):
            yield f"certificate, {one.name}: {shown(given.value)}, recomputed {shown(value)}"
        if given.status != one.status:
            yield f"certificate, {one.name}: called {given.status}, it is {one.status}"
        for text, ours in ((given.meaning, one.meaning), (given.source, one.source)):
            if not _same_text(text, ours):
                alike = sum(
                    1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(text, ours, strict=False))
                )
                cut = slice(max(0, alike - 20), alike + 40)
                yield f"certificate, {one.name}: it says {text[cut]!r}, the family's says {ours[cut]!r}"


def _alike(given: Any, own: Any, *, floor: float = 0.0) -> bool:
    """Whether two JSON values are the same, but for the last digits of fractions."""
    if isinstance(own, list):
        size = max((abs(one) for one in own if isinstance(one, float)), default=0.0)
        return (
            isinstance(given, list)
            and len(given) == len(own)
            and all(_alike(*pair, floor=max(floor, _AGREES * size)) for pair in zip(given, own, strict=True))
        )
    if isinstance(own, float):
        return isinstance(given, float) and math.isclose(given, own, rel_tol=_AGREES, abs_tol=floor)
    if isinstance(own, str):
        return isinstance(given, str) and _same_text(given, own)
    return type(given) is type(own) and bool(given == own)


def _same_text(given: str, own: str) -> bool:
    """Whether two texts are the same, but for one unit of the last digit of their numbers."""
    if given == own:
        return True
    if _NUMBER.sub("#", given) != _NUMBER.sub("#", own):
        return False
    pairs = zip(map(Decimal, _NUMBER.findall(given)), map(Decimal, _NUMBER.findall(own)), strict=True)
    return all(
        one == two or ("." in str(two) and abs(one - two) <= Decimal(10) ** _last(two)) for one, two in pairs
    )


def _last(number: Decimal) -> int:
    return int(number.as_tuple().exponent)


def _difference(known: KnownPart, made: KnownPart) -> float | None:
    """The most by which two known parts differ in a number, 0 where that is rounding; None if they are of two kinds."""
    if any(getattr(known, name, None) != getattr(made, name, None) for name in ("k", "d", "gate")):
        return None
    pairs = zip(_matrices(known), _matrices(made), strict=True)
    with np.errstate(over="ignore"):
        found = [(float(np.abs(one - own).max()), float(np.abs(own).max())) for one, own in pairs]
    return max((off for off, size in found if off > _AGREES * size), default=0.0)


def _matrices(known: KnownPart) -> list[np.ndarray]:
    parts = [known.on, known.off] if isinstance(known, GatedKnownPart) else [known]
    return [one for part in parts for one in (part.mixing, part.projection)]

"""Verify a hard instance, such as one from a file: make it again from its parameters and secret, and compare."""

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from decimal import Decimal
from typing import Any

import numpy as np

from attention._arrays import shown
from attention.inputs import inputs_to_json
from attention.validation import checked
from lower.family import family_of
from lower.instance import HardInstance, tensors_of

__all__ = ["Verification", "verify_instance"]

# the allowed relative difference between numbers computed on two machines
_AGREES = 1e-9
_NUMBER = re.compile(r"[-+]?\d+(?:\.\d+)?(?:e[-+]?\d+)?")


@dataclass(frozen=True)
class Verification:
    """The result of a verification, which covers all inputs at once."""

    family: str  #: the family that the instance names
    reasons: tuple[str, ...]  #: what contradicts the instance; empty if nothing does
    #: the bound on the layer's distance from its ideal target, proved again; None if the layer is not one of the
    #: family
    realisation_error: float | None
    heads: int  #: how many heads were read; 0 if the layer is not one of the family

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
def verify_instance(instance: HardInstance) -> Verification:
    """Compare an instance with the one that its family in `FAMILIES` makes from the same parameters and secret.

    Notes
    -----
    Layer, known part, secret and inputs must agree exactly. The layer's value on every input follows from them, so no
    input is tried. Numbers of the certificate and the scale may differ by a relative 1e-9, and numbers within texts by
    one unit of their last digit: machines differ in the last digits of a logarithm. The realisation error is proved
    again, and the instance must state that number: a larger one hides a wrong layer, and a smaller one is false.

    O(m d^2), plus the cost of making the certificate.

    Examples
    --------
    >>> from sq import BumpFamily
    >>> print(verify_instance(BumpFamily(dim=6, bits=4).instance(3)))
    Verified on all inputs: 2 heads read back, realisation error 3.1e-17, certificate and known part recomputed.
    """
    family = instance.family
    try:
        own = family_of(instance)
        sizes = (own.dim, own.tokens)
        if sizes != (instance.layer.dim, instance.inputs.k):
            raise ValueError(f"they are for d, k = {sizes}")
        made = own.realise(own.read_secret(instance.secret), instance.parameters.get("direction"))
    except (ValueError, TypeError, LookupError, ArithmeticError, RecursionError) as error:
        return Verification(family, (f"parameters and secret describe no {family}: {error}",), None, 0)
    arrays = dict(_array_differences(tensors_of(instance), tensors_of(made)))
    reasons = (*arrays.values(), *_differences("", _said(instance), _said(made)))
    given, wanted = inputs_to_json(instance.inputs), inputs_to_json(made.inputs)
    if given != wanted:
        reasons = (f"inputs: the file's are {shown(given)}, the family's {shown(wanted)}", *reasons)
    if {"theta", "w"} & set(arrays):
        return Verification(family, reasons, None, 0)
    return Verification(family, reasons, made.realisation_error, made.layer.heads)


def _array_differences(
    found: Mapping[str, np.ndarray], wanted: Mapping[str, np.ndarray]
) -> Iterator[tuple[str, str]]:
    for name in {**wanted, **found}:
        if name not in found or name not in wanted:
            yield name, f"{name}: {'missing' if name in wanted else 'the family has none of that name'}"
        elif found[name].shape != wanted[name].shape:
            yield name, f"{name}: the file's has shape {found[name].shape}, the family's {wanted[name].shape}"
        elif len(wrong := np.argwhere(found[name] != wanted[name])):
            place = tuple(map(int, wrong[0]))
            more = f" ({len(wrong)} such entries)" if len(wrong) > 1 else ""
            yield (
                name,
                f"{name}: the file's is {found[name][place]} at {place}, the family's {wanted[name][place]}{more}",
            )


def _said(instance: HardInstance) -> dict[str, Any]:
    """The statements of an instance beside its arrays."""
    return {
        "known part": {"gate": getattr(instance.known, "gate", None)},
        "parameter": instance.parameters,
        "realisation error": instance.realisation_error,
        "certificate": {one.name: asdict(one) for one in instance.certificate},
    }


def _differences(where: str, given: Any, own: Any) -> Iterator[str]:
    if isinstance(own, Mapping) and isinstance(given, Mapping):
        for name in sorted({*given, *own}):
            place = f"{where}, {name}" if where else name
            if name not in given or name not in own:
                yield f"{place}: {'missing' if name in own else 'the family has none of that name'}"
            else:
                yield from _differences(place, given[name], own[name])
    elif not _alike(given, own):
        yield f"{where}: the file's is {shown(given)}, the family's {shown(own)}"


def _alike(given: Any, own: Any) -> bool:
    """Whether two values are the same up to the last digits of fractions."""
    if isinstance(own, list) and isinstance(given, list):
        return len(given) == len(own) and all(map(_alike, given, own))
    if isinstance(own, float):
        return isinstance(given, float) and math.isclose(given, own, rel_tol=_AGREES)
    if isinstance(own, str):
        return isinstance(given, str) and _same_text(given, own)
    return type(given) is type(own) and bool(given == own)


def _same_text(given: str, own: str) -> bool:
    """Whether two texts are the same up to one unit of the last digit of their numbers."""
    if given == own:
        return True
    if _NUMBER.sub("#", given) != _NUMBER.sub("#", own):
        return False
    pairs = zip(map(Decimal, _NUMBER.findall(given)), map(Decimal, _NUMBER.findall(own)), strict=True)
    return all(
        one == two or ("." in str(two) and abs(one - two) <= Decimal(10) ** int(two.as_tuple().exponent))
        for one, two in pairs
    )

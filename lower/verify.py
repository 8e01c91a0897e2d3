"""Verify a hard instance, such as one from a file: make it again from its parameters and secret, and compare."""

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from attention._arrays import shown
from attention.inputs import inputs_to_json
from attention.validation import checked
from lower.family import family_of, realised_again
from lower.instance import HardInstance, tensors_of

__all__ = ["Verification", "verify_instance"]


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
    Layer, known part, secret, inputs and parameters must agree bit for bit. The layer's value on every input follows
    from them, so no input is tried. The facts of the certificate must be those that the family states, with their
    status and source. Integers, words and numbers that every machine computes alike must be equal; the others may
    differ by twice the bound on their rounding error (`lower.certificate`). The realisation error is proved
    again, and the instance must state that number: a larger one hides a wrong layer, and a smaller one is false.
    No sentence and no estimate is compared: an instance has none.

    O(m d^2), plus the cost of making the certificate.

    Examples
    --------
    >>> from sq import BumpFamily
    >>> print(verify_instance(BumpFamily(dim=6, bits=4).instance(3)))
    Verified on all inputs: 2 heads read back, realisation error 3.1e-17, certificate and known part recomputed.
    """
    family = instance.family
    try:
        made = realised_again(instance, family_of(instance))
    except (ValueError, TypeError, LookupError, ArithmeticError, RecursionError) as error:
        return Verification(family, (f"parameters and secret describe no {family}: {error}",), None, 0)
    arrays = dict(_array_differences(tensors_of(instance), tensors_of(made)))
    reasons = (*arrays.values(), *_differences(instance, made))
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


def _differences(given: HardInstance, own: HardInstance) -> Iterator[str]:
    """Where the statements beside the arrays differ."""
    gates = {"gate": getattr(given.known, "gate", None)}, {"gate": getattr(own.known, "gate", None)}
    yield from _entries("known part", *gates)
    yield from _entries("parameter", given.parameters, own.parameters)
    errors = given.realisation_error, own.realisation_error
    yield from _entries("realisation error", *({"bound": one} for one in errors))
    facts, computed = ({fact.name: fact for fact in one.certificate} for one in (given, own))
    for name in sorted({*facts, *computed}):
        if name not in facts or name not in computed:
            yield f"certificate, {name}: {'missing' if name in computed else 'the family has none of that name'}"
        elif not facts[name].agrees(computed[name]):
            yield f"certificate: the file's is {shown(str(facts[name]))}, the family's {shown(str(computed[name]))}"


def _entries(where: str, given: Mapping[str, Any], own: Mapping[str, Any]) -> Iterator[str]:
    """Entries of JSON values that are not the same, in type too."""
    for name in sorted({*given, *own}):
        if name not in given or name not in own:
            yield f"{where}, {name}: {'missing' if name in own else 'the family has none of that name'}"
        elif not _same(given[name], own[name]):
            yield f"{where}, {name}: the file's is {shown(given[name])}, the family's {shown(own[name])}"


def _same(given: Any, own: Any) -> bool:
    if isinstance(own, list | Mapping) and type(given) is type(own):
        places = own if isinstance(own, Mapping) else range(len(own))
        return len(given) == len(own) and all(
            (isinstance(own, list) or place in given) and _same(given[place], own[place]) for place in places
        )
    return type(given) is type(own) and bool(given == own)

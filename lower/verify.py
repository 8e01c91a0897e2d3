"""Verify a hard instance, such as one from a file: make it again from its parameters and secret, and compare."""

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from attention._arrays import shown
from attention.inputs import inputs_to_json
from attention.validation import checked
from lower.instance import HardInstance
from lower.instance_files import tensors_of


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
            f"{self.realisation_error:.2g}, certificate and known component recomputed."
        )

    def to_json(self) -> dict[str, Any]:
        """The verdict `holds` and the fields as plain JSON values."""
        return {"holds": self.holds, **asdict(self), "reasons": list(self.reasons)}


@checked
def verify_instance(instance: HardInstance) -> Verification:
    """Compare an instance with the one that its family makes from the same secret and direction.

    Notes
    -----
    Layer, known component, secret and inputs must agree bit for bit. The layer's value on every input follows
    from them, so no input is tried. The facts of the certificate must be those that the family states, with their
    status and source. Integers, words and numbers that every machine computes alike must be equal; the others may
    differ by twice the bound on their rounding error (`lower.certificate`). The realisation error is proved
    again, and the instance must state that number: a larger one hides a wrong layer, and a smaller one is false.
    No sentence and no estimate is compared: an instance has none.

    O(m d^2), plus the cost of making the certificate.

    Examples
    --------
    >>> from sq import ProfileFamily
    >>> print(verify_instance(ProfileFamily.bump(dim=6, bits=4).instance(3)))
    Verified on all inputs: 2 heads read back, realisation error 3.1e-17, certificate and known component recomputed.
    """
    family = instance.family.name
    try:
        made = instance.family.realise(instance.family.read_secret(instance.secret), instance.direction)
    except (ValueError, TypeError, LookupError, ArithmeticError, RecursionError) as error:
        return Verification(family, (f"secret and direction describe no {family}: {error}",), None, 0)
    arrays = dict(_array_differences(tensors_of(instance), tensors_of(made)))
    reasons = (*arrays.values(), *_differences(instance, made))
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
    for name, stated, wanted in (
        ("known component, gate", given.known.gate, own.known.gate),
        ("realisation error", given.realisation_error, own.realisation_error),
        ("inputs", inputs_to_json(given.inputs), inputs_to_json(own.inputs)),
    ):
        if stated != wanted:
            yield f"{name}: the file's is {shown(stated)}, the family's {shown(wanted)}"
    facts, computed = ({fact.name: fact for fact in one.certificate} for one in (given, own))
    for name in sorted({*facts, *computed}):
        if name not in facts or name not in computed:
            yield f"certificate, {name}: {'missing' if name in computed else 'the family has none of that name'}"
        elif not facts[name].agrees(computed[name]):
            yield f"certificate: the file's is {shown(str(facts[name]))}, the family's {shown(str(computed[name]))}"

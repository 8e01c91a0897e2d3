"""The family with a hidden gate: d times as many targets, and nothing known in advance reveals the gate."""

from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from jaxtyping import Float, Int

from lower import FAMILIES, Heads, KnownComponent, Option, SecretPairs, Word, register
from sq.family import SQFamily, makes
from sq.profile_family import ProfileFamily, gated_values
from sq.secret_set import GateAndSecretSet

_BASE = Option("The family whose gate is hidden; its c0 must be 0.")


def _of_base(name: str) -> Any:
    """A property that the family shares with its base."""
    return property(lambda family: getattr(family.base, name), doc=f"The base's `{name}`.")


@register
@dataclass(frozen=True, kw_only=True)
class HiddenGateFamily(SQFamily):
    """Layers of two tokens that hide their gate as well, so that nothing is known in advance.

    A symmetric family in which the gate is any coordinate and part of the secret: f = u_g (g(N_S) - mean) [1; -1] /
    deviation.

    ValueError if the base's c0 is not 0: then u_g appears in the known part and reveals the gate.

    Notes
    -----
    If the base's C is not 0, one more head has Theta = 0 and W = -C e_g w^T. It reads both tokens equally, so it adds
    -C a_g to both rows. Proved: nothing is known in advance (K = 0). Two targets with different gates have correlation
    0: exchanging entry g of the tokens changes the sign of u_g and nothing else. Two targets with the same gate have
    the correlation of the base. So the number of targets grows by the factor d, to d C(d - 1, l), and parities stay
    orthonormal. The direction w must not reveal the gate: it is the unit vector of the first coordinate or another
    given vector, the same for all targets.

    What breaks it: labels are 0 exactly off the gate, if the profile has no zero. So the statistical query
    1[label = 0] x_1j x_2j has mean 1/2 at j = g and 0 elsewhere: d queries find the gate. The factor d holds only for
    correlational queries. Everything that breaks the base also breaks this family.

    Examples
    --------
    >>> from sq.parities import ParityFamily
    >>> family = HiddenGateFamily(base=ParityFamily(dim=20, bits=3))
    >>> family.secrets.size, family.instance(0).layer, family.instance(0).known.is_zero
    (19380, AttentionLayer(heads=3, dim=20, dtype=float64), True)
    """

    name = "sq-hidden-gate"
    called = "Hidden gate, {base}"
    tabled: ClassVar = ({"bits": 1},)
    base: Annotated[ProfileFamily, _BASE]

    def __post_init__(self) -> None:
        super().__post_init__()  # type: ignore[misc]
        if self.base.c0 != 0:
            raise ValueError(
                f"The family's c0 is {self.base.c0:.6g}: a family with c0 = 0 is needed, such as parities by "
                "construction D, or B and C with an odd number of bits."
            )

    @classmethod
    def preset_options(cls) -> dict[str, Option]:
        """The name of a base, and the options of all bases."""
        bases = _bases()
        found = {"base": replace(_BASE, preset="parity", kind=Literal[tuple(bases)])}
        for name, one in (pair for base in bases.values() for pair in base.options().items()):
            found.setdefault(name, replace(one, kind=one.kind | None, preset=None))
        return found

    @classmethod
    def of_presets(cls, base: str = "parity", **parameters: Any) -> "HiddenGateFamily":
        """The family of a base with presets for what is left out."""
        kind = _bases()[base]
        if unused := set(parameters) - set(kind.options()):
            raise ValueError(
                f"{', '.join(sorted(unused))} is given with the base {base}, which has no use for it: leave it out."
            )
        return cls(base=kind.preset(**{"bits": 3, **parameters} if base == "parity" else parameters))

    @property
    def dim(self) -> int:
        """The number d of coordinates of a token."""
        return self.base.dim

    @property
    def title(self) -> str:
        """A title for people."""
        base = self.base.titled(len(self.heads))
        return self.called.format(base=base[0].lower() + base[1:])

    @cached_property
    def secrets(self) -> GateAndSecretSet:
        """The gates with the sets of l other coordinates."""
        return GateAndSecretSet(dim=self.dim, bits=self.base.bits)

    @cached_property
    def heads(self) -> Heads:
        """The base's heads and, if its C is not 0, a head that reads both tokens equally."""
        own, c = self.base.heads, self.base.c
        more = ([0.0], [-c], [0.0]) if c != 0 else ([], [], [])
        parts = (
            np.append(one, more)
            for one, more in zip((own.thresholds, own.coefficients, own.slopes), more, strict=True)
        )
        return Heads.counting(self.base.bits, *parts)

    c = 0.0  # the added head cancels the base's output off the gate
    values = _of_base("values")
    scale = _of_base("scale")
    noise = _of_base("noise")
    rows_agree = True
    orthonormal = _of_base("orthonormal")
    largest_eigenvalue = _of_base("largest_eigenvalue")  # targets with different gates are orthogonal
    largest_correlation = _of_base("largest_correlation")
    lowest_degree = _of_base("lowest_degree")

    def heads_of(self, secret: Int[np.ndarray, " entries"], direction: Float[np.ndarray, " d"]) -> Heads:
        """The heads that hide a gate and a set."""
        return self.heads.placed(secret[1:], dim=self.dim, gate=int(secret[0]), direction=direction)

    def known(self, direction: Float[np.ndarray, " d"]) -> KnownComponent:
        """Nothing is known in advance."""
        return KnownComponent.zero(2, self.dim)

    def hidden(self, number: int, x: Float[np.ndarray, "n k d"]) -> Float[np.ndarray, "n k"]:
        """f: on the hidden gate the normalised profile at N_S, with opposite signs in the two rows."""
        x = self.tokens_of(x)
        gate, *chosen = self.secrets.unrank(number)
        return gated_values(self.base.normalised_profile, np.array(chosen), int(gate), x)

    def correlations(self, number: int) -> Float[np.ndarray, " N"]:
        """The base's correlation at the overlap of the secrets where the gates agree, else 0; O(N l)."""
        secret = self.secrets.unrank(number)
        same = self.secrets.table[:, 0] == secret[0]
        return np.where(same, self.base.overlap_correlations[self.secrets.overlaps(secret)], 0.0)

    @cached_property
    def secret_pairs(self) -> SecretPairs:
        """The base's pairs where the gates agree, with probability 1/d; no correlation where they differ."""
        own, same = self.base.secret_pairs, Fraction(1, self.dim)
        return SecretPairs((*(same * one for one in own.chances), 1 - same), (*own.correlations, (0,)))

    @property
    def broken_by(self) -> tuple[Word, ...]:
        """Labels are 0 off the gate, which d queries that are no correlational ones see; then what breaks the base."""
        return (Word.GATE, *self.base.broken_by)


def _bases() -> dict[str, Any]:
    return {one.name.removeprefix("sq-"): one for one in FAMILIES.values() if makes(one, ProfileFamily)}

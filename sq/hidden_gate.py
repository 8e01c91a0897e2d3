"""The gate hidden as well: a symmetric family times d, where nothing known in advance gives the gate away."""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from jaxtyping import Bool, Float, Int
from numpy.typing import ArrayLike

from attention import AttentionLayer, BooleanInputs
from attention.inputs import Rng
from attention.memory import require_memory
from lower import Certificate, HardInstance, LinearKnownPart, Statement, query_lower_bound
from sq.realisation import error_along, require_layer_memory, unit_direction
from sq.secret_set import SecretSet
from sq.symmetric import SymmetricFamily, gated_values
from sq.target_family import require_tokens

__all__ = ["GateAndSecretSet", "HiddenGateFamily"]


@dataclass(frozen=True)
class GateAndSecretSet(SecretSet):
    """The d C(d - 1, l) pairs of a gate g and a set S of l other coordinates, numbered gate by gate.

    Their tables and `unrank` give l + 1 numbers, the gate first and S in increasing order after it.

    Parameters
    ----------
    dim : int
        The number d of coordinates of a token.
    bits : int
        The number l of coordinates in S.

    Examples
    --------
    >>> secrets = GateAndSecretSet(dim=4, bits=2)
    >>> len(secrets), secrets.table[:4].tolist(), secrets.unrank(11), secrets.rank([3, 1, 2])
    (12, [[0, 1, 2], [0, 1, 3], [0, 2, 3], [1, 0, 2]], array([3, 1, 2]), 11)
    """

    @cached_property
    def size(self) -> int:
        """N, of at most a million binary digits."""
        return self.dim * self._others.size

    @cached_property
    def _others(self) -> SecretSet:
        # sets of the d - 1 coordinates that are left: those from the gate on move up by one
        return SecretSet(dim=self.dim - 1, bits=self.bits, first=0)

    @cached_property
    def table(self) -> Int[np.ndarray, "N entries"]:
        """Every gate and secret, the gate first.

        Raises
        ------
        ValueError
            If there are more than twenty million.
        """
        size = self._listed()
        require_memory(
            f"The table of {size} secrets",
            8 * size * (self.bits + 1),
            advice="take fewer bits or coordinates",
        )
        sets = self._others.table
        gates = np.arange(self.dim, dtype=sets.dtype)
        moved = sets[None] + (sets[None] >= gates[:, None, None])
        first = np.broadcast_to(gates[:, None, None], (self.dim, len(sets), 1))
        return np.concatenate([first, moved], axis=2).reshape(size, self.bits + 1)

    @cached_property
    def members(self) -> Bool[np.ndarray, "N d"]:
        """Which coordinates are in which S, the gate not counted."""
        size = self._listed()
        require_memory(
            f"The table of {size} secrets",
            size * (self.dim + 16 * self.bits),
            advice="take fewer bits or coordinates",
        )
        held = np.zeros((size, self.dim), dtype=bool)
        np.put_along_axis(held, self.table[:, 1:].astype(np.int64), True, axis=1)
        return held

    def overlaps(self, secret: ArrayLike) -> Int[np.ndarray, " N"]:
        """How many coordinates each S shares with the one given, whatever the gates; O(N l)."""
        chosen = np.zeros(self.dim, dtype=np.int64)
        chosen[self._gate_and_set(secret)[1]] = 1
        return chosen[self.table[:, 1:]].sum(axis=1)

    def rank(self, secret: ArrayLike) -> int:
        """The number of a gate and secret.

        Raises
        ------
        ValueError
            If it is not a gate followed by l other coordinates.
        """
        gate, chosen = self._gate_and_set(secret)
        return gate * self._others.size + self._others.rank(chosen - (chosen > gate))

    def unrank(self, number: int) -> Int[np.ndarray, " entries"]:
        """The gate and secret of that number.

        Raises
        ------
        ValueError
            If there is none.
        """
        gate, left = divmod(self.checked_number(number), self._others.size)
        chosen = self._others.unrank(left)
        return np.concatenate([[gate], chosen + (chosen >= gate)])

    def _gate_and_set(self, secret: ArrayLike) -> tuple[int, np.ndarray]:
        given = np.asarray(secret)
        if (
            given.shape != (self.bits + 1,)
            or given.dtype.kind not in "iu"
            or len(np.unique(given)) != self.bits + 1
            or np.any((given < 0) | (given >= self.dim))
        ):
            raise ValueError(
                f"The secret is {secret!r}: a gate and {self.bits} other coordinates, from 0 to {self.dim - 1}, are "
                "needed."
            )
        return int(given[0]), np.sort(given[1:]).astype(np.int64)


@dataclass(frozen=True, kw_only=True)
class HiddenGateFamily:
    """A symmetric family whose gate is any coordinate, and secret: f = u_g (g(N_S) - mean) [1; -1] / deviation.

    Parameters
    ----------
    base : SymmetricFamily
        The family whose gate is hidden: c0 = 0 is needed. Constructions D and C (odd l), B (odd l) of `ParityFamily`
        and `TwoSlopeFamily` have it. If its C is not 0, one head with Theta = 0 and W = -C e_g w^T is added, which
        reads both tokens alike and so adds -C a_g to both rows.

    Raises
    ------
    ValueError
        If the base's c0 is not 0: then u_g is seen in the known part, and the gate with it.

    Notes
    -----
    Proved: nothing is known in advance (K = 0), and two targets with different gates have correlation 0, since u_g
    changes sign when entry g of the tokens is exchanged and all else does not; with one gate it is the base's. So
    the number of targets grows d-fold, to d C(d - 1, l), and parities stay orthonormal. The direction w must not tell
    the gate either: it is the first coordinate's unit vector, or one of your own, the same for all.

    What breaks it: labels are 0 exactly off the gate (where the profile has no zero), so the statistical query
    1[label = 0] x_1j x_2j has mean 1/2 at j = g and 0 elsewhere: d queries find the gate. The factor d holds for
    correlational queries alone. Beyond that, what breaks the base.

    References
    ----------
    Derived here.

    Examples
    --------
    >>> from sq.parities import ParityFamily
    >>> family = HiddenGateFamily(base=ParityFamily(dim=20, bits=3))
    >>> family.secrets.size, family.instance(0).layer, family.instance(0).known.is_zero
    (19380, AttentionLayer(heads=3, dim=20, dtype=float64), True)
    """

    base: SymmetricFamily

    def __post_init__(self) -> None:
        if not isinstance(self.base, SymmetricFamily):
            raise ValueError(
                f"base is a {type(self.base).__name__}: a family of two tokens with a gate and a profile is needed, "
                "such as ParityFamily, BumpFamily or TwoSlopeFamily."
            )
        if self.base.c0 != 0:
            raise ValueError(
                f"The family's c0 is {self.base.c0:.6g}: a family with c0 = 0 is needed, such as parities by "
                "construction D, or B and C with an odd number of bits."
            )

    @property
    def name(self) -> str:
        """The family's name."""
        return f"hidden-gate-{self.base.name}"

    @property
    def tokens(self) -> int:
        """Two."""
        return 2

    @property
    def dim(self) -> int:
        """The number d of coordinates of a token."""
        return self.base.dim

    @property
    def bits(self) -> int:
        """The number l of hidden coordinates beside the gate."""
        return self.base.bits

    @property
    def orthonormal(self) -> bool:
        """Whether the base's targets are orthonormal: then all are."""
        return self.base.orthonormal

    @property
    def scale(self) -> float:
        """What the hidden part was divided by."""
        return self.base.scale

    @property
    def c(self) -> float:
        """Zero: the added head takes what the base shows off the gate away."""
        return 0.0

    @property
    def c0(self) -> float:
        """Zero, as the base's."""
        return 0.0

    @property
    def heads_count(self) -> int:
        """The base's heads, and one more where its C is not 0."""
        return len(self.base.heads.thresholds) + (self.base.c != 0)

    @property
    def lowest_degree(self) -> int:
        """The lowest degree in the entries of X of the hidden part, the base's."""
        return self.base.lowest_degree

    @cached_property
    def secrets(self) -> GateAndSecretSet:
        """The gates with the sets of l other coordinates."""
        return GateAndSecretSet(dim=self.dim, bits=self.bits)

    def hidden(self, number: int, x: Float[np.ndarray, "n k d"]) -> Float[np.ndarray, "n k"]:
        """f: on the hidden gate the normalised profile at N_S, with opposite signs in the two rows."""
        x = require_tokens(x, self.tokens, self.dim)
        gate, *chosen = self.secrets.unrank(number)
        return gated_values(self.base.normalised_profile, np.array(chosen), int(gate), x)

    def correlations(self, number: int) -> Float[np.ndarray, " N"]:
        """The base's correlation at the overlap of the secrets where the gates agree, else 0; O(N l)."""
        secret = self.secrets.unrank(number)
        same = self.secrets.table[:, 0] == secret[0]
        return np.where(same, self.base.overlap_correlations[self.secrets.overlaps(secret)], 0.0)

    def instance(
        self, number: int | None = None, *, rng: Rng = None, direction: ArrayLike | None = None
    ) -> HardInstance:
        """The target of that number, or of one drawn with `rng`, as attention heads with a certificate.

        Parameters
        ----------
        number : int, optional
            Which gate and secret; drawn when left out.
        rng : optional
            Anything `numpy.random.default_rng` accepts (SPEC 7).
        direction : array (d,), optional
            The output direction w, scaled to norm 1; the first coordinate's unit vector, whatever the gate, when
            left out.
        """
        require_layer_memory(self.heads_count, self.dim)
        if number is None:
            number = self.secrets.draw(rng)
        secret, w = self.secrets.unrank(number), unit_direction(direction, self.dim)
        gate, base, c = int(secret[0]), self.base, self.base.c
        layer = base.heads.layer(secret[1:], dim=self.dim, gate=gate, direction=w)
        coefficients = base.heads.coefficients
        thresholds, slopes = base.heads.thresholds, base.heads.slopes
        if c != 0:
            coefficients = np.append(coefficients, -c)
            thresholds, slopes = np.append(thresholds, 0.0), np.append(slopes, 0.0)
            level = np.zeros((1, self.dim, self.dim))
            level[0, gate] = -c * w
            layer = AttentionLayer(
                theta=np.concatenate([layer.theta, np.zeros_like(level)]), w=np.concatenate([layer.w, level])
            )
        error = error_along(base.error(), coefficients, w)
        return HardInstance(
            family=f"sq-{self.name}",
            layer=layer,
            inputs=BooleanInputs(k=2, d=self.dim),
            secret=secret,
            known=LinearKnownPart.zero(2, self.dim),
            certificate=self._certificate(error),
            realisation_error=error,
            parameters={
                "bits": self.bits,
                "direction": w.tolist(),
                "profile": base.profile.tolist(),
                "thresholds": thresholds.tolist(),
                "coefficients": coefficients.tolist(),
                "slopes": slopes.tolist(),
                "scale": self.scale,
            },
        )

    def _certificate(self, error: float) -> Certificate:
        name, targets = f"sq-{self.name}", self.secrets.size
        base = self.base.instance(0).certificate
        kept = [
            replace(one, value=error) if one.name == "realisation error" else one
            for one in base
            if one.name in _OF_BASE
        ]
        bounds = [
            Statement(
                f"queries at tolerance {tau}",
                query_lower_bound(targets, tau),
                "A deterministic learner that identifies gate and secret needs at least this many correlational "
                f"queries of tolerance {tau}, asked of the hidden part scaled to norm 1. Other statistical queries are "
                "not covered.",
                "proved",
                "lower.query_lower_bound",
            )
            for tau in ("0.3", "0.1", "0.05")
            if self.orthonormal
        ]
        return Certificate(
            name,
            (
                Statement(
                    "targets",
                    targets,
                    f"{self.heads_count} heads hide a gate and {self.bits} other coordinates: "
                    f"{self.dim} C({self.dim - 1}, {self.bits}) targets.",
                    "derived",
                    "Derived here; checked by enumeration at small d",
                ),
                Statement(
                    "share of the energy that is unknown",
                    1.0,
                    "Nothing is known in advance: C = c0 = 0.",
                    "derived",
                    "Derived here; checked by enumeration at small d",
                ),
                *kept,
                *bounds,
                replace(
                    base["verdict"], meaning=f"Of the base, whose gate is known. {base['verdict'].meaning}"
                ),
                Statement(
                    "who finds the gate",
                    "whether a label is 0",
                    f"Off the gate labels are 0: {self.dim} statistical queries that are no correlational ones.",
                    "derived",
                    "Derived here",
                ),
                Statement(
                    "who breaks it",
                    "finding the gate, then what breaks the base",
                    "The gate is the coordinate in which the tokens differ in every example whose label is not 0. With "
                    f"it: {self.base.broken_by}",
                    "derived",
                    "Derived here",
                ),
            ),
        )


_OF_BASE = frozenset(
    {
        "correlation of two targets, known part off",
        "largest correlation of two targets",
        "lowest degree of the unknown part",
        "realisation error",
    }
)

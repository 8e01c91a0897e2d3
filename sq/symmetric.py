"""What families with a symmetric profile share: two tokens, a gate, and a function g of how many secret bits differ."""

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike

from attention import AttentionLayer, BooleanInputs
from attention.inputs import Rng
from attention.validation import count
from lower import Certificate, HardInstance, LinearKnownPart, Statement, query_verdict
from sq.krawtchouk import fourier_weights, overlap_correlations, profile_moments
from sq.realisation import (
    error_along,
    require_layer_memory,
    require_layer_secret,
    require_realisable,
    supremum_error,
    unit_direction,
)
from sq.secret_set import SecretSet
from sq.target_family import require_tokens

__all__ = [
    "GateHeads",
    "ProfileHeads",
    "SymmetricFamily",
    "gated_values",
    "profile_error",
    "staircase_profile",
]

_ABSENT = 1e-12
_MOST_BITS_OF_BOUNDS = 24  # exact eigenvalues take O(l^3) long fractions
# what cancellation leaves of the digits of a profile
_PARITY = 1e-6


@runtime_checkable
class GateHeads(Protocol):
    """Heads that compute a function of N behind a gate, the same for every secret."""

    @property
    def thresholds(self) -> np.ndarray:
        """t_i, one a head."""

    @property
    def coefficients(self) -> np.ndarray:
        """c_i, one a head."""

    @property
    def slopes(self) -> np.ndarray:
        """beta_i, one a head."""

    def layer(
        self, secret: ArrayLike, *, dim: int, gate: int = 0, direction: np.ndarray | None = None
    ) -> AttentionLayer:
        """The layer that hides the coordinates `secret` of `dim`."""


@dataclass(frozen=True, eq=False)
class ProfileHeads:
    """Heads with Theta_i = beta_i (sum_{j in S} e_j e_j^T - t_i e_g e_g^T) and W_i = c_i e_g w^T.

    On the gate they compute sum_i c_i tanh(beta_i (N - t_i)). Unlike those of a `lower.Staircase`, the thresholds
    are any numbers, whole ones among them.

    Attributes
    ----------
    thresholds, coefficients, slopes : array (m,)
        t_i, c_i and beta_i > 0.
    """

    thresholds: Float[np.ndarray, " m"]
    coefficients: Float[np.ndarray, " m"]
    slopes: Float[np.ndarray, " m"]

    def layer(
        self, secret: ArrayLike, *, dim: int, gate: int = 0, direction: np.ndarray | None = None
    ) -> AttentionLayer:
        """The layer that hides the coordinates `secret` of `dim`; O(m d^2) numbers."""
        dim = count("dim", dim)
        require_layer_secret(secret, gate, direction, dim)
        require_layer_memory(len(self.thresholds), dim)
        w = np.zeros((len(self.thresholds), dim, dim))
        w[:, gate, :] = np.outer(self.coefficients, np.eye(dim)[gate] if direction is None else direction)
        theta = np.zeros_like(w)
        chosen = np.asarray(secret, dtype=np.int64)
        theta[:, chosen, chosen] = self.slopes[:, None]
        theta[:, gate, gate] = -self.slopes * self.thresholds
        return AttentionLayer(theta=theta, w=w)


@dataclass(frozen=True, kw_only=True)
class SymmetricFamily(ABC):
    """Targets F_S = K + scale f_S w^T with f_S = u_0 (g(N_S) - mean) [1; -1] / deviation, one for each S of l bits.

    The gate is coordinate 0, u = (x_1 - x_2)/2, a = (x_1 + x_2)/2, N_S is the number of j in S with x_1j != x_2j,
    and the known part is K = C a_0 [1; 1] w^T + c0 u_0 [1; -1] w^T with C = sum_i c_i and c0 the mean of g over
    N binomial (l, 1/2). Subclasses say what g is and which heads compute it.

    Parameters
    ----------
    dim : int
        The number d of coordinates of a token, more than `bits`.
    bits : int
        The number l of hidden coordinates.

    Notes
    -----
    E sum_a f_S(X)_a^2 = 1: the gate has probability 1/2 and both rows show it. The correlation of two targets
    depends on the overlap of their secrets alone (`overlap_correlations`).
    """

    dim: int
    bits: int

    def __post_init__(self) -> None:
        # the secrets check both: their message names what is allowed
        secrets = SecretSet(dim=self.dim, bits=self.bits)
        object.__setattr__(self, "dim", secrets.dim)
        object.__setattr__(self, "bits", secrets.bits)
        require_realisable(self.bits)

    @property
    @abstractmethod
    def name(self) -> str:
        """The family's name."""

    @property
    @abstractmethod
    def profile(self) -> Float[np.ndarray, " values"]:
        """g(N) for N = 0, ..., l, by its definition."""

    @property
    @abstractmethod
    def heads(self) -> GateHeads:
        """The heads that compute g, the same for every secret."""

    @property
    def broken_by(self) -> str:
        """Who finds the secret, and why: queries of the lowest degree, or elimination if it is a parity."""
        if self.orthonormal:
            return (
                "Gaussian elimination over GF(2), as the profile is that of a parity: from the signs on the gate of "
                f"about {2 * (self.dim + 9)} noise-free examples (with probability .999), the known part taken off."
            )
        r = (self.lowest_degree - 1) // 2
        found = math.comb(self.dim - 1, r)
        size = math.sqrt(self.weights[r] / math.comb(self.bits, r))
        return (
            f"{found} products of {r} differences, each with the gate, see coefficient {size:.4g} where all of them "
            "are secret and 0 elsewhere: queries of a tolerance below half of that find the secret."
        )

    @property
    def tokens(self) -> int:
        """Two."""
        return 2

    @cached_property
    def secrets(self) -> SecretSet:
        """The sets S of l coordinates other than the gate."""
        return SecretSet(dim=self.dim, bits=self.bits)

    @property
    def orthonormal(self) -> bool:
        """Whether the profile is that of a parity, up to rounding: then correlations of distinct targets are 0."""
        signs = self.normalised_profile * (-1.0) ** np.arange(self.bits + 1)
        return bool(np.all(np.abs(signs - signs[0]) < _PARITY))

    @property
    def c(self) -> float:
        """C, the sum of the heads' coefficients: what is seen off the gate."""
        return math.fsum(self.heads.coefficients)

    @property
    def c0(self) -> float:
        """The mean of g, known in advance on the gate."""
        return float(profile_moments(self.profile)[0])

    @property
    def scale(self) -> float:
        """The standard deviation of g, by which the hidden part was divided."""
        return math.sqrt(profile_moments(self.profile)[1])

    @cached_property
    def normalised_profile(self) -> Float[np.ndarray, " values"]:
        """(g(N) - mean) / deviation for N = 0, ..., l."""
        return (self.profile - self.c0) / self.scale

    @cached_property
    def weights(self) -> Float[np.ndarray, " degrees"]:
        """W_r, the share of the variance of g at degree r = 0, ..., l in the differences y."""
        return fourier_weights(self.profile)

    @property
    def lowest_degree(self) -> int:
        """The lowest degree in the entries of X of the hidden part: 2r + 1 for the lowest r with W_r > 1e-12."""
        return 2 * int(np.flatnonzero(self.weights > _ABSENT)[0]) + 1

    @cached_property
    def overlap_correlations(self) -> Float[np.ndarray, " overlaps"]:
        """The correlation of two targets for each overlap 0, ..., l of their secrets, by Krawtchouk polynomials."""
        return overlap_correlations(self.profile)

    def hidden(self, number: int, x: Float[np.ndarray, "n k d"]) -> Float[np.ndarray, "n k"]:
        """f_S: on the gate the normalised profile at N_S, counted input by input, with opposite signs."""
        x = require_tokens(x, self.tokens, self.dim)
        return gated_values(self.normalised_profile, self.secrets.unrank(number), 0, x)

    def correlations(self, number: int) -> Float[np.ndarray, " N"]:
        """E sum_a f_S f_T for every T: rho at the overlap of S and T; O(N l)."""
        return self.overlap_correlations[self.secrets.overlaps(self.secrets.unrank(number))]

    def instance(
        self, number: int | None = None, *, rng: Rng = None, direction: ArrayLike | None = None
    ) -> HardInstance:
        """The target of that number, or of one drawn with `rng`, as attention heads with a certificate.

        Parameters
        ----------
        number : int, optional
            Which secret; drawn when left out.
        rng : optional
            Anything `numpy.random.default_rng` accepts (SPEC 7).
        direction : array (d,), optional
            The output direction w, scaled to norm 1; the gate's unit vector when left out.

        Raises
        ------
        ValueError
            If there is no such target, or the direction is not d finite entries, not all zero.
        """
        require_layer_memory(len(self.heads.thresholds), self.dim)
        number = self.draw(rng) if number is None else number
        secret, w = self.secrets.unrank(number), unit_direction(direction, self.dim)
        error = error_along(self.error(), self.heads.coefficients, w)
        return HardInstance(
            family=f"sq-{self.name}",
            layer=self.heads.layer(secret, dim=self.dim, gate=0, direction=w),
            inputs=BooleanInputs(k=2, d=self.dim),
            secret=secret,
            known=LinearKnownPart.from_gate(self.c, self.c0, gate=0, direction=w),
            certificate=Certificate(f"sq-{self.name}", tuple(self._statements(error))),
            realisation_error=error,
            parameters={**self._parameters(), "gate": 0, "direction": w.tolist(), "scale": self.scale},
        )

    def draw(self, rng: Rng = None) -> int:
        """The number of a target drawn at random."""
        return self.secrets.draw(rng)

    def error(self) -> float:
        """The supremum of |layer - (K + scale f w^T)| along a direction of norm 1, rounded outward."""
        return profile_error(self.profile, self.heads)

    def _parameters(self) -> dict[str, Any]:
        heads = self.heads
        return {
            "bits": self.bits,
            "profile": self.profile.tolist(),
            "thresholds": heads.thresholds.tolist(),
            "coefficients": heads.coefficients.tolist(),
            "slopes": heads.slopes.tolist(),
        }

    @property
    def _breaker(self) -> str:
        return "Gaussian elimination over GF(2)" if self.orthonormal else "queries of low degree"

    def _statements(self, error: float) -> list[Statement]:
        here = "Derived here; checked by enumeration at small d"
        rho, degree = self.overlap_correlations, self.lowest_degree
        energy = self.c**2 + self.c0**2 + self.scale**2
        r = (degree - 1) // 2
        return [
            Statement(
                "targets",
                self.secrets.size,
                f"{len(self.heads.thresholds)} heads hide {self.bits} of {self.dim - 1} coordinates: "
                f"C({self.dim - 1}, {self.bits}) targets.",
                "derived",
                here,
            ),
            Statement(
                "largest correlation of two targets",
                float(rho[-2]) if self.dim - 1 > self.bits and not self.orthonormal else 0.0,
                f"Known part off: reached by secrets that share {self.bits - 1} coordinates.",
                "derived",
                "sq.overlap_correlations (Krawtchouk polynomials)",
            ),
            Statement(
                "share of the energy that is unknown",
                self.scale**2 / energy,
                "Report errors relative to this part: the rest is known in advance.",
                "derived",
                here,
            ),
            Statement(
                "lowest degree of the unknown part",
                degree,
                f"Every Fourier coefficient of F - K of degree below {degree} in the entries of X is zero.",
                "derived",
                here,
            ),
            Statement(
                "weight at the lowest degree",
                float(self.weights[r]),
                f"The share W_{r} of the variance: C({self.dim - 1}, {r}) characters of {r} differences, each met "
                f"with coefficient {math.sqrt(self.weights[r] / math.comb(self.bits, r)):.4g} if all its coordinates "
                "are secret and 0 else, find the secret.",
                "derived",
                "sq.fourier_weights (Krawtchouk polynomials)",
            ),
            Statement(
                "realisation error",
                error,
                "Upper bound on the row norm of the layer minus its ideal target, in exact arithmetic; evaluating the "
                "layer in float64 adds rounding of about eps sum|c|.",
                "derived",
                "Enumeration of every reachable value to 50 digits, rounded outward",
            ),
            *(_query_bounds(self) if self.bits <= _MOST_BITS_OF_BOUNDS else ()),
            query_verdict(
                self.secrets.size,
                self.dim,
                shortcut="" if self.orthonormal else "Queries of low degree find it.",
            ),
            Statement("who breaks it", self._breaker, self.broken_by, "derived", "Derived here"),
        ]


def _query_bounds(family: SymmetricFamily) -> Iterator[Statement]:
    """What the eigenvalues of the Gram matrix say of the number of queries."""
    from sq.caps import queries_needed, spectral_cap  # they know families
    from sq.johnson import OverlapGram

    targets = family.secrets.size
    gram = OverlapGram(family.secrets, tuple(float(one) for one in family.overlap_correlations))
    for tau in ("0.3", "0.1", "0.05"):
        needed = queries_needed(targets, spectral_cap(gram, tau)).whole
        yield Statement(
            f"queries at tolerance {tau}",
            needed,
            "A deterministic learner that identifies the secret needs at least this many correlational queries of "
            f"tolerance {tau}, asked of the hidden part scaled to norm 1: one rules out at most lambda_max/tau^2 of "
            f"the {targets} targets. Other statistical queries are not covered.",
            "proved",
            "sq.spectral_cap over the kernel of overlaps",
        )


def gated_values(
    values: Float[np.ndarray, " values"], secret: np.ndarray, gate: int, x: Float[np.ndarray, "n 2 d"]
) -> Float[np.ndarray, "n 2"]:
    """u_g values[N_S] in row 1 and its negative in row 2: N_S counted on each input."""
    gate = count("gate", gate, least=0)
    first, second = x[:, 0, :], x[:, 1, :]
    differing = np.count_nonzero(first[:, secret] != second[:, secret], axis=1)
    signal = (first[:, gate] - second[:, gate]) / 2 * values[differing]
    return np.stack([signal, -signal], axis=-1)


def profile_error(profile: Float[np.ndarray, " values"], heads: GateHeads) -> float:
    """The supremum of |heads - (K + scale f)| for the f of that profile, rounded outward."""
    mean, variance = profile_moments(profile)
    c0, scale = float(mean), math.sqrt(variance)
    return supremum_error(
        {
            n: Fraction(c0) + Fraction(scale) * Fraction(float(one))
            for n, one in enumerate((profile - c0) / scale)
        },
        thresholds=heads.thresholds,
        coefficients=heads.coefficients,
        slopes=heads.slopes,
        c=math.fsum(heads.coefficients),
    )


def staircase_profile(bits: int, heads: ProfileHeads) -> Float[np.ndarray, " values"]:
    """sum_i c_i sign(N - t_i) for N = 0, ..., l: what saturated heads with half-integer thresholds compute."""
    reached = np.greater.outer(np.arange(bits + 1), heads.thresholds)
    return 2.0 * (reached * heads.coefficients).sum(axis=1) - heads.coefficients.sum()

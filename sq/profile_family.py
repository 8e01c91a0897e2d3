"""Families behind a gate whose hidden part is a profile g(N) of the number N of secret coordinates that differ."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Float

from attention.validation import PositiveInt
from lower import Fact, Heads, Key, SecretPairs, Status, Word
from lower.family import FamilyConstructor
from lower.low_degree import FlipRate, flip_factor
from sq.family import SQFamily
from sq.johnson import OverlapGram
from sq.krawtchouk import fourier_coefficients, fourier_weights, overlap_correlations, profile_moments
from sq.secret_set import SecretSet

_ABSENT = 1e-12
_MOST_BITS_OF_BOUNDS = 24  # exact eigenvalues take O(l^3) operations on long fractions
_PARITY = 1e-6  # the relative error of a profile after cancellation


@dataclass(frozen=True, kw_only=True, repr=False)
class ProfileFamily(SQFamily):
    """Targets F_S = K + scale f_S w^T with f_S = u_0 (g(N_S) - mean) [1; -1] / deviation, one for each S of l bits.

    The gate is coordinate 0, u = (x_1 - x_2)/2, a = (x_1 + x_2)/2, and N_S is the number of j in S with x_1j != x_2j.
    The known part is K = C a_0 [1; 1] w^T + c0 u_0 [1; -1] w^T with C = sum_i c_i and c0 the mean of g over N binomial
    (l, 1/2). `ProfileFamily.bump`, `two_slope`, `designed_steps` and `centre_threshold` make such families with
    names of their own; `ParityFamily` is one, too. A function with the decorator `lower.constructor` adds another.

    Notes
    -----
    E sum_a f_S(X)_a^2 = 1, because the gate has probability 1/2 and both rows show the hidden part. The correlation of
    two targets depends only on the overlap of their secrets (`overlap_correlations`).
    """

    dim: PositiveInt  #: the number d of coordinates of a token, more than `bits`
    bits: PositiveInt  #: the number l of hidden coordinates
    noise: FlipRate = 0.0  #: the rate at which labels are flipped
    heads: Heads = field(compare=False)  #: the heads that compute g; `Heads.counting` makes them
    #: g(N) for N = 0, ..., l; the sum of the heads' steps when left out
    profile: Float[np.ndarray, " values"] = field(default=None, compare=False)  # type: ignore[arg-type]
    #: the other arguments of its constructor
    others: Mapping[str, Any] = field(default_factory=dict, hash=False)
    #: the lowest degree in the differences where it is proved; else that of the first weight above 1e-12
    degree: PositiveInt | None = field(default=None, compare=False)
    #: what finds the secret beside products of differences, unless g is a parity
    leaks: tuple[Word, ...] = field(default=(), compare=False)
    name: str = ""  # type: ignore[misc]  #: its name in files and commands
    called: str = ""  # type: ignore[misc]  #: the template of its title
    rows_agree = True
    bump: ClassVar[FamilyConstructor]
    two_slope: ClassVar[FamilyConstructor]
    designed_steps: ClassVar[FamilyConstructor]
    centre_threshold: ClassVar[FamilyConstructor]

    def __post_init__(self) -> None:
        if self.profile is None:
            heads = self.heads
            reached = np.greater.outer(np.arange(self.bits + 1), heads.thresholds)
            steps = 2.0 * (reached * heads.coefficients).sum(axis=1) - heads.coefficients.sum()
            object.__setattr__(self, "profile", steps)
        super().__post_init__()  # type: ignore[misc]
        _ = self.secrets

    def __repr__(self) -> str:
        given = {**self.arguments(), "noise": self.noise or None}
        return (
            f"{self.name}({', '.join(f'{name}={one!r}' for name, one in given.items() if one is not None)})"
        )

    def arguments(self) -> dict[str, Any]:
        """The arguments of the constructor, by name."""
        return {"dim": self.dim, "bits": self.bits, "noise": self.noise, **self.others}

    @cached_property
    def secrets(self) -> SecretSet:
        """The sets S of l coordinates other than the gate."""
        return SecretSet(dim=self.dim, bits=self.bits)

    @cached_property
    def _moments(self) -> tuple[Fraction, Fraction]:
        return profile_moments(self.profile)

    @property
    def c0(self) -> float:
        """The mean of g, known in advance on the gate."""
        return float(self._moments[0])

    @property
    def scale(self) -> float:
        """The standard deviation of g; the hidden part is divided by it."""
        return math.sqrt(self._moments[1])

    @cached_property
    def normalised_profile(self) -> Float[np.ndarray, " values"]:
        """(g(N) - mean) / deviation for N = 0, ..., l."""
        return (self.profile - float(self._moments[0])) / self.scale

    @property
    def values(self) -> Mapping[int, float]:
        """The normalised profile at every N."""
        return dict(enumerate(self.normalised_profile.tolist()))

    @cached_property
    def orthonormal(self) -> bool:
        """Whether the profile is a parity up to rounding; then distinct targets have correlation 0."""
        signs = self.normalised_profile * (-1.0) ** np.arange(self.bits + 1)
        return bool(np.all(np.abs(signs - signs[0]) < _PARITY))

    @cached_property
    def weights(self) -> Float[np.ndarray, " degrees"]:
        """W_r, the share of the variance of g at degree r = 0, ..., l in the differences y."""
        return np.array(fourier_weights(self.profile), dtype=np.float64)

    @property
    def lowest_degree(self) -> int:
        """The lowest degree in the entries of X of the hidden part: 2r + 1 for the lowest degree r in differences."""
        return 2 * (self.degree or int(np.flatnonzero(self.weights > _ABSENT)[0])) + 1

    @cached_property
    def overlap_correlations(self) -> Float[np.ndarray, " overlaps"]:
        """The correlation of two targets for each overlap 0, ..., l of their secrets, by Krawtchouk polynomials."""
        return np.array(overlap_correlations(self.profile), dtype=np.float64)

    def hidden(self, number: int, x: Float[np.ndarray, "n k d"]) -> Float[np.ndarray, "n k"]:
        """f_S: on the gate the normalised profile at N_S, counted input by input, with opposite signs."""
        x = self.tokens_of(x)
        return gated_values(self.normalised_profile, self.secrets.unrank(number), 0, x)

    def correlations(self, number: int) -> Float[np.ndarray, " N"]:
        """E sum_a f_S f_T for every T: rho at the overlap of S and T; O(N l)."""
        return self.overlap_correlations[self.secrets.overlaps(self.secrets.unrank(number))]

    @cached_property
    def secret_pairs(self) -> SecretPairs:
        """One kind of pair for each overlap o of the secrets: C(o, r) ghat_r^2 / (2 max |g - mean|^2) at degree 2r + 1.

        Exact for the profile as it is stored. The 1/2 is the probability of the gate.
        """
        bits, free = self.bits, self.dim - 1
        mean, *others = fourier_coefficients(self.profile)
        largest = max(abs(Fraction(one) - mean) for one in self.profile.tolist())
        chances, correlations = [], []
        for o in range(bits + 1):
            ways = math.comb(bits, o) * math.comb(free - bits, bits - o)
            chances.append(Fraction(ways, self.secrets.size))
            row = [Fraction(0)] * (2 * bits + 2)
            row[3::2] = [math.comb(o, r) * one**2 / (2 * largest**2) for r, one in enumerate(others, 1)]
            row[: self.lowest_degree] = [Fraction(0)] * self.lowest_degree  # there are rounding errors only
            correlations.append(row)
        return SecretPairs(chances, correlations).flipped(self.noise)

    @property
    def largest_correlation(self) -> float:
        """The correlation of two secrets that share all coordinates but one."""
        if self.orthonormal or self.dim - 1 == self.bits:
            return 0.0
        return float(self.overlap_correlations[-2])

    @cached_property
    def largest_eigenvalue(self) -> Fraction | None:
        """The largest eigenvalue of the hidden parts' Gram matrix, exactly; None for more than 24 bits."""
        if self.orthonormal:
            return Fraction(1)
        if self.bits > _MOST_BITS_OF_BOUNDS:
            return None
        return OverlapGram(self.secrets, self.overlap_correlations.tolist()).largest_eigenvalue()

    @property
    def broken_by(self) -> tuple[Word, ...]:
        """Queries of the lowest degree, or elimination if the profile is that of a parity."""
        if self.orthonormal:
            return (Word.SEARCH, Word.BKW) if self.noise else (Word.GF2_ELIMINATION,)
        return (Word.PRODUCTS, *self.leaks)

    def further_facts(self) -> Sequence[Fact]:
        """The share of the variance at the lowest degree, and how queries of that degree find the secret.

        Products of r differences, each with the gate, see sqrt(W_r / C(l, r)) (1 - 2 eta) where all of them are secret
        and 0 elsewhere.
        """
        r = (self.lowest_degree - 1) // 2
        source = "sq.krawtchouk.fourier_weights"
        facts = [Fact(Key.LOWEST_WEIGHT, float(self.weights[r]), Status.DERIVED, source)]
        if not self.orthonormal:
            seen = math.sqrt(self.weights[r] / math.comb(self.bits, r)) * float(flip_factor(self.noise))
            facts += [
                Fact(Key.BREAKING_QUERIES, math.comb(self.dim - 1, r), Status.DERIVED, source),
                Fact(Key.BREAKING_TOLERANCE, seen / 2, Status.DERIVED, source),
            ]
        return facts


def gated_values(
    values: Float[np.ndarray, " values"], secret: np.ndarray, gate: int, x: Float[np.ndarray, "n 2 d"]
) -> Float[np.ndarray, "n 2"]:
    """u_g values[N_S] in row 1 and its negative in row 2, with N_S counted on each input."""
    first, second = x[:, 0, :], x[:, 1, :]
    differing = np.count_nonzero(first[:, secret] != second[:, secret], axis=1)
    signal = (first[:, gate] - second[:, gate]) / 2 * values[differing]
    return np.stack([signal, -signal], axis=-1)


def tanh(z: float) -> float:
    """The float64 number nearest to tanh z, the same on all machines."""
    import mpmath  # a tenth of a second, and not needed by every process

    with mpmath.workprec(200):
        return float(mpmath.tanh(z))

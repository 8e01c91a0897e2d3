"""Symmetric families that are no parities: bump, two slopes, thresholds at the centre."""

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import pairwise
from typing import Any, Literal, get_args

import numpy as np
from jaxtyping import Float

from attention.validation import count, non_negative, one_of
from lower import SATURATED_SLOPE
from sq.krawtchouk import fourier_coefficient, profile_moments
from sq.symmetric import ProfileHeads, SymmetricFamily, staircase_profile

__all__ = [
    "BumpFamily",
    "CentreThresholdFamily",
    "TwoSlopeFamily",
]

Steps = Literal["alternating", "best fit"]

# Below this share of what could be left, cancellation has taken the digits of the hidden part.
_SATURATED = 1e-12


@dataclass(frozen=True, kw_only=True)
class BumpFamily(SymmetricFamily):
    """Two heads that say whether exactly t of the l secret coordinates differ: g(N) = 1[N = t].

    Parameters
    ----------
    dim : int
        The number d of coordinates of a token, more than `bits`.
    bits : int
        The number l of hidden coordinates.
    at : int, optional
        The value t, from 0 to l; floor(l/2) when left out.
    beta : float
        The slope of both heads.

    Raises
    ------
    ValueError
        If `at` is not from 0 to l, the slope not positive, or the dimension leaves too few coordinates.

    Notes
    -----
    Thresholds t - 1/2 and t + 1/2, coefficients 1/2 and -1/2, so C = 0. Derived here: the variance is p (1 - p) with
    p = C(l, t)/2^l, and ghat_r = K_t(r)/2^l, so correlations are rational and known exactly.

    What breaks it: queries of low degree. At t = l/2 all odd degrees vanish and degree 2 holds a fair share
    (.2151 at l = 8): C(d - 1, 2) products y_i y_j find the secret, however large l is; elsewhere d - 1 single y_j do.

    References
    ----------
    Derived here.

    Examples
    --------
    >>> family = BumpFamily(dim=20, bits=8)
    >>> [round(float(one), 4) for one in family.overlap_correlations[1:5]], round(float(family.weights[2]), 4)
    ([0.0, 0.0077, 0.023, 0.0488], 0.2151)
    """

    at: int | None = None
    beta: float = SATURATED_SLOPE

    def __post_init__(self) -> None:
        super().__post_init__()
        at = self.bits // 2 if self.at is None else count("at", self.at, least=0)
        if at > self.bits:
            raise ValueError(f"at is {at}: a number from 0 to {self.bits}, the number of bits, is needed.")
        object.__setattr__(self, "at", at)
        object.__setattr__(self, "beta", non_negative("beta", self.beta, strictly=True))

    @property
    def name(self) -> str:
        """The family's name."""
        return "bump"

    @cached_property
    def profile(self) -> Float[np.ndarray, " values"]:
        """1 at t, else 0."""
        return (np.arange(self.bits + 1) == self.at).astype(np.float64)

    @cached_property
    def heads(self) -> ProfileHeads:
        """A step up at t - 1/2 and down at t + 1/2."""
        at = self.bits if self.at is None else self.at
        return ProfileHeads(
            np.array([at - 0.5, at + 0.5]), np.array([0.5, -0.5]), np.full(2, float(self.beta))
        )

    def _parameters(self) -> dict[str, Any]:
        return {**super()._parameters(), "at": self.at}


@dataclass(frozen=True, kw_only=True)
class TwoSlopeFamily(SymmetricFamily):
    """Two heads of one threshold l/2 and two slopes: g is odd about l/2 and has no part of degree 1 or 2.

    Parameters
    ----------
    dim : int
        The number d of coordinates of a token, more than `bits`.
    bits : int
        The number l of hidden coordinates, at least 3.
    slopes : pair of float
        The slopes, distinct and not both so steep that tanh is a step already.

    Raises
    ------
    ValueError
        If `bits` is below 3, or the slopes are not two distinct numbers above 0, or both saturate.

    Notes
    -----
    g(N) = tanh(b_1 (N - l/2)) + c tanh(b_2 (N - l/2)). Proved: g(l - N) = -g(N) and K_r(l - N) = (-1)^r K_r(N), so
    every even degree vanishes, and c is chosen so that degree 1 does; the mean is 0 too, so c0 = 0. At l = 3 what is
    left is the parity of three bits, up to a factor, and what breaks it is what breaks parities.

    What breaks it from l = 4 on: C(d - 1, 3) products of three differences see W_3 (.6066 at l = 16); to learners that
    square labels the secret leaks at degree 2, as g^2 is even about l/2. Labels take many values, so the bounds for
    correlational queries say nothing of other statistical queries.

    References
    ----------
    Derived here.

    Examples
    --------
    >>> family = TwoSlopeFamily(dim=20, bits=16)
    >>> round(float(family.heads.coefficients[1]), 4), round(float(family.weights[3]), 4), family.lowest_degree
    (-0.2627, 0.6066, 7)
    """

    slopes: tuple[float, float] = (0.1, 1.0)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.bits < 3:
            raise ValueError(
                f"bits is {self.bits}: at least 3 are needed, or degrees 1 and 2 are all there is."
            )
        if np.shape(self.slopes) != (2,):
            raise ValueError(f"slopes is {self.slopes}: two numbers above 0 are needed.")
        first, second = (non_negative("slopes", one, strictly=True) for one in self.slopes)
        object.__setattr__(self, "slopes", (first, second))
        left = float(profile_moments(self.profile)[1])
        if not left > _SATURATED * (1 + float(self.heads.coefficients[1]) ** 2):
            raise ValueError(
                f"slopes is {self.slopes}: the two heads cancel to a variance of {left:.1e}; take distinct slopes, of "
                f"which at most one saturates, such as {0.8 / self.bits:.2g} and {8 / self.bits:.2g}."
            )

    @property
    def name(self) -> str:
        """The family's name."""
        return "two-slope"

    @cached_property
    def profile(self) -> Float[np.ndarray, " values"]:
        """Tanh(b_1 (N - l/2)) + c tanh(b_2 (N - l/2))."""
        first, second = _odd_steps(self.bits, self.slopes)
        return first + self.heads.coefficients[1] * second

    @cached_property
    def heads(self) -> ProfileHeads:
        """The two heads, the second with the coefficient that takes degree 1 away."""
        first, second = (fourier_coefficient(one, 1) for one in _odd_steps(self.bits, self.slopes))
        return ProfileHeads(
            np.full(2, self.bits / 2), np.array([1.0, -first / second]), np.array(self.slopes)
        )

    @property
    def broken_by(self) -> str:
        """Who finds the secret, and why."""
        leak = "" if self.orthonormal else " Squared labels leak it at degree 2 already."
        return super().broken_by + leak


@dataclass(frozen=True, kw_only=True)
class CentreThresholdFamily(SymmetricFamily):
    """The parity of l bits approximated by m heads, with thresholds at the m half-integers around l/2.

    Parameters
    ----------
    dim : int
        The number d of coordinates of a token, more than `bits`.
    bits : int
        The number l of hidden coordinates.
    heads_count : int
        The number m of heads, from 1 to l, even for even l and odd for odd l (so that half-integers lie evenly about
        l/2).
    steps : {"alternating", "best fit"}
        "alternating": coefficients ±1 in turn, so that g takes two values and is the parity, up to a constant, but
        for the tails, where it does not change. "best fit": on each level the mean of the parity there, scaled so that
        the largest coefficient is 1; of all staircases with these thresholds the one best correlated with the parity.
    beta : float
        The slope of all heads.

    Raises
    ------
    ValueError
        If the number of heads is not from 1 to l, or not of the kind of l.

    Notes
    -----
    Proved: "best fit" is the projection of (-1)^N on the functions constant between thresholds, so its correlation is
    the largest; on the level of N = n + 1, ..., n' the sum of 2^-l C(l, N) (-1)^N telescopes into
    2^-l ((-1)^n' C(l - 1, n') - (-1)^n C(l - 1, n)), so all coefficients are rational.

    What breaks it: degree 2 for even l (l = 16, alternating: .130, .161, .083, .019 of the variance for m = 2, 4, 6, 8;
    best fit: .130, .043, .012, .0018) and degree 1 for odd l, where g is odd about l/2. Only alternating steps have
    two-valued labels, and only for them do bounds on correlational queries cover the others.

    References
    ----------
    Derived here.

    Examples
    --------
    >>> [round(CentreThresholdFamily(dim=20, bits=16, heads_count=m).correlation_with_parity, 4) for m in (2, 4, 6, 8)]
    [0.4943, 0.7324, 0.8878, 0.9654]
    """

    heads_count: int = 2
    steps: Steps = "alternating"
    beta: float = SATURATED_SLOPE

    def __post_init__(self) -> None:
        super().__post_init__()
        m = count("heads_count", self.heads_count)
        if m > self.bits or (self.bits - m) % 2:
            kind = "odd" if self.bits % 2 else "even"
            raise ValueError(
                f"heads_count is {m}: an {kind} number of at most {self.bits}, the number of bits, is needed."
            )
        one_of("steps", self.steps, get_args(Steps))
        object.__setattr__(self, "heads_count", m)
        object.__setattr__(self, "beta", non_negative("beta", self.beta, strictly=True))

    @property
    def name(self) -> str:
        """The family's name."""
        return "centre-threshold"

    @cached_property
    def profile(self) -> Float[np.ndarray, " values"]:
        """The steps' sum: 2 c_i gained at t_i, from minus the sum of all c_i on."""
        return staircase_profile(self.bits, self.heads)

    @cached_property
    def heads(self) -> ProfileHeads:
        """The thresholds around l/2 with their coefficients."""
        m, first = self.heads_count, (self.bits - self.heads_count) // 2
        below = [first + i for i in range(m)]  # thresholds are these plus 1/2
        if self.steps == "alternating":
            # each step turns the sign, as from N to N + 1 the parity does
            coefficients = np.array([(-1.0) ** (n + 1) for n in below])
        else:
            levels = _level_means(self.bits, below)
            differences = [after - before for before, after in pairwise(levels)]
            largest = max(abs(one) for one in differences)
            coefficients = np.array([float(one / largest) for one in differences])
        return ProfileHeads(np.array(below) + 0.5, coefficients, np.full(m, float(self.beta)))

    @property
    def correlation_with_parity(self) -> float:
        """The correlation of g(N) with (-1)^N, without sign: the square root of W_l."""
        return math.sqrt(self.weights[-1])


def _odd_steps(bits: int, slopes: tuple[float, float]) -> tuple[np.ndarray, np.ndarray]:
    distance = np.arange(bits + 1) - bits / 2
    first, second = (np.tanh(one * distance) for one in slopes)
    return first, second


def _level_means(bits: int, below: list[int]) -> list[Fraction]:
    # the mean of (-1)^N over each stretch of N between thresholds
    edges = [-1, *below, bits]
    means = []
    for low, high in pairwise(edges):
        inside = range(low + 1, high + 1)
        signed = sum((-1) ** n * math.comb(bits, n) for n in inside)
        means.append(Fraction(signed, sum(math.comb(bits, n) for n in inside)))
    return means

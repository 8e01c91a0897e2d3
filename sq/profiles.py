"""Families behind a gate whose hidden part depends on the number of differing secret bits: bump, two slopes, steps."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import pairwise
from typing import Annotated, ClassVar, Literal

import numpy as np
from jaxtyping import Float

from attention.validation import NonNegativeInt, PositiveFloat, PositiveInt, Whole, real_array
from lower import Fact, Key, SecretPairs, Status, Word, option, register
from lower.heads import SATURATED_SLOPE
from lower.low_degree import FlipRate, flip_factor
from sq.family import DIM, NOISE, ProfileHeads, SQFamily, require_realisable
from sq.krawtchouk import fourier_coefficients, fourier_weights, overlap_correlations, profile_moments
from sq.secret_set import SecretSet

__all__ = [
    "BumpFamily",
    "CentreThresholdFamily",
    "DesignedStepsFamily",
    "SymmetricFamily",
    "TwoSlopeFamily",
    "designed_coefficients",
    "gated_values",
    "tanh",
]

_ABSENT = 1e-12
_MOST_BITS_OF_BOUNDS = 24  # exact eigenvalues take O(l^3) operations on long fractions
_PARITY = 1e-6  # the relative error of a profile after cancellation
_SATURATED = 1e-12  # below this share, cancellation has destroyed the digits of the hidden part


@dataclass(frozen=True, kw_only=True)
class SymmetricFamily(SQFamily):
    """Targets F_S = K + scale f_S w^T with f_S = u_0 (g(N_S) - mean) [1; -1] / deviation, one for each S of l bits.

    The gate is coordinate 0, u = (x_1 - x_2)/2, a = (x_1 + x_2)/2, and N_S is the number of j in S with x_1j != x_2j.
    The known part is K = C a_0 [1; 1] w^T + c0 u_0 [1; -1] w^T with C = sum_i c_i and c0 the mean of g over N binomial
    (l, 1/2). Subclasses define the heads that compute g, and g itself if it is not the heads' sum of steps.

    Notes
    -----
    E sum_a f_S(X)_a^2 = 1, because the gate has probability 1/2 and both rows show the hidden part. The correlation of
    two targets depends only on the overlap of their secrets (`overlap_correlations`).
    """

    dim: PositiveInt = option(**DIM)  #: the number d of coordinates of a token, more than `bits`
    #: the number l of hidden coordinates
    bits: PositiveInt = option("Number l of hidden coordinates.", preset=8)
    noise: FlipRate = option(**NOISE)  #: the rate at which labels are flipped
    rows_agree = True

    def __post_init__(self) -> None:
        super().__post_init__()  # type: ignore[misc]
        _ = self.secrets
        require_realisable(self.bits)

    @cached_property
    def secrets(self) -> SecretSet:
        """The sets S of l coordinates other than the gate."""
        return SecretSet(dim=self.dim, bits=self.bits)

    @cached_property
    def profile(self) -> Float[np.ndarray, " values"]:
        """g(N) for N = 0, ..., l: the sum of the heads' steps."""
        heads = self.heads
        reached = np.greater.outer(np.arange(self.bits + 1), heads.thresholds)
        return 2.0 * (reached * heads.coefficients).sum(axis=1) - heads.coefficients.sum()

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
        """The lowest degree in the entries of X of the hidden part: 2r + 1 for the lowest r with W_r > 1e-12."""
        return 2 * int(np.flatnonzero(self.weights > _ABSENT)[0]) + 1

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
        from sq.johnson import OverlapGram  # imported here: it imports families

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
        return (Word.PRODUCTS,)

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


@register
@dataclass(frozen=True, kw_only=True)
class TwoSlopeFamily(SymmetricFamily):
    """Two heads of two slopes that show nothing of their hidden coordinates below degree 7.

    ValueError if `bits` is below 3, or the slopes are not two distinct numbers above 0, or both saturate.

    Notes
    -----
    g(N) = tanh(b_1 (N - l/2)) + c tanh(b_2 (N - l/2)). Proved: g(l - N) = -g(N) and K_r(l - N) = (-1)^r K_r(N), so
    every even degree vanishes. The choice of c makes degree 1 vanish. The mean is also 0, so c0 = 0. At l = 3 the rest
    is the parity of three bits, up to a factor; what breaks parities breaks it.

    What breaks it from l = 4 on: C(d - 1, 3) products of three differences see W_3 (.6066 at l = 16). Learners that
    square labels see the secret at degree 2, because g^2 is even about l/2. Labels take many values, so the bounds for
    correlational queries say nothing about other statistical queries.

    Examples
    --------
    >>> family = TwoSlopeFamily(dim=20, bits=16)
    >>> round(float(family.heads.coefficients[1]), 4), round(float(family.weights[3]), 4), family.lowest_degree
    (-0.2627, 0.6066, 7)
    """

    name = "sq-two-slope"
    called = "Two slopes, {bits}, {heads}"
    bits: Annotated[int, Whole(3)] = option("Number l of hidden coordinates.", preset=8)
    slopes: Sequence[PositiveFloat] = option("The two slopes.", default=(0.1, 1.0))

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(self.slopes) != 2:
            raise ValueError(f"slopes is {self.slopes}: two numbers above 0 are needed.")
        left = float(self._moments[1])
        if not left > _SATURATED * (1 + float(self.heads.coefficients[1]) ** 2):
            raise ValueError(
                f"slopes is {self.slopes}: the two heads cancel to a variance of {left:.1e}; take distinct slopes, of "
                f"which at most one saturates, such as {0.8 / self.bits:.2g} and {8 / self.bits:.2g}."
            )

    @cached_property
    def _odd_steps(self) -> Float[np.ndarray, "2 values"]:
        distances = [n - self.bits / 2 for n in range(self.bits + 1)]
        return np.array([[tanh(slope * one) for one in distances] for slope in self.slopes])

    @cached_property
    def profile(self) -> Float[np.ndarray, " values"]:
        """Tanh(b_1 (N - l/2)) + c tanh(b_2 (N - l/2))."""
        first, second = self._odd_steps
        return first + self.heads.coefficients[1] * second

    @cached_property
    def heads(self) -> ProfileHeads:
        """The two heads; the coefficient of the second cancels degree 1."""
        bits = self.bits
        first, second = (
            sum(math.comb(bits, n) * (bits - 2 * n) * Fraction(g) for n, g in enumerate(one))
            for one in self._odd_steps.tolist()
        )
        return ProfileHeads(
            np.full(2, bits / 2), np.array([1.0, float(-first / second)]), np.array(self.slopes)
        )

    @property
    def broken_by(self) -> tuple[Word, ...]:
        """Which methods find the secret."""
        return super().broken_by if self.orthonormal else (Word.PRODUCTS, Word.SQUARES)


@register
@dataclass(frozen=True, kw_only=True)
class BumpFamily(SymmetricFamily):
    """Two heads that show whether exactly t of the l secret coordinates differ: g(N) = 1[N = t].

    ValueError if `at` is not from 0 to l, the slope is not positive, or the dimension leaves too few coordinates.

    Notes
    -----
    Thresholds t - 1/2 and t + 1/2, coefficients 1/2 and -1/2, so C = 0. Derived here: the variance is p (1 - p) with
    p = C(l, t)/2^l, and ghat_r = K_t(r)/2^l, so correlations are rational and known exactly.

    What breaks it: queries of low degree. At t = l/2 all odd degrees vanish, and degree 2 has a large share of the
    variance (.2151 at l = 8): C(d - 1, 2) products y_i y_j find the secret, however large l is. At other t the d - 1
    single y_j find it.

    Examples
    --------
    >>> family = BumpFamily(dim=20, bits=8)
    >>> [round(float(one), 4) for one in family.overlap_correlations[1:5]], round(float(family.weights[2]), 4)
    ([0.0, 0.0077, 0.023, 0.0488], 0.2151)
    """

    name = "sq-bump"
    called = "Bump at {at} of {bits}, {heads}"
    at: NonNegativeInt | None = option(
        "How many of the hidden coordinates are to differ; by default half.", default=None
    )
    beta: PositiveFloat = option("Slope of all heads.", default=SATURATED_SLOPE)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.at is None:
            object.__setattr__(self, "at", self.bits // 2)
        if self.at > self.bits:  # type: ignore[operator]
            raise ValueError(
                f"at is {self.at}: a number from 0 to {self.bits}, the number of bits, is needed."
            )

    @cached_property
    def heads(self) -> ProfileHeads:
        """A step up at t - 1/2 and down at t + 1/2."""
        return ProfileHeads(np.array([-0.5, 0.5]) + self.at, np.array([0.5, -0.5]), np.full(2, self.beta))


@register
@dataclass(frozen=True, kw_only=True)
class DesignedStepsFamily(SymmetricFamily):
    """A family of m heads whose steps show nothing of their hidden coordinates below degree 2m + 1.

    ValueError if there are more heads than bits, or the thresholds are not distinct half-integers between 0 and l.

    Notes
    -----
    Proved: the degree-r coefficient of sign(N - n - 1/2) is C(l - 1, n) K_{r-1}(n) times a constant that depends only
    on r. Here K_{r-1} is the Krawtchouk polynomial of l - 1 bits, of degree r - 1 in n. With
    c_i = 1 / (C(l - 1, n_i) prod_{j != i} (n_i - n_j)) the sum over heads is a divided difference of that polynomial
    over m points. It is 0 for r < m, and for r = m it is the leading coefficient, which is not 0. So the lowest degree
    is exactly m (2m + 1 in X). Up to scale, no other coefficients achieve this.

    What breaks it: C(d - 1, m) products of m differences, because degree m has much of the variance (.7895 at l = 6,
    m = 4). Labels take several values, so the bounds for correlational queries say nothing about other queries.

    Examples
    --------
    >>> family = DesignedStepsFamily(dim=20, bits=6, heads_count=4)
    >>> family.heads.thresholds, family.heads.coefficients
    (array([0.5, 2.5, 3.5, 5.5]), array([-1. ,  0.5, -0.5,  1. ]))
    >>> round(float(family.weights[4]), 4), round(float(family.overlap_correlations[4]), 4)
    (0.7895, 0.0526)
    """

    name = "sq-designed-steps"
    called = "Designed steps, {bits}, {heads}"
    documented: ClassVar = {"bits": 6, "heads_count": 4}
    heads_count: PositiveInt | None = option(
        "Number m of heads; by default one a threshold, or two.", default=None, flag="--heads"
    )
    thresholds: Sequence[float] | None = option(
        "Half-integers between 0 and l, one a head; by default spread evenly.", default=None
    )
    beta: PositiveFloat = option("Slope of all heads.", default=SATURATED_SLOPE)

    def __post_init__(self) -> None:
        super().__post_init__()
        own = self.thresholds
        m = self.heads_count or (2 if own is None else len(own))
        if m > self.bits:
            raise ValueError(f"heads_count is {m}: 1 to {self.bits}, the number of bits, is needed.")
        own = _even_thresholds(self.bits, m) if own is None else tuple(sorted(own))
        if len(own) != m:
            raise ValueError(f"heads_count is {m} with {len(own)} thresholds: one a head is needed.")
        object.__setattr__(self, "heads_count", m)
        object.__setattr__(self, "thresholds", own)
        designed_coefficients(self.bits, own)

    @cached_property
    def heads(self) -> ProfileHeads:
        """The thresholds with their designed coefficients."""
        own = self.thresholds or ()
        coefficients = np.array([float(one) for one in designed_coefficients(self.bits, own)])
        return ProfileHeads(np.array(own), coefficients, np.full(len(own), self.beta))

    @property
    def lowest_degree(self) -> int:
        """2m + 1, as proved; at many bits this weight is smaller than the rounding errors of the lower ones."""
        return 2 * len(self.thresholds or ()) + 1


@register
@dataclass(frozen=True, kw_only=True)
class CentreThresholdFamily(SymmetricFamily):
    """A family of m heads that approximate a parity of more bits than m heads are known to hide.

    ValueError if the number of heads is not from 1 to l, or not even or odd like l.

    Notes
    -----
    Thresholds are the m half-integers around l/2. "alternating": coefficients alternate between 1 and -1. Then g takes
    two values and is the parity up to a constant, except in the tails, where it is constant. "best-fit": on each level
    g is the mean of the parity there, scaled so that the largest coefficient is 1. Proved: "best-fit" is the projection
    of (-1)^N on the functions constant between thresholds, so its correlation is the largest. On the level of
    N = n + 1, ..., n' the sum of 2^-l C(l, N) (-1)^N telescopes into
    2^-l ((-1)^n' C(l - 1, n') - (-1)^n C(l - 1, n)), so all coefficients are rational.

    What breaks it: degree 2 for even l (l = 16, alternating: .130, .161, .083, .019 of the variance for m = 2, 4, 6, 8;
    best fit: .130, .043, .012, .0018), and degree 1 for odd l, where g is odd about l/2. Only alternating steps have
    two-valued labels; only for them do the bounds on correlational queries also cover other queries.

    Examples
    --------
    >>> [round(CentreThresholdFamily(dim=20, bits=16, heads_count=m).correlation_with_parity, 4) for m in (2, 4, 6, 8)]
    [0.4943, 0.7324, 0.8878, 0.9654]
    """

    name = "sq-centre-threshold"
    called = "Centre thresholds, {bits}, {heads}"
    documented: ClassVar = {"bits": 16, "heads_count": 4}
    heads_count: PositiveInt = option(
        "Number m of heads, even or odd as the bits are.", default=2, flag="--heads"
    )
    steps: Literal["alternating", "best-fit"] = option(
        "Steps of one size in turn, or those that fit the parity best.", default="alternating"
    )
    beta: PositiveFloat = option("Slope of all heads.", default=SATURATED_SLOPE)

    def __post_init__(self) -> None:
        super().__post_init__()
        m = self.heads_count
        if m > self.bits or (self.bits - m) % 2:
            kind = "odd" if self.bits % 2 else "even"
            raise ValueError(
                f"heads_count is {m}: an {kind} number of at most {self.bits}, the number of bits, is needed."
            )

    @cached_property
    def heads(self) -> ProfileHeads:
        """The thresholds around l/2 with their coefficients."""
        m, first = self.heads_count, (self.bits - self.heads_count) // 2
        below = [first + i for i in range(m)]  # thresholds are these plus 1/2
        if self.steps == "alternating":
            # each step changes the sign, as the parity does from N to N + 1
            coefficients = np.array([(-1.0) ** (n + 1) for n in below])
        else:
            differences = [after - before for before, after in pairwise(_level_means(self.bits, below))]
            largest = max(abs(one) for one in differences)
            coefficients = np.array([float(one / largest) for one in differences])
        return ProfileHeads(np.array(below) + 0.5, coefficients, np.full(m, self.beta))

    @property
    def correlation_with_parity(self) -> float:
        """The absolute correlation of g(N) with (-1)^N: the square root of W_l."""
        return math.sqrt(self.weights[-1])


def gated_values(
    values: Float[np.ndarray, " values"], secret: np.ndarray, gate: int, x: Float[np.ndarray, "n 2 d"]
) -> Float[np.ndarray, "n 2"]:
    """u_g values[N_S] in row 1 and its negative in row 2, with N_S counted on each input."""
    first, second = x[:, 0, :], x[:, 1, :]
    differing = np.count_nonzero(first[:, secret] != second[:, secret], axis=1)
    signal = (first[:, gate] - second[:, gate]) / 2 * values[differing]
    return np.stack([signal, -signal], axis=-1)


def designed_coefficients(
    bits: int, thresholds: Sequence[float] | Float[np.ndarray, " m"]
) -> tuple[Fraction, ...]:
    """Coefficients whose steps have no degrees 1, ..., m - 1; the largest has size 1, and the last is positive.

    ValueError if the thresholds are not distinct half-integers between 0 and l.

    Notes
    -----
    c_i = 1 / (C(l - 1, n_i) prod_{j != i} (n_i - n_j)) with n_i = t_i - 1/2, up to scale; proved in
    `DesignedStepsFamily`. O(m^2).
    """
    own = real_array("thresholds", thresholds, ("m",))
    if np.any(np.mod(own, 1) != 0.5) or len(np.unique(own)) < len(own) or own.min() < 0 or own.max() > bits:
        raise ValueError(
            f"thresholds is {thresholds}: distinct half-integers between 0 and {bits}, such as 0.5, are needed."
        )
    below = [int(one - 0.5) for one in own]
    found = [
        Fraction(1, math.comb(bits - 1, n) * math.prod(n - other for other in below if other != n))
        for n in below
    ]
    largest = max(abs(one) for one in found)
    return tuple(one / (largest if found[-1] > 0 else -largest) for one in found)


def tanh(z: float) -> float:
    """The float64 number nearest to tanh z, the same on all machines."""
    import mpmath  # a tenth of a second, and not needed by every process

    with mpmath.workprec(200):
        return float(mpmath.tanh(z))


def _even_thresholds(bits: int, heads: int) -> tuple[float, ...]:
    if heads == 1:
        return ((bits - 1) // 2 + 0.5,)
    # round towards the centre on one side and mirror on the other: symmetric, and never two equal thresholds
    steps = heads - 1
    lower = [(2 * i * (bits - 1) + steps) // (2 * steps) for i in range((heads + 1) // 2)]
    upper = [bits - 1 - one for one in lower[: heads // 2]]
    return tuple(one + 0.5 for one in sorted(lower + upper))


def _level_means(bits: int, below: list[int]) -> list[Fraction]:
    # the mean of (-1)^N over each interval of N between thresholds
    edges = [-1, *below, bits]
    means = []
    for low, high in pairwise(edges):
        inside = range(low + 1, high + 1)
        signed = sum((-1) ** n * math.comb(bits, n) for n in inside)
        means.append(Fraction(signed, sum(math.comb(bits, n) for n in inside)))
    return means

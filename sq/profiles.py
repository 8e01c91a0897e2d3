"""Four profiles: two slopes, a bump, designed steps and centre thresholds, each a constructor of `ProfileFamily`."""

import math
from collections.abc import Sequence
from fractions import Fraction
from itertools import pairwise
from typing import Annotated, Any, Literal

import numpy as np
from jaxtyping import Float

from attention.validation import NonNegativeInt, PositiveFloat, PositiveInt, Whole, real_array
from lower import Heads, Option, Word, constructor
from lower.heads import SATURATED_SLOPE, Numbers
from sq.family import Dim, Noise, require_realisable
from sq.profile_family import ProfileFamily, tanh
from sq.secret_set import SecretSet

_SATURATED = 1e-12  # below this share, cancellation has destroyed the digits of the hidden part

_BITS = Option("Number l of hidden coordinates.", preset=8)
Bits = Annotated[PositiveInt, _BITS]
Slope = Annotated[PositiveFloat, Option("Slope of all heads.")]


@constructor("sq-two-slope", "Two slopes, {bits}, {heads}")
def two_slope(
    *,
    dim: Dim,
    bits: Annotated[int, Whole(3), _BITS],
    noise: Noise = 0.0,
    slopes: Annotated[Sequence[PositiveFloat], Option("The two slopes.")] = (0.1, 1.0),
) -> ProfileFamily:
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
    >>> family = ProfileFamily.two_slope(dim=20, bits=16)
    >>> round(float(family.heads.coefficients[1]), 4), round(float(family.weights[3]), 4), family.lowest_degree
    (-0.2627, 0.6066, 7)
    """
    if len(slopes) != 2:
        raise ValueError(f"slopes is {slopes}: two numbers above 0 are needed.")
    _require_size(dim, bits)
    steps = np.array([[tanh(slope * (n - bits / 2)) for n in range(bits + 1)] for slope in slopes])
    first, second = (
        sum(math.comb(bits, n) * (bits - 2 * n) * Fraction(g) for n, g in enumerate(one))
        for one in steps.tolist()
    )
    cancelling = float(-first / second)  # degree 1
    made = _profile_family(
        dim,
        bits,
        noise,
        np.full(2, bits / 2),
        [1.0, cancelling],
        slopes,
        profile=steps[0] + cancelling * steps[1],
        leaks=(Word.SQUARES,),
        others={"slopes": tuple(slopes)},
    )
    left = made.scale**2
    if not left > _SATURATED * (1 + cancelling**2):
        raise ValueError(
            f"slopes is {slopes}: the two heads cancel to a variance of {left:.1e}; take distinct slopes, of which at "
            f"most one saturates, such as {0.8 / bits:.2g} and {8 / bits:.2g}."
        )
    return made


@constructor("sq-bump", "Bump at {at} of {bits}, {heads}")
def bump(
    *,
    dim: Dim,
    bits: Bits,
    noise: Noise = 0.0,
    at: Annotated[
        NonNegativeInt | None, Option("How many of the hidden coordinates are to differ; by default half.")
    ] = None,
    beta: Slope = SATURATED_SLOPE,
) -> ProfileFamily:
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
    >>> family = ProfileFamily.bump(dim=20, bits=8)
    >>> [round(float(one), 4) for one in family.overlap_correlations[1:5]], round(float(family.weights[2]), 4)
    ([0.0, 0.0077, 0.023, 0.0488], 0.2151)
    """
    _require_size(dim, bits)
    at = bits // 2 if at is None else at
    if at > bits:
        raise ValueError(f"at is {at}: a number from 0 to {bits}, the number of bits, is needed.")
    others = {"at": at, "beta": beta}
    return _profile_family(dim, bits, noise, [at - 0.5, at + 0.5], [0.5, -0.5], [beta] * 2, others=others)


@constructor("sq-designed-steps", "Designed steps, {bits}, {heads}")
def designed_steps(
    *,
    dim: Dim,
    bits: Bits,
    noise: Noise = 0.0,
    heads_count: Annotated[
        PositiveInt | None, Option("Number m of heads; by default one a threshold, or two.", flag="--heads")
    ] = None,
    thresholds: Annotated[
        Sequence[float] | None,
        Option("Half-integers between 0 and l, one a head; by default spread evenly."),
    ] = None,
    beta: Slope = SATURATED_SLOPE,
) -> ProfileFamily:
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
    >>> family = ProfileFamily.designed_steps(dim=20, bits=6, heads_count=4)
    >>> family.heads.thresholds, family.heads.coefficients
    (array([0.5, 2.5, 3.5, 5.5]), array([-1. ,  0.5, -0.5,  1. ]))
    >>> round(float(family.weights[4]), 4), round(float(family.overlap_correlations[4]), 4)
    (0.7895, 0.0526)
    """
    _require_size(dim, bits)
    m = heads_count or (2 if thresholds is None else len(thresholds))
    if m > bits:
        raise ValueError(f"heads_count is {m}: 1 to {bits}, the number of bits, is needed.")
    own = _even_thresholds(bits, m) if thresholds is None else tuple(sorted(thresholds))
    if len(own) != m:
        raise ValueError(f"heads_count is {m} with {len(own)} thresholds: one a head is needed.")
    coefficients = [float(one) for one in designed_coefficients(bits, own)]
    others = {"heads_count": m, "thresholds": own, "beta": beta}
    # the degree is proved: at many bits its weight is smaller than the rounding errors of the lower ones
    return _profile_family(dim, bits, noise, own, coefficients, [beta] * m, degree=m, others=others)


@constructor("sq-centre-threshold", "Centre thresholds, {bits}, {heads}")
def centre_threshold(
    *,
    dim: Dim,
    bits: Bits,
    noise: Noise = 0.0,
    heads_count: Annotated[
        PositiveInt, Option("Number m of heads, even or odd as the bits are.", flag="--heads")
    ] = 2,
    steps: Annotated[
        Literal["alternating", "best-fit"],
        Option("Steps of one size in turn, or those that fit the parity best."),
    ] = "alternating",
    beta: Slope = SATURATED_SLOPE,
) -> ProfileFamily:
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
    >>> families = [ProfileFamily.centre_threshold(dim=20, bits=16, heads_count=m) for m in (2, 4, 6, 8)]
    >>> [round(math.sqrt(one.weights[-1]), 4) for one in families]  # the correlation of g(N) with (-1)^N
    [0.4943, 0.7324, 0.8878, 0.9654]
    """
    _require_size(dim, bits)
    if heads_count > bits or (bits - heads_count) % 2:
        kind = "odd" if bits % 2 else "even"
        raise ValueError(
            f"heads_count is {heads_count}: an {kind} number of at most {bits}, the number of bits, is needed."
        )
    first = (bits - heads_count) // 2
    below = list(range(first, first + heads_count))  # thresholds are these plus 1/2
    if steps == "alternating":
        # each step changes the sign, as the parity does from N to N + 1
        coefficients = [(-1.0) ** (n + 1) for n in below]
    else:
        differences = [after - before for before, after in pairwise(_level_means(bits, below))]
        largest = max(abs(one) for one in differences)
        coefficients = [float(one / largest) for one in differences]
    others = {"heads_count": heads_count, "steps": steps, "beta": beta}
    thresholds = np.array(below) + 0.5
    return _profile_family(dim, bits, noise, thresholds, coefficients, [beta] * heads_count, others=others)


ProfileFamily.bump, ProfileFamily.two_slope = bump, two_slope
ProfileFamily.designed_steps, ProfileFamily.centre_threshold = designed_steps, centre_threshold


def _require_size(dim: int, bits: int) -> None:
    """Refuse sizes before heads are made: ValueError if there are too many bits, or too few coordinates for them."""
    _ = SecretSet(dim=dim, bits=bits)
    require_realisable(bits)


def _profile_family(
    dim: int,
    bits: int,
    noise: float,
    thresholds: Numbers,
    coefficients: Numbers,
    slopes: Numbers,
    **others: Any,
) -> ProfileFamily:
    """The family of heads with these numbers."""
    heads = Heads.counting(bits, thresholds, coefficients, slopes)
    return ProfileFamily(dim=dim, bits=bits, noise=noise, heads=heads, **others)


def designed_coefficients(
    bits: int, thresholds: Sequence[float] | Float[np.ndarray, " m"]
) -> tuple[Fraction, ...]:
    """Coefficients whose steps have no degrees 1, ..., m - 1; the largest has size 1, and the last is positive.

    ValueError if the thresholds are not distinct half-integers between 0 and l.

    Notes
    -----
    c_i = 1 / (C(l - 1, n_i) prod_{j != i} (n_i - n_j)) with n_i = t_i - 1/2, up to scale; proved in
    `ProfileFamily.designed_steps`. O(m^2).
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

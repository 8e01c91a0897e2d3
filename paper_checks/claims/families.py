"""Other hard families."""

from collections.abc import Iterator
from fractions import Fraction
from math import comb

import numpy as np
from numpy.random import Generator

from paper_checks import Basis, Comparison, Fault, Scale, at_least, claim, close, equal, returned
from sq.krawtchouk import fourier_weights, overlap_correlations
from sq.profiles import designed_coefficients

_ONE_SET = Fault(
    "sq.krawtchouk:fourier_weights",
    returned(lambda shares: tuple(share / comb(len(shares) - 1, r) for r, share in enumerate(shares))),
    "weights of one set in place of all C(l, r)",
)


@claim("families/shares", source="derived here", basis=Basis.PROVED, fault=_ONE_SET)
def shares(
    scale: Scale,
    rng: Generator,
    *,
    bump: tuple[float, ...] = (0.2151, 0.0, 0.0077, 0.0230, 0.0488),
    two_slopes: tuple[float, ...] = (-0.2627, 0.6066),
    alternating: tuple[float, ...] = (0.4943, 0.7324, 0.8878, 0.9654),
    alternating_at_two: tuple[float, ...] = (0.130, 0.161, 0.083, 0.019),
    least_of_square: float = 0.1,
) -> Iterator[Comparison]:
    """Let W_r be the share of the variance of g(N) at degree r. The bump 1[N = 4] of l = 8 has W_2 = .2151 and at
    overlaps 1 to 4 the correlations 0, .0077, .0230, .0488, so C(d-1, 2) queries y_i y_j break it. Two heads of
    threshold l/2, slopes (.1, 1) and c = (1, -.2627) have W_1 = W_2 = 0 and W_3 = .6066 at l = 16, and the squared
    labels show the secret at degree 2. For m = 2, 4, 6, 8 alternating steps at the half-integers around l/2, l = 16,
    the correlation with the parity is .4943, .7324, .8878, .9654, and W_2 is .130, .161, .083, .019.

    Profiles are written from their definitions. The tests compare `sq.krawtchouk` with sums over all signs.
    """
    digit = 5.01e-5
    profile: list[float] = [int(n == 4) for n in range(9)]
    found = [fourier_weights(profile)[2], *overlap_correlations(profile)[1:5]]
    for name, value, figure in zip(("W_2", *(f"rho({o})" for o in range(1, 5))), found, bump, strict=True):
        yield close(f"bump: {name}", float(value), figure, absolute=digit)
    n = np.arange(17)
    first, second = np.tanh(0.1 * (n - 8)), np.tanh(n - 8.0)
    binomial = np.array([comb(16, one) for one in range(17)]) * (n - 8)
    c = float(-(binomial @ first) / (binomial @ second))
    slopes = fourier_weights(first + c * second)
    yield close("two slopes: c", c, two_slopes[0], absolute=digit)
    yield close("two slopes: W_1 + W_2", float(slopes[1] + slopes[2]), 0, absolute=1e-12)
    yield close("two slopes: W_3", float(slopes[3]), two_slopes[1], absolute=digit)
    square = fourier_weights((first + c * second) ** 2)
    yield at_least("two slopes: W_2 of the square", float(square[2]), least_of_square)
    for m, figure, at_two in zip((2, 4, 6, 8), alternating, alternating_at_two, strict=True):
        below = range((16 - m) // 2, (16 + m) // 2)
        weights = fourier_weights([sum((-1) ** one * (-1 if k > one else 1) for one in below) for k in n])
        yield close(f"m = {m}: correlation with parity", float(weights[16]) ** 0.5, figure, absolute=digit)
        yield close(f"m = {m}: W_2", float(weights[2]), at_two, absolute=5.01e-4)


@claim(
    "families/designed-steps",
    source="derived here",
    basis=Basis.PROVED,
    fault=Fault(
        "sq.profiles:designed_coefficients",
        returned(lambda heights: tuple(abs(one) for one in heights)),
        "steps without their signs",
    ),
)
def designed_steps(
    scale: Scale,
    rng: Generator,
    *,
    coefficients: tuple[str, ...] = ("-1", "1/2", "-1/2", "1"),
    weight: Fraction = Fraction(15, 19),
    correlation: Fraction = Fraction(1, 19),
) -> Iterator[Comparison]:
    """Take m steps at any thresholds n_i + 1/2 with c_i proportional to 1/(C(l-1, n_i) prod_{j != i} (n_i - n_j)).
    Their lowest degree is exactly m. For l = 6 and t = (.5, 2.5, 3.5, 5.5) this gives c = (-1, 1/2, -1/2, 1), W_4 =
    15/19 = .7895 and rho(4) = 1/19 = .0526.

    The notes of sq.DesignedStepsFamily have the proof. Checks in fractions the case named, and random thresholds for l
    up to 12: the weights of degrees 1 to m - 1 are 0 and that of degree m is not.
    """
    g = _steps((0, 2, 3, 5), 6)
    wanted = [Fraction(one) for one in coefficients]
    yield equal("l = 6: c", designed_coefficients(6, (0.5, 2.5, 3.5, 5.5)), wanted)
    yield equal("l = 6: W_4 and rho(4)", [fourier_weights(g)[4], overlap_correlations(g)[4]], [weight, correlation])
    for bits in (5, 6, 8, 12):
        m = int(rng.integers(2, bits))
        below = sorted(rng.choice(bits, size=m, replace=False).tolist())
        weights = fourier_weights(_steps(below, bits))
        lowest = next(r for r in range(1, bits + 1) if weights[r])
        yield equal(f"l = {bits}, m = {m}: lowest degree less m", lowest - m, 0)


def _steps(below: list[int] | tuple[int, ...], bits: int) -> list[Fraction]:
    """sum_i c_i sign(N - n_i - 1/2) with designed c_i."""
    heights = designed_coefficients(bits, [n + 0.5 for n in below])
    return [
        sum((c if n > place else -c for place, c in zip(below, heights, strict=True)), Fraction(0))
        for n in range(bits + 1)
    ]

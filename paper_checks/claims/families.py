"""Other hard families."""

from collections.abc import Iterator
from fractions import Fraction
from math import comb, prod

import numpy as np
from numpy.random import Generator

from paper_checks.claim import Basis, claim
from paper_checks.comparison import Comparison, at_least, at_most, close, equal
from paper_checks.faults import Fault, returned
from runs import Scale
from sq.krawtchouk import fourier_weights, overlap_correlations

_ONE_SET = Fault(
    "sq.krawtchouk:fourier_weights",
    returned(lambda shares: tuple(share / comb(len(shares) - 1, r) for r, share in enumerate(shares))),
    "weights of one set in place of all C(l, r)",
)


@claim("families/shares", source="derived here", basis=Basis.PROVED, fault=_ONE_SET)
def shares(scale: Scale, rng: Generator) -> Iterator[Comparison]:
    """Let W_r be the share of the variance of g(N) at degree r. The bump 1[N = 4] of l = 8 has W_2 = .2151 and at
    overlap 4 the correlation .0488, so C(d-1, 2) queries y_i y_j break it. Two heads of threshold l/2, slopes (.1, 1)
    and c = (1, -.2627) have W_1 = W_2 = 0 and W_3 = .6066 at l = 16, and the squared labels show the secret at degree
    2. For m = 2, 4, 6, 8 alternating steps at the half-integers around l/2, l = 16, the correlation with the parity is
    .4943, .7324, .8878, .9654, and W_2 is .130, .161, .083, .019.

    Profiles are written from their definitions. The tests compare `sq.krawtchouk` with sums over all signs.
    """
    bump = [int(n == 4) for n in range(9)]
    yield close("bump: W_2", float(fourier_weights(bump)[2]), 0.2151, absolute=5.01e-5)
    yield close("bump: rho(4)", float(overlap_correlations(bump)[4]), 0.0488, absolute=5.01e-5)
    n = np.arange(17)
    first, second = np.tanh(0.1 * (n - 8)), np.tanh(n - 8.0)
    linear = np.array([comb(16, one) for one in range(17)]) * (n - 8)
    c = float(-(linear @ first) / (linear @ second))
    weights = fourier_weights(first + c * second)
    yield close("two slopes: c", c, -0.2627, absolute=5.01e-5)
    yield at_most("two slopes: W_1 + W_2", float(weights[1] + weights[2]), 1e-12)
    yield close("two slopes: W_3", float(weights[3]), 0.6066, absolute=5.01e-5)
    yield at_least("two slopes: W_2 of the square", float(fourier_weights((first + c * second) ** 2)[2]), 0.1)
    for m, figure, second in ((2, 0.4943, 0.13), (4, 0.7324, 0.161), (6, 0.8878, 0.083), (8, 0.9654, 0.019)):
        below = range((16 - m) // 2, (16 + m) // 2)
        weights = fourier_weights([sum((-1) ** one * (-1 if k > one else 1) for one in below) for k in n])
        yield close(f"m = {m}: correlation with parity", float(weights[16]) ** 0.5, figure, absolute=5.01e-5)
        yield close(f"m = {m}: W_2", float(weights[2]), second, absolute=5.01e-4)


@claim("families/designed-steps", source="derived here", basis=Basis.PROVED, fault=_ONE_SET)
def designed_steps(scale: Scale, rng: Generator) -> Iterator[Comparison]:
    """Take m steps at any thresholds n_i + 1/2 with c_i proportional to 1/(C(l-1, n_i) prod_{j != i} (n_i - n_j)).
    Their lowest degree is exactly m. For l = 6 and t = (.5, 2.5, 3.5, 5.5) W_4 = 15/19 = .7895 and rho(4) = 1/19 =
    .0526.

    The notes of the family have the proof. Checks in fractions the case named, and random thresholds for l up to 12.
    """
    g = _steps([0, 2, 3, 5], 6)
    found = [fourier_weights(g)[4], overlap_correlations(g)[4]]
    yield equal("l = 6: W_4 and rho(4)", found, [Fraction(15, 19), Fraction(1, 19)])
    for bits in (5, 6, 8, 12):
        m = int(rng.integers(2, bits))
        below = sorted(rng.choice(bits, size=m, replace=False).tolist())
        weights = fourier_weights(_steps(below, bits))
        lowest = next(r for r in range(1, bits + 1) if weights[r])
        yield equal(f"l = {bits}, m = {m}: lowest degree less m", lowest - m, 0)


def _steps(below: list[int], bits: int) -> list[Fraction]:
    """sum_i c_i sign(N - n_i - 1/2) with the c_i stated."""
    heights = [Fraction(1, comb(bits - 1, n) * prod(n - one for one in below if one != n)) for n in below]
    return [
        sum((c if n > place else -c for place, c in zip(below, heights, strict=True)), Fraction(0))
        for n in range(bits + 1)
    ]

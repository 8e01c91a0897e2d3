"""Claims: Other hard families."""

from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import combinations, product
from math import comb, sqrt

import numpy as np
from numpy.random import Generator

from paper_checks.check import Constants, Scale
from paper_checks.claims._gated_parities import all_inputs, known_part, row_gap, staircase_layer
from paper_checks.claims.tables import checks
from paper_checks.comparison import Comparison, at_least, at_most, close, equal
from paper_checks.faults import returned
from sq import ProfileFamily
from sq.krawtchouk import fourier_coefficients, fourier_weights, krawtchouk, overlap_correlations
from sq.profiles import designed_coefficients

Profile = Sequence[Fraction | int]


@checks("families/krawtchouk", returned(abs))
def krawtchouk_weights(claim: Constants, scale: Scale, rng: Generator) -> Iterator[Comparison]:
    """Computes means over all 2^l sign vectors for every set of coordinates, in fractions, with random whole
    values g(N). Compares them with the formula and sq.fourier_coefficients. l is at most 6 (quick) or 9.
    """
    for bits in (2, 4, 6) if scale is Scale.QUICK else range(2, 10):
        g = rng.integers(-9, 10, bits + 1).tolist()
        signs = list(product((1, -1), repeat=bits))
        agree = []
        for r in range(bits + 1):
            total = sum(comb(bits, n) * g[n] * krawtchouk(bits, r, n) for n in range(bits + 1))
            by_formula = Fraction(total, 2**bits * comb(bits, r) ** claim.sets_divided_out)
            enumerated = {
                Fraction(sum(g[y.count(-1)] * int(np.prod([y[j] for j in chosen])) for y in signs), 2**bits)
                for chosen in combinations(range(bits), r)
            }
            agree.append(enumerated == {by_formula} == {fourier_coefficients(g)[r]})
        yield equal(f"l = {bits}: all degrees agree", agree, [True] * (bits + 1))


@checks("families/overlap", returned(lambda found: found[::-1]))
def covariance_at_overlap(claim: Constants, scale: Scale, rng: Generator) -> Iterator[Comparison]:
    """The notes of sq.overlap_correlations have the proof. Computes the joint laws of N_S and N_T in
    fractions for random whole values g(N), every overlap and l up to 8, and compares sq.overlap_correlations.
    """
    for bits in (2, 3, 5, 8):
        # an end apart from the rest, so that no profile is constant or of mean 0
        g = [*rng.integers(-9, 10, bits).tolist(), 40]
        ghat = fourier_coefficients(g)
        covariances = [_covariance(g, overlap) for overlap in range(bits + 1)]
        formula = [
            sum(comb(overlap, r) * ghat[r] ** 2 for r in range(claim.first_degree, overlap + 1))
            for overlap in range(bits + 1)
        ]
        yield equal(f"l = {bits}: covariances", covariances, formula)
        shares = [one / covariances[-1] for one in covariances]
        yield equal(f"l = {bits}: the library's", list(overlap_correlations(g)), shares)


@checks("families/layers")
def layers(claim: Constants, scale: Scale, rng: Generator) -> Iterator[Comparison]:
    """The claim follows from the identity in the notes of lower.Heads. Runs the layers at every input of two
    tokens of 6 signs, l = 4: the bump at each t, and the designed steps .5, 1.5, 3.5.
    """
    x, secret = all_inputs(2, 6), (1, 2, 4, 5)
    n = (x[:, 0, secret] != x[:, 1, secret]).sum(axis=1)
    u = (x[:, 0, 0] - x[:, 1, 0]) / 2
    half = claim.half_width
    for at in range(5):
        layer = staircase_layer(secret, 6, (at - half, at + half), (0.5, -0.5), (40.0, 40.0))
        g = u * (n == at)
        gap = row_gap(layer(x), np.stack([g, -g], axis=1), np.eye(6)[0])
        yield at_most(f"bump at {at}: error", gap, claim.rounding)
    t, c = (0.5, 1.5, 3.5), (1.0, -0.25, 0.5)
    steps = sum(height * np.sign(n - place) for place, height in zip(t, c, strict=True))
    wanted = known_part(x, sum(c), 0.0) + np.stack([u * steps, -u * steps], axis=1)
    gap = row_gap(staircase_layer(secret, 6, t, c, (40.0,) * 3)(x), wanted, np.eye(6)[0])
    yield at_most("three steps: error", gap, claim.rounding)


@checks("families/bump")
def bump(claim: Constants, scale: Scale, rng: Generator) -> Iterator[Comparison]:
    """Computes fractions from binomial laws and from all 2^10 signs of ten coordinates, eight of them secret.
    They are rounded to four digits at the end.
    """
    bits, digit = 8, claim.half_a_digit
    g = [int(n == claim.at) for n in range(bits + 1)]
    variance = _covariance(g, bits)
    yield close("variance", float(variance), claim.variance, absolute=digit)
    for overlap, figure in enumerate(claim.correlations, start=1):
        rho = float(_covariance(g, overlap) / variance)
        yield close(f"rho({overlap})", rho, figure, absolute=digit)
    y = np.array(list(product((1, -1), repeat=bits + 2)))
    n = (y[:, :bits] < 0).sum(axis=1)
    values = (n == claim.at).astype(int)
    seen = {
        pair: Fraction(int(values @ (y[:, pair[0]] * y[:, pair[1]])), len(y)) for pair in _pairs(bits + 2)
    }
    inside = {seen[pair] for pair in _pairs(bits)}
    outside = {one for pair, one in seen.items() if pair[1] >= bits}
    yield equal("coefficients of pairs not both secret", sorted(outside), [0])
    yield equal("distinct coefficients of secret pairs", len(inside), 1)
    weight = comb(bits, 2) * inside.pop() ** 2 / variance
    yield close("W_2", float(weight), claim.degree_two, absolute=digit)


@checks("families/two-slopes")
def two_slopes(claim: Constants, scale: Scale, rng: Generator) -> Iterator[Comparison]:
    """Degree 2 is absent because g is odd about l/2, and degree 1 by the choice of c. Computes weights from
    sums over N with Krawtchouk polynomials for l = 3 to 20, and the squared profile's weight at degree 2 for
    l = 16.
    """
    for bits in range(3, 21):
        distance = np.arange(bits + 1) - bits / 2
        first, second = (np.tanh(slope * distance) for slope in claim.slopes)
        c = -_degree(first, 1) / _degree(second, 1)
        g = first + c * second
        weights = [comb(bits, r) * _degree(g, r) ** 2 for r in range(bits + 1)]
        low = max(weights[1], weights[2]) / sum(weights[1:])
        yield at_most(f"l = {bits}: W_1 and W_2", low, claim.rounding)
        if bits == 16:
            digit = claim.half_a_digit
            yield close("l = 16: c", c, claim.c, absolute=digit)
            share = weights[3] / sum(weights[1:])
            yield close("l = 16: W_3", share, claim.degree_three, absolute=digit)
            squares = [comb(bits, r) * _degree(g**2, r) ** 2 for r in range(1, bits + 1)]
            leak = squares[1] / sum(squares)
            yield at_least("l = 16: W_2 of the square", leak, claim.square_leaks)


@checks(
    "families/designed-steps",
    returned(lambda found: tuple(abs(one) for one in found)),
    weight=Fraction(15, 19),
    rho=Fraction(1, 19),
)
def designed_steps(claim: Constants, scale: Scale, rng: Generator) -> Iterator[Comparison]:
    """The notes of sq.DesignedStepsFamily have the proof. Checks in fractions the case named, and random
    thresholds for l up to 12: the weights of degrees 1 to m - 1 are 0 and that of degree m is not.
    """
    c = [Fraction(one) for one in claim.c]
    g = _steps([0, 2, 3, 5], c, 6)
    weights = _weights(g)
    yield equal("l = 6: the library's c", list(designed_coefficients(6, (0.5, 2.5, 3.5, 5.5))), c)
    yield equal("l = 6: degrees 1, 2, 3", weights[1:4], [0, 0, 0])
    yield equal("l = 6: W_4", weights[4], claim.weight)
    yield equal("l = 6: rho(4)", _covariance(g, 4) / _covariance(g, 6), claim.rho)
    for bits in (5, 8, 12):
        m = int(rng.integers(2, bits))
        below = sorted(rng.choice(bits, size=m, replace=False).tolist())
        weights = _weights(_steps(below, designed_coefficients(bits, [n + 0.5 for n in below]), bits))
        lowest = next(r for r in range(1, bits + 1) if weights[r])
        yield equal(f"l = {bits}, m = {m}: lowest degree less m", lowest - m, claim.lowest)


@checks("families/centre-thresholds", lambda right: property(lambda self: right.fget(self) ** 2))
def centre_thresholds(claim: Constants, scale: Scale, rng: Generator) -> Iterator[Comparison]:
    """Writes profiles from the definitions, and computes correlations and weights in fractions. The best fit
    is the mean of the parity between thresholds, a projection. sq.ProfileFamily.centre_threshold is compared with
    both.
    """
    bits, digit = 16, claim.half_a_digit
    for place, m in enumerate((2, 4, 6, 8)):
        below = [(bits - m) // 2 + i for i in range(m)]
        alternating = _steps(below, [(-1) ** (n + 1) for n in below], bits)
        best = _level_means(below, bits)
        correlations = [_parity_correlation(g) for g in (alternating, best)]
        for name, value in zip(("alternating", "best"), correlations, strict=True):
            yield close(f"m = {m}: {name}", value, claim[name][place], absolute=digit)
        gap = max(
            abs(_of_family(m, steps) - value)
            for steps, value in zip(("alternating", "best-fit"), correlations, strict=True)
        )
        yield at_most(f"m = {m}: the library's, difference", gap, claim.rounding)
        weight = float(_weights(alternating)[2])
        figure = claim.degree_two[place]
        yield close(f"m = {m}: W_2, alternating", weight, figure, absolute=claim.half_of_three)


@checks(
    "families/weights-add-up",
    returned(lambda found: tuple(one / comb(len(found) - 1, r) for r, one in enumerate(found))),
)
def weights_add_up(claim: Constants, scale: Scale, rng: Generator) -> Iterator[Comparison]:
    """Uses fractions for random whole values g(N), l up to 20, by sq.fourier_weights and by the formula. The
    variance comes from the binomial law.
    """
    for bits in (3, 8, 20):
        g = [*rng.integers(-9, 10, bits).tolist(), 40]
        ghat, variance = fourier_coefficients(g), _covariance(g, bits)
        shares = [comb(bits, r) ** claim.sets * ghat[r] ** 2 / variance for r in range(1, bits + 1)]
        yield equal(f"l = {bits}: sum", sum(shares), claim.total)
        yield equal(f"l = {bits}: the library's", list(fourier_weights(g)[1:]), shares)
        parity = fourier_weights([(-1) ** n for n in range(bits + 1)])
        yield equal(f"l = {bits}: the parity's at degree l", parity[-1], claim.total)


def _covariance(g: Profile, overlap: int) -> Fraction:
    # of g(N_S) and g(N_T): the common coordinates, and those of each alone, are binomial and independent
    bits = len(g) - 1
    own = bits - overlap
    total = Fraction(0)
    for common in range(overlap + 1):
        inner = sum(comb(own, n) * Fraction(g[common + n]) for n in range(own + 1))
        total += comb(overlap, common) * inner**2
    mean = sum(comb(bits, n) * Fraction(g[n]) for n in range(bits + 1)) / 2**bits
    return total / 2 ** (overlap + 2 * own) - mean**2


def _pairs(size: int) -> list[tuple[int, int]]:
    return list(combinations(range(size), 2))


def _degree(g: np.ndarray, r: int) -> float:
    # ghat_r by the formula
    bits = len(g) - 1
    total = sum(comb(bits, n) * g[n] * krawtchouk(bits, r, n) for n in range(bits + 1))
    return float(total / (2**bits * comb(bits, r)))


def _weights(g: Profile) -> list[Fraction]:
    bits = len(g) - 1
    sizes = []
    for r in range(bits + 1):
        total = sum(comb(bits, n) * Fraction(g[n]) * krawtchouk(bits, r, n) for n in range(bits + 1))
        sizes.append((total / 2**bits) ** 2 / comb(bits, r))
    variance = sum(sizes[1:], Fraction(0))
    return [Fraction(0), *(one / variance for one in sizes[1:])]


def _steps(below: Sequence[int], heights: Profile, bits: int) -> list[Fraction]:
    # sum_i c_i sign(N - n_i - 1/2)
    return [
        sum((Fraction(c if n > place else -c) for place, c in zip(below, heights, strict=True)), Fraction(0))
        for n in range(bits + 1)
    ]


def _level_means(below: Sequence[int], bits: int) -> list[Fraction]:
    # the parity's mean over each stretch between thresholds
    level = [sum(n > place for place in below) for n in range(bits + 1)]
    means = []
    for one in level:
        inside = [n for n in range(bits + 1) if level[n] == one]
        signed = sum((-1) ** n * comb(bits, n) for n in inside)
        means.append(Fraction(signed, sum(comb(bits, n) for n in inside)))
    return means


def _parity_correlation(g: Profile) -> float:
    bits = len(g) - 1
    product_mean = sum((-1) ** n * comb(bits, n) * Fraction(g[n]) for n in range(bits + 1)) / 2**bits
    return abs(float(product_mean)) / sqrt(_covariance(g, bits))


def _of_family(m: int, steps: str) -> float:
    kind = "alternating" if steps == "alternating" else "best-fit"
    family = ProfileFamily.centre_threshold(dim=20, bits=16, heads_count=m, steps=kind)
    return family.correlation_with_parity

"""Claims: Other hard families."""

from collections.abc import Sequence
from fractions import Fraction
from itertools import combinations, product
from math import comb, sqrt

import numpy as np
from numpy.random import Generator

from paper_checks.check import Basis, Constants, Scale, check
from paper_checks.claims._gated_parities import all_inputs, known_part, row_gap, staircase_layer
from paper_checks.comparison import Comparison, Kind, at_least, at_most, close, equal
from paper_checks.faults import Fault, returned
from sq import (
    CentreThresholdFamily,
    designed_coefficients,
    fourier_coefficients,
    fourier_weights,
    krawtchouk,
    overlap_correlations,
)

Profile = Sequence[Fraction | int]


@check(
    "families/krawtchouk",
    claim="A function g(N) of N = #{j in S: y_j = -1}, |S| = l, has over uniform signs y the coefficient "
    "ghat_r = 2^-l sum_N C(l,N) g(N) K_r(N) / C(l,r) on every set of r coordinates of S, K_r the Krawtchouk "
    "polynomial.",
    source="MacWilliams and Sloane, The Theory of Error-Correcting Codes, Chapter 5",
    kind=Kind.EXACT,
    basis=Basis.PROVED,
    how="Means over all 2^l sign vectors for every set of coordinates, in fractions, with random whole values g(N), "
    "against the formula and sq.fourier_coefficients; l up to 6 (quick) or 9.",
    constants={"sets_divided_out": 1},
    wrong=Fault("sq.krawtchouk:krawtchouk", returned(abs), "Krawtchouk polynomials without their signs"),
)
def krawtchouk_weights(constants: Constants, scale: Scale, rng: Generator) -> Sequence[Comparison]:
    """All characters have one coefficient each, by enumeration."""
    found = []
    for bits in (2, 4, 6) if scale is Scale.QUICK else range(2, 10):
        g = rng.integers(-9, 10, bits + 1).tolist()
        signs = list(product((1, -1), repeat=bits))
        agree = []
        for r in range(bits + 1):
            total = sum(comb(bits, n) * g[n] * krawtchouk(bits, r, n) for n in range(bits + 1))
            by_formula = Fraction(total, 2**bits * comb(bits, r) ** constants["sets_divided_out"])
            enumerated = {
                Fraction(sum(g[y.count(-1)] * int(np.prod([y[j] for j in chosen])) for y in signs), 2**bits)
                for chosen in combinations(range(bits), r)
            }
            agree.append(enumerated == {by_formula} == {fourier_coefficients(g, exact=True)[r]})
        found.append(equal(f"l = {bits}: all degrees agree", agree, [True] * (bits + 1)))
    return found


@check(
    "families/overlap",
    claim="The covariance of g(N_S) and g(N_T) is sum_{r >= 1} C(o, r) ghat_r^2, o = |S cap T|.",
    source="derived here",
    kind=Kind.EXACT,
    basis=Basis.PROVED,
    how="Proved in the notes of sq.overlap_correlations. Joint laws of N_S and N_T in fractions for random whole "
    "values g(N), every overlap, l up to 8, and sq.overlap_correlations.",
    constants={"first_degree": 1},
    wrong=Fault(
        "sq.krawtchouk:overlap_correlations",
        returned(lambda found: found[::-1]),
        "overlaps counted from the other end",
    ),
)
def covariance_at_overlap(constants: Constants, scale: Scale, rng: Generator) -> Sequence[Comparison]:
    """Only the characters of common subsets meet."""
    found = []
    for bits in (2, 3, 5, 8):
        # an end apart from the rest, so that no profile is constant or of mean 0
        g = [*rng.integers(-9, 10, bits).tolist(), 40]
        ghat = fourier_coefficients(g, exact=True)
        covariances = [_covariance(g, overlap) for overlap in range(bits + 1)]
        formula = [
            sum(comb(overlap, r) * ghat[r] ** 2 for r in range(constants["first_degree"], overlap + 1))
            for overlap in range(bits + 1)
        ]
        found.append(equal(f"l = {bits}: covariances", covariances, formula))
        shares = [one / covariances[-1] for one in covariances]
        found.append(equal(f"l = {bits}: the library's", list(overlap_correlations(g, exact=True)), shares))
    return found


@check(
    "families/layers",
    claim="The two heads with thresholds t - 1/2, t + 1/2, slope 40 and c = (1/2, -1/2) compute g(N) = 1[N = t] behind "
    "the gate with C = 0; staircases with other half-integer thresholds compute their sums of steps up to 1e-12.",
    source="derived here",
    kind=Kind.NUMERIC,
    basis=Basis.PROVED,
    how="Follows from the identity in the notes of lower.Staircase. The layers at every input of two tokens of 6 "
    "signs, l = 4: the bump at each t, and the designed steps .5, 1.5, 3.5.",
    constants={"half_width": 0.5, "rounding": 1e-12},
    wrong={"half_width": 1.5},
)
def layers(constants: Constants, scale: Scale, rng: Generator) -> Sequence[Comparison]:
    """Steps of known heights, counted input by input."""
    found, x, secret = [], all_inputs(2, 6), (1, 2, 4, 5)
    n = (x[:, 0, secret] != x[:, 1, secret]).sum(axis=1)
    u = (x[:, 0, 0] - x[:, 1, 0]) / 2
    half = constants["half_width"]
    for at in range(5):
        layer = staircase_layer(secret, 6, (at - half, at + half), (0.5, -0.5), (40.0, 40.0))
        g = u * (n == at)
        gap = row_gap(layer(x), np.stack([g, -g], axis=1), np.eye(6)[0])
        found.append(at_most(f"bump at {at}: error", gap, constants["rounding"]))
    t, c = (0.5, 1.5, 3.5), (1.0, -0.25, 0.5)
    steps = sum(height * np.sign(n - place) for place, height in zip(t, c, strict=True))
    wanted = known_part(x, sum(c), 0.0) + np.stack([u * steps, -u * steps], axis=1)
    gap = row_gap(staircase_layer(secret, 6, t, c, (40.0,) * 3)(x), wanted, np.eye(6)[0])
    return [*found, at_most("three steps: error", gap, constants["rounding"])]


@check(
    "families/bump",
    claim="The bump 1[N = t], l = 8, t = 4, has variance .1987, correlations 0, .0077, .0230, .0488 at overlaps 1 to 4 "
    "and the share W_2 = .2151 of its variance at degree 2: queries y_i y_j see ghat_2 where i and j are secret and 0 "
    "elsewhere, so C(d-1, 2) of them break it.",
    source="derived here",
    kind=Kind.NUMERIC,
    basis=Basis.PROVED,
    how="Fractions from binomial laws and from all 2^10 signs of ten coordinates, eight of them secret, rounded to "
    "four digits at the end.",
    constants={
        "at": 4,
        "variance": 0.1987,
        "correlations": (0.0, 0.0077, 0.0230, 0.0488),
        "degree_two": 0.2151,
        "half_a_digit": 5.01e-5,
    },
    wrong={"at": 3},
)
def bump(constants: Constants, scale: Scale, rng: Generator) -> Sequence[Comparison]:
    """All of it is rational."""
    bits, digit = 8, constants["half_a_digit"]
    g = [int(n == constants["at"]) for n in range(bits + 1)]
    variance = _covariance(g, bits)
    found = [close("variance", float(variance), constants["variance"], absolute=digit)]
    for overlap, figure in enumerate(constants["correlations"], start=1):
        rho = float(_covariance(g, overlap) / variance)
        found.append(close(f"rho({overlap})", rho, figure, absolute=digit))
    y = np.array(list(product((1, -1), repeat=bits + 2)))
    n = (y[:, :bits] < 0).sum(axis=1)
    values = (n == constants["at"]).astype(int)
    seen = {
        pair: Fraction(int(values @ (y[:, pair[0]] * y[:, pair[1]])), len(y)) for pair in _pairs(bits + 2)
    }
    inside = {seen[pair] for pair in _pairs(bits)}
    outside = {one for pair, one in seen.items() if pair[1] >= bits}
    found.append(equal("coefficients of pairs not both secret", sorted(outside), [0]))
    found.append(equal("distinct coefficients of secret pairs", len(inside), 1))
    weight = comb(bits, 2) * inside.pop() ** 2 / variance
    return [*found, close("W_2", float(weight), constants["degree_two"], absolute=digit)]


@check(
    "families/two-slopes",
    claim="Two heads of threshold l/2, slopes (.1, 1) and c = (1, -.2627) at l = 16 have W_1 = W_2 = 0 and W_3 = "
    ".6066; for any l >= 3 the second coefficient can be chosen so that W_1 = W_2 = 0. The squared labels leak degree "
    "2.",
    source="derived here",
    kind=Kind.NUMERIC,
    basis=Basis.PROVED,
    how="Degree 2 is absent as g is odd about l/2, degree 1 by the choice of c. Weights from sums over N with "
    "Krawtchouk polynomials, l = 3 to 20; the squared profile's weight at degree 2 at l = 16.",
    constants={
        "slopes": (0.1, 1.0),
        "c": -0.2627,
        "degree_three": 0.6066,
        "square_leaks": 0.1,
        "half_a_digit": 5.01e-5,
        "rounding": 1e-12,
    },
    wrong={"slopes": (0.2, 1.0)},
)
def two_slopes(constants: Constants, scale: Scale, rng: Generator) -> Sequence[Comparison]:
    """Antisymmetric profiles without a part of degree 1."""
    found = []
    for bits in range(3, 21):
        distance = np.arange(bits + 1) - bits / 2
        first, second = (np.tanh(slope * distance) for slope in constants["slopes"])
        c = -_degree(first, 1) / _degree(second, 1)
        g = first + c * second
        weights = [comb(bits, r) * _degree(g, r) ** 2 for r in range(bits + 1)]
        low = max(weights[1], weights[2]) / sum(weights[1:])
        found.append(at_most(f"l = {bits}: W_1 and W_2", low, constants["rounding"]))
        if bits == 16:
            digit = constants["half_a_digit"]
            found.append(close("l = 16: c", c, constants["c"], absolute=digit))
            share = weights[3] / sum(weights[1:])
            found.append(close("l = 16: W_3", share, constants["degree_three"], absolute=digit))
            squares = [comb(bits, r) * _degree(g**2, r) ** 2 for r in range(1, bits + 1)]
            leak = squares[1] / sum(squares)
            found.append(at_least("l = 16: W_2 of the square", leak, constants["square_leaks"]))
    return found


@check(
    "families/designed-steps",
    claim="m steps at any thresholds n_i + 1/2 with c_i proportional to 1/(C(l-1, n_i) prod_{j != i} (n_i - n_j)) have "
    "lowest degree exactly m; l = 6, t = (.5, 2.5, 3.5, 5.5) gives c = (-1, 1/2, -1/2, 1), W_4 = 15/19 = .7895 and "
    "rho(4) = 1/19 = .0526.",
    source="derived here",
    kind=Kind.EXACT,
    basis=Basis.PROVED,
    how="Proved in the notes of sq.DesignedStepsFamily. Fractions: the case named, and random thresholds for l up to "
    "12 (the weights of degrees 1 to m - 1 are 0, that of degree m is not).",
    constants={
        "c": ("-1", "1/2", "-1/2", "1"),
        "lowest": 0,
        "weight": Fraction(15, 19),
        "rho": Fraction(1, 19),
    },
    wrong=Fault(
        "sq.designed_steps:designed_coefficients",
        returned(lambda found: tuple(abs(one) for one in found)),
        "steps without their signs",
    ),
)
def designed_steps(constants: Constants, scale: Scale, rng: Generator) -> Sequence[Comparison]:
    """Divided differences of polynomials of low degree."""
    c = [Fraction(one) for one in constants["c"]]
    g = _steps([0, 2, 3, 5], c, 6)
    weights = _weights(g)
    found = [
        equal("l = 6: the library's c", list(designed_coefficients(6, (0.5, 2.5, 3.5, 5.5))), c),
        equal("l = 6: degrees 1, 2, 3", weights[1:4], [0, 0, 0]),
        equal("l = 6: W_4", weights[4], constants["weight"]),
        equal("l = 6: rho(4)", _covariance(g, 4) / _covariance(g, 6), constants["rho"]),
    ]
    for bits in (5, 8, 12):
        m = int(rng.integers(2, bits))
        below = sorted(rng.choice(bits, size=m, replace=False).tolist())
        weights = _weights(_steps(below, designed_coefficients(bits, [n + 0.5 for n in below]), bits))
        lowest = next(r for r in range(1, bits + 1) if weights[r])
        found.append(equal(f"l = {bits}, m = {m}: lowest degree less m", lowest - m, constants["lowest"]))
    return found


@check(
    "families/centre-thresholds",
    claim="Steps at the m half-integers around l/2, l = 16, m = 2, 4, 6, 8: with alternating c = +-1 the correlation "
    "with the parity is .4943, .7324, .8878, .9654 and W_2 = .130, .161, .083, .019; the best fit with these "
    "thresholds has .4943, .7725, .9110, .9725.",
    source="derived here",
    kind=Kind.NUMERIC,
    basis=Basis.PROVED,
    how="Profiles written from the definitions, correlations and weights in fractions; the best fit is the mean of the "
    "parity between thresholds, a projection. sq.CentreThresholdFamily beside both.",
    constants={
        "alternating": (0.4943, 0.7324, 0.8878, 0.9654),
        "best": (0.4943, 0.7725, 0.9110, 0.9725),
        "degree_two": (0.130, 0.161, 0.083, 0.019),
        "half_a_digit": 5.01e-5,
        "half_of_three": 5.01e-4,
        "rounding": 1e-12,
    },
    wrong=Fault(
        "sq.profiles:CentreThresholdFamily.correlation_with_parity",
        lambda right: property(lambda self: right.fget(self) ** 2),
        "the correlation squared",
    ),
)
def centre_thresholds(constants: Constants, scale: Scale, rng: Generator) -> Sequence[Comparison]:
    """Two choices of the steps' heights at the same places."""
    found, bits, digit = [], 16, constants["half_a_digit"]
    for place, m in enumerate((2, 4, 6, 8)):
        below = [(bits - m) // 2 + i for i in range(m)]
        alternating = _steps(below, [(-1) ** (n + 1) for n in below], bits)
        best = _level_means(below, bits)
        correlations = [_parity_correlation(g) for g in (alternating, best)]
        for name, value in zip(("alternating", "best"), correlations, strict=True):
            found.append(close(f"m = {m}: {name}", value, constants[name][place], absolute=digit))
        gap = max(
            abs(_of_family(m, steps) - value)
            for steps, value in zip(("alternating", "best fit"), correlations, strict=True)
        )
        found.append(at_most(f"m = {m}: the library's, difference", gap, constants["rounding"]))
        weight = float(_weights(alternating)[2])
        figure = constants["degree_two"][place]
        found.append(close(f"m = {m}: W_2, alternating", weight, figure, absolute=constants["half_of_three"]))
    return found


@check(
    "families/weights-add-up",
    claim="The shares W_r = C(l, r) ghat_r^2 / variance of degrees 1 to l add up to 1, and all of a parity's is at "
    "degree l.",
    source="Parseval's identity",
    kind=Kind.EXACT,
    basis=Basis.PROVED,
    how="Fractions for random whole values g(N), l up to 20, by sq.fourier_weights and by the formula; the variance "
    "from the binomial law.",
    constants={"total": 1, "sets": 1},
    wrong=Fault(
        "sq.krawtchouk:fourier_weights",
        returned(lambda found: tuple(one / comb(len(found) - 1, r) for r, one in enumerate(found))),
        "weights of one set in place of all C(l, r)",
    ),
)
def weights_add_up(constants: Constants, scale: Scale, rng: Generator) -> Sequence[Comparison]:
    """Parseval in whole numbers."""
    found = []
    for bits in (3, 8, 20):
        g = [*rng.integers(-9, 10, bits).tolist(), 40]
        ghat, variance = fourier_coefficients(g, exact=True), _covariance(g, bits)
        shares = [comb(bits, r) ** constants["sets"] * ghat[r] ** 2 / variance for r in range(1, bits + 1)]
        found.append(equal(f"l = {bits}: sum", sum(shares), constants["total"]))
        found.append(equal(f"l = {bits}: the library's", list(fourier_weights(g, exact=True)[1:]), shares))
        parity = fourier_weights([(-1) ** n for n in range(bits + 1)], exact=True)
        found.append(equal(f"l = {bits}: the parity's at degree l", parity[-1], constants["total"]))
    return found


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
    kind = "alternating" if steps == "alternating" else "best fit"
    family = CentreThresholdFamily(dim=20, bits=16, heads_count=m, steps=kind)  # type: ignore[arg-type]
    return family.correlation_with_parity

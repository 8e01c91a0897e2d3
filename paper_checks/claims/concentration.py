"""Claims on patterns of large heads: far from their expectation on the whole cube, close to it on slices of it.

A slice holds the Hamming weights of fixed substrings of a token. That softmax attention does not concentrate on the
whole cube but does on slices is the talk's; which substrings to take, how much is gained and at what price is derived
here: cut the coordinates, sorted by v = Theta^T x_a, into blocks in which v hardly varies.
"""

import itertools
import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.random import Generator

from attention import AttentionLayer, BooleanInputs, SliceInputs
from paper_checks.check import Basis, Constants, Scale, check
from paper_checks.claims._slices import by_slice, moments, slice_moments, within
from paper_checks.comparison import (
    Comparison,
    Kind,
    at_most,
    close,
    covers,
    equal,
    surely_below,
)
from paper_checks.faults import Fault, given, returned
from paper_checks.intervals import mean_interval, proportion_interval

_TALK = "the talk on Chen and Li's paper, as retold here; the quantities are derived here"


@check(
    "concentration/mean-between-other-tokens",
    claim="For every Theta and every token x_a, the softmax of x_a Theta x_b against x_a Theta x_c has mean exactly "
    "1/2 over independent Boolean x_b, x_c. Against the token itself, c = a, that is not so.",
    source="derived here",
    kind=Kind.EXACT,
    basis=Basis.PROVED,
    how="All Boolean tokens at d = 3, whole Theta, and 2 in place of e, which makes every softmax a fraction. The "
    "proof: exchanging b and c exchanges p and 1 - p. With c = a nothing can be exchanged.",
    constants={"against_itself": False, "mean": Fraction(1, 2)},
    wrong={"against_itself": True},
)
def mean_between_other_tokens(constants: Constants, scale: Scale, rng: Generator) -> Sequence[Comparison]:
    """One mean for every x_a."""
    theta = rng.integers(-3, 4, size=(3, 3)) + 4 * np.eye(3, dtype=int)
    tokens = [np.array(one) for one in itertools.product((-1, 1), repeat=3)]
    means = []
    for own in tokens:
        others = [own] if constants["against_itself"] else tokens
        contrasts = [int(own @ theta @ (x - y)) for x in tokens for y in others]
        means.append(sum(1 / (1 + Fraction(2) ** -one) for one in contrasts) / len(contrasts))
    return [equal(f"mean softmax, each of {len(tokens)} tokens", means, [constants["mean"]] * len(tokens))]


@check(
    "concentration/logit-moments",
    claim="Over Boolean tokens x_a Theta x_b (b != a) has mean 0 and variance |Theta|^2; x_a Theta (x_a - x_b) has "
    "mean Tr(Theta) and variance |Theta|^2 + |offdiag(Theta + Theta^T)|^2/2.",
    source="derived here",
    kind=Kind.EXACT,
    basis=Basis.PROVED,
    how="All pairs of Boolean tokens at d = 3 (quick) and 5 with a whole Theta, in whole numbers. The monomials of the "
    "tokens are orthogonal, and x_i^2 = 1 leaves the trace.",
    constants={"off_diagonal": Fraction(1, 2), "trace": 1},
    wrong=Fault(
        "paper_checks.claims._slices:moments",
        returned(lambda found: [found[0], found[1] + found[0] ** 2]),
        "mean squares in place of variances",
    ),
)
def logit_moments(constants: Constants, scale: Scale, rng: Generator) -> Sequence[Comparison]:
    """Means and variances of both kinds of logits."""
    dim = 3 if scale is Scale.QUICK else 5
    theta = rng.integers(-9, 10, size=(dim, dim))
    theta[0, 1] += 20  # so that there is something off the diagonal
    tokens = np.array(list(itertools.product((-1, 1), repeat=dim)))
    logits = tokens @ theta @ tokens.T
    contrasts = np.diagonal(logits)[:, None] - logits
    both = theta + theta.T
    off = int((both**2).sum() - (np.diagonal(both) ** 2).sum())
    square = int((theta**2).sum())
    return [
        equal("logit", moments(logits), [0, square]),
        equal(
            "contrast with itself",
            moments(contrasts),
            [constants["trace"] * int(np.trace(theta)), square + constants["off_diagonal"] * off],
        ),
    ]


@check(
    "concentration/logit-scale",
    claim="At d = 200 with entries of Theta drawn from N(0, .01), a logit between two Boolean tokens has standard "
    "deviation .1 d = 20, and a difference of two logits of a row sqrt(2) times that, 28.",
    source=f"the example: {_TALK}",
    kind=Kind.STATISTICAL,
    basis=Basis.DERIVED,
    how="Mean squares over random tokens for one random Theta beside (entry d)^2 and twice that; |Theta| itself is "
    "within about 0.4 % of .1 d, and a margin of 3 % of the squares allows for it.",
    constants={"dim": 200, "variance": 0.01, "power_of_d": 1.0, "contrast": 2, "margin": 0.03},
    wrong=Fault(
        "attention.inputs:BooleanInputs.sample", returned(lambda x: (x + 1) / 2), "tokens of 0 and 1"
    ),
    false_alarm=0.002,
)
def logit_scale(constants: Constants, scale: Scale, rng: Generator) -> Sequence[Comparison]:
    """Squares of logits between different tokens."""
    dim, draws = constants["dim"], (3000 if scale is Scale.QUICK else 100_000)
    theta = rng.normal(0, math.sqrt(constants["variance"]), size=(dim, dim))
    own, one, other = np.moveaxis(BooleanInputs(3, dim).sample(draws, rng=rng), 1, 0)
    v = own @ theta
    variance = constants["variance"] * dim ** (2 * constants["power_of_d"])
    return [
        covers(
            name,
            mean_interval(values**2, confidence=0.999),
            expected,
            margin=constants["margin"] * expected,
        )
        for name, values, expected in (
            ("mean squared logit", (v * one).sum(axis=1), variance),
            ("mean squared difference", (v * (one - other)).sum(axis=1), constants["contrast"] * variance),
        )
    ]


@check(
    "concentration/not-on-the-cube",
    claim="In that example a pattern of two tokens has mean 1/2 within 5 %, but a typical entry lies .48 away from "
    "1/2, of at most .50, and 87 % of the rows put more than .99 on one token: no concentration about the expectation.",
    source=f"softmax does not concentrate globally: {_TALK}",
    kind=Kind.STATISTICAL,
    basis=Basis.DERIVED,
    how="Patterns of the layer at d = 200 on random Boolean tokens, several Theta. The figures are those of a Gaussian "
    "contrast of standard deviation 28.3: 1/2 - ln 4 * phi(0)/28.3 for the distance, P(|z| > ln 99) for the fraction.",
    constants={"variance": 0.01, "mean": 0.5, "distance": 0.48, "one_sided": 0.87, "nearly": 0.99},
    wrong=Fault(
        "attention.layer:attention_pattern",
        given(lambda logits: logits / np.sqrt(200)),
        "logits divided by sqrt(d)",
    ),
    false_alarm=0.003,
)
def not_on_the_cube(constants: Constants, scale: Scale, rng: Generator) -> Sequence[Comparison]:
    """First rows only: the two rows of an example are not independent."""
    dim, heads, draws = 200, (10 if scale is Scale.QUICK else 100), 400
    entries = []
    for _ in range(heads):
        theta = rng.normal(0, math.sqrt(constants["variance"]), size=(1, dim, dim))
        layer = AttentionLayer(theta=theta, w=np.eye(dim)[None])
        entries.append(layer.patterns(BooleanInputs(2, dim).sample(draws, rng=rng))[:, 0, 0, 0])
    p = np.concatenate(entries)
    one_sided = int((np.maximum(p, 1 - p) > constants["nearly"]).sum())
    return [
        covers("mean entry", mean_interval(p, confidence=0.999), constants["mean"], margin=0.05),
        covers(
            "mean distance from 1/2",
            mean_interval(np.abs(p - 0.5), confidence=0.999),
            constants["distance"],
            margin=0.005,
        ),
        covers(
            f"rows with more than {constants['nearly']} on one token",
            proportion_interval(one_sided, p.size, confidence=0.999),
            constants["one_sided"],
            margin=0.01,
        ),
    ]


@check(
    "concentration/slice-moments",
    claim="On a slice, with w of n signs positive in each block, <v, x> has mean sum (2w - n) mean(v) and variance "
    "sum 4 w (n - w)/(n(n - 1)) |v - mean(v)|^2, sums over blocks: sampling without replacement.",
    source="derived here; sampling without replacement from a block is textbook",
    kind=Kind.EXACT,
    basis=Basis.PROVED,
    how="All tokens of all slices with blocks of 2, 3 and 4 (quick) or 3, 4 and 5 coordinates and whole v, in "
    "fractions.",
    constants={"less": 1, "factor": 4},
    wrong={"less": 0},
)
def moments_on_a_slice(constants: Constants, scale: Scale, rng: Generator) -> Sequence[Comparison]:
    """How many slices have exactly these two moments: all."""
    blocks = (2, 3, 4) if scale is Scale.QUICK else (3, 4, 5)
    v = rng.integers(-20, 21, size=sum(blocks))
    parts = np.split(v, np.cumsum(blocks)[:-1])
    slices = by_slice(v, blocks)
    right = 0
    for weights, values in slices.items():
        mean, variance = Fraction(0), Fraction(0)
        for part, w in zip(parts, weights, strict=True):
            n, (average, spread) = len(part), moments(part)
            mean += (2 * w - n) * average
            ways = Fraction(w * (n - w), n * (n - constants["less"]))
            variance += constants["factor"] * ways * n * spread
        right += moments(np.array(values)) == [mean, variance]
    return [equal("slices with these two moments", right, len(slices))]


@check(
    "concentration/slice-mean-variance",
    claim="Averaged over the cube, the variance of <v, x> within its slice is the sum of squares of v about its mean "
    "in each block, where without slices it is |v|^2: slices gain what the blocks explain of v.",
    source="derived here",
    kind=Kind.EXACT,
    basis=Basis.PROVED,
    how="All tokens, blocks of 2, 3 and 4 (quick) or 3, 4 and 5 coordinates, whole v, in fractions. In formulas: w(n "
    "- w) has mean n(n - 1)/4 for random signs.",
    constants={"about_the_mean": True},
    wrong=Fault(
        "paper_checks.claims._slices:by_slice", given(lambda v: v[::-1]), "the blocks in reverse order"
    ),
)
def slice_mean_variance(constants: Constants, scale: Scale, rng: Generator) -> Sequence[Comparison]:
    """Variances of slices, weighted by their sizes."""
    blocks = (2, 3, 4) if scale is Scale.QUICK else (3, 4, 5)
    v = rng.integers(1, 21, size=sum(blocks))
    cells = [np.array(one) for one in by_slice(v, blocks).values()]
    inside = sum(len(one) * moments(one)[1] for one in cells) / 2 ** sum(blocks)
    expected = Fraction(0)
    for part in np.split(v, np.cumsum(blocks)[:-1]):
        mean, variance = moments(part)
        expected += len(part) * (variance + (0 if constants["about_the_mean"] else mean**2))
    everything = np.concatenate(cells)
    return [
        equal("mean variance in a slice", inside, expected),
        equal("variance on the cube", moments(everything), [0, int((v**2).sum())]),
    ]


@check(
    "concentration/slices-at-200",
    claim="At d = 200 with Theta from N(0, .01), and the coordinates sorted by v = Theta^T x_a into 20 blocks of 10, "
    "the standard deviation of x_a Theta x_b on a slice is .127 of that on the cube, root mean square over slices.",
    source=f"softmax concentrates on slices: {_TALK}",
    kind=Kind.STATISTICAL,
    basis=Basis.DERIVED,
    how="Tokens drawn by the library's slice distribution, with weights of a random token: their mean square about the "
    "exact mean beside the exact variance (concentration/slice-moments); squared ratios to |v| averaged over random "
    "Theta, x_a and weights.",
    constants={"blocks": 20, "ratio": 0.127, "margin": 0.001},
    wrong=Fault(
        "attention.inputs:SliceInputs.sample", returned(lambda x: -x), "tokens of the opposite signs"
    ),
    false_alarm=0.003,
)
def slices_at_200(constants: Constants, scale: Scale, rng: Generator) -> Sequence[Comparison]:
    """One slice sampled, many slices by their formula."""
    dim, draws, many = 200, *((2000, 150) if scale is Scale.QUICK else (50_000, 1500))
    blocks, ratios = [dim // constants["blocks"]] * constants["blocks"], []
    for _ in range(many):
        v = np.sort(_contrast_direction(dim, rng))
        weights = _weights(blocks, rng)
        mean, variance = slice_moments(v, blocks, weights)
        ratios.append(variance / float(v @ v))
    tokens = SliceInputs(tuple(blocks), (tuple(weights),)).sample(draws, rng=rng)[:, 0]
    logits = tokens @ v
    return [
        covers("mean logit on a slice", mean_interval(logits, confidence=0.999), mean),
        covers(
            "mean squared deviation on it", mean_interval((logits - mean) ** 2, confidence=0.999), variance
        ),
        covers(
            "mean variance over that on the cube",
            mean_interval(ratios, confidence=0.999),
            constants["ratio"] ** 2,
            margin=constants["margin"],
        ),
    ]


@check(
    "concentration/slice-exponent",
    claim="With B blocks the logit's standard deviation on slices, over that on the cube, falls like B^-1 if blocks "
    "are intervals of v of equal width, about like B^-0.67 if they have equally many coordinates; two halves leave "
    "sqrt(1 - 2/pi) = .60.",
    source="derived here",
    kind=Kind.STATISTICAL,
    basis=Basis.MEASURED,
    how="Root mean variances by the exact formula (concentration/slice-mean-variance) for random Theta and x_a at d = "
    "200, B = 4 to 40; the slope of the logarithms in each draw, whose points are not independent, and the mean of "
    "the draws' slopes. The width's -1 is also a proved bound, sqrt(d) (max v - min v)/(2B), held against every case.",
    constants={"width": -1.0, "count": -0.67, "halves": math.sqrt(1 - 2 / math.pi), "margin": 0.04},
    wrong=Fault(
        "paper_checks.claims._slices:within",
        lambda right: lambda parts: sum(float(one @ one) for one in parts),
        "sums of squares about 0 in place of a block's mean",
    ),
    false_alarm=0.003,
)
def slice_exponent(constants: Constants, scale: Scale, rng: Generator) -> Sequence[Comparison]:
    """Both kinds of blocks on the same directions."""
    dim, draws, excess = 200, (40 if scale is Scale.QUICK else 400), -math.inf
    halves: list[float] = []
    numbers = (4, 8, 20, 40)
    slopes: dict[str, list[float]] = {"width": [], "count": []}
    for _ in range(draws):
        v = np.sort(_contrast_direction(dim, rng))
        size = float(np.linalg.norm(v))
        halves.append(math.sqrt(within([v[: dim // 2], v[dim // 2 :]])) / size)
        heights: dict[str, list[float]] = {"width": [], "count": []}
        for number in numbers:
            edges = np.searchsorted(v, np.linspace(v[0], v[-1], number + 1)[1:-1])
            width = math.sqrt(within(np.split(v, edges)))
            heights["width"].append(math.log(width / size))
            heights["count"].append(math.log(math.sqrt(within(np.split(v, number))) / size))
            excess = max(excess, width - math.sqrt(dim) * float(v[-1] - v[0]) / (2 * number))
        for name, values in heights.items():
            slopes[name].append(float(np.polyfit(np.log(numbers), values, 1)[0]))
    return [
        *(
            covers(
                f"exponent, blocks of equal {name}",
                mean_interval(values, confidence=0.999),
                constants[name],
                margin=constants["margin"],
            )
            for name, values in slopes.items()
        ),
        covers("two halves", mean_interval(halves, confidence=0.999), constants["halves"], margin=0.01),
        at_most("largest excess over the proved bound", excess, 0.0),
    ]


@check(
    "concentration/softmax-on-slices",
    claim="In the example a softmax between two other tokens lies .48 from its mean on the cube, but less than .06 "
    "from its mean on the slice of the two tokens, for 40 blocks of 5 coordinates sorted by v.",
    source=f"softmax concentrates on slices: {_TALK}",
    kind=Kind.STATISTICAL,
    basis=Basis.MEASURED,
    how="Mean absolute deviations of sigmoid(<v, x_b - x_c>): on the cube from 1/2, on the slices of random pairs of "
    "tokens from the slice's mean, over slices. Many slices are saturated, which helps; on the others the logits' "
    "spread counts.",
    constants={"blocks": 40, "cube": 0.48, "slice": 0.06},
    wrong={"blocks": 4},
    false_alarm=0.002,
)
def softmax_on_slices(constants: Constants, scale: Scale, rng: Generator) -> Sequence[Comparison]:
    """Each slice is that of a random pair of tokens."""
    dim, many, draws = 200, *((200, 40) if scale is Scale.QUICK else (1500, 100))
    blocks = [dim // constants["blocks"]] * constants["blocks"]
    cube, on_slices = [], []
    for _ in range(many):
        v = np.sort(_contrast_direction(dim, rng))
        one, other = BooleanInputs(2, dim).sample(1, rng=rng)[0]
        cube.append(abs(_sigmoid(float(v @ (one - other))) - 0.5))
        weights = [tuple(_weights(blocks, rng)) for _ in range(2)]
        x = SliceInputs(tuple(blocks), tuple(weights)).sample(draws, rng=rng)
        p = _sigmoid((x[:, 0] - x[:, 1]) @ v)
        on_slices.append(float(np.abs(p - p.mean()).mean()))
    return [
        covers("on the cube", mean_interval(cube, confidence=0.999), constants["cube"], margin=0.005),
        surely_below("on slices", mean_interval(on_slices, confidence=0.999), constants["slice"]),
    ]


@check(
    "concentration/price-of-a-slice",
    claim="The likeliest slice of B blocks of n coordinates (n even) has probability (C(n, n/2)/2^n)^B, at most "
    "(2/(pi n))^(B/2): 7e-13 for 20 blocks of 10. Slices are for analysis; hardly two examples share one.",
    source="derived here",
    kind=Kind.NUMERIC,
    basis=Basis.PROVED,
    how="All tokens of two blocks of 4 counted slice by slice; the figure for 20 blocks of 10 in whole numbers; the "
    "bound, which is the textbook one for the central binomial coefficient, at several n.",
    constants={"power": 0.5, "figure": 6.6e-13, "margin": 0.01},
    wrong=Fault(
        "paper_checks.claims._slices:by_slice",
        returned(lambda slices: {name: values[1:] for name, values in slices.items()}),
        "each slice without one of its tokens",
    ),
)
def price_of_a_slice(constants: Constants, scale: Scale, rng: Generator) -> Sequence[Comparison]:
    """The largest slice by enumeration, and its size by the formula."""
    sizes = [len(one) for one in by_slice(np.ones(8, dtype=int), (4, 4)).values()]
    shares = {n: Fraction(math.comb(n, n // 2), 2**n) for n in (2, 4, 10, 40, 200)}
    compared: list[Comparison] = [
        equal("largest slice, blocks 4 and 4", Fraction(max(sizes), 2**8), shares[4] ** 2),
        close("20 blocks of 10", float(shares[10] ** 20), constants["figure"], relative=constants["margin"]),
    ]
    for n, share in shares.items():
        bound = (2 / (math.pi * n)) ** constants["power"]
        compared.append(at_most(f"share of the middle weight, n = {n}", float(share), bound))
    return compared


def _contrast_direction(dim: int, rng: Generator) -> np.ndarray:
    """The vector v = Theta^T x_a of the example: logits on another token x_b are <v, x_b>."""
    return rng.normal(0, 0.1, size=(dim, dim)).T @ rng.choice([-1.0, 1.0], size=dim)


def _weights(blocks: Sequence[int], rng: Generator) -> list[int]:
    """The positive signs of a random token, block by block."""
    return [int(rng.binomial(size, 0.5)) for size in blocks]


def _sigmoid(z: Any) -> Any:
    return 0.5 * (1 + np.tanh(z / 2))

"""Claims on patterns of large heads: far from their expectation on the whole cube, close to it on slices of it.

A slice fixes the Hamming weights of substrings of a token. The talk states that softmax attention does not
concentrate on the whole cube but does on slices. The choice of substrings, the gain and the price are derived here:
cut the coordinates, sorted by v = Theta^T x_a, into blocks in which v hardly varies.
"""

import itertools
import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.random import Generator

from attention import AttentionLayer, BooleanInputs, SliceInputs
from paper_checks.check import Constants, Scale
from paper_checks.claims.tables import checks
from paper_checks.comparison import Comparison, at_most, close, covers, equal, surely_below
from paper_checks.faults import given, returned
from studies.intervals import mean_interval, proportion_interval


@checks("concentration/mean-between-other-tokens", mean=Fraction(1, 2))
def mean_between_other_tokens(claim: Constants, scale: Scale, rng: Generator) -> Iterator[Comparison]:
    """Enumerates all Boolean tokens at d = 3 with whole Theta. The base 2 in place of e makes every softmax a
    fraction. Proof: exchanging b and c exchanges p and 1 - p. With c = a there is nothing to exchange.
    """
    theta = rng.integers(-3, 4, size=(3, 3)) + 4 * np.eye(3, dtype=int)
    tokens = [np.array(one) for one in itertools.product((-1, 1), repeat=3)]
    means = []
    for own in tokens:
        others = [own] if claim.against_itself else tokens
        contrasts = [int(own @ theta @ (x - y)) for x in tokens for y in others]
        means.append(sum(1 / (1 + Fraction(2) ** -one) for one in contrasts) / len(contrasts))
    yield equal(f"mean softmax, each of {len(tokens)} tokens", means, [claim.mean] * len(tokens))


@checks(
    "concentration/logit-moments",
    returned(lambda found: [found[0], found[1] + found[0] ** 2]),
    off_diagonal=Fraction(1, 2),
)
def logit_moments(claim: Constants, scale: Scale, rng: Generator) -> Iterator[Comparison]:
    """Enumerates all pairs of Boolean tokens at d = 3 (quick) and 5 with a whole Theta, in whole numbers.
    Proof: the monomials of the tokens are orthogonal, and x_i^2 = 1 leaves the trace.
    """
    dim = 3 if scale is Scale.QUICK else 5
    theta = rng.integers(-9, 10, size=(dim, dim))
    theta[0, 1] += 20  # so that there is something off the diagonal
    tokens = np.array(list(itertools.product((-1, 1), repeat=dim)))
    logits = tokens @ theta @ tokens.T
    contrasts = np.diagonal(logits)[:, None] - logits
    both = theta + theta.T
    off = int((both**2).sum() - (np.diagonal(both) ** 2).sum())
    square = int((theta**2).sum())
    yield equal("logit", moments(logits), [0, square])
    yield equal(
        "contrast with itself",
        moments(contrasts),
        [claim.trace * int(np.trace(theta)), square + claim.off_diagonal * off],
    )


@checks("concentration/logit-scale", returned(lambda x: (x + 1) / 2))
def logit_scale(claim: Constants, scale: Scale, rng: Generator) -> Iterator[Comparison]:
    """Compares mean squares over random tokens for one random Theta with (entry d)^2 and twice that. |Theta|
    itself is within about 0.4 % of .1 d. A margin of 3 % of the squares allows for it.
    """
    dim, draws = claim.dim, (3000 if scale is Scale.QUICK else 100_000)
    theta = rng.normal(0, math.sqrt(claim.variance), size=(dim, dim))
    own, one, other = np.moveaxis(BooleanInputs(3, dim).sample(draws, rng=rng), 1, 0)
    v = own @ theta
    variance = claim.variance * dim ** (2 * claim.power_of_d)
    for name, values, expected in (
        ("mean squared logit", (v * one).sum(axis=1), variance),
        ("mean squared difference", (v * (one - other)).sum(axis=1), claim.contrast * variance),
    ):
        yield covers(name, mean_interval(values**2), expected, margin=claim.margin * expected)


@checks("concentration/not-on-the-cube", given(lambda logits: logits / np.sqrt(200)))
def not_on_the_cube(claim: Constants, scale: Scale, rng: Generator) -> Iterator[Comparison]:
    """Computes patterns of the layer at d = 200 on random Boolean tokens for several Theta. The figures are
    those of a Gaussian contrast of standard deviation 28.3. The distance is 1/2 - ln 4 * phi(0)/28.3, and the
    fraction is P(|z| > ln 99).
    """
    dim, heads, draws = 200, (10 if scale is Scale.QUICK else 100), 400
    entries = []
    for _ in range(heads):
        theta = rng.normal(0, math.sqrt(claim.variance), size=(1, dim, dim))
        layer = AttentionLayer(theta=theta, w=np.eye(dim)[None])
        entries.append(layer.patterns(BooleanInputs(2, dim).sample(draws, rng=rng))[:, 0, 0, 0])
    p = np.concatenate(entries)
    one_sided = int((np.maximum(p, 1 - p) > claim.nearly).sum())
    yield covers("mean entry", mean_interval(p), claim.mean, margin=0.05)
    yield covers("mean distance from 1/2", mean_interval(np.abs(p - 0.5)), claim.distance, margin=0.005)
    yield covers(
        f"rows with more than {claim.nearly} on one token",
        proportion_interval(one_sided, p.size),
        claim.one_sided,
        margin=0.01,
    )


@checks("concentration/slice-moments")
def moments_on_a_slice(claim: Constants, scale: Scale, rng: Generator) -> Iterator[Comparison]:
    """Enumerates all tokens of all slices with whole v, in fractions. Blocks have 2, 3 and 4 coordinates
    (quick) or 3, 4 and 5.
    """
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
            ways = Fraction(w * (n - w), n * (n - claim.less))
            variance += claim.factor * ways * n * spread
        right += moments(np.array(values)) == [mean, variance]
    yield equal("slices with these two moments", right, len(slices))


@checks("concentration/slice-mean-variance", given(lambda v: v[::-1]))
def slice_mean_variance(claim: Constants, scale: Scale, rng: Generator) -> Iterator[Comparison]:
    """Enumerates all tokens with whole v, in fractions. Blocks have 2, 3 and 4 coordinates (quick) or 3, 4
    and 5. In formulas: w(n - w) has mean n(n - 1)/4 for random signs.
    """
    blocks = (2, 3, 4) if scale is Scale.QUICK else (3, 4, 5)
    v = rng.integers(1, 21, size=sum(blocks))
    cells = [np.array(one) for one in by_slice(v, blocks).values()]
    inside = sum(len(one) * moments(one)[1] for one in cells) / 2 ** sum(blocks)
    expected = Fraction(0)
    for part in np.split(v, np.cumsum(blocks)[:-1]):
        mean, variance = moments(part)
        expected += len(part) * (variance + (0 if claim.about_the_mean else mean**2))
    everything = np.concatenate(cells)
    yield equal("mean variance in a slice", inside, expected)
    yield equal("variance on the cube", moments(everything), [0, int((v**2).sum())])


@checks("concentration/slices-at-200", returned(lambda x: -x))
def slices_at_200(claim: Constants, scale: Scale, rng: Generator) -> Iterator[Comparison]:
    """Draws tokens from the library's slice distribution, with the weights of a random token. Compares their
    mean square about the exact mean with the exact variance (concentration/slice-moments). Averages squared
    ratios to |v| over random Theta, x_a and weights.
    """
    dim, draws, many = 200, *((2000, 150) if scale is Scale.QUICK else (50_000, 1500))
    blocks, ratios = [dim // claim.blocks] * claim.blocks, []
    for _ in range(many):
        v = np.sort(_contrast_direction(dim, rng))
        weights = _weights(blocks, rng)
        mean, variance = slice_moments(v, blocks, weights)
        ratios.append(variance / float(v @ v))
    tokens = SliceInputs(tuple(blocks), (tuple(weights),)).sample(draws, rng=rng)[:, 0]
    logits = tokens @ v
    yield covers("mean logit on a slice", mean_interval(logits), mean)
    yield covers("mean squared deviation on it", mean_interval((logits - mean) ** 2), variance)
    yield covers(
        "mean variance over that on the cube", mean_interval(ratios), claim.ratio**2, margin=claim.margin
    )


@checks("concentration/slice-exponent", lambda right: lambda parts: sum(float(one @ one) for one in parts))
def slice_exponent(claim: Constants, scale: Scale, rng: Generator) -> Iterator[Comparison]:
    """Computes root mean variances by the exact formula (concentration/slice-mean-variance) for random Theta
    and x_a at d = 200, B = 4 to 40. The points of one draw are not independent, so each draw gives one slope
    of the logarithms. The claim is about the mean of these slopes. The width's -1 is also a proved bound,
    sqrt(d) (max v - min v)/(2B), which every case is compared with.
    """
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
    for name, values in slopes.items():
        yield covers(
            f"exponent, blocks of equal {name}", mean_interval(values), claim[name], margin=claim.margin
        )
    yield covers("two halves", mean_interval(halves), claim.halves, margin=0.01)
    yield at_most("largest excess over the proved bound", excess, 0.0)


@checks("concentration/softmax-on-slices")
def softmax_on_slices(claim: Constants, scale: Scale, rng: Generator) -> Iterator[Comparison]:
    """Computes mean absolute deviations of sigmoid(<v, x_b - x_c>): on the cube from 1/2, and on the slices
    of random pairs of tokens from the slice's mean. Many slices are saturated, which makes deviations small.
    On the others the spread of the logits decides.
    """
    dim, many, draws = 200, *((200, 40) if scale is Scale.QUICK else (1500, 100))
    blocks = [dim // claim.blocks] * claim.blocks
    cube, on_slices = [], []
    for _ in range(many):
        v = np.sort(_contrast_direction(dim, rng))
        one, other = BooleanInputs(2, dim).sample(1, rng=rng)[0]
        cube.append(abs(_sigmoid(float(v @ (one - other))) - 0.5))
        weights = [tuple(_weights(blocks, rng)) for _ in range(2)]
        x = SliceInputs(tuple(blocks), tuple(weights)).sample(draws, rng=rng)
        p = _sigmoid((x[:, 0] - x[:, 1]) @ v)
        on_slices.append(float(np.abs(p - p.mean()).mean()))
    yield covers("on the cube", mean_interval(cube), claim.cube, margin=0.005)
    yield surely_below("on slices", mean_interval(on_slices), claim.slice)


@checks(
    "concentration/price-of-a-slice",
    returned(lambda slices: {name: values[1:] for name, values in slices.items()}),
)
def price_of_a_slice(claim: Constants, scale: Scale, rng: Generator) -> Iterator[Comparison]:
    """Counts all tokens of two blocks of 4 slice by slice. Computes the figure for 20 blocks of 10 in whole
    numbers. Checks the bound, the textbook one for the central binomial coefficient, at several n.
    """
    sizes = [len(one) for one in by_slice(np.ones(8, dtype=int), (4, 4)).values()]
    shares = {n: Fraction(math.comb(n, n // 2), 2**n) for n in (2, 4, 10, 40, 200)}
    yield equal("largest slice, blocks 4 and 4", Fraction(max(sizes), 2**8), shares[4] ** 2)
    yield close("20 blocks of 10", float(shares[10] ** 20), claim.figure, relative=claim.margin)
    for n, share in shares.items():
        bound = (2 / (math.pi * n)) ** claim.power
        yield at_most(f"share of the middle weight, n = {n}", float(share), bound)


def _contrast_direction(dim: int, rng: Generator) -> np.ndarray:
    """The vector v = Theta^T x_a of the example: logits on another token x_b are <v, x_b>."""
    return rng.normal(0, 0.1, size=(dim, dim)).T @ rng.choice([-1.0, 1.0], size=dim)


def _weights(blocks: Sequence[int], rng: Generator) -> list[int]:
    """The positive signs of a random token, block by block."""
    return [int(rng.binomial(size, 0.5)) for size in blocks]


def _sigmoid(z: Any) -> Any:
    return 0.5 * (1 + np.tanh(z / 2))


def moments(values: Any) -> list[Fraction]:
    """Mean and variance of whole numbers, as fractions."""
    whole = [int(one) for one in np.ravel(values)]
    mean = Fraction(sum(whole), len(whole))
    return [mean, Fraction(sum(one * one for one in whole), len(whole)) - mean**2]


def by_slice(v: np.ndarray, blocks: Sequence[int]) -> dict[tuple[int, ...], list[int]]:
    """The values <v, x> of all Boolean x, by the numbers of positive signs in the blocks."""
    cells: dict[tuple[int, ...], list[int]] = defaultdict(list)
    ends = np.cumsum(blocks)[:-1]
    for signs in itertools.product((-1, 1), repeat=sum(blocks)):
        x = np.array(signs)
        cells[tuple(int((part == 1).sum()) for part in np.split(x, ends))].append(int(v @ x))
    return cells


def slice_moments(v: np.ndarray, blocks: Sequence[int], weights: Sequence[int]) -> tuple[float, float]:
    """Mean and variance of <v, x> on a slice: sampling without replacement, block by block."""
    mean = variance = 0.0
    for part, w in zip(np.split(v, np.cumsum(blocks)[:-1]), weights, strict=True):
        n = len(part)
        mean += (2 * w - n) * float(part.mean())
        variance += 4 * w * (n - w) / (n * (n - 1)) * float(((part - part.mean()) ** 2).sum())
    return mean, variance


def within(parts: Sequence[np.ndarray]) -> float:
    """Sum of squares about the mean of each part."""
    return sum(float(((one - one.mean()) ** 2).sum()) for one in parts if one.size)

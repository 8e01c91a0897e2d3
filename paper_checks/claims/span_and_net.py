"""Claims: Phases 5 and 6: span and net."""

import math
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from itertools import product

import numpy as np
import sympy
from jaxtyping import Float
from numpy.random import Generator
from sympy.polys.matrices import DomainMatrix

from attention import (
    AttentionLayer,
    BooleanInputs,
    ExampleOracle,
    make_affinely_dependent_layer,
    make_nice_layer,
)
from attention.intervals import mean_interval
from paper_checks.check import Constants, Scale
from paper_checks.claims._faults import HALF_LOGITS
from paper_checks.claims.tables import checks
from paper_checks.comparison import Comparison, at_least, at_most, covers, equal, surely_above, surely_below
from paper_checks.faults import given, returned
from upper.six_phase import AttentionSpan, NetSearch, attention_span, sculpt_affine_hull, search_net


@checks("span-and-net/hull-dimension", given(lambda theta: theta[:2]))
def hull_dimension(claim: Constants, scale: Scale, rng: Generator) -> Iterator[Comparison]:
    """Takes random whole heads at d = 3. For every whole x with entries from -2 to 2, cross products give all
    whole v orthogonal to the x (Theta_i - Theta_1). The dimension is d^2 less the rank of the x (x) v in
    rational numbers. That agreeing rows span so much is observed for these sizes, not proved for all.
    """
    for _ in range(3 if scale is Scale.QUICK else 30):
        heads = _independent_heads(rng)
        cases = {
            "two heads": (heads[:2], 2),
            "three heads": (heads, 3),
            "three heads on a line": (np.stack([heads[0], heads[1], 2 * heads[1] - heads[0]]), 2),
        }
        for name, (theta, in_general_position) in cases.items():
            left = 9 - _rank(_agreeing(theta))
            yield equal(f"dimensions left by {name}", left, in_general_position - claim.less)


@checks("span-and-net/wide-directions", returned(lambda gap: replace(gap, wide=gap.wide + 1)))
def wide_directions(claim: Constants, scale: Scale, rng: Generator) -> Iterator[Comparison]:
    """Runs the library's phase 4 with the true sum at (2, 2, 12) and (3, 2, 12), with shares .01 and .003 of
    the rows. It does not get m. The largest ratio of neighbours in its spectrum counts the directions.
    Measured at these sizes: at a fixed share the step shrinks as (m-1)(k-1) grows.
    """
    for name, layer, share, position in (
        ("two heads", make_nice_layer(heads=2, dim=12, rng=rng), 0.01, 2),
        ("three heads", make_nice_layer(heads=3, dim=12, rng=rng), 0.003, 3),
        ("three heads on a line", make_affinely_dependent_layer(heads=3, dim=12, rng=rng), 0.003, 2),
    ):
        share = share if scale is Scale.QUICK else share / 3
        oracle = ExampleOracle(layer, BooleanInputs(2, 12), rng=rng)
        hull = sculpt_affine_hull(oracle, layer.w.sum(axis=0), accept=share)
        spectrum = hull.body.spectrum[:6]
        ratios = spectrum[1:] / np.maximum(spectrum[:-1], 1e-300)
        wide = position - claim.less
        yield equal(f"wide directions of {name}", int(np.argmax(ratios)) + 1, wide)
        yield equal(f"as the library counts, {name}", hull.wide, wide)
        yield at_least(f"step behind them, {name}", float(ratios.max()), claim.step)


@checks("span-and-net/equations-needed")
def equations_needed(claim: Constants, scale: Scale, rng: Generator) -> Iterator[Comparison]:
    """Runs the library's phase 4 with the true sum and either number of equations on four fresh layers. The
    span's error is recomputed by least squares. More equations continue to help, at most by the square root
    of their number.
    """
    d = 16
    errors: dict[str, list[float]] = {"many": [], "few": []}
    for _ in range(4 if scale is Scale.QUICK else 20):
        layer = make_nice_layer(heads=2, dim=d, rng=rng)
        for which, each in errors.items():
            oracle = ExampleOracle(layer, BooleanInputs(2, d), rng=rng)
            hull = sculpt_affine_hull(
                oracle, layer.w.sum(axis=0), accept=0.02, equations=int(claim[which] * d * d), wide=1
            )
            each.append(_span_error(layer, attention_span(hull.body, 1).basis))
    yield at_most("mean span error with many equations", float(np.mean(errors["many"])), claim.error)
    yield at_least(
        "mean error with few, in units of that",
        float(np.mean(errors["few"]) / np.mean(errors["many"])),
        claim.times,
    )


@checks("span-and-net/tuples")
def tuples(claim: Constants, scale: Scale, rng: Generator) -> Iterator[Comparison]:
    """Takes logarithms by sympy for symbols m, k, d and R. Every constant in the exponent of eps is left out:
    the paper's eps is (kd)^(-O(m)).
    """
    m, k, d, r = sympy.symbols("m k d R", positive=True)
    eps = r * (k * d) ** (-claim.spacing * m)
    for over, dimension, expected in (
        ("span", m, m**claim.power),
        ("hull", m - 1, m ** (claim.power - 1) * (m - 1)),
    ):
        # ln(tuples) = m * dimension * ln(R / eps)
        logarithm = m * dimension * sympy.expand_log(sympy.log(r / eps), force=True)
        measured = sympy.factor(sympy.simplify(logarithm / sympy.expand_log(sympy.log(k * d), force=True)))
        yield equal(f"exponent of kd over the {over}", sympy.expand(measured), sympy.expand(expected))


@checks(
    "span-and-net/points",
    lambda right: (
        lambda frame, *rest: (
            lambda spacing, grid: (spacing, grid[np.linalg.norm(grid, axis=1) < frame.reach])
        )(*right(frame, *rest))
    ),
)
def points(claim: Constants, scale: Scale, rng: Generator) -> Iterator[Comparison]:
    """Counts cells by enumeration in rational numbers, R^2 as well. Compares with the points and the
    candidates that the library's search reports, for spans with round numbers and no refinements.
    """
    cases = [(2, "hull", 1.5, 0.125), (2, "span", 1.5, 0.5), (3, "hull", 1.0, 0.5)]
    if scale is Scale.FULL:
        cases += [(2, "hull", 2.5, 0.01171875), (2, "span", 1.25, 0.125), (3, "hull", 1.25, 0.25)]
    for m, over, reach, spacing in cases:
        search = _searched(m, over, reach, spacing, rng)
        dimension = m if over == "span" else m - claim.hull_less
        square = Fraction(reach) ** 2 + (1 if over == "span" else 0)
        counted = len(_cells(dimension, square, Fraction(spacing), claim.cell))
        yield equal(f"points, m = {m} over the {over}", search.points, counted)
        yield equal(f"tuples, m = {m} over the {over}", search.candidates, math.comb(counted, m))


@checks("span-and-net/cover", returned(lambda found: (found[0], found[1][::2])))
def cover(claim: Constants, scale: Scale, rng: Generator) -> Iterator[Comparison]:
    """Compares random points of balls in 1, 2 and 3 dimensions with all points of the grid whose cell meets
    the ball, listed here. In one dimension the library's own grid is used too. Proof: round each coordinate.
    """
    grids = {
        f"{dimension} dimensions": np.array(_cells(dimension, Fraction(1), Fraction(1, 4), 1), dtype=float)
        / 4
        for dimension in (1, 2, 3)
    }
    library = _searched(2, "hull", 1.0, 0.25, rng).grid
    assert library is not None
    grids["the library's grid"] = library[:, None]
    for name, grid in grids.items():
        dimension = grid.shape[1]
        z = rng.standard_normal((2000 if scale is Scale.QUICK else 20_000, dimension))
        z *= rng.random((len(z), 1)) ** (1 / dimension) / np.linalg.norm(z, axis=1, keepdims=True)
        away = max(float(np.linalg.norm(one - grid, axis=1).min()) for one in z)
        largest = claim.diagonals * 0.25 * math.sqrt(dimension)
        yield at_most(f"farthest point, {name}", away, largest + claim.rounding)


@checks("span-and-net/accuracy-needed", HALF_LOGITS)
def accuracy_needed(claim: Constants, scale: Scale, rng: Generator) -> Iterator[Comparison]:
    """Applies Gaussian changes of that norm to nice layers, fits W by least squares on some examples and
    measures the error on others, by a layer's formula written out. The mean over layers has a margin of 8 %
    for the figures, which are of one target.
    """
    m, k, d = 2, 2, 32
    layers, n = (8, 1000) if scale is Scale.QUICK else (30, 8000)
    for change, figure, compare in zip((0.01, 0.05), claim.errors, (surely_below, surely_above), strict=True):
        errors = []
        for _ in range(layers):
            layer = make_nice_layer(heads=m, dim=d, rng=rng)
            shift = rng.standard_normal(layer.theta.shape)
            sizes = [np.linalg.norm(part, axis=(1, 2), keepdims=True) for part in (layer.theta, shift)]
            theta = layer.theta + change * shift * sizes[0] / sizes[1]
            x = BooleanInputs(k, d).sample(2 * n, rng=rng)
            y = layer(x).reshape(-1, d)
            read = np.concatenate([_softmax(x @ one @ x.transpose(0, 2, 1)) @ x for one in theta], axis=2)
            read = read.reshape(-1, m * d)
            w = np.linalg.lstsq(read[: n * k], y[: n * k], rcond=None)[0]
            errors.append(float(np.sum((read[n * k :] @ w - y[n * k :]) ** 2) / np.sum(y[n * k :] ** 2)))
        interval = mean_interval(errors)
        what = f"relative squared error at {100 * change:.0f} %"
        yield covers(what, interval, figure, margin=claim.margin * figure)
        yield compare(f"{what}, against (kd)^-m", interval, (k * d) ** -m)


def _independent_heads(rng: Generator) -> np.ndarray:
    """Three whole 3 x 3 matrices in general position: all combinations of differences looked at are regular."""
    while True:
        heads = rng.integers(-5, 6, size=(3, 3, 3))
        first, second = heads[1] - heads[0], heads[2] - heads[0]
        if all(abs(np.linalg.det(one)) > 0.5 for one in (first, second, first - second)):
            return heads


def _agreeing(theta: np.ndarray) -> np.ndarray:
    """The x (x) v with x Theta_i v the same for all heads: v is orthogonal to x (Theta_i - Theta_1) for every
    i.
    """
    differences = theta[1:] - theta[0]
    if _rank(differences.reshape(-1, 9)) == 1:
        differences = differences[:1]
    rows = []
    for x in product(range(-2, 3), repeat=3):
        across = np.array(x) @ differences
        others = across[1:] if len(across) == 2 else np.eye(3, dtype=np.int64)
        rows += [np.outer(x, np.cross(across[0], other)).ravel() for other in others]
    return np.array(rows)


def _rank(rows: np.ndarray) -> int:
    """The rank of whole rows in rational numbers."""
    matrix = DomainMatrix([[sympy.QQ(int(entry)) for entry in row] for row in rows], rows.shape, sympy.QQ)
    return int(matrix.rank())


def _span_error(layer: AttentionLayer, basis: Float[np.ndarray, "m d d"]) -> float:
    """The worst head's distance to the span, relative to its norm, by least squares."""
    heads, flat = layer.theta.reshape(layer.heads, -1), basis.reshape(len(basis), -1)
    rest = heads.T - flat.T @ np.linalg.lstsq(flat.T, heads.T, rcond=None)[0]
    return float(np.max(np.linalg.norm(rest, axis=0) / np.linalg.norm(heads, axis=1)))


def _cells(dimension: int, square: Fraction, spacing: Fraction, width: int) -> list[tuple[int, ...]]:
    """The z for which the cell around spacing z, `width` spacings wide, meets the ball of radius^2 `square`."""
    most = math.isqrt(math.ceil(square / spacing**2)) + 1 + width
    half = spacing * width / 2
    return [
        place
        for place in product(range(-most, most + 1), repeat=dimension)
        if sum(max(abs(one) * spacing - half, Fraction(0)) ** 2 for one in place) <= square
    ]


def _searched(m: int, over: str, reach: float, spacing: float, rng: Generator) -> NetSearch:
    """The library's search of one net, in a span whose centre has norm 1 and whose directions are single entries."""
    d = 4
    units = np.eye(d * d).reshape(-1, d, d)
    span = AttentionSpan(
        centre=units[0], directions=units[1:m], reach=np.full(m - 1, reach), extent=reach, gap=None
    )
    layer = AttentionLayer(theta=units[:m], w=rng.standard_normal((m, d, d)))
    x = BooleanInputs(2, d).sample(100, rng=rng)
    return search_net(
        x,
        layer(x),
        span,
        heads=m,
        over="span" if over == "span" else "hull",
        spacing=spacing,
        refinements=0,
        held_out=20,
        judged=10,
    )


def _softmax(logits: Float[np.ndarray, "n k k"]) -> Float[np.ndarray, "n k k"]:
    weights = np.exp(logits - logits.max(axis=2, keepdims=True))
    return np.asarray(weights / weights.sum(axis=2, keepdims=True))

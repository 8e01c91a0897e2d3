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
from paper_checks.check import Constants, Scale
from paper_checks.claims._faults import HALF_LOGITS
from paper_checks.claims.tables import checks
from paper_checks.comparison import Comparison, at_least, at_most, covers, equal, surely_above, surely_below
from paper_checks.faults import returned
from studies.intervals import mean_interval
from upper.six_phase import AttentionSpan, NetSearch, attention_span, sculpt_affine_hull, search_net


@checks("span-and-net/hull-dimension", lambda right: lambda theta, rng: right(theta[:2], rng))
def hull_dimension(claim: Constants, scale: Scale, rng: Generator) -> Iterator[Comparison]:
    """Takes random whole heads. For random whole x, all v orthogonal to the x (Theta_i - Theta_1) are found in
    rational numbers. The dimension is d^2 less the rank of the x (x) v. Proof for m <= d: by Bertini's theorem the
    pairs (x, v) form an irreducible variety that lies in no smaller linear space, and real pairs are dense in it,
    as every real x has a real v. At d = 2, x (Theta_i - Theta_1) v = 0 for i = 2, 3, 4 asks for a common zero
    of two quadratic forms in x; their resultant is not 0. For quaternions the x (Theta_i - Theta_1) have the
    determinant |x|^4, so no v is orthogonal to all; the same holds for heads near these.
    """
    for d, m in ((2, 2), (3, 2), (3, 3), (4, 3), (4, 4)) * (1 if scale is Scale.QUICK else 5):
        theta = rng.integers(-9, 10, (m, d, d))
        yield equal(f"dimensions left, d = {d}, m = {m}", _dimensions_left(theta, rng), m - claim.less)
        line = np.stack([theta[0], theta[1], 2 * theta[1] - theta[0]])
        yield equal(
            f"dimensions left by three on a line, d = {d}", _dimensions_left(line, rng), 2 - claim.less
        )
    s = sympy.Symbol("s")
    x = sympy.Matrix([[1, s]])  # up to scale all x but (0, 1), which is no zero of a generic form
    resultants = []
    for _ in range(10 if scale is Scale.QUICK else 100):
        first, *rest = (sympy.Matrix(one) for one in rng.integers(-99, 100, (3, 2, 2)))
        forms = [sympy.Matrix.vstack(x * first, x * one).det() for one in rest]
        resultants.append(sympy.resultant(*forms, s))
    yield equal("d = 2, m = 4: layers with a row that agrees", resultants.count(0), 0)
    a, b, c, e = x = sympy.symbols("x:4", real=True)
    rows = sympy.Matrix([x, (-b, a, -e, c), (-c, e, a, -b), (-e, -c, b, a)])
    square = sum(one**2 for one in x) ** 2
    yield equal("quaternions: the determinant less |x|^4", sympy.expand(rows.det() - square), 0)


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


def _dimensions_left(theta: np.ndarray, rng: Generator) -> int:
    """d^2 less the rank of the x (x) v with x Theta_i v the same for all heads, for 6 d random whole x."""
    d, rows = theta.shape[1], []
    for x in rng.integers(-9, 10, (6 * d, d)):
        across = sympy.Matrix(x @ (theta[1:] - theta[0]))
        rows += [np.outer(x, np.array(v / sympy.gcd(tuple(v)))).ravel() for v in across.nullspace()]
    return d * d - _rank(np.array(rows))


def _rank(rows: np.ndarray) -> int:
    """The rank of whole rows in rational numbers."""
    matrix = DomainMatrix(
        [[sympy.QQ.from_sympy(entry) for entry in row] for row in rows], rows.shape, sympy.QQ
    )
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

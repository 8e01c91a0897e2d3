"""Claims about the non-degeneracy conditions: random heads meet them, structured heads break them one by one."""

import itertools
import math
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.random import Generator

from attention import (
    AttentionLayer,
    check_conditions,
    make_affinely_dependent_layer,
    make_block_diagonal_layer,
    make_close_heads_layer,
    make_diagonal_layer,
    make_low_rank_layer,
    make_nice_layer,
    make_repeated_singular_values_layer,
    make_transformer_shaped_layer,
)
from paper_checks.check import Constants, Scale
from paper_checks.claims.tables import checks
from paper_checks.comparison import (
    Comparison,
    at_least,
    at_most,
    close,
    covers,
    equal,
    surely_above,
    surely_below,
)
from paper_checks.faults import given, returned
from studies.intervals import mean_interval, proportion_interval, slope_interval

_PAPER = "Chen and Li, arXiv 2402.04084, ask for such conditions"


@checks("conditions/random-overlap", returned(np.sqrt))
def random_overlap(claim: Constants, scale: Scale, rng: Generator) -> Iterator[Comparison]:
    """Averages over random heads at two d, and compares the report's measures of the first. Proof:
    Theta/|Theta| is uniform on the sphere of d^2 dimensions, so its squared component along any unit vector
    has mean 1/d^2. The trace is sqrt(d) times the component along I/sqrt(d).
    """
    for dim, draws in ((8, 4000), (24, 2000)) if scale is Scale.QUICK else ((16, 20_000), (64, 5000)):
        overlaps, traces = np.empty(draws), np.empty(draws)
        heads = rng.standard_normal((2, dim, dim))
        for draw in range(draws):
            one, two = heads if draw == 0 else rng.standard_normal((2, dim, dim))
            square = np.vdot(one, one)
            overlaps[draw] = np.vdot(one, two) ** 2 / (square * np.vdot(two, two))
            traces[draw] = one.trace() ** 2 / square
        report = check_conditions(AttentionLayer(theta=heads, w=heads))
        trace, overlap = (report["theta_trace"].per_head or (0.0,))[0], report["theta_incoherence"].measured
        yield close(f"the report's trace, d = {dim}", trace, traces[0], relative=1e-9)
        yield close(f"the report's overlap, d = {dim}", (overlap or 0.0) ** 2, overlaps[0], relative=1e-9)
        for name, values in (("overlap", overlaps), ("trace", traces)):
            power = claim[f"{name}_power"]
            interval = mean_interval(dim**power * values, confidence=0.9995)
            yield covers(f"d^{power} times mean {name}, d = {dim}", interval, 1.0)


@checks("conditions/random-stable-rank", given(np.sqrt))
def random_stable_rank(claim: Constants, scale: Scale, rng: Generator) -> Iterator[Comparison]:
    """Averages over random heads, by their own singular values, at two d, and compares with the formula. Its
    error at finite d is measured, not bounded.
    """
    for dim, draws in ((24, 300), (64, 100)) if scale is Scale.QUICK else ((48, 1000), (192, 100)):
        heads = (rng.standard_normal((dim, dim)) for _ in range(draws))
        ranks = [float((head**2).sum() / np.linalg.eigvalsh(head.T @ head)[-1]) for head in heads]
        largest = claim.edge * dim - claim.shift
        largest -= claim.tracy_widom * 2 ** (4 / 3) * dim ** (1 / 3)
        yield covers(
            f"mean stable rank, d = {dim}",
            mean_interval(ranks, confidence=0.9995),
            dim**2 / largest,
            margin=claim.margin * dim**2 / largest,
        )


@checks(
    "conditions/random-exponents",
    lambda right: lambda x, y, **named: right(x, [2 * one for one in y], **named),
)
def random_exponents(claim: Constants, scale: Scale, rng: Generator) -> Iterator[Comparison]:
    """Fits slopes of the logarithms over d = 16 to 64 (quick) or 256. The exponents -1 follow from the laws
    of the measured quantities. The other two belong to this range, and their limits are -1 and 1.
    """
    sizes, draws = ((16, 24, 36, 64), 300) if scale is Scale.QUICK else ((16, 32, 64, 128, 256), 150)
    places: list[float] = []
    heights: dict[str, list[float]] = {
        name: [] for name in ("incoherence", "trace", "column", "norm", "rank")
    }
    for dim in sizes:
        for _ in range(draws):
            one, two = rng.standard_normal((2, dim, dim)) / dim
            square = float((one**2).sum())
            places.append(math.log(dim))
            heights["incoherence"].append(abs(float((one * two).sum())) / math.sqrt(square * (two**2).sum()))
            heights["trace"].append(float(np.trace(one)) ** 2 / square)
            heights["column"].append(float((one**2).sum(axis=0).max()) / square)
            heights["norm"].append(abs(math.sqrt(square) - 1))
            heights["rank"].append(square / float(np.linalg.eigvalsh(one.T @ one)[-1]))
    for name, values in heights.items():
        yield covers(
            f"exponent of {name}",
            slope_interval(places, [math.log(one) for one in values]),
            claim[name],
            margin=claim.margin,
        )


@checks("conditions/random-heads-pass")
def random_heads_pass(claim: Constants, scale: Scale, rng: Generator) -> Iterator[Comparison]:
    """Runs the report on random nice layers. In trials of 60 draws each, 13 % pass at d = 8, 80 % at 12, 93 %
    at 16, 98 % at 24 and 32, and all at 48. At d = 8 mostly the lattice measure, trace and heavy columns
    fail.
    """
    intervals = []
    for dim, draws in zip(
        (claim.large, claim.small), (16, 100) if scale is Scale.QUICK else (200, 500), strict=True
    ):
        passed = sum(
            check_conditions(make_nice_layer(heads=2, dim=dim, rng=rng), tokens=2).satisfied
            for _ in range(draws)
        )
        intervals.append(proportion_interval(passed, draws))
    large, small = intervals
    yield surely_above(f"layers that pass, d = {claim.large}", large, claim.fraction)
    yield surely_below(f"layers that pass, d = {claim.small}", small, claim.fraction)


@checks("conditions/structures-flagged", returned(np.sqrt))
def structures_flagged(claim: Constants, scale: Scale, rng: Generator) -> Iterator[Comparison]:
    """Looks at the report's violated conditions on random layers of each structure at d = 64, k = 4. For
    diagonal and block diagonal heads trace, incoherence and distinct singular values may also fail in some
    draws; these are left out.
    """
    sizes: Any = {"heads": claim.heads, "dim": 64, "rng": rng}
    dependent = ["theta_incoherence", "theta_linear_independence"]
    lattice = ["theta_non_arithmetic"]
    by_the_draw = {"theta_trace", "theta_incoherence", "theta_distinct_singular_values"}
    cases = [
        ("low rank", make_low_rank_layer(**sizes, rank=claim.rank), ["theta_stable_rank"]),
        ("diagonal", make_diagonal_layer(**sizes), lattice),
        ("block diagonal", make_block_diagonal_layer(**sizes, block=claim.block), lattice),
        (
            "close heads",
            make_close_heads_layer(**sizes, gap=claim.gap),
            ["theta_pairwise_distance", *dependent],
        ),
        (
            "affinely dependent",
            make_affinely_dependent_layer(**sizes),
            ["theta_affine_independence", *dependent],
        ),
        (
            "repeated singular values",
            make_repeated_singular_values_layer(**sizes, multiplicity=claim.multiplicity),
            ["theta_distinct_singular_values"],
        ),
    ]
    for name, layer, expected in cases:
        yield equal(
            name,
            sorted(
                set(check_conditions(layer, tokens=4).violated)
                - (by_the_draw if "diagonal" in name else set())
            ),
            sorted(expected),
        )


@checks("conditions/dependence-implies-overlap", returned(np.square))
def dependence_implies_overlap(claim: Constants, scale: Scale, rng: Generator) -> Iterator[Comparison]:
    """Draws random dependent heads for m = 3, 4, 6, and runs the report on a simplex, where the bound is
    attained. Proof: a Gram matrix with ones on the diagonal is regular if the other entries of every row sum
    to less than 1.
    """
    dim, draws = 6, 200 if scale is Scale.QUICK else 10_000
    for heads in (3, 4, 6):
        bound, least = 1 / (heads - claim.less), math.inf
        for _ in range(draws):
            theta = np.tensordot(
                rng.standard_normal((heads, heads - 1)), rng.standard_normal((heads - 1, dim, dim)), axes=1
            )
            units = theta.reshape(heads, -1) / np.linalg.norm(theta, axis=(1, 2))[:, None]
            least = min(least, float(np.abs(units @ units.T - np.eye(heads)).max()))
        corners = (np.eye(heads) - 1 / heads) @ np.linalg.qr(rng.standard_normal((dim**2, heads)))[0].T
        yield at_least(f"least incoherence of dependent heads, m = {heads}", least, bound)
        yield close(
            f"incoherence of a simplex, m = {heads}",
            _incoherence(corners.reshape(heads, dim, dim)),
            bound,
            relative=claim.rounding,
        )


@checks("conditions/lattice-values", lambda right: lambda tokens, column: right(tokens[:, 1:], column[1:]))
def lattice_values(claim: Constants, scale: Scale, rng: Generator) -> Iterator[Comparison]:
    """Enumerates all Boolean x at d = 10 (quick) or 14, in whole numbers. The lattice column is taken times
    d. The other column has random whole numbers below 10^15, where a coincidence has probability below 10^-6.
    """
    dim = 10 if scale is Scale.QUICK else 14
    cube = np.array(list(itertools.product((-1, 1), repeat=dim)))
    signs, general = rng.choice([-1, 1], size=dim), rng.integers(1, 10**15, size=dim)
    yield equal("values, entries +-1/d", _values(cube, signs), dim + claim.more_than_d)
    yield equal("values, general position", _values(cube, general), claim.base**dim)


@checks("conditions/lattice-measure", given(lambda columns: np.abs(columns) ** 0.5))
def lattice_measure(claim: Constants, scale: Scale, rng: Generator) -> Iterator[Comparison]:
    """Runs the report on both, and a grid of its own for one Gaussian column. In a range that starts at t =
    4/|theta| a column without structure has the value e^-8. That Gaussian heads stay below e^-6 is measured.
    """
    dim = 64 if scale is Scale.QUICK else 128
    signs = rng.choice([-1.0, 1.0], size=(dim, dim)) / dim
    multiples = rng.integers(-3, 4, size=(dim, dim)) / dim
    column = rng.standard_normal(16)
    unit = column / np.linalg.norm(column)
    t = np.linspace(claim.start, claim.end * math.sqrt(16), 20_001)
    by_hand = float(np.abs(np.cos(np.outer(t, unit))).prod(axis=1).max())
    generic = _non_arithmetic(*rng.standard_normal((2, dim, dim)))
    yield close("entries +-1/d", _non_arithmetic(signs), claim.lattice, absolute=claim.margin)
    yield close("whole multiples of 1/d", _non_arithmetic(multiples), claim.lattice, absolute=claim.margin)
    yield at_most(f"logarithm for Gaussian heads, d = {dim}", math.log(generic), claim.generic)
    yield close(
        "one column, the report against a fine grid",
        _non_arithmetic(np.repeat(column[:, None], 16, axis=1)),
        by_hand,
        relative=0.03,
    )


@checks("conditions/transformer-shaped", returned(np.square))
def transformer_shaped(claim: Constants, scale: Scale, rng: Generator) -> Iterator[Comparison]:
    """Runs the report on layers of the generator, and computes the stable rank by singular values here. It
    says nothing about trained layers themselves: the generator assumes that their spectra are powers.
    """
    layer = make_transformer_shaped_layer(
        heads=6 if scale is Scale.QUICK else 12,
        dim=64 if scale is Scale.QUICK else 96,
        strengths=claim.strengths,
        rank=claim.rank,
        exponent=claim.exponent,
        incoherence=claim.incoherence,
        rng=rng,
    )
    report = check_conditions(layer, tokens=4)
    values = np.linalg.svd(layer.theta[0], compute_uv=False)
    yield close("stable rank", float((values**2).sum() / values[0] ** 2), claim.stable_rank, absolute=0.005)
    yield close("incoherence", report["theta_incoherence"].measured or 0.0, claim.incoherence, absolute=1e-6)
    yield equal(
        "violated",
        sorted(report.violated),
        ["theta_incoherence", "theta_stable_rank", "w_incoherence", "w_stable_rank"],
    )


def _values(tokens: np.ndarray, column: np.ndarray) -> int:
    return len(np.unique(tokens @ column))


def _incoherence(theta: np.ndarray) -> float:
    return check_conditions(AttentionLayer(theta=theta, w=theta))["theta_incoherence"].measured or 0.0


def _non_arithmetic(*theta: np.ndarray) -> float:
    heads = np.array(theta)
    return check_conditions(AttentionLayer(theta=heads, w=heads))["theta_non_arithmetic"].measured or 0.0

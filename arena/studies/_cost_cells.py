"""Fits whose cost is measured: examples, passes, and the peak of NumPy's arrays."""

import gc
import tracemalloc
from collections.abc import Mapping
from functools import cache, partial
from typing import Any

import numpy as np

from arena.studies.study import Parameters
from attention import BooleanInputs, ExampleOracle, Fit, GaussianInputs, Learner, make_nice_layer
from attention.inputs import Rng
from paper_checks import Scale
from upper import Newton, counting_floor
from upper.linear_attention import LinearAttention, LinearAttentionLearner, make_linear_attention
from upper.newton.spectral import spectral_start
from upper.six_phase import SixPhase

__all__ = ["CHECKED", "FITTED", "cost_cells", "measure_cost"]

FITTED, CHECKED = "fitted", "checked"
"""What a cell is for: the laws are fitted to the first only."""

_STEP = 1 << 14  # bytes: Python's own objects differ by about a thousand from run to run
_WARM = {"newton": (1, 3, 8), "linear": (1, 3, 4), "six-phase": (2, 2, 8)}
_MOST = {Scale.QUICK: 3e6, Scale.FULL: 5e7}  # multiplications a pass of Newton, at the sizes that are fitted
_GRID = {
    Scale.QUICK: ((1, 2, 4), (2, 4), (8, 16, 32)),
    Scale.FULL: ((1, 2, 4, 8), (2, 3, 4, 8), (8, 16, 32, 64)),
}
# from d = 14 on the features no longer fit one block: both sides are needed to tell the two shares of memory apart
_LINEAR = {
    Scale.QUICK: [(2, 2, d) for d in (4, 8, 12)] + [(2, 4, d) for d in (4, 8, 12, 16)],
    Scale.FULL: [(m, 4, 8) for m in (1, 4)]
    + [(2, k, d) for k in (2, 4, 8) for d in (4, 6, 8, 12)]
    + [(2, 4, 14), (2, 4, 16), (2, 8, 16)],
}
_SIX = {
    Scale.QUICK: [],
    Scale.FULL: [
        (2, 2, 8),
        (2, 2, 12),
        (2, 2, 16),
        (2, 2, 24),
        (2, 4, 12),
        (2, 4, 16),
        (2, 4, 24),
        (3, 3, 16),
    ],
}
# sizes and draws; the second of the regression and the last two of Newton came after every law was settled
_CHECKS = {
    Scale.QUICK: {"newton": [((4, 4, 48), 2)], "linear": [((2, 4, 18), 1)]},
    Scale.FULL: {
        "newton": [((8, 8, 96), 3), ((12, 16, 64), 3), ((16, 32, 64), 1)],
        "linear": [((2, 4, 22), 1), ((2, 4, 24), 1)],
        "six-phase": [((2, 2, 40), 1)],
    },
}


def cost_cells(scale: Scale) -> list[Parameters]:
    """The sizes that laws are fitted to, and larger ones for each learner; Newton's with several draws."""
    heads, tokens, dims = _GRID[scale]
    most, draws = _MOST[scale], 2 if scale is Scale.QUICK else 3
    newton = [
        (m, k, d) for m in heads for k in tokens for d in dims if d >= 4 * m and _a_pass(m, k, d) <= most
    ]
    sizes = {"newton": newton, "linear": _LINEAR[scale], "six-phase": _SIX[scale]}
    cells: list[Parameters] = []
    for learner, those in sizes.items():
        fitted = [(size, draws if learner == "newton" else 1) for size in those]
        for role, chosen in ((FITTED, fitted), (CHECKED, _CHECKS[scale].get(learner, []))):
            cells += [
                {"learner": learner, "m": m, "k": k, "d": d, "draw": draw, "role": role}
                for (m, k, d), several in chosen
                for draw in range(several)
            ]
    return cells


def measure_cost(
    *, rng: np.random.Generator, learner: str, m: int, k: int, d: int, draw: int, role: str
) -> Mapping[str, Any]:
    """What one fit took. Memory is the peak that `tracemalloc` sees, in steps of 16 KiB or one in 64."""
    _warmed(learner)
    fit, peak = _fitted(learner, m, k, d, rng)
    last = fit.trace[-1].measures if fit.trace else {}
    passes, step = last.get("total_passes"), max(_STEP, 1 << (peak.bit_length() - 7))
    return {
        "examples": fit.examples_used,
        "passes": None if passes is None else int(passes),
        "starts": int(last.get("starts", 1)),
        "memory": round(peak / step) * step,
        "outcome": fit.outcome.name,
    }


@cache
def _warmed(learner: str) -> None:
    """A small fit first: what is imported and compiled once in a process is no part of a cell."""
    rng = np.random.default_rng(0)
    _fitted(learner, *_WARM[learner], rng)
    if learner == "newton":  # what a second start needs, too
        x = BooleanInputs(k=3, d=12).sample(100, rng=rng)
        spectral_start(x, make_nice_layer(heads=3, dim=12, rng=rng)(x), 3, rng=rng)


def _fitted(learner: str, m: int, k: int, d: int, rng: np.random.Generator) -> tuple[Fit, int]:
    made, drawn, own = rng.spawn(3)
    oracle, chosen = _target(learner, m, k, d, made, drawn), _learner(learner, m)
    gc.collect()
    traced = tracemalloc.is_tracing()
    if not traced:
        tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        tracemalloc.reset_peak()
        fit = chosen.fit(oracle, rng=own)
        return fit, tracemalloc.get_traced_memory()[1] - before
    finally:
        if not traced:
            tracemalloc.stop()


def _target(learner: str, m: int, k: int, d: int, made: Rng, drawn: Rng) -> ExampleOracle:
    if learner == "linear":
        model = make_linear_attention(heads=m, dim=d, rng=made)
        return ExampleOracle(partial(_every_row, model), GaussianInputs(k=k, d=d), rng=drawn)
    return ExampleOracle(make_nice_layer(heads=m, dim=d, rng=made), BooleanInputs(k=k, d=d), rng=drawn)


def _every_row(model: LinearAttention, x: np.ndarray) -> np.ndarray:
    return np.asarray(model.at_queries(x, x))


def _learner(learner: str, m: int) -> Learner:
    if learner == "newton":
        return Newton(m, engine="numpy")
    return SixPhase(m) if learner == "six-phase" else LinearAttentionLearner()


def _a_pass(m: int, k: int, d: int) -> int:
    return 4 * counting_floor(heads=m, tokens=k, dim=d) * k * m * d * (d + 2 * k)

"""The cost of one fit: examples, passes, and the peak of the arrays of NumPy."""

import gc
import tracemalloc
from functools import cache, partial
from typing import Any

import numpy as np
from jaxtyping import Float
from numpy import ndarray
from numpy.random import Generator

from attention import BooleanInputs, ExampleOracle, Fit, GaussianInputs, Learner, make_nice_layer
from upper import Newton
from upper.linear_attention import LinearAttention, LinearAttentionLearner, make_linear_attention
from upper.six_phase import SixPhase

__all__ = ["cost_of_fit"]

_STEP = 1 << 14  # bytes: Python's own objects differ by about a thousand from run to run
_WARM = {"newton": (1, 3, 8), "linear": (1, 3, 4), "six-phase": (2, 2, 8)}


def cost_of_fit(learner: str, m: int, k: int, d: int, rng: Generator) -> dict[str, Any]:
    """Examples, passes over them, starts, the peak of the arrays in bytes, and the outcome of a fit of a nice target.

    The peak is measured by `tracemalloc`, in steps of 16 KiB or of one in 64.

    Parameters
    ----------
    learner : {"newton", "linear", "six-phase"}
        Newton; cubic regression, on linear attention with Gaussian tokens; the six phases in practical mode.
    m, k, d : int
        Heads, tokens and dimension.
    rng : Generator
        Draws the target, the examples and the learner's random choices.
    """
    _warm(learner)
    fit, peak = _fit(learner, m, k, d, rng)
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
def _warm(learner: str) -> None:
    """Run a small fit first, so that imports and compilation do not count in a cell."""
    rng = np.random.default_rng(0)
    _fit(learner, *_WARM[learner], rng)


def _fit(learner: str, m: int, k: int, d: int, rng: Generator) -> tuple[Fit, int]:
    """The fit, and the peak of the arrays in bytes."""
    made, drawn, own = rng.spawn(3)
    oracle, chosen = _oracle(learner, m, k, d, made, drawn), _learner(learner, m)
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


def _oracle(learner: str, m: int, k: int, d: int, made: Generator, drawn: Generator) -> ExampleOracle:
    if learner == "linear":
        model = make_linear_attention(heads=m, dim=d, rng=made)
        return ExampleOracle(partial(_every_row, model), GaussianInputs(tokens=k, dim=d), rng=drawn)
    return ExampleOracle(make_nice_layer(heads=m, dim=d, rng=made), BooleanInputs(tokens=k, dim=d), rng=drawn)


def _every_row(model: LinearAttention, x: Float[ndarray, "n k d"]) -> Float[ndarray, "n k d"]:
    return np.asarray(model.at_queries(x, x))


def _learner(learner: str, m: int) -> Learner:
    if learner == "newton":
        return Newton(m, engine="numpy")
    return SixPhase(m) if learner == "six-phase" else LinearAttentionLearner()

"""Holding examples out, and what a fit amounts to on them."""

import math

import numpy as np
from jaxtyping import Float

from attention import AttentionLayer, Outcome
from attention.metrics import relative_error

__all__ = ["EXACT_ERROR", "HELD_OUT_SHARE", "held_out_error", "hold_out", "verdict"]

# An error this small on held-out examples is rounding: nothing but the target itself explains them.
EXACT_ERROR = 1e-10
# The conditioning of a fit with spare heads has cost up to three digits on held-out examples.
_NEARLY_EXACT = 1e-6
HELD_OUT_SHARE = 20
"""One example in so many is held out."""


def hold_out(
    x: Float[np.ndarray, "n k d"], y: Float[np.ndarray, "n k d"]
) -> tuple[tuple[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]:
    """The examples to fit, and a twentieth of them, at least one, to hold out."""
    n = len(x) - max(1, len(x) // HELD_OUT_SHARE)
    return (x[:n], y[:n]), (x[n:], y[n:])


def held_out_error(
    layer: AttentionLayer, x: Float[np.ndarray, "n k d"], y: Float[np.ndarray, "n k d"]
) -> float:
    """The layer's relative error; its absolute one on labels that are all zero, which have no relative error."""
    with np.errstate(over="ignore", invalid="ignore"):
        predicted = layer(x)
    if not np.isfinite(predicted).all():
        return math.inf
    return relative_error(predicted, y) if np.any(y) else float(np.linalg.norm(predicted))


def verdict(*, fitted: float, held_out: float, tolerance: float, work_spent: bool) -> Outcome:
    """The outcome, from the relative errors on fitted and on held-out examples.

    Where the fitted ones are exact and the others nearly so, the conditioning of the fit has taken the last digits, as
    where a student has heads to spare: overfitted examples leave errors of order one.
    """
    if held_out < EXACT_ERROR:
        return Outcome.EXACT
    if max(fitted, held_out) <= tolerance:
        return Outcome.REACHED_TOLERANCE
    if fitted < EXACT_ERROR and held_out < _NEARLY_EXACT:
        return Outcome.PRECISION_FLOOR
    if fitted < 0.1 * held_out:
        return Outcome.OVERFITTED
    return Outcome.WORK_SPENT if work_spent else Outcome.LOCAL_MINIMUM

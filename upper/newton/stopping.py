"""When one run of Gauss-Newton stops, and what the residuals where runs ended say."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from jaxtyping import Float

from attention import AttentionLayer, Outcome
from attention.evaluation import EXACT_ERROR, HeldOut
from upper.newton.loop import Iterate

__all__ = [
    "LOW_RANK_PATIENCE",
    "PATIENCE",
    "Patience",
    "at_noise_level",
    "fitted_share",
    "judge",
    "last_iterate",
    "no_worse",
    "noise_level",
    "same_residual",
]

# Of what fitting takes off the squared residual under noise: what a run may leave undone, and by how much two runs into
# one minimum may differ.
_UNDONE, _APART = 0.01, 0.1
# A fall of the squared residual that is not yet near a minimum.
_LONG_STEP = 0.5
# With fewer than two equations an unknown the residual says nothing about noise.
_MOST_SHARE = 0.5
# Squared residuals of runs into one minimum differ by no more than this, where noise is so large that more would pass.
_SAME_SQUARED = 0.02
# The spread of errors on few held-out examples.
_HELD_OUT_RATIO = 1.2
# No local minimum of a nice layer was seen below this residual: what is left there is noise, such as inputs rounded to
# float32, which is larger on some examples than on others.
_LOW, _LOW_HELD_OUT_RATIO, _LOW_SAME_SQUARED = 1e-4, 3.0, 0.5
_SIGNIFICANT = 2.0  # standard errors of a paired difference
_ROUNDING = 1e-13  # below this residual the last digits are rounding


@dataclass(frozen=True)
class Patience:
    """When to give a run up: the residual is not below `ratio` of itself after so many `iterates`.

    A run counts as converged after so many `steps` one after another that each say so.
    """

    iterates: int
    ratio: float
    steps: int = 1


PATIENCE = Patience(10, 0.7)
"""For matrices: the worst ratio seen in a run that ended exact on nice targets is 1e-9."""
LOW_RANK_PATIENCE = Patience(20, 0.98, steps=8)
"""For factors: the worst ratio seen in a run that ended exact, of those to 40 targets, is .967."""
# Below 1e-2 steps are slow where heads are nearly equal, or where hardly a row of a pattern is not saturated.
_SLOW_BELOW, _SLOW_PATIENCE = 1e-2, Patience(40, 0.9)


def last_iterate(
    iterates: Iterator[Iterate],
    *,
    tolerance: float,
    work: int,
    tell: Callable[[int, Iterate], None],
    share: float = 0.0,
    patience: Patience = PATIENCE,
    reached: Callable[[Iterate], bool] = lambda iterate: True,
) -> Iterate:
    """The first iterate at the tolerance, at the end of the work, or at which the run has stalled or converged.

    Parameters
    ----------
    iterates : iterator of Iterate
        From `gauss_newton`.
    tolerance : float
        Relative residual at which to stop.
    work : int
        Passes after which to stop.
    tell : callable
        Called with the number of each iterate and the iterate.
    share : float
        Unknowns over equations, of `fitted_share`; 0 to go on until the run stalls.
    patience : Patience
        When a run counts as stalled.
    reached : callable
        Asked of an iterate at the tolerance: whether that is enough to stop.

    Notes
    -----
    At a minimum under noise, fitting has taken the `share` p / N off the squared residual, which is the excess error
    of a perfect fit relative to the noise. A run has converged when steps to come would take off less than a hundredth
    of that: near a minimum the falls of the squared residual shrink by a ratio q a step, so that after the fall f the
    steps to come are worth f q / (1 - q). One short step after one that took off more than half says nothing yet.
    """
    history: list[float] = []
    falls: list[float] = []
    theta = None
    for iterate in iterates:
        tell(len(history), iterate)
        if iterate.theta is theta:
            falls.clear()  # rejected: the next steps are shortened by their damping, and say nothing
        elif history and history[-1] > 0:
            falls.append(1 - (iterate.residual / history[-1]) ** 2)
        theta = iterate.theta
        history.append(iterate.residual)
        ended = iterate.passes >= work or (iterate.residual <= tolerance and reached(iterate))
        if ended or _stalled(history, patience) or _converged(falls, share, patience.steps):
            return iterate
    raise AssertionError("gauss_newton never ends by itself")


def judge(
    best: Iterate, held_out: HeldOut, *, tolerance: float, spent_all: bool, at_floor: bool = False
) -> tuple[Outcome, float]:
    """What the best iterate amounts to on held-out examples, and its relative error there.

    `tolerance` is the residual asked for, `spent_all` whether the work was spent, and `at_floor` whether other starts
    ended at the same residual.
    """
    ended = Outcome.WORK_SPENT if spent_all else Outcome.LOCAL_MINIMUM
    return held_out.verdict(
        AttentionLayer(theta=best.theta, w=best.w),
        fitted=best.residual,
        tolerance=tolerance,
        otherwise=Outcome.RESIDUAL_FLOOR if at_floor else ended,
    )


def same_residual(ends: Sequence[Iterate], *, share: float = 0.2, several: int = 2) -> bool:
    """Whether the `several` best ends have one residual, as runs into one minimum do.

    Their squared residuals may differ by a tenth of `share` (of `fitted_share`), and by two hundredths at most; by a
    half below 1e-4, where there are no local minima to tell apart.
    """
    best = sorted(end.residual for end in ends)
    if len(best) < several:
        return False
    apart = _LOW_SAME_SQUARED if best[several - 1] < _LOW else min(_SAME_SQUARED, _APART * share)
    return best[several - 1] <= best[0] * math.sqrt(1 + apart)


def at_noise_level(end: Iterate, held_out: HeldOut, *, share: float = 0.15) -> bool:
    """Whether held-out examples have the residual of the fitted ones, up to what fitting them takes off it.

    Of noise of variance 1 a fit leaves 1 - `share` on its own examples and 1 + excess on others; the excess is the
    share with many examples, and was measured up to 3.3 of it at four times the counting floor.
    """
    ratio = _HELD_OUT_RATIO if end.residual > _LOW else _LOW_HELD_OUT_RATIO
    error = held_out.error(AttentionLayer(theta=end.theta, w=end.w))
    return error < ratio * math.sqrt((1 + 4 * share) / (1 - share)) * end.residual


def fitted_share(count: int, x: Float[np.ndarray, "n k d"]) -> float:
    """Unknowns over equations, p / (n k d): the share of white noise that a fit of p unknowns takes up; at most 1/2."""
    return min(count / x.size, _MOST_SHARE)


def noise_level(residual: float, y: Float[np.ndarray, "n k d"], share: float) -> float:
    """The standard deviation of the noise on an entry of a label, from the relative residual at the minimum.

    |Y - F(X)|^2 has expectation s^2 (n k d - p) there, to leading order in s.
    """
    return residual * float(np.linalg.norm(y)) / math.sqrt(y.size * (1 - share))


def no_worse(errors: Float[np.ndarray, " rows"], than: Float[np.ndarray, " rows"]) -> bool:
    """Whether squared errors on the same rows are not larger on average, up to two standard errors of the difference.

    Examples
    --------
    >>> no_worse(np.array([1.0, 2.0, 3.0]), np.array([1.1, 1.9, 3.0]))
    True
    >>> no_worse(np.array([1.0, 2.0, 3.0]), np.array([0.5, 1.6, 2.5]))
    False
    """
    exact = EXACT_ERROR**2
    if than.mean() < exact or not np.isfinite(errors).all():
        return bool(errors.mean() < exact)
    difference = errors - than
    spread = float(difference.std(ddof=1)) / math.sqrt(len(difference)) if len(difference) > 1 else 0.0
    return bool(difference.mean() <= _SIGNIFICANT * spread)


def _stalled(history: list[float], patience: Patience) -> bool:
    now = history[-1]
    # extra heads make a run slow down to its last digits, where only rounding is left to lose
    rounding = 2 if now < _ROUNDING else 10
    if now < EXACT_ERROR and len(history) > 10 and now >= 0.9 * history[-1 - rounding]:
        return True
    if now < _SLOW_BELOW:
        patience = _SLOW_PATIENCE
    if len(history) <= patience.iterates:
        return False
    return now > patience.ratio * history[-1 - patience.iterates]


def _converged(falls: list[float], share: float, steps: int) -> bool:
    if len(falls) <= steps:
        return False
    return all(
        now < share and now < before < _LONG_STEP and now * now / (before - now) < _UNDONE * share
        for before, now in pairwise(falls[-1 - steps :])
    )

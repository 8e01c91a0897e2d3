"""Levenberg-Marquardt trials from a point until one is accepted, and the rule for their damping."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

__all__ = ["Trial", "next_damping", "trials"]


@dataclass(frozen=True, eq=False)
class Trial:
    """Where a trial left the run.

    Attributes
    ----------
    point : object
        The trial's point if it was accepted, else that before.
    damping : float
        The Levenberg-Marquardt parameter lambda for the next trial.
    passes : int
        Passes over the data it took.
    """

    point: Any
    damping: float
    passes: int


def trials(
    problem: Any, solver: Any, here: Any, damping: float, *, inner_steps: int, tolerance: float
) -> Iterator[Trial]:
    """Trials from a point until one is accepted, which is the last.

    Parameters
    ----------
    problem : object
        With `moved(here, step)`, and `evaluate(parameters, here, damping)`, which gives a point.
    solver : object
        With `solve`, at the point `here`.
    here : object
        The point, with its `residual` and `misfit`.
    damping : float
        The Levenberg-Marquardt parameter lambda.
    inner_steps : int
        At most so many conjugate-gradient steps a trial.
    tolerance : float
        The relative residual the caller will stop at.

    Notes
    -----
    The forcing term is max(min(.7, c), .06, .3 tolerance / c), c the relative residual at the point.
    """
    c = here.residual
    accepted = False
    while not accepted:
        step, steps = solver.solve(
            here.misfit,
            damping,
            forcing=max(min(0.7, c), 0.06, 0.3 * tolerance / max(c, tolerance, 1e-300)),
            at_most=inner_steps,
        )
        trial = problem.evaluate(problem.moved(here, step), here, damping)
        accepted = trial.residual < c
        damping = next_damping(damping, c, trial.residual)
        yield Trial(trial if accepted else here, damping, 2 * steps + 2)


def next_damping(damping: float, before: float, after: float) -> float:
    """Lambda after a trial that took the residual from `before` to `after`.

    Notes
    -----
    It falls fourfold when the residual falls below .8 of itself, is at most the residual squared below .3 (then the
    convergence is superlinear), and grows fourfold when the residual does not fall.

    Examples
    --------
    >>> next_damping(0.01, 0.9, 0.5), next_damping(0.01, 0.9, 0.8), next_damping(0.01, 0.9, 1.2)
    (0.0025, 0.01, 0.04)
    >>> next_damping(0.01, 0.1, 0.01)
    0.0001
    """
    if not after < before:
        return 4 * max(damping, 1e-16)
    if after < 0.8 * before:
        damping *= 0.25
    return min(damping, after**2) if after < 0.3 else damping

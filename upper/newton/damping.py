"""Levenberg-Marquardt damping: how lambda follows the cost from trial to trial, and what a plateau is."""

from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ["Damping", "next_damping"]


@dataclass(frozen=True)
class Damping:
    """How far a step goes: a large lambda is gradient descent, lambda zero the full Gauss-Newton step."""

    first: float = 1e-2  #: at the start; values from 1e-4 to 1e-1 give the same results
    #: a run is on a plateau if so many accepted trials leave more than this share of the residual: there lambda falls
    #: with every accepted trial, and inner solves are more accurate, or else a saturated head, far above the mean
    #: curvature, keeps the others from moving
    plateau: int = 5
    plateau_ratio: float = 0.8

    def on_plateau(self, residuals: Sequence[float]) -> bool:
        """Whether the last of these residuals is on a plateau."""
        accepted = list(dict.fromkeys(residuals))  # a rejected trial repeats the residual
        return (
            len(accepted) > self.plateau and accepted[-1] > self.plateau_ratio * accepted[-1 - self.plateau]
        )


def next_damping(damping: float, before: float, after: float, *, steady: bool = False) -> float:
    """The damping lambda after a trial that changed the cost from `before` to `after`.

    It grows fourfold if the cost does not fall. It falls fourfold if `after` is below .8 of `before`, and if `steady`
    by half after any fall. If the cost falls below .3, lambda is at most its square: the convergence is then
    superlinear.

    Examples
    --------
    >>> next_damping(0.01, 0.9, 0.5), next_damping(0.01, 0.9, 0.8), next_damping(0.01, 0.9, 1.2)
    (0.0025, 0.01, 0.04)
    >>> next_damping(0.01, 0.1, 0.01), next_damping(0.01, 0.9, 0.8, steady=True)
    (0.0001, 0.005)
    """
    if not after < before:
        return 4 * max(damping, 1e-16)
    if after < 0.8 * before:
        damping *= 0.25
    elif steady:
        damping *= 0.5
    return min(damping, after**2) if after < 0.3 else damping

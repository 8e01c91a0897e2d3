"""Precision: float32 while it is enough, float64 for the last digits, and float64 throughout for runs that are slow."""

from collections.abc import Sequence
from dataclasses import dataclass

from attention.evaluation import EXACT_ERROR

__all__ = ["Precision"]


@dataclass(frozen=True)
class Precision:
    """When a run changes to float64: later is faster, earlier loses fewer digits."""

    #: below, reads and residuals are float64: float32 patterns are too coarse for the next
    double_below: float = 2e-5
    #: the least ridge on the linear factor, in units of the mean diagonal of G = Z^T Z, in float32 and throughout
    #: float64; heads at a relative distance e change G by e^2 and J^T J by e^4 only, so the first hides 1/100
    ridge: float = 1e-6
    precise_ridge: float = 1e-13
    #: a run is slow, and goes on in float64 throughout, if so many trials below this residual leave more than this
    #: share of it; local minima of nice targets have larger residuals, and other runs fall faster
    slow_below: float = 1e-2
    slow_trials: int = 8
    slow_ratio: float = 0.5

    def slow(self, residuals: Sequence[float]) -> bool:
        """Whether a run with these residuals is slow."""
        now = residuals[-1]
        # at smaller residuals, rounding alone makes a run slow
        if not EXACT_ERROR < now < self.slow_below or len(residuals) <= self.slow_trials:
            return False
        return now > self.slow_ratio * residuals[-1 - self.slow_trials]

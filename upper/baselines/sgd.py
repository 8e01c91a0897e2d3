"""Stochastic gradient descent with momentum, with NumPy only."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import numpy as np

from attention import ExampleOracle
from attention.validation import NonNegativeFloat, Real, checked
from upper.baselines.descent import Descent, Stacked, Student, squared_error_gradient

__all__ = ["SGD"]

_HIGHEST_DEFAULT = 0.25


@dataclass(frozen=True)
@checked
class SGD(Descent):
    """Gradient descent with Nesterov's momentum on small batches.

    Parameters
    ----------
    m : int
        Heads of the student.
    examples : int, optional
        Budget in examples; by default only `work` limits them.
    work : int
        Budget in steps, each a pass over one batch; also the length of the schedule.
    batch : int
        Examples per step.
    learning_rate : float, optional
        The rate at the start of the schedule, after a warm-up over a fiftieth of it, for the loss of a row (half its
        squared error). With 0 the parameters stay at the start. The default is 1/d, but at most 1/4, since 1/d can
        diverge in one to three dimensions.
    momentum : float
        The share of the last step that is added to the next, at least 0 and below 1.
    schedule : {"cosine", "linear", "constant"}
        How the rate falls over the `work`.
    power : float
        The exponent of the schedule; above 1, more of the steps are small.
    tolerance : float
        Stop when the error is below it; 0 runs to the end. The error is measured on fresh batches before a step on
        them; with `reused`, on the held-out examples.
    dtype : {"float64", "float32"}
        The precision of the steps; float32 takes half the time, and its error does not fall below about 1e-7.
    reused : int, optional
        The size of a fixed set, drawn once; a twentieth is held out, and the rest is shuffled again for every pass. By
        default every batch is fresh.

    Raises
    ------
    ValueError
        If a parameter is out of range, or on `fit` if the budget is below one batch.

    Notes
    -----
    The labels are not rescaled, so the largest stable rate depends on them. On nice layers (d from 4 to 64), rates near
    1/d were the best of those tried. A step takes O(batch k m d (d + 2 k)).

    References
    ----------
    Sutskever, Martens, Dahl and Hinton, ICML 2013, in the form of ``torch.optim.SGD`` with ``nesterov=True``:
    v = mu v + g, then p -= rate (g + mu v), with gradients at p itself.

    Examples
    --------
    >>> from attention import BooleanInputs, make_nice_layer
    >>> oracle = ExampleOracle(make_nice_layer(heads=1, dim=8, rng=0), BooleanInputs(k=3, d=8), rng=1)
    >>> fit = SGD(1, work=2000, tolerance=0.01).fit(oracle, rng=2)
    >>> fit.outcome.name
    'REACHED_TOLERANCE'
    """

    learning_rate: NonNegativeFloat | None = None
    momentum: Annotated[float, Real(least=0, below=1)] = 0.9
    dtype: Literal["float64", "float32"] = "float64"

    def student(self, oracle: ExampleOracle, start: Stacked) -> Student:
        """The parameters with their velocities."""
        highest = min(1.0 / oracle.d, _HIGHEST_DEFAULT) if self.learning_rate is None else self.learning_rate
        # the loss of an example is the sum over its k rows
        return _Moving([part.astype(self.dtype) for part in start], highest / oracle.k, self.momentum)

    def converter(self) -> Callable[[np.ndarray], Any]:
        """A converter to the precision of the steps."""
        return lambda array: array.astype(self.dtype, copy=False)


class _Moving(Student):
    def __init__(self, parameters: list[np.ndarray], rate: float, momentum: float) -> None:
        self.parameters, self._rate, self._momentum = parameters, rate, momentum
        self._velocity = [np.zeros_like(part) for part in parameters]

    def step(self, x: Any, y: Any, share: float) -> Any:
        residual, *gradients = squared_error_gradient(x, y, *self.parameters)
        rate = self._rate * share
        for part, moving, gradient in zip(self.parameters, self._velocity, gradients, strict=True):
            moving *= self._momentum
            moving += gradient
            part -= rate * (gradient + self._momentum * moving)
        return residual

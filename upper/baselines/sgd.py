"""Stochastic gradient descent with momentum, on NumPy alone."""

from dataclasses import dataclass
from typing import Annotated, Any, Literal

import numpy as np

from attention import AttentionLayer, ExampleOracle, Fit, GroundTruth, Recorder, check_budget
from attention.inputs import Rng
from attention.learning import Progress
from attention.validation import (
    NonNegativeFloat,
    NonNegativeInt,
    PositiveInt,
    Real,
    Whole,
    checked,
    random_generator,
)
from upper._squared_error import layer_of_stacked, random_start, squared_error_gradient
from upper.baselines.minibatches import Schedule, affordable_steps, draw_batches, rate, train

__all__ = ["SGD"]

_HIGHEST_DEFAULT = 0.25
# a few times the rounding: no schedule gets a layer much below it
_FLOORS = {"float64": 0.0, "float32": 1e-6}


@dataclass(frozen=True)
@checked
class SGD:
    """Gradient descent with Nesterov's momentum on small batches.

    Parameters
    ----------
    m : int
        Heads of the student.
    examples : int, optional
        Budget in examples; by default none beyond `work`.
    work : int
        Budget in steps, each a pass over one batch; also the length of the schedule.
    batch : int
        Examples a step.
    learning_rate : float, optional
        The rate at the start of the schedule, after a warm-up over a fiftieth of it, for the loss of a row (half its
        squared error): the sum over the k rows would need a rate k times smaller. 0 stays at the start; by default
        it is 1/d, and at most 1/4: from one to three dimensions 1/d can diverge.
    momentum : float
        The share of the last step that is taken again, at least 0 and below 1.
    schedule : {"cosine", "linear", "constant"}
        How the rate falls over the `work`.
    tolerance : float
        Stop when the error is below it; 0 runs to the end. The error is that on fresh batches, before they are
        learned from, and with `reused` that on the examples held out.
    dtype : {"float64", "float32"}
        What steps are computed in: float32 takes half the time and levels off at errors of some 1e-7.
    reused : int, optional
        Draw a fixed set of so many examples once, hold a twentieth out, and make the batches of the rest, shuffled
        anew for every pass; by default every batch is fresh.

    Raises
    ------
    ValueError
        If a parameter is out of range, or on `fit` if the budget is below one batch.

    Notes
    -----
    All parameters have one rate, and the labels are not rescaled, so the rate that is stable depends on them. On nice
    layers rates near 1/d did best of those tried (d from 4 to 64); at single tokens in four dimensions eight heads
    diverged at 1/4 and four did not. A step takes O(batch k m d (d + 2 k)).

    The momentum is Nesterov's in PyTorch's form: v = mu v + g, then p -= rate (g + mu v), with gradients at p itself.

    References
    ----------
    Robbins and Monro, Ann. Math. Stat. 22 (1951); Sutskever, Martens, Dahl and Hinton, ICML 2013; the form of the
    momentum is that of ``torch.optim.SGD`` with ``nesterov=True``. The default rate is only measured.

    Examples
    --------
    >>> from attention import BooleanInputs, make_nice_layer
    >>> oracle = ExampleOracle(make_nice_layer(heads=1, dim=8, rng=0), BooleanInputs(k=3, d=8), rng=1)
    >>> fit = SGD(1, work=2000, tolerance=0.01).fit(oracle, rng=2)
    >>> fit.outcome.name
    'REACHED_TOLERANCE'
    """

    m: PositiveInt
    examples: NonNegativeInt | None = None
    work: PositiveInt = 3000
    batch: PositiveInt = 256
    learning_rate: NonNegativeFloat | None = None
    momentum: Annotated[float, Real(least=0, below=1)] = 0.9
    schedule: Schedule = "cosine"
    tolerance: NonNegativeFloat = 0.0
    dtype: Literal["float64", "float32"] = "float64"
    reused: Annotated[int, Whole(2)] | None = None

    def minimum_examples(self, k: int, d: int) -> int:
        """One batch; of a fixed set one example to learn from and one to hold out."""
        return self.batch if self.reused is None else 2

    def fit(
        self,
        oracle: ExampleOracle,
        *,
        rng: Rng = None,
        truth: GroundTruth | None = None,
        progress: Progress | None = None,
    ) -> Fit:
        """Learn a layer of m heads from batches.

        Raises
        ------
        ValueError
            If the budget is below `minimum_examples`, or the oracle's examples are malformed.
        """
        recorder = Recorder(oracle, truth=truth, progress=progress)
        budget = check_budget(self, oracle)
        random = random_generator(rng)
        steps = affordable_steps(self, budget)
        student = _Momentum(self, oracle, steps, random_start(self.m, oracle.d, random))
        batches = draw_batches(
            oracle,
            size=self.batch,
            reused=self.reused,
            rng=random,
            convert=lambda array: array.astype(self.dtype, copy=False),
            budget=budget,
        )
        with np.errstate(over="ignore", invalid="ignore"):  # a divergence is an outcome, not a warning
            outcome = train(
                student,
                batches,
                oracle,
                steps=steps,
                work=self.work,
                tolerance=self.tolerance,
                rounding=_FLOORS[self.dtype],
                tell=lambda step, layer, **errors: recorder.step(f"Step {step}", layer=layer(), **errors),
            )
        return recorder.fit(outcome, layer=student.layer())


class _Momentum:
    """The parameters and their velocities."""

    def __init__(
        self, sgd: SGD, oracle: ExampleOracle, steps: int, start: tuple[np.ndarray, np.ndarray]
    ) -> None:
        self._sgd, self._steps = sgd, steps
        self._parameters = [part.astype(sgd.dtype) for part in start]
        self._velocity = [np.zeros_like(part) for part in self._parameters]
        highest = min(1.0 / oracle.d, _HIGHEST_DEFAULT) if sgd.learning_rate is None else sgd.learning_rate
        self._rate = highest / oracle.k

    def step(self, x: Any, y: Any, number: int) -> Any:
        residual, *gradients = squared_error_gradient(x, y, *self._parameters)
        now = self._rate * rate(self._sgd.schedule, number, self._steps)
        for part, moving, gradient in zip(self._parameters, self._velocity, gradients, strict=True):
            moving *= self._sgd.momentum
            moving += gradient
            part -= now * (gradient + self._sgd.momentum * moving)
        return residual

    def finite(self) -> bool:
        return all(np.isfinite(part).all() for part in self._parameters)

    def reset(self) -> None:
        for part in self._parameters:
            part[:] = 0.0

    def layer(self) -> AttentionLayer:
        return layer_of_stacked(*self._parameters)

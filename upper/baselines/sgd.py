"""Stochastic gradient descent with momentum, on NumPy alone."""

from dataclasses import dataclass
from typing import Annotated, Any, Literal

import numpy as np

from attention import ExampleOracle, Fit, GroundTruth, Outcome, Recorder, check_budget
from attention.evaluation import verdict
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
from upper._minibatches import RunningError, Schedule, draw_batches, ended, rate
from upper._squared_error import layer_of_stacked, random_start, squared_error_gradient

__all__ = ["SGD"]

SGDDtype = Literal["float64", "float32"]

# in steps: often enough for a curve, seldom enough to cost nothing
_LOOK_EVERY = 50
# predicting zero has the error 1
_DIVERGED = 1e6
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
    One rate for all parameters, which is what sets it apart from Adam; the labels are not rescaled, so the rate that
    is stable depends on them. On nice layers rates near 1/d did best of those tried (d from 4 to 64): at a few times
    that the noise of small batches keeps the error near 1, far from diverging, until the schedule has all but ended.
    Single tokens in four dimensions or fewer are the exception: all heads then see the same, so that the rate that is
    stable falls with their number, and eight diverged at 1/4, where four did not.
    A step takes O(batch k m d (d + 2 k)).

    The momentum is Nesterov's in PyTorch's form: v = mu v + g, then p -= rate (g + mu v), with gradients at p itself.
    That of Sutskever, Martens, Dahl and Hinton has the rate in v. With a constant rate the points here are those at
    which theirs takes its gradients; with a falling one the two differ: here the whole of v, old gradients too, is
    taken at the rate of now.

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
    dtype: SGDDtype = "float64"
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
        start_rng = random_generator(rng)
        steps = self.work
        if self.reused is None and budget is not None:
            steps = min(steps, budget // self.batch)
        parameters = [part.astype(self.dtype) for part in random_start(self.m, oracle.d, start_rng)]
        highest = min(1.0 / oracle.d, _HIGHEST_DEFAULT) if self.learning_rate is None else self.learning_rate
        batches = draw_batches(
            oracle,
            size=self.batch,
            reused=self.reused,
            rng=start_rng,
            convert=lambda array: array.astype(self.dtype, copy=False),
            budget=budget,
        )

        velocity = [np.zeros_like(part) for part in parameters]
        outcome, running, error, seen = None, RunningError(), 0.0, 0.0
        with np.errstate(over="ignore", invalid="ignore"):  # a divergence is an outcome, not a warning
            for step in range(1, steps + 1):
                x, y = batches.next()
                residual, *gradients = squared_error_gradient(x, y, *parameters)
                running.add(residual, y)
                now = highest / oracle.k * rate(self.schedule, step - 1, steps)
                for part, moving, gradient in zip(parameters, velocity, gradients, strict=True):
                    moving *= self.momentum
                    moving += gradient
                    part -= now * (gradient + self.momentum * moving)
                if step % _LOOK_EVERY == 0 or step == steps:
                    error = seen = running.pop()
                    if not (seen < _DIVERGED and all(np.isfinite(part).all() for part in parameters)):
                        outcome = Outcome.DIVERGED
                        for part in parameters:
                            part[:] = 0.0  # what is left of the parameters predicts nothing
                    measures: dict[str, Any] = {
                        "fresh_error" if batches.held_out is None else "batch_error": seen
                    }
                    layer = layer_of_stacked(*parameters)
                    if outcome is None and batches.held_out is not None:
                        error = measures["held_out_error"] = batches.held_out.error(layer)
                    recorder.step(f"Step {step}", layer=layer, **measures)
                    if outcome is not None or error <= self.tolerance:
                        break
        if outcome is None:
            outcome = verdict(
                fitted=error if error <= self.tolerance else seen,
                held_out=error,
                evidence=batches.evidence,
                otherwise=ended(work_spent=steps == self.work, batches=batches, oracle=oracle),
                tolerance=self.tolerance,
                rounding=_FLOORS[self.dtype],
            )
        return recorder.fit(outcome, layer=layer_of_stacked(*parameters))

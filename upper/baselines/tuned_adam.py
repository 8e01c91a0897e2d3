"""Adam with the best of a grid of settings, at the cost of the whole grid."""

from dataclasses import dataclass
from itertools import product
from typing import Annotated, Any

import numpy as np

from attention import ExampleOracle, Fit, Outcome, Recorder
from attention.evaluation import Verdict
from attention.learning import LearnerBase, draw_and_hold_out
from attention.validation import NonNegativeFloat, NonNegativeInt, PositiveFloat, PositiveInt, Whole, checked
from upper.baselines.descent import Schedule, batches_of, random_start
from upper.baselines.gradient_descent import GradientDescent, Student, train

__all__ = ["TunedAdam"]

# The best settings tried on nice layers; see `benchmarks.peer_settings`.
_POWER, _MOMENTUM, _BETA2 = 1.5, 0.7, 0.98


@dataclass(frozen=True)
@checked
class TunedAdam(LearnerBase):
    """Adam with every setting of a grid; the result is that with the least error on held-out examples.

    Parameters
    ----------
    m : int
        Heads of the student.
    examples : int, optional
        Budget in examples for the whole grid; by default `reused`.
    work : int
        Budget in steps for the whole grid. Once it is spent, the other settings are not tried.
    batch : int
        Examples per step.
    learning_rates : tuple of float
        The rates of the grid.
    schedules : tuple of {"cosine", "linear", "constant"}
        How the rate falls.
    lengths : tuple of int
        Lengths of the schedules in steps; a schedule long enough for the smallest error is slow to reach a large one.
    reused : int
        The size of the fixed set of examples, shared by all settings.
    tolerance : float
        A setting stops at this error; of the settings that reach it, the one with the fewest steps is kept. 0 runs to
        the end.
    device : str
        The device of PyTorch, "cpu" or "cuda".

    Raises
    ------
    ValueError
        If a parameter is out of range or the grid is empty, or on `fit` as for `GradientDescent`.
    ImportError
        On `fit`, without PyTorch (the extra ``torch``).

    Notes
    -----
    All settings have the same random start. `Fit.seconds` and `Fit.examples_used` are those of the whole grid: the cost
    for a user who does not know the best setting. Each step of the trace also has the ``run_seconds`` and ``run_steps``
    of its own setting, the time for drawing the examples included. The last step has those of the best setting, and
    the ``grid_steps``. The least of several errors on the same held-out examples is slightly optimistic.
    """

    m: PositiveInt
    examples: NonNegativeInt | None = None
    work: PositiveInt = 24_000
    batch: PositiveInt = 192
    learning_rates: tuple[PositiveFloat, ...] = (0.003, 0.005, 0.008)
    schedules: tuple[Schedule, ...] = ("cosine", "linear")
    lengths: tuple[PositiveInt, ...] = (1000, 3000)
    reused: Annotated[int, Whole(2)] = 16_384
    tolerance: NonNegativeFloat = 0.0
    device: str = "cpu"

    def __post_init__(self) -> None:
        if not self.settings():
            raise ValueError("The grid is empty: at least one rate, schedule and length are needed.")

    def settings(self) -> tuple[GradientDescent, ...]:
        """The grid, the short schedules first."""
        return tuple(
            GradientDescent(
                self.m,
                work=length,
                batch=self.batch,
                learning_rate=learning_rate,
                tolerance=self.tolerance,
                schedule=schedule,
                power=_POWER,
                momentum=_MOMENTUM,
                beta2=_BETA2,
                reused=self.reused,
                device=self.device,
            )
            for length, schedule, learning_rate in product(self.lengths, self.schedules, self.learning_rates)
        )

    def _learn(
        self, oracle: ExampleOracle, recorder: Recorder, budget: int | None, rng: np.random.Generator
    ) -> Fit:
        # a missing library or device fails before the grid starts
        convert = self.settings()[0].converter()
        start = random_start(self.m, oracle.d, rng)
        examples, held_out = draw_and_hold_out(oracle, min(self.reused, budget or self.reused))
        drawn = recorder.seconds

        runs: list[_Run] = []
        left = self.work
        for setting in self.settings():
            if left == 0:
                break
            run = _Run(setting, setting.student(oracle.k, start), recorder, recorder.seconds - drawn)
            batches = batches_of(examples, held_out, size=self.batch, rng=rng.spawn(1)[0], convert=convert)
            run.verdict = train(
                setting, run.student, batches, oracle, steps=min(setting.work, left), tell=run.tell
            )
            run.error = held_out.error(run.student.layer())
            left -= run.cost["run_steps"]
            runs.append(run)

        best = min(runs, key=_Run.rank)
        layer = best.student.layer()
        recorder.step(
            f"Best: {best.name}",
            layer=layer,
            held_out_error=best.error,
            settings=len(runs),
            learning_rate=best.learning_rate,
            grid_steps=self.work - left,
            **best.cost,
        )
        return recorder.fit(best.verdict, layer=layer)


class _Run:
    """One setting of a grid: its steps in the trace, its own cost, and its result."""

    verdict: Verdict
    error: float

    def __init__(self, setting: GradientDescent, student: Student, recorder: Recorder, began: float) -> None:
        self.setting, self.student, self._recorder, self._began = setting, student, recorder, began
        self.learning_rate = setting.learning_rate or 0.0
        self.cost: dict[str, Any] = {}
        self.name = (
            f"learning rate {self.learning_rate:g}, {setting.schedule} over {setting.work} steps, "
            f"{setting.dtype}"
        )

    def tell(self, step: int, **errors: Any) -> None:
        self.cost = {"run_seconds": self._recorder.seconds - self._began, "run_steps": step}
        layer = self.student.layer() if self._recorder.measuring else None
        self._recorder.step(f"{self.name}: step {step}", layer=layer, **errors, **self.cost)

    def rank(self) -> tuple[bool, float]:
        reached = self.verdict.outcome is Outcome.REACHED_TOLERANCE
        return not reached, self.cost["run_steps"] if reached else self.error

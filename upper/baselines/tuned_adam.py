"""Adam tuned: a whole grid of settings on one set of examples, the best kept, and the cost of both counted."""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

from attention import (
    AttentionLayer,
    ExampleOracle,
    Fit,
    GroundTruth,
    Outcome,
    Recorder,
    check_budget,
    draw_examples,
)
from attention.evaluation import HeldOut, hold_out
from attention.inputs import Rng
from attention.learning import Progress
from attention.validation import count, non_negative, random_generator
from upper._minibatches import Batches, Schedule, batches_of, draw_batches
from upper._squared_error import random_start
from upper.adam import Adam, AdamDtype, descend, to_tensor

__all__ = ["TunedAdam"]


@dataclass(frozen=True)
class TunedAdam:
    """Adam with every setting of a grid, each on its own; the one with the least error on held-out examples is kept.

    Parameters
    ----------
    m : int
        Heads of the student.
    examples : int, optional
        Budget in examples for the whole grid; by default none beyond `reused`, or beyond `work` where that is None.
    work : int
        Budget in steps for the whole grid. Settings the budget has no steps left for are not tried.
    batch : int
        Examples a step.
    learning_rates : tuple of float
        The rates of the grid.
    schedules : tuple of {"cosine", "linear", "constant"}
        How the rate falls.
    lengths : tuple of int
        Lengths of the schedules in steps: a schedule made for the floor is slow to a coarse error.
    dtypes : tuple of {"float32", "float64", "bfloat16"}
        Precisions of the products, an axis of the grid like the others; by default float32 alone (see the notes).
    power : float
        To which the schedules are raised.
    beta1, beta2 : float
        Decay of the means of the gradient and of its square.
    reused : int or None
        The size of the one fixed set all settings learn from; None draws fresh batches for each of them.
    tolerance : float
        A setting stops at this error; of those that do the one with the fewest steps is kept. 0 runs to the end.
    device : str
        Where PyTorch computes, "cpu" or "cuda".

    Raises
    ------
    ValueError
        If a parameter is out of range or the grid is empty, or on `fit` as for `Adam`.
    ImportError
        On `fit`, without PyTorch (the extra ``torch``).

    Notes
    -----
    All settings begin at the same random start. `Fit.seconds` and `Fit.examples_used` are those of the whole grid,
    which is what tuning costs who does not know the best setting. Each step of the trace also tells the
    ``run_seconds``, ``run_examples`` and ``run_steps`` of its own setting, and the last step those of the best one
    beside ``grid_seconds``, ``grid_examples`` and ``grid_steps``: what it costs who guessed it. Drawing a fixed set
    counts for every run. The least of several errors on the same held-out examples is slightly too good.

    bfloat16 is not in the default grid: its products, of 8 bits, leave an error that no rate or length gets below. On a
    nice layer of (m, k, d) = (2, 2, 16) the six settings of the cosine ended between 2.0e-3 and 2.2e-3, where float32
    ended between 5e-8 and 3e-6 (measured). It is worth its place where a GPU makes it faster and such an error will do.

    References
    ----------
    Kingma and Ba, arXiv 1412.6980; the grid holds the best settings of those tried here.
    """

    m: int
    examples: int | None = None
    work: int = 24_000
    batch: int = 192
    learning_rates: tuple[float, ...] = (0.003, 0.005, 0.008)
    schedules: tuple[Schedule, ...] = ("cosine", "linear")
    lengths: tuple[int, ...] = (1000, 3000)
    dtypes: tuple[AdamDtype, ...] = ("float32",)
    power: float = 1.5
    beta1: float = 0.7
    beta2: float = 0.98
    reused: int | None = 16_384
    tolerance: float = 0.0
    device: str = "cpu"

    def __post_init__(self) -> None:
        for name in ("m", "work", "batch"):
            object.__setattr__(self, name, count(name, getattr(self, name)))
        for name in ("learning_rates", "schedules", "lengths", "dtypes"):
            values = getattr(self, name)
            if isinstance(values, str) or not np.iterable(values) or not (several := tuple(values)):
                raise ValueError(f"{name} is {values!r}: a tuple of at least one value is needed.")
            object.__setattr__(self, name, several)
        object.__setattr__(self, "tolerance", non_negative("tolerance", self.tolerance))
        if self.examples is not None:
            object.__setattr__(self, "examples", count("examples", self.examples, least=0))
        self.settings()  # the rest is Adam's to judge

    def settings(self) -> tuple[Adam, ...]:
        """The grid, the short schedules first."""
        return tuple(
            Adam(
                self.m,
                work=length,
                batch=self.batch,
                learning_rate=learning_rate,
                tolerance=self.tolerance,
                schedule=schedule,
                power=self.power,
                beta1=self.beta1,
                beta2=self.beta2,
                dtype=dtype,
                reused=self.reused,
                device=self.device,
            )
            for length, schedule, dtype, learning_rate in product(
                self.lengths, self.schedules, self.dtypes, self.learning_rates
            )
        )

    def minimum_examples(self, k: int, d: int) -> int:
        """Of a fixed set one example to learn from and one to hold out; of fresh ones a batch for each."""
        return 2 * self.batch if self.reused is None else 2

    def fit(
        self,
        oracle: ExampleOracle,
        *,
        rng: Rng = None,
        truth: GroundTruth | None = None,
        progress: Progress | None = None,
    ) -> Fit:
        """Learn a layer of m heads with every setting, and keep the best.

        Raises
        ------
        ValueError
            If the budget is below `minimum_examples`, or the oracle's examples are malformed.
        ImportError
            If PyTorch is not installed.
        """
        recorder = Recorder(oracle, truth=truth, progress=progress)
        rng = random_generator(rng)
        for dtype in self.dtypes:
            to_tensor(
                dtype, self.device
            )  # what is not there fails before the grid and not in the midst of it
        start = random_start(self.m, oracle.d, rng)
        examples = _Examples(self, oracle, check_budget(self, oracle))
        shared_seconds, shared_examples = recorder.seconds, recorder.examples

        runs: list[_Run] = []
        steps_left = self.work
        for number, setting in enumerate(self.settings()):
            steps, batches = examples.next(setting, min(setting.work, steps_left), number, rng)
            if steps == 0:
                break
            meter = _Meter(recorder, _name(setting), shared_seconds, shared_examples)
            outcome, layer, _ = descend(setting, batches, oracle, steps=steps, start=start, tell=meter.tell)
            steps_left -= meter.steps
            error = examples.held_out.error(layer)
            runs.append(_Run(setting, outcome, layer, error, meter.cost()))

        best = min(runs, key=_rank)
        recorder.step(
            f"Best: {_name(best.setting)}",
            layer=best.layer,
            held_out_error=best.error,
            settings=len(runs),
            learning_rate=best.setting.learning_rate,
            grid_seconds=recorder.seconds,
            grid_examples=recorder.examples,
            grid_steps=self.work - steps_left,
            **best.cost,
        )
        return recorder.fit(best.outcome, layer=best.layer)


@dataclass(frozen=True, eq=False)
class _Run:
    setting: Adam
    outcome: Outcome
    layer: AttentionLayer
    error: float
    cost: dict[str, Any]


class _Meter:
    """What one setting costs, had it been the only one; and its steps, written to the trace of the whole grid."""

    def __init__(self, recorder: Recorder, name: str, shared_seconds: float, shared_examples: int) -> None:
        self._recorder, self._name = recorder, name
        self._began = recorder.seconds - shared_seconds
        self._drawn = recorder.examples - shared_examples
        self.steps = 0

    def cost(self) -> dict[str, Any]:
        return {
            "run_seconds": self._recorder.seconds - self._began,
            "run_examples": self._recorder.examples - self._drawn,
            "run_steps": self.steps,
        }

    def tell(self, step: int, layer: Callable[[], AttentionLayer], **errors: Any) -> None:
        self.steps = step
        given = layer() if self._recorder.measuring else None
        self._recorder.step(f"{self._name}: step {step}", layer=given, **errors, **self.cost())


def _rank(run: _Run) -> tuple[bool, float]:
    reached = run.outcome is Outcome.REACHED_TOLERANCE
    return not reached, run.cost["run_steps"] if reached else run.error


class _Examples:
    """One fixed set for all settings, or fresh batches for each, and the examples held out to judge them on."""

    def __init__(self, tuned: TunedAdam, oracle: ExampleOracle, budget: int | None) -> None:
        self._oracle, self._settings, self._batch = oracle, len(tuned.settings()), tuned.batch
        self._left = budget
        self._set: tuple[np.ndarray, np.ndarray] | None = None
        if tuned.reused is not None:
            n = tuned.reused if budget is None else min(tuned.reused, budget)
            self._set, self.held_out = hold_out(*draw_examples(oracle, n))
        else:
            x, y = draw_examples(oracle, tuned.batch)
            self.held_out = HeldOut(x, y, x[:0])
            self._left = None if budget is None else budget - tuned.batch

    def next(self, setting: Adam, steps: int, number: int, rng: np.random.Generator) -> tuple[int, Batches]:
        """The steps the setting may make, and its batches; fresh examples are shared out evenly among settings."""
        convert = to_tensor(setting.dtype, setting.device)
        if self._set is not None:
            return steps, batches_of(
                self._set, self.held_out, size=setting.batch, rng=rng.spawn(1)[0], convert=convert
            )
        if self._left is not None:
            share = max(self._left // (self._settings - number), min(self._left, self._batch))
            steps = min(steps, share // self._batch)
            self._left -= steps * self._batch
        return steps, draw_batches(self._oracle, size=self._batch, reused=None, rng=rng, convert=convert)


def _name(setting: Adam) -> str:
    return f"learning rate {setting.learning_rate:g}, {setting.schedule} over {setting.work} steps, {setting.dtype}"

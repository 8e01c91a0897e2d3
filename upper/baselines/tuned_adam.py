"""Adam tuned: a whole grid of settings on one set of examples, the best kept, and the cost of both counted."""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from typing import Annotated, Any

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
from attention.evaluation import hold_out
from attention.inputs import Rng
from attention.learning import Progress
from attention.validation import (
    NonNegativeFloat,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    Whole,
    checked,
    random_generator,
)
from upper._squared_error import random_start
from upper.baselines.adam import ROUNDING, Adam, AdamDtype, TorchStudent, to_tensor
from upper.baselines.minibatches import Schedule, batches_of, train

__all__ = ["TunedAdam"]

# The best of those tried on nice layers; see `benchmarks.peer_settings`.
_POWER, _BETA1, _BETA2 = 1.5, 0.7, 0.98


@dataclass(frozen=True)
@checked
class TunedAdam:
    """Adam with every setting of a grid, each on its own; the one with the least error on held-out examples is kept.

    Parameters
    ----------
    m : int
        Heads of the student.
    examples : int, optional
        Budget in examples for the whole grid; by default `reused`.
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
        Precisions of the products. bfloat16 ends near 2e-3 on nice layers, where float32 ends below 3e-6 (measured).
    reused : int
        The size of the one fixed set that all settings learn from.
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
    All settings begin at the same random start. `Fit.seconds` and `Fit.examples_used` are those of the whole grid:
    the cost for who does not know the best setting. Each step of the trace also has the ``run_seconds`` and
    ``run_steps`` of its own setting, and the last step those of the best one beside ``grid_seconds`` and
    ``grid_steps``. Drawing the examples counts for every run. The least of several errors on the same held-out
    examples is slightly too good.

    References
    ----------
    Kingma and Ba, arXiv 1412.6980; the grid holds the best settings of those tried here.
    """

    m: PositiveInt
    examples: NonNegativeInt | None = None
    work: PositiveInt = 24_000
    batch: PositiveInt = 192
    learning_rates: tuple[PositiveFloat, ...] = (0.003, 0.005, 0.008)
    schedules: tuple[Schedule, ...] = ("cosine", "linear")
    lengths: tuple[PositiveInt, ...] = (1000, 3000)
    dtypes: tuple[AdamDtype, ...] = ("float32",)
    reused: Annotated[int, Whole(2)] = 16_384
    tolerance: NonNegativeFloat = 0.0
    device: str = "cpu"

    def __post_init__(self) -> None:
        if not self.settings():
            raise ValueError("The grid is empty: at least one rate, schedule, length and dtype are needed.")

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
                power=_POWER,
                beta1=_BETA1,
                beta2=_BETA2,
                dtype=dtype,
                reused=self.reused,
                device=self.device,
            )
            for length, schedule, dtype, learning_rate in product(
                self.lengths, self.schedules, self.dtypes, self.learning_rates
            )
        )

    def minimum_examples(self, k: int, d: int) -> int:
        """One example to learn from and one to hold out."""
        return 2

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
        random = random_generator(rng)
        # what is not there fails before the grid and not in the midst of it
        converters = {dtype: to_tensor(dtype, self.device) for dtype in self.dtypes}
        start = random_start(self.m, oracle.d, random)
        budget = check_budget(self, oracle)
        n = self.reused if budget is None else min(self.reused, budget)
        examples, held_out = hold_out(*draw_examples(oracle, n))
        shared = recorder.seconds

        runs: list[_Run] = []
        left = self.work
        for setting in self.settings():
            if left == 0:
                break
            meter = _Meter(recorder, _name(setting), recorder.seconds - shared)
            steps = min(setting.work, left)
            student = TorchStudent(setting, steps, start)
            batches = batches_of(
                examples,
                held_out,
                size=self.batch,
                rng=random.spawn(1)[0],
                convert=converters[setting.dtype],
            )
            outcome = train(
                student,
                batches,
                oracle,
                steps=steps,
                work=setting.work,
                tolerance=self.tolerance,
                rounding=ROUNDING[setting.dtype],
                tell=meter.tell,
            )
            left -= meter.steps
            layer = student.layer()
            runs.append(_Run(setting, outcome, layer, held_out.error(layer), meter.cost()))

        best = min(runs, key=_rank)
        recorder.step(
            f"Best: {_name(best.setting)}",
            layer=best.layer,
            held_out_error=best.error,
            settings=len(runs),
            learning_rate=best.setting.learning_rate,
            grid_seconds=recorder.seconds,
            grid_steps=self.work - left,
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
    """The cost of one setting, had it been the only one; it writes the setting's steps into the trace of the grid."""

    def __init__(self, recorder: Recorder, name: str, began: float) -> None:
        self._recorder, self._name, self._began = recorder, name, began
        self.steps = 0

    def cost(self) -> dict[str, Any]:
        return {"run_seconds": self._recorder.seconds - self._began, "run_steps": self.steps}

    def tell(self, step: int, layer: Callable[[], AttentionLayer], **errors: Any) -> None:
        self.steps = step
        given = layer() if self._recorder.measuring else None
        self._recorder.step(f"{self._name}: step {step}", layer=given, **errors, **self.cost())


def _rank(run: _Run) -> tuple[bool, float]:
    reached = run.outcome is Outcome.REACHED_TOLERANCE
    return not reached, run.cost["run_steps"] if reached else run.error


def _name(setting: Adam) -> str:
    return f"learning rate {setting.learning_rate:g}, {setting.schedule} over {setting.work} steps, {setting.dtype}"

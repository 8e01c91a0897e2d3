"""Adam on small batches (PyTorch), the usual first choice; with one setting, or the best of a grid of settings."""

from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import product
from typing import Annotated, Any

import numpy as np

from attention import ExampleOracle, Fit, Outcome, Recorder, draw_examples
from attention.evaluation import hold_out
from attention.learning import LearnerBase
from attention.validation import (
    NonNegativeFloat,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    Real,
    Whole,
    checked,
)
from upper.baselines.descent import (
    Descent,
    Schedule,
    Stacked,
    Student,
    batches_of,
    random_start,
    squared_error_gradient,
    train,
)
from upper.engine import has_bfloat16

__all__ = ["Adam", "TunedAdam"]

# The best settings tried on nice layers; see `benchmarks.peer_settings`.
_POWER, _BETA1, _BETA2 = 1.5, 0.7, 0.98


@dataclass(frozen=True)
@checked
class Adam(Descent):
    """Adam on batches of fresh examples, or of a fixed set in repeated passes.

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
    learning_rate : float
        The rate at the start of the schedule, after a warm-up over a fiftieth of it.
    tolerance : float
        Stop when the error is below it; 0 runs to the end. The error is measured on fresh batches before a step on
        them; with `reused`, on the held-out examples.
    schedule : {"cosine", "linear", "constant"}
        How the rate falls over the `work`.
    power : float
        The exponent of the schedule; above 1, more of the steps are small.
    beta1, beta2 : float
        Decay of the means of the gradient and of its square.
    dtype : {"float32", "float64", "bfloat16"}
        Precision of products. With bfloat16, the parameters and Adam's means stay in float32. On nice layers, bfloat16
        ends near 2e-3 and float32 below 3e-6 (measured).
    reused : int, optional
        The size of a fixed set, drawn once; a twentieth is held out, and the rest is shuffled again for every pass. By
        default every batch is fresh.
    device : str
        The device of PyTorch, "cpu" or "cuda".

    Raises
    ------
    ValueError
        If a parameter is out of range, or on `fit` if the budget is below one batch, or the device is not available
        or has no bfloat16.
    ImportError
        On `fit`, without PyTorch (the extra ``torch``).

    Notes
    -----
    Adam solves nice layers too. It needs hundreds of thousands of examples where Newton needs hundreds, or tens of
    passes over thousands of examples; float32 stops it near 2e-7 (measured). The fastest settings found for an error of
    1e-6 are in `benchmarks.peer_settings`. A step takes O(batch k m d (d + 2 k)), half the time of automatic
    differentiation.

    References
    ----------
    Kingma and Ba, arXiv 1412.6980; the default settings are the best of those tried here.
    """

    learning_rate: PositiveFloat = 0.003
    beta1: Annotated[float, Real(least=0, below=1)] = 0.9
    beta2: Annotated[float, Real(least=0, below=1)] = 0.99
    device: str = "cpu"

    def student(self, oracle: ExampleOracle, start: Stacked) -> Student:
        """The parameters, updated by PyTorch's Adam."""
        return _TorchStudent(self, start)

    def converter(self) -> Callable[[np.ndarray], Any]:
        """A converter to tensors on the device; an error if PyTorch, the device or its bfloat16 is missing."""
        if find_spec("torch") is None:
            raise ImportError("Adam needs PyTorch: install it with pip install torch.")
        import torch

        try:
            probe = torch.empty(0, device=self.device)
        except (RuntimeError, AssertionError, NotImplementedError):
            raise ValueError(
                f"device is {self.device!r}, which PyTorch does not find here: use 'cpu', which always is there, or "
                "'cuda' where PyTorch was installed for it and sees a GPU."
            ) from None
        if self.dtype == "bfloat16" and not has_bfloat16(str(probe.device)):
            raise ValueError(
                f"dtype is 'bfloat16', which device {self.device!r} has no arithmetic for: 'float32' is the fastest "
                "there."
            )
        dtype = getattr(torch, self.dtype)

        def convert(array: np.ndarray) -> Any:
            with np.errstate(over="ignore"):  # labels too large for float32 end as a divergence
                narrow = array if self.dtype == "float64" else array.astype(np.float32)
            return torch.from_numpy(np.ascontiguousarray(narrow)).to(device=self.device, dtype=dtype)

        return convert


class _TorchStudent(Student):
    def __init__(self, adam: Adam, start: Stacked) -> None:
        import torch

        self._highest, self._compute = adam.learning_rate, getattr(torch, adam.dtype)
        keep = torch.float32 if adam.dtype == "bfloat16" else self._compute
        self.parameters = [torch.tensor(part, dtype=keep, device=adam.device) for part in start]
        # the fused step takes the rate as a number at every step
        self._optimiser = torch.optim.Adam(
            self.parameters, lr=adam.learning_rate, betas=(adam.beta1, adam.beta2), fused=True
        )

    def step(self, x: Any, y: Any, share: float) -> Any:
        parameters = [part.to(self._compute) for part in self.parameters]
        residual, *gradients = squared_error_gradient(x, y, *parameters)
        for part, gradient in zip(self.parameters, gradients, strict=True):
            part.grad = gradient.to(part.dtype)
        for group in self._optimiser.param_groups:
            group["lr"] = self._highest * share
        self._optimiser.step()
        return residual


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
        If a parameter is out of range or the grid is empty, or on `fit` as for `Adam`.
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
        examples, held_out = hold_out(*draw_examples(oracle, min(self.reused, budget or self.reused)))
        drawn = recorder.seconds

        runs: list[_Run] = []
        left = self.work
        for setting in self.settings():
            if left == 0:
                break
            run = _Run(setting, setting.student(oracle, start), recorder, recorder.seconds - drawn)
            batches = batches_of(examples, held_out, size=self.batch, rng=rng.spawn(1)[0], convert=convert)
            run.outcome = train(
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
            learning_rate=best.setting.learning_rate,
            grid_steps=self.work - left,
            **best.cost,
        )
        return recorder.fit(best.outcome, layer=layer)


class _Run:
    """One setting of a grid: its steps in the trace, its own cost, and its result."""

    outcome: Outcome
    error: float

    def __init__(self, setting: Adam, student: Student, recorder: Recorder, began: float) -> None:
        self.setting, self.student, self._recorder, self._began = setting, student, recorder, began
        self.cost: dict[str, Any] = {}
        self.name = (
            f"learning rate {setting.learning_rate:g}, {setting.schedule} over {setting.work} steps, "
            f"{setting.dtype}"
        )

    def tell(self, step: int, **errors: Any) -> None:
        self.cost = {"run_seconds": self._recorder.seconds - self._began, "run_steps": step}
        layer = self.student.layer() if self._recorder.measuring else None
        self._recorder.step(f"{self.name}: step {step}", layer=layer, **errors, **self.cost)

    def rank(self) -> tuple[bool, float]:
        reached = self.outcome is Outcome.REACHED_TOLERANCE
        return not reached, self.cost["run_steps"] if reached else self.error

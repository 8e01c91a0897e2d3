"""Adam on small batches (PyTorch): what most people would run first."""

from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np

from attention import AttentionLayer, ExampleOracle, Fit, GroundTruth, Recorder, check_budget
from attention.evaluation import EXACT_ERROR
from attention.inputs import Rng
from attention.learning import Progress
from attention.validation import (
    NonNegativeFloat,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    Real,
    Whole,
    checked,
    random_generator,
)
from upper._squared_error import layer_of_stacked, random_start, squared_error_gradient
from upper.baselines.minibatches import Schedule, affordable_steps, draw_batches, rate, train
from upper.engine import has_bfloat16

if TYPE_CHECKING:
    import torch

__all__ = ["ROUNDING", "Adam", "AdamDtype", "TorchStudent", "to_tensor"]

AdamDtype = Literal["float32", "float64", "bfloat16"]

# a few times the rounding: no schedule gets a layer much below it; errors in bfloat16 are no success
ROUNDING = {"float32": 1e-6, "float64": EXACT_ERROR, "bfloat16": 0.0}


@dataclass(frozen=True)
@checked
class Adam:
    """Adam on batches of fresh examples, or of a fixed set gone through again and again.

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
    learning_rate : float
        The rate at the start of the schedule, after a warm-up over a fiftieth of it.
    tolerance : float
        Stop when the error is below it; 0 runs to the end. The error is that on fresh batches, before they are
        learned from, and with `reused` that on the examples held out.
    schedule : {"cosine", "linear", "constant"}
        How the rate falls over the `work`.
    power : float
        To which the schedule is raised: above 1 more of the steps are small.
    beta1, beta2 : float
        Decay of the means of the gradient and of its square.
    dtype : {"float32", "float64", "bfloat16"}
        Precision of products; in bfloat16 the parameters and their means stay in float32.
    reused : int, optional
        Draw a fixed set of so many examples once, hold a twentieth out, and make the batches of the rest, shuffled
        anew for every pass; by default every batch is fresh.
    device : str
        Where PyTorch computes, "cpu" or "cuda".

    Raises
    ------
    ValueError
        If a parameter is out of range, or on `fit` if the budget is below one batch, the device is not there, or
        has no bfloat16.
    ImportError
        On `fit`, without PyTorch (the extra ``torch``).

    Notes
    -----
    The gradient is in closed form instead of automatic differentiation (half the time), the step PyTorch's fused one.
    Adam solves nice layers too: it needs hundreds of thousands of examples where Newton needs hundreds, or tens of
    passes over thousands, and float32 stops it near 2e-7 (measured). Drawing examples takes up to half the time of a
    fresh step. The fastest settings found to 1e-6 are in `benchmarks.peer_settings`. A step takes
    O(batch k m d (d + 2 k)).

    References
    ----------
    Kingma and Ba, arXiv 1412.6980; the settings are the best of those tried here.
    """

    m: PositiveInt
    examples: NonNegativeInt | None = None
    work: PositiveInt = 3000
    batch: PositiveInt = 256
    learning_rate: PositiveFloat = 0.003
    tolerance: NonNegativeFloat = 0.0
    schedule: Schedule = "cosine"
    power: PositiveFloat = 1.0
    beta1: Annotated[float, Real(least=0, below=1)] = 0.9
    beta2: Annotated[float, Real(least=0, below=1)] = 0.99
    dtype: AdamDtype = "float32"
    reused: Annotated[int, Whole(2)] | None = None
    device: str = "cpu"

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
        ImportError
            If PyTorch is not installed.
        """
        recorder = Recorder(oracle, truth=truth, progress=progress)
        budget = check_budget(self, oracle)
        random = random_generator(rng)
        convert = to_tensor(self.dtype, self.device)
        steps = affordable_steps(self, budget)
        student = TorchStudent(self, steps, random_start(self.m, oracle.d, random))
        batches = draw_batches(
            oracle, size=self.batch, reused=self.reused, rng=random, convert=convert, budget=budget
        )

        def tell(step: int, layer: Callable[[], AttentionLayer], **errors: Any) -> None:
            recorder.step(f"Step {step}", layer=layer() if recorder.measuring else None, **errors)

        outcome = train(
            student,
            batches,
            oracle,
            steps=steps,
            work=self.work,
            tolerance=self.tolerance,
            rounding=ROUNDING[self.dtype],
            tell=tell,
        )
        return recorder.fit(outcome, layer=student.layer())


class TorchStudent:
    """The parameters as tensors, under PyTorch's Adam.

    Parameters
    ----------
    adam : Adam
        The settings.
    steps : int
        The length of the schedule.
    start : tuple of array
        Theta (d, m d) and W (m d, d), stacked.
    """

    def __init__(self, adam: Adam, steps: int, start: tuple[np.ndarray, np.ndarray]) -> None:
        import torch

        self._adam, self._steps = adam, steps
        self._compute = getattr(torch, adam.dtype)
        keep = torch.float32 if adam.dtype == "bfloat16" else self._compute
        self._parameters = [torch.tensor(part, dtype=keep, device=adam.device) for part in start]
        # the fused step takes the rate as a number of every step
        self._optimiser = torch.optim.Adam(
            self._parameters, lr=adam.learning_rate, betas=(adam.beta1, adam.beta2), fused=True
        )

    def step(self, x: Any, y: Any, number: int) -> Any:
        """Take a step, counted from 0, on a batch; return the residual before it."""
        adam = self._adam
        residual, *gradients = squared_error_gradient(
            x, y, *(part.to(self._compute) for part in self._parameters)
        )
        for part, gradient in zip(self._parameters, gradients, strict=True):
            part.grad = gradient.to(part.dtype)
        for group in self._optimiser.param_groups:
            group["lr"] = adam.learning_rate * rate(adam.schedule, number, self._steps, adam.power)
        self._optimiser.step()
        return residual

    def finite(self) -> bool:
        """Whether all parameters are finite."""
        return all(bool(part.isfinite().all()) for part in self._parameters)

    def reset(self) -> None:
        """Set all parameters to zero."""
        for part in self._parameters:
            part.zero_()

    def layer(self) -> AttentionLayer:
        """The layer of now, in NumPy and float64."""
        return layer_of_stacked(*self._parameters)


def to_tensor(dtype: AdamDtype, device: str) -> Callable[[np.ndarray], "torch.Tensor"]:
    """The function that brings arrays to the device in the dtype.

    Raises
    ------
    ValueError
        If the device is not there, or has no bfloat16.
    ImportError
        If PyTorch is not installed.
    """
    if find_spec("torch") is None:
        raise ImportError("Adam needs PyTorch: install the extra, pip install 'attention-bounds[torch]'.")
    import torch

    try:
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError, NotImplementedError):
        raise ValueError(
            f"device is {device!r}, which PyTorch does not find here: use 'cpu', which always is there, or 'cuda' "
            "where PyTorch was installed for it and sees a GPU."
        ) from None
    if dtype == "bfloat16" and not has_bfloat16(str(torch.empty(0, device=device).device)):
        raise ValueError(
            f"dtype is 'bfloat16', which device {device!r} has no arithmetic for: 'float32' is the fastest there."
        )

    def convert(array: np.ndarray) -> Any:
        with np.errstate(over="ignore"):  # labels beyond float32 end as a divergence, not as a warning
            narrow = array if dtype == "float64" else array.astype(np.float32)
        return torch.from_numpy(np.ascontiguousarray(narrow)).to(device=device, dtype=getattr(torch, dtype))

    return convert

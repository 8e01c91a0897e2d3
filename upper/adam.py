"""Adam on small batches (PyTorch): what most people would run first."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from attention import AttentionLayer, ExampleOracle, Fit, GroundTruth, Outcome, Recorder, check_budget
from attention.evaluation import EXACT_ERROR, verdict
from attention.inputs import Rng
from attention.learning import Progress
from attention.validation import count, non_negative, random_generator
from upper._minibatches import Batches, RunningError, Schedule, draw_batches, ended, rate, require_schedule
from upper._squared_error import layer_of_stacked, random_start, squared_error_gradient
from upper.engine import has_bfloat16

if TYPE_CHECKING:
    import torch

__all__ = ["Adam", "AdamDtype", "descend", "to_tensor"]

AdamDtype = Literal["float32", "float64", "bfloat16"]

# in steps: often enough for a curve, seldom enough to cost nothing
_LOOK_EVERY = 50
# a few times the rounding: no schedule gets a layer much below it; bfloat16 has no floor worth the name of success
_FLOORS = {"float32": 1e-6, "float64": EXACT_ERROR, "bfloat16": 0.0}


@dataclass(frozen=True)
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
    A gradient in closed form instead of automatic differentiation (half the time), and PyTorch's fused step. It
    solves nice layers too: it needs hundreds of thousands of examples where Newton needs hundreds, or tens of
    passes over thousands, and float32 stops it near 2e-7 (measured). A reused set saves the drawing of examples,
    which takes up to half the time of a fresh step. On nice layers the fastest found to 1e-6 are beta1 = .7,
    beta2 = .98, power = 1.5, rates .004 to .005, 16384 reused examples and (work, batch) of (1000, 512) for
    (m, k, d) = (2, 2, 32), (850, 128) for (4, 4, 32), (1000, 192) for (8, 4, 32); beta1 = .8 with (2000, 256) for
    (4, 4, 64) and (1200, 192) for (8, 8, 64). A step takes O(batch k m d (d + 2 k)).

    References
    ----------
    Kingma and Ba, arXiv 1412.6980; the settings are the best of those tried here.
    """

    m: int
    examples: int | None = None
    work: int = 3000
    batch: int = 256
    learning_rate: float = 0.003
    tolerance: float = 0.0
    schedule: Schedule = "cosine"
    power: float = 1.0
    beta1: float = 0.9
    beta2: float = 0.99
    dtype: AdamDtype = "float32"
    reused: int | None = None
    device: str = "cpu"

    def __post_init__(self) -> None:
        for name in ("m", "work", "batch"):
            object.__setattr__(self, name, count(name, getattr(self, name)))
        for name, least in (("examples", 0), ("reused", 2)):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, count(name, getattr(self, name), least=least))
        object.__setattr__(
            self, "learning_rate", non_negative("learning_rate", self.learning_rate, strictly=True)
        )
        object.__setattr__(self, "tolerance", non_negative("tolerance", self.tolerance))
        require_schedule(self.schedule)
        object.__setattr__(self, "power", non_negative("power", self.power, strictly=True))
        for name in ("beta1", "beta2"):
            object.__setattr__(self, name, non_negative(name, getattr(self, name)))
            if getattr(self, name) >= 1:
                raise ValueError(
                    f"{name} is {getattr(self, name)}: a number of at least 0 and below 1 is needed."
                )
        if not isinstance(self.dtype, str) or self.dtype not in _FLOORS:
            raise ValueError(f"dtype is {self.dtype!r}: one of {', '.join(map(repr, _FLOORS))} is needed.")
        if not isinstance(self.device, str) or not self.device:
            raise ValueError(
                f"device is {self.device!r}: the name of one is needed, such as 'cpu' or 'cuda'."
            )

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
        start_rng = random_generator(rng)
        convert = to_tensor(self.dtype, self.device)
        steps = self.work
        if self.reused is None and budget is not None:
            steps = min(steps, budget // self.batch)
        start = random_start(self.m, oracle.d, start_rng)
        batches = draw_batches(
            oracle, size=self.batch, reused=self.reused, rng=start_rng, convert=convert, budget=budget
        )

        def tell(step: int, layer: Callable[[], AttentionLayer], **errors: Any) -> None:
            recorder.step(f"Step {step}", layer=layer() if recorder.measuring else None, **errors)

        outcome, layer, _ = descend(self, batches, oracle, steps=steps, start=start, tell=tell)
        return recorder.fit(outcome, layer=layer)


def descend(
    adam: Adam,
    batches: Batches,
    oracle: ExampleOracle,
    *,
    steps: int,
    start: tuple[np.ndarray, np.ndarray],
    tell: Callable[..., None],
) -> tuple[Outcome, AttentionLayer, float]:
    """Adam's steps on given batches: how they ended, the layer, and its error on what was not learned from.

    Parameters
    ----------
    adam : Adam
        The settings.
    batches : Batches
        Of tensors, as `to_tensor` makes them.
    oracle : ExampleOracle
        Where the batches come from.
    steps : int
        At most so many; the length of the schedule.
    start : tuple of array
        Theta (d, m d) and W (m d, d), stacked.
    tell : callable
        Called at every look with the step, a function that gives the layer, and the errors.
    """
    import torch

    compute = getattr(torch, adam.dtype)
    keep = torch.float32 if compute == torch.bfloat16 else compute
    theta, w = (torch.tensor(part, dtype=keep, device=adam.device) for part in start)
    # the fused step takes the rate as a number of every step
    optimizer = torch.optim.Adam(
        [theta, w], lr=adam.learning_rate, betas=(adam.beta1, adam.beta2), fused=True
    )
    outcome, running, error, seen = None, RunningError(), 0.0, 0.0
    for step in range(1, steps + 1):
        x, y = batches.next()
        running.add(_descend(x, y, theta, w, compute), y)
        for group in optimizer.param_groups:
            group["lr"] = adam.learning_rate * rate(adam.schedule, step - 1, steps, adam.power)
        optimizer.step()
        if step % _LOOK_EVERY == 0 or step == steps:
            error = seen = running.pop()
            if not (math.isfinite(seen) and bool(theta.isfinite().all()) and bool(w.isfinite().all())):
                outcome, error = Outcome.DIVERGED, math.inf
                theta.zero_(), w.zero_()  # what is left of the parameters predicts nothing
            held_out: dict[str, float] = {}
            if outcome is None and batches.held_out is not None:
                error = batches.held_out.error(layer_of_stacked(theta, w))
                held_out = {"held_out_error": error}
            name = "fresh_error" if batches.held_out is None else "batch_error"
            tell(step, lambda: layer_of_stacked(theta, w), **{name: seen}, **held_out)
            if outcome is not None or error <= adam.tolerance:
                break
    if outcome is None:
        outcome = verdict(
            fitted=error if error <= adam.tolerance else seen,
            held_out=error,
            evidence=batches.evidence,
            otherwise=ended(work_spent=steps == adam.work, batches=batches, oracle=oracle),
            tolerance=adam.tolerance,
            rounding=_FLOORS[adam.dtype],
        )
    return outcome, layer_of_stacked(theta, w), error


def to_tensor(dtype: AdamDtype, device: str) -> Callable[[np.ndarray], "torch.Tensor"]:
    """What brings arrays to the device in the dtype.

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


def _descend(
    x: "torch.Tensor", y: "torch.Tensor", theta: "torch.Tensor", w: "torch.Tensor", compute: Any
) -> "torch.Tensor":
    """Leave the gradients of half the mean squared error in `theta` and `w`; return the batch's residual."""
    residual, *gradients = squared_error_gradient(x, y, theta.to(compute), w.to(compute))
    theta.grad, w.grad = (gradient.to(theta.dtype) for gradient in gradients)
    return residual

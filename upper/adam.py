"""Adam on fresh examples (PyTorch): what most people would run first."""

import math
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

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
from attention._arrays import count, non_negative
from attention.inputs import Rng
from attention.learning import Progress
from upper.jacobian import HeadJacobian
from upper.stacked import read_tokens, stack_projections

if TYPE_CHECKING:
    import torch

__all__ = ["Adam"]

# in steps: often enough for a curve, seldom enough to cost nothing
_LOOK_EVERY = 50
# a few times the rounding of float32: no schedule gets a float32 layer much below it
_FLOOR = 1e-6


@dataclass(frozen=True)
class Adam:
    """Adam with a cosine schedule on batches of fresh examples, in float32.

    Parameters
    ----------
    m : int
        Heads of the student.
    examples : int, optional
        Budget in examples; by default none beyond `work`.
    work : int
        Budget in steps, each a pass over one batch; also the length of the cosine schedule.
    batch : int
        Fresh examples a step.
    learning_rate : float
        The rate at the start of the schedule, after a warm-up over a fiftieth of it.
    tolerance : float
        Stop when the error on fresh batches, before they are learned from, is below it; 0 runs to the end.

    Raises
    ------
    ValueError
        If a parameter is out of range, or on `fit` if the budget is below one batch.
    ImportError
        On `fit`, without PyTorch (the extra ``torch``).

    Notes
    -----
    A gradient in closed form instead of automatic differentiation (half the time), with beta2 = .99. It solves nice
    layers too: it needs hundreds of thousands of examples where Newton needs hundreds, and float32 stops it
    near 2e-7 (measured).

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

    def __post_init__(self) -> None:
        for name in ("m", "work", "batch"):
            object.__setattr__(self, name, count(name, getattr(self, name)))
        if self.examples is not None:
            object.__setattr__(self, "examples", count("examples", self.examples, least=0))
        object.__setattr__(
            self, "learning_rate", non_negative("learning_rate", self.learning_rate, strictly=True)
        )
        object.__setattr__(self, "tolerance", non_negative("tolerance", self.tolerance))

    def minimum_examples(self, k: int, d: int) -> int:
        """One batch."""
        return self.batch

    def fit(
        self,
        oracle: ExampleOracle,
        *,
        rng: Rng = None,
        truth: GroundTruth | None = None,
        progress: Progress | None = None,
    ) -> Fit:
        """Learn a layer of m heads from fresh batches.

        Raises
        ------
        ValueError
            If the budget is below one batch, or the oracle's examples are malformed.
        ImportError
            If PyTorch is not installed.
        """
        if find_spec("torch") is None:
            raise ImportError("Adam needs PyTorch: install the extra, pip install 'attention-bounds[torch]'.")
        import torch

        recorder = Recorder(oracle, truth=truth, progress=progress)
        budget = check_budget(self, oracle)
        steps = self.work if budget is None else min(self.work, budget // self.batch)
        theta, w = (torch.from_numpy(start) for start in self._start(oracle.d, np.random.default_rng(rng)))
        optimizer = torch.optim.Adam([theta, w], lr=self.learning_rate, betas=(0.9, 0.99))
        schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, _cosine_with_warm_up(steps))

        outcome, running, last = None, _RunningError(), 0.0
        for step in range(1, steps + 1):
            x, y = draw_examples(oracle, self.batch)
            running.add(_descend(_tensor(x), _tensor(y), theta, w), float(np.vdot(y, y)))
            optimizer.step()
            schedule.step()
            if step % _LOOK_EVERY == 0 or step == steps:
                last = running.pop()
                if not (math.isfinite(last) and theta.isfinite().all() and w.isfinite().all()):
                    outcome = Outcome.DIVERGED
                    theta.zero_(), w.zero_()  # what is left of the parameters predicts nothing
                elif last <= self.tolerance:
                    outcome = Outcome.REACHED_TOLERANCE
                recorder.step(
                    f"Step {step}", layer=_layer(theta, w) if recorder.measuring else None, fresh_error=last
                )
                if outcome is not None:
                    break
        if outcome is None:
            outcome = self._ending(oracle, steps, last)
        return recorder.fit(outcome, layer=_layer(theta, w))

    def _start(self, d: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        shape = (self.m, d, d)
        theta = rng.standard_normal(shape) / d
        return theta.astype(np.float32), (rng.standard_normal(shape) * (0.1 / np.sqrt(d))).astype(np.float32)

    def _ending(self, oracle: ExampleOracle, steps: int, error: float) -> Outcome:
        if error < _FLOOR:
            return Outcome.PRECISION_FLOOR
        if steps == self.work:
            return Outcome.WORK_SPENT
        ran_out = oracle.remaining is not None and oracle.remaining < self.batch
        return Outcome.EXAMPLES_RAN_OUT if ran_out else Outcome.EXAMPLES_SPENT


class _RunningError:
    """The relative error over the batches since the last look, each measured before it was learned from."""

    def __init__(self) -> None:
        self._error = self._energy = 0.0

    def add(self, error: float, energy: float) -> None:
        self._error += error
        self._energy += energy

    def pop(self) -> float:
        ratio = math.sqrt(self._error / self._energy) if self._energy > 0 else math.sqrt(self._error)
        self._error = self._energy = 0.0
        return ratio


def _descend(x: "torch.Tensor", y: "torch.Tensor", theta: "torch.Tensor", w: "torch.Tensor") -> float:
    """Leave the gradients of half the mean squared error in `theta` and `w`; return the batch's squared error."""
    pattern, read = read_tokens(x, theta)
    residual = (read @ stack_projections(w)).reshape(y.shape) - y
    per_example = residual / len(x)
    theta.grad = HeadJacobian.at(x, pattern, w).transpose_times(per_example).contiguous()
    w.grad = (read.T @ per_example.reshape(len(read), -1)).reshape(w.shape)
    return float((residual.double() ** 2).sum())


def _cosine_with_warm_up(steps: int) -> Any:
    warm = max(1, steps // 50)
    return lambda step: min((step + 1) / warm, 1.0) * 0.5 * (1 + math.cos(math.pi * min(step, steps) / steps))


def _tensor(array: np.ndarray) -> "torch.Tensor":
    import torch

    with np.errstate(over="ignore"):  # labels beyond float32 end as a divergence, not as a warning
        return torch.from_numpy(array.astype(np.float32))


def _layer(theta: "torch.Tensor", w: "torch.Tensor") -> AttentionLayer:
    return AttentionLayer(theta=theta.double().numpy().copy(), w=w.double().numpy().copy())

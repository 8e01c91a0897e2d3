"""Gradient descent on small batches, by momentum, Adam, Muon or SOAP: the usual first choice."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Annotated, Any, Literal

import numpy as np

from attention import ExampleOracle, Fit, Outcome, Recorder
from attention.evaluation import EXACT_ERROR, HeldOut, verdict
from attention.learning import LearnerBase, draw_and_hold_out
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
    Schedule,
    eliminated_gradient,
    fresh_batches,
    layer_of_stacked,
    random_start,
    rate,
    reused_batches,
    squared_error_gradient,
)
from upper.engine import has_bfloat16

Dtype = Literal["float32", "float64", "bfloat16"]
OptimizerName = Literal["adam", "muon", "sgd", "soap"]

_RATES: dict[OptimizerName, float] = {"adam": 0.003, "muon": 0.01, "soap": 0.003}
# A few times the rounding error; no schedule gets much below it. Errors in bfloat16 are no success.
_ROUNDING = {"float64": EXACT_ERROR, "float32": 1e-6, "bfloat16": 0.0}


@dataclass(frozen=True)
class _Watching:
    """How a fit is watched."""

    every: int = 50  #: steps between records: enough for a curve, at negligible cost
    #: a held-out error below this share of the one at the record before is still falling
    still_falling: float = 0.98
    diverged: float = 1e6  #: predicting zero has the error 1


_WATCHING = _Watching()


@dataclass(frozen=True)
@checked
class GradientDescent(LearnerBase):
    """Gradient descent on batches of fresh examples, or of a fixed set in repeated passes.

    Parameters
    ----------
    heads : int
        Heads of the student.
    examples : int, optional
        Budget in examples; by default only `work` limits them.
    work : int
        Budget in steps, each a pass over one batch; also the length of the schedule.
    batch : int
        Examples per step.
    optimizer : {"adam", "muon", "sgd", "soap"}
        What makes a step of the gradient: the optimizers of PyTorch and, for SOAP, of pytorch-optimizer, without weight
        decay. SGD has Nesterov's momentum. Muon and SOAP treat every Theta_i and every W_i as a matrix of its own.
    learning_rate : float, optional
        The rate at the start of the schedule, after a warm-up over a fiftieth of it. With 0 the parameters stay at the
        start. The default is .003 for Adam and SOAP and .01 for Muon. For "sgd" the rate is that of the loss of a row
        (half its squared error), and the default 1/d, but at most 1/4, since 1/d can diverge in one to three
        dimensions.
    momentum : float
        The share of the last mean of the gradients in the next, at least 0 and below 1.
    beta2 : float
        The same for the mean of squares, for Adam and SOAP.
    schedule : {"cosine", "linear", "constant"}
        How the rate falls over the `work`.
    power : float
        The exponent of the schedule; above 1, more of the steps are small.
    tolerance : float
        Stop when the error is below it; 0 runs to the end. The error is measured on fresh batches before a step on
        them; with `reused`, on the held-out examples.
    dtype : {"float32", "float64", "bfloat16"}
        Precision of products. With bfloat16, the parameters and the means stay in float32. On nice layers, bfloat16
        ends near 2e-3 and float32 below 3e-6 (measured).
    reused : int, optional
        The size of a fixed set, drawn once; a twentieth is held out, and the rest is shuffled again for every pass. By
        default every batch is fresh.
    device : str
        The device of PyTorch, "cpu" or "cuda".
    eliminates_w : bool
        Solve W by least squares on every batch, and step Theta only, along the gradient at that W. A batch has more
        than m d rows, and twice as many are better.

    Raises
    ------
    ValueError
        If a parameter is out of range, or W is to be eliminated in bfloat16. On `fit`, if the budget is below one
        batch, if a batch is too small to eliminate W, or if the device is not available or has no bfloat16.
    ImportError
        On `fit`, without PyTorch, or without pytorch-optimizer for SOAP (both in the extra ``torch``).

    Notes
    -----
    Every optimizer solves nice layers too. It needs hundreds of thousands of examples where Newton needs hundreds, or
    tens of passes over thousands of examples; float32 stops it near 2e-7 (measured). The fastest settings found for an
    error of 1e-6 are in `benchmarks.peer_settings`. The gradient takes O(batch k m d (d + 2 k)), half the time of
    automatic differentiation; a step of Muon or SOAP another O(m d^3). With W eliminated a step takes another
    O(batch k (m d)^2 + (m d)^3), and "sgd" needs .6 to 1 of its seconds to 1e-6 (measured). The labels are not
    rescaled, so the largest stable rate of "sgd" depends on them.

    References
    ----------
    Sutskever, Martens, Dahl and Hinton, ICML 2013 (momentum in Nesterov's form); Kingma and Ba, arXiv 1412.6980 (Adam);
    Jordan et al., Muon, 2024; Vyas et al., arXiv 2409.11321 (SOAP); Golub and Pereyra, SIAM J. Numer. Anal. 10, 1973
    (variable projection).

    Examples
    --------
    >>> GradientDescent(heads=2, work=2000, batch=64).minimum_examples(tokens=3, dim=8)
    64
    """

    heads: PositiveInt
    examples: NonNegativeInt | None = None
    work: PositiveInt = 3000
    batch: PositiveInt = 256
    optimizer: OptimizerName = "adam"
    learning_rate: NonNegativeFloat | None = None
    momentum: Annotated[float, Real(least=0, below=1)] = 0.9
    beta2: Annotated[float, Real(least=0, below=1)] = 0.99
    schedule: Schedule = "cosine"
    power: PositiveFloat = 1.0
    tolerance: NonNegativeFloat = 0.0
    dtype: Dtype = "float32"
    reused: Annotated[int, Whole(2)] | None = None
    device: str = "cpu"
    eliminates_w: bool = False

    def __post_init__(self) -> None:
        if self.eliminates_w and self.dtype == "bfloat16":
            raise ValueError(
                "dtype is 'bfloat16' and eliminates_w: least squares needs more digits, take 'float32' or 'float64'."
            )

    def minimum_examples(self, tokens: int, dim: int) -> int:
        """One batch; with a fixed set, one example to learn from and one to hold out."""
        return self.batch if self.reused is None else 2

    def _converter(self) -> Callable[[np.ndarray], Any]:
        """A converter of examples to arrays; an error if PyTorch, the device or its bfloat16 is missing."""
        for package in ("torch", "pytorch_optimizer") if self.optimizer == "soap" else ("torch",):
            if find_spec(package) is None:
                name = package.replace("_", "-")
                raise ImportError(f"{self.optimizer!r} needs {name}: install it with pip install {name}.")
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
                array = array if self.dtype == "float64" else array.astype(np.float32)
            return torch.from_numpy(np.ascontiguousarray(array)).to(device=self.device, dtype=dtype)

        return convert

    def _optimizer(self, parameters: list[Any]) -> Any:
        """The optimizer of stacked parameters, which it updates as a whole, or each head as a matrix of its own."""
        import torch

        if self.optimizer == "adam":
            return torch.optim.Adam(parameters, lr=0.0, betas=(self.momentum, self.beta2), fused=True)
        if self.optimizer == "sgd":
            return torch.optim.SGD(parameters, lr=0.0, momentum=self.momentum, nesterov=self.momentum > 0)
        if self.optimizer == "muon":
            return torch.optim.Muon(_heads(parameters), lr=0.0, momentum=self.momentum, weight_decay=0.0)
        from pytorch_optimizer import SOAP

        return SOAP(_heads(parameters), lr=0.0, betas=(self.momentum, self.beta2), weight_decay=0.0)

    def _highest_rate(self, tokens: int, dim: int) -> float:
        if self.optimizer != "sgd":
            return _RATES[self.optimizer] if self.learning_rate is None else self.learning_rate
        # the loss of an example is the sum over its k rows
        return (min(1 / dim, 0.25) if self.learning_rate is None else self.learning_rate) / tokens

    def _step(self, parameters: list[Any], optimizer: Any, x: Any, y: Any) -> Any:
        """Take a step on a batch; return the residual before it."""
        narrow = self.dtype == "bfloat16"
        if self.eliminates_w:
            residual, parameters[1][...], *gradients = eliminated_gradient(x, y, *parameters)
        else:
            residual, *gradients = squared_error_gradient(
                x, y, *([part.bfloat16() for part in parameters] if narrow else parameters)
            )
        if narrow:
            gradients = [gradient.float() for gradient in gradients]
        parts = optimizer.param_groups[0]["params"]
        if parts[0] is not parameters[0]:
            gradients = _heads(gradients)
            # SOAP finds no eigenbases of what is not finite
            if not all(bool(gradient.isfinite().all()) for gradient in gradients):
                for part in parameters:
                    part[...] = math.nan
                return residual
        for part, gradient in zip(parts, gradients, strict=True):
            part.grad = gradient
        optimizer.step()
        return residual

    def _learn(
        self, oracle: ExampleOracle, recorder: Recorder, budget: int | None, rng: np.random.Generator
    ) -> Fit:
        import torch

        rows, unknowns = self.batch * oracle.tokens, self.heads * oracle.dim
        if self.eliminates_w and rows <= unknowns:
            raise ValueError(
                f"batch is {self.batch} and eliminates_w: its {rows} rows are too few for the {unknowns} of W, take "
                f"at least {2 * unknowns // oracle.tokens} examples."
            )
        convert, held_out = self._converter(), None
        affordable = self.work if budget is None or self.reused is not None else budget // self.batch
        steps = min(self.work, affordable)
        wide = torch.float64 if self.dtype == "float64" else torch.float32
        start = random_start(self.heads, oracle.dim, rng)
        parameters = [torch.tensor(part, dtype=wide, device=self.device) for part in start]
        stepped = parameters[:1] if self.eliminates_w else parameters
        optimizer, highest = self._optimizer(stepped), self._highest_rate(oracle.tokens, oracle.dim)
        drawn: list[np.ndarray] = []
        batches: Iterator[tuple[Any, Any]]
        if self.reused is None:
            batches = ((convert(x), convert(y)) for x, y in fresh_batches(oracle, self.batch, drawn))
        else:
            (x, y), held_out = draw_and_hold_out(oracle, min(self.reused, budget or self.reused))
            batches = reused_batches(convert(x), convert(y), self.batch, rng)
        error, before, seen, unit = math.inf, math.inf, 0.0, 0.0
        sums: list[Any] = [
            0.0,
            0.0,
        ]  # squares of residuals and labels; on the device, so that no step waits for it
        for step in range(1, steps + 1):
            x, y = next(batches)
            unit = unit or float(abs(y).max()) or 1.0  # squares of extreme labels over- or underflow
            with np.errstate(over="ignore", invalid="ignore"):  # a divergence is an outcome, not a warning
                for group in optimizer.param_groups:
                    group["lr"] = highest * rate(self.schedule, step - 1, steps, self.power)
                residual = self._step(parameters, optimizer, x, y)
                sums = [
                    total + _squared(part / unit) for total, part in zip(sums, (residual, y), strict=True)
                ]
            if step % _WATCHING.every and step < steps:
                continue
            missed, energy = map(float, sums)
            seen, sums = math.sqrt(missed / energy if energy > 0 else missed), [0.0, 0.0]
            before, error = error, seen
            diverged = not (
                seen < _WATCHING.diverged and all(bool(part.isfinite().all()) for part in parameters)
            )
            if diverged:
                for part in parameters:  # after a divergence, predict zero
                    part[...] = 0.0
            errors: dict[str, Any] = {"fresh_error" if held_out is None else "batch_error": seen}
            if held_out is not None and not diverged:
                error = errors["held_out_error"] = held_out.error(layer_of_stacked(*parameters))
            layer = layer_of_stacked(*parameters) if recorder.measuring else None
            recorder.step(f"Step {step}", layer=layer, engine=f"torch {self.device} {self.dtype}", **errors)
            if diverged:
                return recorder.fit(Outcome.DIVERGED, layer=layer_of_stacked(*parameters))
            if error <= self.tolerance:
                break
        ended = Outcome.WORK_SPENT
        if steps < self.work:
            ran_out = oracle.remaining is not None and oracle.remaining < self.batch
            ended = Outcome.EXAMPLES_RAN_OUT if ran_out else Outcome.EXAMPLES_SPENT
        if held_out is None:  # the last batch is new to the parameters of the step before it
            *earlier, last = drawn
            held_out = HeldOut(last, last, np.concatenate([last[:0], *earlier]))
        judged = verdict(
            fitted=error if error <= self.tolerance else seen,
            held_out=error,
            evidence=held_out.evidence,
            otherwise=ended,
            tolerance=self.tolerance,
            rounding=_ROUNDING[self.dtype],
            converged=error > _WATCHING.still_falling * before,
        )
        return recorder.fit(judged, layer=layer_of_stacked(*parameters))


def _heads(stacked: list[Any]) -> list[Any]:
    """Every Theta_i, and every W_i if W is among the stacked ones, as views."""
    theta, *rest = stacked
    return [*theta.split(len(theta), 1), *(head for w in rest for head in w.split(len(theta), 0))]


def _squared(array: Any) -> Any:
    flat = array.reshape(-1)
    if str(flat.dtype) == "torch.bfloat16":  # sums in bfloat16 are wrong by per cents
        flat = flat.float()
    return flat @ flat

"""Gradient descent on small batches: the gradient in closed form, the batches, and the loop.

Parameters are stacked so that every contraction is one large product: Theta as [Theta_1 ... Theta_m], (d, m d), and
W as the W_i below one another, (m d, d).
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import numpy as np
from jaxtyping import Float, Shaped

from attention import AttentionLayer, ExampleOracle, Fit, Outcome, Recorder, draw_examples
from attention._arrays import namespace, shown, to_numpy
from attention.evaluation import EXACT_ERROR, HeldOut, hold_out, verdict
from attention.layer import read_tokens, require_layer_memory
from attention.learning import LearnerBase, apart
from attention.memory import require_memory
from attention.validation import NonNegativeFloat, NonNegativeInt, PositiveFloat, PositiveInt, Whole

__all__ = [
    "Batches",
    "Descent",
    "Dtype",
    "Schedule",
    "Student",
    "batches_of",
    "layer_of_stacked",
    "random_start",
    "rate",
    "squared_error_gradient",
    "stack_heads",
    "train",
]

Schedule = Literal["cosine", "linear", "constant"]
Dtype = Literal["float32", "float64", "bfloat16"]
Stacked = tuple[Any, Any]

# A few times the rounding error; no schedule gets much below it. Errors in bfloat16 are no success.
_ROUNDING = {"float64": EXACT_ERROR, "float32": 1e-6, "bfloat16": 0.0}
# Steps between records: enough for a curve, at negligible cost.
_LOOK_EVERY = 50
# Predicting zero has the error 1.
_DIVERGED = 1e6
# The most numbers of fresh examples to keep, to detect a domain on which examples repeat.
_REMEMBERED = 1 << 21


def squared_error_gradient(
    x: Shaped[Any, "n k d"],
    y: Shaped[Any, "n k d"],
    theta: Shaped[Any, "d md"],
    w: Shaped[Any, "md d"],
) -> tuple[Shaped[Any, "n*k d"], Shaped[Any, "d md"], Shaped[Any, "md d"]]:
    """The residual F(X) - Y, row by row, and the gradients in Theta and W of half the mean squared error of an example.

    Notes
    -----
    On arrays of any library, in two passes of O(n k m d (d + 2 k)). With P the patterns, R the residual and
    Q = R W_i^T X^T, the gradient in Theta_i is X^T [P * (Q - rowsum(P * Q))] X. Half the time of automatic
    differentiation (measured).
    """
    xp = namespace(x, theta)
    n, k, d = x.shape
    m = theta.shape[1] // d
    pattern, read = read_tokens(x, xp.permute_dims(xp.reshape(theta, (d, m, d)), (1, 0, 2)))
    pattern = xp.reshape(pattern, (n, k * m, k))
    residual = xp.matmul(read, w) - xp.reshape(y, (n * k, d))

    mean = residual / n
    w_gradient = xp.matmul(xp.matrix_transpose(read), mean)
    pulled = xp.reshape(xp.matmul(mean, xp.matrix_transpose(w)), (n, k * m, d))
    pull = pattern * xp.matmul(pulled, xp.matrix_transpose(x))
    pull = pull - pattern * xp.sum(pull, axis=-1, keepdims=True)
    mixed = xp.reshape(xp.matmul(pull, x), (n * k, m * d))
    tokens = xp.reshape(x, (n * k, d))
    return residual, xp.matmul(xp.matrix_transpose(tokens), mixed), w_gradient


def stack_heads(
    theta: Float[np.ndarray, "m d d"], w: Float[np.ndarray, "m d d"]
) -> tuple[Float[np.ndarray, "d md"], Float[np.ndarray, "md d"]]:
    """The parameters of a layer, stacked."""
    m, d, _ = theta.shape
    return theta.transpose(1, 0, 2).reshape(d, m * d), w.reshape(m * d, d)


def layer_of_stacked(theta: Shaped[Any, "d md"], w: Shaped[Any, "md d"]) -> AttentionLayer:
    """The layer of stacked parameters, in NumPy and float64."""
    d = theta.shape[0]
    theta, w = (np.array(to_numpy(part), dtype=np.float64) for part in (theta, w))
    return AttentionLayer(
        theta=np.ascontiguousarray(theta.reshape(d, -1, d).transpose(1, 0, 2)), w=w.reshape(-1, d, d)
    )


def random_start(
    m: int, d: int, rng: np.random.Generator
) -> tuple[Float[np.ndarray, "d md"], Float[np.ndarray, "md d"]]:
    """A random start, stacked: attention of half the strength of nice layers, and small projections."""
    require_layer_memory(m, d, arrays=6)
    theta, w = (apart(rng).standard_normal((m, d, d)) for _ in range(2))
    return stack_heads(theta / d, w * (0.1 / np.sqrt(d)))


class Student:
    """Stacked parameters (NumPy arrays or tensors), and their update by a batch."""

    parameters: list[Any]

    def step(self, x: Any, y: Any, share: float) -> Any:
        """Take a step on a batch at this share of the learning rate; return the residual before it."""
        raise NotImplementedError

    def finite(self) -> bool:
        """Whether all parameters are finite."""
        return all(bool((abs(part) < math.inf).all()) for part in self.parameters)

    def layer(self) -> AttentionLayer:
        """The current layer."""
        return layer_of_stacked(*self.parameters)


@dataclass(frozen=True)
class Descent(LearnerBase):
    """A learner that takes `work` steps on batches of examples; see `upper.Adam` for its settings."""

    m: PositiveInt
    examples: NonNegativeInt | None = None
    work: PositiveInt = 3000
    batch: PositiveInt = 256
    tolerance: NonNegativeFloat = 0.0
    schedule: Schedule = "cosine"
    power: PositiveFloat = 1.0
    dtype: Dtype = "float32"
    reused: Annotated[int, Whole(2)] | None = None

    def minimum_examples(self, k: int, d: int) -> int:
        """One batch; with a fixed set, one example to learn from and one to hold out."""
        return self.batch if self.reused is None else 2

    def student(self, oracle: ExampleOracle, start: Stacked) -> Student:
        """The parameters at the start."""
        raise NotImplementedError

    def converter(self) -> Callable[[np.ndarray], Any]:
        """A function that converts examples to arrays of the student's library and device."""
        raise NotImplementedError

    def _learn(
        self, oracle: ExampleOracle, recorder: Recorder, budget: int | None, rng: np.random.Generator
    ) -> Fit:
        convert = self.converter()
        affordable = self.work if budget is None or self.reused is not None else budget // self.batch
        steps = min(self.work, affordable)
        student = self.student(oracle, random_start(self.m, oracle.d, rng))
        kept = self.batch if self.reused is None else min(self.reused, budget or self.reused)
        require_memory(
            f"{shown(kept)} examples of {oracle.k} tokens in {oracle.d} dimensions at once",
            48 * kept * oracle.k * oracle.d,
            advice="take smaller batches or a smaller fixed set",
        )
        if self.reused is None:
            batches = _fresh_batches(oracle, self.batch, convert)
        else:
            batches = batches_of(
                *hold_out(*draw_examples(oracle, kept)), size=self.batch, rng=rng, convert=convert
            )

        def tell(step: int, **errors: Any) -> None:
            layer = student.layer() if recorder.measuring else None
            recorder.step(f"Step {step}", layer=layer, **errors)

        outcome = train(self, student, batches, oracle, steps=steps, tell=tell)
        return recorder.fit(outcome, layer=student.layer())


@dataclass(frozen=True, eq=False)
class Batches:
    """Batches of `size` examples, fresh or of a fixed set; those of a fixed set never end, and some are held out.

    `evidence` counts, as `HeldOut.evidence` does, the evidence of examples that were not learned from. With a fixed set
    these are the held-out examples. With fresh examples it is the last batch, compared with the first 2^21 numbers of
    the batches before it.
    """

    next: Callable[[], tuple[Any, Any]]
    held_out: HeldOut | None
    size: int
    evidence: Callable[[], int]


def _fresh_batches(oracle: ExampleOracle, size: int, convert: Callable[[np.ndarray], Any]) -> Batches:
    seen: list[np.ndarray] = []

    def fresh() -> tuple[Any, Any]:
        if len(seen) > 1 and len(seen) * seen[0].size > _REMEMBERED:
            seen.pop()
        x, y = draw_examples(oracle, size)
        seen.append(x)
        return convert(x), convert(y)

    def evidence() -> int:
        *before, last = seen
        return HeldOut(last, last, np.concatenate([last[:0], *before])).evidence

    return Batches(fresh, None, size, evidence)


def batches_of(
    fitted: tuple[np.ndarray, np.ndarray],
    held_out: HeldOut,
    *,
    size: int,
    rng: np.random.Generator,
    convert: Callable[[np.ndarray], Any],
) -> Batches:
    """Batches of a fixed set, shuffled again for every pass."""
    x, y = (convert(array) for array in fitted)
    n = len(x)
    size = min(size, n)

    def passes() -> Iterator[tuple[Any, Any]]:
        while True:
            # shuffle a whole pass at once, so that a batch is a slice
            order = rng.permutation(n)
            pass_x, pass_y = (x, y) if size == n else (x[order], y[order])
            for start in range(0, n - size + 1, size):
                yield pass_x[start : start + size], pass_y[start : start + size]

    return Batches(passes().__next__, held_out, size, lambda: held_out.evidence)


def rate(schedule: Schedule, step: int, steps: int, power: float = 1.0) -> float:
    """The share of the learning rate at a step, counted from 0: a warm-up over a fiftieth, then the schedule.

    `power` is the exponent of the schedule.
    """
    warm = min((step + 1) / max(1, steps // 50), 1.0)
    part = min(step, steps) / steps
    if schedule == "cosine":
        return warm * (0.5 * (1 + math.cos(math.pi * part))) ** power
    return warm * (1 - part) ** power if schedule == "linear" else warm


def train(
    learner: Descent,
    student: Student,
    batches: Batches,
    oracle: ExampleOracle,
    *,
    steps: int,
    tell: Callable[..., None],
) -> Outcome:
    """Take steps until the error is below the tolerance, the parameters diverge or the steps are taken.

    `tell` is called at every record with the step and the errors; the student keeps the result.
    """
    running, error, seen = _RunningError(), 0.0, 0.0
    for step in range(1, steps + 1):
        x, y = batches.next()
        with np.errstate(over="ignore", invalid="ignore"):  # a divergence is an outcome, not a warning
            share = rate(learner.schedule, step - 1, steps, learner.power)
            running.add(student.step(x, y, share), y)
        if step % _LOOK_EVERY and step < steps:
            continue
        error = seen = running.pop()
        diverged = not (seen < _DIVERGED and student.finite())
        if diverged:
            for part in student.parameters:  # after a divergence, predict zero
                part[...] = 0.0
        errors = {"fresh_error" if batches.held_out is None else "batch_error": seen}
        if batches.held_out is not None and not diverged:
            error = errors["held_out_error"] = batches.held_out.error(student.layer())
        tell(step, **errors)
        if diverged:
            return Outcome.DIVERGED
        if error <= learner.tolerance:
            break
    if steps == learner.work:
        ended = Outcome.WORK_SPENT
    else:
        ran_out = oracle.remaining is not None and oracle.remaining < batches.size
        ended = Outcome.EXAMPLES_RAN_OUT if ran_out else Outcome.EXAMPLES_SPENT
    return verdict(
        fitted=error if error <= learner.tolerance else seen,
        held_out=error,
        evidence=batches.evidence,
        otherwise=ended,
        tolerance=learner.tolerance,
        rounding=_ROUNDING[learner.dtype],
    )


class _RunningError:
    """The relative error over the batches since the last record, each measured before the step on it."""

    def __init__(self) -> None:
        self._sums: Any = 0.0, 0.0
        self._unit = 0.0

    def add(self, residual: Any, labels: Any) -> None:
        """Add a batch; torch arrays stay on their device, so that only the first step waits for the device."""
        if not self._unit:  # squares of extreme labels over- or underflow
            self._unit = float(abs(labels).max())
        unit = self._unit or 1.0
        error, energy = self._sums
        self._sums = error + _squared(residual / unit), energy + _squared(labels / unit)

    def pop(self) -> float:
        """The error since the last record; start again."""
        error, energy = map(float, self._sums)
        self._sums = 0.0, 0.0
        return math.sqrt(error / energy) if energy > 0 else math.sqrt(error)


def _squared(array: Any) -> Any:
    flat = array.reshape(-1)
    if str(flat.dtype) == "torch.bfloat16":  # sums in bfloat16 are wrong by per cents
        flat = flat.float()
    return flat @ flat

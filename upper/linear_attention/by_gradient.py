"""Linear attention trained by Adam (PyTorch): what the exact regression is compared with, in the same run."""

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import numpy as np
from jaxtyping import Float

from attention._arrays import (
    count,
    non_negative,
    random_generator,
    require_callable,
    require_finite,
    require_flag,
    require_shape,
    shown,
)
from attention.inputs import Rng
from attention.learning import Progress, Step
from attention.memory import require_memory as require_bytes
from attention.metrics import relative_error
from upper.linear_attention.features import feature_count
from upper.linear_attention.model import LinearAttention, make_linear_attention
from upper.linear_attention.regression import regress

__all__ = ["Comparison", "GradientFit", "compare_with_exact", "train_linear_attention"]

_LOOKS = 100  # at the error in the course of a training
_MATCHES = 1e-6  # relative error on fresh inputs; students too small to learn the target stay above 1e-2
_BETAS = (0.9, 0.99)


@dataclass(frozen=True, eq=False)
class GradientFit:
    """What training ended with.

    Attributes
    ----------
    model : LinearAttention
        The trained model.
    curve : tuple of Step
        The relative error on the batch, a hundred times in the course of the training and at its end.
    steps : int
        Steps made.
    seconds : float
        Wall-clock seconds of them.
    """

    model: LinearAttention
    curve: tuple[Step, ...]
    steps: int
    seconds: float

    @property
    def error(self) -> float:
        """The last relative error of the curve."""
        return float(self.curve[-1].measures["relative_error"])


@dataclass(frozen=True)
class Comparison:
    """The exact learner or Adam on one target.

    Attributes
    ----------
    d, heads, examples : int
        Dimension and heads H of the target, and examples both learned from.
    student_heads : int or None
        Heads that Adam was given; None for the regression, which does not ask for them.
    relative_error : float
        On fresh inputs.
    seconds : float
        Wall-clock seconds.
    ratio : float
        Seconds over those of the regression.
    ratio_to_match : float or None
        The same for the first time that the error on the examples was below 1e-6; None where it never was.
    """

    d: int
    heads: int
    examples: int
    student_heads: int | None
    relative_error: float
    seconds: float
    ratio: float
    ratio_to_match: float | None = None

    @property
    def matches(self) -> bool:
        """Whether the error on fresh inputs is below 1e-6."""
        return self.relative_error < _MATCHES

    def __str__(self) -> str:
        if self.student_heads is None:
            return (
                f"Regression, told nothing of the heads: relative error {self.relative_error:.1e} on fresh inputs "
                f"in {self.seconds:.2g} seconds."
            )
        known = "H known" if self.student_heads == self.heads else f"H = {self.heads} not known"
        said = "matches the regression to 1e-6" if self.matches else "does not match the regression to 1e-6"
        head = "head" if self.student_heads == 1 else "heads"
        # of another error: that on the examples may be small where the one on fresh inputs is not
        early = (
            ""
            if self.ratio_to_match is None
            else f"; on the examples it was below 1e-6 after {self.ratio_to_match:.2g} times"
        )
        return (
            f"Adam with {self.student_heads} {head} ({known}) {said}: relative error {self.relative_error:.1e} on "
            f"fresh inputs in {self.ratio:.2g} times its seconds{early}."
        )


def train_linear_attention(
    x: Float[np.ndarray, "N n d"],
    y: Float[np.ndarray, "N p"],
    *,
    heads: int,
    steps: int = 3000,
    learning_rate: float = 0.03,
    batch: int | None = None,
    start_scale: float = 1.0,
    average: bool = False,
    seconds: float | None = None,
    rng: Rng = None,
    progress: Progress | None = None,
) -> GradientFit:
    """Train multi-head linear attention by Adam on given examples.

    Parameters
    ----------
    x : array (N, n, d)
        Sequences of tokens, one a row; the last one is the query.
    y : array (N, p)
        Labels.
    heads : int
        Heads of the student.
    steps : int
        Steps, and the length of the cosine schedule.
    learning_rate : float
        The rate at the start of the schedule, after a warm-up over a fiftieth of it.
    batch : int, optional
        Examples a step, drawn with replacement; by default all of them.
    start_scale : float
        The entries of the first V_h and Q_h are Gaussian of variance start_scale^2/d.
    average : bool
        Whether G is the mean over the tokens.
    seconds : float, optional
        Stop after so many; the schedule then falls with the time if that is shorter.
    rng : optional
        Anything `numpy.random.default_rng` accepts (SPEC 7).
    progress : callable, optional
        Called with every `Step` of the curve.

    Returns
    -------
    GradientFit
        The model and how the error fell.

    Raises
    ------
    ValueError
        If a shape or a parameter is out of range, an entry is not finite, all tokens or all labels are zero, or the
        parameters leave the finite numbers.
    ImportError
        Without PyTorch (the extra ``torch``).

    Notes
    -----
    In float64, on labels and Gram matrices in units of their own size. The Gram matrices are computed once, and the
    gradient is in closed form: a step takes O(B H d (d + p)) for a batch of B. No theorem. Measured: with the
    target's number of heads or more it ends at rounding error like the exact learner, in about a hundred to a
    thousand times the seconds; with fewer it does not.

    References
    ----------
    Kingma and Ba, arXiv 1412.6980; the settings are the best of few tried here.
    """
    require_shape("x", x, ("N", "n", "d"))
    require_shape("y", y, (len(x), "p"))
    heads, steps = count("heads", heads), count("steps", steps)
    require_flag("average", average)
    if progress is not None:
        require_callable("progress", progress)
    require_bytes(
        f"A model of {shown(heads)} heads in {x.shape[-1]} dimensions",
        80 * heads * x.shape[-1] * (x.shape[-1] + y.shape[-1]),
        advice="take fewer heads",
    )
    learning_rate = non_negative("learning_rate", learning_rate, strictly=True)
    start_scale = non_negative("start_scale", start_scale, strictly=True)
    batch = None if batch is None else min(count("batch", batch), len(x))
    seconds = math.inf if seconds is None else non_negative("seconds", seconds, strictly=True)
    for name, array in (("x", x), ("y", y)):
        require_finite(name, array)
        if not np.any(array):
            raise ValueError(
                f"{name} is zero everywhere: there is nothing to learn from, other examples are needed."
            )
    torch = _torch()
    began = time.perf_counter()
    generator = random_generator(rng)
    start = make_linear_attention(heads=heads, dim=x.shape[2], outputs=y.shape[1], rng=generator)
    # (N, d, d) and (N, d): all that a step needs of the sequences
    x, y = np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64)
    with np.errstate(over="ignore", invalid="ignore"):  # what overflows is refused below
        gram = np.matmul(x.transpose(0, 2, 1), x) / (x.shape[1] if average else 1)
    gram_unit, label_unit = float(np.trace(gram, axis1=1, axis2=2).mean()) / x.shape[2], _size(y)
    if not gram_unit > 0 or not math.isfinite(gram_unit):
        raise ValueError(
            f"x has entries of up to {float(np.abs(x).max()):.3g}, whose products under- or overflow: scale x, numbers "
            "near 1 are needed."
        )
    data = tuple(torch.from_numpy(np.array(part)) for part in (gram / gram_unit, x[:, -1], y / label_unit))
    v, q = (torch.from_numpy(start_scale * part) for part in (start.v, start.q))
    optimizer = torch.optim.Adam([v, q], lr=learning_rate, betas=_BETAS, fused=True)

    def model() -> LinearAttention:
        return LinearAttention(v.numpy() * (label_unit / gram_unit), q.numpy().copy(), average)

    curve: list[Step] = []
    look_every, step = max(1, steps // _LOOKS), 0
    for step in range(1, steps + 1):
        part: tuple[Any, ...] = data
        if batch is not None and batch < len(x):
            chosen = torch.from_numpy(generator.integers(len(x), size=batch))
            part = tuple(one[chosen] for one in data)
        error, v.grad, q.grad = _gradient(torch, v, q, *part)
        elapsed = time.perf_counter() - began
        for group in optimizer.param_groups:
            group["lr"] = learning_rate * _share(max((step - 1) / steps, elapsed / seconds))
        optimizer.step()
        ended = step == steps or elapsed > seconds
        if ended or step % look_every == 0:
            seen = float(error)
            if not (math.isfinite(seen) and bool(v.isfinite().all()) and bool(q.isfinite().all())):
                raise ValueError(
                    f"The parameters left the finite numbers by step {step}: lower the learning rate, which is "
                    f"{learning_rate:g}, or the scale of the start, which is {start_scale:g}."
                )
            curve.append(Step(f"Step {step}", len(x), elapsed, {"relative_error": seen}))
            if progress is not None:
                progress(curve[-1])
        if ended:
            break
    return GradientFit(model(), tuple(curve), step, time.perf_counter() - began)


def compare_with_exact(
    *,
    d: int,
    heads: int,
    n: int = 10,
    student_heads: Sequence[int] | None = None,
    examples: int | None = None,
    steps: int = 3000,
    learning_rate: float = 0.03,
    starts: int = 3,
    fresh: int = 2000,
    rng: Rng = None,
    progress: Progress | None = None,
) -> list[Comparison]:
    """The exact regression and Adam with several numbers of heads, on one random target and the same examples.

    Parameters
    ----------
    d, heads : int
        Dimension and heads H of the target, which has d outputs.
    n : int
        Gaussian tokens a sequence.
    student_heads : sequence of int, optional
        Heads that Adam is given; by default H, 2 H and, where there is one, H - 1.
    examples : int, optional
        Examples to learn from; by default 4 D.
    steps, learning_rate
        As in `train_linear_attention`.
    starts : int
        Random starts that Adam is given at most: it stops at the first one that brings the error on the examples below
        1e-6, and its best model counts. The seconds are those of all it needed.
    fresh : int
        Inputs to measure the errors on.
    rng : optional
        Anything `numpy.random.default_rng` accepts (SPEC 7).
    progress : callable, optional
        Called with every step of Adam's curves.

    Returns
    -------
    list of Comparison
        The regression first, then Adam with each number of heads; printed, each is a sentence.

    Raises
    ------
    ValueError
        If a number is out of range, or there are fewer examples than features.
    ImportError
        Without PyTorch (the extra ``torch``).

    Notes
    -----
    All in one process, one after the other, so that the seconds compare; the target is planted, so that fewer heads
    than H cannot express it in general. With H known, one start may end in a local minimum: 3 of 6 did at d = 3, H = 2,
    at the same errors after 3000 and after 15000 steps, and none of 6 at d = 4, H = 2 (measured).

    References
    ----------
    Derived here.
    """
    d, heads = count("d", d), count("heads", heads)
    n, fresh, starts = count("n", n), count("fresh", fresh), count("starts", starts)
    examples = 4 * feature_count(d) if examples is None else count("examples", examples)
    if student_heads is not None and (isinstance(student_heads, str) or np.ndim(student_heads) != 1):
        raise ValueError(f"student_heads is {shown(student_heads)}: a list of whole numbers is needed.")
    if progress is not None:
        require_callable("progress", progress)
    require_bytes(
        f"{shown(examples)} examples of {shown(n)} tokens in {shown(d)} dimensions and {shown(fresh)} fresh ones",
        24 * (examples + fresh) * n * d,
        advice="take fewer",
    )
    given = [heads, 2 * heads, heads - 1] if student_heads is None else [*student_heads]
    students = [count("student_heads", number) for number in given if student_heads is not None or number > 0]
    _torch()  # that it is missing is said before the work, and importing it is not timed
    generator = random_generator(rng)
    target = make_linear_attention(heads=heads, dim=d, rng=generator)
    x, x_fresh = (generator.standard_normal((size, n, d)) for size in (examples, fresh))
    y, y_fresh = target(x), target(x_fresh)

    # both once before the clock runs: the first call of either library is slower
    regress(x[:1], y[:1], least_norm=True)
    train_linear_attention(x[:2], y[:2], heads=1, steps=2, rng=0)
    began = time.perf_counter()
    regression = regress(x, y)
    exact = time.perf_counter() - began
    error = relative_error(regression(x_fresh), y_fresh)
    rows = [Comparison(d, heads, examples, None, error, exact, 1.0, 1.0)]
    for student in students:
        best, spent, matched = None, 0.0, None
        for _ in range(starts):
            fit = train_linear_attention(
                x,
                y,
                heads=student,
                steps=steps,
                learning_rate=learning_rate,
                rng=generator,
                progress=progress,
            )
            early = [step.seconds for step in fit.curve if step.measures["relative_error"] < _MATCHES]
            matched = (spent + early[0]) / exact if early else None
            spent += fit.seconds
            best = fit if best is None or fit.error < best.error else best
            if matched is not None:
                break
        assert best is not None
        error = relative_error(best.model(x_fresh), y_fresh)
        rows.append(Comparison(d, heads, examples, student, error, spent, spent / exact, matched))
    return rows


def _gradient(torch: Any, v: Any, q: Any, gram: Any, z: Any, y: Any) -> tuple[Any, Any, Any]:
    """The relative error (labels have mean square 1) and the gradients of half the mean squared error."""
    heads, outputs, d = v.shape
    size = len(z)
    asked = torch.matmul(z, q.reshape(heads * d, d).T).reshape(size, heads, d)  # Q_h z
    read = torch.matmul(asked, gram)  # G Q_h z, as G is symmetric
    wrong = torch.matmul(read.reshape(size, heads * d), v.transpose(1, 2).reshape(heads * d, outputs)) - y
    error = wrong.square().mean().sqrt()
    wrong = wrong / (size * outputs)
    v_gradient = (
        torch.matmul(wrong.T, read.reshape(size, heads * d)).reshape(outputs, heads, d).transpose(0, 1)
    )
    back = torch.matmul(wrong, v.transpose(0, 1).reshape(outputs, heads * d)).reshape(size, heads, d)
    q_gradient = torch.matmul(torch.matmul(back, gram).reshape(size, heads * d).T, z).reshape(heads, d, d)
    return error, v_gradient.contiguous(), q_gradient


def _share(done: float) -> float:
    """Of the learning rate: a warm-up over a fiftieth, then half a cosine."""
    return min(1.0, 50 * done + 0.02) * 0.5 * (1 + math.cos(math.pi * min(1.0, done)))


def _size(y: np.ndarray) -> float:
    """Root mean square."""
    return float(np.sqrt(np.mean(np.square(y))))


def _torch() -> Any:
    if find_spec("torch") is None:
        raise ImportError("Adam needs PyTorch: install the extra, pip install 'attention-bounds[torch]'.")
    import torch

    return torch

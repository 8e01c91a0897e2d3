"""Linear attention trained by Adam (PyTorch), for comparison with the exact regression."""

import math
import time
from importlib.util import find_spec
from typing import Any

import numpy as np
from jaxtyping import Float

from attention import Fit, Outcome, Step
from attention.inputs import Rng
from attention.validation import PositiveFloat, PositiveInt, checked
from upper.baselines.descent import rate
from upper.linear_attention.features import gram_matrix
from upper.linear_attention.model import LinearAttention, make_linear_attention


@checked
def train_linear_attention(
    x: Float[np.ndarray, "N n d"],
    y: Float[np.ndarray, "N p"],
    *,
    heads: PositiveInt,
    steps: PositiveInt = 3000,
    learning_rate: PositiveFloat = 0.03,
    average: bool = False,
    rng: Rng = None,
) -> Fit:
    """Train multi-head linear attention by Adam on given examples, all of them at each step.

    Parameters
    ----------
    x : array (N, n, d)
        Sequences of tokens, one per row; the last token is the query.
    y : array (N, p)
        Labels.
    heads : int
        The number of heads of the student.
    steps : int
        The number of steps, and the length of the cosine schedule.
    learning_rate : float
        The rate at the start of the schedule, after a warm-up over a fiftieth of it.
    average : bool
        Whether G is the mean over the tokens.
    rng : optional
        Anything `numpy.random.default_rng` accepts (SPEC 7).

    Returns
    -------
    Fit
        `Fit.predict` and `Fit.details` are the trained `LinearAttention`. The trace has the relative error on the
        examples, at a hundred steps of the training and at its end.

    Raises
    ------
    ValueError, ImportError
        A ValueError if a shape or a parameter is out of range, all tokens or all labels are zero, or the parameters
        overflow. An ImportError without PyTorch (the extra ``torch``).

    Notes
    -----
    It computes in float64, on scaled labels and Gram matrices. A step takes O(N H d (d + p)). With at least as many
    heads as the target, it mostly ends at rounding error, after 100 to 1000 times the seconds of `regress`.

    References
    ----------
    Kingma and Ba, arXiv 1412.6980; the settings are the best of few tried here.
    """
    for name, array in (("x", x), ("y", y)):
        if not np.any(array):
            raise ValueError(
                f"{name} is zero everywhere: there is nothing to learn from, other examples are needed."
            )
    if find_spec("torch") is None:
        raise ImportError("Adam needs PyTorch: install it with pip install torch.")
    import torch

    began = time.perf_counter()
    start = make_linear_attention(heads=heads, dim=x.shape[2], outputs=y.shape[1], rng=rng)
    # (N, d, d) and (N, d): a step needs no more of the sequences
    gram = gram_matrix(x, average=average)
    gram_unit = float(np.trace(gram, axis1=1, axis2=2).mean()) / x.shape[2]
    label_unit = float(np.linalg.norm(y / np.abs(y).max()) / math.sqrt(y.size) * np.abs(y).max())
    if not gram_unit > 0 or not math.isfinite(gram_unit):
        raise ValueError(
            f"x has entries of up to {float(np.abs(x).max()):.3g}, whose products under- or overflow: scale x, numbers "
            "near 1 are needed."
        )
    units, z, labels = (
        torch.from_numpy(np.array(part)) for part in (gram / gram_unit, x[:, -1], y / label_unit)
    )
    v, q = torch.from_numpy(start.v), torch.from_numpy(start.q)
    optimizer = torch.optim.Adam([v, q], lr=learning_rate, betas=(0.9, 0.99), fused=True)
    curve: list[Step] = []
    for step in range(1, steps + 1):
        error, v.grad, q.grad = _gradient(v, q, units, z, labels)
        optimizer.param_groups[0]["lr"] = learning_rate * rate("cosine", step - 1, steps)
        optimizer.step()
        if step == steps or step % max(1, steps // 100) == 0:
            seen = float(error)
            if not (math.isfinite(seen) and bool(v.isfinite().all()) and bool(q.isfinite().all())):
                raise ValueError(
                    f"The parameters left the finite numbers by step {step}: lower the learning rate, which is "
                    f"{learning_rate:g}."
                )
            measures = {"relative_error": seen, "steps": step}
            curve.append(Step(f"Step {step}", len(x), time.perf_counter() - began, measures))
    model = LinearAttention(v.numpy() * (label_unit / gram_unit), q.numpy().copy(), average)
    seconds = time.perf_counter() - began
    return Fit(model, None, Outcome.WORK_SPENT, len(x), seconds, tuple(curve), details=model)


def _gradient(v: Any, q: Any, gram: Any, z: Any, y: Any) -> tuple[Any, Any, Any]:
    """The relative error (labels have mean square 1) and the gradients of half the mean squared error.

    They are written out, since automatic differentiation takes up to twice the time.
    """
    heads, outputs, d = v.shape
    asked = (z @ q.reshape(heads * d, d).T).reshape(-1, heads, d)  # Q_h z
    read = (asked @ gram).reshape(-1, heads * d)  # G Q_h z, as G is symmetric
    by_head = v.transpose(0, 1).reshape(outputs, heads * d)
    wrong = read @ by_head.T - y
    error = wrong.square().mean().sqrt()
    wrong = wrong / y.numel()
    v_gradient = (wrong.T @ read).reshape(outputs, heads, d).transpose(0, 1).contiguous()
    back = (wrong @ by_head).reshape(-1, heads, d) @ gram
    return error, v_gradient, (back.reshape(-1, heads * d).T @ z).reshape(heads, d, d)

"""Two heads part.

Do two heads trained by gradient descent break symmetry, and when?
"""

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any

import numpy as np
from jaxtyping import Float
from numpy.random import Generator
from scipy.optimize import minimize
from scipy.sparse.linalg import LinearOperator, eigsh

from attention import BooleanInputs, make_close_heads_layer, make_nice_layer
from runs import Scale
from studies.intervals import slope_interval
from studies.line_figure import Panel, line_figure
from studies.rows import chosen, grouped, of_all, table, values
from studies.study import Parameters, Row, Table
from upper.baselines.descent import random_start, squared_error_gradient, stack_heads

STREAM = ("part", "target", "tokens", "dim", "draw")

Heads = Float[np.ndarray, "m 2 d d"]
"""For every head Theta and W."""

_GAPS = (1e-8, 1e-6, 1e-4, 1e-2)  # distances of the heads at the start of an escape
_PARTED = 0.1  # heads this far apart have separated
_STOP = 0.5  # an escape is followed to this distance
_LINEAR = 0.003  # growth is measured up to this distance
_FLOORS = {2: 3, 4: 6}  # examples, in units of d^2 / (k (k - 1)), by k
_ITERATIONS, _POWER_STEPS, _DIFFERENCE = 3000, 40, 1e-4


def cells(scale: Scale) -> list[Parameters]:
    quick = scale is Scale.QUICK
    targets = [("nice", 2), ("0.1", 2)]
    if not quick:
        targets = [("nice", 2), ("nice", 4), ("1", 2), ("0.3", 2), ("0.1", 2), ("0.03", 2)]
    return [
        {"part": "escape", "target": target, "tokens": k, "dim": 16, "draw": draw}
        | {"steps": 800 if quick else 3000}
        for target, k in targets
        for draw in range(1 if quick else 3)
    ]


def measure(
    *, rng: Generator, part: str, target: str, tokens: int, dim: int, draw: int, steps: int
) -> list[Row]:
    """Start at the best single head, split into halves that differ by a gap; follow them until they part.

    Notes
    -----
    Gradient descent of step eta multiplies the coordinate along the unstable direction, of eigenvalue -lambda, by
    1 + eta lambda per step while the heads are near. So from a coordinate c the heads are at a distance D after
    ln(D |p| / (sqrt(2) |c|)) / ln(1 + eta lambda) steps, p all parameters of one head. Derived here.
    """
    if target == "nice":
        layer = make_nice_layer(heads=2, dim=dim, rng=rng)
    else:
        layer = make_close_heads_layer(heads=2, dim=dim, gap=float(target), rng=rng)
    x = BooleanInputs(tokens, dim).sample(_FLOORS[tokens] * dim * dim // (tokens * (tokens - 1)), rng=rng)
    y = layer(x)
    equal = halved_head(x, y, rng)
    curvature, direction = least_curvature(x, y, equal)
    size = float(np.linalg.norm(equal[0]))
    eta = 1 / largest_curvature(x, y, equal)
    rate = float(np.log1p(-eta * curvature))
    apart = rng.standard_normal(equal[0].size).reshape(equal[0].shape)
    apart *= size / np.sqrt(2) / np.linalg.norm(apart)
    rows = []
    for gap in _GAPS:
        start = equal + gap * np.stack([apart, -apart])
        distances, differences = descend(x, y, start, rate=eta, steps=steps)
        parted = np.flatnonzero(distances >= _PARTED)
        coordinates = np.abs(differences @ direction) / 2
        near = np.flatnonzero((distances < _LINEAR) & (coordinates != 0))
        growth = np.polyfit(near, np.log(coordinates[near]), 1)[0] if near.size >= 10 else None
        row = {
            "gap": gap,
            "curvature": curvature,
            "parted": int(parted[0]) if parted.size else None,
            "predicted": float(np.log(_PARTED * size / np.sqrt(2) / coordinates[0])) / rate,
            "growth": None if growth is None else float(growth) / rate,
        }
        rows.append(row)
    still, _ = descend(x, y, equal, rate=eta, steps=steps // 20)
    return [*rows, {"gap": 0.0, "curvature": curvature, "distance": float(still.max())}]


def gradient(x: np.ndarray, y: np.ndarray, heads: Heads) -> Heads:
    """The gradient of half the mean squared error of an example."""
    return _unstacked(*squared_error_gradient(x, y, *stack_heads(heads[:, 0], heads[:, 1]))[1:])


def _unstacked(theta: np.ndarray, w: np.ndarray) -> Heads:
    d = len(theta)
    return np.stack([theta.reshape(d, -1, d).swapaxes(0, 1), w.reshape(-1, d, d)], axis=1)


def halved_head(x: np.ndarray, y: np.ndarray, rng: Generator) -> Heads:
    """The best single head (Theta, W) as two equal heads (Theta, W/2), a stationary point of a student of two heads.

    Notes
    -----
    At two equal heads the gradients of both are the same, so equal heads stay equal: gradient descent, or any method
    that treats them alike, separates them only by rounding. At the halved best single head the gradients are zero.
    Derived here: along a change (a, b) of one head and (-a, -b) of the other the output is constant to first order,
    so the second derivative of the loss is that of psi(Theta, W) = mean <R, P(Theta) X W> with the residual R held
    fixed. As psi is linear in W, its Hessian is [[A, C], [C^T, 0]], which has a negative eigenvalue unless C = 0: the
    point is a strict saddle unless the residual is orthogonal to every first-order change of a pattern, P'(a) X b.
    The Hessian is linear in the residual; for target heads at a distance g the residual is of order g, and so is the
    curvature.
    """
    start = _unstacked(*random_start(1, x.shape[-1], rng))

    def loss(flat: np.ndarray) -> tuple[float, np.ndarray]:
        ((theta, w),) = flat.reshape(start.shape)
        residual, *gradients = squared_error_gradient(x, y, theta, w)
        return float(np.sum(residual**2)) / (2 * len(x)), np.concatenate([g.ravel() for g in gradients])

    options = {"maxiter": _ITERATIONS, "maxfun": 2 * _ITERATIONS, "maxcor": 30, "ftol": 0.0, "gtol": 1e-9}
    end = minimize(loss, start.ravel(), jac=True, method="L-BFGS-B", options=options).x.reshape(start.shape)
    return np.concatenate([end, end]) * np.array([1.0, 0.5])[:, None, None]


def _changed_gradient(x: np.ndarray, y: np.ndarray, heads: Heads, change: Heads) -> Heads:
    """The Hessian times a change, by differences."""
    ends = (gradient(x, y, heads + step * change) for step in (_DIFFERENCE, -_DIFFERENCE))
    return (next(ends) - next(ends)) / (2 * _DIFFERENCE)


def least_curvature(x: np.ndarray, y: np.ndarray, equal: Heads) -> tuple[float, Float[np.ndarray, " p"]]:
    """The least eigenvalue of the Hessian over changes (v, -v) of two equal heads, and its v of length 1."""

    def times(flat: np.ndarray) -> np.ndarray:
        v = flat.reshape(equal[0].shape)
        return _changed_gradient(x, y, equal, np.stack([v, -v]))[0].ravel()

    size = equal[0].size
    start = np.random.default_rng(0).standard_normal(size)
    operator = LinearOperator((size, size), matvec=times, dtype=np.float64)
    curvatures, directions = eigsh(operator, k=1, which="SA", tol=1e-7, v0=start)
    return float(curvatures[0]), directions[:, 0]


def largest_curvature(x: np.ndarray, y: np.ndarray, heads: Heads) -> float:
    """The largest eigenvalue of the Hessian in the parameters of all heads, by power iteration."""
    rng, (m, _, d, _) = np.random.default_rng(0), heads.shape
    way, size = _unstacked(rng.standard_normal((d, m * d)), rng.standard_normal((m * d, d))), 1.0
    for _ in range(_POWER_STEPS):
        way = _changed_gradient(x, y, heads, way / size)
        size = float(np.linalg.norm(way))
    return size


def descend(
    x: np.ndarray, y: np.ndarray, heads: Heads, *, rate: float, steps: int
) -> tuple[Float[np.ndarray, " s"], Float[np.ndarray, "s p"]]:
    """Train two heads by gradient descent on all examples, until they are far apart.

    Returns
    -------
    distances : array (s,)
        |p_1 - p_2| / sqrt(|p_1|^2 + |p_2|^2), p_i all parameters of head i: 0 for equal heads, 1 for orthogonal ones.
    differences : array (s, 2 d^2)
        p_1 - p_2 at every step.
    """
    distances, differences = [], []
    for step in range(steps + 1):
        differences.append((heads[0] - heads[1]).ravel())
        distances.append(float(np.linalg.norm(differences[-1]) / np.linalg.norm(heads)))
        if distances[-1] >= _STOP or step == steps:
            break
        heads = heads - rate * gradient(x, y, heads)
    return np.array(distances), np.array(differences)


def numbers(rows: Sequence[Row]) -> dict[str, Any]:
    pairs, still = [row for row in rows if row["gap"]], chosen(rows, gap=0.0)
    off = [row["parted"] / row["predicted"] - 1 for row in pairs if row["parted"] is not None]
    close = [row for row in still if row["target"] != "nice"]
    numbers = {
        "equal": of_all(row["distance"] == 0 for row in still),
        "parted": of_all(row["parted"] is not None for row in pairs),
        "saddles": of_all(row["curvature"] < 0 for row in still),
        "growth": f"{max(abs(growth - 1) for growth in values(pairs, 'growth')):.1g}",
        "soonest": f"{-min(off):.0%}",
        "latest": f"{max(off):.0%}",
    }
    if len({row["target"] for row in close}) > 2:
        logs = [(np.log(float(row["target"])), np.log(-row["curvature"])) for row in close]
        slope = slope_interval(*zip(*logs, strict=True), confidence=0.95)
        numbers["slope"] = f"{slope.estimate:.2f} ({slope.low:.2f} to {slope.high:.2f})"
    return numbers


def _median(rows: Iterable[Row], name: str, gap: float) -> int | None:
    """The median at a gap, where heads that never part rank last; None if the median is such a run."""
    steps = [np.inf if row.get(name) is None else row[name] for row in rows if row["gap"] == gap]
    middle = float(np.median(steps))
    return round(middle) if np.isfinite(middle) else None


def tables(rows: Sequence[Row]) -> dict[str, Table]:
    columns: dict[str, Any] = {
        "least curvature": lambda draws: f"{np.median(values(draws, 'curvature')):.2g}",
        **{f"from {gap:.0e}": partial(_median, name="parted", gap=gap) for gap in _GAPS},
        "predicted from 1e-06": partial(_median, name="predicted", gap=1e-6),
    }
    pairs = [row for row in rows if row["gap"]]
    return {"steps": table(pairs, {"target": "target", "k": "tokens"}, columns)}


def figure(rows: Sequence[Row]) -> Any:
    """The steps until the heads part by the gap at the start."""
    times = {
        f"{target if target == 'nice' else f'gap {target}'}, {name}": [
            (gap, _median(draws, name, gap)) for gap in _GAPS
        ]
        for (target,), draws in grouped(chosen(rows, tokens=2), "target").items()
        for name in ("parted", "predicted")
        if target in ("nice", "0.1")
    }
    return line_figure([Panel("gap at the start", "steps until the heads part", times, log_x=True)])

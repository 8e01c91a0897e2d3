"""Two equal heads as a stationary point: the best single head, halved, and the curvature that separates the halves."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from jaxtyping import Float
from scipy.optimize import minimize
from scipy.sparse.linalg import LinearOperator, eigsh

from attention.layer import softmax
from upper.baselines.descent import random_start, squared_error_gradient, stack_heads

__all__ = ["Saddle", "fitted_error", "polish", "symmetric_saddle"]

_ITERATIONS = 3000
_POWER_STEPS = 40


@dataclass(frozen=True, eq=False)
class Saddle:
    """A stationary point of one head, (Theta, W), as two equal heads (Theta, W/2) of a student.

    Attributes
    ----------
    x, y : array (n, k, d)
        The examples.
    theta, w : array (d, d)
        The parameters of each of the two heads; the single head's projection is twice `w`.
    error : float
        Relative error on the examples.
    gradient : float
        Norm of the remaining gradient.

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

    x: Float[np.ndarray, "n k d"]
    y: Float[np.ndarray, "n k d"]
    theta: Float[np.ndarray, "d d"]
    w: Float[np.ndarray, "d d"]
    error: float
    gradient: float

    @cached_property
    def unstable(self) -> tuple[float, Float[np.ndarray, " p"]]:
        """The least eigenvalue of the Hessian over antisymmetric changes, and its direction (a, b) of length 1."""
        size = 2 * self.theta.size
        operator = LinearOperator((size, size), matvec=self.hessian, dtype=np.float64)
        start = np.random.default_rng(0).standard_normal(size)
        values, vectors = eigsh(operator, k=1, which="SA", tol=1e-7, v0=start)
        return float(values[0]), vectors[:, 0]

    def hessian(self, change: Float[np.ndarray, " p"]) -> Float[np.ndarray, " p"]:
        """The Hessian times an antisymmetric change, as the change of the first head's gradient; O(n k d (d + k))."""
        x, w = self.x, self.w
        n, k, d = x.shape
        a, b = change.reshape(2, d, d)
        pattern, residual, across = self._pattern, self._residual, np.swapaxes(x, 1, 2)
        moved = np.matmul((x.reshape(-1, d) @ a).reshape(n, k, d), across)
        turned = pattern * (moved - np.sum(pattern * moved, axis=-1, keepdims=True))
        pull, pulled = np.matmul(residual @ w.T, across), np.matmul(residual @ b.T, across)
        centred = pull - np.sum(pattern * pull, axis=-1, keepdims=True)
        shift = np.sum(turned * pull + pattern * pulled, axis=-1, keepdims=True)
        mixed = np.matmul(turned * centred + pattern * (pulled - shift), x)
        in_theta = x.reshape(-1, d).T @ mixed.reshape(-1, d)
        in_w = np.matmul(turned, x).reshape(-1, d).T @ residual.reshape(-1, d)
        return np.concatenate([in_theta.ravel(), in_w.ravel()])

    @cached_property
    def largest_curvature(self) -> float:
        """The largest eigenvalue of the Hessian in the parameters of both heads, by power iteration on differences."""
        theta, w = stack_heads(np.stack([self.theta] * 2), np.stack([self.w] * 2))
        rng = np.random.default_rng(0)
        way = [rng.standard_normal(theta.shape), rng.standard_normal(w.shape)]
        size, step = 1.0, 1e-4
        for _ in range(_POWER_STEPS):
            way = [part / size for part in way]
            ends = [
                squared_error_gradient(self.x, self.y, theta + sign * way[0], w + sign * way[1])[1:]
                for sign in (step, -step)
            ]
            way = [(after - before) / (2 * step) for after, before in zip(*ends, strict=True)]
            size = float(np.sqrt(sum(np.sum(part**2) for part in way)))
        return size

    @cached_property
    def _pattern(self) -> np.ndarray:
        logits = np.matmul(self.x @ self.theta, np.swapaxes(self.x, 1, 2))
        return np.asarray(softmax(logits, np))

    @cached_property
    def _residual(self) -> np.ndarray:
        return (np.matmul(self._pattern, self.x) @ (2 * self.w) - self.y) / len(self.x)


def symmetric_saddle(
    x: Float[np.ndarray, "n k d"], y: Float[np.ndarray, "n k d"], *, rng: np.random.Generator
) -> Saddle:
    """Train one head to a stationary point (L-BFGS on all examples) and halve it."""
    d = x.shape[-1]
    theta, w, gradient = polish(x, y, *random_start(1, d, rng), iterations=_ITERATIONS)
    return Saddle(x, y, theta, w / 2, fitted_error(x, y, theta, w), gradient)


def polish(
    x: Float[np.ndarray, "n k d"],
    y: Float[np.ndarray, "n k d"],
    theta: Float[np.ndarray, "d md"],
    w: Float[np.ndarray, "md d"],
    *,
    iterations: int,
) -> tuple[Float[np.ndarray, "d md"], Float[np.ndarray, "md d"], float]:
    """The minimum that L-BFGS finds from stacked parameters, and the norm of the gradient there."""

    def loss(flat: np.ndarray) -> tuple[float, np.ndarray]:
        parts = flat[: theta.size].reshape(theta.shape), flat[theta.size :].reshape(w.shape)
        residual, *gradients = squared_error_gradient(x, y, *parts)
        return float(np.sum(residual**2)) / (2 * len(x)), np.concatenate([one.ravel() for one in gradients])

    options = {"maxiter": iterations, "maxfun": 2 * iterations, "maxcor": 30, "ftol": 0.0, "gtol": 1e-9}
    start = np.concatenate([theta.ravel(), w.ravel()])
    end: Any = minimize(loss, start, jac=True, method="L-BFGS-B", options=options)
    found = end.x[: theta.size].reshape(theta.shape), end.x[theta.size :].reshape(w.shape)
    return *found, float(np.linalg.norm(end.jac))


def fitted_error(
    x: Float[np.ndarray, "n k d"],
    y: Float[np.ndarray, "n k d"],
    theta: Float[np.ndarray, "d md"],
    w: Float[np.ndarray, "md d"],
) -> float:
    """Relative error of stacked parameters on examples."""
    residual, *_ = squared_error_gradient(x, y, theta, w)
    return float(np.linalg.norm(residual) / np.linalg.norm(y))

"""Variable-projection Gauss-Newton for attention layers: W eliminated, Theta by damped matrix-free steps."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float
from scipy.linalg import cho_factor, cho_solve

from upper.jacobian import HeadJacobian
from upper.stacked import read_tokens

__all__ = ["Iterate", "gauss_newton"]

# A probe for the coupling of heads needs few examples: it only has to be right within a factor.
_PROBE_EXAMPLES = 64
# Patterns below this change nothing in single precision; as denormals they would slow every product.
_NEGLIGIBLE = 1e-30


@dataclass(frozen=True, eq=False)
class Iterate:
    """Where a run of Gauss-Newton stands.

    Attributes
    ----------
    theta, w : array (m, d, d)
        The current parameters.
    residual : float
        |Y - F(X)| / |Y| on the examples fitted.
    damping : float
        The Levenberg-Marquardt parameter lambda.
    passes : int
        Passes over the data since the start: evaluations of F and products with J or its transpose.
    """

    theta: Float[np.ndarray, "m d d"]
    w: Float[np.ndarray, "m d d"]
    residual: float
    damping: float
    passes: int


def gauss_newton(
    x: Float[np.ndarray, "n k d"],
    y: Float[np.ndarray, "n k d"],
    theta: Float[np.ndarray, "m d d"],
    *,
    inner_steps: int = 60,
    inner_dtype: Any = np.float32,
    rng: np.random.Generator,
) -> Iterator[Iterate]:
    """Iterates of damped Gauss-Newton on Theta from the start `theta`, W re-solved by least squares each time.

    Parameters
    ----------
    x, y : array (n, k, d)
        Examples.
    theta : array (m, d, d)
        Where to start.
    inner_steps : int
        At most so many conjugate-gradient steps an iterate.
    inner_dtype : dtype
        Precision of the inner products; residuals and parameters are float64 throughout, and an inner
        solution is needed to a few per cent only.
    rng : Generator
        For the probe that estimates the coupling of heads.

    Yields
    ------
    Iterate
        After the start and after every trial, accepted or not (then only the damping differs); it never ends by itself.

    Notes
    -----
    With Z = [P_1 X ... P_m X] and G = Z^T Z, a trial solves
    (J^T (I - Z G^-1 Z^T) J + lambda tr(C)/m) dTheta = J^T R by conjugate gradients, preconditioned with
    (C + lambda tr(C)/m)^-1 on the heads, C_ij = <J_i V, J_j V> / |V|^2 for a random probe V (the inputs are
    isotropic, so one probe stands for all directions). Forcing term max(min(.7, c), .03), c the relative residual;
    lambda falls fourfold when c falls below .8 of itself, is at most c^2 below c = .3 (then the convergence is
    superlinear), and grows fourfold on rejection. An inner step costs two passes of O(n k m d (d + 2 k)) and two
    products with Z. Memory: about 4 n k m (d + k) numbers in float64 and as many in `inner_dtype`.

    References
    ----------
    Derived here; variable projection is Golub and Pereyra, SIAM J. Numer. Anal. 10 (1973), in Kaufman's
    approximation (BIT 15, 1975).
    """
    n, k, d = x.shape
    m = theta.shape[0]
    scale = float(np.linalg.norm(y)) or 1.0
    labels = y.reshape(n * k, d)
    x_inner = x.astype(inner_dtype)

    damping = 1e-2
    pattern, read = read_tokens(x, theta)
    w = _resolve_w(read, labels, np.zeros((m * d, d)), damping)
    residual = labels - read @ w
    c = float(np.linalg.norm(residual)) / scale
    passes = 1
    yield Iterate(theta, w.reshape(m, d, d), c, damping, passes)
    while True:
        system = _InnerSystem(x_inner, pattern, read, w.reshape(m, d, d), rng)
        passes += 1
        accepted = False
        while not accepted:
            size = float(np.linalg.norm(residual)) or 1.0
            step, steps = system.solve(
                (residual / size).reshape(n, k, d).astype(inner_dtype),
                damping,
                forcing=max(min(0.7, c), 0.03),
                at_most=inner_steps,
            )
            trial = theta + size * step
            passes += 2 * steps + 2
            with np.errstate(over="ignore", invalid="ignore"):  # a wild step is rejected below
                trial_pattern, trial_read = read_tokens(x, trial)
            if not np.isfinite(trial_read).all():
                damping = 4 * max(damping, 1e-16)
                continue
            trial_w = _resolve_w(trial_read, labels, w, damping)
            trial_residual = labels - trial_read @ trial_w
            trial_c = float(np.linalg.norm(trial_residual)) / scale
            accepted = trial_c < c
            if accepted:
                if trial_c < 0.8 * c:
                    damping *= 0.25
                theta, pattern, read, w, residual, c = (
                    trial, trial_pattern, trial_read, trial_w, trial_residual, trial_c,
                )  # fmt: skip
                if c < 0.3:
                    damping = min(damping, c * c)
            else:
                damping = 4 * max(damping, 1e-16)
            yield Iterate(theta, w.reshape(m, d, d), c, damping, passes)


def _resolve_w(read: np.ndarray, labels: np.ndarray, w: np.ndarray, damping: float) -> np.ndarray:
    """One least-squares correction of `w`: as a correction, the ridge pulls towards the last W, not towards zero."""
    gram = read.T @ read
    ridge = max(1e-12, 1e-3 * min(damping, 1.0)) * float(np.trace(gram)) / len(gram) or 1.0
    gram[np.diag_indices_from(gram)] += ridge
    return w + cho_solve(cho_factor(gram, lower=True), read.T @ (labels - read @ w))


class _InnerSystem:
    """The damped normal equations in Theta at one iterate, for right-hand sides J^T R and several dampings."""

    def __init__(
        self, x: np.ndarray, pattern: np.ndarray, read: np.ndarray, w: np.ndarray, rng: np.random.Generator
    ) -> None:
        dtype = x.dtype
        slim = np.where(pattern > _NEGLIGIBLE, pattern, 0.0).astype(dtype)
        self._jacobian = HeadJacobian.at(x, slim, w.astype(dtype))
        self._read = read.astype(dtype)
        gram = read.T @ read
        gram[np.diag_indices_from(gram)] += 1e-8 * float(np.trace(gram)) / len(gram) or 1.0
        self._inverse = np.linalg.inv(gram).astype(dtype)
        self._coupling = _head_coupling(self._jacobian, rng)

    def solve(
        self, residual: np.ndarray, damping: float, *, forcing: float, at_most: int
    ) -> tuple[np.ndarray, int]:
        """Preconditioned conjugate gradients to the relative accuracy `forcing`; the solution and the steps taken."""
        m = len(self._coupling)
        mean = float(np.trace(self._coupling)) / m
        shift = damping * mean
        # heads that agree on the probe make the coupling singular, however small the damping
        precondition = np.linalg.inv(self._coupling + (max(shift, 1e-9 * mean) or 1.0) * np.eye(m))
        r = self._jacobian.transpose_times(residual).astype(np.float64)
        solution = np.zeros_like(r)
        z = np.tensordot(precondition, r, axes=1)
        p, rz = z, float(np.vdot(r, z))
        goal = forcing * forcing * rz
        steps = 0
        while steps < at_most and rz > goal and np.isfinite(rz):
            product = self._gram_times(p) + shift * p
            curvature = float(np.vdot(p, product))
            if not curvature > 0:  # rounding, at the bottom of a valley
                break
            step = rz / curvature
            solution += step * p
            r = r - step * product
            z = np.tensordot(precondition, r, axes=1)
            before, rz = rz, float(np.vdot(r, z))
            p = z + (rz / before) * p
            steps += 1
        return solution, steps

    def _gram_times(self, direction: np.ndarray) -> np.ndarray:
        change = self._jacobian.times(direction.astype(self._read.dtype))
        flat = change.reshape(len(self._read), -1)
        flat -= self._read @ (self._inverse @ (self._read.T @ flat))
        return self._jacobian.transpose_times(flat.reshape(change.shape)).astype(np.float64)


def _head_coupling(jacobian: HeadJacobian, rng: np.random.Generator) -> np.ndarray:
    n, _, d = jacobian.x.shape
    few = min(n, _PROBE_EXAMPLES)
    part = HeadJacobian(x=jacobian.x[:few], pattern=jacobian.pattern[:few], values=jacobian.values[:few])
    probe = rng.standard_normal((d, d))
    changes = part.times_each_head((probe / np.linalg.norm(probe)).astype(jacobian.x.dtype))
    flat = changes.reshape(len(changes), -1).astype(np.float64)
    return (flat @ flat.T) * (n / few)

"""What the checks of the learners share: errors by the formula, Jacobians by complex steps, the cross-moment matrix."""

import numpy as np
from jaxtyping import Complex, Float
from numpy.random import Generator

from attention import AttentionLayer, BooleanInputs, Fit

__all__ = ["cross_moment_matrix", "jacobian_by_differences", "relative_misfit", "without_linear_part"]


def relative_misfit(fit: Fit, layer: AttentionLayer, k: int, rng: Generator) -> float:
    """|F^ - F| / |F| on fresh Boolean inputs, F by the formula."""
    x = BooleanInputs(k, layer.dim).sample(1000, rng=rng)
    truth = _outputs(x, layer.theta.astype(complex), layer.w.astype(complex)).real
    return float(np.linalg.norm(np.asarray(fit.predict(x)) - truth) / np.linalg.norm(truth))


def jacobian_by_differences(
    layer: AttentionLayer, x: Float[np.ndarray, "n k d"]
) -> Float[np.ndarray, "outputs parameters"]:
    """The derivative of all outputs in all parameters, a column by one complex step of 1e-30: exact to rounding."""
    theta, w = layer.theta.astype(complex), layer.w.astype(complex)
    columns = []
    for parameter in (theta, w):
        for place in np.ndindex(parameter.shape):
            before = parameter[place]
            parameter[place] = before + 1e-30j
            columns.append(_outputs(x, theta, w).imag.ravel() / 1e-30)
            parameter[place] = before
    return np.stack(columns, axis=1)


def without_linear_part(
    x: Float[np.ndarray, "n k d"], y: Float[np.ndarray, "n k d"]
) -> Float[np.ndarray, "n k d"]:
    """What least squares on each row's own token and the mean token leaves of the labels."""
    mean = np.broadcast_to(x.mean(axis=1, keepdims=True), x.shape)
    features = np.concatenate([x, mean], axis=2).reshape(-1, 2 * x.shape[2])
    labels = y.reshape(-1, y.shape[2])
    return np.asarray((labels - features @ np.linalg.lstsq(features, labels, rcond=None)[0]).reshape(y.shape))


def cross_moment_matrix(
    x: Float[np.ndarray, "n k d"], y: Float[np.ndarray, "n k d"]
) -> Float[np.ndarray, "d2 d2"]:
    """T as a matrix: sum over rows a and tokens b != a of (x_a (x) (x_b - mean over b)) (x_b (x) y_a)^T."""
    n, k, d = x.shape
    total = np.zeros((d * d, d * d))
    for a in range(k):
        others = np.delete(x, a, axis=1)
        centred = others - others.mean(axis=1, keepdims=True)
        for b in range(k - 1):
            left = (x[:, a, :, None] * centred[:, b, None, :]).reshape(n, -1)
            right = (others[:, b, :, None] * y[:, a, None, :]).reshape(n, -1)
            total += left.T @ right
    return total


def _outputs(
    x: Float[np.ndarray, "n k d"], theta: Complex[np.ndarray, "m d d"], w: Complex[np.ndarray, "m d d"]
) -> Complex[np.ndarray, "n k d"]:
    """F(X) for complex parameters."""
    total = np.zeros(x.shape, dtype=complex)
    for one, projection in zip(theta, w, strict=True):
        logits = (x @ one) @ x.transpose(0, 2, 1)
        weights = np.exp(logits - logits.real.max(axis=2, keepdims=True))
        total += weights / weights.sum(axis=2, keepdims=True) @ x @ projection
    return total

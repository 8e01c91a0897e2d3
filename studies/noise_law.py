"""The predicted error of a layer fitted to noisy labels, from the derivative at the target only."""

import numpy as np
from jaxtyping import Float

from attention import AttentionLayer
from attention.layer import softmax

__all__ = [
    "centred",
    "class_laws",
    "derivative",
    "share_covariance",
    "squared_law",
    "weighted_gram",
]

_BLOCK = 64
# Threshold for directions of the parameters that change nothing, relative to the direction that changes most.
_NOTHING = 1e-9


def centred(layer: AttentionLayer) -> AttentionLayer:
    """The layer with the mean of every row of every W_i subtracted from that row.

    Notes
    -----
    softmax(Y_a) is the same for Y_a and Y_a + c 1, for any number c, even one that depends on X. With P = I - 1 1^T /
    d, Y P = sum_i softmax(X Theta_i X^T) X (W_i P). So labels drawn by softmax(Y_a) determine only the layer with W_i
    P in place of W_i. The rows of its outputs have the sum 0. Derived here.
    """
    return AttentionLayer(theta=layer.theta, w=layer.w - layer.w.mean(axis=2, keepdims=True))


def derivative(layer: AttentionLayer, x: Float[np.ndarray, "n k d"]) -> Float[np.ndarray, "n*k d p"]:
    """The derivative of every output entry in all Theta_i, then all W_i, p = 2 m d^2 numbers; O(n k d p)."""
    n, k, d = x.shape
    m = layer.heads
    pattern = layer.patterns(x)
    read = pattern @ x[:, None]
    # dF_a = x_a dTheta_i C_a W_i, C_a the covariance of the tokens under the pattern of row a
    second = np.einsum("niab,nbp,nbq->niapq", pattern, x, x) - read[..., :, None] * read[..., None, :]
    pulled = second @ layer.w[None, :, None]
    in_theta = np.einsum("nap,niaqj->najipq", x, pulled).reshape(n * k, d, m * d * d)
    in_w = np.einsum("niar,jc->najirc", read, np.eye(d)).reshape(n * k, d, m * d * d)
    return np.concatenate([in_theta, in_w], axis=2)


def weighted_gram(
    layer: AttentionLayer,
    x: Float[np.ndarray, "n k d"],
    weights: Float[np.ndarray, "n*k d d"] | None = None,
) -> Float[np.ndarray, "p p"]:
    """The mean over examples of J^T S J, J the derivative and S a matrix for each row, the identity if not given."""
    n, k, _ = x.shape
    total = np.zeros((2 * layer.theta.size,) * 2)
    for first in range(0, n, _BLOCK):
        rows = derivative(layer, x[first : first + _BLOCK])
        seen = rows if weights is None else weights[first * k : (first + _BLOCK) * k] @ rows
        total += rows.reshape(-1, len(total)).T @ seen.reshape(-1, len(total))
    return total / n


def squared_law(
    layer: AttentionLayer, x: Float[np.ndarray, "n k d"], fresh: Float[np.ndarray, "fresh k d"]
) -> float:
    """The excess squared error of least squares on an entry of a fresh label, to first order in noise of variance 1.

    Parameters
    ----------
    layer : AttentionLayer
        The target.
    x : array (n, k, d)
        The examples that are fitted.
    fresh : array (fresh, k, d)
        Inputs to measure on.

    Notes
    -----
    tr(G H^+) / (n k d) with H = E J^T J on the examples and G that on fresh inputs; with many examples it is
    p / (n k d). O(n k d p^2 + p^3).
    """
    n, k, d = x.shape
    return float(np.vdot(weighted_gram(layer, fresh), _inverse(weighted_gram(layer, x)))) / (n * k * d)


def class_laws(layer: AttentionLayer, x: Float[np.ndarray, "n k d"], gain: float) -> tuple[float, float]:
    """The squared error on an entry of a fresh output times the number of examples: least squares, maximum likelihood.

    Parameters
    ----------
    layer : AttentionLayer
        The target, its W centred.
    x : array (n, k, d)
        Inputs to average over, instead of their law. They must give many more equations than unknowns.
    gain : float
        The factor from outputs to logits.

    Notes
    -----
    Let H = E J^T J and M = E J^T (diag q - q q^T) J, with q the class shares. The information of an example is gain^2
    M. With many examples maximum likelihood therefore reaches the Cramer-Rao bound tr(H M^+) / (gain^2 k d), which is
    p / (k gain^2) for a small gain. The labels d (e_c - 1/d) / gain have the noise (d / gain)^2 M. By the sandwich
    formula the error of least squares is d^2 tr(M H^+) / (gain^2 k d). The expectation of an inverse exceeds the
    inverse of the expectation, so both are too large for few inputs. O(n k d p^2 + p^3).
    """
    _, k, d = x.shape
    plain = weighted_gram(layer, x)
    of_classes = weighted_gram(layer, x, share_covariance(softmax(gain * layer(x), np)))
    squared = d**2 * np.vdot(of_classes, _inverse(plain))
    likelihood = np.vdot(plain, _inverse(of_classes))
    return float(squared) / (gain**2 * k * d), float(likelihood) / (gain**2 * k * d)


def share_covariance(shares: Float[np.ndarray, "n k d"]) -> Float[np.ndarray, "n*k d d"]:
    """The covariance of a one-hot class drawn with these shares: diag q - q q^T, row by row."""
    rows = shares.reshape(-1, shares.shape[-1])
    covariance: np.ndarray = rows[:, :, None] * np.eye(rows.shape[1]) - rows[:, :, None] * rows[:, None, :]
    return covariance


def _inverse(gram: np.ndarray) -> np.ndarray:
    return np.linalg.pinv(gram, rcond=_NOTHING, hermitian=True)

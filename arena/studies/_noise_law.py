"""What the error of a layer fitted to noisy labels should be, from the derivative at the target alone."""

import numpy as np
from jaxtyping import Float

from attention import AttentionLayer

__all__ = [
    "centred",
    "class_shares",
    "derivative",
    "likelihood_law",
    "share_covariance",
    "squared_law",
    "weighted_gram",
]

_BLOCK = 64
# Directions of the parameters that change nothing, relative to the one that changes most.
_NOTHING = 1e-9


def centred(layer: AttentionLayer) -> AttentionLayer:
    """The layer with the mean of every row of every W_i taken off that row.

    Notes
    -----
    softmax(Y_a) is the same for Y_a and Y_a + c 1, c any number, even one that depends on X. With P = I - 1 1^T / d,
    Y P = sum_i softmax(X Theta_i X^T) X (W_i P): what labels that are drawn by softmax(Y_a) can tell is the layer with
    W_i P for W_i, whose outputs have the sum 0 in each row. Derived here.
    """
    return AttentionLayer(theta=layer.theta, w=layer.w - layer.w.mean(axis=2, keepdims=True))


def class_shares(logits: Float[np.ndarray, "*rows d"]) -> Float[np.ndarray, "*rows d"]:
    """The softmax over the last axis: the probability of each class."""
    weights = np.exp(logits - logits.max(axis=-1, keepdims=True))
    shares: np.ndarray = weights / weights.sum(axis=-1, keepdims=True)
    return shares


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
    layer: AttentionLayer,
    x: Float[np.ndarray, "n k d"],
    fresh: Float[np.ndarray, "fresh k d"],
    covariance: Float[np.ndarray, "n*k d d"] | None = None,
) -> float:
    """The excess squared error of least squares on an entry of a fresh label, to first order in the noise.

    Parameters
    ----------
    layer : AttentionLayer
        The target.
    x : array (n, k, d)
        The examples that are fitted.
    fresh : array (fresh, k, d)
        Inputs to measure on.
    covariance : array (n k, d, d), optional
        Of the noise on each row of the labels; by default it is white, of variance 1.

    Notes
    -----
    tr(G H^+ V H^+) / (n k d) with H = E J^T J and V = E J^T S J on the examples and G that on fresh inputs; with white
    noise and many examples it is p / (n k d). O(n k d p^2 + p^3). Derived here; the sandwich is that of any estimate
    by minimisation.
    """
    n, k, d = x.shape
    inverse = _inverse(weighted_gram(layer, x))
    spread = inverse if covariance is None else inverse @ weighted_gram(layer, x, covariance) @ inverse
    return float(np.vdot(weighted_gram(layer, fresh), spread)) / (n * k * d)


def likelihood_law(layer: AttentionLayer, x: Float[np.ndarray, "n k d"], gain: float) -> float:
    """The squared error on an entry of a fresh output times the number of examples, for the most likely layer.

    Parameters
    ----------
    layer : AttentionLayer
        The target, its W centred.
    x : array (n, k, d)
        Inputs, to average over.
    gain : float
        What outputs are multiplied by to be logits.

    Notes
    -----
    tr(G I^+) / (k d), I = gain^2 E J^T (diag q - q q^T) J the information of an example, q its class shares: the
    Cramer-Rao bound, which maximum likelihood meets as examples grow. For a small gain it is p / (k gain^2).
    O(n k d p^2 + p^3).
    """
    _, k, d = x.shape
    information = gain**2 * weighted_gram(layer, x, share_covariance(class_shares(gain * layer(x))))
    return float(np.vdot(weighted_gram(layer, x), _inverse(information))) / (k * d)


def share_covariance(shares: Float[np.ndarray, "n k d"]) -> Float[np.ndarray, "n*k d d"]:
    """Of a class drawn with these shares, as one number 1 among zeros: diag q - q q^T, row by row."""
    rows = shares.reshape(-1, shares.shape[-1])
    covariance: np.ndarray = rows[:, :, None] * np.eye(rows.shape[1]) - rows[:, :, None] * rows[:, None, :]
    return covariance


def _inverse(gram: np.ndarray) -> np.ndarray:
    return np.linalg.pinv(gram, rcond=_NOTHING, hermitian=True)

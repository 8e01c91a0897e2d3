"""Labels that are classes drawn by the softmax of a layer's output, and maximum likelihood on them."""

import numpy as np
from jaxtyping import Float, Int

from attention import AttentionLayer
from attention.layer import softmax
from studies.noise_law import centred
from upper.baselines.descent import layer_of_stacked, squared_error_gradient, stack_heads

__all__ = ["cross_entropy", "drawn_classes", "most_likely_layer"]

_PASSES = 500
# Relative to the loss: far below p / (N k), the part of the loss that depends on the layer.
_ENOUGH = 1e-10


def drawn_classes(shares: Float[np.ndarray, "n k d"], rng: np.random.Generator) -> Int[np.ndarray, "n k"]:
    """A class for each row, drawn with its shares."""
    below = shares.cumsum(axis=-1) < rng.random((*shares.shape[:-1], 1))
    # the last share may end below 1 by rounding
    return np.minimum(below.sum(axis=-1), shares.shape[-1] - 1)


def cross_entropy(
    flat: Float[np.ndarray, " p"], x: Float[np.ndarray, "n k d"], classes: Int[np.ndarray, "n k"], gain: float
) -> tuple[float, Float[np.ndarray, " p"]]:
    """The mean over rows of -log softmax(gain F(X)_a)_c, c the class of the row, and its gradient.

    Parameters
    ----------
    flat : array (2 m d^2,)
        The stacked Theta (d, m d), then the stacked W (m d, d), as one vector.
    x : array (n, k, d)
        Tokens.
    classes : array (n, k)
        For each row one of 0, ..., d - 1.
        gain : float
        The factor from outputs to logits.

    Notes
    -----
    The gradient of a squared error is linear in its residual. With the labels F(X) - r in place of Y it is the gradient
    of any loss whose gradient in F(X) is r / n. Here r = gain (softmax(gain F(X)) - e_c) / k. O(n k m d (d + 2 k)).
    """
    _, k, d = x.shape
    theta, w = (
        part.reshape(shape) for part, shape in zip(np.split(flat, 2), ((d, -1), (-1, d)), strict=True)
    )
    output = layer_of_stacked(theta, w)(x)
    shares = softmax(gain * output, np)
    hit = np.take_along_axis(shares, classes[..., None], axis=2)[..., 0]
    loss = -float(np.log(np.maximum(hit, np.finfo(float).tiny)).mean())
    np.put_along_axis(shares, classes[..., None], (hit - 1)[..., None], axis=2)
    _, *gradients = squared_error_gradient(x, output - shares * (gain / k), theta, w)
    return loss, np.concatenate([part.reshape(-1) for part in gradients])


def most_likely_layer(
    x: Float[np.ndarray, "n k d"],
    classes: Int[np.ndarray, "n k"],
    start: AttentionLayer,
    *,
    gain: float,
) -> tuple[AttentionLayer, float]:
    """The result of L-BFGS from a start: the layer, with its W centred, and its cross-entropy.

    Parameters
    ----------
    x, classes, gain
        As for `cross_entropy`.
    start : AttentionLayer
        The start of the iteration.

    Notes
    -----
    The loss is not convex: the result may be a local minimum. At most 500 iterations of SciPy's L-BFGS.
    """
    from scipy.optimize import minimize

    flat = np.concatenate([part.reshape(-1) for part in stack_heads(start.theta, start.w)])
    found = minimize(
        cross_entropy,
        flat,
        args=(x, classes, gain),
        jac=True,
        method="L-BFGS-B",
        options={"maxcor": 20, "maxiter": _PASSES, "maxfun": 2 * _PASSES, "ftol": _ENOUGH, "gtol": 1e-9},
    )
    theta, w = np.split(found.x, 2)
    d = x.shape[-1]
    return centred(layer_of_stacked(theta.reshape(d, -1), w.reshape(-1, d))), float(found.fun)

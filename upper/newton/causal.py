"""Whether examples come from a causal layer: its first row depends on the first token only."""

import math

import numpy as np
from jaxtyping import Float

from attention.evaluation import one_of_each_orbit
from upper.newton.noise import inner_products, u_statistic

# More examples decide no better, and products of pairs grow with their square.
_MOST_COMPARED = 500
# Standard errors: of the variance of residuals, and of the dependence of the first row on later tokens.
_SURE, _DEPENDS = 6.0, 4.0
_LEAST = 6  # fewer examples than this in which the last row depends on other tokens may be chance
# An affine map that leaves less than these shares of the last row, and of the first one, may leave rounding only.
_ROUNDING, _EXACT = 1e-5, 1e-12


def examples_are_causal(x: Float[np.ndarray, "n k d"], y: Float[np.ndarray, "n k d"]) -> bool:
    """Whether the first row of each label depends on the first token only, while the last depends on others too.

    Notes
    -----
    The first row of a causal layer is x_1 (W_1 + ... + W_m) + b, an affine map of the first token. Without a mask the
    first row is as far from affine as the last one. So a layer is causal if

    * affine least squares leaves less of the first row than of the last, on its own token. The ratio of variances must
      be below exp(-12 / sqrt(r)), six standard errors of its logarithm. r is the n - d - 1 residual degrees of freedom,
      or (sum e)^2 / sum e^2 over the squared errors e of examples if this is less; six at least, since rows that attend
      to themselves leave errors in a few examples only;
    * what is left of the first row is rounding or noise: its products with later tokens, and with their second moments,
      are at most four standard errors above zero, as a flip of signs gives them. This stops a layer without mask whose
      first row attends mainly to itself, say by its position.

    With fewer than d + 2 different examples nothing is left to judge, and the answer is no. Noise hides a mask if it is
    about as large as what other tokens contribute to a label. Derived here; that no other layer passes is measured.

    Examples
    --------
    >>> from dataclasses import replace
    >>> from attention import BooleanInputs, make_nice_layer
    >>> layer, x = make_nice_layer(heads=2, dim=8, rng=0), BooleanInputs(tokens=3, dim=8).sample(50, rng=1)
    >>> examples_are_causal(x, layer(x)), examples_are_causal(x, replace(layer, causal=True)(x))
    (False, True)
    """
    first = one_of_each_orbit(x)[:_MOST_COMPARED]
    x, y = x[first], y[first] / (float(np.abs(y).max(initial=0.0)) or 1.0)
    n, k, d = x.shape
    if k < 2 or n < d + 2:
        return False
    beyond = [_complement(x[:, row]) for row in (0, -1)]
    own, last = (side.T @ y[:, row] for side, row in zip(beyond, (0, -1), strict=True))
    errors = np.sum((beyond[1] @ last) ** 2, axis=1)  # of each example
    first_left, last_left = float(np.sum(own**2)), float(errors.sum())
    alike = last_left**2 / (float(np.sum(errors**2)) or 1.0)
    most = last_left * math.exp(-2 * _SURE / math.sqrt(min(max(alike, 1.0), n - d - 1)))
    if alike < _LEAST or last_left <= _ROUNDING**2 * float(np.sum(y[:, -1] ** 2)) or first_left > most:
        return False
    if first_left <= _EXACT**2 * float(np.sum(y[:, 0] ** 2)):
        return True
    own /= float(np.abs(own).max())
    later = x[:, 1:] - x[:, 1:].mean(axis=(0, 1))
    moments = np.matrix_transpose(later) @ later
    return not any(
        u_statistic(inner_products(beyond[0].T @ features) * inner_products(own)) > _DEPENDS
        for features in (later.sum(axis=1), (moments - moments.mean(axis=0)).reshape(n, -1))
    )


def _complement(tokens: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n r"]:
    """Orthonormal directions of the examples orthogonal to every affine map of the tokens."""
    columns = np.insert(tokens / (float(np.abs(tokens).max()) or 1.0), 0, 1.0, axis=1)
    return np.linalg.qr(columns, mode="complete")[0][:, columns.shape[1] :]

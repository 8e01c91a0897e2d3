"""Cubic features for softmax attention: what of it linear attention can imitate, and what needs no attention."""

from typing import Any, Literal, get_args

import numpy as np
from jaxtyping import Shaped

from attention._arrays import namespace
from attention.validation import count, one_of, require_flag
from upper.linear_attention.features import cubic_features, feature_count, floating, require_no_overflow

__all__ = ["SOFTMAX_KINDS", "SoftmaxKind", "softmax_feature_count", "softmax_features"]

SoftmaxKind = Literal["plain", "aug", "cent", "tokens"]
SOFTMAX_KINDS: tuple[str, ...] = get_args(SoftmaxKind)
"""The sets of features, from the paper's to the baseline without attention."""


def softmax_feature_count(kind: SoftmaxKind, d: int) -> int:
    """The number of features of a set, for tokens in d dimensions.

    Parameters
    ----------
    kind : {"plain", "aug", "cent", "tokens"}
        The set.
    d : int
        Dimension of the tokens.

    Returns
    -------
    int
        d^2 (d + 1)/2 cubic ones unless the set is "tokens", and d for each of the query and the row mean it has.

    Raises
    ------
    ValueError
        If the set is not known or `d` is below 1.

    Examples
    --------
    >>> [softmax_feature_count(kind, 8) for kind in ("plain", "aug", "cent", "tokens")]
    [288, 296, 304, 16]
    """
    one_of("The features", kind, SOFTMAX_KINDS)
    cubic = 0 if kind == "tokens" else feature_count(d)
    return cubic + {"plain": 0, "aug": 1, "cent": 2, "tokens": 2}[kind] * count("d", d)


def softmax_features(
    x: Shaped[Any, "*batch k d"], kind: SoftmaxKind, *, every_row: bool = True
) -> Shaped[Any, "*rows features"]:
    """Features of token matrices for softmax targets, of every row as the query or of the last one.

    Parameters
    ----------
    x : array (..., k, d)
        Token matrices.
    kind : {"plain", "aug", "cent", "tokens"}
        "plain": the cubic features of G = X^T X and the query x_q. "aug": those and the row mean. "cent": the cubic
        features of the Gram matrix of the tokens less their mean, with x_q, and x_q and the row mean themselves.
        "tokens": x_q and the row mean alone, no attention at all.
    every_row : bool
        Whether every row is a query in turn; otherwise the last one is.

    Returns
    -------
    array (..., k, F), or (..., F) for the last row
        In the array type of `x`, whole numbers as their floats; F = `softmax_feature_count`, the cubic ones come first,
        then x_q, then the mean.

    Raises
    ------
    ValueError
        If the set is not known, `x` has fewer than two axes, or products overflow.

    Notes
    -----
    Softmax attention to first order in Theta is the row mean plus x_q^T Theta times the centred Gram matrix over k, so
    that "cent" errs in second order only, "aug" by the part of first order that is the mean's own product, and
    "plain" by the mean itself. O(k d^2 + q d^3) for q queries.

    References
    ----------
    Derived here. "plain" is the paper's, the others are not.

    Examples
    --------
    >>> x = np.array([[1.0, 0.0], [1.0, 2.0]])
    >>> softmax_features(x, "tokens")
    array([[1., 0., 1., 1.],
           [1., 2., 1., 1.]])
    >>> softmax_features(x, "plain").shape, softmax_features(x, "cent", every_row=False).shape
    ((2, 6), (10,))
    """
    one_of("The features", kind, SOFTMAX_KINDS)
    require_flag("every_row", every_row)
    xp = namespace(x)
    if x.ndim < 2 or 0 in x.shape[-2:]:
        raise ValueError(f"The tokens have shape {tuple(x.shape)}: (..., k, d) is needed, a token a row.")
    x = floating(x)
    queries = x if every_row else x[..., -1:, :]
    with np.errstate(over="ignore", invalid="ignore"):  # refused in the next line
        mean = xp.mean(x, axis=-2, keepdims=True)
        centred = x - mean
    require_no_overflow(centred, xp)
    parts = []
    if kind != "tokens":
        parts.append(cubic_features(centred if kind == "cent" else x, queries=queries))
    if kind in ("cent", "tokens"):
        parts.append(queries)
    if kind != "plain":
        parts.append(xp.broadcast_to(mean, queries.shape))
    features = parts[0] if len(parts) == 1 else xp.concat(parts, axis=-1)
    return features if every_row else features[..., 0, :]

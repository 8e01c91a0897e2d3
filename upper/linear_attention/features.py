"""Cubic features: linear attention is linear regression in the entries of G times those of the query."""

import math
from collections.abc import Callable, Iterator
from typing import Any, Literal

import numpy as np
from jaxtyping import Float, Int, Shaped

from attention._arrays import as_floating, namespace
from attention.memory import require_memory
from attention.validation import PositiveInt, checked

SoftmaxKind = Literal["plain", "aug", "cent"]
"""The sets of features for softmax targets; the first is the paper's."""

_AT_ONCE = 1 << 23  # numbers of a block of features, 64 MiB


@checked
def feature_count(dim: PositiveInt) -> int:
    """D = d^2 (d + 1) / 2, the number of cubic features of tokens in d dimensions; a ValueError for d below 1.

    Examples
    --------
    >>> [feature_count(d) for d in (2, 4, 8, 16, 24)]
    [6, 40, 288, 2176, 7200]
    """
    return dim * dim * (dim + 1) // 2


@checked
def cubic_features(x: Shaped[Any, "... n d"], *, average: bool = False) -> Shaped[Any, "... features"]:
    """The features phi_(bc),e = w_bc G_bc z_e, b <= c, of the last token z, with w_bb = 1 and w_bc = sqrt 2.

    With these weights the least norm on phi is that on all d^3 coefficients. Tokens (..., n, d), one a row, give
    (..., D) in their array type; the pair is the slow index and e the fast one. G is the mean over the tokens with
    `average`. A ValueError if there are fewer than two axes, or products overflow. O(n d^2 + d^3) a sequence.

    References
    ----------
    Yau et al., arXiv 2410.10101, Algorithm 1, on all d^3 coefficients; the symmetric form is derived here.

    Examples
    --------
    >>> cubic_features(np.array([[1.0, 0.0], [1.0, 2.0]])).round(3)
    array([2.   , 4.   , 2.828, 5.657, 4.   , 8.   ])
    """
    x = as_tokens(x)
    return features_of_gram(gram_matrix(x, average=average), x[..., -1, :])


@checked
def cubic_kernel(
    x: Shaped[np.ndarray, "N n d"], other: Shaped[np.ndarray, "M l d"], *, average: bool = False
) -> Float[np.ndarray, "N M"]:
    """Inner products of cubic features without the features: |Z^T Z'|_F^2 (z . z').

    Of tokens (N, n, d) and (M, l, d), whose lengths n and l may differ, the kernel (N, M). A ValueError if the
    dimensions differ or products overflow. O(N M d^2 + (N n + M l) d^2).
    """
    one, another = (pair_products(gram_matrix(z, average=average)) for z in (x, other))
    with np.errstate(over="ignore", invalid="ignore"):  # refused below
        kernel = np.asarray((one @ another.T) * (x[:, -1] @ other[:, -1].T))
    if not np.isfinite(kernel).all():
        raise ValueError("The kernel of x and other overflows: scale the tokens down.")
    return kernel


@checked
def tensor_from_features(
    coefficients: Float[np.ndarray, "D p"], dim: PositiveInt
) -> Float[np.ndarray, "p d d d"]:
    """The tensor M_abce (p, d, d, d), symmetric in b and c, of coefficients (D, p) on the features.

    It has the same norm. A ValueError if there are not D = d^2 (d + 1)/2 rows. O(p d^3).
    """
    if len(coefficients) != feature_count(dim):
        raise ValueError(
            f"coefficients has shape {coefficients.shape}: ({feature_count(dim):.6g}, p) is needed, the number of "
            "features."
        )
    outputs = coefficients.shape[1]
    rows, columns = pairs_of(dim)
    # M_bc and M_cb share one feature: G_bc (M_bc + M_cb) = (w G_bc) (w M_bc) with w^2 = 2
    entries = coefficients.reshape(len(rows), dim, outputs).transpose(2, 0, 1) / _weights(dim)[:, None]
    tensor = np.zeros((outputs, dim, dim, dim), dtype=entries.dtype)
    tensor[:, rows, columns] = entries
    tensor[:, columns, rows] = entries
    return tensor


@checked
def features_from_tensor(tensor: Float[np.ndarray, "p d d d"]) -> Float[np.ndarray, "D p"]:
    """The coefficients (D, p) on the features of a tensor M (p, d, d, d).

    Only what is symmetric in b and c acts: exactly zero for models that are zero as functions. A ValueError for another
    shape. O(p d^3).
    """
    symmetric = (tensor + tensor.transpose(0, 2, 1, 3)) / 2
    entries = pair_products(symmetric.transpose(3, 0, 1, 2))
    return np.ascontiguousarray(entries.transpose(2, 0, 1).reshape(-1, len(tensor)))


@checked
def softmax_feature_count(kind: SoftmaxKind, dim: PositiveInt) -> int:
    """The number of features of a set of `softmax_features`: the cubic ones, and d for the query and for the row mean.

    Examples
    --------
    >>> [softmax_feature_count(kind, 8) for kind in ("plain", "aug", "cent")]
    [288, 296, 304]
    """
    return feature_count(dim) + {"plain": 0, "aug": 1, "cent": 2}[kind] * dim


@checked
def softmax_features(x: Shaped[Any, "... k d"], kind: SoftmaxKind) -> Shaped[Any, "... k features"]:
    """Features of token matrices for softmax targets, of every row as the query in turn.

    To first order in Theta softmax attention is the row mean plus x_q^T Theta times the centred Gram matrix over k:
    "cent" errs in second order only. "plain" is the paper's, the others are not. O(k d^2 + k d^3).

    Parameters
    ----------
    x : array (..., k, d)
        Token matrices.
    kind : {"plain", "aug", "cent"}
        "plain": the cubic features of G = X^T X and the query x_q. "aug": those and the row mean. "cent": the cubic
        features of the Gram matrix of the tokens less their mean, with x_q, and x_q and the row mean themselves.

    Returns
    -------
    array (..., k, F)
        F = `softmax_feature_count`: the cubic ones come first, then x_q, then the mean. Errors as `cubic_features`.

    Examples
    --------
    >>> x = np.array([[1.0, 0.0], [1.0, 2.0]])
    >>> softmax_features(x, "plain").shape, softmax_features(x, "cent").shape
    ((2, 6), (2, 10))
    """
    x = as_tokens(x)
    xp = namespace(x)
    with np.errstate(over="ignore", invalid="ignore"):  # refused in the next lines
        mean = xp.mean(x, axis=-2, keepdims=True)
        centred = x - mean
    require_no_overflow(centred, xp)
    gram = gram_matrix(centred if kind == "cent" else x)
    cubic, means = features_of_gram(gram[..., None, :, :], x), xp.broadcast_to(mean, x.shape)
    parts = {"plain": [cubic], "aug": [cubic, means], "cent": [cubic, x, means]}[kind]
    return xp.concat(parts, axis=-1) if parts[1:] else cubic


def gram_matrix(x: Shaped[Any, "... n d"], *, average: bool = False) -> Shaped[Any, "... d d"]:
    """G = X^T X of tokens, or its mean over them; entries that overflow are infinite."""
    xp = namespace(x)
    with np.errstate(over="ignore", invalid="ignore"):
        gram = xp.matmul(xp.matrix_transpose(x), x)
        return gram / x.shape[-2] if average else gram


def features_of_gram(gram: Shaped[Any, "... d d"], z: Shaped[Any, "... d"]) -> Shaped[Any, "... features"]:
    """The features (..., D) of Gram matrices and queries, whose leading axes broadcast; refused where they overflow."""
    xp = namespace(gram, z)
    numbers = math.prod(z.shape[:-1]) * feature_count(z.shape[-1])
    require_memory(f"The features of {tuple(z.shape)} tokens", 8 * numbers, advice="give fewer at a time")
    with np.errstate(over="ignore", invalid="ignore"):  # refused in the next line
        outer = pair_products(gram)[..., :, None] * z[..., None, :]
    require_no_overflow(outer, xp)
    return xp.reshape(outer, (*outer.shape[:-2], outer.shape[-2] * outer.shape[-1]))


def pairs_of(dim: int) -> tuple[Int[np.ndarray, " pairs"], Int[np.ndarray, " pairs"]]:
    """The pairs b <= c of entries of a symmetric matrix, in the order of the features."""
    return np.triu_indices(dim)


def pair_products(gram: Shaped[Any, "... d d"]) -> Shaped[Any, "... pairs"]:
    """The weighted entries w_bc G_bc, b <= c, of symmetric matrices, of the same norm: w_bb = 1 and w_bc = sqrt 2."""
    xp = namespace(gram)
    d = gram.shape[-1]
    rows, columns = pairs_of(d)
    flat = xp.reshape(gram, (*gram.shape[:-2], d * d))
    with np.errstate(over="ignore", invalid="ignore"):
        return xp.take(flat, xp.asarray(rows * d + columns), axis=-1) * xp.asarray(
            _weights(d), dtype=gram.dtype
        )


def as_tokens(x: Any, dim: int | None = None) -> Any:
    """Tokens (..., n, d) in floating point, whole numbers in double precision; a ValueError for another shape."""
    xp = namespace(x)
    if x.ndim < 2 or 0 in x.shape[-2:] or x.shape[-1] != (dim or x.shape[-1]):
        raise ValueError(
            f"The tokens have shape {tuple(x.shape)}: (..., n, {dim or 'd'}) is needed, a token a row."
        )
    return x if xp.isdtype(x.dtype, "real floating") else as_floating(x, xp.float64, xp)


def predicted(features: Callable[[Any], Any], x: Any, coefficients: np.ndarray) -> Any:
    """features(x) @ coefficients in blocks of sequences, in the array type of tokens x."""
    xp = namespace(x)
    flat = xp.reshape(x, (-1, *x.shape[-2:]))
    own = xp.asarray(coefficients, dtype=x.dtype)
    with np.errstate(over="ignore", invalid="ignore"):  # refused below
        parts = blocks(flat.shape[0], x.shape[-2] * len(coefficients))
        together = xp.concat([xp.matmul(features(flat[part, ...]), own) for part in parts])
    require_no_overflow(together, xp)
    return xp.reshape(together, (*x.shape[:-2], *together.shape[1:]))


def blocks(rows: int, numbers_a_row: int) -> Iterator[slice]:
    """Slices of rows whose features take 64 MiB at most; at least one slice, and a row in each if there are any."""
    step = max(1, _AT_ONCE // max(1, numbers_a_row))
    for first in range(0, max(1, rows), step):
        yield slice(first, min(first + step, rows))


def require_no_overflow(products: Any, xp: Any) -> None:
    """Raise if products of tokens are not finite."""
    if not bool(xp.all(xp.isfinite(products))):
        raise ValueError(
            f"Products of the tokens overflow in {products.dtype}: scale the tokens down or use a wider type."
        )


def _weights(dim: int) -> np.ndarray:
    rows, columns = pairs_of(dim)
    return np.where(rows == columns, 1.0, np.sqrt(2.0))

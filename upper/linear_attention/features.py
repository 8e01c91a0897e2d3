"""Cubic features: linear attention is linear regression in the entries of G times those of the query."""

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
from jaxtyping import Float, Int, Shaped

from attention._arrays import as_floating, namespace, shown
from attention.memory import require_memory as require_bytes
from attention.validation import count, real_array, require_array, require_flag, require_shape

__all__ = [
    "blocks",
    "cubic_features",
    "cubic_kernel",
    "feature_count",
    "features_from_tensor",
    "floating",
    "pair_products",
    "pairs_of",
    "prefix_features",
    "require_no_overflow",
    "tensor_from_features",
]

_AT_ONCE = 1 << 23  # numbers of a block of features, 64 MiB


def feature_count(d: int) -> int:
    """D = d^2 (d + 1) / 2, the number of cubic features of tokens in d dimensions.

    Raises
    ------
    ValueError
        If `d` is below 1.

    Examples
    --------
    >>> [feature_count(d) for d in (2, 4, 8, 16, 24)]
    [6, 40, 288, 2176, 7200]
    """
    d = count("d", d)
    return d * d * (d + 1) // 2


def pairs_of(d: int) -> tuple[Int[np.ndarray, " pairs"], Int[np.ndarray, " pairs"]]:
    """The pairs b <= c of entries of a symmetric matrix, in the order of the features."""
    return np.triu_indices(d)


def pair_products(x: Shaped[Any, "*batch n d"], *, average: bool = False) -> Shaped[Any, "*batch pairs"]:
    """The weighted entries w_bc G_bc of the Gram matrix, b <= c, with w_bb = 1 and w_bc = sqrt 2.

    Their Euclidean norm is the Frobenius norm of G. O(n d^2) a sequence.
    """
    xp = _require_tokens(x, average)
    x = floating(x)
    d = x.shape[-1]
    rows, columns = pairs_of(d)
    with np.errstate(over="ignore", invalid="ignore"):  # refused below
        gram = xp.matmul(xp.matrix_transpose(x), x)
        if average:
            gram = gram / x.shape[-2]
        flat = xp.reshape(gram, (*gram.shape[:-2], d * d))
        taken = xp.take(flat, xp.asarray(rows * d + columns), axis=-1)
        products = taken * xp.asarray(_weights(d), dtype=x.dtype)
    require_no_overflow(products, xp)
    return products


def cubic_features(
    x: Shaped[Any, "*batch n d"],
    *,
    queries: Shaped[Any, "*batch r d"] | None = None,
    average: bool = False,
) -> Shaped[Any, "*rows features"]:
    """The features phi_(bc),e = w_bc G_bc z_e, b <= c, of the last token z or of given queries.

    Parameters
    ----------
    x : array (..., n, d)
        Tokens, one a row.
    queries : array (..., r, d), optional
        Queries in place of the last token, r a sequence.
    average : bool
        Whether G is the mean over the tokens instead of their sum.

    Returns
    -------
    array (..., D), or (..., r, D) with queries
        In the array type of `x`; the pair is the slow index and e the fast one.

    Raises
    ------
    ValueError
        If `x` has fewer than two axes, the queries are not of its sequences and dimension, or products overflow.

    Notes
    -----
    w_bc = sqrt 2 off the diagonal, so that the least norm on phi is the least norm on all d^3 coefficients.
    O(n d^2 + d^3) a sequence.

    References
    ----------
    Yau et al., arXiv 2410.10101, Algorithm 1, on all d^3 coefficients; the symmetric form is derived here.

    Examples
    --------
    >>> cubic_features(np.array([[1.0, 0.0], [1.0, 2.0]])).round(3)
    array([2.   , 4.   , 2.828, 5.657, 4.   , 8.   ])
    """
    xp = _require_tokens(x, average)
    if queries is not None:
        _require_queries(queries, x)
        # of two types the wider one has the digits
        x, queries = floating(x), floating(queries)
        x, queries = (xp.astype(array, xp.result_type(x, queries), copy=False) for array in (x, queries))
    _require_room(x, 1 if queries is None else queries.shape[-2])
    pairs = pair_products(x, average=average)
    if queries is None:
        z = floating(x[..., -1, :])
    else:
        pairs, z = pairs[..., None, :], floating(queries)
    with np.errstate(over="ignore", invalid="ignore"):  # refused below
        outer = pairs[..., :, None] * z[..., None, :]
    require_no_overflow(outer, xp)
    return xp.reshape(outer, (*outer.shape[:-2], outer.shape[-2] * outer.shape[-1]))


def prefix_features(
    x: Shaped[Any, "*batch n d"], *, average: bool = False
) -> Shaped[Any, "*batch n features"]:
    """The features of every prefix of a sequence: position t is the query and G is that of the tokens up to t.

    Parameters
    ----------
    x : array (..., n, d)
        Sequences of tokens, one a row.
    average : bool
        Whether G is the mean over the tokens so far.

    Returns
    -------
    array (..., n, D)
        In the array type of `x`: a sequence gives a row a position.

    Raises
    ------
    ValueError
        If `x` has fewer than two axes, or products overflow.

    Notes
    -----
    By cumulative sums of the products of tokens. O(n d^3) a sequence, as much as is returned.
    """
    xp = _require_tokens(x, average)
    x = floating(x)
    n, d = x.shape[-2:]
    _require_room(x, n)
    rows, columns = (xp.asarray(index) for index in pairs_of(d))
    weights = xp.asarray(_weights(d), dtype=x.dtype)
    with np.errstate(over="ignore", invalid="ignore"):  # refused below
        products = xp.take(x, rows, axis=-1) * xp.take(x, columns, axis=-1) * weights
        cumulated = xp.cumulative_sum if hasattr(xp, "cumulative_sum") else xp.cumsum
        gram = cumulated(products, axis=-2)
        if average:
            gram = gram / xp.reshape(xp.arange(1, n + 1, dtype=x.dtype), (n, 1))
        outer = gram[..., :, None] * x[..., None, :]
    require_no_overflow(outer, xp)
    return xp.reshape(outer, (*outer.shape[:-2], feature_count(d)))


def cubic_kernel(
    x: Shaped[np.ndarray, "N n d"], other: Shaped[np.ndarray, "M l d"], *, average: bool = False
) -> Float[np.ndarray, "N M"]:
    """Inner products of cubic features without the features: |Z^T Z'|_F^2 (z . z').

    Parameters
    ----------
    x, other : array (N, n, d), (M, l, d)
        Tokens, one a row; the lengths n and l may differ.
    average : bool
        Whether G is the mean over the tokens.

    Returns
    -------
    array (N, M)
        The kernel.

    Raises
    ------
    ValueError
        If the tokens have different dimensions, a shape is wrong, or products overflow.

    Notes
    -----
    |Z^T Z'|_F^2 = <G, G'> is a product of d (d + 1)/2 numbers: O(N M d^2 + (N n + M l) d^2).
    """
    for name, array in (("x", x), ("other", other)):
        require_array(name, array, ("N", "n", "d"))
    if x.shape[-1] != other.shape[-1]:
        raise ValueError(
            f"The tokens have {x.shape[-1]} and {other.shape[-1]} dimensions: the same is needed."
        )
    # whole numbers would wrap around, and of two types the wider one has the digits
    x, other = floating(x), floating(other)
    x, other = (array.astype(np.result_type(x, other), copy=False) for array in (x, other))
    one, another = (pair_products(array, average=average) for array in (x, other))
    with np.errstate(over="ignore", invalid="ignore"):  # refused below
        kernel = np.asarray((one @ another.T) * (x[:, -1] @ other[:, -1].T))
    if not np.isfinite(kernel).all():
        raise ValueError(f"The kernel of x and other overflows in {kernel.dtype}: scale the tokens down.")
    return kernel


def tensor_from_features(coefficients: Float[np.ndarray, "D p"], d: int) -> Float[np.ndarray, "p d d d"]:
    """The tensor M_abce, symmetric in b and c, of a linear function of the features.

    Parameters
    ----------
    coefficients : array (D, p)
        One column an output.
    d : int
        Dimension of the tokens.

    Returns
    -------
    array (p, d, d, d)
        M, of the same norm as the coefficients.

    Raises
    ------
    ValueError
        If there are not D = d^2 (d + 1)/2 rows.

    Notes
    -----
    O(p d^3).
    """
    d = count("d", d)
    coefficients = real_array("coefficients", coefficients)
    if coefficients.ndim != 2 or len(coefficients) != feature_count(d) or not coefficients.shape[1]:
        raise ValueError(
            f"coefficients has shape {coefficients.shape}: ({shown(feature_count(d))}, p) is needed, the number of "
            "features."
        )
    outputs = coefficients.shape[1]
    rows, columns = pairs_of(d)
    # M_bc and M_cb share one feature: G_bc (M_bc + M_cb) = (w G_bc) (w M_bc) with w^2 = 2
    entries = coefficients.reshape(len(rows), d, outputs).transpose(2, 0, 1) / _weights(d)[:, None]
    tensor = np.zeros((outputs, d, d, d), dtype=entries.dtype)
    tensor[:, rows, columns] = entries
    tensor[:, columns, rows] = entries
    return tensor


def features_from_tensor(tensor: Float[np.ndarray, "p d d d"]) -> Float[np.ndarray, "D p"]:
    """The coefficients on the features of a tensor M, of which only what is symmetric in b and c acts.

    Parameters
    ----------
    tensor : array (p, d, d, d)
        M_abce, symmetric or not.

    Returns
    -------
    array (D, p)
        One column an output.

    Raises
    ------
    ValueError
        If the shape is no (p, d, d, d).

    Notes
    -----
    O(p d^3). Exactly zero for models that are zero as functions.
    """
    tensor = real_array("The tensor", tensor, ("p", "d", "d", "d"))
    outputs, d = tensor.shape[:2]
    require_shape("The tensor", tensor, (outputs, d, d, d))
    rows, columns = pairs_of(d)
    entries = (tensor[:, rows, columns] + tensor[:, columns, rows]) / 2 * _weights(d)[:, None]
    return np.ascontiguousarray(entries.transpose(1, 2, 0).reshape(feature_count(d), outputs))


def floating(x: Any) -> Any:
    """Tokens as they are if they are floats; whole numbers in double precision."""
    xp = namespace(x)
    return x if xp.isdtype(x.dtype, "real floating") else as_floating(x, xp.float64, xp)


def blocks(rows: int, numbers_a_row: int) -> Iterator[slice]:
    """Slices of rows whose features take 64 MiB at most, one row at least."""
    step = max(1, _AT_ONCE // max(1, numbers_a_row))
    for first in range(0, rows, step):
        yield slice(first, min(first + step, rows))


def _require_tokens(x: Any, average: bool) -> Any:
    """The namespace of tokens (..., n, d), one at least in a sequence."""
    xp = namespace(x)
    require_flag("average", average)
    if x.ndim < 2 or 0 in x.shape[-2:]:
        raise ValueError(f"The tokens have shape {tuple(x.shape)}: (..., n, d) is needed, a token a row.")
    return xp


def require_no_overflow(products: Any, xp: Any) -> None:
    """Raise where products of tokens are no finite numbers."""
    if not bool(xp.all(xp.isfinite(products))):
        raise ValueError(
            f"Products of the tokens overflow in {products.dtype}, or the tokens hold NaN or infinite entries: finite "
            "ones are needed. Scale the tokens down or use a wider type."
        )


def _require_queries(queries: Any, x: Any) -> None:
    namespace(x, queries)
    given, wanted = tuple(queries.shape), (*x.shape[:-2], "r", x.shape[-1])
    if len(given) != len(wanted) or (*given[:-2], *given[-1:]) != (*wanted[:-2], *wanted[-1:]):
        raise ValueError(
            f"The queries have shape {given}: ({', '.join(map(str, wanted))}) is needed, as the tokens have."
        )


def _require_room(x: Any, queries: int) -> None:
    numbers = math.prod(x.shape[:-2]) * queries * feature_count(x.shape[-1])
    require_bytes(
        f"The features of an array of shape {tuple(x.shape)}", 8 * numbers, advice="give fewer at a time"
    )


def _weights(d: int) -> np.ndarray:
    rows, columns = pairs_of(d)
    return np.where(rows == columns, 1.0, np.sqrt(2.0))

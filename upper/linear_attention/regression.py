"""Least squares in the cubic features: by normal equations, by orthogonal factors, or by the kernel."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Literal, get_args

import numpy as np
from jaxtyping import Shaped

from attention._arrays import (
    count,
    namespace,
    require_callable,
    require_finite,
    require_flag,
    require_instance,
    require_shape,
)
from upper.linear_attention._factors import least_norm_of_gram
from upper.linear_attention._solvers import Block, by_normal_equations, by_singular_values, solve
from upper.linear_attention.features import (
    blocks,
    cubic_features,
    cubic_kernel,
    feature_count,
    gram_pairs,
    tensor_from_features,
)
from upper.linear_attention.fitted import CubicRegression, FeatureRegression
from upper.linear_attention.moments import MEMORY, FeatureMoments, require_memory

__all__ = [
    "Method",
    "regress",
    "regress_blocks",
    "regress_features",
    "regress_moments",
]

Method = Literal["auto", "cholesky", "svd", "kernel"]

_ALIKE = 64.0  # sizes of coordinates that one unit does for


def regress(
    x: Shaped[np.ndarray, "N n d"],
    y: Shaped[np.ndarray, "N p"],
    *,
    method: Method = "auto",
    least_norm: bool = False,
    rank: int | None = None,
    average: bool = False,
    memory: int = MEMORY,
) -> CubicRegression:
    """Learn linear attention from examples by least squares in the cubic features.

    Parameters
    ----------
    x : array (N, n, d)
        Sequences of tokens, one a row; the last one is the query.
    y : array (N, p)
        Labels.
    method : {"auto", "cholesky", "svd", "kernel"}
        How to solve it: by normal equations with corrections, by singular values of a triangle gathered block by
        block, or by the kernel of N x N numbers. "auto" takes normal equations from 1.5 D examples on if they are well
        conditioned, the kernel below D examples if it is, and singular values otherwise.
    least_norm : bool
        Whether fewer examples than features are welcome: the solution is then one of many, that of least norm.
    rank : int, optional
        The rank of the features on the domain, where it is known to be below D: as many examples are needed then.
    average : bool
        Whether G is the mean over the tokens.
    memory : int
        Most bytes for a matrix of features by features.

    Returns
    -------
    CubicRegression
        The tensor, callable, with its rank and residual.

    Raises
    ------
    ValueError
        Before any work: if there are fewer examples than D, or than `rank`, and `least_norm` is not set; if an entry
        is not finite; if the matrix does not fit the memory. After it, if "cholesky" or "kernel" was asked for and the
        equations are too badly conditioned.

    Notes
    -----
    One matrix serves all outputs. O(N D^2 + D^3), D = d^2 (d + 1)/2, in D^2 numbers; by the kernel
    O(N^2 (N + d^2)) in N^2. At N = D the condition is that of a square random matrix and its square is out of
    reach of normal equations, hence the singular values; with more than 3000 features a complete orthogonal
    factorisation takes their place. Coordinates whose sizes differ by more than 64 are brought to equal units, and the
    least norm is in those given; with fewer examples than features one unit is taken for all. A correction solves the
    same equations for the residual.

    References
    ----------
    Yau et al., arXiv 2410.10101, Algorithm 1 and Theorem 2.2; this form is derived here.

    Examples
    --------
    >>> from upper.linear_attention import make_linear_attention
    >>> model = make_linear_attention(heads=2, dim=3, rng=0)
    >>> x = np.random.default_rng(1).standard_normal((80, 6, 3))
    >>> learned = regress(x, model(x))
    >>> learned.rank, bool(learned.residual < 1e-12)
    (18, True)
    """
    _require_real(x=x, y=y)
    require_shape("x", x, ("N", "n", "d"))
    require_shape("y", y, (len(x), "p"))
    require_flag("least_norm", least_norm)
    require_flag("average", average)
    d = x.shape[-1]
    features = feature_count(d)
    _require_method(method)
    _require_examples(len(x), features, least_norm, rank)
    small = method == "kernel" or (method == "auto" and len(x) < features)
    require_memory(len(x) if small else features, memory=memory)
    for name, array in (("x", x), ("y", y)):
        require_finite(name, array)
    # powers of two change no digit, and keep products of six tokens' entries within the numbers
    units, y_unit = _units(x, each=not small), _unit(y)
    scales = _feature_units(units)
    x, y = np.asarray(x, dtype=float) / units, np.asarray(y, dtype=float) / y_unit

    def stream() -> Iterable[Block]:
        for part in blocks(len(x), features):
            yield cubic_features(x[part], average=average), y[part]

    def kernel() -> np.ndarray:
        return cubic_kernel(x, x, average=average)

    found = solve(stream, kernel, y, features, method, memory, scales)
    found = replace(found, coefficients=found.coefficients * y_unit)
    if not np.isfinite(found.coefficients).all() or (
        y_unit and found.rank and not found.coefficients.any() and y.any()
    ):
        raise ValueError(
            f"The tokens are of size {units.max():.0e} and the labels of {y_unit:.0e}: the coefficients between them "
            "are beyond the range of the numbers. Give both in other units."
        )
    _require_rank(found.rank, rank, least_norm)
    return _cubic(found, d, average)


def regress_features(
    phi: Shaped[np.ndarray, "N D"],
    y: Shaped[np.ndarray, "N p"],
    *,
    method: Method = "auto",
    least_norm: bool = False,
    rank: int | None = None,
    memory: int = MEMORY,
) -> FeatureRegression:
    """Least squares on features that are there, as `regress` solves it.

    Parameters
    ----------
    phi : array (N, D)
        Features, a row an example.
    y : array (N, p)
        Labels.
    method, least_norm, rank, memory
        As in `regress`.

    Returns
    -------
    FeatureRegression
        Coefficients, rank and residual.

    Raises
    ------
    ValueError
        As `regress` does.

    Notes
    -----
    As `regress`.

    References
    ----------
    Derived here.
    """
    _require_real(phi=phi, y=y)
    require_shape("phi", phi, ("N", "D"))
    require_shape("y", y, (len(phi), "p"))
    require_flag("least_norm", least_norm)
    _require_method(method)
    features = phi.shape[1]
    _require_examples(len(phi), features, least_norm, rank)
    small = method == "kernel" or (method == "auto" and len(phi) < features)
    require_memory(len(phi) if small else features, memory=memory)
    for name, array in (("phi", phi), ("y", y)):
        require_finite(name, array)
    phi, y = np.asarray(phi, dtype=float), np.asarray(y, dtype=float)

    def stream() -> Iterable[Block]:
        for part in blocks(len(phi), features):
            yield phi[part], y[part]

    found = solve(stream, lambda: phi @ phi.T, y, features, method, memory)
    _require_rank(found.rank, rank, least_norm)
    return found


def regress_blocks(
    stream: Callable[[], Iterable[Block]],
    *,
    features: int,
    outputs: int,
    moments: FeatureMoments | None = None,
    memory: int = MEMORY,
) -> FeatureRegression:
    """Least squares on features that come in blocks, by normal equations or singular values.

    Parameters
    ----------
    stream : callable
        Gives, each time it is called, the same blocks (phi (rows, D), y (rows, p)); it is called up to five times.
    features, outputs : int
        D and p.
    moments : FeatureMoments, optional
        Those of the same blocks, where they were gathered before; they are empty afterwards.
    memory : int
        Most bytes for a matrix of features by features.

    Returns
    -------
    FeatureRegression
        Coefficients of least norm, rank and residual.

    Raises
    ------
    ValueError
        If the matrix does not fit the memory, or a block is malformed.

    Notes
    -----
    As `regress`, without the kernel; no more than one block is held.

    References
    ----------
    Derived here.
    """
    require_callable("stream", stream, needed="a function that gives the blocks")
    if moments is not None:
        require_instance("moments", moments, FeatureMoments, needed="FeatureMoments, or None,")
    if moments is None:
        moments = FeatureMoments(features, outputs, memory=memory)
        for phi, y in stream():
            moments.add_features(phi, y)
    rows = moments.count
    return by_normal_equations(stream, moments) or by_singular_values(stream, rows, features, outputs)


def regress_moments(moments: FeatureMoments) -> FeatureRegression:
    """Least squares from gathered moments alone, of least norm where several are best.

    Parameters
    ----------
    moments : FeatureMoments
        Sums of products; they stay as they are.

    Returns
    -------
    FeatureRegression, or CubicRegression where all rows are of tokens
        The residual is from the moments too, and means nothing below 1e-6.

    Raises
    ------
    ValueError
        If no rows were added.

    Notes
    -----
    By Cholesky factors of the D x D matrix, or where that is nearly singular by its eigenvalues, O(D^3): those above
    1e-13 of the largest count, which is 3e-7 in singular values. Without the examples there is nothing to correct the
    solution with: expect errors of the condition of the features, squared, times 1e-16.

    References
    ----------
    Yau et al., arXiv 2410.10101, Algorithm 1.
    """
    require_instance("moments", moments, FeatureMoments, needed="FeatureMoments")
    if moments.count == 0:
        raise ValueError("No rows were added to the moments: add examples first.")
    coefficients, rank, condition = least_norm_of_gram(moments.lower_gram(), moments.cross)
    explained = float(np.vdot(coefficients, moments.cross))
    residual = np.sqrt(max(0.0, 1 - explained / moments.squares)) if moments.squares else 0.0
    found = FeatureRegression(coefficients, rank, condition, float(residual), moments.count, "moments")
    return found if moments.dim is None else _cubic(found, moments.dim, moments.average)


def _cubic(found: FeatureRegression, d: int, average: bool) -> CubicRegression:
    return CubicRegression(**vars(found), tensor=tensor_from_features(found.coefficients, d), average=average)


def _require_real(**arrays: np.ndarray) -> None:
    for name, array in arrays.items():
        if not namespace(array).isdtype(array.dtype, ("real floating", "integral", "bool")):
            raise ValueError(f"{name} is an array of {array.dtype}: real numbers are needed.")


def _unit(array: np.ndarray) -> float:
    """The power of two next to the largest entry; 1 for zeros."""
    return _power(float(np.max(np.abs(array), initial=0.0)))


def _power(size: float) -> float:
    return float(2.0 ** np.round(np.log2(size))) if size else 1.0


def _units(x: np.ndarray, *, each: bool) -> np.ndarray:
    """Units of the coordinates: one for all where they are within a factor of 64, else that of each."""
    largest = np.abs(x).max(axis=(0, 1))
    units = np.array([_power(float(one)) for one in largest])
    there = units[largest > 0]
    if not each or len(there) == 0 or there.max() <= _ALIKE * there.min():
        return np.full(len(units), there.max() if len(there) else 1.0)
    return units


def _feature_units(units: np.ndarray) -> np.ndarray:
    """The unit of each feature, the product of those of three coordinates."""
    rows, columns = gram_pairs(len(units))
    return ((units[rows] * units[columns])[:, None] * units).reshape(-1)


def _require_method(method: str) -> None:
    if not isinstance(method, str) or method not in get_args(Method):
        raise ValueError(
            f"The method is {method!r}: one of {', '.join(map(repr, get_args(Method)))} is needed."
        )


def _require_rank(found: int, rank: int | None, least_norm: bool) -> None:
    if rank is not None and found < rank and not least_norm:
        raise ValueError(
            f"The examples have rank {found}, and that of the domain is said to be {rank}: they do not determine the "
            "model there. Give more examples, or ask for the solution of least norm (least_norm=True)."
        )


def _require_examples(rows: int, features: int, least_norm: bool, rank: int | None) -> None:
    needed = features if rank is None else count("rank", rank)
    if needed > features:
        raise ValueError(f"rank is {rank}, and there are {features} features: the rank is at most that.")
    if rows < needed and not least_norm:
        what = "features" if rank is None else "dimensions that the features span on the domain"
        raise ValueError(
            f"There are {rows} examples and {needed} {what}: the examples do not determine the model. Give at least "
            f"{needed}, or ask for the solution of least norm (least_norm=True)."
        )

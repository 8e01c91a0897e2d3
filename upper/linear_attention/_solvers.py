"""How the regression is solved: by normal equations, by singular values of a triangle, or by the kernel."""

from collections.abc import Callable, Iterable
from dataclasses import replace

import numpy as np
from scipy.linalg import cho_solve

from upper.linear_attention._factors import (
    EXACT_ENOUGH,
    cholesky_in_place,
    in_units,
    keep_above,
    least_norm_of_gram,
    least_norm_of_triangle,
    restore_below,
    stacked_triangle,
)
from upper.linear_attention._pivoted import least_norm_by_pivots
from upper.linear_attention.fitted import FeatureRegression
from upper.linear_attention.moments import FeatureMoments

__all__ = ["Block", "by_normal_equations", "by_singular_values", "solve"]

_NEAR = 1.5  # rows per feature below which the normal equations are too badly conditioned
_CORRECTIONS = 2

Block = tuple[np.ndarray, np.ndarray]


def solve(
    stream: Callable[[], Iterable[Block]],
    kernel: Callable[[], np.ndarray],
    y: np.ndarray,
    features: int,
    method: str,
    memory: int,
    scales: np.ndarray | None = None,
) -> FeatureRegression:
    rows, outputs = y.shape
    found = None
    # the units of the features matter to the least norm alone: in one unit for all they do not
    even = scales is None or bool(np.all(scales == scales[0]))
    if method == "kernel" or (method == "auto" and rows < features):
        roomy = 48 * rows * features < memory and method == "auto"
        found = _by_kernel(stream, kernel, y, features, or_none=roomy)
    if method == "cholesky" or (method == "auto" and rows >= _NEAR * features):
        moments = FeatureMoments(features, outputs, memory=1 << 62)  # what is allowed was asked before
        for phi, labels in stream():
            moments.add_features(phi, labels)
        found = by_normal_equations(stream, moments, dependent=even)
    if found is None and method == "cholesky":
        raise ValueError(
            f"The {features} features are so nearly dependent on these {rows} examples that normal equations do not "
            'tell their rank: use the method "svd".'
        )
    if found is None:
        return by_singular_values(stream, rows, features, outputs, scales)
    return found if scales is None else replace(found, coefficients=in_units(found.coefficients, scales))


def by_normal_equations(
    stream: Callable[[], Iterable[Block]], moments: FeatureMoments, *, dependent: bool = True
) -> FeatureRegression | None:
    """By normal equations, corrected with the residuals of the examples; None where they are too ill."""
    cross, rows, squares = moments.cross, moments.count, moments.squares
    lower = moments.take_lower()
    diagonal = keep_above(lower)
    reciprocal = cholesky_in_place(lower)
    if reciprocal < EXACT_ENOUGH:
        if not dependent:
            return None
        restore_below(lower, diagonal)
        by_pivots = least_norm_by_pivots(lower, cross, stream)
        if by_pivots is None:
            return None
        _, residual = _residual(stream, by_pivots[0])
        return FeatureRegression(*by_pivots, _share(residual, squares), rows, "cholesky")
    coefficients = cho_solve((lower, True), cross, check_finite=False)
    for _ in range(_CORRECTIONS):
        wrong, _ = _residual(stream, coefficients)
        coefficients += cho_solve((lower, True), wrong, check_finite=False)
    _, residual = _residual(stream, coefficients)
    condition = float(reciprocal**-0.5)
    return FeatureRegression(coefficients, len(cross), condition, _share(residual, squares), rows, "cholesky")


def by_singular_values(
    stream: Callable[[], Iterable[Block]],
    rows: int,
    features: int,
    outputs: int,
    scales: np.ndarray | None = None,
) -> FeatureRegression:
    """By the singular values of the triangle of the features: least norm, whatever the rank."""
    if rows < features:  # their triangle would be larger than they are
        triangle, rotated = (np.concatenate(parts) for parts in zip(*stream(), strict=True))
        squares = float(np.vdot(rotated, rotated))
    else:
        triangle, rotated, rows, squares = stacked_triangle(stream(), features, outputs)
    coefficients, rank, condition = least_norm_of_triangle(triangle, rotated, scales)
    _, residual = _residual(stream, coefficients if scales is None else coefficients * scales[:, None])
    return FeatureRegression(coefficients, rank, condition, _share(residual, squares), rows, "svd")


def _by_kernel(
    stream: Callable[[], Iterable[Block]],
    kernel: Callable[[], np.ndarray],
    y: np.ndarray,
    features: int,
    *,
    or_none: bool,
) -> FeatureRegression | None:
    """By the kernel: the labels as combinations of the examples' own features; None, if it may be, where it is ill."""
    lower = np.asfortranarray(kernel())
    reciprocal = cholesky_in_place(lower)
    if reciprocal < EXACT_ENOUGH:
        return None if or_none else _by_spectrum(stream, kernel(), y, features)
    coefficients = np.zeros((features, y.shape[1]))
    wrong = y
    for _ in range(1 + _CORRECTIONS):
        coefficients += _from_dual(stream, cho_solve((lower, True), wrong, check_finite=False), features)
        wrong = y - np.concatenate([phi @ coefficients for phi, _ in stream()])
    residual = float(np.vdot(wrong, wrong))
    share = _share(residual, float(np.vdot(y, y)))
    return FeatureRegression(coefficients, len(y), float(reciprocal**-0.5), share, len(y), "kernel")


def _by_spectrum(
    stream: Callable[[], Iterable[Block]], kernel: np.ndarray, y: np.ndarray, features: int
) -> FeatureRegression:
    """By the eigenvalues of the kernel, where examples depend on one another."""
    dual, rank, condition = least_norm_of_gram(kernel, y, by_eigenvalues=True)
    coefficients = _from_dual(stream, dual, features)
    _, residual = _residual(stream, coefficients)
    return FeatureRegression(
        coefficients, rank, condition, _share(residual, float(np.vdot(y, y))), len(y), "kernel"
    )


def _from_dual(stream: Callable[[], Iterable[Block]], dual: np.ndarray, features: int) -> np.ndarray:
    coefficients, first = np.zeros((features, dual.shape[1])), 0
    for phi, _ in stream():
        coefficients += phi.T @ dual[first : first + len(phi)]
        first += len(phi)
    return coefficients


def _residual(stream: Callable[[], Iterable[Block]], coefficients: np.ndarray) -> tuple[np.ndarray, float]:
    """The features times the residuals, and the residuals' sum of squares."""
    cross, squares = np.zeros_like(coefficients), 0.0
    for phi, y in stream():
        wrong = y - phi @ coefficients
        cross += phi.T @ wrong
        squares += float(np.vdot(wrong, wrong))
    return cross, squares


def _share(residual: float, squares: float) -> float:
    return float(np.sqrt(residual / squares)) if squares else 0.0

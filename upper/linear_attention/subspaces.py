"""Moments of features in each feature's own unit, and subspaces carried from one set of units to another."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from scipy.linalg import eigh, qr, solve_triangular

__all__ = ["Seen", "in_own_units", "largest_ratio", "own_units", "seen_by", "spectrum"]

_NEGATIVE = 1e-8  # of the trace: rounding explains no more asymmetry or negative eigenvalues
_UNDERFLOW = 1e-290  # mean squares that have lost digits
_RANGE = 1e-3  # of weights in one class: rounding is not blown up by more than its inverse


@dataclass(frozen=True, eq=False)
class Seen:
    """Eigenvalues of the domain on the null space, a basis of it, and the directions of it that show there."""

    values: np.ndarray
    null_basis: np.ndarray
    directions: np.ndarray


def own_units(name: str, moment: Float[np.ndarray, "D D"]) -> Float[np.ndarray, " D"]:
    """The features' root mean squares, 0 where they are never seen; refuses what is plainly no moment."""
    diagonal = np.diagonal(moment)
    trace = float(diagonal.sum())
    never = diagonal <= _UNDERFLOW
    rounding = _NEGATIVE * max(trace, 0.0)
    if (
        diagonal.min() < -rounding
        or np.abs(moment - moment.T).max() > rounding
        or np.abs(moment[never]).max(initial=0.0) > rounding
    ):
        raise ValueError(
            f"{name} is not symmetric or has an eigenvalue below 0: a mean of phi phi^T is needed, which is positive "
            "semidefinite."
        )
    return np.where(never, 0.0, np.sqrt(np.maximum(diagonal, 0.0)))


def in_own_units(moment: np.ndarray, units: np.ndarray) -> np.ndarray:
    """A copy, of ones on the diagonal, for the features that are seen."""
    seen = np.flatnonzero(units)
    return moment[np.ix_(seen, seen)] / units[seen, None] / units[seen]


def spectrum(name: str, scaled: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Ascending eigenvalues, and eigenvectors, of a moment in its own units; refuses what is plainly none."""
    values, basis = eigh(scaled, driver="evr", check_finite=False)
    if len(values) and values[0] < -_NEGATIVE * len(values):
        raise ValueError(
            f"{name}, with features in units of their root mean squares, has the eigenvalue {values[0]:.1e} below 0: a "
            "mean of phi phi^T is needed, which has none."
        )
    return values, basis


def seen_by(
    hidden: Float[np.ndarray, "D k"],
    units: np.ndarray,
    noise: float,
    domain: Float[np.ndarray, "D D"],
    domain_units: np.ndarray,
    threshold: float,
) -> Seen:
    """What the domain sees of directions that are orthonormal in the data's units; they and it in the given ones."""
    basis, turn, lost = _orthonormalised(hidden, domain_units / units, noise)
    basis /= np.where(domain_units > 0, domain_units, np.inf)[:, None]
    values, vectors = eigh(basis.T @ domain @ basis, driver="evr", overwrite_a=True, check_finite=False)
    del basis
    vanishing = values <= threshold
    deficit = int(np.sum(~vanishing))
    rest = hidden @ np.hstack([lost, turn @ vectors[:, vanishing]])
    del turn, lost, vectors
    null_basis = _orthonormalised(hidden, 1 / units, noise)[0]
    if deficit in (0, hidden.shape[1]):
        return Seen(values, null_basis, null_basis[:, :deficit])
    rest = _orthonormalised(rest, np.ones(len(units)), noise)[0]
    rest = _orthonormalised(rest, 1 / units, noise)[0]
    whole = qr(null_basis.T @ rest, check_finite=False)[0]
    return Seen(values, null_basis, null_basis @ whole[:, rest.shape[1] :])


def largest_ratio(
    domain: Float[np.ndarray, "D D"], units: np.ndarray, basis: np.ndarray, values: np.ndarray
) -> tuple[float, np.ndarray]:
    """The largest of t^T domain t over t^T data t in the range of the data, and a t of norm 1 that attains it.

    The basis and values are the data's eigenvectors and eigenvalues in their own units.
    """
    direction = np.zeros(len(units))
    if not len(values):
        return 0.0, direction
    seen = np.flatnonzero(units)
    whitened = basis / np.sqrt(values) / units[seen, None]
    last = len(values) - 1
    products = whitened.T @ domain[np.ix_(seen, seen)] @ whitened
    ratios, vectors = eigh(products, subset_by_index=(last, last), check_finite=False)
    direction[seen] = whitened @ vectors[:, 0]
    return max(0.0, float(ratios[0])), direction / np.linalg.norm(direction)


def _orthonormalised(
    basis: Float[np.ndarray, "D k"], weights: Float[np.ndarray, " D"], noise: float
) -> tuple[Float[np.ndarray, "D s"], Float[np.ndarray, "k s"], Float[np.ndarray, "k lost"]]:
    """An orthonormal basis of the span of diag(weights) basis, for weights of any range.

    Also the combinations of columns that give it, and those lost because they live where the weights are 0. Entries of
    the orthonormal `basis` are uncertain by `noise`, which weights would blow up. So features go in classes of similar
    weight, heaviest first, and a pivoted QR factorisation tells the combinations that show on a class from those that
    vanish there, which are then 0 on it. Householder's method on rows in order of weight leaves errors relative to
    each row. O(D k^2).
    """
    order = np.argsort(-weights, kind="stable")
    order = order[weights[order] > 0]
    heights = weights[order]
    turn = np.eye(basis.shape[1])
    weighted = np.zeros((len(order), basis.shape[1]))
    first = column = 0
    while first < len(order) and column < len(turn):
        last = first + int(np.sum(heights[first:] >= _RANGE * heights[first]))
        rest = turn[:, column:]
        q, r, _ = qr((basis[order[first:last]] @ rest).T, pivoting=True, check_finite=False)
        turn[:, column:] = rest @ q
        shown = column + int(np.sum(np.abs(np.diagonal(r)) > noise))
        # zero on the classes before, but for rounding
        weighted[first:, column:shown] = basis[order[first:]] @ turn[:, column:shown] * heights[first:, None]
        first, column = last, shown
    turn, lost = turn[:, :column], turn[:, column:]
    found = np.zeros((len(weights), column))
    if not column:
        return found, turn, lost
    weighted = weighted[:, :column]
    lengths = np.linalg.norm(weighted, axis=0)
    weighted /= lengths
    found[order], r = qr(weighted, mode="economic", overwrite_a=True, check_finite=False)
    return found, solve_triangular(r, (turn / lengths).T, trans="T", check_finite=False).T, lost

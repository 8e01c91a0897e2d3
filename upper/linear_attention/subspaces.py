"""Moments of features in each feature's own unit, and subspaces carried from one set of units to another."""

from dataclasses import dataclass

import numpy as np
from scipy.linalg import eigh
from scipy.linalg.blas import dtrmm
from scipy.linalg.lapack import dgeqp3, dgeqrf, dorgqr, dormqr, dtrtri

from attention._arrays import require_finite

__all__ = ["Seen", "in_own_units", "largest_ratio", "orthonormalised", "own_units", "seen_by", "spectrum"]

_NEGATIVE = 1e-8  # of the trace: rounding explains no more asymmetry or negative eigenvalues
_UNDERFLOW = 1e-290  # mean squares that have lost digits
_RANGE = 1e-3  # of one class of units: rounding is not blown up by more than its inverse
_ROWS = 256


def own_units(name: str, moment: np.ndarray) -> np.ndarray:
    """The features' root mean squares, 0 where they are never seen; refuses what is plainly no moment."""
    require_finite(name, moment)
    diagonal = np.diagonal(moment)
    trace = float(diagonal.sum())
    largest = max(float(np.abs(part).max()) for part in np.split(moment, range(_ROWS, len(moment), _ROWS)))
    if trace < 0 or (trace == 0 and largest > 0) or float(diagonal.min()) < -_NEGATIVE * trace:
        raise ValueError(
            f"{name} has the trace {trace:.1e} and the diagonal entry {float(diagonal.min()):.1e}: a mean of phi phi^T "
            "has none below 0."
        )
    never = diagonal <= _UNDERFLOW
    for start in range(0, len(moment), _ROWS):
        part = slice(start, start + _ROWS)
        if np.abs(moment[part] - moment[:, part].T).max() > _NEGATIVE * trace:
            raise ValueError(f"{name} is not symmetric: a mean of phi phi^T is.")
        if np.abs(moment[part][never[part]]).max(initial=0.0) > _NEGATIVE * trace:
            raise ValueError(
                f"{name} is 0 on the diagonal and not beside it, so that it has an eigenvalue below 0: a mean of "
                "phi phi^T has none."
            )
    return np.where(never, 0.0, np.sqrt(np.maximum(diagonal, 0.0)))


def in_own_units(moment: np.ndarray, units: np.ndarray) -> np.ndarray:
    """A copy, of ones on the diagonal, for the features that are seen."""
    seen = np.flatnonzero(units)
    scaled = np.array(moment[np.ix_(seen, seen)], dtype=float, order="C")
    scaled /= units[seen, None]
    scaled /= units[seen]
    return scaled


def spectrum(name: str, scaled: np.ndarray, *, vectors: bool) -> tuple[np.ndarray, np.ndarray]:
    """Ascending eigenvalues, and eigenvectors if wanted, of a matrix that is used up."""
    if not len(scaled):
        return np.zeros(0), scaled
    if vectors:
        values, basis = eigh(scaled.T, driver="evr", overwrite_a=True, check_finite=False)
    else:
        values = eigh(scaled.T, driver="evr", eigvals_only=True, overwrite_a=True, check_finite=False)
        basis = np.zeros((len(values), 0))
    if values[0] < -_NEGATIVE * len(values):
        raise ValueError(
            f"{name}, each feature in units of its root mean square, has the eigenvalue {values[0]:.1e}: a mean of "
            "phi phi^T has none below 0."
        )
    return values, basis


def orthonormalised(
    basis: np.ndarray, weights: np.ndarray, noise: float, *, turns: bool = False
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """An orthonormal basis of the span of diag(weights) basis, for weights of any range.

    Parameters
    ----------
    basis : array (D, k)
        Orthonormal, each entry uncertain by about `noise`.
    weights : array (D,)
        At least 0. Directions of the span of the basis that live where they are 0 are lost.
    noise : float
        What is taken for zero in the basis.
    turns : bool
        Whether the combinations are wanted, instead of an array (k, 0).

    Returns
    -------
    tuple of arrays (D, s), (k, s), (k, k - s)
        The basis; the combinations that give it, diag(weights) basis @ turn; and those that give 0.

    Notes
    -----
    Weights would blow rounding up: entries of 1e-16 that ought to be 0 become the largest ones of their column. So the
    features go in classes of similar weight, heaviest first, and a pivoted QR factorisation tells the combinations
    that show on a class from those that vanish there, which are then 0 on it. Householder's method on rows in order of
    weight leaves errors relative to each row. O(D k^2).
    """
    if not basis.shape[1] or not np.any(weights):
        return np.zeros((len(weights), 0)), np.zeros((basis.shape[1], 0)), np.eye(basis.shape[1])
    order = np.argsort(-weights, kind="stable")
    order = order[weights[order] > 0]
    heights = weights[order]
    together = len(order) == len(weights) and heights[-1] >= _RANGE * heights[0]
    turn, leads = (None, [(0, basis.shape[1])]) if together else _classes(basis, order, heights, noise)
    number = sum(shown for _, shown in leads)
    lost = np.zeros((basis.shape[1], 0)) if turn is None else turn[:, number:].copy()
    turn = None if turn is None else turn[:, :number]
    weighted = np.empty((len(order), number), order="F")
    for part in _parts(number):
        columns = basis[:, part] if turn is None else basis @ turn[:, part]
        weighted[:, part] = columns[order] * heights[:, None]
    column = 0
    for first, shown in leads:
        weighted[:first, column : column + shown] = 0.0  # but for rounding
        column += shown
    if not number:
        return np.zeros((len(weights), 0)), np.zeros((basis.shape[1], 0)), lost
    lengths = np.sqrt(np.einsum("ij,ij->j", weighted, weighted))
    weighted /= lengths
    packed, factors, _, _ = dgeqrf(weighted, lwork=_ROWS * number, overwrite_a=1)
    if turns:
        inverse = dtrtri(packed[:number].copy("F"), overwrite_c=1)[0]
        for part in _parts(number):
            inverse[part.stop :, part] = 0.0
            inverse[part, part] = np.triu(inverse[part, part])
        inverse /= lengths[:, None]
        turn = inverse if turn is None else dtrmm(1.0, inverse, turn, side=1, overwrite_b=1)
        del inverse
    else:
        turn = np.zeros((basis.shape[1], 0))
    found = dorgqr(packed, factors, lwork=_ROWS * number, overwrite_a=1)[0]
    if len(order) == len(weights):
        for part in _parts(number):
            found[order, part] = found[:, part].copy()
        return found, turn, lost
    spread = np.zeros((len(weights), number), order="F")
    spread[order] = found
    return spread, turn, lost


def _classes(
    basis: np.ndarray, order: np.ndarray, heights: np.ndarray, noise: float
) -> tuple[np.ndarray, list[tuple[int, int]]]:
    """Combinations of the basis by the class of weights that they show first on, those that show on none at the end.

    With each class's first place in the order, and how many combinations show on it first.
    """
    turn, leads, first, column = np.eye(basis.shape[1], order="F"), [], 0, 0
    while first < len(order) and column < len(turn):
        last = first + int(np.sum(heights[first:] >= _RANGE * heights[first]))
        block = (basis[order[first:last]] @ turn[:, column:]).T
        packed, _, factors, _, _ = dgeqp3(block, overwrite_a=1)
        rest = turn[:, column:]
        work = _ROWS * len(turn)
        turn[:, column:] = dormqr("R", "N", packed[:, : len(factors)], factors, rest, work, overwrite_c=1)[0]
        shown = int(np.sum(np.abs(np.diagonal(packed)) > noise))
        leads.append((first, shown))
        first, column = last, column + shown
    return turn, leads


def _parts(number: int) -> list[slice]:
    return [slice(start, min(start + _ROWS, number)) for start in range(0, number, _ROWS)]


def _restricted(moment: np.ndarray, units: np.ndarray, basis: np.ndarray) -> np.ndarray:
    """basis^T moment basis with the moment in its own units: no copy of it is made, and the basis is used up."""
    basis /= np.where(units > 0, units, np.inf)[:, None]
    result = np.empty((basis.shape[1], basis.shape[1]))
    for start in range(0, basis.shape[1], _ROWS):
        part = slice(start, start + _ROWS)
        result[:, part] = basis.T @ (moment @ basis[:, part])
    return result


def _complement(columns: np.ndarray) -> np.ndarray:
    """An orthonormal basis of what is orthogonal to independent columns, which are used up."""
    size, number = columns.shape
    others = np.zeros((size, size - number), order="F")
    others[number + np.arange(size - number), np.arange(size - number)] = 1.0
    reflectors, factors, _, _ = dgeqrf(columns, overwrite_a=1)
    work = max(1, 64 * others.shape[1])
    return np.asarray(dormqr("L", "N", reflectors, factors, others, work, overwrite_c=1)[0])


@dataclass(frozen=True, eq=False)
class Seen:
    """Eigenvalues of the domain on the null space, a basis of it, and the directions of it that show there."""

    values: np.ndarray
    null_basis: np.ndarray
    directions: np.ndarray


def seen_by(
    hidden: np.ndarray,
    units: np.ndarray,
    noise: float,
    domain: np.ndarray,
    domain_units: np.ndarray,
    threshold: float,
) -> Seen:
    """What the domain sees of directions that are orthonormal in the data's units; they and it in the given ones."""
    size = hidden.shape[1]
    basis, turn, lost = orthonormalised(hidden, domain_units / units, noise, turns=True)
    form = _restricted(domain, domain_units, basis)
    del basis
    if not len(form):
        del turn, lost
        return Seen(np.zeros(0), orthonormalised(hidden, 1 / units, noise)[0], np.zeros((len(units), 0)))
    values, vectors = eigh(form.T, driver="evr", overwrite_a=True, check_finite=False)
    del form
    vanishing = values <= threshold
    deficit = len(values) - int(vanishing.sum())
    if deficit in (0, size):
        del turn, lost, vectors
        null_basis = orthonormalised(hidden, 1 / units, noise)[0]
        return Seen(values, null_basis, null_basis[:, :deficit])
    rest = (np.hstack([lost, turn @ vectors[:, vanishing]]).T @ hidden.T).T
    del turn, lost, vectors
    rest = orthonormalised(rest, np.ones(len(units)), noise)[0]
    rest = orthonormalised(rest, 1 / units, noise)[0]
    null_basis = orthonormalised(hidden, 1 / units, noise)[0]
    del hidden
    return Seen(values, null_basis, null_basis @ _complement((rest.T @ null_basis).T))


def largest_ratio(
    domain: np.ndarray, units: np.ndarray, basis: np.ndarray, values: np.ndarray
) -> tuple[float, np.ndarray]:
    """The largest of t^T domain t over t^T data t in the range of the data, and a t of norm 1 that attains it.

    The basis and values are the data's eigenvectors, used up, and eigenvalues in their own units.
    """
    direction = np.zeros(len(units))
    if not len(values):
        return 0.0, direction
    seen = np.flatnonzero(units)
    basis /= np.sqrt(values)
    basis /= units[seen, None]
    if len(seen) < len(units):
        domain = domain[np.ix_(seen, seen)]
    products = np.empty((len(values), len(values)))
    for start in range(0, len(values), _ROWS):
        part = slice(start, start + _ROWS)
        products[:, part] = basis.T @ (domain @ basis[:, part])
    last = len(values) - 1
    ratios, vectors = eigh(products.T, subset_by_index=(last, last), overwrite_a=True, check_finite=False)
    direction[seen] = basis @ vectors[:, 0]
    return max(0.0, float(ratios[0])), direction / np.linalg.norm(direction)

"""Cubic features in whole numbers, and exact ranks: the references for the claims on linear attention."""

import itertools
from collections.abc import Sequence

import numpy as np

__all__ = [
    "all_inputs",
    "cubic",
    "distance",
    "gap",
    "gaussian_moment",
    "isserlis",
    "moment",
    "pairs",
    "polynomial_table",
    "polynomials",
    "rank",
    "semidefinite",
    "weighted",
]


def pairs(d: int) -> list[tuple[int, int]]:
    """The pairs b <= c, the slow index first."""
    return [(b, c) for b in range(d) for c in range(b, d)]


def cubic(x: np.ndarray) -> np.ndarray:
    """The products G_bc z_e, b <= c, of token matrices (N, n, d): no weights, so whole numbers stay whole."""
    z = x[:, -1]
    rows = [np.sum(x[:, :, b] * x[:, :, c], axis=1)[:, None] * z for b, c in pairs(x.shape[-1])]
    return np.concatenate(rows, axis=1)


def weighted(x: np.ndarray, off_diagonal_squared: float = 2.0) -> np.ndarray:
    """The features w_bc G_bc z_e, with w_bb = 1 and the square of w_bc given."""
    d = x.shape[-1]
    weights = np.repeat([1.0 if b == c else off_diagonal_squared**0.5 for b, c in pairs(d)], d)
    return np.asarray(cubic(x) * weights)


def all_inputs(values: Sequence[int], n: int, d: int) -> np.ndarray:
    """Every (n, d) matrix with entries among the values."""
    count = len(values) ** (n * d)
    digits = np.arange(count)[:, None] // len(values) ** np.arange(n * d) % len(values)
    return np.asarray(values)[digits].reshape(count, n, d)


def moment(rows: np.ndarray) -> np.ndarray:
    """The sum of v v^T over whole rows v, as whole numbers of any size.

    By floating-point products, which are exact below 2^53.
    """
    if float((rows.astype(float) ** 2).sum()) >= 2.0**53:
        raise OverflowError("the sums are too large to be exact in floating point")
    return _whole(rows.T.astype(float) @ rows.astype(float))


def rank(rows: np.ndarray) -> int:
    """The exact rank of a whole matrix, as that of its products with itself."""
    gram = moment(rows if rows.shape[0] >= rows.shape[1] else rows.T)
    return len(gram) - semidefinite(gram)[1]


def semidefinite(matrix: np.ndarray) -> tuple[bool, int]:
    """Whether a whole symmetric matrix is positive semidefinite, and its nullity if it is.

    Bareiss' elimination on the diagonal: all numbers stay whole, and each pivot is a principal minor.
    """
    left, before = matrix.astype(object), 1
    while len(left):
        diagonal = [left[i, i] for i in range(len(left))]
        if min(diagonal) < 0:
            return False, 0
        at = next((i for i, entry in enumerate(diagonal) if entry), None)
        if at is None:  # no pivot: semidefinite only if nothing is left
            return not left.any(), len(left)
        column, pivot = left[:, at], left[at, at]
        keep = [i for i in range(len(left)) if i != at]
        left = (left * pivot - np.outer(column, column)) // before
        left, before = left[np.ix_(keep, keep)], pivot
    return True, 0


def isserlis(coordinates: Sequence[int]) -> int:
    """E of a product of coordinates of one N(0, I) token: its number of pairings of equal ones."""
    if not coordinates:
        return 1
    first, rest = coordinates[0], coordinates[1:]
    return sum(isserlis([*rest[:i], *rest[i + 1 :]]) for i, partner in enumerate(rest) if partner == first)


def gaussian_moment(d: int, n: int) -> np.ndarray:
    """E of the products of `cubic` features of n Gaussian tokens, token by token of the two sums in G."""
    index = [(b, c, e) for b, c in pairs(d) for e in range(d)]
    found = np.zeros((len(index), len(index)), dtype=object)
    # the tokens that the two entries of G come from (the query is 0), and the number of such choices
    kinds = (((0, 0), 1), ((0, 1), n - 1), ((1, 0), n - 1), ((1, 1), n - 1), ((1, 2), (n - 1) * (n - 2)))
    for (i, (b, c, e)), (j, (b2, c2, e2)) in itertools.product(enumerate(index), repeat=2):
        if j > i:
            continue
        for (first, second), ways in kinds:
            factors: list[list[int]] = [[e, e2], [], []]
            factors[first] += [b, c]
            factors[second] += [b2, c2]
            product = ways
            for one in factors:
                product *= isserlis(one) if product else 0
            found[i, j] = found[j, i] = found[i, j] + product
    return found


def gap(found: object, wanted: object) -> int:
    """The largest difference of two arrays of whole numbers."""
    difference = np.abs(np.asarray(found) - np.asarray(wanted)).max()
    return int(difference) if difference == int(difference) else -1


def distance(found: np.ndarray, wanted: np.ndarray) -> float:
    """The relative distance |found - wanted| / |wanted|."""
    return float(np.linalg.norm(found - wanted) / np.linalg.norm(wanted))


def polynomial_table(d: int, n: int = 2) -> np.ndarray:
    """The coefficients of `polynomials`, a row each."""
    rows = polynomials(d, n)
    names = {name: i for i, name in enumerate({name for one in rows for name in one})}
    table = np.zeros((len(rows), len(names)), dtype=int)
    for i, row in enumerate(rows):
        for name, times in row.items():
            table[i, names[name]] = times
    return table


def polynomials(d: int, n: int = 2) -> list[dict[tuple[tuple[int, int], ...], int]]:
    """G_bc z_e for all b, c, e as polynomials in the entries (t, b) of n tokens, the query is token 0."""
    found = []
    for b, c, e in np.ndindex(d, d, d):
        polynomial: dict[tuple[tuple[int, int], ...], int] = {}
        for t in range(n):
            name = tuple(sorted([(t, b), (t, c), (0, e)]))
            polynomial[name] = polynomial.get(name, 0) + 1
        found.append(polynomial)
    return found


def _whole(values: np.ndarray) -> np.ndarray:
    return np.array([[int(one) for one in row] for row in np.rint(values)], dtype=object)

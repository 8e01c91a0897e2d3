"""Measures of the matrices of heads, on which learning depends: norms, ranks, angles, how near to a lattice."""

from functools import cached_property
from itertools import combinations

import numpy as np
from jaxtyping import Float

_START = 4.0  # t0, in units of 1 / |column|: phi(t0) is about exp(-8) for a column without structure
_LAST = 4 * np.pi  # T, in units of 1 / (root mean square of the column): four periods of equal |entries|
_STEP = 0.25  # of the grid of t, in units of 1 / |column|
_AT_ONCE = 16  # coordinates to multiply before dropping grid points that cannot be the maximum


class HeadMeasures:
    """The measures of the conditions, for matrices A_1, .., A_m given as an array (m, d, d).

    All are first divided by their largest entry, so that squares neither overflow nor vanish.
    """

    def __init__(self, heads: Float[np.ndarray, "m d d"]) -> None:
        self._epsilon = float(np.finfo(heads.dtype).eps)
        heads = np.asarray(heads, dtype=np.float64)
        self._m, self._d, _ = heads.shape
        self._scale = float(np.abs(heads).max()) or 1.0
        self._heads = heads / self._scale
        self._size = np.linalg.norm(self._heads, axis=(1, 2))
        self._per_size = np.divide(1.0, self._size, out=np.zeros(self._m), where=self._size > 0)

    def norms(self) -> Float[np.ndarray, " m"]:
        """|A_i|."""
        with np.errstate(over="ignore"):
            return self._size * self._scale

    def norms_comparable(self) -> float:
        """Max |A_i| / min |A_i|; infinite with a zero head beside others, 1 if all are zero."""
        least, largest = float(self._size.min()), float(self._size.max())
        return 1.0 if largest == 0 else np.inf if least == 0 else largest / least

    def incoherence(self) -> Float[np.ndarray, " m"]:
        """The largest |<A_i, A_j>| / (|A_i| |A_j|) of every head over the other heads."""
        gram = np.abs(self._units @ self._units.T)
        np.fill_diagonal(gram, 0)
        return gram.max(axis=1)

    def stable_rank(self) -> Float[np.ndarray, " m"]:
        """The stable rank |A_i|^2 / |A_i|_op^2; 0 for a zero head."""
        largest = self._singular_values[:, 0]
        return np.divide(self._size, largest, out=np.zeros(self._m), where=largest > 0) ** 2

    def trace(self) -> Float[np.ndarray, " m"]:
        """Tr(A_i)^2 / |A_i|^2; 0 for a zero head."""
        return (np.trace(self._heads, axis1=1, axis2=2) * self._per_size) ** 2

    def non_arithmetic(self) -> Float[np.ndarray, " m"]:
        """The largest `largest_characteristic_value` of the columns of every head; 1 if a column is zero."""
        return np.array([largest_characteristic_value(head).max() for head in self._heads])

    def pairwise_distance(self) -> Float[np.ndarray, " m"]:
        """The smallest |A_i - A_j| / max(|A_i|, |A_j|) of every head over the others; 0 for two zero heads."""
        distance = np.full((self._m, self._m), np.inf)
        for i, j in combinations(range(self._m), 2):
            # a difference, not expanded squares: those lose half the digits of close heads
            gap = np.linalg.norm(self._heads[i] - self._heads[j])
            distance[i, j] = distance[j, i] = gap / (max(self._size[i], self._size[j]) or 1.0)
        return distance.min(axis=1)

    def linear_independence(self) -> float:
        """The smallest singular value of the stacked vec(A_i) / |A_i|."""
        if self._m > self._d**2:
            return 0.0
        return float(np.linalg.svd(self._units, compute_uv=False)[-1])

    def affine_independence(self) -> float:
        """Singular value m-1 of the stacked vec(A_i - mean), scaled to a root mean square of 1."""
        if self._m - 1 > self._d**2:
            return 0.0
        centred = (self._heads - self._heads.mean(axis=0)).reshape(self._m, -1)
        size = np.linalg.norm(centred)
        if size <= self._m * self._epsilon * np.linalg.norm(self._heads):  # equal heads, to rounding
            return 0.0
        return float(np.linalg.svd(centred, compute_uv=False)[self._m - 2] * np.sqrt(self._m - 1) / size)

    @cached_property
    def _units(self) -> Float[np.ndarray, "m dd"]:
        return (self._heads * self._per_size[:, None, None]).reshape(self._m, -1)

    @cached_property
    def _singular_values(self) -> Float[np.ndarray, "m d"]:
        return np.linalg.svd(self._heads, compute_uv=False)


def largest_characteristic_value(columns: Float[np.ndarray, "d n"]) -> Float[np.ndarray, " n"]:
    """Max over t in [t0, T] of phi(t) = prod_j |cos(t theta_j)| for each column theta: how near a lattice it is.

    The value is 0 if the column is far from every lattice. It is 1 if all entries are multiples of one number, or zero.

    phi is the modulus of the characteristic function of sum_j +-theta_j with random signs; a local limit theorem
    needs it small. The range is scale-free: t0 = 4 / |theta| and T = 4 pi sqrt(d) / |theta|. The grid has steps of at
    most 1 / (4 |theta|); it misses at most a factor exp(-1 / (128 p^2)) of a maximum p. A grid point is dropped once
    its partial product is below the column's value at t0. Columns without structure take O(d n sqrt(d)) cosines.
    """
    d, n = columns.shape
    norm = np.linalg.norm(columns, axis=0)
    largest = np.ones(n)
    alive = norm > 0
    if not alive.any():
        return largest
    # with unit columns, all columns share one grid
    units = -np.sort(-np.abs(columns[:, alive] / norm[alive]), axis=0)
    last = _LAST * np.sqrt(d)
    grid = np.linspace(_START, last, int(np.ceil((last - _START) / _STEP)) + 1)
    with np.errstate(divide="ignore"):  # a zero of phi gives log 0 = -inf
        best = np.log(np.abs(np.cos(_START * units))).sum(axis=0)
        column, point = (index.ravel() for index in np.indices((units.shape[1], grid.size)))
        log = np.zeros(column.size)
        for first in range(0, d, _AT_ONCE):
            product = np.ones(column.size)
            for row in units[first : first + _AT_ONCE]:
                product *= np.cos(grid[point] * row[column])
            log += np.log(np.abs(product))
            higher = log > best[column]
            column, point, log = column[higher], point[higher], log[higher]
    np.maximum.at(best, column, log)
    largest[alive] = np.exp(best)
    return largest

"""One scalar statistical query, and families of them that are answered in one product of matrices."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import overload

import numpy as np
from jaxtyping import Float, Int

__all__ = ["Features", "QueryFamily", "StatisticalQuery"]

# What an examples-to-features map gives: left (n, r, I) and right (n, r, J).
Features = Callable[[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]


@dataclass(frozen=True, eq=False)
class StatisticalQuery:
    """One scalar statistical query: a function of one example (X, Y) with a declared range, whose mean is wanted.

    Attributes
    ----------
    name : str
        What it measures.
    phase : int
        The phase that asks it.
    function : callable
        Maps a batch of examples, x and y of shape (n, k, d), to n values.
    low, high : float
        The range of the values, within [-1, 1].
    tolerance : float
        The error of the answer that the learner reckons with, in the units of the values: the tau of STAT(tau).
    """

    name: str
    phase: int
    function: Callable[[np.ndarray, np.ndarray], np.ndarray] = field(repr=False)
    low: float
    high: float
    tolerance: float

    def __call__(
        self, x: Float[np.ndarray, "n k d"], y: Float[np.ndarray, "n k d"]
    ) -> Float[np.ndarray, " n"]:
        """The n values on a batch of examples."""
        return self.function(x, y)


@dataclass(frozen=True, eq=False)
class QueryFamily(Sequence[StatisticalQuery]):
    """Scalar queries that are entries of one matrix, E[L^T R], with features L (r, I) and R (r, J) of an example.

    Attributes
    ----------
    name : str
        What the matrix is.
    phase : int
        The phase that asks.
    features : callable
        Maps a batch of examples to left features (n, r, I) and right features (n, r, J).
    entries : array (q, 2)
        The entries of the matrix that are asked for, one a query.
    low, high, tolerance : float
        Of each query; see `StatisticalQuery`.
    unit : float
        An answer times this is the quantity itself: values are scaled into [-1, 1].

    Notes
    -----
    A sequence of `StatisticalQuery`, each made when it is looked at, so that any oracle can answer them one by one:
    the count is `len`. `values` and `means` give all of them in one matrix product a batch, for oracles that
    answer many at once; that changes no count.
    """

    name: str
    phase: int
    features: Features = field(repr=False)
    entries: Int[np.ndarray, "q 2"] = field(repr=False)
    low: float
    high: float
    tolerance: float
    unit: float = 1.0

    def __len__(self) -> int:
        return len(self.entries)

    @overload
    def __getitem__(self, place: int) -> StatisticalQuery: ...

    @overload
    def __getitem__(self, place: slice) -> "list[StatisticalQuery]": ...

    def __getitem__(self, place: int | slice) -> "StatisticalQuery | list[StatisticalQuery]":
        if isinstance(place, slice):
            return [self[i] for i in range(*place.indices(len(self)))]
        i, j = (int(index) for index in self.entries[place])
        return StatisticalQuery(
            name=f"{self.name} ({i}, {j})",
            phase=self.phase,
            function=partial(self._value, i, j),
            low=self.low,
            high=self.high,
            tolerance=self.tolerance,
        )

    def values(
        self, x: Float[np.ndarray, "n k d"], y: Float[np.ndarray, "n k d"]
    ) -> Float[np.ndarray, "n q"]:
        """The values of every query on every example."""
        left, right = self.features(x, y)
        products = np.matmul(np.swapaxes(left, 1, 2), right)
        # the range is kept by construction; rounding may step over it by a digit
        return np.clip(products[:, self.entries[:, 0], self.entries[:, 1]], self.low, self.high)

    def means(self, x: Float[np.ndarray, "n k d"], y: Float[np.ndarray, "n k d"]) -> Float[np.ndarray, " q"]:
        """The mean of every query over the examples; one product of matrices, values not formed."""
        left, right = self.features(x, y)
        product = left.reshape(-1, left.shape[2]).T @ right.reshape(-1, right.shape[2])
        return product[self.entries[:, 0], self.entries[:, 1]] / len(x)

    def _value(self, i: int, j: int, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        left, right = self.features(x, y)
        return np.clip(np.einsum("nr,nr->n", left[:, :, i], right[:, :, j]), self.low, self.high)

"""Queries: what a learner may ask an oracle, as plain callables with a declared range."""

import math
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, overload, runtime_checkable

import numpy as np
from jaxtyping import Float, Int
from numpy.typing import ArrayLike

from attention.validation import count, finite_number, require_callable

__all__ = [
    "BoundedQuery",
    "CorrelationalQueries",
    "CorrelationalQuery",
    "GroupQuery",
    "StatisticalQuery",
    "as_sequence",
    "real_values",
]

# 1/sqrt(s) times sqrt(s) is off 1 by two roundings, and weights may be the neighbour of the nearest float64.
_LAST_DIGITS = 4 * float(np.finfo(np.float64).eps)


@runtime_checkable
class BoundedQuery(Protocol):
    """Anything callable on a batch of examples, (n, k, d) twice to n values, that declares their range."""

    @property
    def low(self) -> float:
        """The least value."""

    @property
    def high(self) -> float:
        """The largest value."""

    def __call__(self, x: np.ndarray, y: np.ndarray, /) -> np.ndarray:
        """The values on a batch."""


@dataclass(frozen=True, eq=False)
class StatisticalQuery:
    """A scalar statistical query: the mean of q(X, Y) is wanted.

    Attributes
    ----------
    function : callable
        Maps x and y of shape (n, k, d) to n values.
    low, high : float
        The declared range: [-1, 1] for STAT, [0, 1] for VSTAT.
    name : str
        What it asks, for messages.

    Raises
    ------
    ValueError
        If the function is none, or the range no interval of finite numbers.

    References
    ----------
    Kearns 1998.
    """

    function: Callable[[np.ndarray, np.ndarray], np.ndarray] = field(repr=False)
    low: float = -1.0
    high: float = 1.0
    name: str = "query"

    def __post_init__(self) -> None:
        require_callable("function", self.function)
        for name in ("low", "high"):
            object.__setattr__(self, name, finite_number(name, getattr(self, name)))
        if self.low > self.high:
            raise ValueError(f"low is {self.low} and high {self.high}: low must be at most high.")

    def __call__(
        self, x: Float[np.ndarray, "n k d"], y: Float[np.ndarray, "n k d"]
    ) -> Float[np.ndarray, " n"]:
        """The n values on a batch of examples."""
        return self.function(x, y)


@dataclass(frozen=True, eq=False)
class CorrelationalQuery:
    """A correlational query: E sum_a h(X)_a f(X)_a is wanted, f the hidden part of the target along w.

    Attributes
    ----------
    function : callable
        h: maps tokens (n, k, d) to one number a row, (n, k); E sum_a h(X)_a^2 <= 1.
    name : str
        What it asks, for messages.

    Raises
    ------
    ValueError
        If the function is none.
    """

    function: Callable[[np.ndarray], np.ndarray] = field(repr=False)
    name: str = "query"

    def __post_init__(self) -> None:
        require_callable("function", self.function)

    def __call__(self, x: Float[np.ndarray, "n k d"]) -> Float[np.ndarray, "n k"]:
        """The values of h on a batch of token matrices.

        Raises
        ------
        ValueError
            If there is not one real number a row.
        """
        return _checked_values(self.function(x), x, x.shape[:2], self.name)


@dataclass(frozen=True, eq=False)
class CorrelationalQueries(Sequence[CorrelationalQuery]):
    """A vector of correlational queries, such as the coordinates of a gradient, evaluated together.

    Attributes
    ----------
    function : callable
        Maps tokens (n, k, d) to (n, k, q): each of the q functions has E sum_a h(X)_a^2 <= 1.
    size : int
        q: how many scalar queries it counts, at least 1.
    name : str
        What it asks, for messages.

    Raises
    ------
    ValueError
        If the function is none, or the size not a whole number of at least 1.
    """

    function: Callable[[np.ndarray], np.ndarray] = field(repr=False)
    size: int
    name: str = "queries"

    def __post_init__(self) -> None:
        require_callable("function", self.function)
        object.__setattr__(self, "size", count("size", self.size, most=sys.maxsize))

    def __len__(self) -> int:
        return self.size

    @overload
    def __getitem__(self, place: int) -> CorrelationalQuery: ...

    @overload
    def __getitem__(self, place: slice) -> list[CorrelationalQuery]: ...

    def __getitem__(self, place: int | slice) -> CorrelationalQuery | list[CorrelationalQuery]:
        if isinstance(place, slice):
            return [self[i] for i in range(*place.indices(self.size))]
        if not -self.size <= place < self.size:
            raise IndexError(f"There are {self.size} queries, none of number {place}.")
        return CorrelationalQuery(lambda x: self(x)[..., place], name=f"{self.name} {place}")

    def __call__(self, x: Float[np.ndarray, "n k d"]) -> Float[np.ndarray, "n k q"]:
        """All of the functions on a batch of token matrices.

        Raises
        ------
        ValueError
            If there are not `size` real numbers a row.
        """
        return _checked_values(self.function(x), x, (*x.shape[:2], self.size), self.name)


@dataclass(frozen=True, eq=False)
class GroupQuery:
    """The correlational query h = sum_j weights_j f_{numbers_j}, a combination of a family's own hidden parts.

    Attributes
    ----------
    numbers : array of int (s,)
        Which targets, distinct; any sequence of whole numbers is turned into an array.
    weights : array (s,)
        With orthonormal hidden parts |h| = |weights|, at most 1; any sequence of real numbers.
    name : str
        What it asks, for messages.

    Raises
    ------
    ValueError
        If they are not vectors of one length, a number is not whole, negative or repeated, or a weight not finite.

    Notes
    -----
    Weights that are all 1/sqrt(s) or -1/sqrt(s) up to the last digit of float64 stand for exactly that (`even`).

    Examples
    --------
    >>> import numpy as np
    >>> query = GroupQuery.signed(np.array([0, 4]), np.array([2, 3]))
    >>> query.weights.tolist(), query.norm
    ([0.5, 0.5, -0.5, -0.5], 1.0)
    """

    numbers: Int[np.ndarray, " s"]
    weights: Float[np.ndarray, " s"]
    name: str = "group"

    def __post_init__(self) -> None:
        object.__setattr__(self, "numbers", _whole_numbers(self.numbers))
        object.__setattr__(self, "weights", real_values(self.weights, f"weights of the {self.name}"))
        if self.numbers.shape != self.weights.shape or self.numbers.ndim != 1 or len(self.numbers) < 1:
            raise ValueError(
                f"There are numbers of shape {self.numbers.shape} and weights of {self.weights.shape}: vectors of one "
                "length, at least 1, are needed."
            )
        if self.numbers.min() < 0:
            raise ValueError(f"A target has number {self.numbers.min()}: numbers of at least 0 are needed.")
        # learners ask tens of thousands of these, nearly always in increasing order: no sort where none is needed
        increasing = bool((self.numbers[1:] > self.numbers[:-1]).all())
        if not increasing and len(np.unique(self.numbers)) != len(self.numbers):
            raise ValueError("A target is in the group twice: its numbers must be distinct.")
        if not np.isfinite(self.weights).all():
            raise ValueError("weights holds NaN or infinite entries: every entry must be finite.")

    @property
    def even(self) -> bool:
        """Whether every weight is 1/sqrt(s) or -1/sqrt(s), up to rounding: with orthonormal hidden parts |h| = 1."""
        return bool((np.abs(np.abs(self.weights) * math.sqrt(len(self.weights)) - 1) <= _LAST_DIGITS).all())

    @property
    def norm(self) -> float:
        """|weights|, the norm of h where the hidden parts are orthonormal."""
        return float(np.sqrt(self.weights @ self.weights))

    @classmethod
    def single(cls, number: int) -> "GroupQuery":
        """The hidden part of one target."""
        number = count("number", number, least=0)
        return cls(np.array([number]), np.ones(1), name=f"target {number}")

    @classmethod
    def signed(cls, plus: ArrayLike, minus: ArrayLike | None = None) -> "GroupQuery":
        """(sum over `plus` - sum over `minus`) / sqrt(their number), the weights rounded away from 0."""
        first, second = _whole_numbers(plus), _whole_numbers([] if minus is None else minus)
        if first.ndim != 1 or second.ndim != 1:
            raise ValueError(
                f"There are targets of shape {first.shape} and {second.shape}: vectors of numbers are needed."
            )
        size = _rounded_up_root(max(len(first) + len(second), 1))
        weights = np.full(len(first) + len(second), size)
        weights[len(first) :] = -size
        return cls(first if minus is None else np.concatenate([first, second]), weights)


def real_values(values: Any, name: str) -> Float[np.ndarray, "..."]:
    """What a query returned, as float64.

    Raises
    ------
    ValueError
        If it is not an array of real numbers.
    """
    try:
        array = np.asarray(values)
    except ValueError:
        raise ValueError(f"The {name} are no array: real numbers of one shape are needed.") from None
    if array.dtype.kind not in "fiub":
        raise ValueError(f"The {name} are of {array.dtype}: real numbers are needed.")
    return array.astype(np.float64, copy=False)


def as_sequence(queries: Any) -> Sequence[Any]:
    """Many queries as a sequence: itself if it is one, a list of what it yields otherwise.

    Raises
    ------
    ValueError
        If there is nothing to go through.
    """
    if hasattr(queries, "__len__") and hasattr(queries, "__getitem__") and getattr(queries, "ndim", 1) != 0:
        sequence: Sequence[Any] = queries
        return sequence
    if not isinstance(queries, Iterable) or getattr(queries, "ndim", 1) == 0:
        raise ValueError(
            f"The queries are a {type(queries).__name__}: a sequence of queries, or a vector of them, is needed; ask a "
            "single one by `query`."
        )
    return list(queries)


def _checked_values(values: Any, x: np.ndarray, shape: tuple[int, ...], name: str) -> np.ndarray:
    array = real_values(values, f"values of the {name}")
    if array.shape != shape:
        raise ValueError(
            f"The {name} gave values of shape {array.shape} for tokens of shape {x.shape}: {shape} is needed."
        )
    return array


def _whole_numbers(numbers: Any) -> np.ndarray:
    array = np.asarray(numbers)
    if array.size == 0:
        return array.astype(np.int64)
    if array.dtype.kind not in "iu" or array.max() > np.iinfo(np.int64).max:
        raise ValueError(
            f"numbers holds {array.dtype} such as {array.flat[0]!r}: whole numbers of targets, counted from 0, are "
            "needed."
        )
    return array.astype(np.int64, copy=False)


def _rounded_up_root(size: int) -> float:
    """The least float64 that is not below 1/sqrt(size).

    A reply of it is then above every tolerance that 1/sqrt(size) is above.
    """
    root = math.nextafter(1 / math.sqrt(size), 0.0)
    while True:
        above, below = root.as_integer_ratio()
        if above * above * size >= below * below:
            return root
        root = math.nextafter(root, 1.0)

"""Queries that a learner may ask an oracle: callables with a declared range or norm, and the checks of both."""

import math
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Annotated, Any

import numpy as np
from jaxtyping import Float, Int
from numpy.typing import ArrayLike

from attention._arrays import to_numpy
from attention.validation import Real, checked, count

# Values may exceed their declared range by this much, relative to its largest number.
_ROUNDING = 1e-12
_NORM_ROUNDING = 2e-9


@dataclass(frozen=True, eq=False)
@checked
class StatisticalQuery:
    """A scalar statistical query: it asks for the mean of q(X, Y)."""

    #: maps x and y of shape (n, k, d) to n values
    function: Callable[[np.ndarray, np.ndarray], np.ndarray] = field(repr=False)
    #: the declared range: [-1, 1] for STAT, [0, 1] for VSTAT
    low: Annotated[float, Real()] = -1.0
    high: Annotated[float, Real()] = 1.0
    name: str = "query"  #: what it asks, for messages

    def __post_init__(self) -> None:
        if self.low > self.high:
            raise ValueError(f"low is {self.low} and high {self.high}: low must be at most high.")

    def __call__(
        self, x: Float[np.ndarray, "n k d"], y: Float[np.ndarray, "n k d"]
    ) -> Float[np.ndarray, " n"]:
        """The n values on a batch of examples."""
        return self.function(x, y)


@dataclass(frozen=True, eq=False)
@checked
class CorrelationalQuery:
    """A correlational query: it asks for E sum_a h(X)_a f(X)_a, where f is the hidden part of the target along w."""

    #: h: maps tokens (n, k, d) to one number per row, (n, k); E sum_a h(X)_a^2 <= 1
    function: Callable[[np.ndarray], np.ndarray] = field(repr=False)
    name: str = "query"  #: what it asks, for messages

    def __call__(self, x: Float[np.ndarray, "n k d"]) -> Float[np.ndarray, "n k"]:
        """The values of h on a batch of token matrices: one real number per row."""
        return _checked_values(self.function(x), x.shape[:2], self.name)


@dataclass(frozen=True, eq=False)
class GroupQuery:
    """The correlational query h = sum_j weights_j f_{numbers_j}, a combination of a family's own hidden parts.

    Examples
    --------
    >>> import numpy as np
    >>> query = GroupQuery.signed(np.array([0, 4]), np.array([2, 3]))
    >>> query.weights.tolist(), query.norm
    ([0.5, 0.5, -0.5, -0.5], 1.0)
    """

    #: which targets, distinct; any sequence of whole numbers is turned into an array
    numbers: Int[np.ndarray, " s"]
    #: with orthonormal hidden parts |h| = |weights|, at most 1; any sequence of real numbers
    weights: Float[np.ndarray, " s"]
    name: str = "group"  #: what it asks, for messages

    def __post_init__(self) -> None:
        object.__setattr__(self, "numbers", _whole_numbers(self.numbers))
        object.__setattr__(self, "weights", _real_values(self.weights, f"weights of the {self.name}"))
        if self.numbers.shape != self.weights.shape or self.numbers.ndim != 1 or len(self.numbers) < 1:
            raise ValueError(
                f"There are numbers of shape {self.numbers.shape} and weights of {self.weights.shape}: vectors of one "
                "length, at least 1, are needed."
            )
        if self.numbers.min() < 0:
            raise ValueError(f"A target has number {self.numbers.min()}: numbers of at least 0 are needed.")
        # learners ask tens of thousands of these, nearly always in increasing order: sort only if needed
        increasing = bool((self.numbers[1:] > self.numbers[:-1]).all())
        if not increasing and len(np.unique(self.numbers)) != len(self.numbers):
            raise ValueError("A target is in the group twice: its numbers must be distinct.")
        if not np.isfinite(self.weights).all():
            raise ValueError("weights holds NaN or infinite entries: every entry must be finite.")

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
    def signed(cls, plus: ArrayLike, minus: ArrayLike = ()) -> "GroupQuery":
        """(sum over `plus` - sum over `minus`) / sqrt(their number)."""
        first, second = _whole_numbers(plus), _whole_numbers(minus)
        if first.ndim != 1 or second.ndim != 1:
            raise ValueError(
                f"There are targets of shape {first.shape} and {second.shape}: vectors of numbers are needed."
            )
        size = 1 / math.sqrt(max(len(first) + len(second), 1))
        weights = np.full(len(first) + len(second), size)
        weights[len(first) :] = -size
        return cls(np.concatenate([first, second]) if len(second) else first, weights)


def statistical_mean(query: Any, x: Float[np.ndarray, "n k d"], y: Float[np.ndarray, "n k d"]) -> float:
    """The mean of a query over examples; checks that there is one value per example, in the declared range."""
    name, low, high = getattr(query, "name", "query"), float(query.low), float(query.high)
    values = _checked_values(query(x, y), (len(x),), name)
    slack = _ROUNDING * max(1.0, abs(low), abs(high))
    inside = (values >= low - slack) & (values <= high + slack)  # False for NaN
    if not inside.all():
        raise ValueError(
            f"The {name} took the value {values[~inside].flat[0]:.6g}: its declared range is [{low:g}, {high:g}]. "
            "Scale or clip it, or declare the range it has."
        )
    return float(values.mean())


def require_norm(values: Float[np.ndarray, "n k"], *, name: str, sampled: bool) -> float:
    """The norm of a correlational query, at least 1; divide by it, so that rounding leaves no norm above 1.

    `values` are those of h on all inputs, or on a sample.
    """
    squares = np.sum(values**2, axis=1)
    spread = squares.std() / math.sqrt(len(squares)) if sampled else 0.0
    return norm_above_one(squares.mean(), name=f"The {name}", spread=spread)


def norm_above_one(square: float, *, name: str, spread: float = 0.0) -> float:
    """The larger of 1 and a norm, from its square; refused above 1 by more than rounding and six standard errors."""
    if not square <= 1 + _NORM_ROUNDING + 6 * spread:  # true for NaN
        raise ValueError(
            f"{name} has norm {np.sqrt(square):.6g}{' on a sample' if spread else ''}: a correlational query has "
            "E sum_a h(X)_a^2 of at most 1; divide it by its norm."
        )
    return math.sqrt(max(square, 1.0))


def _real_values(values: Any, name: str) -> Float[np.ndarray, "..."]:
    try:
        array = to_numpy(values)
    except ValueError:
        raise ValueError(f"The {name} are no array: real numbers of one shape are needed.") from None
    if array.dtype.kind not in "fiub":
        raise ValueError(f"The {name} are of {array.dtype}: real numbers are needed.")
    return array.astype(np.float64, copy=False)


def _checked_values(values: Any, shape: tuple[int, ...], name: str) -> np.ndarray:
    array = _real_values(values, f"values of the {name}")
    if array.shape != shape:
        raise ValueError(f"The {name} gave values of shape {array.shape}: {shape} is needed.")
    return array


def _whole_numbers(numbers: Any) -> np.ndarray:
    array = to_numpy(numbers)
    if array.size == 0:
        return array.astype(np.int64)
    kind = array.dtype.kind
    if kind not in "iu" or (kind == "u" and array.max() > sys.maxsize):
        raise ValueError(
            f"numbers holds {array.dtype} such as {array.flat[0]!r}: whole numbers of targets, counted from 0, are "
            "needed."
        )
    return array.astype(np.int64, copy=False)

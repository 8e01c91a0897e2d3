"""Models of statistical queries: what may be asked, and which replies are valid for a true value."""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar, TypeVar

import numpy as np
from jaxtyping import Bool, Float

from attention.validation import PositiveInt, checked
from lower.bounds import exact_fraction, exact_tolerance

__all__ = ["CSQ", "ROUNDING", "STAT", "VSTAT", "QueryModel", "WithinTolerance"]

# What a reply may be off beyond its error before it counts as invalid: float64 rounding of sums of query values.
ROUNDING = 1e-12
# No further than this from an edge can the allowance above decide.
_EDGE = 4 * ROUNDING

Values = TypeVar("Values", float, np.ndarray)


class QueryModel(ABC):
    """Which queries are allowed, and how far a reply may be off."""

    #: the least and the largest value of a query; of a correlational one, of the true answer
    low: ClassVar[float] = -1.0
    high: ClassVar[float] = 1.0
    #: whether queries are functions of the tokens alone, of norm 1, and not of the labels
    correlational: ClassVar[bool] = False

    @abstractmethod
    def errors(self, values: Values) -> Values:
        """The largest valid error of a reply where the true answer is each of `values`."""

    def allows(
        self, values: Float[np.ndarray, " n"], reply: float, even: int | None = None
    ) -> Bool[np.ndarray, " n"]:
        """For which of the true answers the reply is valid, with an allowance of 1e-12 for rounding.

        `even` is s where the answers are known to be exactly -1/sqrt(s), 0 or 1/sqrt(s): see `CSQ.allows`.
        """
        return np.abs(values - reply) <= self.errors(values) + ROUNDING

    def at_edge(self, even: int | None) -> bool:
        """Whether validity of such answers is decided in exact arithmetic."""
        return False


@dataclass(frozen=True)
class WithinTolerance(QueryModel):
    """Replies within tau of the true answer, 0 < tau < 1."""

    tolerance: float

    def __post_init__(self) -> None:
        number = float(exact_tolerance(self.tolerance))
        if number == 0.0:
            raise ValueError(
                f"tolerance is {self.tolerance}: it rounds to 0 in float64; at least {math.ulp(0.0):.0e} is needed."
            )
        object.__setattr__(self, "tolerance", min(number, math.nextafter(1.0, 0.0)))

    def errors(self, values: Values) -> Values:
        """Tau, whatever the true answer."""
        return 0 * values + self.tolerance


class CSQ(WithinTolerance):
    """Correlational queries of tolerance tau, above 0 and below 1 (Blum et al. 1994; Szörényi 2009).

    The query is h with E sum_a h(X)_a^2 <= 1; the reply is within tau of E sum_a h(X)_a f(X)_a, where f is the hidden
    part of the target F = K + scale f w^T: the part K known in advance taken off, along w, scaled to norm 1. Any
    learner can do that itself, as K, w and the scale are public: <h w^T, F> = <h w^T, K> + scale <h, f>.

    Examples
    --------
    >>> import numpy as np
    >>> CSQ(0.3).allows(np.array([0.0, 0.5]), 0.25).tolist()
    [True, True]
    """

    correlational = True

    def allows(
        self, values: Float[np.ndarray, " n"], reply: float, even: int | None = None
    ) -> Bool[np.ndarray, " n"]:
        """For which of the true answers the reply is valid, with an allowance of 1e-12 except at an edge.

        At an edge (`at_edge`) any allowance would make one reply valid for answers that are more than tau, or 2 tau,
        apart: the comparison is exact instead, with the reply as the number it is. An oracle other than those of this
        package has to keep tau to the last digit there.
        """
        allowed = super().allows(values, reply)
        if even is None or not self.at_edge(even):
            return allowed
        near = np.abs(np.abs(values - reply) - self.tolerance) <= _EDGE
        for sign in np.unique(np.sign(values[near])):
            allowed[near & (np.sign(values) == sign)] = _within(
                int(sign), even, Fraction(float(reply)), self._exact
            )
        return allowed

    def at_edge(self, even: int | None) -> bool:
        """Whether 1/sqrt(even) is above tau, or above 2 tau, by so little that rounding would hide it.

        In exact arithmetic, tau being the decimal that it prints, as `lower.eliminated_per_query` has it: the number of
        candidates that a query can rule out changes between such tolerances.
        """
        if even is None:
            return False
        root, tau = 1 / math.sqrt(even), self.tolerance
        if abs(root - tau) <= _EDGE:
            return even * self._exact**2 < 1
        return abs(root - 2 * tau) <= _EDGE and 4 * even * self._exact**2 < 1

    @property
    def _exact(self) -> Fraction:
        return exact_fraction("tolerance", self.tolerance)


def _within(sign: int, size: int, reply: Fraction, tau: Fraction) -> bool:
    """|sign/sqrt(size) - reply| <= tau."""
    if sign == 0:
        return abs(reply) <= tau
    low, high = sign * reply - tau, sign * reply + tau
    return (low <= 0 or low**2 * size <= 1) and high >= 0 and high**2 * size >= 1


class STAT(WithinTolerance):
    """Statistical queries of tolerance tau: q(X, Y) in [-1, 1], the reply within tau of its mean (Kearns 1998)."""


@dataclass(frozen=True)
@checked
class VSTAT(QueryModel):
    """Queries q(X, Y) in [0, 1] answered as by n examples: off the mean p by at most max(1/n, sqrt(p (1 - p) / n)).

    Feldman et al. 2017.

    Examples
    --------
    >>> import numpy as np
    >>> VSTAT(100).errors(np.array([0.0, 0.5])).tolist()
    [0.01, 0.05]
    """

    examples: PositiveInt

    low = 0.0

    def errors(self, values: Values) -> Values:
        """max(1/n, sqrt(p (1 - p) / n)) at each p of `values`."""
        p = np.clip(values, 0.0, 1.0)  # the mean of values in [0, 1] may leave it by rounding
        return np.maximum(1 / self.examples, np.sqrt(p * (1 - p) / self.examples))

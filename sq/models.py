"""Models of statistical queries: what may be asked, and which replies are valid for a true value."""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, TypeVar

import numpy as np
from jaxtyping import Bool, Float

from attention.validation import PositiveInt, checked
from lower.bounds import exact_tolerance

# A reply counts as valid up to this much beyond its error: float64 rounding of sums of query values.
ROUNDING = 1e-12
# At most this far above tau or 2 tau, an answer is at an edge: the allowance would hide the difference.
_EDGE = 4 * ROUNDING
_LAST_DIGITS = 1e-15  # at an edge, a reply must keep this distance from the largest error

Values = TypeVar("Values", float, np.ndarray)


class QueryModel(ABC):
    """Which queries are allowed, and the largest error of a reply."""

    #: the least and the largest value of a query; for a correlational query, of the true answer
    low: ClassVar[float] = -1.0
    high: ClassVar[float] = 1.0
    #: whether queries are functions of the tokens alone, of norm 1, and not of the labels
    correlational: ClassVar[bool] = False

    @abstractmethod
    def errors(self, values: Values) -> Values | float:
        """The largest error of a valid reply to each true answer; a float if it is the same for all."""

    def allowance(self, group: int | None = None) -> float:
        """How far beyond its error a reply is valid; `group` is s if every answer is exactly 0 or +-1/sqrt(s)."""
        return ROUNDING

    def allows(
        self, values: Float[np.ndarray, " n"], reply: float, group: int | None = None
    ) -> Bool[np.ndarray, " n"]:
        """For which of the true answers `values` the reply is valid, with the allowance for rounding."""
        return np.abs(values - reply) <= self.errors(values) + self.allowance(group)


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

    def errors(self, values: Values) -> float:
        """Tau, whatever the true answer."""
        return self.tolerance


class CSQ(WithinTolerance):
    """Correlational queries of tolerance tau, above 0 and below 1 (Blum et al. 1994; Szörényi 2009).

    The query is h with E sum_a h(X)_a^2 <= 1. The reply is within tau of E sum_a h(X)_a f(X)_a, where f is the hidden
    part of the target F = K + scale f w^T: subtract the known part K, project on w and scale to norm 1. K, w and the
    scale are public, so any learner can convert between the two: <h w^T, F> = <h w^T, K> + scale <h, f>.

    Examples
    --------
    >>> import numpy as np
    >>> CSQ(0.3).allows(np.array([0.0, 0.5]), 0.25).tolist()
    [True, True]
    """

    correlational = True

    def allowance(self, group: int | None = None) -> float:
        """1e-12 for rounding; -1e-15 for a group at an edge.

        A group of s is at an edge if 1/sqrt(s) is above tau, or above 2 tau, by at most 4e-12. There, more allowance
        would make one reply valid for answers that are more than tau, or 2 tau, apart. Tau is exactly the decimal that
        it prints, as in `lower.bounds.eliminated_per_query`.
        """
        if group is None:
            return ROUNDING
        root, tau = 1 / math.sqrt(group), self.tolerance
        times = 1 if root < 1.5 * tau else 2
        near = abs(root - times * tau) <= _EDGE
        above = near and group * (times * exact_tolerance(tau)) ** 2 < 1
        return -_LAST_DIGITS if above else ROUNDING


class STAT(WithinTolerance):
    """Statistical queries of tolerance tau: q(X, Y) in [-1, 1], the reply within tau of its mean (Kearns 1998)."""


@dataclass(frozen=True)
@checked
class VSTAT(QueryModel):
    """Queries q(X, Y) in [0, 1], as if by n examples: the error at mean p is at most max(1/n, sqrt(p (1 - p) / n)).

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

"""Models of statistical queries: what may be asked, and which replies are valid for a true value."""

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Protocol, TypeVar, runtime_checkable

import numpy as np
from jaxtyping import Bool, Float

from attention.validation import count
from lower import exact_fraction

__all__ = ["CSQ", "ROUNDING", "STAT", "VSTAT", "QueryModel"]

# What a reply may be off beyond its error before it counts as invalid: float64 rounding of sums of query values.
ROUNDING = 1e-12

# No further than this from an edge can the allowance above decide.
_EDGE = 4 * ROUNDING

Values = TypeVar("Values", float, np.ndarray)


@runtime_checkable
class QueryModel(Protocol):
    """Which queries are allowed, and how far a reply may be off."""

    @property
    def low(self) -> float:
        """The least value a query may take; of a correlational one, the least true answer."""

    @property
    def high(self) -> float:
        """The largest."""

    @property
    def correlational(self) -> bool:
        """Whether queries are functions of the tokens alone, of norm 1, and not of the labels."""

    def errors(self, values: Values) -> Values:
        """The largest valid error of a reply where the true answer is each of `values`."""

    def allows(self, values: Float[np.ndarray, " n"], reply: float) -> Bool[np.ndarray, " n"]:
        """For which of the true answers the reply is valid."""


class _Model:
    def errors(self, values: Values) -> Values:
        raise NotImplementedError

    def allows(self, values: Float[np.ndarray, " n"], reply: float) -> Bool[np.ndarray, " n"]:
        """For which of the true answers the reply is valid, with an allowance of 1e-12 for rounding."""
        return np.abs(values - reply) <= self.errors(values) + ROUNDING


@dataclass(frozen=True)
class CSQ(_Model):
    """Correlational queries of tolerance tau.

    The query is h with E sum_a h(X)_a^2 <= 1; the reply is within tau of E sum_a h(X)_a f(X)_a, where f is the hidden
    part of the target F = K + scale f w^T: the part K known in advance taken off, along w, scaled to norm 1. Any
    learner can do that itself, as K, w and the scale are public: <h w^T, F> = <h w^T, K> + scale <h, f>.

    Parameters
    ----------
    tolerance : float
        tau, above 0 and below 1.

    Raises
    ------
    ValueError
        If the tolerance is not in (0, 1), or rounds to 0.

    References
    ----------
    Blum et al. 1994; Szörényi 2009.

    Examples
    --------
    >>> import numpy as np
    >>> CSQ(0.3).allows(np.array([0.0, 0.5]), 0.25).tolist()
    [True, True]
    """

    tolerance: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "tolerance", _tolerance(self.tolerance))

    low, high, correlational = -1.0, 1.0, True

    def errors(self, values: Values) -> Values:
        """Tau, whatever the true answer."""
        return 0 * values + self.tolerance

    def at_edge(self, size: int) -> bool:
        """Whether 1/sqrt(size) is above tau, or above 2 tau, by so little that rounding would hide it.

        In exact arithmetic, tau being the decimal that it prints, as `lower.eliminated_per_query` has it: the number of
        candidates that a query can rule out changes between such tolerances.
        """
        root = 1 / math.sqrt(size)
        return any(
            abs(root - times * self.tolerance) <= _EDGE and times**2 * size * self._exact**2 < 1
            for times in (1, 2)
        )

    def allows_even(self, values: Float[np.ndarray, " n"], reply: float, size: int) -> Bool[np.ndarray, " n"]:
        """For which true answers of -1/sqrt(size), 0 and 1/sqrt(size), known by sign, the reply is valid.

        Parameters
        ----------
        values : array (n,)
            The answers in float64.
        reply : float
            The reply, taken as exactly the number it is.
        size : int
            The number of equally weighted, orthonormal hidden parts in the query.

        Notes
        -----
        As `allows`, with an allowance of 1e-12 for rounding, except `at_edge`: there any allowance would make one reply
        valid for answers that are more than tau, or 2 tau, apart, and the comparison is exact instead. An oracle
        other than those of this package has to keep tau to the last digit there.
        """
        allowed = self.allows(values, reply)
        if not self.at_edge(size):
            return allowed
        near = np.abs(np.abs(values - reply) - self.tolerance) <= _EDGE
        for sign in np.unique(np.sign(values[near])):
            allowed[near & (np.sign(values) == sign)] = _within(
                int(sign), size, Fraction(float(reply)), self._exact
            )
        return allowed

    @property
    def _exact(self) -> Fraction:
        return exact_fraction("tolerance", self.tolerance)


def _within(sign: int, size: int, reply: Fraction, tau: Fraction) -> bool:
    """|sign/sqrt(size) - reply| <= tau."""
    if sign == 0:
        return abs(reply) <= tau
    low, high = sign * reply - tau, sign * reply + tau
    return (low <= 0 or low**2 * size <= 1) and high >= 0 and high**2 * size >= 1


@dataclass(frozen=True)
class STAT(_Model):
    """Statistical queries of tolerance tau: q(X, Y) in [-1, 1], the reply within tau of its mean.

    Parameters
    ----------
    tolerance : float
        tau, above 0 and below 1.

    Raises
    ------
    ValueError
        If the tolerance is not in (0, 1), or rounds to 0.

    References
    ----------
    Kearns 1998.
    """

    tolerance: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "tolerance", _tolerance(self.tolerance))

    low, high, correlational = -1.0, 1.0, False

    def errors(self, values: Values) -> Values:
        """Tau, whatever the true answer."""
        return 0 * values + self.tolerance


@dataclass(frozen=True)
class VSTAT(_Model):
    """Queries q(X, Y) in [0, 1] answered as by n examples: off the mean p by at most max(1/n, sqrt(p (1 - p) / n)).

    Parameters
    ----------
    examples : int
        n, at least 1.

    Raises
    ------
    ValueError
        If n is not a whole number of at least 1.

    References
    ----------
    Feldman et al. 2017.

    Examples
    --------
    >>> import numpy as np
    >>> VSTAT(100).errors(np.array([0.0, 0.5])).tolist()
    [0.01, 0.05]
    """

    examples: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "examples", count("examples", self.examples))

    low, high, correlational = 0.0, 1.0, False

    def errors(self, values: Values) -> Values:
        """max(1/n, sqrt(p (1 - p) / n)) at each p of `values`."""
        # the mean of values in [0, 1] may leave it by rounding
        p = np.clip(values, 0.0, 1.0)
        return np.maximum(1 / self.examples, np.sqrt(p * (1 - p) / self.examples))


def _tolerance(value: float) -> float:
    tau = exact_fraction("tolerance", value)
    if not 0 < tau < 1:
        raise ValueError(f"tolerance is {value}: a number above 0 and below 1 is needed.")
    number = float(tau)
    if number == 0.0:
        raise ValueError(
            f"tolerance is {value}: it rounds to 0 in float64; a number of at least {math.ulp(0.0):.0e} is needed."
        )
    return math.nextafter(1.0, 0.0) if number == 1.0 else number

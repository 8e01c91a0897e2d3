"""The cost of learning against heads m, tokens k and dimension d: laws with known terms, fitted to small sizes."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import nnls
from scipy.special import stdtrit

from attention.validation import count
from studies.rows import grouped
from studies.study import Row
from upper import counting_floor
from upper.linear_attention import feature_count

__all__ = ["QUANTITIES", "Cost", "CostModel", "FittedLaw", "Law", "excess", "medians", "shown_bytes"]

QUANTITIES = ("examples", "passes", "memory")
"""The fitted quantities: examples, passes over them, and the peak of the arrays in bytes."""

Size = tuple[int, int, int]
"""m, k and d."""
_BLOCK = 1 << 23  # numbers of a block of cubic features


@dataclass(frozen=True)
class Cost:
    """The cost of one fit.

    Attributes
    ----------
    examples : float
        The number of examples.
    passes : float or None
        Passes over the examples; None for a learner that does not count passes.
    operations : float or None
        Multiplications in the dominant products, by formula; None if there is no formula.
    memory : float
        The peak of its arrays, in bytes.
    beyond : tuple of str
        Which of m, k and d lie outside the fitted range. There the cost is extrapolated, and it is not known whether
        the learner succeeds.
    passes_range : (float, float) or None
        The 95 % prediction interval of the passes, if the law holds at this size; None if there is no interval.
    """

    examples: float
    passes: float | None
    operations: float | None
    memory: float
    beyond: tuple[str, ...] = ()
    passes_range: tuple[float, float] | None = None

    def machines(self, gib: float) -> int:
        """The number of machines with this many GiB that hold the arrays, if the arrays can be split evenly.

        Examples
        --------
        >>> Cost(10.0, None, None, 50 * 2.0**30).machines(24.0)
        3
        """
        return max(1, math.ceil(self.memory / (gib * 2**30)))


def shown_bytes(number: float) -> str:
    """A number of bytes in a suitable unit, MiB or larger.

    Examples
    --------
    >>> shown_bytes(3 * 2.0**31)
    '6 GiB'
    """
    for unit, size in (("PiB", 2.0**50), ("TiB", 2.0**40), ("GiB", 2.0**30)):
        if number >= size:
            return f"{number / size:.3g} {unit}"
    return f"{number / 2.0**20:.3g} MiB"


def medians(rows: Sequence[Row]) -> dict[tuple[str, Size], dict[str, float]]:
    """The median over draws of each measured quantity, by learner and size."""
    found = {}
    for (learner, *size), draws in grouped(rows, "learner", "m", "k", "d").items():
        measured = {name: [row[name] for row in draws if row[name] is not None] for name in QUANTITIES}
        found[learner, tuple(size)] = {
            name: float(np.median(those)) for name, those in measured.items() if those
        }
    return found


@dataclass(frozen=True)
class Law:
    """A law: a sum of coefficient * term with nonnegative coefficients, or factor * prod term^exponent.

    Attributes
    ----------
    terms : mapping of str to callable
        Each a function of m, k and d, by its name.
    product : bool
        Whether it is the product.
    """

    terms: Mapping[str, Callable[[int, int, int], float]]
    product: bool = False

    def fitted(self, points: Mapping[Size, float]) -> "FittedLaw | None":
        """The law fitted to values by size; None if there are fewer sizes than numbers.

        Notes
        -----
        A sum is fitted by least squares of the relative errors, a product by least squares of the logarithms. A term
        that was not varied gets no exponent.
        """
        values = np.array(list(points.values()))
        names = [
            name
            for name, term in self.terms.items()
            if not self.product or len({term(*size) for size in points}) > 1
        ]
        if len(points) < max(1, len(names) + self.product):
            return None
        table = np.array([[self.terms[name](*size) for name in names] for size in points])
        covariance: tuple[tuple[float, ...], ...] = ()
        variance = 0.0
        if self.product:
            design, names = np.column_stack([np.ones(len(values)), np.log(table)]), ["factor", *names]
            solved = np.linalg.lstsq(design, np.log(values), rcond=None)[0]
            left = np.log(values) - design @ solved
            if (freedom := len(values) - len(names)) > 0:
                variance = float(left @ left) / freedom
                matrix = variance * np.linalg.pinv(design.T @ design)
                covariance = tuple(tuple(map(float, row)) for row in matrix)
            solved[0] = np.exp(solved[0])
        else:
            relative = table / values[:, None]
            units = np.linalg.norm(relative, axis=0)
            solved = nnls(relative / units, np.ones(len(values)))[0] / units
        numbers = dict(zip(names, map(float, solved), strict=True))
        predicted = [FittedLaw(self, numbers)(*size) for size in points]
        worst = float(np.exp(np.abs(np.log(np.divide(predicted, values))).max()))
        return FittedLaw(self, numbers, worst, len(points), covariance, variance)


@dataclass(frozen=True)
class FittedLaw:
    """A law with fitted numbers.

    Attributes
    ----------
    law : Law
        The law.
    numbers : mapping of str to float
        Exponents with "factor", or coefficients, by the name of the term.
    worst : float
        The largest ratio between a fitted median and its prediction, in either direction: at least 1.
    sizes : int
        The number of sizes in the fit.
    covariance : tuple of tuple of float
        For a product: the covariance of the logarithm of the factor and of the exponents, in this order. Empty if the
        law has as many numbers as there were sizes.
    variance : float
        For a product: the variance of the logarithm of a median about the law.
    """

    law: Law
    numbers: Mapping[str, float]
    worst: float = 1.0
    sizes: int = 0
    covariance: tuple[tuple[float, ...], ...] = ()
    variance: float = 0.0

    def __call__(self, m: int, k: int, d: int) -> float:
        """The prediction at a size."""
        terms = {name: self.law.terms[name](m, k, d) for name in self.numbers if name != "factor"}
        if self.law.product:
            return self.numbers["factor"] * math.prod(
                term ** self.numbers[name] for name, term in terms.items()
            )
        return float(sum(self.numbers[name] * term for name, term in terms.items()))

    def interval(self, m: int, k: int, d: int) -> tuple[float, float] | None:
        """The interval that contains 95 % of new medians at a size, if the law holds; None if the scatter is unknown.

        It uses Student's t in logarithms. It combines the scatter of a median with the error of the exponents, which
        grows with the distance from the fitted sizes.
        """
        if not self.covariance:
            return None
        row = np.array([1.0, *(math.log(self.law.terms[name](m, k, d)) for name in list(self.numbers)[1:])])
        deviation = math.sqrt(self.variance + float(row @ np.array(self.covariance) @ row))
        freedom = self.sizes - len(self.numbers)
        factor = math.exp(float(stdtrit(freedom, 0.975)) * deviation)
        return self(m, k, d) / factor, self(m, k, d) * factor

    def __str__(self) -> str:
        if self.law.product:
            powers = (f"{name}^{number:.2f}" for name, number in self.numbers.items() if name != "factor")
            return " ".join([f"{self.numbers['factor']:.3g}", *powers])
        terms = (
            f"{number:.3g}" + ("" if name == "1" else f" {name}")
            for name, number in self.numbers.items()
            if number
        )
        return " + ".join(terms)


@dataclass(frozen=True)
class CostModel:
    """The cost of a fit, predicted by laws that are fitted to measured fits.

    Attributes
    ----------
    laws : mapping of (str, str) to FittedLaw
        By learner and quantity.
    sizes : mapping of str to tuple of (int, int, int)
        The sizes that the laws of a learner were fitted to.

    Notes
    -----
    Examples and memory follow from the construction of a learner. Its budget is a number of counting floors (Newton) or
    of features, and memory is a sum over arrays of known shapes. Passes are only measured; their law is a product of
    powers of m, k, d and of the excess of examples. F is the number of cubic features, d^2 (d + 1) / 2, and N the
    number of examples. Derived here.

    Examples
    --------
    >>> rows = [
    ...     {"learner": "linear", "m": 1, "k": 2, "d": d, "examples": 2 * d**3, "passes": None, "memory": 9 * d**6}
    ...     for d in (4, 6, 8, 12)
    ... ]
    >>> round(CostModel.fit(rows).predict("linear", 1, 2, 24).examples / 24**3, 1)
    1.8
    """

    laws: Mapping[tuple[str, str], FittedLaw]
    sizes: Mapping[str, tuple[Size, ...]]

    @classmethod
    def fit(cls, rows: Sequence[Mapping[str, Any]]) -> "CostModel":
        """Fit the laws to rows with ``learner``, ``m``, ``k``, ``d`` and `QUANTITIES`; None is left out.

        Rows with a ``role`` other than ``fitted`` are left out: they are checks of the study of costs. Rows with an
        ``outcome`` other than ``EXACT`` are also left out: those fits learned nothing. Rows of one size count as one,
        with their median.

        Raises
        ------
        ValueError
            If no quantity of any learner was measured at enough sizes.
        """
        counted = [
            row
            for row in rows
            if row.get("role", "fitted") == "fitted" and row.get("outcome", "EXACT") == "EXACT"
        ]
        found, laws = medians(counted), {}
        for learner, quantities in _LAWS.items():
            for quantity, law in quantities.items():
                points = {
                    size: values[quantity]
                    for (one, size), values in found.items()
                    if one == learner and quantity in values
                }
                if points and (fitted := law.fitted(points)) is not None:
                    laws[learner, quantity] = fitted
        if not laws:
            raise ValueError(
                "No learner was measured at enough sizes to fit a law: more of m, k and d are needed."
            )
        sizes = {learner: tuple(size for one, size in found if one == learner) for learner, _ in laws}
        return cls(laws, sizes)

    def predict(self, learner: str, m: int, k: int, d: int) -> Cost:
        """The cost of a fit at a size.

        Raises
        ------
        ValueError
            If the learner has no laws of examples and memory, or a number is below 1.
        """
        size = count("m", m), count("k", k), count("d", d)
        laws = {name: self.laws[learner, name] for name in QUANTITIES if (learner, name) in self.laws}
        if not {"examples", "memory"} <= set(laws):
            raise ValueError(
                f"The learner {learner} was not measured at enough sizes to predict what it costs."
            )
        examples, passes = laws["examples"](*size), laws["passes"](*size) if "passes" in laws else None
        operations = None
        if learner in _OPERATIONS and (passes is not None or "passes" not in _LAWS[learner]):
            operations = _OPERATIONS[learner](*size, examples, passes or 1.0)
        seen = zip("mkd", size, zip(*self.sizes[learner], strict=True), strict=True)
        beyond = tuple(name for name, value, those in seen if not min(those) <= value <= max(those))
        between = laws["passes"].interval(*size) if "passes" in laws else None
        return Cost(examples, passes, operations, laws["memory"](*size), beyond, between)


def _floor(m: int, k: int, d: int) -> float:
    return float(counting_floor(heads=m, tokens=k, dim=d))


def excess(m: int, k: int, d: int) -> float:
    """The ratio of pattern equations to unknowns of one Theta at the counting floor: 1 if patterns set the floor."""
    return max(1.0, _floor(m, k, d) * max(1, k * (k - 1)) / (d * d))


def _rows(k: int, d: int) -> float:
    """Rows of examples in the cubic regression: four per unknown, and the few held out."""
    return 4 * feature_count(d) * k / min(k, d)


def _two_blocks(m: int, k: int, d: int) -> float:
    """Numbers in two blocks of features, one new and one previous, which exist together in two rounds over all."""
    numbers = _rows(k, d) * feature_count(d)
    return 2 * numbers if numbers <= _BLOCK else min(numbers, 2.0 * _BLOCK)


def _one(m: int, k: int, d: int) -> float:
    return 1.0


_LAWS: Mapping[str, Mapping[str, Law]] = {
    "newton": {
        "examples": Law({"floor": _floor}),
        "passes": Law(
            {
                "m": lambda m, k, d: float(m),
                "k": lambda m, k, d: float(k),
                "d": lambda m, k, d: float(d),
                "excess": excess,
            },
            product=True,
        ),
        "memory": Law(
            {
                "N k m d": lambda m, k, d: 4 * _floor(m, k, d) * k * m * d,
                "N k m k": lambda m, k, d: 4 * _floor(m, k, d) * k * m * k,
                "N k d": lambda m, k, d: 4 * _floor(m, k, d) * k * d,
                "m d^2": lambda m, k, d: float(m * d * d),
                "(m d)^2": lambda m, k, d: float((m * d) ** 2),
                "1": _one,
            }
        ),
    },
    "linear": {
        "examples": Law({"F / min(k, d)": lambda m, k, d: feature_count(d) / min(k, d), "1": _one}),
        "memory": Law(
            {
                "F^2": lambda m, k, d: float(feature_count(d)) ** 2,
                "two blocks": _two_blocks,
                "N k d": lambda m, k, d: _rows(k, d) * d,
                "1": _one,
            }
        ),
    },
    "six-phase": {
        "examples": Law(
            {
                "d": lambda m, k, d: float(d),
                "d^2 / (k (k - 1))": lambda m, k, d: d * d / max(1, k * (k - 1)),
                "1": _one,
            }
        ),
        "memory": Law({"k d": lambda m, k, d: float(k * d), "d^4": lambda m, k, d: float(d**4), "1": _one}),
    },
}
_OPERATIONS: Mapping[str, Callable[[int, int, int, float, float], float]] = {
    # half a step of the inner solver: a product with J or its transpose, and one with Z
    "newton": lambda m, k, d, n, passes: passes * (n * k * m * d * (2 * d + 2 * k) + (m * d) ** 2 * d / 2),
    "linear": lambda m, k, d, n, passes: n * k * feature_count(d) ** 2 + feature_count(d) ** 3 / 3,
}

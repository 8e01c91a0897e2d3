"""What learning costs against heads m, tokens k and dimension d: laws of known terms, fitted to small sizes."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from attention.validation import count
from upper import counting_floor
from upper.linear_attention import feature_count

__all__ = ["COST_LEARNERS", "QUANTITIES", "Cost", "CostModel", "FittedLaw", "Law", "excess", "shown_bytes"]

QUANTITIES = ("examples", "passes", "memory")
"""What is fitted: examples, passes over them, and the peak of the arrays in bytes."""

Size = tuple[int, int, int]
"""m, k and d."""
_BLOCK = 1 << 23  # numbers of a block of cubic features


@dataclass(frozen=True)
class Cost:
    """What one fit costs.

    Attributes
    ----------
    examples : float
        How many it takes.
    passes : float or None
        Passes over them; None for a learner that does not count its work so.
    operations : float or None
        Multiplications of the products that dominate, by their formula; None where there is none.
    memory : float
        The peak of its arrays, in bytes.
    beyond : tuple of str
        Which of m, k and d lie outside what the laws were fitted to. The cost is extrapolated there, and whether the
        learner succeeds at such a size is not known.
    passes_range : (float, float) or None
        The 95 % prediction interval of the passes, if the law holds there; None where there is none.

    Examples
    --------
    >>> print(Cost(216.0, 364.2, None, 3.2e6, ("d",)))
    216 examples, 364 passes, 3.05 MiB of arrays; extrapolated in d
    """

    examples: float
    passes: float | None
    operations: float | None
    memory: float
    beyond: tuple[str, ...] = ()
    passes_range: tuple[float, float] | None = None

    def __str__(self) -> str:
        parts = [f"{self.examples:,.0f} examples"]
        if self.passes is not None:
            between = "" if self.passes_range is None else " ({:,.0f} to {:,.0f})".format(*self.passes_range)
            parts.append(f"{self.passes:,.0f} passes{between}")
        parts.append(f"{shown_bytes(self.memory)} of arrays")
        return ", ".join(parts) + (f"; extrapolated in {' and '.join(self.beyond)}" if self.beyond else "")

    def machines(self, gib: float = 24.0) -> int:
        """How many machines of so many GiB hold the arrays, if these can be split evenly.

        Examples
        --------
        >>> Cost(10.0, None, None, 50 * 2.0**30).machines()
        3
        """
        return max(1, math.ceil(self.memory / (gib * 2**30)))


def shown_bytes(number: float) -> str:
    """A number of bytes in the unit that suits it, from MiB on.

    Examples
    --------
    >>> shown_bytes(3 * 2.0**31)
    '6 GiB'
    """
    for unit, size in (("PiB", 2.0**50), ("TiB", 2.0**40), ("GiB", 2.0**30)):
        if number >= size:
            return f"{number / size:.3g} {unit}"
    return f"{number / 2.0**20:.3g} MiB"


@dataclass(frozen=True)
class Law:
    """The sum of coefficient * term with coefficients of at least zero; or factor * prod term^exponent.

    Attributes
    ----------
    terms : mapping of str to callable
        Each a function of m, k and d, by its name.
    product : bool
        Which of the two.
    """

    terms: Mapping[str, Callable[[int, int, int], float]]
    product: bool = False


@dataclass(frozen=True)
class FittedLaw:
    """A law with its numbers.

    Attributes
    ----------
    law : Law
        The law.
    numbers : mapping of str to float
        Exponents with "factor", or coefficients, by the name of the term.
    worst : float
        The largest ratio between a median it was fitted to and what it says of it, either way: at least 1.
    sizes : int
        How many sizes it was fitted to.
    covariance : tuple of tuple of float
        Of a product: of the logarithm of the factor and of the exponents, in their order. Empty if it has as many
        numbers as there were sizes.
    variance : float
        Of a product: of the logarithm of a median about the law.
    """

    law: Law
    numbers: Mapping[str, float]
    worst: float = 1.0
    sizes: int = 0
    covariance: tuple[tuple[float, ...], ...] = ()
    variance: float = 0.0

    def __call__(self, m: int, k: int, d: int) -> float:
        """What it says of a size."""
        terms = {name: self.law.terms[name](m, k, d) for name in self.numbers if name != "factor"}
        if self.law.product:
            return self.numbers["factor"] * math.prod(
                term ** self.numbers[name] for name, term in terms.items()
            )
        return float(sum(self.numbers[name] * term for name, term in terms.items()))

    def interval(self, m: int, k: int, d: int, *, confidence: float = 0.95) -> tuple[float, float] | None:
        """What holds a further median at a size, if the law holds there; None if nothing is known of its scatter.

        By Student's t in logarithms: the scatter of a median, and the error of the exponents, which grows with the
        distance from what was fitted.
        """
        if not self.covariance:
            return None
        from scipy.special import stdtrit

        row = np.array([1.0, *(math.log(self.law.terms[name](m, k, d)) for name in list(self.numbers)[1:])])
        deviation = math.sqrt(self.variance + float(row @ np.array(self.covariance) @ row))
        freedom = self.sizes - len(self.numbers)
        factor = math.exp(float(stdtrit(freedom, (1 + confidence) / 2)) * deviation)
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
    """What a fit costs, by laws fitted to measured fits.

    Attributes
    ----------
    laws : mapping of (str, str) to FittedLaw
        By learner and quantity.
    ranges : mapping of (str, str) to (int, int)
        By learner and "m", "k" or "d": the least and the most of the sizes fitted to.

    Notes
    -----
    Examples and memory follow from how a learner is built: its budget is a number of counting floors (Newton) or of
    features, and memory is a sum over arrays of known shapes, whose coefficients are fitted with least squares of the
    relative errors. Passes are only measured: a product of powers of m, k, d and of the excess of examples, fitted in
    logarithms to the medians over draws. F is the number of cubic features, d^2 (d + 1) / 2, and N the examples.
    Derived here.

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
    ranges: Mapping[tuple[str, str], tuple[int, int]] = field(default_factory=dict)

    @classmethod
    def fit(cls, rows: Sequence[Mapping[str, Any]]) -> "CostModel":
        """Fit the laws to rows with ``learner``, ``m``, ``k``, ``d`` and `QUANTITIES`; None is left out.

        Rows with a ``role`` other than ``fitted`` or an ``outcome`` other than ``EXACT`` are left out, too: checks of
        the study of costs, and fits that learned nothing.

        Raises
        ------
        ValueError
            If a row lacks one of these, a learner is not known, or no quantity of any learner was measured at enough
            sizes.

        Notes
        -----
        Rows of one size count as one, with their median. A quantity of a learner with fewer sizes than its law has
        numbers has no law then.
        """
        rows = [
            row
            for row in rows
            if row.get("role", "fitted") == "fitted" and row.get("outcome", "EXACT") == "EXACT"
        ]
        for row in rows:
            if missing := [name for name in ("learner", "m", "k", "d") if name not in row]:
                raise ValueError(f"A row of costs has no {missing[0]!r}: learner, m, k and d are needed.")
            _laws_of(row["learner"])
        laws = {}
        for learner, quantities in _LAWS.items():
            for quantity, law in quantities.items():
                medians = _medians(rows, learner, quantity)
                if medians and (fitted := _fitted(law, medians)) is not None:
                    laws[learner, quantity] = fitted
        if not laws:
            raise ValueError(
                "No learner was measured at enough sizes to fit a law: more of m, k and d are needed."
            )
        ranges = {
            (learner, name): (min(values), max(values))
            for learner in {learner for learner, _ in laws}
            for name in ("m", "k", "d")
            for values in [[int(row[name]) for row in rows if row["learner"] == learner]]
        }
        return cls(laws, ranges)

    def predict(self, learner: str, m: int, k: int, d: int) -> Cost:
        """What a fit costs at a size.

        Raises
        ------
        ValueError
            If the learner is not known or has no laws, or a number is below 1.
        """
        known = _laws_of(learner)
        size = count("m", m), count("k", k), count("d", d)
        laws = {name: self.laws[learner, name] for name in QUANTITIES if (learner, name) in self.laws}
        if not {"examples", "memory"} <= set(laws):
            raise ValueError(
                f"The learner {learner} was not measured at enough sizes to predict what it costs."
            )
        examples, passes = laws["examples"](*size), laws["passes"](*size) if "passes" in laws else None
        operations = None
        if learner in _OPERATIONS and (passes is not None or "passes" not in known):
            operations = _OPERATIONS[learner](*size, examples, passes or 1.0)
        return Cost(
            examples,
            passes,
            operations,
            laws["memory"](*size),
            tuple(
                name for name, value in zip("mkd", size, strict=True) if self._is_beyond(learner, name, value)
            ),
            laws["passes"].interval(*size) if "passes" in laws else None,
        )

    def _is_beyond(self, learner: str, name: str, value: int) -> bool:
        least, most = self.ranges.get((learner, name), (value, value))
        return not least <= value <= most


def _laws_of(learner: str) -> Mapping[str, Law]:
    if learner not in _LAWS:
        raise ValueError(f"{learner!r} is no learner whose cost is known: choose among {', '.join(_LAWS)}.")
    return _LAWS[learner]


def _medians(rows: Sequence[Mapping[str, Any]], learner: str, quantity: str) -> dict[Size, float]:
    values: dict[Size, list[float]] = {}
    for row in rows:
        if row["learner"] == learner and row.get(quantity) is not None:
            values.setdefault((row["m"], row["k"], row["d"]), []).append(float(row[quantity]))
    return {size: float(np.median(those)) for size, those in values.items()}


def _fitted(law: Law, medians: Mapping[Size, float]) -> FittedLaw | None:
    """None if there are fewer sizes than numbers; an exponent of what was not varied is none."""
    values = np.array(list(medians.values()))
    names = [
        name
        for name, term in law.terms.items()
        if not law.product or len({term(*size) for size in medians}) > 1
    ]
    if len(medians) < max(1, len(names) + law.product):
        return None
    table = np.array([[law.terms[name](*size) for name in names] for size in medians])
    covariance: tuple[tuple[float, ...], ...] = ()
    variance = 0.0
    if law.product:
        design, names = np.column_stack([np.ones(len(values)), np.log(table)]), ["factor", *names]
        solved = np.linalg.lstsq(design, np.log(values), rcond=None)[0]
        left = np.log(values) - design @ solved
        if (freedom := len(values) - len(names)) > 0:
            variance = float(left @ left) / freedom
            matrix = variance * np.linalg.pinv(design.T @ design)
            covariance = tuple(tuple(map(float, row)) for row in matrix)
        solved[0] = np.exp(solved[0])
    else:
        from scipy.optimize import nnls

        relative = table / values[:, None]
        units = np.linalg.norm(relative, axis=0)
        solved = nnls(relative / units, np.ones(len(values)))[0] / units
    numbers = dict(zip(names, map(float, solved), strict=True))
    predicted = [FittedLaw(law, numbers)(*size) for size in medians]
    worst = float(np.exp(np.abs(np.log(np.divide(predicted, values))).max()))
    return FittedLaw(law, numbers, worst, len(medians), covariance, variance)


def _floor(m: int, k: int, d: int) -> float:
    return float(counting_floor(heads=m, tokens=k, dim=d))


def excess(m: int, k: int, d: int) -> float:
    """Equations of patterns over unknowns of one Theta, at the counting floor: 1 where patterns set the floor."""
    return max(1.0, _floor(m, k, d) * max(1, k * (k - 1)) / (d * d))


def _rows(k: int, d: int) -> float:
    """Rows of examples that the cubic regression takes: four an unknown, and the few held out."""
    return 4 * feature_count(d) * k / min(k, d)


def _two_blocks(m: int, k: int, d: int) -> float:
    """Numbers of two blocks of features, one being made while the one before is there, in two rounds over all."""
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

COST_LEARNERS = tuple(_LAWS)
"""The learners it knows: Newton, linear attention by regression in cubic features, and the six phases (practical)."""

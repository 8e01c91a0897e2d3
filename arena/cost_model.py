"""What learning costs against heads m, tokens k and dimension d: laws of known terms, fitted to small sizes."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from arena._cost_laws import KINDS, Kind, Law
from attention.validation import count

__all__ = ["COST_LEARNERS", "QUANTITIES", "Cost", "CostModel", "FittedLaw", "Scatter", "shown_bytes"]

QUANTITIES = ("examples", "passes", "memory")
"""What is fitted: examples, passes over them, and the peak of the arrays in bytes."""


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
        Which of m, k and d lie outside what the laws were fitted to: the cost is extrapolated there, and whether the
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
        """How many machines of so many GiB hold the arrays, if they can be split evenly and nothing else needs room.

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
class Scatter:
    """How far medians lie from a fitted product of powers, and what that makes of its exponents.

    Attributes
    ----------
    variance : float
        Of the logarithm of a median about the law.
    covariance : tuple of tuple of float
        Of the logarithm of the factor and of the exponents, in their order.
    freedom : int
        Sizes less numbers of the law.
    """

    variance: float
    covariance: tuple[tuple[float, ...], ...]
    freedom: int

    def factor(self, terms: Sequence[float], *, confidence: float = 0.95) -> float:
        """What the law is multiplied and divided by for the interval that holds a further median, at these terms.

        By Student's t: the scatter of a median and the error of the exponents, which grows with the distance from what
        was fitted. That the law itself holds there is taken for granted.
        """
        from scipy.special import stdtrit

        row = np.array([1.0, *np.log(terms)])
        deviation = math.sqrt(self.variance + float(row @ np.array(self.covariance) @ row))
        return math.exp(float(stdtrit(self.freedom, (1 + confidence) / 2)) * deviation)


@dataclass(frozen=True)
class FittedLaw:
    """A law with its numbers.

    Attributes
    ----------
    kind : "product" or "sum"
        factor * prod term^exponent, or the sum of coefficient * term.
    numbers : mapping of str to float
        Exponents with "factor", or coefficients, by the name of the term.
    worst : float
        The largest ratio between a row it was fitted to and what it says of it, either way: at least 1.
    sizes : int
        How many sizes it was fitted to.
    scatter : Scatter or None
        Of a product with more sizes than numbers.

    Examples
    --------
    >>> print(FittedLaw("product", {"factor": 31.4, "m": 0.5, "d": -0.25}, 1.2, 9))
    31.4 m^0.50 d^-0.25
    >>> print(FittedLaw("sum", {"N k d": 8.0, "m d^2": 0.0, "1": 512.0}, 1.1, 9))
    8 N k d + 512
    """

    kind: Literal["product", "sum"]
    numbers: Mapping[str, float]
    worst: float
    sizes: int
    scatter: Scatter | None = None

    def __str__(self) -> str:
        if self.kind == "product":
            powers = (f"{name}^{number:.2f}" for name, number in self.numbers.items() if name != "factor")
            return " ".join([f"{self.numbers['factor']:.3g}", *powers])
        terms = (
            f"{number:.3g}" + ("" if name == "1" else f" {name}")
            for name, number in self.numbers.items()
            if number
        )
        return " + ".join(terms)


COST_LEARNERS = tuple(KINDS)
"""The learners it knows: Newton, linear attention by regression in cubic features, and the six phases (practical)."""


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

    References
    ----------
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

        Rows with a ``role`` other than ``fitted``, such as the checks of the study of costs, are left out, too: the
        laws are those of that study's page.

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
        rows = [row for row in rows if row.get("role", "fitted") == "fitted"]
        for row in rows:
            if missing := [name for name in ("learner", "m", "k", "d") if name not in row]:
                raise ValueError(
                    f"A row of costs has no {missing[0]!r}: learner, m, k, d and some of {', '.join(QUANTITIES)} are "
                    f"needed."
                )
            _require_learner(row["learner"])
        laws = {}
        for learner, kind in KINDS.items():
            for quantity, law in kind.laws.items():
                medians = _medians(rows, learner, quantity)
                if len(medians) >= _needed(law, medians):
                    laws[learner, quantity] = _fitted(law, medians)
        if not laws:
            raise ValueError(
                "No learner was measured at enough sizes to fit a law: more of m, k and d are needed."
            )
        fitted = {learner for learner, _ in laws}
        ranges = {
            (learner, name): (min(values), max(values))
            for learner in sorted(fitted)
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
        kind = _require_learner(learner)
        size = count("m", m), count("k", k), count("d", d)
        said = {name: self._value(learner, name, size) for name in QUANTITIES}
        examples, passes, memory = (said[name] for name in QUANTITIES)
        if examples is None or memory is None:
            raise ValueError(
                f"The learner {learner} was not measured at enough sizes to predict what it costs."
            )
        known = kind.operations is not None and (passes is not None or "passes" not in kind.laws)
        operations = kind.operations(*size, examples, passes or 1.0) if kind.operations and known else None
        beyond = tuple(
            name
            for name, value in zip(("m", "k", "d"), size, strict=True)
            if (known_range := self.ranges.get((learner, name)))
            and not known_range[0] <= value <= known_range[1]
        )
        return Cost(examples, passes, operations, memory, beyond, self._passes_range(learner, size, passes))

    def _passes_range(
        self, learner: str, size: tuple[int, int, int], passes: float | None
    ) -> tuple[float, float] | None:
        law = self.laws.get((learner, "passes"))
        if law is None or law.scatter is None or passes is None:
            return None
        terms = KINDS[learner].laws["passes"].terms
        factor = law.scatter.factor([terms[name](*size) for name in law.numbers if name != "factor"])
        return passes / factor, passes * factor

    def _value(self, learner: str, quantity: str, size: tuple[int, int, int]) -> float | None:
        fitted = self.laws.get((learner, quantity))
        return None if fitted is None else _evaluate(KINDS[learner].laws[quantity], fitted.numbers, size)


def _require_learner(name: str) -> Kind:
    if name not in KINDS:
        raise ValueError(f"{name!r} is no learner whose cost is known: choose among {', '.join(KINDS)}.")
    return KINDS[name]


def _medians(
    rows: Sequence[Mapping[str, Any]], learner: str, quantity: str
) -> dict[tuple[int, int, int], float]:
    values: dict[tuple[int, int, int], list[float]] = {}
    for row in rows:
        if row["learner"] == learner and row.get(quantity) is not None:
            values.setdefault((row["m"], row["k"], row["d"]), []).append(float(row[quantity]))
    return {size: float(np.median(those)) for size, those in values.items()}


def _needed(law: Law, sizes: Mapping[tuple[int, int, int], float]) -> int:
    """Numbers of the law that are to be determined; an exponent of what was not varied is none."""
    return max(1, len(_varied(law, sizes)) + (law.kind == "product"))


def _varied(law: Law, sizes: Mapping[tuple[int, int, int], float]) -> list[str]:
    if law.kind == "sum":
        return list(law.terms)
    return [name for name, term in law.terms.items() if len({term(*size) for size in sizes}) > 1]


def _fitted(law: Law, medians: Mapping[tuple[int, int, int], float]) -> FittedLaw:
    values, scatter = np.array(list(medians.values())), None
    names = _varied(law, medians)
    table = np.array([[law.terms[name](*size) for name in names] for size in medians])
    if law.kind == "product":
        design = np.column_stack([np.ones(len(values)), np.log(table)])
        solved = np.linalg.lstsq(design, np.log(values), rcond=None)[0]
        scatter = _scatter(design, np.log(values) - design @ solved)
        numbers = {"factor": float(np.exp(solved[0]))} | dict(zip(names, map(float, solved[1:]), strict=True))
    else:
        from scipy.optimize import nnls

        relative = table / values[:, None]
        units = np.linalg.norm(relative, axis=0)
        solved = nnls(relative / units, np.ones(len(values)))[0] / units
        numbers = dict(zip(names, map(float, solved), strict=True))
    said = np.array([_evaluate(law, numbers, size) for size in medians])
    worst = float(np.exp(np.abs(np.log(said / values)).max()))
    return FittedLaw(law.kind, numbers, worst, len(medians), scatter)


def _scatter(design: np.ndarray, left: np.ndarray) -> Scatter | None:
    freedom = design.shape[0] - design.shape[1]
    if freedom < 1:
        return None
    variance = float(left @ left) / freedom
    covariance = variance * np.linalg.pinv(design.T @ design)
    return Scatter(variance, tuple(tuple(map(float, row)) for row in covariance), freedom)


def _evaluate(law: Law, numbers: Mapping[str, float], size: tuple[int, int, int]) -> float:
    if law.kind == "sum":
        return float(sum(number * law.terms[name](*size) for name, number in numbers.items()))
    powers = (law.terms[name](*size) ** number for name, number in numbers.items() if name != "factor")
    return float(numbers["factor"] * math.prod(powers))

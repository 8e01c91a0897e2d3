"""What learning costs against heads m, tokens k and dimension d: laws of known terms, fitted to small sizes."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from attention._arrays import count
from upper import counting_floor
from upper.linear_attention import feature_count

__all__ = ["COST_LEARNERS", "QUANTITIES", "Cost", "CostModel", "FittedLaw"]

QUANTITIES = ("examples", "passes", "memory")
"""What is fitted: examples, passes over them, and the peak of the arrays in bytes."""

_Term = Callable[[int, int, int], float]
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
    """

    examples: float
    passes: float | None
    operations: float | None
    memory: float

    def machines(self, gib: float = 24.0) -> int:
        """How many machines of so many GiB hold the arrays, if they can be split evenly and nothing else needs room.

        Examples
        --------
        >>> Cost(10.0, None, None, 50 * 2.0**30).machines()
        3
        """
        return max(1, math.ceil(self.memory / (gib * 2**30)))


@dataclass(frozen=True)
class _Law:
    """A product of powers, factor * prod term^exponent, or a sum of terms with coefficients of at least zero."""

    kind: Literal["product", "sum"]
    terms: Mapping[str, _Term]


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
    """

    kind: Literal["product", "sum"]
    numbers: Mapping[str, float]
    worst: float
    sizes: int


@dataclass(frozen=True)
class _Kind:
    """What is known of a learner beforehand."""

    laws: Mapping[str, _Law]
    operations: Callable[[int, int, int, float, float], float] | None = None


def _floor(m: int, k: int, d: int) -> float:
    return float(counting_floor(heads=m, tokens=k, dim=d))


def _examples(m: int, k: int, d: int) -> float:
    return 4 * _floor(m, k, d)


def _excess(m: int, k: int, d: int) -> float:
    """Equations of patterns over unknowns of one Theta, at the counting floor: 1 where patterns set the floor."""
    return max(1.0, _floor(m, k, d) * max(1, k * (k - 1)) / (d * d))


def _features(m: int, k: int, d: int) -> float:
    return float(feature_count(d))


def _rows(m: int, k: int, d: int) -> float:
    """Rows of examples that the cubic regression takes: four an unknown, and the few held out."""
    return 4 * feature_count(d) * k / min(k, d)


def _two_blocks(m: int, k: int, d: int) -> float:
    """Numbers of two blocks of features, one being made while the one before is there, in two rounds over all."""
    numbers = _rows(m, k, d) * feature_count(d)
    return 2 * numbers if numbers <= _BLOCK else min(numbers, 2.0 * _BLOCK)


_SIZES: dict[str, _Term] = {
    "m": lambda m, k, d: float(m),
    "k": lambda m, k, d: float(k),
    "d": lambda m, k, d: float(d),
}
_KINDS: dict[str, _Kind] = {
    "newton": _Kind(
        laws={
            "examples": _Law("sum", {"floor": _floor}),
            "passes": _Law("product", {**_SIZES, "excess": _excess}),
            "memory": _Law(
                "sum",
                {
                    "N k m d": lambda m, k, d: _examples(m, k, d) * k * m * d,
                    "N k m k": lambda m, k, d: _examples(m, k, d) * k * m * k,
                    "N k d": lambda m, k, d: _examples(m, k, d) * k * d,
                    "m d^2": lambda m, k, d: float(m * d * d),
                    "(m d)^2": lambda m, k, d: float((m * d) ** 2),
                    "1": lambda m, k, d: 1.0,
                },
            ),
        },
        # half a step of the inner solver: a product with J or its transpose, and one with Z
        operations=lambda m, k, d, n, passes: (
            passes * (n * k * m * d * (2 * d + 2 * k) + (m * d) ** 2 * d / 2)
        ),
    ),
    "linear": _Kind(
        laws={
            "examples": _Law(
                "sum",
                {"F / min(k, d)": lambda m, k, d: feature_count(d) / min(k, d), "1": lambda m, k, d: 1.0},
            ),
            "memory": _Law(
                "sum",
                {
                    "F^2": lambda m, k, d: _features(m, k, d) ** 2,
                    "two blocks": _two_blocks,
                    "N k d": lambda m, k, d: _rows(m, k, d) * d,
                    "1": lambda m, k, d: 1.0,
                },
            ),
        },
        operations=lambda m, k, d, n, passes: n * k * feature_count(d) ** 2 + feature_count(d) ** 3 / 3,
    ),
    "six-phase": _Kind(
        laws={
            "examples": _Law(
                "sum",
                {
                    "d": lambda m, k, d: float(d),
                    "d^2 / (k (k - 1))": lambda m, k, d: d * d / max(1, k * (k - 1)),
                    "1": lambda m, k, d: 1.0,
                },
            ),
            "memory": _Law(
                "sum",
                {
                    "k d": lambda m, k, d: float(k * d),
                    "d^4": lambda m, k, d: float(d**4),
                    "1": lambda m, k, d: 1.0,
                },
            ),
        }
    ),
}
COST_LEARNERS = tuple(_KINDS)
"""The learners it knows: Newton, linear attention by regression in cubic features, and the six phases (practical)."""


@dataclass(frozen=True)
class CostModel:
    """What a fit costs, by laws fitted to measured fits.

    Attributes
    ----------
    laws : mapping of (str, str) to FittedLaw
        By learner and quantity.

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

    @classmethod
    def fit(cls, rows: Sequence[Mapping[str, Any]]) -> "CostModel":
        """Fit the laws to rows with ``learner``, ``m``, ``k``, ``d`` and `QUANTITIES`; None is left out.

        Raises
        ------
        ValueError
            If a learner is not known, or no quantity of any learner was measured at enough sizes.

        Notes
        -----
        Rows of one size count as one, with their median. A quantity of a learner with fewer sizes than its law has
        numbers has no law then.
        """
        for row in rows:
            _require_learner(row["learner"])
        laws = {}
        for learner, kind in _KINDS.items():
            for quantity, law in kind.laws.items():
                medians = _medians(rows, learner, quantity)
                if len(medians) >= _needed(law, medians):
                    laws[learner, quantity] = _fitted(law, medians)
        if not laws:
            raise ValueError(
                "No learner was measured at enough sizes to fit a law: more of m, k and d are needed."
            )
        return cls(laws)

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
        return Cost(examples, passes, operations, memory)

    def _value(self, learner: str, quantity: str, size: tuple[int, int, int]) -> float | None:
        fitted = self.laws.get((learner, quantity))
        return None if fitted is None else _evaluate(_KINDS[learner].laws[quantity], fitted.numbers, size)


def _require_learner(name: str) -> _Kind:
    if name not in _KINDS:
        raise ValueError(f"{name!r} is no learner whose cost is known: choose among {', '.join(_KINDS)}.")
    return _KINDS[name]


def _medians(
    rows: Sequence[Mapping[str, Any]], learner: str, quantity: str
) -> dict[tuple[int, int, int], float]:
    values: dict[tuple[int, int, int], list[float]] = {}
    for row in rows:
        if row["learner"] == learner and row.get(quantity) is not None:
            values.setdefault((row["m"], row["k"], row["d"]), []).append(float(row[quantity]))
    return {size: float(np.median(those)) for size, those in values.items()}


def _needed(law: _Law, sizes: Mapping[tuple[int, int, int], float]) -> int:
    """Numbers of the law that are to be determined; an exponent of what was not varied is none."""
    return max(1, len(_varied(law, sizes)) + (law.kind == "product"))


def _varied(law: _Law, sizes: Mapping[tuple[int, int, int], float]) -> list[str]:
    if law.kind == "sum":
        return list(law.terms)
    return [name for name, term in law.terms.items() if len({term(*size) for size in sizes}) > 1]


def _fitted(law: _Law, medians: Mapping[tuple[int, int, int], float]) -> FittedLaw:
    values = np.array(list(medians.values()))
    names = _varied(law, medians)
    table = np.array([[law.terms[name](*size) for name in names] for size in medians])
    if law.kind == "product":
        design = np.column_stack([np.ones(len(values)), np.log(table)])
        solved = np.linalg.lstsq(design, np.log(values), rcond=None)[0]
        numbers = {"factor": float(np.exp(solved[0]))} | dict(zip(names, map(float, solved[1:]), strict=True))
    else:
        from scipy.optimize import nnls

        relative = table / values[:, None]
        units = np.linalg.norm(relative, axis=0)
        solved = nnls(relative / units, np.ones(len(values)))[0] / units
        numbers = dict(zip(names, map(float, solved), strict=True))
    said = np.array([_evaluate(law, numbers, size) for size in medians])
    worst = float(np.exp(np.abs(np.log(said / values)).max()))
    return FittedLaw(law.kind, numbers, worst, len(medians))


def _evaluate(law: _Law, numbers: Mapping[str, float], size: tuple[int, int, int]) -> float:
    if law.kind == "sum":
        return float(sum(number * law.terms[name](*size) for name, number in numbers.items()))
    powers = (law.terms[name](*size) ** number for name, number in numbers.items() if name != "factor")
    return float(numbers["factor"] * math.prod(powers))

"""What is known beforehand of what learning costs: by learner and quantity, the terms of a law."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

from upper import counting_floor
from upper.linear_attention import feature_count

__all__ = ["KINDS", "Kind", "Law", "Term"]

Term = Callable[[int, int, int], float]
"""A number made of m, k and d."""
_BLOCK = 1 << 23  # numbers of a block of cubic features


@dataclass(frozen=True)
class Law:
    """A product of powers, factor * prod term^exponent, or a sum of terms with coefficients of at least zero."""

    kind: Literal["product", "sum"]
    terms: Mapping[str, Term]


@dataclass(frozen=True)
class Kind:
    """What is known of a learner beforehand."""

    laws: Mapping[str, Law]
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


_SIZES: dict[str, Term] = {
    "m": lambda m, k, d: float(m),
    "k": lambda m, k, d: float(k),
    "d": lambda m, k, d: float(d),
}
KINDS: Mapping[str, Kind] = {
    "newton": Kind(
        laws={
            "examples": Law("sum", {"floor": _floor}),
            "passes": Law("product", {**_SIZES, "excess": _excess}),
            "memory": Law(
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
    "linear": Kind(
        laws={
            "examples": Law(
                "sum",
                {"F / min(k, d)": lambda m, k, d: feature_count(d) / min(k, d), "1": lambda m, k, d: 1.0},
            ),
            "memory": Law(
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
    "six-phase": Kind(
        laws={
            "examples": Law(
                "sum",
                {
                    "d": lambda m, k, d: float(d),
                    "d^2 / (k (k - 1))": lambda m, k, d: d * d / max(1, k * (k - 1)),
                    "1": lambda m, k, d: 1.0,
                },
            ),
            "memory": Law(
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
"""By learner."""

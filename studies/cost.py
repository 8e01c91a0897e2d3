"""The cost of learning against heads m, tokens k and dimension d: laws fitted to small sizes, checked at larger ones.

Examples and memory follow from the construction of a learner: its budget is a number of counting floors (Newton) or of
features, and memory is a sum over arrays of known shapes. Passes are only measured; their law is a product of powers.
"""

import gc
import math
import tracemalloc
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.random import Generator
from scipy.optimize import nnls
from scipy.special import stdtrit

from attention import BooleanInputs, ExampleOracle, Fit, GaussianInputs, Learner, make_nice_layer
from runs import Scale
from studies.line_figure import Panel, curve_of, line_figure
from studies.rows import chosen, grouped, median, of_all
from studies.study import Parameters, Row, Study, Table
from upper import Newton, counting_floor
from upper.linear_attention import LinearAttentionLearner, feature_count, make_linear_attention
from upper.six_phase import SixPhase

__all__ = ["STUDY", "MemoryLaw", "PassesLaw", "excess", "fit_laws"]

Size = tuple[int, int, int]
"""m, k and d."""
Term = Callable[[int, int, int], float]

_TITLES = {"newton": "Newton", "linear": "linear attention", "six-phase": "six phases"}
_MOST = {Scale.QUICK: 3e6, Scale.FULL: 5e7}  # multiplications per pass of Newton, at the fitted sizes
_GRID = {
    Scale.QUICK: ((1, 2, 4), (2, 4), (8, 16, 32)),
    Scale.FULL: ((1, 2, 4, 8), (2, 3, 4, 8), (8, 16, 32, 64)),
}
# from d = 14 on the features exceed one block: sizes on both sides are needed to separate the two shares of memory
_LINEAR = {
    Scale.QUICK: [(2, 2, d) for d in (4, 8, 12)] + [(2, 4, d) for d in (4, 8, 12, 16)],
    Scale.FULL: [(m, 4, 8) for m in (1, 4)]
    + [(2, k, d) for k in (2, 4, 8) for d in (4, 6, 8, 12)]
    + [(2, 4, 14), (2, 4, 16), (2, 8, 16)],
}
_SIX: dict[Scale, list[Size]] = {
    Scale.QUICK: [],
    Scale.FULL: [(2, 2, d) for d in (8, 12, 16, 24)] + [(2, 4, d) for d in (12, 16, 24)] + [(3, 3, 16)],
}
# sizes and draws; the second of the regression and the last two of Newton were added after every law was fixed
_CHECKS: dict[Scale, dict[str, list[tuple[Size, int]]]] = {
    Scale.QUICK: {"newton": [((4, 4, 48), 2)], "linear": [((2, 4, 18), 1)]},
    Scale.FULL: {
        "newton": [((8, 8, 96), 3), ((12, 16, 64), 3), ((16, 32, 64), 1)],
        "linear": [((2, 4, 22), 1), ((2, 4, 24), 1)],
        "six-phase": [((2, 2, 40), 1)],
    },
}
_BEYOND: tuple[tuple[str, Size], ...] = (
    ("newton", (8, 8, 512)),
    ("newton", (12, 64, 384)),
    ("newton", (12, 512, 768)),
    ("newton", (16, 1024, 1024)),
    ("newton", (32, 2048, 4096)),
    ("linear", (12, 64, 64)),
    ("linear", (12, 64, 384)),
)
_SEEN = ("linear", (2, 4, 22), "memory")  # seen before its law was fixed, so not a test of it
_WITHIN = 0.30
_MACHINE = 24.0 * 2**30  # bytes
_BLOCK = 1 << 23  # numbers of a block of cubic features
_STEP = 1 << 14  # bytes: Python's own objects differ by about a thousand from run to run


def _cells(scale: Scale) -> Iterator[Parameters]:
    """The sizes for fitting the laws, and larger sizes as checks; those of Newton have several draws."""
    heads, tokens, dims = _GRID[scale]
    every = [(m, k, d) for m in heads for k in tokens for d in dims if d >= 4 * m]
    newton = [size for size in every if _pass_of(*size) <= _MOST[scale]]
    for learner, sizes in {"newton": newton, "linear": _LINEAR[scale], "six-phase": _SIX[scale]}.items():
        draws = (2 if scale is Scale.QUICK else 3) if learner == "newton" else 1
        fitted, checked = [(size, draws) for size in sizes], _CHECKS[scale].get(learner, [])
        for role, cases in (("fitted", fitted), ("checked", checked)):
            for (m, k, d), several in cases:
                for draw in range(several):
                    yield {"learner": learner, "m": m, "k": k, "d": d, "draw": draw, "role": role}


def _pass_of(m: int, k: int, d: int) -> float:
    """Multiplications of a pass of Newton."""
    return 4 * _floor(m, k, d) * k * m * d * (d + 2 * k)


def _measure(*, rng: Generator, learner: str, m: int, k: int, d: int, draw: int, role: str) -> dict[str, Any]:
    """Examples, passes over them, the peak of the arrays in bytes, in steps of 16 KiB or one in 64, and the outcome."""
    _warm(learner)
    fit, peak = _fit(learner, m, k, d, rng)
    passes = fit.trace[-1].measures.get("total_passes") if fit.trace else None
    step = max(_STEP, 1 << (peak.bit_length() - 7))
    return {
        "examples": fit.examples_used,
        "passes": None if passes is None else int(passes),
        "memory": round(peak / step) * step,
        "outcome": fit.outcome.name,
    }


@cache
def _warm(learner: str) -> None:
    """Run a small fit first, so that imports and compilation do not count in a cell."""
    size = {"newton": (1, 3, 8), "linear": (1, 3, 4), "six-phase": (2, 2, 8)}[learner]
    _fit(learner, *size, np.random.default_rng(0))


def _fit(learner: str, m: int, k: int, d: int, rng: Generator) -> tuple[Fit, int]:
    """The fit of a nice target, and the peak of the arrays in bytes."""
    for_target, for_examples, for_learner = rng.spawn(3)
    fitted: Learner
    if learner == "linear":
        model = make_linear_attention(heads=m, dim=d, rng=for_target)
        target: Any = lambda x: np.asarray(model.at_queries(x, x))  # noqa: E731
        fitted, oracle = (
            LinearAttentionLearner(),
            ExampleOracle(target, GaussianInputs(k=k, d=d), rng=for_examples),
        )
    else:
        fitted = Newton(m, engine="numpy") if learner == "newton" else SixPhase(m)
        layer = make_nice_layer(heads=m, dim=d, rng=for_target)
        oracle = ExampleOracle(layer, BooleanInputs(k=k, d=d), rng=for_examples)
    gc.collect()
    traced = tracemalloc.is_tracing()
    if not traced:
        tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        tracemalloc.reset_peak()
        fit = fitted.fit(oracle, rng=for_learner)
        return fit, tracemalloc.get_traced_memory()[1] - before
    finally:
        if not traced:
            tracemalloc.stop()


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


# terms of the sums that are the bytes held; F is the number of cubic features, N the number of examples
_MEMORY: Mapping[str, Mapping[str, Term]] = {
    "newton": {
        "N k m d": lambda m, k, d: 4 * _floor(m, k, d) * k * m * d,
        "N k m k": lambda m, k, d: 4 * _floor(m, k, d) * k * m * k,
        "N k d": lambda m, k, d: 4 * _floor(m, k, d) * k * d,
        "m d^2": lambda m, k, d: m * d * d,
        "(m d)^2": lambda m, k, d: (m * d) ** 2,
        "1": lambda m, k, d: 1,
    },
    "linear": {
        "F^2": lambda m, k, d: feature_count(d) ** 2,
        "two blocks": _two_blocks,
        "N k d": lambda m, k, d: _rows(k, d) * d,
        "1": lambda m, k, d: 1,
    },
    "six-phase": {"k d": lambda m, k, d: k * d, "d^4": lambda m, k, d: d**4, "1": lambda m, k, d: 1},
}


@dataclass(frozen=True)
class MemoryLaw:
    """Bytes held, as a sum of terms with nonnegative coefficients: least squares of the relative errors."""

    learner: str
    coefficients: Mapping[str, float]

    @classmethod
    def fit(cls, learner: str, points: Mapping[Size, float]) -> "MemoryLaw":
        """Fit the law of a learner to bytes by size."""
        terms = _MEMORY[learner]
        columns = [[term(*size) / held for term in terms.values()] for size, held in points.items()]
        units = np.linalg.norm(columns, axis=0)
        solved = nnls(columns / units, np.ones(len(points)))[0] / units
        return cls(learner, dict(zip(terms, map(float, solved), strict=True)))

    def __call__(self, m: int, k: int, d: int) -> float:
        """The bytes at a size."""
        terms = _MEMORY[self.learner]
        return float(sum(number * terms[name](m, k, d) for name, number in self.coefficients.items()))

    def __str__(self) -> str:
        terms = ((name, f"{number:.3g}") for name, number in self.coefficients.items() if number)
        return " + ".join(number if name == "1" else f"{number} {name}" for name, number in terms)


@dataclass(frozen=True)
class PassesLaw:
    """Newton's passes, as a factor times powers of m, k, d and of the excess: least squares of the logarithms."""

    exponents: tuple[float, ...]  #: the logarithm of the factor comes first
    covariance: tuple[tuple[float, ...], ...]  #: that of the exponents
    variance: float  #: that of the logarithm of a median about the law
    freedom: int  #: sizes beyond the exponents

    @classmethod
    def fit(cls, points: Mapping[Size, float]) -> "PassesLaw":
        """Fit the law to passes by size."""
        design, logarithms = np.array([_logarithms(*size) for size in points]), np.log(list(points.values()))
        solved = np.linalg.lstsq(design, logarithms, rcond=None)[0]
        freedom = len(points) - design.shape[1]
        variance = float(np.sum((logarithms - design @ solved) ** 2)) / freedom
        covariance = variance * np.linalg.pinv(design.T @ design)
        return cls(tuple(solved.tolist()), tuple(map(tuple, covariance.tolist())), variance, freedom)

    def __call__(self, m: int, k: int, d: int) -> float:
        """The passes at a size."""
        return math.exp(float(np.dot(self.exponents, _logarithms(m, k, d))))

    def interval(self, m: int, k: int, d: int) -> tuple[float, float]:
        """The interval that contains 95 % of new medians at a size, if the law holds, by Student's t in logarithms.

        The error of the exponents grows with the distance from the fitted sizes.
        """
        row = np.array(_logarithms(m, k, d))
        deviation = math.sqrt(self.variance + float(row @ np.array(self.covariance) @ row))
        factor = math.exp(float(stdtrit(self.freedom, 0.975)) * deviation)
        return self(m, k, d) / factor, self(m, k, d) * factor

    def __str__(self) -> str:
        names = zip(("m", "k", "d", "excess"), self.exponents[1:], strict=True)
        return " ".join(
            [f"{math.exp(self.exponents[0]):.3g}", *(f"{name}^{power:.2f}" for name, power in names)]
        )


def _logarithms(m: int, k: int, d: int) -> list[float]:
    return [1.0, math.log(m), math.log(k), math.log(d), math.log(excess(m, k, d))]


def fit_laws(rows: Sequence[Row]) -> dict[tuple[str, str], MemoryLaw | PassesLaw]:
    """The laws by learner and quantity, fitted to medians over the draws that ended exact, without the checks."""
    fitted = chosen(rows, role="fitted", outcome="EXACT")
    laws: dict[tuple[str, str], MemoryLaw | PassesLaw] = {}
    for learner, terms in _MEMORY.items():
        points = _medians(chosen(fitted, learner=learner), "memory")
        if len(points) >= len(terms):
            laws[learner, "memory"] = MemoryLaw.fit(learner, points)
    points = _medians(chosen(fitted, learner="newton"), "passes")
    if len(points) > 5:
        laws["newton", "passes"] = PassesLaw.fit(points)
    return laws


def _medians(rows: Sequence[Row], quantity: str) -> dict[Size, float]:
    groups = grouped(rows, "m", "k", "d").items()
    return {(m, k, d): value for (m, k, d), draws in groups if (value := median(draws, quantity)) is not None}


def _checks(rows: Sequence[Row]) -> list[tuple[str, str, Size, float, float]]:
    """Learner, quantity, size, measurement and prediction of every check."""
    return [
        (learner, quantity, size, measured, law(*size))
        for (learner, quantity), law in fit_laws(rows).items()
        for size, measured in _medians(chosen(rows, role="checked", learner=learner), quantity).items()
    ]


def _numbers(rows: Sequence[Row]) -> dict[str, Any]:
    laws, checks = fit_laws(rows), _checks(rows)
    ratios = [
        measured / predicted
        for learner, quantity, size, measured, predicted in checks
        if (learner, size, quantity) != _SEEN
    ]
    passes, memory = laws.get(("newton", "passes")), laws.get(("newton", "memory"))
    if not isinstance(passes, PassesLaw) or memory is None or not ratios:
        return {}
    between = [
        (passes.interval(*size), measured)
        for _, quantity, size, measured, _ in checks
        if quantity == "passes"
    ]
    fitted = [excess(row["m"], row["k"], row["d"]) for row in chosen(rows, learner="newton", role="fitted")]
    named: dict[str, Any] = {
        "near": of_all(abs(ratio - 1) <= _WITHIN for ratio in ratios),
        "least_ratio": f"{min(ratios):.2f}",
        "largest_ratio": f"{max(ratios):.2f}",
        "inside": of_all(low <= measured <= high for (low, high), measured in between),
        "not_exact": sum(row["outcome"] != "EXACT" for row in chosen(rows, role="checked")),
        "most_excess": f"{max(fitted):.2g}",
        "check_excess": f"{max(excess(*size) for one, _, size, *_ in checks if one == 'newton'):.2g}",
    }
    for name, size in (("medium", (12, 64, 384)), ("large", (32, 2048, 4096))):
        named |= {f"{name}_memory": _bytes(memory(*size)), f"{name}_passes": _passes(passes, size)}
    return named | {
        "large_machines": math.ceil(memory(*size) / _MACHINE),
        "large_excess": f"{excess(*size):.2g}",
    }


def _bytes(number: float) -> str:
    unit, size = next(
        ((unit, size) for unit, size in (("PiB", 50), ("TiB", 40), ("GiB", 30)) if number >= 2.0**size),
        ("MiB", 20),
    )
    return f"{number / 2.0**size:.3g} {unit}"


def _passes(law: PassesLaw, size: Size) -> str:
    return "{:,.0f} ({:,.0f} to {:,.0f})".format(law(*size), *law.interval(*size))


def _tables(rows: Sequence[Row]) -> dict[str, Table]:
    laws = fit_laws(rows)
    shown = {"memory": _bytes, "passes": "{:,.0f}".format}
    checks = [
        {
            "learner": _TITLES[learner],
            "m, k, d": ", ".join(map(str, size)),
            "what": quantity,
            "measured": shown[quantity](measured),
            "predicted": shown[quantity](predicted),
            "ratio": f"{measured / predicted:.2f}",
        }
        for learner, quantity, size, measured, predicted in _checks(rows)
    ]
    beyond = []
    for learner, size in _BEYOND:
        memory, passes = laws.get((learner, "memory")), laws.get((learner, "passes"))
        line = {"learner": _TITLES[learner], "m, k, d": ", ".join(map(str, size))}
        if memory is not None:
            held = {
                "memory": _bytes(memory(*size)),
                "machines of 24 GiB": math.ceil(memory(*size) / _MACHINE),
            }
            beyond.append(
                line | {"passes": _passes(passes, size) if isinstance(passes, PassesLaw) else None} | held
            )
    fitted = chosen(rows, role="fitted", outcome="EXACT")
    lines = []
    for (learner, quantity), law in laws.items():
        points = _medians(chosen(fitted, learner=learner), quantity)
        worst = max(abs(math.log(value / law(*size))) for size, value in points.items())
        lines.append(
            {
                "learner": _TITLES[learner],
                "what": quantity,
                "law": str(law),
                "off by up to": f"{math.expm1(worst):.0%}",
            }
        )
    return {"checks": checks, "beyond": beyond, "laws": lines}


def _figure(rows: Sequence[Row]) -> Any:
    """Measured over predicted, and how memory grows with d."""
    laws, panels = fit_laws(rows), []
    for quantity, unit, words in (("passes", 1.0, "passes"), ("memory", 2.0**20, "MiB")):
        curves = {}
        for (learner, one), law in laws.items():
            for role, ending in (("fitted", ""), ("checked", ", check")):
                own = chosen(rows, learner=learner, role=role) if one == quantity else []
                points = {
                    law(*size) / unit: held / law(*size) for size, held in _medians(own, quantity).items()
                }
                curves[_TITLES[learner] + ending] = curve_of(points)
        around = (1 - _WITHIN, 1.0, 1 + _WITHIN)
        panels.append(
            Panel(f"predicted {words}", "measured / predicted", curves, True, False, True, horizontals=around)
        )
    dims, growth = [2**power for power in range(5, 13)], {}
    for learner, m, k in (("newton", 8, 8), ("newton", 12, 64), ("newton", 32, 2048), ("linear", 12, 64)):
        if (held := laws.get((learner, "memory"))) is not None:
            growth[f"{_TITLES[learner]}, m = {m}, k = {k}"] = (dims, [held(m, k, d) / 2**30 for d in dims])
    panels.append(Panel("d", "predicted GiB (dotted: 24)", growth, log_x=True, horizontals=(24.0,)))
    return line_figure(panels)


STUDY = Study(
    name="cost",
    title="What learning costs",
    question="What does a fit cost as heads, tokens and dimension grow, and do small sizes predict larger ones?",
    cells=lambda scale: list(_cells(scale)),
    measure=_measure,
    numbers=_numbers,
    tables=_tables,
    figure=_figure,
    stream=("learner", "m", "k", "d", "draw"),
)

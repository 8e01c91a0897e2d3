"""What a fit of Newton costs by heads m, tokens k and dimension d: laws fitted to small sizes, checked at larger ones.

Memory is a sum over arrays of known shapes. Passes are only measured; their law is a product of powers.
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

from attention import BooleanInputs, ExampleOracle, Fit, make_nice_layer
from runs import Scale
from studies.line_figure import Panel, curve_of, line_figure
from studies.rows import chosen, grouped, median, of_all
from studies.study import Parameters, Row, Study, Table
from upper import Newton, counting_floor

__all__ = ["STUDY", "MemoryLaw", "PassesLaw", "excess", "fit_laws"]

Size = tuple[int, int, int]
"""m, k and d."""

_MOST = {Scale.QUICK: 3e6, Scale.FULL: 5e7}  # multiplications per pass, at the fitted sizes
_GRID = {
    Scale.QUICK: ((1, 2, 4), (2, 4), (8, 16, 32)),
    Scale.FULL: ((1, 2, 4, 8), (2, 3, 4, 8), (8, 16, 32, 64)),
}
# sizes and draws
_CHECKS: Mapping[Scale, Mapping[Size, int]] = {
    Scale.QUICK: {(4, 4, 48): 2},
    Scale.FULL: {(8, 8, 96): 1, (12, 16, 64): 1},
}
_MEDIUM, _LARGE = (12, 64, 384), (32, 2048, 4096)
_BEYOND = ((8, 8, 512), _MEDIUM, (12, 512, 768), (16, 1024, 1024), _LARGE)
_ROLES = {"fitted": "fitted sizes", "checked": "checks"}
_WITHIN = 0.30
_MACHINE = 24.0 * 2**30  # bytes
_STEP = 1 << 14  # bytes: Python's own objects differ by about a thousand from run to run


def _cells(scale: Scale) -> Iterator[Parameters]:
    """The sizes for fitting the laws, and larger sizes as checks."""
    heads, tokens, dims = _GRID[scale]
    every = [(m, k, d) for m in heads for k in tokens for d in dims if d >= 4 * m]
    fitted = {size: 2 if scale is Scale.QUICK else 3 for size in every if _pass_of(*size) <= _MOST[scale]}
    for role, sizes in (("fitted", fitted), ("checked", _CHECKS[scale])):
        for (m, k, d), draws in sizes.items():
            yield from ({"m": m, "k": k, "d": d, "draw": draw, "role": role} for draw in range(draws))


def _pass_of(m: int, k: int, d: int) -> float:
    """Multiplications of a pass."""
    return 4 * _floor(m, k, d) * k * m * d * (d + 2 * k)


def _measure(*, rng: Generator, m: int, k: int, d: int, draw: int, role: str) -> dict[str, Any]:
    """Passes over the examples, the peak of the arrays in bytes, in steps of 16 KiB or one in 64, and the outcome."""
    _warm()
    fit, peak = _fit(m, k, d, rng)
    step = max(_STEP, 1 << (peak.bit_length() - 7))
    passes = int(fit.trace[-1].measures["total_passes"])
    return {"passes": passes, "memory": round(peak / step) * step, "outcome": fit.outcome.name}


@cache
def _warm() -> None:
    """Run a small fit first, so that imports and compilation do not count in a cell."""
    _fit(1, 3, 8, np.random.default_rng(0))


def _fit(m: int, k: int, d: int, rng: Generator) -> tuple[Fit, int]:
    """The fit of a nice layer, and the peak of the arrays in bytes."""
    for_layer, for_examples, for_learner = rng.spawn(3)
    layer = make_nice_layer(heads=m, dim=d, rng=for_layer)
    oracle, newton = (
        ExampleOracle(layer, BooleanInputs(tokens=k, dim=d), rng=for_examples),
        Newton(m, engine="numpy"),
    )
    gc.collect()
    traced = tracemalloc.is_tracing()
    if not traced:
        tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        tracemalloc.reset_peak()
        fit = newton.fit(oracle, rng=for_learner)
        return fit, tracemalloc.get_traced_memory()[1] - before
    finally:
        if not traced:
            tracemalloc.stop()


def _floor(m: int, k: int, d: int) -> float:
    return float(counting_floor(heads=m, tokens=k, dim=d))


def excess(m: int, k: int, d: int) -> float:
    """The ratio of pattern equations to unknowns of one Theta at the counting floor: 1 if patterns set the floor."""
    return max(1.0, _floor(m, k, d) * max(1, k * (k - 1)) / (d * d))


_TERMS = ("N k m d", "N k m k", "N k d", "m d^2", "(m d)^2", "1")


@dataclass(frozen=True)
class MemoryLaw:
    """Bytes held, as a sum of terms with nonnegative coefficients: least squares of the relative errors."""

    coefficients: tuple[float, ...]

    @classmethod
    def fit(cls, points: Mapping[Size, float]) -> "MemoryLaw":
        """Fit the law to bytes by size."""
        columns = np.array([_terms(*size) for size in points]) / np.array([*points.values()])[:, None]
        units = np.linalg.norm(columns, axis=0)
        return cls(tuple((nnls(columns / units, np.ones(len(points)))[0] / units).tolist()))

    def __call__(self, m: int, k: int, d: int) -> float:
        """The bytes at a size."""
        return float(np.dot(self.coefficients, _terms(m, k, d)))

    def __str__(self) -> str:
        terms = zip(self.coefficients, _TERMS, strict=True)
        return " + ".join(f"{number:.3g} {name}".removesuffix(" 1") for number, name in terms if number)


def _terms(m: int, k: int, d: int) -> list[float]:
    """The values of the terms; the number N of examples is four counting floors."""
    n = 4 * _floor(m, k, d)
    return [n * k * m * d, n * k * m * k, n * k * d, m * d * d, (m * d) ** 2, 1.0]


@dataclass(frozen=True)
class PassesLaw:
    """Passes, as a factor times powers of m, k, d and of the excess: least squares of the logarithms."""

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


def fit_laws(rows: Sequence[Row]) -> tuple[PassesLaw, MemoryLaw] | None:
    """The laws of passes and memory: of medians over the fitted draws that ended exact; None for too few sizes."""
    passes, memory = (
        _medians(chosen(rows, role="fitted", outcome="EXACT"), name) for name in ("passes", "memory")
    )
    return (PassesLaw.fit(passes), MemoryLaw.fit(memory)) if len(passes) > len(_TERMS) else None


def _medians(rows: Sequence[Row], quantity: str) -> dict[Size, float]:
    groups = grouped(rows, "m", "k", "d").items()
    return {(m, k, d): value for (m, k, d), draws in groups if (value := median(draws, quantity)) is not None}


def _numbers(rows: Sequence[Row]) -> dict[str, Any]:
    laws, checked = fit_laws(rows), chosen(rows, role="checked")
    if laws is None or not checked:
        return {}
    passes, memory = laws
    between = [(passes.interval(*size), value) for size, value in _medians(checked, "passes").items()]
    ratios = [value / passes(*size) for size, value in _medians(checked, "passes").items()]
    ratios += [value / memory(*size) for size, value in _medians(checked, "memory").items()]
    most = {
        role: max(excess(row["m"], row["k"], row["d"]) for row in chosen(rows, role=role)) for role in _ROLES
    }
    return {
        "near": of_all(abs(ratio - 1) <= _WITHIN for ratio in ratios),
        "least_ratio": f"{min(ratios):.2f}",
        "largest_ratio": f"{max(ratios):.2f}",
        "inside": of_all(low <= value <= high for (low, high), value in between),
        "not_exact": sum(row["outcome"] != "EXACT" for row in checked),
        "most_excess": f"{most['fitted']:.2g}",
        "check_excess": f"{most['checked']:.2g}",
        "large_excess": f"{excess(*_LARGE):.2g}",
        "medium_memory": _bytes(memory(*_MEDIUM)),
        "medium_passes": _passes(passes, _MEDIUM),
        "large_memory": _bytes(memory(*_LARGE)),
        "large_passes": _passes(passes, _LARGE),
        "large_machines": math.ceil(memory(*_LARGE) / _MACHINE),
        "passes_law": str(passes),
        "memory_law": str(memory),
    }


def _bytes(number: float) -> str:
    unit, size = next(
        ((unit, size) for unit, size in (("TiB", 2.0**40), ("GiB", 2.0**30)) if number >= size),
        ("MiB", 2.0**20),
    )
    return f"{number / size:.3g} {unit}"


def _passes(law: PassesLaw, size: Size) -> str:
    return "{:,.0f} ({:,.0f} to {:,.0f})".format(law(*size), *law.interval(*size))


def _tables(rows: Sequence[Row]) -> dict[str, Table]:
    laws = fit_laws(rows)
    if laws is None:
        return {}
    passes, memory = laws
    measured = [_medians(chosen(rows, role="checked"), quantity) for quantity in ("passes", "memory")]
    checks = [
        {
            "m, k, d": ", ".join(map(str, size)),
            "passes": f"{measured[0][size]:,.0f}",
            "predicted": f"{passes(*size):,.0f}",
            "memory": _bytes(held),
            "predicted memory": _bytes(memory(*size)),
        }
        for size, held in measured[1].items()
    ]
    beyond = [
        {
            "m, k, d": ", ".join(map(str, size)),
            "passes": _passes(passes, size),
            "memory": _bytes(memory(*size)),
            "machines of 24 GiB": math.ceil(memory(*size) / _MACHINE),
        }
        for size in _BEYOND
    ]
    return {"checks": checks, "beyond": beyond}


def _figure(rows: Sequence[Row]) -> Any:
    """Measured over predicted, and how memory grows with d."""
    laws = fit_laws(rows)
    if laws is None:
        return line_figure([])
    passes, memory = laws
    panels = [
        _off(rows, "passes", passes, "predicted passes"),
        _off(rows, "memory", lambda *size: memory(*size) / 2**20, "predicted MiB"),
    ]
    dims = [2**power for power in range(5, 13)]
    growth = {
        f"m = {m}, k = {k}": (dims, [memory(m, k, d) / 2**30 for d in dims])
        for m, k in ((8, 8), (12, 64), (32, 2048))
    }
    panels.append(Panel("d", "predicted GiB (dotted: 24)", growth, log_x=True, horizontals=(24.0,)))
    return line_figure(panels)


def _off(rows: Sequence[Row], quantity: str, law: Callable[..., float], below: str) -> Panel:
    """Measured over predicted."""
    curves = {}
    for role, title in _ROLES.items():
        points = _medians(chosen(rows, role=role), quantity)
        unit = 2**20 if quantity == "memory" else 1
        curves[title] = curve_of({law(*size): value / unit / law(*size) for size, value in points.items()})
    around = (1 - _WITHIN, 1.0, 1 + _WITHIN)
    return Panel(below, "measured / predicted", curves, True, False, True, horizontals=around)


STUDY = Study(
    name="cost",
    title="What Newton costs",
    question="What does a fit cost as heads, tokens and dimension grow, and do small sizes predict larger ones?",
    cells=lambda scale: list(_cells(scale)),
    measure=_measure,
    numbers=_numbers,
    tables=_tables,
    figure=_figure,
    stream=("m", "k", "d", "draw"),
)

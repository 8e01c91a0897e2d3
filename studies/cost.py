"""What a fit of Newton costs: its passes, and its memory by a law fitted to small sizes and checked at larger ones."""

import gc
import math
import tracemalloc
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.random import Generator
from scipy.optimize import nnls

from attention import BooleanInputs, ExampleOracle, Fit, make_nice_layer
from runs import Scale
from studies.line_figure import Panel, curve_of, line_figure
from studies.rows import chosen, grouped, median, of_all
from studies.study import Parameters, Row, Study, Table
from upper import Newton, counting_floor

__all__ = ["STUDY", "MemoryLaw", "fit_law"]

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
    """The sizes for fitting the law, and larger sizes as checks."""
    heads, tokens, dims = _GRID[scale]
    every = [(m, k, d) for m in heads for k in tokens for d in dims if d >= 4 * m]
    fitted = {size: 2 if scale is Scale.QUICK else 3 for size in every if _pass_of(*size) <= _MOST[scale]}
    for role, sizes in (("fitted", fitted), ("checked", _CHECKS[scale])):
        for (m, k, d), draws in sizes.items():
            yield from ({"m": m, "k": k, "d": d, "draw": draw, "role": role} for draw in range(draws))


def _pass_of(m: int, k: int, d: int) -> float:
    """Multiplications of a pass."""
    return _examples(m, k, d) * k * m * d * (d + 2 * k)


def _examples(m: int, k: int, d: int) -> int:
    return 4 * counting_floor(heads=m, tokens=k, dim=d)


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
    oracle = ExampleOracle(layer, BooleanInputs(tokens=k, dim=d), rng=for_examples)
    newton = Newton(m, engine="numpy")
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


_TERMS = ("N k m d", "N k m k", "N k d", "m d^2", "(m d)^2", "1")


@dataclass(frozen=True)
class MemoryLaw:
    """Bytes held, as a sum of terms with nonnegative coefficients: least squares of the relative errors."""

    coefficients: tuple[float, ...]

    def __call__(self, m: int, k: int, d: int) -> float:
        """The bytes at a size."""
        return float(np.dot(self.coefficients, _terms(m, k, d)))

    def __str__(self) -> str:
        terms = zip(self.coefficients, _TERMS, strict=True)
        return " + ".join(f"{number:.3g} {name}".removesuffix(" 1") for number, name in terms if number)


def _terms(m: int, k: int, d: int) -> list[float]:
    """The values of the terms; the number N of examples is four counting floors."""
    n = _examples(m, k, d)
    return [n * k * m * d, n * k * m * k, n * k * d, m * d * d, (m * d) ** 2, 1.0]


def fit_law(rows: Sequence[Row]) -> MemoryLaw | None:
    """The law of memory, of medians over the fitted draws that ended exact; None for too few sizes."""
    points = _medians(chosen(rows, role="fitted", outcome="EXACT"), "memory")
    if len(points) <= len(_TERMS):
        return None
    columns = np.array([_terms(*size) for size in points]) / np.array([*points.values()])[:, None]
    units = np.linalg.norm(columns, axis=0)
    return MemoryLaw(tuple((nnls(columns / units, np.ones(len(points)))[0] / units).tolist()))


def _medians(rows: Sequence[Row], quantity: str) -> dict[Size, float]:
    groups = grouped(rows, "m", "k", "d").items()
    return {(m, k, d): value for (m, k, d), draws in groups if (value := median(draws, quantity)) is not None}


def _numbers(rows: Sequence[Row]) -> dict[str, Any]:
    law, checked = fit_law(rows), chosen(rows, role="checked")
    if law is None or not checked:
        return {}
    ratios = [held / law(*size) for size, held in _medians(checked, "memory").items()]
    passes = [f"{number:,.0f}" for number in sorted(_medians(chosen(rows, role="fitted"), "passes").values())]
    return {
        "near": of_all(abs(ratio - 1) <= _WITHIN for ratio in ratios),
        "least_ratio": f"{min(ratios):.2f}",
        "largest_ratio": f"{max(ratios):.2f}",
        "least_passes": passes[0],
        "most_passes": passes[-1],
        "check_passes": f"{max(_medians(checked, 'passes').values()):,.0f}",
        "not_exact": sum(row["outcome"] != "EXACT" for row in checked),
        "medium_memory": _bytes(law(*_MEDIUM)),
        "large_memory": _bytes(law(*_LARGE)),
        "large_machines": math.ceil(law(*_LARGE) / _MACHINE),
        "memory_law": str(law),
    }


def _bytes(number: float) -> str:
    for unit, size in (("TiB", 2.0**40), ("GiB", 2.0**30)):
        if number >= size:
            return f"{number / size:.3g} {unit}"
    return f"{number / 2.0**20:.3g} MiB"


def _tables(rows: Sequence[Row]) -> dict[str, Table]:
    if (law := fit_law(rows)) is None:
        return {}
    checked = chosen(rows, role="checked")
    held, passes = _medians(checked, "memory"), _medians(checked, "passes")
    return {
        "sizes": [
            {
                "m, k, d": ", ".join(map(str, size)),
                "passes": f"{passes[size]:,.0f}" if size in passes else None,
                "memory": _bytes(held[size]) if size in held else None,
                "predicted memory": _bytes(law(*size)),
                "machines of 24 GiB": math.ceil(law(*size) / _MACHINE),
            }
            for size in (*held, *_BEYOND)
        ]
    }


def _figure(rows: Sequence[Row]) -> Any:
    """Measured memory over predicted, and how memory grows with d."""
    if (law := fit_law(rows)) is None:
        return line_figure([])
    measured = {
        title: curve_of(
            {law(*size) / 2**20: held / law(*size) for size, held in _medians(draws, "memory").items()}
        )
        for role, title in _ROLES.items()
        for draws in [chosen(rows, role=role)]
    }
    around = (1 - _WITHIN, 1.0, 1 + _WITHIN)
    dims = [2**power for power in range(5, 13)]
    growth = {
        f"m = {m}, k = {k}": (dims, [law(m, k, d) / 2**30 for d in dims])
        for m, k in ((8, 8), (12, 64), (32, 2048))
    }
    return line_figure(
        [
            Panel("predicted MiB", "measured / predicted", measured, True, False, True, horizontals=around),
            Panel("d", "predicted GiB (dotted: 24)", growth, log_x=True, horizontals=(24.0,)),
        ]
    )


STUDY = Study(
    name="cost",
    title="What Newton costs",
    question="What does a fit cost as heads, tokens and dimension grow, and do small sizes predict the memory of "
    "larger ones?",
    cells=lambda scale: list(_cells(scale)),
    measure=_measure,
    numbers=_numbers,
    tables=_tables,
    figure=_figure,
    stream=("m", "k", "d", "draw"),
)

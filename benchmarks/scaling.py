"""The growth of Newton's time, examples and memory with d, m and k, varied one at a time.

The examples are the number needed: the least multiple of the counting floor, among a few, at which four of five targets
are recovered exactly from one random start. Seconds and passes are measured at four times the floor. Memory is the
solver's peak there on NumPy, without the examples, beside the solver's own bound.
"""

import tracemalloc
from collections.abc import Callable, Mapping, Sequence
from math import inf, isfinite
from statistics import median
from typing import Any

import numpy as np

from attention import BooleanInputs, ExampleOracle, GroundTruth, make_nice_layer
from benchmarks.report import Json, Svg, case_words, show_table, write_json
from runs import single_thread, versions
from runs.figures import save_figure
from studies.intervals import slope_interval
from studies.line_figure import Panel, line_figure
from upper import Newton, counting_floor, gauss_newton
from upper.engine import EngineName, choose_engine
from upper.newton.full_heads import FullHeads

BASE = {"m": 4, "k": 4, "d": 32}
VARIED: dict[str, tuple[int, ...]] = {
    "d": (16, 24, 32, 48, 64, 96),
    "m": (1, 2, 3, 4, 6, 8, 12),
    "k": (2, 3, 4, 6, 8, 12, 16),
}
MULTIPLES = (1.5, 2.0, 2.5, 3.0, 4.0, 6.0, 8.0)
"""The multiples of the counting floor to try."""

_USUAL = MULTIPLES.index(4.0)
_NEEDED_OF_FIVE = 0.8
_EXACT = 1e-10
_PASSES = 4000  # exact runs at four times the floor take about 600
_QUANTITIES = {
    "seconds": "seconds at 4 times the floor",
    "passes": "passes at 4 times the floor",
    "examples": "examples needed",
    "floor": "counting floor",
    "bytes": "peak memory, bytes",
    "stated bytes": "stated bound, bytes",
}


def run_scaling(targets: int = 5, engine: EngineName = "auto", out: Json = None, figure: Svg = None) -> None:
    """Measure every case and fit the powers; print tables and, on request, write the figures as JSON and draw them."""
    # one engine for all: if the learner changes its engine, seconds follow no power law
    engine = choose_engine(engine).name  # type: ignore[assignment]
    shapes = dict.fromkeys(_shape(name, value) for name, values in VARIED.items() for value in values)
    with single_thread(torch=True):
        _measure(*_shape("d", 8), targets=1, engine=engine)  # loads all imports before the measurements
        cases = [_measure(*shape, targets=targets, engine=engine) for shape in shapes]
    powers = {
        name: {
            what: fit_power(_column(cases, name, name), _column(cases, name, what)) for what in _QUANTITIES
        }
        for name in VARIED
    }
    made = {"base": BASE, "targets": targets, "threads": 1, "engine": engine, "multiples": MULTIPLES}
    made["versions"] = versions()
    found = {**made, "cases": cases, "powers": powers}
    _show(found)
    write_json(out, found)
    if figure is not None:
        save_figure(_figure(found), figure)


def stated_bytes(n: int, m: int, k: int, d: int) -> int:
    """The bound that `upper.newton.gauss_newton` states on its memory, without its n examples."""
    numbers = 6 * n * k * m * (d + 3 * k) + 16 * n * k * d + 160 * m * d * d + 8 * (m * d) ** 2
    if d <= FullHeads.largest:
        numbers += 3 * d**4
    if FullHeads.inverses_pay(m, k, d):
        numbers += 4 * n * k * (m * k) ** 2
    return 4 * numbers + (64 << 10)


def fit_power(x: Sequence[float], y: Sequence[float]) -> dict[str, float] | None:
    """The exponent of y ~ factor x^exponent by least squares in logarithms, with its 95 % interval of Student's t.

    The interval measures the scatter about a power law. It does not show whether a power law holds; the residuals show
    that. Points that are not finite are left out; None if fewer than three are left.
    """
    points = [(a, b) for a, b in zip(x, y, strict=True) if isfinite(b) and b > 0]
    if len(points) < 3:
        return None
    log_x, log_y = np.log(np.array(points).T)
    slope = slope_interval(log_x, log_y, confidence=0.95)
    heights = log_y - slope.estimate * log_x
    return {
        "exponent": slope.estimate,
        "low": slope.low,
        "high": slope.high,
        "factor": float(np.exp(heights.mean())),
        "worst residual": float(np.expm1(np.abs(heights - heights.mean()).max())),
    }


def least_multiple(enough: Callable[[float], bool]) -> float:
    """The least sufficient multiple in `MULTIPLES`; the search starts near 4. Infinite if none suffices.

    The search assumes that more examples are never worse, so it tries only a few multiples.
    """
    if not enough(MULTIPLES[_USUAL]):
        return next((one for one in MULTIPLES[_USUAL + 1 :] if enough(one)), inf)
    low, high = 0, _USUAL  # all multiples before `low` are too small, `high` suffices
    while low < high:
        middle = (low + high) // 2
        if enough(MULTIPLES[middle]):
            high = middle
        else:
            low = middle + 1
    return MULTIPLES[high]


def _shape(name: str, value: int) -> tuple[int, int, int]:
    shape = {**BASE, name: value}
    return shape["m"], shape["k"], shape["d"]


def _column(cases: Sequence[Mapping[str, Any]], name: str, what: str) -> list[float]:
    """The quantity over the cases that differ from the base only in `name`."""
    others = [one for one in BASE if one != name]
    return [case[what] for case in cases if all(case[one] == BASE[one] for one in others)]


def _measure(m: int, k: int, d: int, *, targets: int, engine: EngineName = "numpy") -> dict[str, Any]:
    floor = counting_floor(heads=m, tokens=k, dim=d)
    usual: list[tuple[float, float]] = []

    def enough(multiple: float) -> bool:
        needed = int(np.ceil(_NEEDED_OF_FIVE * targets))
        exact = 0
        for seed in range(targets):
            error, seconds, passes = _run(m, k, d, int(np.ceil(multiple * floor)), seed, engine)
            exact += error <= _EXACT
            if multiple == MULTIPLES[_USUAL] and error <= _EXACT:
                usual.append((seconds, passes))
            if exact == needed or exact + targets - seed - 1 < needed:
                break  # the others change nothing
        return exact >= needed

    multiple = least_multiple(enough)
    n = 4 * floor
    return {
        **{"m": m, "k": k, "d": d, "floor": floor, "multiple": multiple},
        "examples": multiple * floor,
        "seconds": median(one[0] for one in usual) if usual else inf,
        "passes": median(one[1] for one in usual) if usual else inf,
        "bytes": _peak_bytes(m, k, d, n),
        "stated bytes": stated_bytes(n, m, k, d),
    }


def _run(m: int, k: int, d: int, n: int, seed: int, engine: EngineName) -> tuple[float, float, float]:
    """Relative error, seconds and passes of one start; nothing is measured during the run."""
    layer, inputs = make_nice_layer(heads=m, dim=d, rng=seed), BooleanInputs(k, d)
    fit = Newton(m, examples=n, starts=1, work=_PASSES, engine=engine).fit(
        ExampleOracle(layer, inputs, rng=[seed, 2]), rng=[seed, 3]
    )
    truth = GroundTruth.draw(layer, inputs, 500, rng=[seed, 1])
    passes = max(step.measures.get("passes", 0.0) for step in fit.trace)
    return truth.measure(layer=fit.layer)["relative_error"], fit.seconds, passes


def _peak_bytes(m: int, k: int, d: int, n: int) -> int:
    """NumPy's peak memory in the solver, from near the target until it is exact, in both precisions."""
    rng = np.random.default_rng(0)
    layer, x = make_nice_layer(heads=m, dim=d, rng=0), BooleanInputs(k, d).sample(n, rng=1)
    y, start = layer(x), np.array(layer.theta) + 0.02 * rng.standard_normal((m, d, d)) / d
    tracemalloc.start()
    try:
        for iterate in gauss_newton(x, y, start, rng=rng):
            if iterate.residual <= 1e-9 or iterate.passes > _PASSES:
                break
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def _show(found: Mapping[str, Any]) -> None:
    show_table(
        f"Newton by {found['engine']}, one thread; needed: four of five targets exact from one start each",
        ("m,k,d", "floor", "multiple needed", "examples", "seconds", "passes", "MiB", "of the bound"),
        [
            (
                case_words(case),
                str(case["floor"]),
                *(_number(case[what]) for what in ("multiple", "examples", "seconds", "passes")),
                f"{case['bytes'] / 2**20:.1f}",
                f"{case['bytes'] / case['stated bytes']:.0%}",
            )
            for case in found["cases"]
        ],
        width=120,
    )
    show_table(
        f"Exponents about (m, k, d) = {tuple(BASE.values())}, with 95 % intervals",
        ("<", *(f"of {name}" for name in found["powers"])),
        [
            (words, *(_power(powers[what]) for powers in found["powers"].values()))
            for what, words in _QUANTITIES.items()
        ],
        width=120,
    )


def _number(value: float) -> str:
    return f"{value:.3g}" if isfinite(value) else "none tried"


def _power(power: Mapping[str, float] | None) -> str:
    if power is None:
        return "-"
    return f"{power['exponent']:.2f} ({power['low']:.2f} to {power['high']:.2f})"


def _figure(found: Mapping[str, Any]) -> Any:
    """Time, examples and memory by d, m and k: the measurements, the fitted power, and a bound."""
    panels = []
    for what, bound in {"seconds": None, "examples": "floor", "bytes": "stated bytes"}.items():
        for name, powers in found["powers"].items():
            values = _column(found["cases"], name, name)
            measured = zip(values, _column(found["cases"], name, what), strict=True)
            grey: dict[str, Any] = {}
            if bound is not None:
                grey[_QUANTITIES[bound]] = zip(values, _column(found["cases"], name, bound), strict=True)
            if (power := powers[what]) is not None:
                grey["fitted power"] = [(x, power["factor"] * x ** power["exponent"]) for x in values]
            title = f"{_QUANTITIES[what]}: exponent {_power(power)}"
            panels.append(Panel(name, title, {"measured": measured}, log_x=True, bounds=grey))
    return line_figure(panels, columns=len(found["powers"]))

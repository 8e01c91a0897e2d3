"""A path from a nice random layer to a hidden parity: where each learner fails, and why the layer becomes hard."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from attention import BooleanInputs, ExampleOracle, Learner, relative_error, unknown_part_error
from lower import LinearKnownPart
from runs import Scale
from runs.figures import FAINT
from sq import ParityElimination
from studies.intervals import proportion_interval
from studies.line_figure import Panel, line_figure
from studies.nice_to_hard_path import STEEPEST, PathPoint, draw_path
from studies.rows import chosen, grouped, of_all
from studies.study import Parameters, Row, Study
from upper import LBFGS, GradientDescent, LinearBaseline, Newton
from upper.six_phase import SixPhase

__all__ = ["STUDY"]

_TITLES = {
    "newton": "Newton",
    "six-phase": "six phases",
    "l-bfgs": "L-BFGS",
    "adam": "Adam, 8 heads",
    "linear": "linear",
    "elimination": "elimination",
}
_WORK = {"newton": 1500, "six-phase": 1500, "l-bfgs": 1000, "adam": 1500, "linear": 1, "elimination": 1}
_QUICK_STEPS = 200  # of Adam
_SHAPES = (0.0, 0.5, 0.8, 0.9, 0.95, 0.99, 1.0)
_APART = (0.0, 0.8, 0.95, 1.0)
_FRESH = 2000
_MAIN: Parameters = {"bits": 3, "ends": "generic", "slope": 0.0}
_LEARNED, _EXACT = 0.3, 1e-6  # errors on the secret's part; the first means nine tenths of its energy


def _cells(scale: Scale) -> list[Parameters]:
    quick = scale is Scale.QUICK
    dim = 8 if quick else 12
    draws = dict.fromkeys(_TITLES, 1) if quick else {"newton": 5, "six-phase": 5, "l-bfgs": 2, "adam": 2}
    shapes, slopes = ((0.0, 0.8, 0.95, 1.0), (0.0, 1.0)) if quick else (_SHAPES, (0.0, 0.5, 1.0))
    apart = (0.0, 1.0) if quick else _APART
    cells = [
        _cell(learner, draw, dim=dim, shape=t, slope=slope, quick=quick)
        for learner in _TITLES
        # a run of Adam takes five seconds
        for slope in (slopes if learner != "adam" else slopes[::2])
        for t in shapes
        for draw in range(2 if quick and learner == "newton" else draws.get(learner, 5))
    ]
    cells += [
        _cell("newton", draw, dim=dim, shape=a, projections=b)
        for a in apart
        for b in apart
        if a != b
        for draw in range(2 if quick else 5)
    ]
    # only the ranks change: the nice end with the ranks of the parity
    cells += [
        _cell(learner, draw, dim=dim, ends="low rank")
        for learner in ("newton", "six-phase")
        for draw in range(1 if quick else 5)
    ]
    sizes = ((2, 8),) if quick else ((3, 8), (3, 16), (1, 12), (2, 12), (5, 12))
    cells += [
        _cell("newton", draw, dim=other, bits=bits, shape=t)
        for bits, other in sizes
        for t in ((0.0, 0.8, 1.0) if quick else (0.0, 0.5, 0.8, 0.9, 0.95, 1.0))
        for draw in range(1 if quick else 4)
    ]
    return cells


def _cell(learner: str, draw: int, *, quick: bool = False, **given: Any) -> Parameters:
    """A cell with the values of `_MAIN` unless others are given; attention and projections move together."""
    cell = {"shape": 0.0, **_MAIN, **given}
    work = _QUICK_STEPS if quick and learner == "adam" else _WORK[learner]
    return {"learner": learner, "projections": cell["shape"], **cell, "work": work, "draw": draw}


def _measure(
    *,
    rng: np.random.Generator,
    learner: str,
    dim: int,
    bits: int,
    ends: str,
    slope: float,
    shape: float,
    projections: float,
    work: int,
    draw: int,
) -> Mapping[str, Any]:
    # separate, so that every cell of a draw has the same ends, examples and tests
    for_path, for_oracle, for_learner, for_tests = rng.spawn(4)
    path = draw_path(dim=dim, bits=bits, low_rank=ends == "low rank", rng=for_path)
    point = path.point(shape, slope, projections=projections)
    inputs = BooleanInputs(tokens=2, dim=dim)
    fit = _LEARNERS[learner](point, work).fit(
        ExampleOracle(point.layer, inputs, rng=for_oracle), rng=for_learner
    )
    x = inputs.sample(_FRESH, rng=for_tests)
    y, predicted = point.layer(x), np.asarray(fit.predict(x), dtype=np.float64)
    theta = point.layer.theta
    return {
        "error": _finite(unknown_part_error(predicted, y, point.known(x))),
        "relative_error": _finite(relative_error(predicted, y)),
        "outcome": fit.outcome.name,
        "examples": fit.examples_used,
        "visible_share": point.visible_share(x),
        "stable_rank": float(np.mean([np.sum(h**2) / np.linalg.norm(h, 2) ** 2 for h in theta])),
        "slopes": float(np.mean(np.linalg.norm(theta, axis=(1, 2)))),
    }


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _elimination(point: PathPoint, work: int) -> Learner:
    """The attack with the parity's known part at this slope; a label with an error up to .9 still gives its bit."""
    direction = np.eye(point.path.dim)[0]
    known = LinearKnownPart.from_gate(point.heads.c, point.heads.c0, gate=0, direction=direction)
    return ParityElimination(direction=direction, known=known, heads=point.heads, tolerance=0.9)


_LEARNERS: Mapping[str, Callable[[PathPoint, int], Learner]] = {
    "newton": lambda point, work: Newton(
        heads=point.layer.heads, examples=14 * point.path.dim**2, work=work, starts=5
    ),
    "six-phase": lambda point, work: SixPhase(heads=point.layer.heads, examples=40_000, work=work),
    "l-bfgs": lambda point, work: LBFGS(heads=point.layer.heads, examples=14 * point.path.dim**2, work=work),
    "adam": lambda point, work: GradientDescent(heads=8, work=work, batch=256, learning_rate=0.01),
    "linear": lambda point, work: LinearBaseline(examples=14 * point.path.dim**2),
    "elimination": _elimination,
}


_Line = Mapping[float, Sequence[float]]
"""The errors of the draws at each share of the way."""


def _errors(rows: Sequence[Row], share: str = "shape", **where: Any) -> dict[float, list[float]]:
    """The errors by `shape` or `projections` of rows with these values; infinite where a fit diverged.

    The defaults are the main size, a generic nice end, and the parity's own slopes.
    """
    dim = max((row["dim"] for row in rows if row["learner"] != "newton"), default=0)
    groups = grouped(chosen(rows, **{"dim": dim, **_MAIN, **where}), share)
    return {
        t: [math.inf if row["error"] is None else row["error"] for row in draws]
        for (t,), draws in sorted(groups.items())
    }


def _along(rows: Sequence[Row], learner: str, **where: Any) -> dict[float, list[float]]:
    """The errors along the path, on which attention and projections move together."""
    return _errors([row for row in rows if row["shape"] == row["projections"]], learner=learner, **where)


def _median(errors: Sequence[float]) -> float:
    ordered = sorted(errors)
    middle = ordered[(len(ordered) - 1) // 2 : len(ordered) // 2 + 1]
    return math.inf if math.inf in middle else float(np.mean(middle))


def _reach(line: _Line, below: float = _LEARNED) -> str:
    """The values at which at least half of the draws are learned."""
    return ", ".join(
        f"{t:g}" for t, errors in line.items() if 2 * sum(e < below for e in errors) >= len(errors)
    )


def _learned(errors: Sequence[float]) -> str:
    return of_all(error < _LEARNED for error in errors)


def _short(error: float) -> str:
    if error > 9:
        return "> 9"
    return f"{error:.2f}" if error >= 0.0095 else f"{error:.0e}" if error else "0"


def _numbers(rows: Sequence[Row]) -> dict[str, Any]:
    newton = _along(rows, "newton")
    exact = {t: [error < _EXACT for error in errors] for t, errors in newton.items()}
    named: dict[str, Any] = {
        **{f"reach_{name.replace('-', '_')}": _reach(_along(rows, name)) for name in _TITLES},
        "adam_lower": _reach(_along(rows, "adam"), 0.25),
        "adam_higher": _reach(_along(rows, "adam"), 0.35),
        "exact_until": f"{max((t for t, those in exact.items() if all(those)), default=0):g}",
        "exact_end": f"{min((t for t, those in exact.items() if not any(those)), default=1):g}",
    }
    ends = [
        _median(line[1.0])
        for name in _TITLES
        for slope in (0.0, 0.5, 1.0)
        if name != "elimination" and 1.0 in (line := _along(rows, name, slope=slope))
    ]
    attention = _errors(rows, learner="newton", projections=0.0)
    projections = _errors(rows, learner="newton", projections=1.0)
    both = _errors(rows, "projections", learner="newton", shape=1.0)
    steep, phases = _along(rows, "newton", slope=1.0), _along(rows, "six-phase", slope=1.0)
    known: dict[str, tuple[_Line, float]] = {
        "together": (newton, 1.0),
        "attention": (attention, 1.0),
        "projections": (projections, 0.0),
        "ranks": (_errors(rows, learner="newton", ends="low rank"), 0.0),
        "steep": (steep, 0.0),
        "near_attention": (projections, 0.8),
        "nearer_attention": (projections, 0.95),
        "nearer_projections": (both, 0.95),
    }
    named |= {name: _learned(line[t]) for name, (line, t) in known.items() if t in line}
    sizes = [(row["bits"], row["dim"]) for row in rows if row["learner"] == "newton"]
    others = {size: _along(rows, "newton", bits=size[0], dim=size[1]) for size in sizes}
    one = [error for (bits, _), line in others.items() if bits == 1 for error in line.get(1.0, ())]
    more = [error for (bits, _), line in others.items() if bits != 1 for error in line.get(1.0, ())]
    named |= {"one_bit": _learned(one), "more_bits": _learned(more)}
    if ends:
        named["least"] = f"{min(ends):.2f}"
    if 0.0 in phases:
        named["phases_steep"] = f"{_median(phases[0.0]):.2f}"
    for name, t in (("visible_first", 0.5), ("visible_last", 1.0)):
        if seen := chosen(rows, learner="elimination", slope=0.0, shape=t):
            named[name] = f"{np.median([row['visible_share'] for row in seen]):.2f}"
    return named


def _table(rows: Sequence[Row]) -> list[dict[str, str]]:
    shown = sorted({row["shape"] for row in rows if row["shape"] == row["projections"]})
    lines: dict[str, _Line] = {
        f"{title}, slopes × {STEEPEST**slope:.2g}": _along(rows, name, slope=slope)
        for name, title in _TITLES.items()
        for slope in (0.0, 0.5, 1.0)
    }
    for bits, dim in sorted({(row["bits"], row["dim"]) for row in rows if row["learner"] == "newton"}):
        line = _along(rows, "newton", bits=bits, dim=dim)
        if line != _along(rows, "newton"):
            lines[f"Newton, {bits} {'bit' if bits == 1 else 'bits'}, d = {dim}"] = line
    for name in ("newton", "six-phase"):
        lines[f"{_TITLES[name]}, nice end of the parity's ranks"] = _along(rows, name, ends="low rank")
    return [
        {
            "learner": title,
            **{f"t = {t:g}": _short(_median(line[t])) if t in line else "" for t in shown},
            "learned at the last t": _learned(line[max(line)]),
            "95% interval": _interval(line[max(line)]),
        }
        for title, line in lines.items()
        if line
    ]


def _interval(errors: Sequence[float]) -> str:
    interval = proportion_interval(sum(error < _LEARNED for error in errors), len(errors), confidence=0.95)
    return f"{interval.low:.2f} to {interval.high:.2f}"


def _shown(error: float) -> float:
    return min(max(error, 1e-16), 10.0)


def _figure(rows: Sequence[Row]) -> Any:
    """Median errors: left of every learner along the path, right of Newton with one ingredient fixed."""
    path = {title: _along(rows, name) for name, title in _TITLES.items()}
    fixed = {
        "attention stays nice": _errors(rows, "projections", learner="newton", shape=0.0),
        "attention is the parity's": _errors(rows, "projections", learner="newton", shape=1.0),
        "projections stay nice": _errors(rows, learner="newton", projections=0.0),
        "projections are the parity's": _errors(rows, learner="newton", projections=1.0),
    }
    panels, every = [], []
    for below, above, lines in (
        ("share t of attention and projections", "median error on the secret's part", path),
        ("share of the other ingredient", "the same of Newton, one ingredient fixed", fixed),
    ):
        shares = sorted({t for line in lines.values() for t in line})
        curves = {
            title: ([shares.index(t) for t in line], [_shown(_median(errors)) for errors in line.values()])
            for title, line in lines.items()
            if line
        }
        panels.append(Panel(below, above, curves))
        every.append(shares)
    figure = line_figure(panels)
    for axes, shares in zip(figure.axes, every, strict=True):
        axes.set_xticks(range(len(shares)), [f"{t:g}" for t in shares])
        axes.axhline(_LEARNED, color=FAINT, linewidth=1.0, linestyle=(0, (2, 2)), zorder=1)
    return figure


STUDY = Study(
    name="nice-to-hard",
    title="From a nice layer to a hidden parity",
    question="On a path from a nice random layer to one that hides a parity, where does each learner stop, and is it "
    "the slopes, the ranks or the projections that stop it?",
    cells=_cells,
    measure=_measure,
    numbers=_numbers,
    table=_table,
    figure=_figure,
    stream=("dim", "bits", "ends", "draw"),
    needs=("torch",),
)

"""Study: what learning costs against heads, tokens and dimension, and whether small sizes tell it of larger ones."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from arena._canvas import canvas
from arena._phrases import plural
from arena.cost_model import Cost, CostModel
from arena.palette import FAINT
from arena.paper_figure import PaperFigure, dimension_axis, legend_above, line_look, paper_figure
from arena.phase_axes import axes_in, decade_limits, decade_ticks, name_axes
from arena.studies._cost_cells import CHECKED, FITTED, cost_cells, measure_cost
from arena.studies.study import Row, Study, Table

__all__ = ["STUDY"]

_TITLES = {"newton": "Newton", "linear": "linear attention", "six-phase": "six phases"}
_QUANTITIES = ("examples", "passes", "memory")
_WITHIN = 0.30
_GIB = 2.0**30
_MACHINE = 24.0  # GiB
_BEYOND = (
    ("newton", (8, 8, 512)),
    ("newton", (12, 64, 384)),
    ("newton", (12, 512, 768)),
    ("newton", (16, 1024, 1024)),
    ("newton", (32, 2048, 4096)),
    ("linear", (12, 64, 64)),
    ("linear", (12, 64, 384)),
)
_LINES = (("newton", 8, 8), ("newton", 12, 64), ("newton", 32, 2048), ("linear", 12, 64))

_Size = tuple[int, int, int]


def _model(rows: Sequence[Row]) -> CostModel | None:
    """The laws of the rows that are there to be fitted; None of too few."""
    try:
        return CostModel.fit([row for row in rows if row["role"] == FITTED])
    except ValueError:
        return None


def _said(model: CostModel | None, learner: str, size: _Size) -> Cost | None:
    try:
        return None if model is None else model.predict(learner, *size)
    except ValueError:
        return None


def _measured(rows: Sequence[Row], role: str) -> dict[tuple[str, _Size], dict[str, float]]:
    """By learner and size, the medians over draws of what was measured."""
    groups: dict[tuple[str, _Size], list[Row]] = {}
    for row in rows:
        if row["role"] == role:
            groups.setdefault((row["learner"], (row["m"], row["k"], row["d"])), []).append(row)
    return {
        key: {
            name: float(np.median([row[name] for row in those]))
            for name in _QUANTITIES
            if all(row[name] is not None for row in those)
        }
        for key, those in groups.items()
    }


def _checks(rows: Sequence[Row]) -> Iterator[tuple[str, _Size, str, float, float]]:
    """Of each check: the learner, the size, the quantity, what was measured and what had been predicted."""
    model = _model(rows)
    for (learner, size), measured in _measured(rows, CHECKED).items():
        said = _said(model, learner, size)
        for name, value in measured.items():
            predicted = None if said is None else getattr(said, name)
            if predicted is not None:
                yield learner, size, name, value, predicted


def _found(rows: Sequence[Row]) -> str:
    model, checks = _model(rows), list(_checks(rows))
    told = []
    for learner, size in dict.fromkeys((learner, size) for learner, size, *_ in checks):
        ratios = [
            f"{value / said:.2f} of the {name}"
            for one, there, name, value, said in checks
            if (one, there) == (learner, size)
        ]
        told.append(f"{_TITLES[learner]} at {size} took {_listed(ratios)} predicted from smaller sizes")
    if checks:
        near = sum(abs(value / said - 1) <= _WITHIN for *_, value, said in checks)
        told.append(f"{near} of {len(checks)} ratios are within {_WITHIN:.0%}")
    for size in ((12, 64, 384), (32, 2048, 4096)):
        if (cost := _said(model, "newton", size)) is not None:
            told.append(f"Newton at {size} would hold {_bytes(cost.memory)} of arrays, {_machines(cost)}")
    text = "; ".join(told) or "too few sizes were measured to fit a law"
    return text[:1].upper() + text[1:] + "."


def _listed(parts: Sequence[str]) -> str:
    return parts[0] if len(parts) == 1 else ", ".join(parts[:-1]) + " and " + parts[-1]


def _machines(cost: Cost) -> str:
    number = cost.machines(_MACHINE)
    return (
        "which one machine of 24 GiB holds"
        if number == 1
        else f"to be split over {number:,} machines of 24 GiB"
    )


def _bytes(number: float) -> str:
    for unit, size in (("PiB", 2.0**50), ("TiB", 2.0**40), ("GiB", _GIB), ("MiB", 2.0**20)):
        if number >= size or unit == "MiB":
            return f"{number / size:.3g} {unit}"
    return ""


def _table(rows: Sequence[Row]) -> Table:
    model = _model(rows)
    shown = []
    if model is not None:
        for learner, title in _TITLES.items():
            laws = {name: model.laws[learner, name] for name in _QUANTITIES if (learner, name) in model.laws}
            if laws:
                spread = (
                    f"within {laws[name].worst - 1:.0%}" if name in laws else "-" for name in _QUANTITIES
                )
                sizes = max(law.sizes for law in laws.values())
                shown.append((title, plural(sizes, "size"), "fitted", *spread, "-", "-"))
    for (learner, size), measured in _measured(rows, CHECKED).items():
        said = _said(model, learner, size)
        cells = [_beside(name, measured.get(name), said) for name in _QUANTITIES]
        operations = "-" if said is None or said.operations is None else f"{said.operations:.2g}"
        machines = "-" if said is None else f"{said.machines(_MACHINE):,}"
        shown.append((_TITLES[learner], _shown(size), "measured / predicted", *cells, operations, machines))
    for learner, size in _BEYOND:
        if (cost := _said(model, learner, size)) is not None:
            shown.append(
                (
                    _TITLES[learner],
                    _shown(size),
                    "predicted",
                    f"{cost.examples:,.0f}",
                    "-" if cost.passes is None else f"{cost.passes:,.0f}",
                    _bytes(cost.memory),
                    "-" if cost.operations is None else f"{cost.operations:.2g}",
                    f"{cost.machines(_MACHINE):,}",
                )
            )
    header = (
        "learner",
        "m, k, d",
        "what",
        "examples",
        "passes",
        "memory",
        "multiplications",
        "machines of 24 GiB",
    )
    return Table(header, tuple(shown))


def _shown(size: _Size) -> str:
    return ", ".join(map(str, size))


def _beside(name: str, value: float | None, said: Cost | None) -> str:
    predicted = None if said is None else getattr(said, name)
    if value is None:
        return "-"
    words = _bytes if name == "memory" else lambda number: f"{number:,.0f}"
    return (
        words(value)
        if predicted is None
        else f"{words(value)} / {words(predicted)} ({value / predicted:.2f})"
    )


def _draw(rows: Sequence[Row]) -> PaperFigure:
    model = _model(rows)
    with canvas(8.6, 3.3) as figure:
        passes = axes_in(figure, (0.07, 0.15, 0.24, 0.55))
        memory = axes_in(figure, (0.40, 0.15, 0.24, 0.55))
        growth = axes_in(figure, (0.73, 0.15, 0.25, 0.55))
        _draw_pairs(passes, rows, model, "passes", 1.0)
        _draw_pairs(memory, rows, model, "memory", 2.0**20)
        _draw_growth(growth, model)
        for axes, below, title in (
            (passes, "predicted passes", "measured passes"),
            (memory, "predicted MiB", "measured MiB"),
            (growth, "d", "predicted GiB"),
        ):
            name_axes(axes, below, "")
            axes.set_title(title, fontsize=9, loc="left")
        legend_above(figure, columns=4)
        return paper_figure(
            figure, "Passes and memory measured against predicted, and how memory grows with d"
        )


def _draw_pairs(axes: Any, rows: Sequence[Row], model: CostModel | None, name: str, unit: float) -> None:
    """Measured against predicted; the checks are larger and hollow."""
    ends = [1.0]
    for role in (FITTED, CHECKED):
        for place, (learner, title) in enumerate(_TITLES.items()):
            pairs = [
                (getattr(said, name) / unit, measured[name] / unit)
                for (one, size), measured in _measured(rows, role).items()
                if one == learner and name in measured and (said := _said(model, learner, size)) is not None
            ]
            pairs = [pair for pair in pairs if pair[0] > 0]
            if pairs:
                ends += [value for pair in pairs for value in pair]
                look = line_look(place) | {"linestyle": "none"}
                if role == CHECKED:
                    look |= {"markersize": 10.0, "markerfacecolor": "none", "markeredgecolor": look["color"]}
                    look |= {"markeredgewidth": 1.6}
                axes.plot(*np.transpose(pairs), **look, label=title + (", check" if role == CHECKED else ""))
    low, high = decade_limits(ends[1:] or ends)
    line = np.array([low, high])
    axes.plot(line, line, color=FAINT, linewidth=1.0, label="equal")
    axes.fill_between(
        line,
        line * (1 - _WITHIN),
        line * (1 + _WITHIN),
        color=FAINT,
        alpha=0.18,
        linewidth=0,
        label=f"within {_WITHIN:.0%}",
    )
    for scale, axis in ((axes.set_xscale, axes.xaxis), (axes.set_yscale, axes.yaxis)):
        scale("log")
        _ticks(axis, low, high)
    axes.set_xlim(low, high)
    axes.set_ylim(low, high)


def _ticks(axis: Any, low: float, high: float) -> None:
    """Powers of ten; where there are few of them, powers of two times a hundred."""
    decade_ticks(axis, low, high)
    if high < 100 * low:
        axis.set_ticks([value for value in (100.0 * 2**power for power in range(8)) if low <= value <= high])
        axis.set_major_formatter("{x:.0f}")


def _draw_growth(axes: Any, model: CostModel | None) -> None:
    dims = [2**power for power in range(5, 13)]
    values = [_MACHINE]
    for place, (learner, m, k) in enumerate(_LINES):
        said = [_said(model, learner, (m, k, d)) for d in dims]
        if all(one is not None for one in said):
            sizes = [one.memory / _GIB for one in said if one is not None]
            values += sizes
            look = line_look(place + len(_TITLES)) | {"marker": ""}
            label = f"m = {m}, k = {k}" if learner == "newton" else f"linear attention, k = {k}"
            axes.plot(dims, sizes, **look, label=label)
    axes.axhline(_MACHINE, color=FAINT, linestyle=(0, (1, 1.5)), linewidth=1.2, label="24 GiB")
    axes.set_yscale("log")
    low, high = decade_limits(values)
    axes.set_ylim(low, high)
    decade_ticks(axes.yaxis, low, high)
    dimension_axis(axes, dims[::2])


STUDY = Study(
    name="cost",
    title="What learning costs",
    question="What do examples, passes and memory come to as heads m, tokens k and dimension d grow, and do small "
    "sizes tell what a larger one takes?",
    expected="By the specification of the learners Newton needs a few counting floors max(d^2/(k(k-1)), 2 m d/k) of "
    "examples, and by its own notes about 600 passes and memory of order N k m (d + k) + m d^2 + (m d)^2; cubic "
    "regression, after Yau et al., holds a matrix of d^6/4 numbers; Chen and Li prove (dk)^(O(m^3)) time for the six "
    "phases.",
    limits="Passes are an empirical law of nice targets with d at least 4 m, k up to 8 and d up to 64, so those at "
    "hundreds of tokens are extrapolated far; memory is that of NumPy's arrays in this implementation, without the "
    "interpreter, the workspaces inside BLAS and LAPACK, or a network; seconds, which depend on the machine, hard "
    "targets, noise and Adam, whose steps depend on its settings, are left out; whether Newton succeeds at the sizes "
    "beyond is not known.",
    how="Newton on nice targets with Boolean tokens, its own budget of four counting floors, up to ten random starts; "
    "cubic regression on linear attention with Gaussian tokens; at full scale also the six phases in practical mode. "
    "Each fit runs in a process of its own after a small one that is not counted; memory is the peak of the arrays "
    "that tracemalloc sees, with the examples that are drawn. Laws are fitted to medians over draws (three at full "
    "scale for Newton, two at quick; one for the others, which hardly vary): examples and memory as sums of known "
    "terms with coefficients of at least zero, Newton's passes as factor m^a k^b d^c e^f, with e how many times the "
    "examples are those that the patterns alone need. The sizes marked as checks are larger than all that were fitted "
    "and are left out of the fit. Multiplications are those of the products of the inner solver, or of the normal "
    "equations, by their formulas. Newton's passes are those of all starts together. The term of the regression's "
    "memory for two blocks of features was chosen after its check had been seen; the other laws were set before "
    "theirs.",
    cells=cost_cells,
    measure=measure_cost,
    found=_found,
    table=_table,
    draw=_draw,
    stream=("learner", "m", "k", "d", "draw"),
)

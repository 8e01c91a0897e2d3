"""Study: what learning costs against heads, tokens and dimension, and whether small sizes tell it of larger ones."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from arena._canvas import canvas
from arena.cost_model import CostModel
from arena.palette import FAINT
from arena.paper_figure import PaperFigure, dimension_axis, legend_above, line_look, paper_figure
from arena.phase_axes import axes_in, decade_limits, decade_ticks, name_axes
from arena.studies._cost_cells import CHECKED, FITTED, cost_cells, measure_cost
from arena.studies._cost_words import (
    MACHINE,
    TITLES,
    WITHIN,
    cost_table,
    fitted_model,
    found_in_words,
    measured_at,
    said_of,
)
from arena.studies.study import Row, Study

__all__ = ["STUDY"]

_GIB = 2.0**30
_LINES = (("newton", 8, 8), ("newton", 12, 64), ("newton", 32, 2048), ("linear", 12, 64))


def _draw(rows: Sequence[Row]) -> PaperFigure:
    model = fitted_model(rows)
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
        for place, (learner, title) in enumerate(TITLES.items()):
            pairs = [
                (getattr(said, name) / unit, measured[name] / unit)
                for (one, size), measured in measured_at(rows, role).items()
                if one == learner and name in measured and (said := said_of(model, learner, size)) is not None
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
        line * (1 - WITHIN),
        line * (1 + WITHIN),
        color=FAINT,
        alpha=0.18,
        linewidth=0,
        label=f"within {WITHIN:.0%}",
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
    values = [MACHINE]
    for place, (learner, m, k) in enumerate(_LINES):
        said = [said_of(model, learner, (m, k, d)) for d in dims]
        if all(one is not None for one in said):
            sizes = [one.memory / _GIB for one in said if one is not None]
            values += sizes
            look = line_look(place + len(TITLES)) | {"marker": ""}
            label = f"m = {m}, k = {k}" if learner == "newton" else f"linear attention, k = {k}"
            axes.plot(dims, sizes, **look, label=label)
    axes.axhline(MACHINE, color=FAINT, linestyle=(0, (1, 1.5)), linewidth=1.2, label="24 GiB")
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
    "beyond is not known, and the passes of fits that did not end exact are no cost of learning.",
    how="Newton on nice targets with Boolean tokens, its own budget of four counting floors, up to ten starts, the "
    "second from the cross-moments of the examples and the others random; cubic regression on linear attention with"
    " Gaussian tokens; at full scale also the six phases in practical mode. Each fit runs in a process of its own "
    "after a small one that is not counted; memory is the peak of the arrays that tracemalloc sees, with the "
    "examples that are drawn. Laws are fitted to medians over the draws that ended exact (three draws at full scale"
    " for Newton, two at quick; one for the others, which hardly vary): examples and memory as sums of known terms "
    "with coefficients of at least zero, Newton's passes as factor m^a k^b d^c e^f, with e how many times the "
    "examples are those that the patterns alone need. N is the number of examples, F that of cubic features, floor "
    "the counting floor and excess e; memory in bytes. The sizes marked as checks are larger than all that were "
    "fitted in d, or in m and k, and are left out of the fit. Multiplications are those of the products of the "
    "inner solver, or of the normal equations, by their formulas. Newton's passes are those of all starts together,"
    " without what finds the second one, 16 to 60 products with m + 8 directions. The term of the regression's "
    "memory for two blocks of features was chosen after its first check had been seen, which is therefore not "
    "counted; the other laws were set before theirs. A second check of the regression, and two of Newton at more "
    "heads and tokens than were fitted, were added when every law was settled, and no law was changed for them; one"
    " fit each of the regression's and of the larger one of Newton's had been tried on other draws to see that they"
    " run. When those two of Newton were first measured all starts were random, and four of four fits ended short "
    "of the target; the second start was changed for that, and all of it measured again. The interval of passes is "
    "that of prediction for a further median, 95 % by Student's t in logarithms, if the law holds at that size; "
    "extrapolated means beyond the m, k or d that were fitted.",
    cells=cost_cells,
    measure=measure_cost,
    found=found_in_words,
    table=cost_table,
    draw=_draw,
    stream=("learner", "m", "k", "d", "draw"),
)

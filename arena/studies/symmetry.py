"""Study: whether and when two heads trained by gradient descent part."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from arena._canvas import canvas
from arena.paper_figure import PaperFigure, legend_above, line_look, paper_figure
from arena.phase_axes import axes_in, decade_limits, decade_ticks, name_axes
from arena.studies._symmetry_descent import Optimiser
from arena.studies._symmetry_measure import ADAM_RATE, GAPS, escape, make_target, train
from arena.studies._symmetry_words import found_in_words, median_of, part_of, symmetry_table
from arena.studies.study import Parameters, Row, Study
from paper_checks import Scale

__all__ = ["STUDY"]

_PLAIN: Optimiser = "gradient descent"
_ADAM: Optimiser = "Adam"


def _cells(scale: Scale) -> list[Parameters]:
    quick = scale is Scale.QUICK
    steps = 800 if quick else 3000
    nice = [(2, 16)] if quick else [(2, 16), (4, 16), (2, 32)]
    escapes = [
        ("nice", tokens, dim, optimiser, rate, draw)
        for tokens, dim in nice
        for optimiser, rate in ((_PLAIN, 1.0), (_PLAIN, 0.5), (_ADAM, ADAM_RATE))
        if dim == 16 or rate != 0.5
        for draw in range(1 if quick else (3 if dim == 16 else 2))
    ] + [
        (target, 2, 16, optimiser, rate, draw)
        for target in (("0.1",) if quick else ("1", "0.3", "0.1", "0.03"))
        for optimiser, rate in ((_PLAIN, 1.0), (_ADAM, ADAM_RATE))
        for draw in range(1 if quick else 3)
    ]
    trainings = [
        ("nice", tokens, dim, optimiser, rate, gap, draw)
        for tokens, dim in nice
        for optimiser, rate in ((_PLAIN, 1.0), (_ADAM, ADAM_RATE))
        for gap in ((0.0, 1e-6, 1.0) if quick else ((0.0, 1e-6, 1e-2, 1.0) if dim == 16 else (1e-6, 1.0)))
        for draw in range(2 if quick else (5 if dim == 16 else 2))
    ] + [
        (target, 2, 16, optimiser, rate, gap, draw)
        for target in (() if quick else ("0.3", "0.1", "0.03"))
        for optimiser, rate in ((_PLAIN, 1.0), (_ADAM, ADAM_RATE))
        for gap in (1e-6, 1.0)
        for draw in range(4)
    ]
    names = ("target", "tokens", "dim", "optimiser", "rate")
    cells: list[Parameters] = [
        {"part": "escape", **dict(zip((*names, "draw"), cell, strict=True)), "steps": steps}
        for cell in escapes
    ]
    cells += [
        {
            "part": "train",
            **dict(zip((*names, "start_gap", "draw"), cell, strict=True)),
            "steps": 800 if quick or cell[2] == 32 else 1500,
        }
        for cell in trainings
    ]
    return cells


def _measure(
    *,
    rng: np.random.Generator,
    part: str,
    target: str,
    tokens: int,
    dim: int,
    optimiser: Optimiser,
    rate: float,
    draw: int,
    steps: int,
    start_gap: float = 0.0,
) -> Mapping[str, Any]:
    _, x, y = make_target(target, tokens, dim, rng)
    if part == "escape":
        return escape(x, y, optimiser=optimiser, rate=rate, steps=steps, rng=rng)
    return train(x, y, optimiser=optimiser, rate=rate, steps=steps, gap=start_gap, rng=rng)


def _draw(rows: Sequence[Row]) -> PaperFigure:
    with canvas(8.4, 3.5) as figure:
        curves, times, depth = (axes_in(figure, (left, 0.15, 0.255, 0.53)) for left in (0.06, 0.4, 0.735))
        _draw_curves(curves, rows)
        _draw_times(times, rows)
        _draw_depth(depth, rows)
        legend_above(figure, columns=3)
        return paper_figure(
            figure,
            "The distance between two heads against steps from several gaps, the steps until they part against the gap "
            "with the prediction, and the curvature of the saddle against the distance of the target's heads",
        )


def _draw_curves(axes: Any, rows: Sequence[Row]) -> None:
    shown = [1.0, 1e-8]
    for optimiser, style in ((_PLAIN, "-"), (_ADAM, (0, (1.5, 1.5)))):
        runs = [row for row in part_of(rows, "escape", optimiser) if row["rate"] != 0.5]
        look = {**line_look(0 if optimiser == _PLAIN else 1), "linestyle": style, "marker": ""}
        for steps, distances in runs[0]["curves"] if runs else ():
            axes.plot(np.array(steps) + 1, distances, **look)
            shown += [one for one in distances if one > 0]
    axes.set_xscale("log")
    decade_ticks(axes.xaxis, 1.0, 1e4)
    axes.set_yscale("log")
    low, high = decade_limits(shown)
    axes.set_ylim(low, high)
    decade_ticks(axes.yaxis, low, high)
    _named(axes, "steps + 1 (dotted: Adam)", "distance between the heads")


def _draw_times(axes: Any, rows: Sequence[Row]) -> None:
    runs = part_of(rows, "escape")
    groups = dict.fromkeys(
        (row["target"], row["tokens"], row["dim"], row["optimiser"])
        for row in runs
        if row["rate"] != 0.5 and row["target"] in ("nice", "0.1")
    )
    shown = [10.0]
    for place, group in enumerate(groups):
        members = [
            row
            for row in runs
            if (row["target"], row["tokens"], row["dim"], row["optimiser"]) == group and row["rate"] != 0.5
        ]
        look = line_look(place)
        for name in ("breaking", "predicted"):
            line = [
                (gap, median)
                for at, gap in enumerate(GAPS)
                if (median := median_of([row[name][at] for row in members])) is not None
            ]
            if name == "predicted" and line:
                axes.plot(*zip(*line, strict=True), color=look["color"], linewidth=0.9)
            elif name == "breaking":
                target, tokens, dim, optimiser = group
                words = "nice" if target == "nice" else f"gap {target}"
                label = f"{words}, k = {tokens}, d = {dim}, {'Adam' if optimiser == _ADAM else 'gradient'}"
                points = tuple(zip(*line, strict=True)) or ((), ())
                axes.plot(*points, **{**look, "linestyle": ""}, label=label)
            shown += [value for _, value in line]
    axes.plot([], [], color="#5d6875", linewidth=0.9, label="lines in the middle: predicted")
    axes.set_xscale("log")
    decade_ticks(axes.xaxis, min(GAPS), max(GAPS))
    axes.set_xticks(GAPS)
    axes.set_yscale("log")
    low, high = decade_limits([max(one, 1.0) for one in shown])
    axes.set_ylim(low, high)
    decade_ticks(axes.yaxis, low, high)
    _named(axes, "gap at the start", "steps until they part")


def _draw_depth(axes: Any, rows: Sequence[Row]) -> None:
    points = [
        (float(row["target"]), -row["curvature"])
        for row in part_of(rows, "escape", _PLAIN)
        if row["target"] != "nice" and row["curvature"] < 0
    ]
    if points:
        axes.plot(*zip(*points, strict=True), **{**line_look(0), "linestyle": ""})
        gaps = sorted({gap for gap, _ in points})
        unit = float(np.exp(np.mean([np.log(depth / gap) for gap, depth in points])))
        look = {"color": "#5d6875", "linewidth": 0.9, "linestyle": (0, (4, 2))}
        axes.plot(gaps, [unit * gap for gap in gaps], **look, label="fit of slope 1")
    for way, values in (("x", [gap for gap, _ in points]), ("y", [depth for _, depth in points])):
        low, high = decade_limits(values or [1.0])
        getattr(axes, f"set_{way}scale")("log")
        getattr(axes, f"set_{way}lim")(low, high)
        decade_ticks(getattr(axes, f"{way}axis"), low, high)
    _named(axes, "gap of the target's heads", "-least curvature")


def _named(axes: Any, below: str, above: str) -> None:
    name_axes(axes, below, "")
    axes.set_title(above, fontsize=9.5, loc="left")


STUDY = Study(
    name="symmetry",
    title="Two heads part",
    question="Do two heads trained by gradient descent break symmetry, and when?",
    expected="The specification lists the question without an answer; the usual picture of saddles says that equal "
    "heads stay equal, and that nearly equal ones part after a time that grows with the logarithm of 1/gap, at the "
    "rate of the most negative curvature of the symmetric point; Adam, which divides gradients by their size, should "
    "part them sooner.",
    limits="Two heads, all examples in every step and constant rates: noise of small batches, weight decay or more "
    "heads than the target has may part heads otherwise, and an end at one head's error is one within the steps "
    "given.",
    how="Escape: one head is trained on all examples by L-BFGS and halved into two equal heads, which are moved "
    "apart in a random direction to relative distances from 1e-8 to 1e-2 and trained until they part, at a distance "
    "of 0.1 (0 is equal, 1 orthogonal), for up to 3000 steps (800 at the quick scale): by gradient descent with rate "
    "1 or 1/2 over the largest curvature there, and by Adam at 0.003. Along changes (a, -a) the Hessian is that of "
    "the loss with the residual held fixed; its least eigenvalue -lambda is found by Lanczos on products with it, "
    "and predicts growth by 1 + eta lambda a step (derived here). The halved heads as they are, exactly equal, are "
    "followed for a twentieth of those steps. Ends: random starts, the second head a mixture of "
    "the first and a share of its own (0, 1e-6, 1e-2 or 1), 1500 steps (800 at d = 32 and at the quick scale); one "
    "that is below nine tenths of the best single head's error is led to its minimum by L-BFGS and called exact "
    "below a fiftieth of it. Targets: nice layers of sigma 2, and two heads at a given distance; examples 3 (k = 2) "
    "or 6 (k = 4) times d^2/(k(k-1)); 2 to 5 targets a point, the same for all rates, methods and starts; intervals "
    "of shares are 95 % by Clopper and Pearson.",
    cells=_cells,
    measure=_measure,
    found=found_in_words,
    table=symmetry_table,
    draw=_draw,
    stream=("part", "target", "tokens", "dim", "draw"),
)

"""Study: whether and when two heads trained by gradient descent part."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from arena._canvas import canvas
from arena.paper_figure import PaperFigure, legend_above, line_look, paper_figure
from arena.phase_axes import axes_in, decade_limits, decade_ticks, name_axes
from arena.studies._symmetry_descent import Optimiser
from arena.studies._symmetry_measure import ADAM_RATE, GAPS, escape, make_target, train
from arena.studies.study import Parameters, Row, Study, Table
from paper_checks import Scale, proportion_interval, slope_interval

__all__ = ["STUDY"]

_PLAIN: Optimiser = "gradient descent"
_ADAM: Optimiser = "Adam"
_SHOWN_GAP = 1e-6
_NEARLY = 0.1  # starts with a smaller share of their own are nearly equal


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


def _part(rows: Sequence[Row], part: str, optimiser: str | None = None) -> list[Row]:
    return [row for row in rows if row["part"] == part and optimiser in (None, row["optimiser"])]


def _ratios(rows: Sequence[Row]) -> list[float]:
    """Measured growth over predicted growth, of every run of gradient descent that stayed near long enough."""
    return [
        growth / row["growth_predicted"]
        for row in rows
        if row["growth_predicted"]
        for growth in row["growths"]
        if growth is not None
    ]


def _found(rows: Sequence[Row]) -> str:
    told = [
        one for one in (_found_equal(rows), _found_growth(rows), _found_time(rows), _found_ends(rows)) if one
    ]
    text = "; ".join(told) or "too few cells were measured"
    return text[:1].upper() + text[1:] + "."


def _found_equal(rows: Sequence[Row]) -> str:
    equal = [row["equal_distance"] for row in _part(rows, "escape")]
    equal += [row["distance"] for row in _part(rows, "train") if row["start_gap"] == 0]
    if not equal:
        return ""
    return f"exactly equal heads stayed equal to the last bit in {sum(one == 0 for one in equal)} of {len(equal)} runs"


def _found_growth(rows: Sequence[Row]) -> str:
    plain = _part(rows, "escape", _PLAIN)
    ratios = _ratios(plain)
    if not ratios:
        return ""
    strict = sum(row["curvature"] < 0 for row in plain)
    worst = max(abs(ratio - 1) for ratio in ratios)
    many = f"all of {len(plain)}" if strict == len(plain) else f"{strict} of {len(plain)}"
    said = (
        f"{many} halved single heads are strict saddles, which gradient descent leaves at the predicted rate within "
        f"{worst:.1g} of it"
    )
    close = [row for row in plain if row["target"] != "nice"]
    if len({row["target"] for row in close}) > 2:
        slope = slope_interval(
            np.log([float(row["target"]) for row in close]),
            np.log([-row["curvature"] for row in close]),
            confidence=0.95,
        )
        said += (
            f" and whose curvature goes as the gap of the target's heads to the {slope.estimate:.2f} "
            f"({slope.low:.2f}-{slope.high:.2f})"
        )
    return said


def _found_time(rows: Sequence[Row]) -> str:
    parts = []
    for optimiser, words in ((_PLAIN, "gradient descent"), (_ADAM, "Adam")):
        chosen = [
            row
            for row in _part(rows, "escape", optimiser)
            if row["target"] == "nice" and (row["tokens"], row["dim"]) == (2, 16) and row["rate"] != 0.5
        ]
        times = [
            [row["breaking"][place] for row in chosen if row["breaking"][place] is not None]
            for place in (0, len(GAPS) - 1)
        ]
        if all(times):
            parts.append(
                f"{np.median(times[0]):.0f} steps of {words} ({np.median(times[1]):.0f} from {GAPS[-1]:g})"
            )
    return f"from a gap of {GAPS[0]:g} nice heads part after {' and '.join(parts)}" if parts else ""


def _found_ends(rows: Sequence[Row]) -> str:
    parts = []
    for words, nearly in (("nearly equal", True), ("independent", False)):
        for optimiser in (_PLAIN, _ADAM):
            chosen = [
                row
                for row in _starts(rows, nearly)
                if row["optimiser"] == optimiser and row["target"] == "nice"
            ]
            if chosen:
                exact = sum(row["end"] == "exact" for row in chosen)
                parts.append(f"{exact} of {len(chosen)} ({words}, {optimiser})")
    return f"from random heads training ends at the nice target in {', '.join(parts)}" if parts else ""


def _starts(rows: Sequence[Row], nearly: bool) -> list[Row]:
    return [
        row
        for row in _part(rows, "train")
        if (0 < row["start_gap"] < _NEARLY if nearly else row["start_gap"] >= _NEARLY)
    ]


def _table(rows: Sequence[Row]) -> Table:
    keys = dict.fromkeys(
        (row["target"], row["tokens"], row["dim"], row["optimiser"], row["rate"]) for row in rows
    )
    return Table(
        (
            "target",
            "k, d",
            "training",
            "least curvature",
            "growth / predicted",
            f"steps to part from {_SHOWN_GAP:g}",
            "predicted",
            "exact from nearly equal",
            "exact from independent",
            "left at one head",
        ),
        tuple(_line(rows, key) for key in keys),
    )


def _line(rows: Sequence[Row], key: tuple[Any, ...]) -> tuple[str, ...]:
    target, tokens, dim, optimiser, rate = key
    same = [
        row
        for row in rows
        if (row["target"], row["tokens"], row["dim"], row["optimiser"], row["rate"]) == key
    ]
    runs = _part(same, "escape")
    place = GAPS.index(_SHOWN_GAP)
    ratios = _ratios(runs)
    trained = [*_starts(same, True), *_starts(same, False)]
    return (
        target if target == "nice" else f"gap {target}",
        f"{tokens}, {dim}",
        f"{optimiser}, {rate:g}" + (" / largest curvature" if optimiser == _PLAIN else ""),
        f"{np.median([row['curvature'] for row in runs]):.2g}" if runs else "",
        f"{min(ratios):.4f} to {max(ratios):.4f}" if ratios else "",
        _median_or_never(
            [row["breaking"][place] for row in runs], max((row["steps"] for row in runs), default=0)
        ),
        _median_or_never([row["predicted"][place] for row in runs], None),
        _share(_starts(same, True), "exact"),
        _share(_starts(same, False), "exact"),
        _share(trained, "one head"),
    )


def _median_or_never(values: Sequence[float | None], most: int | None) -> str:
    there = [value for value in values if value is not None]
    if len(there) * 2 > len(values):
        return f"{np.median(there):.0f}"
    return f"over {most}" if values and most else ""


def _share(rows: Sequence[Row], end: str) -> str:
    if not rows:
        return ""
    count = sum(row["end"] == end for row in rows)
    interval = proportion_interval(count, len(rows), confidence=0.95)
    return f"{count} of {len(rows)} ({interval.low:.2f}-{interval.high:.2f})"


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
        runs = [row for row in _part(rows, "escape", optimiser) if row["rate"] != 0.5]
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
    runs = _part(rows, "escape")
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
                (gap, float(np.median(there)))
                for gap, there in zip(
                    GAPS,
                    (
                        [row[name][at] for row in members if row[name][at] is not None]
                        for at in range(len(GAPS))
                    ),
                    strict=True,
                )
                if len(there) * 2 > len(members)
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
    axes.plot([], [], color="#5d6875", linewidth=0.9, label="predicted")
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
        for row in _part(rows, "escape", _PLAIN)
        if row["target"] != "nice" and row["curvature"] < 0
    ]
    if points:
        axes.plot(*zip(*points, strict=True), **{**line_look(0), "linestyle": ""})
        gaps = sorted({gap for gap, _ in points})
        unit = float(np.exp(np.mean([np.log(depth / gap) for gap, depth in points])))
        axes.plot(gaps, [unit * gap for gap in gaps], color="#5d6875", linewidth=0.9)
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
    "and predicts growth by 1 + eta lambda a step (derived here). Ends: random starts, the second head a mixture of "
    "the first and a share of its own (0, 1e-6, 1e-2 or 1), 1500 steps (800 at d = 32 and at the quick scale); one "
    "that is below nine tenths of the best single head's error is led to its minimum by L-BFGS and called exact "
    "below a fiftieth of it. Targets: nice layers of sigma 2, and two heads at a given distance; examples 3 (k = 2) "
    "or 6 (k = 4) times d^2/(k(k-1)); 2 to 5 targets a point, the same for all rates, methods and starts; intervals "
    "of shares are 95 % by Clopper and Pearson.",
    cells=_cells,
    measure=_measure,
    found=_found,
    table=_table,
    draw=_draw,
    stream=("part", "target", "tokens", "dim", "draw"),
)

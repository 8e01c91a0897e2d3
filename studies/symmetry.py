"""Whether and when two heads trained by gradient descent separate."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from runs import Scale
from runs.figures import decade_ticks
from studies.intervals import slope_interval
from studies.line_figure import Panel, curve_of, line_figure
from studies.rows import chosen, grouped, of_all, with_interval
from studies.study import Parameters, Row, Study
from studies.symmetry_descent import ADAM_RATE, GAPS, Optimiser, escape, make_target, train

__all__ = ["STUDY"]

_PLAIN: Optimiser = "gradient descent"
_ADAM: Optimiser = "Adam"
_NEARLY = 0.1  # starts with a smaller own share than this are nearly equal
_EXACT = 0.02  # of a single head's error


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


def _nearly(rows: Sequence[Row], **wanted: Any) -> list[Row]:
    return [row for row in chosen(rows, part="train", **wanted) if 0 < row["start_gap"] < _NEARLY]


def _independent(rows: Sequence[Row], **wanted: Any) -> list[Row]:
    return [row for row in chosen(rows, part="train", **wanted) if row["start_gap"] >= _NEARLY]


def _ends(rows: Sequence[Row], end: str = "exact") -> list[bool]:
    return [row["end"] == end for row in rows]


def _left(row: Row) -> float:
    """The error after training, divided by the error of a single head."""
    return float(row["error"] / row["one_head_error"])


def _median(values: Sequence[float | None]) -> float | None:
    """The median, where runs that never get there rank last; None if the median is such a run."""
    median = float(np.median([np.inf if value is None else value for value in values])) if values else np.inf
    return median if np.isfinite(median) else None


def _ratios(rows: Sequence[Row]) -> list[float]:
    """Measured over predicted growth, for every run of gradient descent that stayed near long enough."""
    return [
        growth / row["growth_predicted"]
        for row in rows
        if row["growth_predicted"]
        for growth in row["growths"]
        if growth is not None
    ]


def _numbers(rows: Sequence[Row]) -> dict[str, Any]:
    still, plain = chosen(rows, part="escape"), chosen(rows, part="escape", optimiser=_PLAIN)
    equal = [row["equal_distance"] for row in still]
    equal += [row["distance"] for row in chosen(rows, part="train", start_gap=0.0)]
    nearly, independent = _nearly(rows), _independent(rows)
    failed = [row for row in (*nearly, *independent) if row["end"] != "exact"]
    arrived = [row for row in (*nearly, *independent) if row["end"] == "exact"]
    named: dict[str, Any] = {
        "equal": of_all(one == 0 for one in equal),
        "parted": of_all(row["parted"] is not None for row in nearly),
        "nearly": of_all(_ends(nearly)),
        "independent": of_all(_ends(independent)),
        "together": sum(row["parted"] is None for row in failed),
        "by_lbfgs": of_all(_left(row) > _EXACT for row in arrived),
    }
    if apart := [_left(row) for row in failed if row["parted"] is not None]:
        named |= {"apart": len(apart), "apart_error": f"{min(apart):.3f} to {max(apart):.3f}"}
    for optimiser, name in ((_PLAIN, "plain"), (_ADAM, "adam")):
        nice = _nearly(rows, target="nice", optimiser=optimiser)
        steps = [row["parted"] for row in nice if row["start_gap"] == 1e-6 and row["dim"] == 16]
        if steps and None not in steps:
            named[f"steps_{name}"] = f"{min(steps)} to {max(steps)}"
        close = [row for row in _nearly(rows, optimiser=optimiser) if row["target"] != "nice"]
        named |= {f"nice_{name}": of_all(_ends(nice)), f"close_{name}": of_all(_ends(close))}
        runs = chosen(still, part="escape", optimiser=optimiser, target="nice", tokens=2, dim=16)
        for place in range(len(GAPS)):
            middle = _median([row["breaking"][place] for row in runs if row["rate"] != 0.5])
            named[f"escape_{name}_{place}"] = "never" if middle is None else f"{middle:.0f}"
    # two rates halve the same heads
    heads = {(row["target"], row["tokens"], row["dim"], row["draw"]): row["curvature"] for row in plain}
    named["saddles"] = of_all(curvature < 0 for curvature in heads.values())
    if ratios := _ratios(plain):
        named["growth"] = f"{max(abs(ratio - 1) for ratio in ratios):.1g}"
    off = [
        steps / predicted - 1
        for row in plain
        for steps, predicted in zip(row["breaking"], row["predicted"], strict=True)
        if steps is not None and predicted
    ]
    if off:
        named |= {"soonest": f"{-min(off):.0%}", "latest": f"{max(off):.0%}"}
    close = [row for row in plain if row["target"] != "nice"]
    if len({row["target"] for row in close}) > 2:
        gaps, depths = ([float(row["target"]) for row in close], [-row["curvature"] for row in close])
        slope = slope_interval(np.log(gaps), np.log(depths), confidence=0.95)
        named["slope"] = f"{slope.estimate:.2f} ({slope.low:.2f} to {slope.high:.2f})"
    return named


def _table(rows: Sequence[Row]) -> list[dict[str, str]]:
    names = ("target", "tokens", "dim", "optimiser", "rate")
    return [_line(rows, dict(zip(names, key, strict=True))) for key in grouped(rows, *names)]


def _line(rows: Sequence[Row], same: Mapping[str, Any]) -> dict[str, str]:
    runs, nearly, independent = (
        chosen(rows, part="escape", **same),
        _nearly(rows, **same),
        _independent(rows, **same),
    )
    place, ratios = GAPS.index(1e-6), _ratios(runs)
    steps, predicted = (_median([row[name][place] for row in runs]) for name in ("breaking", "predicted"))
    never = f"over {max(row['steps'] for row in runs)}" if runs else ""
    unit = " / largest curvature" if same["optimiser"] == _PLAIN else ""
    return {
        "target": "nice" if same["target"] == "nice" else f"gap {same['target']}",
        "k, d": f"{same['tokens']}, {same['dim']}",
        "training": f"{same['optimiser']}, {same['rate']:g}{unit}",
        "least curvature": f"{np.median([row['curvature'] for row in runs]):.2g}" if runs else "",
        "growth / predicted": f"{min(ratios):.4f} to {max(ratios):.4f}" if ratios else "",
        "steps to part from 1e-06": never if steps is None else f"{steps:.0f}",
        "predicted": "" if predicted is None else f"{predicted:.0f}",
        "exact from nearly equal": _share(_ends(nearly)),
        "exact from independent": _share(_ends(independent)),
        "still at one head's error": _share(_ends([*nearly, *independent], "one head")),
    }


def _share(hits: list[bool]) -> str:
    return with_interval(hits) if hits else ""


def _figure(rows: Sequence[Row]) -> Any:
    """The distance between the heads by steps, for four gaps; and the steps until they separate, by the gap."""
    distances: dict[str, tuple[list[float], list[float]]] = {}
    times: dict[str, tuple[list[float], list[float]]] = {}
    for optimiser in (_PLAIN, _ADAM):
        runs = [
            row
            for row in chosen(rows, part="escape", optimiser=optimiser, tokens=2, dim=16)
            if row["rate"] != 0.5
        ]
        for steps, heads in runs[0]["curves"] if runs else ():
            x, y = distances.setdefault(optimiser, ([], []))
            # the gap in the line lies between two curves
            x += [*(step + 1 for step in steps[::6]), steps[-1] + 1]
            y += [*heads[::6], np.nan]
        for target, words in (("nice", "nice"), ("0.1", "gap 0.1")):
            for name, ending in (("breaking", ""), ("predicted", ", predicted")):
                same = [row for row in runs if row["target"] == target]
                medians = {gap: _median([row[name][place] for row in same]) for place, gap in enumerate(GAPS)}
                times[f"{optimiser}, {words}{ending}"] = curve_of(medians)
    panels = [
        Panel("steps + 1", "distance between the heads, nice target", distances, log_x=True),
        Panel("gap at the start", "steps until the heads part", times, log_x=True),
    ]
    figure = line_figure(panels)
    decade_ticks(figure.axes[0].xaxis, *figure.axes[0].get_xlim())
    return figure


STUDY = Study(
    name="symmetry",
    title="Two heads part",
    question="Do two heads trained by gradient descent break symmetry, and when?",
    cells=_cells,
    measure=_measure,
    numbers=_numbers,
    table=_table,
    figure=_figure,
    stream=("part", "target", "tokens", "dim", "draw"),
)

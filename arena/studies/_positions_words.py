"""What the study of positions found: in words, as a table, and as a figure."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from arena._canvas import canvas
from arena.palette import FAINT
from arena.paper_figure import PaperFigure, legend_above, line_look, paper_figure
from arena.phase_axes import axes_in, decade_limits, decade_ticks
from arena.studies.study import Row, Table
from paper_checks import proportion_interval

__all__ = ["draw_positions", "found_in_words", "positions_table"]

_NAMES = {
    "sinusoidal": "sinusoidal",
    "gaussian": "Gaussian",
    "one-hot": "one-hot",
    "larger logits": "no positions, larger logits",
}
_EXACT = 1e-6
_LEAST = 1e-16  # shown in place of an error of zero
_RAW, _CENTRED = "as it is", "centred"


def _of(rows: Sequence[Row], part: str, tokens: int | None = None, **wanted: object) -> list[Row]:
    return [
        row
        for row in rows
        if row["part"] == part
        and tokens in (None, row["tokens"])
        and all(row[name] == value for name, value in wanted.items())
    ]


def _values(rows: Sequence[Row], what: str, way: str = "") -> list[float]:
    """The errors of rows, 1 for what failed."""
    found = [row[what][way] if way else row[what] for row in rows]
    return [1.0 if value is None else float(value) for value in found]


def _median(rows: Sequence[Row], what: str, way: str = "") -> float:
    return float(np.median(_values(rows, what, way)))


def _exact(rows: Sequence[Row], what: str, way: str = "") -> tuple[int, int]:
    values = _values(rows, what, way)
    return sum(value <= _EXACT for value in values), len(values)


def _least_tokens(rows: Sequence[Row], part: str) -> int | None:
    return min((row["tokens"] for row in _of(rows, part)), default=None)


def found_in_words(rows: Sequence[Row]) -> str:
    """One sentence, made of whatever was measured."""
    parts = [part for part in (_phase_one(rows), _later(rows), _newton(rows), _adam(rows)) if part]
    text = "; ".join(parts)
    return f"{text[:1].upper()}{text[1:]}." if text else "Nothing was measured."


def _phase_one(rows: Sequence[Row]) -> str:
    here = _of(rows, "phases", _least_tokens(rows, "phases"))
    positioned = [row for row in here if row["kind"] in ("sinusoidal", "gaussian", "one-hot")]
    if not positioned:
        return ""
    most = max(row["scale"] for row in positioned)
    kinds = [kind for kind in _NAMES if any(row["kind"] == kind for row in positioned)]

    def each(way: str) -> str:
        told = []
        for kind in kinds:
            if at := [row for row in positioned if (row["kind"], row["scale"]) == (kind, most)]:
                told.append(f"{_median(at, 'crude', way):.2g} ({_NAMES[kind]})")
        return ", ".join(told)

    plain = _of(here, "phases", kind="none")
    beside = f", against {_median(plain, 'crude', _RAW):.2g} without positions" if plain else ""
    return f"at scale {most:g} phase 1 is off by {each(_RAW)}, centred by {each(_CENTRED)}{beside}"


def _later(rows: Sequence[Row]) -> str:
    positioned = [row for row in _of(rows, "phases") if row["kind"] in ("sinusoidal", "gaussian", "one-hot")]
    told = []
    for scale in _last_two(positioned):
        here = [row for row in positioned if row["scale"] == scale]
        raw, centred = _exact(here, "final", _RAW), _exact(here, "final", _CENTRED)
        told.append(f"{raw[0]} of {raw[1]} at scale {scale:g} ({centred[0]} centred)")
    return f"the six phases end exact in {', '.join(told)}" if told else ""


def _newton(rows: Sequence[Row]) -> str:
    here = _of(rows, "newton")
    positioned = [row for row in here if row["kind"] in ("sinusoidal", "gaussian", "one-hot")]
    told = []
    for scale in _last_two(positioned):
        hits, trials = _exact([row for row in positioned if row["scale"] == scale], "error")
        control = _of(here, "newton", kind="larger logits", scale=scale)
        beside = " ({} of {} with larger logits alone)".format(*_exact(control, "error")) if control else ""
        told.append(f"{hits} of {trials} at scale {scale:g}{beside}")
    return f"Newton is exact in {', '.join(told)}" if told else ""


def _adam(rows: Sequence[Row]) -> str:
    here = _of(rows, "adam")
    plain = [row for row in here if row["kind"] == "none"]
    positioned = [row for row in here if row["kind"] in ("sinusoidal", "gaussian", "one-hot")]
    if not plain or not positioned:
        return ""
    most = max(row["scale"] for row in positioned)
    there = [row for row in positioned if row["scale"] == most]
    first, last = _median(plain, "error"), _median(there, "error")
    return f"Adam's error is {first:.1g} without positions and {last:.1g} at {most:g}"


def _last_two(rows: Sequence[Row]) -> list[float]:
    return sorted({row["scale"] for row in rows})[-2:]


def positions_table(rows: Sequence[Row]) -> Table:
    """A row for each kind and scale, of the fewest tokens measured."""
    header = (
        "positions and scale",
        "phase 1 (derived)",
        "centred (derived)",
        "span",
        "span, centred",
        "phases exact, centred",
        "Newton exact",
        "Gram / Adam's error",
    )
    phases, newton = _of(rows, "phases", _least_tokens(rows, "phases")), _of(rows, "newton")
    lines = []
    for kind in ("none", *_NAMES):
        for scale in sorted({row["scale"] for row in rows if row["kind"] == kind}):
            at = [row for row in phases if (row["kind"], row["scale"]) == (kind, scale)]
            solved = _of(newton, "newton", kind=kind, scale=scale)
            adam = _of(rows, "adam", kind=kind, scale=scale)
            condition = f"{np.median([row['condition'] for row in solved]):.0f}" if solved else "–"
            lines.append(
                (
                    f"{_NAMES.get(kind, kind)}, {scale:g}",
                    _with_derived(at, _RAW),
                    _with_derived(at, _CENTRED),
                    f"{_median(at, 'span', _RAW):.1e}" if at else "–",
                    f"{_median(at, 'span', _CENTRED):.1e}" if at else "–",
                    "{} of {}".format(*_exact(at, "final", _CENTRED)) if at else "–",
                    _success(solved),
                    f"{condition} / {_median(adam, 'error'):.1e}" if adam else f"{condition} / –",
                )
            )
    return Table(header, tuple(lines))


def _with_derived(rows: Sequence[Row], way: str) -> str:
    return f"{_median(rows, 'crude', way):.2g} ({_median(rows, 'predicted', way):.2g})" if rows else "–"


def _success(rows: Sequence[Row]) -> str:
    if not rows:
        return "–"
    hits, trials = _exact(rows, "error")
    interval = proportion_interval(hits, trials, confidence=0.95)
    return f"{hits} of {trials} ({interval.low:.2f} to {interval.high:.2f})"


def draw_positions(rows: Sequence[Row]) -> PaperFigure:
    """Errors of phase 1, of the span and of Newton and Adam against the scale."""
    scales = sorted({float(row["scale"]) for row in rows})
    phases = _of(rows, "phases", _least_tokens(rows, "phases"))
    with canvas(9.0, 3.7) as figure:
        panels = [axes_in(figure, (left, 0.15, 0.255, 0.6)) for left in (0.06, 0.395, 0.73)]
        for axes, what, title in zip(
            panels[:2], ("crude", "span"), ("error of phase 1", "error of the span"), strict=True
        ):
            for way, dashed in ((_RAW, False), (_CENTRED, True)):
                _lines(axes, phases, scales, _value(what, way), dashed=dashed)
            _finish(axes, scales, title)
        for part, dashed in (("newton", False), ("adam", True)):
            here = _of(rows, part, _least_tokens(rows, part))
            _lines(panels[2], here, scales, _value("error"), dashed=dashed)
        _finish(panels[2], scales, "error of Newton and of Adam")
        _styles(panels[0])
        legend_above(figure, columns=4)
        return paper_figure(
            figure,
            "Errors of phase 1, of the span and of Newton and Adam against the scale of the positions, by their kind",
        )


def _value(what: str, way: str = "") -> Callable[[Row], Any]:
    return lambda row: row[what][way] if way else row[what]


def _lines(
    axes: Any, rows: Sequence[Row], scales: Sequence[float], value: Callable[[Row], Any], *, dashed: bool
) -> None:
    style = (0, (3, 2)) if dashed else "-"
    for place, kind in enumerate(_NAMES):
        look = {**line_look(place), "linestyle": style}
        points = []
        for scale in scales:
            here = [row for row in rows if row["scale"] == scale and row["kind"] in (kind, "none")]
            if not here or not any(row["kind"] == kind for row in rows):
                continue
            values = [1.0 if value(row) is None else max(float(value(row)), _LEAST) for row in here]
            points.append((scales.index(scale), float(np.median(values))))
            axes.vlines(points[-1][0], min(values), max(values), color=look["color"], linewidth=0.7, zorder=3)
        if points:
            axes.plot(*zip(*points, strict=True), **look, label="" if dashed else _NAMES[kind])


def _styles(axes: Any) -> None:
    axes.plot([], [], color=FAINT, linewidth=1.3, linestyle="-", label="as it is; Newton")
    axes.plot([], [], color=FAINT, linewidth=1.3, linestyle=(0, (3, 2)), label="centred; Adam")


def _finish(axes: Any, scales: Sequence[float], title: str) -> None:
    axes.set_yscale("log")
    heights = [float(height) for line in axes.lines for height in line.get_ydata()]
    low, high = decade_limits(heights or [1.0])
    axes.set_ylim(low, high)
    decade_ticks(axes.yaxis, low, high)
    axes.set_xticks(range(len(scales)), [f"{scale:g}" for scale in scales])
    axes.set_xlim(-0.3, max(len(scales), 1) - 0.7)
    axes.set_xlabel("scale of the positions", loc="left")
    axes.set_title(title, fontsize=9, loc="left")

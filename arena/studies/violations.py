"""Study: each non-degeneracy condition violated alone: which phase breaks first, and whether Newton still ends."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from arena._canvas import canvas
from arena.palette import FAINT, INK, ON_STRONG, heat_colours, is_strong
from arena.paper_figure import PaperFigure, paper_figure
from arena.studies._violations import NICE, VIOLATIONS, violated_layer
from arena.studies._violations_runs import EXACT, PHASES, broken_phase, newton_error, phase_errors, ratios
from arena.studies.study import Parameters, Row, Study, Table
from paper_checks import Scale, proportion_interval

__all__ = ["STUDY"]

_TOKENS = 2
_MORE = ("close heads", "diagonal")  # of which one target each was seen before
_QUICK = {
    "close heads": 0.05,
    "opposed heads": 1.0,
    "diagonal": 1.0,
    "affinely dependent": 0.0,
}
_STRONGEST = 1000.0  # times the baseline's error, the last colour


def _cells(scale: Scale) -> list[Parameters]:
    quick = scale is Scale.QUICK
    steps = {name: tuple(float(one) for one in kind.steps) for name, kind in VIOLATIONS.items()}
    if quick:
        steps = {name: (step,) for name, step in _QUICK.items()}
    heads = {name: VIOLATIONS[name].heads for name in steps}
    chosen = [(NICE, 0.0, m) for m in (2, 3)]
    chosen += [(name, step, heads[name]) for name, several in steps.items() for step in several]
    return [
        {
            "violation": name,
            "step": step,
            "heads": m,
            "dim": 16 if m == 2 or quick else 24,
            # the net of three heads takes a minute
            "modes": ["paper", "practical"] if m == 2 else ["practical"],
            "runs": (2 if name == NICE else 1) if quick else 6 if name == NICE else 5 if name in _MORE else 3,
            "newton": 2 if quick else 8,
        }
        for name, step, m in chosen
    ]


def _measure(
    *,
    rng: np.random.Generator,
    violation: str,
    step: float,
    heads: int,
    dim: int,
    modes: Sequence[Any],
    runs: int,
    newton: int,
) -> Mapping[str, Any]:
    measured, beside, errors = [], [], []
    found: dict[str, list[Any]] = {mode: [] for mode in modes}
    # a stream a draw, so that the first draws of two cells begin with the same nice layers and examples
    for draw, stream in enumerate(rng.spawn(max(runs, newton))):
        for_layer, for_newton, *for_modes = stream.spawn(2 + len(modes))
        made = violated_layer(violation, step, heads=heads, tokens=_TOKENS, dim=dim, rng=for_layer)
        measured.append(made.measured)
        beside.append(list(made.beside))
        if draw < newton:
            errors.append(newton_error(made.layer, tokens=_TOKENS, rng=for_newton))
        for mode, generator in zip(modes, for_modes, strict=True):
            if draw < runs:
                found[mode].append(phase_errors(made.layer, mode, tokens=_TOKENS, rng=generator))
    return {"measured": measured, "beside": beside, "newton_errors": errors, **found}


def _baseline(rows: Sequence[Row], row: Row, mode: str) -> list[Any]:
    """The runs on nice layers of the same size; none if they were not measured."""
    same = [one for one in rows if one["violation"] == NICE and one["heads"] == row["heads"]]
    return [run for one in same for run in one[mode]]


def _broken(rows: Sequence[Row], row: Row, mode: str) -> Counter[int | None]:
    baseline = _baseline(rows, row, mode)
    return Counter(broken_phase(run, baseline) for run in row[mode])


def _mostly(rows: Sequence[Row], row: Row, mode: str) -> str:
    """Which phase breaks first in more than half of the runs."""
    phase, times = _broken(rows, row, mode).most_common(1)[0]
    if 2 * times <= len(row[mode]):
        return "by the draw"
    return "nowhere" if phase is None else f"phase {phase}"


def _exact(row: Row) -> tuple[int, int]:
    return sum(error <= EXACT for error in row["newton_errors"]), len(row["newton_errors"])


def _exact_runs(row: Row) -> int:
    return sum(run["error"] <= EXACT for run in row["practical"])


def _step(row: Row) -> str:
    return f"{row['step']:g}"


def _label(row: Row) -> str:
    return f"{row['violation']} {_step(row)}"


def _median_error(runs: Sequence[Mapping[str, Any]]) -> float:
    return float(np.median([run["error"] for run in runs]))


def _found(rows: Sequence[Row]) -> str:
    cells = [row for row in rows if row["violation"] != NICE]
    if not cells:
        return "Only nice layers were measured."
    told = []
    for mode in ("paper", "practical"):
        here = [row for row in cells if mode in row["modes"]]
        phases = Counter(_mostly(rows, row, mode) for row in here)
        if here:
            words = [f"{place} in {times}" for place, times in sorted(phases.items(), reverse=True)]
            told.append(f"{mode} mode, of {len(here)} violated settings, first breaks {', '.join(words)}")
    practical = [row for row in cells if _exact_runs(row) == len(row["practical"])]
    told.append(f"practical mode ends exact in every run of {len(practical)} of {len(cells)}")
    newton = [row for row in cells if _exact(row)[0] == _exact(row)[1]]
    lost = [f"{_label(row)} {_exact(row)[0]}/{_exact(row)[1]}" for row in cells if row not in newton]
    told.append(
        f"Newton reaches machine precision in every draw of {len(newton)} of {len(cells)}"
        + (f", less often in {', '.join(lost)}" if lost else "")
    )
    for name in _MORE:
        ends = [
            (_step(row), _median_error(row["paper"]) / _median_error(usual))
            for row in cells
            if row["violation"] == name and (usual := _baseline(rows, row, "paper"))
        ]
        if ends:
            step, ratio = ends[-1]
            told.append(f"paper mode's error is {ratio:.2g} times that on nice layers for {name} {step}")
    text = "; ".join(told)
    return text[:1].upper() + text[1:] + "."


def _table(rows: Sequence[Row]) -> Table:
    header = (
        "violated alone",
        "amounts",
        "measured",
        "fail beside it",
        "paper mode: first to break",
        "practical mode: first to break",
        "practical mode exact",
        "Newton exact, 95 % interval",
    )
    lines = []
    for name, heads in dict.fromkeys((row["violation"], row["heads"]) for row in rows):
        here = [row for row in rows if (row["violation"], row["heads"]) == (name, heads)]
        kind = VIOLATIONS.get(name)
        beside = Counter(one for row in here for names in row["beside"] for one in names)
        draws = sum(len(row["beside"]) for row in here)
        lines.append(
            (
                f"nothing, {heads} heads" if kind is None else f"{name}: {_plain(kind.condition)}",
                "" if kind is None else f"{kind.words} {_each(_step(row) for row in here)}",
                "" if kind is None else _each(f"{np.median(row['measured']):.3g}" for row in here),
                ", ".join(f"{_plain(one)} {100 * count / draws:.0f} %" for one, count in beside.items())
                or "none",
                _each(_first(rows, row, "paper") for row in here),
                _each(_first(rows, row, "practical") for row in here),
                _each(f"{_exact_runs(row)}/{len(row['practical'])}" for row in here),
                _each(_share(*_exact(row)) for row in here),
            )
        )
    return Table(header, tuple(lines))


def _each(words: Any) -> str:
    return "; ".join(words)


def _plain(condition: str) -> str:
    return condition.replace("theta_", "").replace("w_", "W ").replace("_", " ")


def _share(successes: int, trials: int) -> str:
    interval = proportion_interval(successes, trials, confidence=0.95)
    return f"{successes}/{trials} [{interval.low:.2f}, {interval.high:.2f}]"


def _first(rows: Sequence[Row], row: Row, mode: str) -> str:
    if mode not in row["modes"]:
        return "not run"
    counts = sorted(_broken(rows, row, mode).items(), key=lambda one: (-one[1], one[0] or 0))
    of = len(row[mode])
    return ", ".join(
        f"{'none' if phase is None else f'phase {phase}'} {times}/{of}" for phase, times in counts
    )


def _draw(rows: Sequence[Row]) -> PaperFigure:
    columns = [(mode, phase) for mode, phases in PHASES.items() for phase in phases]
    height, above, left = 0.2, 1.05, 2.35
    tall = above + 0.1 + height * len(rows)
    with canvas(left + 6.75, tall) as figure:
        axes = figure.add_axes((0, 0, 1, 1))
        axes.set_axis_off()
        axes.set_xlim(0, left + 6.75)
        axes.set_ylim(tall, 0)
        wide = 0.43
        places = [
            left + wide * place + 0.15 * (mode == "practical") for place, (mode, _) in enumerate(columns)
        ]
        ends = [places[-1] + wide + 0.15 + 0.5 * place for place in range(3)]
        small = {"fontsize": 7.5, "va": "center", "ha": "center"}
        for place, (mode, phase) in zip(places, columns, strict=True):
            axes.text(place + wide / 2, above - 0.12, str(phase), **small, color=INK)
            if phase == 1:
                words = f"{mode} mode, phase"
                axes.text(place, above - 0.34, words, fontsize=8.5, va="center", color=INK)
        for place, words in zip(ends, ("paper", "practical", "Newton"), strict=True):
            axes.text(place + 0.25, above - 0.12, words, **{**small, "fontsize": 7}, color=INK)
        axes.text(ends[0], above - 0.34, "runs that succeed", fontsize=8.5, va="center", color=INK)
        _key(axes)
        for line, row in enumerate(rows):
            top = above + height * line
            first = line == 0 or rows[line - 1]["violation"] != row["violation"]
            if first:
                axes.plot([0.05, ends[-1] + 0.5], [top, top], color=FAINT, linewidth=0.5, zorder=5)
            _row_label(axes, row, top + height / 2, left, first=first)
            for place, (mode, phase) in zip(places, columns, strict=True):
                words, level = _cell(rows, row, mode, phase)
                _box(axes, (place, top, wide, height), words, level)
            for place, (share, of) in zip(ends, _ended(row), strict=True):
                if of:
                    _box(axes, (place, top, 0.5, height), f"{share}/{of}", round(64 * (1 - share / of)))
        return paper_figure(
            figure,
            "Error of every phase over that on nice layers, by the condition violated, and how many runs succeed",
        )


def _key(axes: Any) -> None:
    axes.text(
        0.05, 0.14, "Error of a phase over the baseline's median (median of runs):", fontsize=8.5, va="center"
    )
    for place, ratio in enumerate((1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1000.0)):
        _box(axes, (3.95 + 0.43 * place, 0.04, 0.43, 0.2), f"{ratio:g}", _level(ratio))
    words = "end: the run ends here with a failure in most runs; empty: not reached"
    axes.text(0.05, 0.42, words, fontsize=8.5, va="center", color=FAINT)


def _row_label(axes: Any, row: Row, middle: float, left: float, *, first: bool) -> None:
    name = row["violation"] if row["violation"] != NICE else f"nothing, {row['heads']} heads"
    if first or row["violation"] == NICE:
        axes.text(0.08, middle, name, fontsize=8, va="center", color=INK)
    if row["violation"] != NICE:
        axes.text(left - 0.12, middle, f"{row['step']:g}", fontsize=8, va="center", ha="right", color=INK)


def _level(ratio: float) -> int:
    return round(64 * min(max(math.log(max(ratio, 1e-300)) / math.log(_STRONGEST), 0.0), 1.0))


def _cell(rows: Sequence[Row], row: Row, mode: str, phase: int) -> tuple[str, int]:
    """What a phase did in the runs of a cell, as text and as a colour."""
    if mode not in row["modes"]:
        return "", 0
    baseline = _baseline(rows, row, mode)
    times = [there[str(phase)] for run in row[mode] if str(phase) in (there := ratios(run, baseline))]
    ended = sum(run["failed"] == phase for run in row[mode])
    if 2 * ended > len(row[mode]):
        return "end", 64
    if not times:
        return "", 0
    ratio = float(np.median(times))
    return (f"{ratio:.2g}" if ratio < 10 else f"{min(ratio, 1e4):.0f}"), _level(ratio)


def _ended(row: Row) -> list[tuple[int, int]]:
    paper = row.get("paper", [])
    return [
        (sum(run["failed"] is None for run in paper), len(paper)),
        (_exact_runs(row), len(row["practical"])),
        _exact(row),
    ]


def _box(axes: Any, box: tuple[float, float, float, float], words: str, level: int) -> None:
    from matplotlib.patches import Rectangle

    left, top, wide, high = box
    colour = heat_colours()[level] if words else "none"
    axes.add_patch(Rectangle((left, top), wide - 0.015, high - 0.015, facecolor=colour, linewidth=0))
    ink = ON_STRONG if is_strong(level) else INK
    axes.text(left + wide / 2, top + high / 2, words, fontsize=7.5, ha="center", va="center", color=ink)


STUDY = Study(
    name="violations",
    title="One condition violated at a time",
    question="How do the six phases degrade as each non-degeneracy condition is violated alone, which phase breaks "
    "first, and does Newton still find the layer?",
    expected="Chen and Li's theorem asks for these conditions and promises nothing without them; the specification "
    "measured that Newton stays exact with a rank of 1 and with heads 3 % apart but not at sigma 16, says that phase 1 "
    "is biased by the root of the inverse stable rank, and has no figure on the other phases.",
    limits="Two tokens, 16 coordinates (24 for three heads), amounts chosen here and conditions as this toolkit "
    "measures them; some violations cannot be had alone, as the table says; a phase that fails shows a failure of this "
    "learner only.",
    how="(m, k, d) = (2, 2, 16); for affine dependence (3, 2, 24), in practical mode only, as the net of three heads "
    "is coarse and takes minutes. Every layer is made of a nice one that meets all conditions; of up to 25 draws "
    "the one with the fewest other conditions violated is taken. At the full scale 3 runs of each mode for every "
    "amount, 5 for close heads and for blocks, 6 on nice layers; 8 of Newton, at four times the counting floor, up to "
    "10 starts and 4000 passes; the six phases have their default budgets. The error of a phase: 1 and 3, the "
    "relative error of the sum of the projections; 2 and 4, by how many logits the heads miss the certified equations, "
    "over their norm; 5, the worst head's distance from the span, over its norm; 6, the relative error of the net's "
    "best, or of the fit within the span before Newton's iterates. A phase breaks where its error is above three times "
    "the median on nice layers of the same size, or where it ends the run. Exact is a relative error of at most 1e-10 "
    "on fresh inputs. Intervals are 95 %, Clopper and Pearson.",
    cells=_cells,
    measure=_measure,
    found=_found,
    table=_table,
    draw=_draw,
    stream=("heads", "dim"),
)

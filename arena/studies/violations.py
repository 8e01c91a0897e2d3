"""Study: each non-degeneracy condition violated alone: which phase breaks first, and whether Newton still ends."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from arena._canvas import canvas
from arena._phrases import sentence
from arena.palette import FAINT, INK, ON_STRONG, heat_colours, is_strong
from arena.paper_figure import PaperFigure, paper_figure
from arena.studies._violations import NICE, VIOLATIONS, violated_layer
from arena.studies._violations_runs import (
    PHASES,
    baseline_runs,
    broken_phases,
    exact_runs,
    is_alone,
    median_error,
    mostly_broken,
    newton_error,
    newton_exact,
    phase_errors,
    ratios,
    what_stops,
)
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
_LARGE = 10.0  # times the baseline's error, at the end of paper mode
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


def _step(row: Row) -> str:
    return f"{row['step']:g}"


def _label(row: Row) -> str:
    return f"{row['violation']} {_step(row)}"


def _how_often(share: float) -> str:
    return "never" if share == 0 else "seldom" if share < 0.25 else "often" if share < 0.75 else "mostly"


def _answer(rows: Sequence[Row], cells: Sequence[Row]) -> str:
    """Of the settings without any other violation if there are such: the learners, and the phase."""
    here = [row for row in cells if is_alone(row)] or list(cells)
    paper = [row for row in here if "paper" in row["modes"]]
    told: list[str] = []
    often: dict[str, list[str]] = {}
    for name, what in (
        ("paper mode", "a run of paper mode fails"),
        ("practical mode", "one of practical mode is not exact"),
        ("Newton", "Newton is not exact in some draw"),
    ):
        among = paper if name == "paper mode" else here
        if among:
            times = sum(what_stops(row)[name] for row in among)
            often.setdefault(_how_often(times / len(among)), []).append(name)
            told.append(f"{what} in {times}" + ("" if len(among) == len(here) else f" of {len(among)}"))
    kind = (
        "that violate no other condition,"
        if any(map(is_alone, here))
        else "all of which violate others, too,"
    )
    words = ", ".join(f"{how} stops {' and '.join(names)}" for how, names in often.items())
    text = f"one violated condition {words}: of {len(here)} settings {kind} {', '.join(told)}"
    broken = Counter(mostly_broken(rows, row, "paper") for row in paper)
    first = [place for place, _ in broken.most_common() if place.startswith("phase")]
    breaks = sum(times for place, times in broken.items() if place != "nowhere")
    if first and 2 * broken[first[0]] > breaks:
        text += (
            f", and where paper mode breaks it is mostly {first[0]} first ({broken[first[0]]} of {breaks})"
        )
    return text


def _found(rows: Sequence[Row]) -> str:
    cells = [row for row in rows if row["violation"] != NICE]
    if not cells:
        return "Only nice layers were measured."
    newton = [row for row in cells if not what_stops(row)["Newton"]]
    practical = [row for row in cells if not what_stops(row)["practical mode"]]
    paper = [row for row in cells if "paper" in row["modes"]]
    told = [_answer(rows, cells)]
    if others := [_label(row) for row in cells if not is_alone(row)]:
        told.append(
            f"of {len(cells)} settings {len(others)} violate another condition, too, in some draw: {', '.join(others)}"
        )
    if paper:
        told.append(_paper_mode(rows, paper))
    told.append(
        f"over all {len(cells)} settings Newton is exact (1e-10) throughout in {len(newton)}, practical mode in "
        f"{len(practical)}"
    )
    for mode in ("paper", "practical"):
        if here := [row for row in cells if mode in row["modes"]]:
            told.append(_first_breaks(rows, here, mode))
    lost = [
        f"{_label(row)} {newton_exact(row)[0]} of {newton_exact(row)[1]}"
        for row in cells
        if row not in newton
    ]
    if lost:
        told.append(f"draws in which Newton is exact where it is not in all: {', '.join(lost)}")
    ends = {
        _label(row): median_error(row["paper"]) / median_error(usual)
        for row in paper
        if not what_stops(row)["paper mode"] and (usual := baseline_runs(rows, row, "paper"))
    }
    if ends:
        least, most = min(ends, key=lambda one: ends[one]), max(ends, key=lambda one: ends[one])
        told.append(
            f"where every run of paper mode ends its error is {ends[least]:.2g} ({least}) to {ends[most]:.2g} ({most}) "
            "times that on nice layers"
        )
    text = "; ".join(told)
    return sentence(text)


def _paper_mode(rows: Sequence[Row], paper: Sequence[Row]) -> str:
    some = sum(what_stops(row)["paper mode"] for row in paper)
    most = sum(
        2 * sum(run["failed"] is not None for run in row["paper"]) > len(row["paper"]) for row in paper
    )
    text = f"over all {len(paper)} settings paper mode fails in a run in {some}, in most runs in {most}"
    usual = {row["heads"]: runs for row in paper if (runs := baseline_runs(rows, row, "paper"))}
    if usual:
        large = sum(
            median_error(row["paper"]) > _LARGE * median_error(usual[row["heads"]])
            for row in paper
            if row["heads"] in usual
        )
        text += f", and its median error is over {_LARGE:g} times that on nice layers in {large}"
    return text


def _first_breaks(rows: Sequence[Row], here: Sequence[Row], mode: str) -> str:
    phases = Counter(mostly_broken(rows, row, mode) for row in here)
    words = [f"{place} in {times}" for place, times in sorted(phases.items())]
    text = (
        f"where {mode} mode first has three times its usual error, or ends, of {len(here)} settings: "
        f"{', '.join(words)}"
    )
    weak = sum(
        row["violation"] == "weak head" and mostly_broken(rows, row, mode) == "phase 5" for row in here
    )
    return text + (f" ({weak} with a weak head, whose distance is over its own small norm)" if weak else "")


def _table(rows: Sequence[Row]) -> Table:
    header = (
        "violated",
        "amounts",
        "measured",
        "fail beside it, share of draws by amount",
        "paper mode: first to break",
        "practical mode: first to break",
        "practical mode exact",
        "Newton exact, 95 % interval",
    )
    lines = []
    for name, heads in dict.fromkeys((row["violation"], row["heads"]) for row in rows):
        here = [row for row in rows if (row["violation"], row["heads"]) == (name, heads)]
        kind = VIOLATIONS.get(name)
        beside = dict.fromkeys(one for row in here for names in row["beside"] for one in names)
        lines.append(
            (
                f"nothing, {heads} heads" if kind is None else f"{name}: {_plain(kind.condition)}",
                "" if kind is None else f"{kind.words} {_each(_step(row) for row in here)}",
                "" if kind is None else _each(f"{np.median(row['measured']):.3g}" for row in here),
                ", ".join(f"{_plain(one)} {_each(_beside(row, one) for row in here)}" for one in beside)
                or "none",
                _each(_first(rows, row, "paper") for row in here),
                _each(_first(rows, row, "practical") for row in here),
                _each(f"{exact_runs(row)}/{len(row['practical'])}" for row in here),
                _each(_share(*newton_exact(row)) for row in here),
            )
        )
    return Table(header, tuple(lines))


def _each(words: Any) -> str:
    return "; ".join(words)


def _plain(condition: str) -> str:
    return condition.replace("theta_", "").replace("w_", "W ").replace("_", " ")


def _beside(row: Row, condition: str) -> str:
    return f"{100 * sum(condition in names for names in row['beside']) / len(row['beside']):.0f} %"


def _share(successes: int, trials: int) -> str:
    interval = proportion_interval(successes, trials, confidence=0.95)
    return f"{successes}/{trials} [{interval.low:.2f}, {interval.high:.2f}]"


def _first(rows: Sequence[Row], row: Row, mode: str) -> str:
    if mode not in row["modes"]:
        return "not run"
    counts = sorted(broken_phases(rows, row, mode).items(), key=lambda one: (-one[1], one[0] or 0))
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
    baseline = baseline_runs(rows, row, mode)
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
        (exact_runs(row), len(row["practical"])),
        newton_exact(row),
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
    "over the root mean square of their norms; 5, the worst head's distance from the span, over that head's own norm, "
    "so that with a weak head part of what phase 5 loses is that this norm is small; 6, the relative error of the "
    "net's best, or of the fit within the span before Newton's iterates. A phase breaks where its error is above three "
    "times the median on nice layers of the same size, or where it ends the run. A setting violates one condition only "
    "if no other fails in any draw. Often: in a quarter of settings or more, mostly: in three quarters. Exact is a "
    "relative error of at most 1e-10 on fresh inputs. Intervals are 95 %, Clopper and Pearson.",
    cells=_cells,
    measure=_measure,
    found=_found,
    table=_table,
    draw=_draw,
    stream=("heads", "dim"),
)

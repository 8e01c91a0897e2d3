"""Each non-degeneracy condition violated alone: which phase breaks first, and whether Newton still succeeds."""

import itertools
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.random import Generator

from runs import Scale
from runs.figures import axes_in, canvas, heat_colours, text_on
from studies.intervals import proportion_interval
from studies.rows import chosen
from studies.study import Parameters, Row, Study
from studies.violations_layers import NICE, VIOLATIONS, violated_layer
from studies.violations_runs import PHASES, broken_phase, newton_error, phase_errors
from upper.floor import counting_floor

__all__ = ["STUDY"]

_TOKENS = 2
_EXACT = 1e-10
_FLOORS = (4, 28)  # of Newton's examples: its default, and a generous number
_QUICK = {"close heads": 0.05, "opposed heads": 1.0, "diagonal": 1.0, "affinely dependent": 0.0}
_MORE = ("close heads", "diagonal")  # have more runs


def _cells(scale: Scale) -> Sequence[Parameters]:
    quick = scale is Scale.QUICK
    steps: dict[str, tuple[float, ...]] = {name: (step,) for name, step in _QUICK.items()}
    if not quick:
        steps = {name: kind.steps for name, kind in VIOLATIONS.items()}
    chosen = [(NICE, 0.0, m) for m in (2, 3)]
    chosen += [(name, step, VIOLATIONS[name].heads) for name, several in steps.items() for step in several]
    settings = [
        {
            "violation": name,
            "step": step,
            "heads": m,
            "dim": 16 if m == 2 or quick else 24,
            # the net of three heads takes a minute
            "modes": ["paper", "practical"] if m == 2 else ["practical"],
            "runs": (2 if name == NICE else 1) if quick else 6 if name == NICE else 5 if name in _MORE else 3,
            "newton": 2 if quick else 8,
            "floors": _FLOORS[0],
        }
        for name, step, m in chosen
    ]
    # the same layers, Newton alone
    return settings + [{**one, "modes": [], "runs": 0, "floors": _FLOORS[1]} for one in settings]


def _measure(
    *,
    violation: str,
    step: float,
    heads: int,
    dim: int,
    modes: Sequence[Any],
    runs: int,
    newton: int,
    floors: int,
    rng: Generator,
) -> Mapping[str, Any]:
    """The violation in each draw, and the results of the learners on it."""
    made, ranks, errors = [], [], []
    found: dict[str, list[Any]] = {mode: [] for mode in modes}
    # one stream per draw: the first draws of two cells start with the same nice layers and examples
    for draw, stream in enumerate(rng.spawn(max(runs, newton))):
        for_layer, for_newton, *for_modes = stream.spawn(2 + len(modes))
        one = violated_layer(violation, step, heads=heads, tokens=_TOKENS, dim=dim, rng=for_layer)
        made.append(one)
        theta = one.layer.theta
        ranks.append(
            float(np.min(np.sum(theta**2, axis=(1, 2)) / np.linalg.norm(theta, 2, axis=(1, 2)) ** 2))
        )
        if draw < newton:
            errors.append(newton_error(one.layer, tokens=_TOKENS, floors=floors, rng=for_newton))
        for mode, generator in zip(modes, for_modes, strict=True):
            if draw < runs:
                found[mode].append(phase_errors(one.layer, mode, tokens=_TOKENS, rng=generator))
    return {
        "measured": [one.measured for one in made],
        "holds": [bool(one.holds) for one in made],
        "beside": [list(one.beside) for one in made],
        "stable_ranks": ranks,
        "newton_errors": errors,
        **found,
    }


def _nice_runs(rows: Sequence[Row], row: Row, mode: str) -> list[Any]:
    same = chosen(rows, violation=NICE, heads=row["heads"])
    return [run for one in same for run in one.get(mode, [])]


def _usual(rows: Sequence[Row], row: Row, mode: str) -> dict[str, float]:
    """The median error of each phase on nice layers of the same size."""
    reached: dict[str, list[float]] = {}
    for run in _nice_runs(rows, row, mode):
        for phase, error in run["errors"].items():
            reached.setdefault(phase, []).extend([] if error is None else [error])
    return {phase: float(np.median(errors)) for phase, errors in reached.items() if errors}


def _ratio(rows: Sequence[Row], row: Row, mode: str, phase: int) -> float | None:
    """The median error of a phase divided by the usual one; None if less than half of the runs reach it."""
    usual = _usual(rows, row, mode).get(str(phase))
    errors = [error for run in row[mode] if (error := run["errors"][str(phase)]) is not None]
    return (
        float(np.median(errors)) / usual if usual and errors and 2 * len(errors) >= len(row[mode]) else None
    )


def _breaks(rows: Sequence[Row], row: Row, mode: str) -> str:
    """The phase at which more than half of the runs break first."""
    usual = _usual(rows, row, mode)
    phase, times = Counter(broken_phase(run, usual) for run in row[mode]).most_common(1)[0]
    if 2 * times <= len(row[mode]):
        return "varies"
    return "nowhere" if phase is None else f"phase {phase}"


def _paper_ends(row: Row) -> int:
    return sum(run["failed"] is None for run in row["paper"])


def _exact(row: Row) -> int:
    return sum(run["error"] <= _EXACT for run in row["practical"])


def _newton(rows: Sequence[Row], row: Row, floors: int) -> list[float]:
    """The errors of Newton on a setting, from the given number of counting floors of examples."""
    same = chosen(rows, violation=row["violation"], step=row["step"], heads=row["heads"], floors=floors)
    return [error for one in same for error in one["newton_errors"]]


def _numbers(rows: Sequence[Row]) -> dict[str, Any]:
    settings = [row for row in rows if row["modes"] and row["violation"] != NICE]
    alone = [row for row in settings if not any(row["beside"])]
    paper = [row for row in alone if "paper" in row["modes"]]
    first = Counter(_breaks(rows, row, "paper") for row in paper)
    practical = Counter(_breaks(rows, row, "practical") for row in settings)
    named: dict[str, Any] = {
        "all": len(settings),
        "all_paper": sum("paper" in row["modes"] for row in settings),
        "all_practical_third": practical["phase 3"],
        "all_practical_nowhere": practical["nowhere"],
        "alone": len(alone),
        "alone_paper": len(paper),
        "alone_paper_third": first["phase 3"],
        "alone_paper_breaks": len(paper) - first["nowhere"],
        "alone_paper_fails": sum(_paper_ends(row) < len(row["paper"]) for row in paper),
        "alone_practical_fails": sum(_exact(row) < len(row["practical"]) for row in alone),
    }
    for floors in _FLOORS:
        failed = [any(error > _EXACT for error in _newton(rows, row, floors)) for row in alone]
        named[f"alone_newton_{floors}_fails"] = sum(failed)
    ends = {}
    for row in settings:
        usual = [run["error"] for run in _nice_runs(rows, row, "paper")]
        if "paper" in row["modes"] and usual:
            error = float(np.median([run["error"] for run in row["paper"]])) / float(np.median(usual))
            ends[row["violation"], row["step"]] = error, _paper_ends(row) == len(row["paper"])
        if (row["violation"], row["step"]) == ("alike W", 0.99):
            used = float(np.median([run["examples"] for run in row["practical"]]))
            named["alike_examples"] = f"{float(f'{used:.1g}'):,.0f}"
            floor = counting_floor(heads=row["heads"], tokens=_TOKENS, dim=row["dim"])
            named["alike_newton_examples"] = _FLOORS[0] * floor
        if row["violation"] == "low rank" and (ratio := _ratio(rows, row, "paper", 1)) is not None:
            nice = chosen(rows, violation=NICE, heads=row["heads"])[0]
            expected = np.sqrt(np.median(nice["stable_ranks"]) / np.median(row["stable_ranks"]))
            named[f"rank_{row['step']:g}"] = f"{ratio:.2g}"
            named[f"rank_{row['step']:g}_expected"] = f"{expected:.2g}"
    good = [error for error, whole in ends.values() if whole]
    low, high = f"{min(good, default=math.nan):.2g}", f"{max(good, default=math.nan):.2g}"
    named |= {
        "paper_least": low,
        "paper_most": high,
        "paper_large": sum(error > 10 for error, _ in ends.values()),
    }
    interval = proportion_interval(8, 8, confidence=0.95)
    return named | {"eight_of_eight": f"{interval.low:.2f}"}


def _table(rows: Sequence[Row]) -> list[dict[str, str]]:
    learners = ("paper mode ends", "practical exact", "Newton 4 exact", "Newton 28 exact")
    return [
        {
            **_violated(row),
            "fail too": ", ".join(
                f"{_plain(name)} {times}/{len(row['beside'])}"
                for name, times in Counter(name for names in row["beside"] for name in names).items()
            ),
            "paper mode breaks": _breaks(rows, row, "paper") if "paper" in row["modes"] else "not run",
            "practical mode breaks": _breaks(rows, row, "practical"),
            **dict(zip(learners, _ends(rows, row), strict=True)),
        }
        for row in rows
        if row["modes"]
    ]


def _violated(row: Row) -> dict[str, str]:
    if row["violation"] == NICE:
        return {"violated": _name(row), "measured": ""}
    kind = VIOLATIONS[row["violation"]]
    return {
        "violated": f"{_name(row)}: {kind.amount} {row['step']:g}",
        "measured": f"{_plain(kind.condition)} {np.median(row['measured']):.3g}",
    }


def _name(row: Row) -> str:
    return f"nothing, {row['heads']} heads" if row["violation"] == NICE else str(row["violation"])


def _plain(condition: str) -> str:
    return condition.replace("theta_", "").replace("w_", "W ").replace("_", " ")


def _ends(rows: Sequence[Row], row: Row) -> list[str]:
    """The number of successful runs of each learner: finished runs for paper mode, exact runs for the others."""
    texts = [f"{_paper_ends(row)}/{len(row['paper'])}" if "paper" in row["modes"] else ""]
    texts.append(f"{_exact(row)}/{len(row['practical'])}")
    newton = [_newton(rows, row, floors) for floors in _FLOORS]
    return texts + [f"{sum(one <= _EXACT for one in some)}/{len(some)}" if some else "" for some in newton]


def _phase_text(rows: Sequence[Row], row: Row, mode: str, phase: int) -> str:
    """The ratio of a phase; "end" if most runs have failed by then; nothing after that."""
    if mode not in row["modes"]:
        return ""
    ended, before = (
        2 * sum(run["failed"] is not None and run["failed"] <= last for run in row[mode]) > len(row[mode])
        for last in (phase, phase - 1)
    )
    ratio = None if before else _ratio(rows, row, mode, phase)
    if ended or ratio is None:
        return "end" if ended and not before else ""
    return f"{ratio:.2g}" if ratio < 10 else f"{min(ratio, 1e4):.0f}"


def _figure(rows: Sequence[Row]) -> Any:
    """A line per setting: the error of every phase divided by the usual one, and the number of successful runs."""
    settings = [row for row in rows if row["modes"]]
    heads = [
        "paper mode\nphase 1",
        *"23456",
        "",
        "practical\nphase 1",
        *"3456",
        "",
        "paper\nends",
        "practical\nexact",
    ]
    heads += [f"Newton\n{floors} floors" for floors in _FLOORS]
    places = [(mode, phase) for mode, phases in PHASES.items() for phase in phases]
    with canvas(9.6, 0.6 + 0.2 * len(settings)) as figure:
        top = 0.45 / (0.6 + 0.2 * len(settings))
        axes = axes_in(figure, (0.19, 0.01, 0.805, 0.99 - top), grid=False)
        for line, row in enumerate(settings):
            texts = [_phase_text(rows, row, mode, phase) for mode, phase in places]
            texts = [*texts[:6], "", *texts[6:], "", *_ends(rows, row)]
            _draw_line(axes, line, texts)
        axes.set_xlim(0, len(heads))
        axes.set_ylim(len(settings), 0)
        axes.xaxis.tick_top()
        axes.set_xticks([place + 0.5 for place in range(len(heads))], heads, fontsize=7)
        amounts = ["" if row["violation"] == NICE else f" {row['step']:g}" for row in settings]
        names = [_name(row) + amount for row, amount in zip(settings, amounts, strict=True)]
        axes.set_yticks([line + 0.5 for line in range(len(settings))], names, fontsize=8)
        axes.spines[:].set_visible(False)
        return figure


def _strength(text: str) -> float:
    """0 if an error is at most twice the usual one, or every run succeeds; 1 at a thousand times, or if none does."""
    if "/" in text:
        some, of = map(int, text.split("/"))
        return 1 - some / of
    return 1.0 if text == "end" else math.log(float(text)) / math.log(1000) if float(text) > 2 else 0.0


def _draw_line(axes: Any, line: int, texts: Sequence[str]) -> None:
    """A line of texts on their colours; neighbours that are as usual share a ground, and are left blank."""
    from matplotlib.patches import Rectangle

    strengths = [_strength(text) if text else None for text in texts]
    column = 0
    for strength, group in itertools.groupby(strengths):
        count = len(list(group))
        if strength is not None:
            ground = heat_colours()[2 + round(64 * min(strength, 1.0)) if strength else 1]
            box = (column, line), count - 0.04, 0.93
            axes.add_patch(Rectangle(*box, facecolor=ground, linewidth=0, clip_on=False))
            for place in range(column, column + count):
                text = texts[place]
                if strength or ("/" not in text and float(text) < 0.5):
                    look = {"fontsize": 7.5, "ha": "center", "va": "center", "color": text_on(ground)}
                    axes.text(place + 0.48, line + 0.48, text, **look)
        column += count


STUDY = Study(
    name="violations",
    title="One condition violated at a time",
    question="How do the six phases degrade as each non-degeneracy condition is violated alone, which phase breaks "
    "first, and does Newton still find the layer?",
    cells=_cells,
    measure=_measure,
    numbers=_numbers,
    table=_table,
    figure=_figure,
    stream=("heads", "dim"),
)

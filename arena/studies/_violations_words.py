"""What the study of violations found: in words and as a table."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from arena._phrases import sentence
from arena.studies._violations import NICE, VIOLATIONS
from arena.studies._violations_runs import (
    EXACT,
    baseline_runs,
    broken_phases,
    exact_runs,
    is_alone,
    median_error,
    mostly_broken,
    newton_budgets,
    newton_exact,
    phase_ratio,
    setting_rows,
    stopped_modes,
)
from arena.studies.study import Row, Table
from paper_checks import proportion_interval
from upper.floor import counting_floor

__all__ = ["found_in_words", "violations_table"]

_LARGE = 10.0  # times the baseline's error, at the end of paper mode
_TOKENS = 2


def _step(row: Row) -> str:
    return f"{row['step']:g}"


def _label(row: Row) -> str:
    return f"{row['violation']} {_step(row)}"


def _how_often(share: float) -> str:
    """One scale for all shares of settings."""
    return "never" if share == 0 else "seldom" if share < 0.25 else "often" if share < 0.75 else "mostly"


def found_in_words(rows: Sequence[Row]) -> str:
    """The answer and its figures, made of whatever was measured."""
    settings = setting_rows(rows)
    cells = [row for row in settings if row["violation"] != NICE]
    if not cells:
        return "Only nice layers were measured." if settings else "The six phases were not run."
    paper = [row for row in cells if "paper" in row["modes"]]
    told = [
        _answer(rows, cells),
        f"paper mode counts as stopped if a run fails, others if one is not exact ({EXACT:g})",
    ]
    if others := [_label(row) for row in cells if not is_alone(row)]:
        told.append(
            f"of {len(cells)} settings {len(others)} violate another condition, too, in some draw: {', '.join(others)}"
        )
    if met := [_label(row) for row in cells if any(row["holds"])]:
        told.append(f"the condition to be violated holds all the same in some draw of {', '.join(met)}")
    if paper:
        told.append(_paper_mode(rows, paper))
    told += _newton(rows, cells)
    for mode in ("paper", "practical"):
        if here := [row for row in cells if mode in row["modes"]]:
            told.append(_first_breaks(rows, here, mode))
    told += [_harmless(rows, cells), _stable_rank(rows, paper)]
    ends = {
        _label(row): median_error(row["paper"]) / median_error(usual)
        for row in paper
        if not stopped_modes(row)["paper"] and (usual := baseline_runs(rows, row, "paper"))
    }
    if ends:
        least, most = min(ends, key=lambda one: ends[one]), max(ends, key=lambda one: ends[one])
        told.append(
            f"where every run of paper mode ends its error is {ends[least]:.2g} ({least}) to {ends[most]:.2g} ({most}) "
            "times that on nice layers"
        )
    return sentence("; ".join(one for one in told if one))


def _answer(rows: Sequence[Row], cells: Sequence[Row]) -> str:
    """Of the settings without any other violation if there are such: the learners, and the phase."""
    alone = [row for row in cells if is_alone(row)]
    here = alone or list(cells)
    paper = [row for row in here if "paper" in row["modes"]]
    counted = [
        ("paper mode", [stopped_modes(row)["paper"] for row in paper]),
        ("practical mode", [stopped_modes(row)["practical"] for row in here]),
    ]
    for number, floors in enumerate(_budgets(rows, here)):
        runs = [newton[floors] for row in here if floors in (newton := newton_budgets(rows, row))]
        name = f"Newton at {floors}" + ("" if number else " counting floors of examples")
        counted.append((name, [not _all_exact(one) for one in runs]))
    often: dict[str, list[str]] = {}
    for name, stopped in counted:
        if stopped:
            count = f"{sum(stopped)} of {len(stopped)}" + ("" if often else " settings")
            often.setdefault(_how_often(sum(stopped) / len(stopped)), []).append(f"{name} ({count})")
    words = ", ".join(f"{how} stops {_and(names)}" for how, names in often.items())
    text = f"{'one violated condition alone' if alone else 'a violated condition, never alone here,'} {words}"
    broken = Counter(mostly_broken(rows, row, "paper") for row in paper)
    breaks = sum(times for place, times in broken.items() if place != "nowhere")
    first = [(place, times) for place, times in broken.most_common() if place.startswith("phase")]
    # only one that is before all others has the last word
    if first and (len(first) == 1 or first[0][1] > first[1][1]):
        place, times = first[0]
        text += (
            f", and paper mode's first phase to err threefold, or to end, is {place} in {times} of {breaks}"
        )
    return text


def _and(names: Sequence[str]) -> str:
    return " and ".join([", ".join(names[:-1]), names[-1]] if names[1:] else names)


def _budgets(rows: Sequence[Row], cells: Sequence[Row]) -> list[int]:
    return sorted({floors for row in cells for floors in newton_budgets(rows, row)})


def _all_exact(row: Row) -> bool:
    exact, draws = newton_exact(row)
    return exact == draws


def _newton(rows: Sequence[Row], cells: Sequence[Row]) -> list[str]:
    """Newton by its budget: how often exact, where not, and where practical mode is exact with more examples."""
    whole, lost = [], []
    for floors in _budgets(rows, cells):
        here = [newton[floors] for row in cells if floors in (newton := newton_budgets(rows, row))]
        some = [row for row in here if not _all_exact(row)]
        whole.append(f"{len(here) - len(some)} of {len(here)} at {floors} counting floors")
        if some:
            each = ", ".join(f"{_label(row)} {_of(*newton_exact(row))}" for row in some)
            lost.append(
                f"draws in which Newton is exact at {floors} counting floors where it is not in all: {each}"
            )
    practical = sum(not stopped_modes(row)["practical"] for row in cells)
    text = f"over all settings Newton is exact throughout in {', '.join(whole)}, practical mode in {practical} of "
    return [text + str(len(cells)), *lost, _with_more_examples(rows, cells)]


def _of(some: int, of: int) -> str:
    return f"{some} of {of}"


def _with_more_examples(rows: Sequence[Row], cells: Sequence[Row]) -> str:
    """Settings on which practical mode is exact and Newton with the fewest examples never: not on equal terms."""
    told = []
    for row in cells:
        least, newton = next(iter(newton_budgets(rows, row).items()))
        used = [run["examples"] for run in row["practical"] if "examples" in run]
        if not stopped_modes(row)["practical"] and newton_exact(newton)[0] == 0 and used:
            given = least * counting_floor(heads=row["heads"], tokens=_TOKENS, dim=row["dim"])
            median = float(np.median(used))
            told.append(f"{_label(row)} (from {float(f'{median:.1g}'):,.0f} examples, Newton's {given})")
    return (
        f"practical mode is exact and Newton with fewest examples never on {', '.join(told)}" if told else ""
    )


def _paper_mode(rows: Sequence[Row], paper: Sequence[Row]) -> str:
    some = sum(stopped_modes(row)["paper"] for row in paper)
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


def _harmless(rows: Sequence[Row], cells: Sequence[Row]) -> str:
    """Where phase 3 of practical mode breaks and the phases after it are better than usual."""
    fine = []
    for row in cells:
        later = [phase_ratio(rows, row, "practical", phase) for phase in (4, 5, 6)]
        if mostly_broken(rows, row, "practical") == "phase 3" and all(
            one is not None and one <= 1 for one in later
        ):
            fine.append(_label(row))
    return (
        f"phase 3 of practical mode breaks and phases 4 to 6 are no worse than usual with {_and(fine)}"
        if fine
        else ""
    )


def _stable_rank(rows: Sequence[Row], paper: Sequence[Row]) -> str:
    """Phase 1 on low ranks, against the root of the inverse stable rank."""
    told, against = [], []
    for row in paper:
        nice = [one for one in setting_rows(rows) if (one["violation"], one["heads"]) == (NICE, row["heads"])]
        ratio = phase_ratio(rows, row, "paper", 1)
        if row["violation"] != "low rank" or ratio is None or not nice or "stable_ranks" not in nice[0]:
            continue
        expected = float(np.sqrt(np.median(nice[0]["stable_ranks"]) / np.median(row["stable_ranks"])))
        told.append(
            f"{ratio:.2g} times its usual error at rank {_step(row)} (by the stable rank {expected:.2g})"
        )
        against.append(expected > 1 >= ratio)
    if not told:
        return ""
    return f"phase 1 has {', '.join(told)}" + (", contrary to what was expected" if all(against) else "")


def violations_table(rows: Sequence[Row]) -> Table:
    """A line a violation, its amounts in each cell."""
    budgets = _budgets(rows, rows)
    header = (
        "violated",
        "amounts",
        "measured",
        "fail beside it, share of draws by amount",
        "paper mode: first to break",
        "practical mode: first to break",
        "practical mode exact",
        *(f"Newton exact at {floors} floors, 95 % interval" for floors in budgets),
    )
    lines = []
    for name, heads in dict.fromkeys((row["violation"], row["heads"]) for row in rows):
        every = [row for row in rows if (row["violation"], row["heads"]) == (name, heads)]
        here = setting_rows(every) or every
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
                _each(
                    f"{exact_runs(row)}/{len(row['practical'])}" if "practical" in row["modes"] else "not run"
                    for row in here
                ),
                *(
                    _each(_solved(newton_budgets(rows, row).get(floors)) for row in here)
                    for floors in budgets
                ),
            )
        )
    return Table(header, tuple(lines))


def _each(words: Any) -> str:
    return "; ".join(words)


def _plain(condition: str) -> str:
    return condition.replace("theta_", "").replace("w_", "W ").replace("_", " ")


def _beside(row: Row, condition: str) -> str:
    return f"{100 * sum(condition in names for names in row['beside']) / len(row['beside']):.0f} %"


def _solved(row: Row | None) -> str:
    return "not run" if row is None else _share(*newton_exact(row))


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

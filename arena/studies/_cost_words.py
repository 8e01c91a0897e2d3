"""What the study of cost found: the laws of its rows, in words and as a table."""

from collections.abc import Iterator, Sequence

import numpy as np

from arena._cost_laws import KINDS
from arena._phrases import listed, plural, sentence
from arena.cost_model import Cost, CostModel, shown_bytes
from arena.studies._cost_cells import CHECKED, FITTED
from arena.studies.study import Row, Table
from attention import Outcome

__all__ = [
    "MACHINE",
    "TITLES",
    "WITHIN",
    "Size",
    "cost_table",
    "fitted_model",
    "found_in_words",
    "measured_at",
    "said_of",
]

TITLES = {"newton": "Newton", "linear": "linear attention", "six-phase": "six phases"}
_QUANTITIES = ("examples", "passes", "memory")
# by the learner's own budget, wholly or for a good part: no test of a law
_SET = {("newton", "examples"), ("linear", "examples"), ("six-phase", "examples")}
_SEEN = {("linear", "memory"): 22}  # checks up to this d were seen before the law was settled: no test either
WITHIN = 0.30
MACHINE = 24.0  # GiB
_BEYOND = (
    ("newton", (8, 8, 512)),
    ("newton", (12, 64, 384)),
    ("newton", (12, 512, 768)),
    ("newton", (16, 1024, 1024)),
    ("newton", (32, 2048, 4096)),
    ("linear", (12, 64, 64)),
    ("linear", (12, 64, 384)),
)
Size = tuple[int, int, int]
"""m, k and d."""
Check = tuple[str, Size, str, float, float]


def fitted_model(rows: Sequence[Row]) -> CostModel | None:
    """The laws of the fits that are there for it and ended exact, as others cost no learning; None of too few."""
    try:
        return CostModel.fit([row for row in rows if _counts(row, FITTED)])
    except ValueError:
        return None


def _counts(row: Row, role: str) -> bool:
    return row["role"] == role and (role == CHECKED or row["outcome"] == Outcome.EXACT.name)


def said_of(model: CostModel | None, learner: str, size: Size) -> Cost | None:
    try:
        return None if model is None else model.predict(learner, *size)
    except ValueError:
        return None


def measured_at(rows: Sequence[Row], role: str) -> dict[tuple[str, Size], dict[str, float]]:
    """By learner and size, the medians over draws of what was measured; of sizes to fit, over exact draws."""
    groups: dict[tuple[str, Size], list[Row]] = {}
    for row in rows:
        if _counts(row, role):
            groups.setdefault((row["learner"], (row["m"], row["k"], row["d"])), []).append(row)
    return {
        key: {
            name: float(np.median([row[name] for row in those]))
            for name in _QUANTITIES
            if all(row[name] is not None for row in those)
        }
        for key, those in groups.items()
    }


def _checks(rows: Sequence[Row]) -> Iterator[Check]:
    """Of each check: the learner, the size, the quantity, what was measured and what had been predicted."""
    model = fitted_model(rows)
    for (learner, size), measured in measured_at(rows, CHECKED).items():
        said = said_of(model, learner, size)
        for name, value in measured.items():
            predicted = None if said is None else getattr(said, name)
            if predicted is not None:
                yield learner, size, name, value, predicted


def found_in_words(rows: Sequence[Row]) -> str:
    model, checks = fitted_model(rows), list(_checks(rows))
    told = [one for one in (_answer(rows, checks), _within_interval(rows, model)) if one]
    for learner, size in dict.fromkeys((learner, size) for learner, size, *_ in checks):
        ratios = [
            f"{value / said:.2f} of the {name}{_caveat(learner, size, name)}"
            for one, there, name, value, said in checks
            if (one, there) == (learner, size)
        ]
        told.append(
            f"{TITLES[learner]} at {size} took {listed(ratios)} predicted from smaller sizes"
            + _not_exact(rows, learner, size)
            + (_excess(rows, size) if learner == "newton" else "")
        )
    for (learner, name), law in (model.laws if model else {}).items():
        if law.sizes <= len(law.numbers):  # says nothing that was not put in
            continue
        told.append(
            f"{TITLES[learner]}, {name}: {law}, off by up to {law.worst - 1:.0%} at the sizes it was fitted to"
        )
    for size in ((12, 64, 384), (32, 2048, 4096)):
        if (cost := said_of(model, "newton", size)) is not None:
            told.append(
                f"Newton at {size} would hold {shown_bytes(cost.memory)} of arrays, {_machines(cost)}"
                + _passes(rows, size, cost)
            )
    text = "; ".join(told) or "too few sizes were measured to fit a law"
    return sentence(text)


def _answer(rows: Sequence[Row], checks: Sequence[Check]) -> str:
    """How many of the figures that test a law are near."""
    off = {
        (learner, size, name): value / said
        for learner, size, name, value, said in checks
        if not _caveat(learner, size, name)
    }
    if not off:
        return ""
    missed = {key: ratio for key, ratio in off.items() if abs(ratio - 1) > WITHIN}
    told = (
        f"what a larger size takes is within {WITHIN:.0%} of what small ones tell in {len(off) - len(missed)} of "
        f"{len(off)} figures that no budget sets and no law was chosen by, from {min(off.values()):.2f} to "
        f"{max(off.values()):.2f} times that"
    )
    which = [
        f"the {name} of {TITLES[learner]} at {size} ({ratio:.2f}{_not_exact(rows, learner, size)})"
        for (learner, size, name), ratio in missed.items()
    ]
    return told + (f", and not {listed(which)}" if which else "")


def _caveat(learner: str, size: Size, name: str) -> str:
    """Why a figure is no test of a law; empty of one that is."""
    if (learner, name) in _SET:
        return " (set by its budget)"
    return " (the law was chosen after it was seen)" if size[2] <= _SEEN.get((learner, name), 0) else ""


def _within_interval(rows: Sequence[Row], model: CostModel | None) -> str:
    inside = []
    for (learner, size), measured in measured_at(rows, CHECKED).items():
        said = said_of(model, learner, size)
        if said is not None and said.passes_range is not None and "passes" in measured:
            inside.append(said.passes_range[0] <= measured["passes"] <= said.passes_range[1])
    return (
        f"passes measured lie in the law's 95 % prediction interval in {sum(inside)} of {plural(len(inside), 'check')}"
        if inside
        else ""
    )


def _not_exact(rows: Sequence[Row], learner: str, size: Size) -> str:
    fits = [
        row["outcome"]
        for row in rows
        if row["role"] == CHECKED and (row["learner"], (row["m"], row["k"], row["d"])) == (learner, size)
    ]
    failed = sum(one != "EXACT" for one in fits)
    return f", where {failed} of {plural(len(fits), 'fit')} did not end exact" if failed else ""


def _passes(rows: Sequence[Row], size: Size, cost: Cost) -> str:
    """Passes with their interval, and how far the excess of examples is from those fitted to."""
    if cost.passes is None or cost.passes_range is None:
        return ""
    low, high = cost.passes_range
    return (
        f", and take {cost.passes:,.0f} passes ({low:,.0f} to {high:,.0f}) if the law held there"
        + _excess(rows, size)
    )


def _excess(rows: Sequence[Row], size: Size) -> str:
    """How far the excess of examples at a size is from those fitted to; empty within them."""
    excess = KINDS["newton"].laws["passes"].terms["excess"]
    fitted = [
        excess(row["m"], row["k"], row["d"])
        for row in rows
        if row["learner"] == "newton" and _counts(row, FITTED)
    ]
    here = excess(*size)
    return (
        f", at an excess of {here:.2g} where at most {max(fitted):.2g} was fitted"
        if fitted and here > max(fitted)
        else ""
    )


def _machines(cost: Cost) -> str:
    number = cost.machines(MACHINE)
    return (
        "which one machine of 24 GiB holds"
        if number == 1
        else f"those of {number:,} machines of 24 GiB if a fit could be split, which this toolkit cannot do"
    )


def cost_table(rows: Sequence[Row]) -> Table:
    model = fitted_model(rows)
    shown = []
    if model is not None:
        for learner, title in TITLES.items():
            laws = {name: model.laws[learner, name] for name in _QUANTITIES if (learner, name) in model.laws}
            if laws:
                spread = (
                    f"within {laws[name].worst - 1:.0%}" if name in laws else "-" for name in _QUANTITIES
                )
                sizes = max(law.sizes for law in laws.values())
                shown.append((title, plural(sizes, "size"), "fitted", *spread, "-", "-"))
    for (learner, size), measured in measured_at(rows, CHECKED).items():
        said = said_of(model, learner, size)
        cells = [_beside(name, measured.get(name), said) for name in _QUANTITIES]
        operations = "-" if said is None or said.operations is None else f"{said.operations:.2g}"
        machines = "-" if said is None else f"{said.machines(MACHINE):,}"
        shown.append(
            (
                TITLES[learner],
                _shown(size),
                "measured / predicted" + _beyond(said),
                *cells,
                operations,
                machines,
            )
        )
    for learner, size in _BEYOND:
        if (cost := said_of(model, learner, size)) is not None:
            shown.append(
                (
                    TITLES[learner],
                    _shown(size),
                    "predicted" + _beyond(cost),
                    f"{cost.examples:,.0f}",
                    _with_range(cost),
                    shown_bytes(cost.memory),
                    "-" if cost.operations is None else f"{cost.operations:.2g}",
                    f"{cost.machines(MACHINE):,}",
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


def _beyond(said: Cost | None) -> str:
    return f", extrapolated in {listed(said.beyond)}" if said is not None and said.beyond else ""


def _with_range(cost: Cost) -> str:
    if cost.passes is None:
        return "-"
    between = "" if cost.passes_range is None else " ({:,.0f} to {:,.0f})".format(*cost.passes_range)
    return f"{cost.passes:,.0f}{between}"


def _shown(size: Size) -> str:
    return ", ".join(map(str, size))


def _beside(name: str, value: float | None, said: Cost | None) -> str:
    predicted = None if said is None else getattr(said, name)
    if value is None:
        return "-"
    words = shown_bytes if name == "memory" else lambda number: f"{number:,.0f}"
    return (
        words(value)
        if predicted is None
        else f"{words(value)} / {words(predicted)} ({value / predicted:.2f})"
    )

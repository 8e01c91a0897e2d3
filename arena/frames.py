"""A comparison as data frames: a row per fit, per pair of target and learner, or per step of a fit."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields
from typing import TYPE_CHECKING, Any

from arena.comparison_record import ComparisonRecord
from arena.records import Cell

if TYPE_CHECKING:
    import pandas

__all__ = ["TARGET_COLUMNS", "cell_frame", "csv_of", "pair_frame", "step_frame", "typed_frame"]

TARGET_COLUMNS = ("title", "kind", "label", "heads", "tokens", "dim", "seed")
"""The columns of a row about its target; their names begin with ``target_``."""
_CELL_COLUMNS = tuple(item.name for item in fields(Cell) if item.name != "trace")
_PAIR_COLUMNS = (
    *(
        "target",
        "target_title",
        "family",
        "learner",
        "learner_title",
        "verdict",
        "error",
        "error_min",
        "error_max",
    ),
    *("examples", "seconds", "outcome", "error_rate_bound", "done", "seeds", "message"),
)
_STEP_COLUMNS = ("target", "learner", "seed", "step", "name", "examples", "seconds", "error")

_WHOLE = (
    *("step", "done", "seeds", "examples_used"),
    *("seed", "target_heads", "target_tokens", "target_dim", "target_seed"),
)
_REAL = ("error", "error_rate_bound", "seconds", "timeout", "error_min", "error_max", "examples")


def cell_frame(results: ComparisonRecord) -> "pandas.DataFrame":
    """One row per cell with what is known of target and learner; missing numbers are NA or NaN."""
    rows = []
    for cell in results.cells:
        target = results.target(cell.target)
        row = {name: getattr(cell, name) for name in _CELL_COLUMNS}
        row |= {f"target_{name}": getattr(target, name) for name in TARGET_COLUMNS}
        rows.append(row | {"learner_title": results.learner(cell.learner).title})
    return typed_frame(
        (*_CELL_COLUMNS, *(f"target_{name}" for name in TARGET_COLUMNS), "learner_title"), rows
    )


def pair_frame(results: ComparisonRecord) -> "pandas.DataFrame":
    """One row per target and learner, summarised over seeds, in the order of display."""
    rows = []
    for target in results.shown:
        for learner in results.learners:
            summary = results.summary(target.name, learner.name)
            names = {
                "target": target.name,
                "target_title": target.title,
                "family": target.group,
                "learner": learner.name,
                "learner_title": learner.title,
                "verdict": summary.verdict,
            }
            rows.append(names | asdict(summary))
    return typed_frame(_PAIR_COLUMNS, rows)


def step_frame(results: ComparisonRecord, target: str | None = None) -> "pandas.DataFrame":
    """One row per step of every finished fit, on one target or on all, and a last row, "end", per fit.

    Raises
    ------
    ValueError
        If there is no such target.
    """
    chosen = results.shown if target is None else [results.target(target)]
    rows: list[dict[str, Any]] = []
    for one in chosen:
        for learner in results.learners:
            for cell in results.cell(one.name, learner.name):
                if not cell.fitted:
                    continue
                names = {"target": cell.target, "learner": cell.learner, "seed": cell.seed}
                end = {"name": "end", "examples": cell.examples_used, "seconds": cell.seconds}
                steps = [*map(asdict, cell.trace), end | {"error": cell.unknown_part_error}]
                rows += [names | {"step": place} | step for place, step in enumerate(steps, start=1)]
    return typed_frame(_STEP_COLUMNS, rows)


def typed_frame(columns: Sequence[str], rows: Sequence[Mapping[str, Any]]) -> "pandas.DataFrame":
    """A frame with these columns; each column has its type even without rows."""
    import pandas

    series = {}
    for name in columns:
        values = [row[name] for row in rows]
        if name == "succeeded":
            kind = "bool"
        elif name in _REAL or name.endswith("_error"):
            kind = "float64"
        elif name in _WHOLE:
            # a seed may be larger than 64 bits
            fits = all(value is None or -(2**63) <= value < 2**63 for value in values)
            kind = "Int64" if fits else "object"
        else:
            kind, values = "string", [None if value is None else str(value) for value in values]
        series[name] = pandas.Series(values, dtype=kind)
    return pandas.DataFrame(series)


def csv_of(frame: "pandas.DataFrame") -> str:
    r"""A frame as CSV: floats are exact, and no text can be taken for a formula by a spreadsheet.

    Examples
    --------
    >>> csv_of(typed_frame(("target", "error"), [{"target": "=1+1", "error": 0.1}]))
    "target,error\r\n'=1+1,0.1\r\n"
    """
    safe = frame.copy()
    for name in safe.columns:
        if safe[name].dtype == "string":
            safe[name] = safe[name].map(_disarmed, na_action="ignore")
    text: str = safe.to_csv(index=False, lineterminator="\r\n", float_format=_digits)
    return text


def _disarmed(text: str) -> str:
    return f"'{text}" if text[:1] in ("=", "+", "-", "@", "\t", "\r") else text


def _digits(value: float) -> str:
    return "inf" if math.isinf(value) else repr(float(value))

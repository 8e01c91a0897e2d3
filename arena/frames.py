"""A comparison as tables: a row per fit, per pair of target and learner, or per step of a fit."""

import csv
import io
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING, Any

from arena.comparison_record import ComparisonRecord
from arena.records import Cell

if TYPE_CHECKING:
    import pandas

__all__ = ["TARGET_COLUMNS", "Table", "cell_table", "csv_of", "pair_table", "step_table"]

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


@dataclass(frozen=True)
class Table:
    """Rows with the same columns, in order; a missing value is None.

    Attributes
    ----------
    columns : tuple of str
        The names of the columns.
    rows : tuple of mapping
        For each row the value of every column: a text, a number, a bool or None.
    """

    columns: tuple[str, ...]
    rows: tuple[Mapping[str, Any], ...]

    @classmethod
    def of(cls, columns: Sequence[str], rows: Iterable[Mapping[str, Any]]) -> "Table":
        """Rows that may have further columns; each value gets the type of its column."""
        return cls(tuple(columns), tuple({name: _typed(name, row[name]) for name in columns} for row in rows))

    def __len__(self) -> int:
        return len(self.rows)

    def to_csv(self) -> str:
        """The rows as CSV, as `csv_of` writes them."""
        return csv_of(self.columns, self.rows)

    def to_pandas(self) -> "pandas.DataFrame":
        """A data frame; a column has its type even without rows, and missing numbers are NA or NaN.

        Raises
        ------
        ImportError
            If pandas is not installed.
        """
        try:
            import pandas
        except ImportError:
            raise ImportError(
                "A data frame needs pandas, of the extra tables: install it with pip install pandas, or write CSV."
            ) from None
        return pandas.DataFrame(
            {
                name: pandas.Series(values, dtype=_frame_type(name, values))
                for name in self.columns
                for values in [[row[name] for row in self.rows]]
            }
        )


def cell_table(results: ComparisonRecord) -> Table:
    """One row per cell with what is known of target and learner."""
    rows = []
    for cell in results.cells:
        target = results.target(cell.target)
        row = {name: getattr(cell, name) for name in _CELL_COLUMNS}
        row |= {f"target_{name}": getattr(target, name) for name in TARGET_COLUMNS}
        rows.append(row | {"learner_title": results.learner(cell.learner).title})
    return Table.of((*_CELL_COLUMNS, *(f"target_{name}" for name in TARGET_COLUMNS), "learner_title"), rows)


def pair_table(results: ComparisonRecord) -> Table:
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
    return Table.of(_PAIR_COLUMNS, rows)


def step_table(results: ComparisonRecord, target: str | None = None) -> Table:
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
    return Table.of(_STEP_COLUMNS, rows)


def csv_of(columns: Sequence[str], rows: Iterable[Mapping[str, Any]]) -> str:
    r"""Rows as CSV: floats are exact, and no text can be taken for a formula by a spreadsheet.

    Examples
    --------
    >>> csv_of(("target", "error"), [{"target": "=1+1", "error": 0.1}])
    "target,error\r\n'=1+1,0.1\r\n"
    """
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\r\n")
    writer.writerow(columns)
    writer.writerows([_csv_value(row.get(name)) for name in columns] for row in rows)
    return out.getvalue()


def _csv_value(value: Any) -> Any:
    if isinstance(value, float):
        return "" if math.isnan(value) else repr(float(value))
    harmful = isinstance(value, str) and value[:1] in ("=", "+", "-", "@", "\t", "\r")
    return f"'{value}" if harmful else value


def _typed(name: str, value: Any) -> Any:
    if value is None or name in _WHOLE or name == "succeeded":
        return value
    return float(value) if _is_real(name) else str(value)


def _is_real(name: str) -> bool:
    return name in _REAL or name.endswith("_error")


def _frame_type(name: str, values: Sequence[Any]) -> str:
    """The type of a column of a data frame; a seed may be larger than 64 bits."""
    if name in _WHOLE:
        fits = all(value is None or -(2**63) <= value < 2**63 for value in values)
        return "Int64" if fits else "object"
    return "bool" if name == "succeeded" else "float64" if _is_real(name) else "string"

"""Cells of a run store as a CSV, JSON or Parquet file."""

import io
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from arena._csv import csv_text
from arena._fields import listed_of
from arena.frame import TARGET_COLUMNS
from arena.store import StoredCell
from attention.files import write_whole
from attention.validation import as_path

__all__ = ["EXPORTS", "export_cells", "flat"]


def export_cells(path: str | Path, cells: Sequence[StoredCell]) -> None:
    """Write cells to a file whose ending says the format.

    Parameters
    ----------
    path : path
        The file, ending in .csv, .json (which holds the traces too) or .parquet (which needs pyarrow).
    cells : sequence of StoredCell
        What to write, one row each.

    Raises
    ------
    ValueError
        If the ending is another.
    ImportError
        If pyarrow is needed and absent.
    OSError
        If the file cannot be written; then the one that was there stays.
    """
    cells = listed_of("cells", cells, StoredCell)
    given, path = path, as_path(path)
    if path.suffix not in EXPORTS:
        raise ValueError(
            f"The path {str(given)!r} ends in {path.suffix or 'nothing'}: {', '.join(EXPORTS)} are the formats."
        )
    write_whole(path, EXPORTS[path.suffix](cells))


def flat(stored: StoredCell) -> dict[str, Any]:
    """A cell as one row: its own fields, the target's and the learner's, and when it was computed with what."""
    cell = asdict(stored.cell)
    trace = cell.pop("trace")
    target = {f"target_{name}": getattr(stored.target, name) for name in TARGET_COLUMNS}
    return (
        cell
        | target
        | {
            "learner_title": stored.learner.title,
            "finished": stored.finished,
            "timeout": stored.timeout,
            "versions": stored.versions,
            "parameters": stored.learner.parameters,
            "trace": trace,
            "key": stored.key,
        }
    )


_NAMES = (
    *("target", "learner", "seed", "status", "message", "outcome", "outcome_text", "succeeded"),
    *("relative_error", "unknown_part_error", "theta_error", "w_error", "examples_used", "seconds"),
    *("engine", "alone"),
    *(f"target_{name}" for name in TARGET_COLUMNS),
    *("learner_title", "finished", "timeout", "versions", "parameters", "key"),
)


def _csv(cells: Sequence[StoredCell]) -> bytes:
    rows = ([_in_one_field(row[name]) for name in _NAMES] for row in map(flat, cells))
    return csv_text(_NAMES, rows).encode()


def _in_one_field(value: Any) -> Any:
    return json.dumps(value, sort_keys=True) if isinstance(value, Mapping) else value


def _json(cells: Sequence[StoredCell]) -> bytes:
    rows = [flat(cell) for cell in cells]
    return json.dumps(rows, indent=1, ensure_ascii=False, allow_nan=False).encode()


def _parquet(cells: Sequence[StoredCell]) -> bytes:
    if find_spec("pyarrow") is None:
        raise ImportError(
            "Parquet needs pyarrow: install it with pip install pyarrow, or write .csv or .json."
        )
    import pyarrow
    from pyarrow import parquet

    kinds = {
        "seed": pyarrow.int64(),
        "succeeded": pyarrow.bool_(),
        "examples_used": pyarrow.int64(),
        **dict.fromkeys(("target_heads", "target_tokens", "target_dim", "target_seed"), pyarrow.int64()),
        **dict.fromkeys(
            ("relative_error", "unknown_part_error", "theta_error", "w_error", "seconds", "timeout"),
            pyarrow.float64(),
        ),
    }
    schema = pyarrow.schema([(name, kinds.get(name, pyarrow.string())) for name in _NAMES])
    rows = [{name: _in_one_field(value) for name, value in flat(cell).items()} for cell in cells]
    try:
        table = pyarrow.Table.from_pylist(rows, schema=schema)
    except (OverflowError, pyarrow.ArrowInvalid):
        raise ValueError(
            "A whole number does not fit into the 64 bits of Parquet: write .csv or .json."
        ) from None
    out = io.BytesIO()
    parquet.write_table(table, out)
    return out.getvalue()


EXPORTS: Mapping[str, Callable[[Sequence[StoredCell]], bytes]] = {
    ".csv": _csv,
    ".json": _json,
    ".parquet": _parquet,
}
"""The formats of `export_cells` by the ending of the file."""

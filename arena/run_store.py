"""The stored cells of comparisons, as rows and as a file."""

import io
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from fnmatch import fnmatchcase
from typing import Any

import msgspec

from arena.cells import CELL_NAME, stored_cell
from arena.formats import as_plain, csv_text
from arena.records import LearnerRecord, TargetRecord
from arena.results import TARGET_COLUMNS
from attention.foreign import json_text
from runs import Cell as EngineCell
from runs import Result, Store, StoreError

Rows = Sequence[Mapping[str, Any]]


def stored_cells(
    store: Store, *, target: str = "*", learner: str = "*", seed: int | None = None
) -> list[dict[str, Any]]:
    """The cells of comparisons in a store with these names (* and ? work as in a shell) and this seed, oldest first.

    A row has the columns of `Results.rows`, and the time and the package versions of the computation. Versions,
    parameters and traces are JSON text. StoreError if the store is damaged.
    """
    try:
        rows = [_row(data) for data in store.values() if data["function"] == CELL_NAME]
    except (KeyError, TypeError, ValueError) as error:
        raise StoreError(f"{store.path}: the store is damaged ({error}).") from None
    chosen = [
        row
        for row in rows
        if fnmatchcase(row["target"], target)
        and fnmatchcase(row["learner"], learner)
        and seed in (None, row["seed"])
    ]
    return sorted(chosen, key=lambda row: row["finished"])


def _row(data: Mapping[str, Any]) -> dict[str, Any]:
    result = Result.from_json(EngineCell(stored_cell, data["arguments"]), data)
    target, cell = dict(data["arguments"]["target"]), asdict(stored_cell(result))
    if "facts" not in (target["certificate"] or {}):  # of an older version
        target["certificate"] = None
    known = msgspec.convert(target, TargetRecord)
    learner = msgspec.convert(data["arguments"]["learner"], LearnerRecord)
    trace = json.dumps(cell.pop("trace"))
    return {
        "finished": str(result.finished),
        **cell,
        "status": cell["status"].value,
        **{f"target_{name}": getattr(known, name) for name in TARGET_COLUMNS},
        "learner_title": learner.title,
        "timeout": result.timeout,
        "versions": json.dumps(dict(result.versions), sort_keys=True),
        "parameters": json.dumps(learner.parameters, sort_keys=True),
        "trace": trace,
    }


def _parquet(cells: Rows) -> bytes:
    out = io.BytesIO()
    try:
        import pandas

        pandas.DataFrame(cells).to_parquet(out, index=False)
    except (OverflowError, ValueError):
        raise ValueError(
            "A whole number does not fit into the 64 bits of Parquet: write .csv or .json."
        ) from None
    except ImportError:
        raise ImportError(
            "Parquet needs pandas and pyarrow, the extra tables: install them with pip install pandas pyarrow, or "
            "write .csv or .json."
        ) from None
    return out.getvalue()


EXPORTS: Mapping[str, Callable[[Rows], bytes]] = {
    ".csv": lambda cells: csv_text(cells).encode(),
    ".json": lambda cells: json_text(as_plain(cells)).encode(),
    ".parquet": _parquet,
}
"""What makes a file of stored cells, by the ending of its name."""

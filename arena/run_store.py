"""The stored cells of comparisons, as rows and as a file."""

import io
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from fnmatch import fnmatchcase
from typing import Any

import msgspec

from arena.cells import stored_cell, stored_results
from arena.formats import as_plain, csv_text
from arena.results import TARGET_COLUMNS
from attention.foreign import escaped, json_text
from lower import Certificate
from runs import Result, Store, StoreError

__all__ = ["EXPORTS", "stored_cells"]

Rows = Sequence[Mapping[str, Any]]


def stored_cells(
    store: Store, *, target: str = "*", learner: str = "*", seed: int | None = None
) -> list[dict[str, Any]]:
    """The cells of comparisons in a store with these names (* and ? work as in a shell) and this seed, oldest first.

    A row has the columns of `Results.rows`, and the time and the package versions of the computation. Versions,
    parameters and traces are JSON text.

    Raises
    ------
    StoreError
        If the store is damaged.
    """
    try:
        rows = [_row(result) for result in stored_results(store)]
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


def _row(result: Result) -> dict[str, Any]:
    target, learner = result.cell.arguments["target"], result.cell.arguments["learner"]
    cell = asdict(stored_cell(result))
    trace = json.dumps(cell.pop("trace"))
    about = {f"target_{name}": escaped(target.get(name)) for name in TARGET_COLUMNS}
    return {
        "finished": str(result.finished),
        **cell,
        "status": cell["status"].value,
        **about,
        "target_label": _label(target),
        "learner_title": escaped(learner["title"]),
        "timeout": result.timeout,
        "versions": json.dumps(dict(result.versions), sort_keys=True),
        "parameters": json.dumps(learner["parameters"], sort_keys=True),
        "trace": trace,
    }


def _label(target: Mapping[str, Any]) -> str | None:
    """The label of a target's certificate; None without one, or if an older version wrote it."""
    certificate = target["certificate"]
    if not certificate or "facts" not in certificate:
        return None
    return msgspec.convert(certificate, Certificate).label


def _parquet(cells: Rows) -> bytes:
    try:
        import pandas

        out = io.BytesIO()
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
"""What makes a file of stored cells, by the ending of its name.

A format raises ValueError if a whole number does not fit into it, ImportError if it needs packages that are missing.
"""

"""``attention-bounds runs``: the cells of comparisons in a run store, as a list or as a file."""

import json
from collections.abc import Mapping
from dataclasses import asdict
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer

from arena.cli.console import JsonOption, report, require_writable, say, write_json
from arena.comparison import CELL_NAMES, stored_cell
from arena.formats import aligned, count_text, csv_text, error_text, plural, seconds_text
from arena.records import TARGET_COLUMNS, LearnerRecord, TargetRecord
from attention.files import write_whole
from attention.foreign import printable
from runs import Cell, Result, Store, StoreError

_HEADER = (
    *("finished (UTC)", "target", "m k d", "learner", "seed", "error", "examples", "time"),
    "how it ended",
)


def runs_command(
    store: Annotated[Path, typer.Argument(help="The run store.")] = Path("results/runs.sqlite"),
    target: Annotated[
        str, typer.Option(help="Only targets with this name; * and ? work as in a shell.")
    ] = "*",
    learner: Annotated[
        str, typer.Option(help="Only learners with this name; * and ? work as in a shell.")
    ] = "*",
    seed: Annotated[int | None, typer.Option(help="Only this seed.")] = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Write them to a .csv or .json file instead.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """List the cells of a run store, the oldest first, or export them.

    Example: attention-bounds runs results/runs.sqlite --learner newton --out newton.csv
    """
    if out is not None:
        if out.suffix not in (".csv", ".json"):
            raise ValueError(f"{out} ends in {out.suffix or 'nothing'}: .csv and .json are the formats.")
        require_writable(out)
    rows = [
        row
        for row in stored_cells(Store(store, read_only=True))
        if fnmatchcase(row["target"], target)
        and fnmatchcase(row["learner"], learner)
        and seed in (None, row["seed"])
    ]
    if out is not None:
        write_json(out, rows) if out.suffix == ".json" else write_whole(out, csv_text(rows).encode())
        say(f"{out}: {plural(len(rows), 'cell')}.", quiet=as_json)
    if as_json:
        report("", rows, as_json)
    elif out is None:
        lines = [
            (
                row["finished"][:19].replace("T", " "),
                row["target"],
                f"{row['target_heads']} {row['target_tokens']} {row['target_dim']}",
                row["learner"],
                str(row["seed"]),
                error_text(row["unknown_part_error"]) if row["status"] == "done" else "-",
                count_text(row["examples_used"]),
                seconds_text(row["seconds"]),
                row["outcome"].lower().replace("_", " ") or f"{row['status']}: {row['message']}",
            )
            for row in rows
        ]
        table = [_HEADER, *(tuple(map(printable, line)) for line in lines)]
        say(f"{aligned(table, left=len(_HEADER))}\n\n{plural(len(rows), 'cell')} in {store}.")


def stored_cells(store: Store) -> list[dict[str, Any]]:
    """The cells of comparisons in a store, oldest first.

    A row has the columns of `Results.rows`, and the time and the package versions of the computation. Versions,
    parameters and traces are JSON text. StoreError if the store is damaged.
    """
    try:
        rows = [_row(data) for data in store.values() if data["function"] in CELL_NAMES]
    except (KeyError, TypeError, ValueError) as error:
        raise StoreError(f"{store.path}: the store is damaged ({error}).") from None
    return sorted(rows, key=lambda row: row["finished"])


def _row(data: Mapping[str, Any]) -> dict[str, Any]:
    result = Result.from_json(Cell(stored_cell, data["arguments"]), data)
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

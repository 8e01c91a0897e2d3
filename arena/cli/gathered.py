"""Commands of many cells: options, progress, files, and what an interruption leaves."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from arena._fields import as_plain
from arena.cli.console import cores, print_json, progress_bar, require_writable, say
from arena.cli.errors import WorkInterruptedError
from arena.drawing import Drawing
from arena.frames import csv_of
from attention.files import write_whole
from runs import Store, versions

__all__ = [
    "DaskOption",
    "FolderOption",
    "FreshOption",
    "JobsOption",
    "StoreOption",
    "gather",
    "report_curve",
    "require_all",
    "run_options",
    "write_json",
]

FolderOption = Annotated[Path, typer.Option("--out", "-o", help="Folder for tables, figures and the store.")]
JobsOption = Annotated[int | None, typer.Option(help="Processes; by default one a core.")]
DaskOption = Annotated[
    str | None, typer.Option(metavar="ADDRESS", help="Run on the dask cluster of this scheduler.")
]
StoreOption = Annotated[
    Path | None, typer.Option(help="The run store; by default a file in the folder of --out.")
]
FreshOption = Annotated[
    bool, typer.Option("--fresh", help="Compute every cell again, also those in the store.")
]


def run_options(
    out: Path, name: str, jobs: int | None, dask: str | None, store: Path | None, fresh: bool
) -> dict[str, Any]:
    """The options of `runs.run`, held to what there is before the work; the folder of `out` is made.

    Raises
    ------
    ValueError
        If options exclude each other, or nothing can be written there.
    """
    processes = cores(jobs, dask)
    require_writable(out, directory=True)
    kept = Store(out / f"{name}.sqlite" if store is None else store)
    return {"jobs": processes, "cluster": dask, "store": kept, "fresh": fresh}


def gather(
    label: str, total: int | None, quiet: bool, work: Callable[[Callable[[Any], None]], Iterable[Any]]
) -> tuple[list[Any], bool]:
    """What `work` gives, with a progress bar; after an interruption, what it told of until then, and False."""
    done: list[Any] = []
    with progress_bar(label, total, quiet=quiet) as tick:

        def keep(one: Any) -> None:
            done.append(one)
            tick(f"{len(done)} done")

        try:
            return list(work(keep)), True
        except KeyboardInterrupt:
            return done, False


def report_curve(
    out: Path, name: str, rows: Sequence[Mapping[str, Any]], figure: Drawing, table: str, as_json: bool
) -> None:
    """Write rows as JSON and CSV and the figure as SVG and PDF into a folder; print the table, or the JSON."""
    from pandas import DataFrame

    data = {"versions": versions(), "points": as_plain(list(rows))}
    write_json(out / f"{name}.json", data)
    flat = [
        {key: " ".join(map(str, one)) if isinstance(one, list) else one for key, one in row.items()}
        for row in rows
    ]
    # whole numbers that are missing stay whole, and those past 64 bits too
    frame = DataFrame(flat, dtype=object).convert_dtypes()
    write_whole(out / f"{name}.csv", csv_of(frame).encode())
    for ending in ("svg", "pdf"):
        figure.save(out / f"{name}.{ending}")
    if as_json:
        print_json(data)
    say(f"{table}\n\n{out / name}.svg, .pdf, .csv, .json", quiet=as_json)


def write_json(path: Path, data: Any) -> None:
    """Write one JSON document; what is not finite becomes null."""
    text = json.dumps(as_plain(data), indent=1, ensure_ascii=False, allow_nan=False)
    write_whole(path, f"{text}\n".encode())


def require_all(whole: bool, done: str) -> None:
    """Raise where the work was interrupted, with how far it came.

    Raises
    ------
    WorkInterruptedError
        Unless it is whole.
    """
    if not whole:
        raise WorkInterruptedError(
            f"Interrupted: {done} are done and kept; without --fresh the command goes on."
        )

"""``attention-bounds runs``: what a run store holds, as a list or as a file."""

from pathlib import Path
from typing import Annotated

import typer

from arena._phrases import plural
from arena.cli.console import JsonOption, print_json, require_writable, say
from arena.export import EXPORTS, export_cells, flat
from arena.store import RunStore, StoredCell
from arena.words import outcome_word, printable, short_count, short_error, short_seconds

__all__ = ["runs_command"]


def runs_command(
    store: Annotated[Path, typer.Argument(help="The run store.")] = Path("results/runs.sqlite"),
    target: Annotated[
        str | None, typer.Option(help="Only targets of this name; * and ? as in a shell.")
    ] = None,
    learner: Annotated[str | None, typer.Option(help="Only learners of this name; * and ? likewise.")] = None,
    seed: Annotated[int | None, typer.Option(help="Only this seed.")] = None,
    status: Annotated[
        str | None, typer.Option(help="Only these: done, 'not applicable', failed or 'timed out'.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Write them to a .csv, .json or .parquet file instead.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """List the cells of a run store, the oldest first, or export them.

    Example: attention-bounds runs results/runs.sqlite --learner newton --out newton.csv
    """
    if out is not None and out.suffix not in EXPORTS:
        raise ValueError(f"{out} ends in {out.suffix or 'nothing'}: {', '.join(EXPORTS)} are the formats.")
    with RunStore(store, read_only=True) as opened:
        cells = opened.cells(target=target, learner=learner, seed=seed, status=status)
    if out is not None:
        require_writable(out)
        export_cells(out, cells)
        say(f"{out}: {plural(len(cells), 'cell')}.", quiet=as_json)
    if as_json:
        print_json([flat(cell) for cell in cells])
    elif out is None:
        _list(cells, store)


def _list(cells: list[StoredCell], store: Path) -> None:
    rows = [
        ("finished (UTC)", "target", "m k d", "learner", "seed", "error", "examples", "time", "how it ended")
    ]
    for stored in cells:
        cell = stored.cell
        done = cell.status == "done"
        rows.append(
            (
                stored.finished[:19].replace("T", " "),
                printable(cell.target),
                f"{stored.target.heads} {stored.target.tokens} {stored.target.dim}",
                printable(cell.learner),
                str(cell.seed),
                short_error(cell.unknown_part_error) if done else "-",
                short_count(cell.examples_used),
                short_seconds(cell.seconds),
                outcome_word(cell.outcome) if done else printable(f"{cell.status}: {cell.message}"),
            )
        )
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]) - 1)]
    for row in rows:
        say("  ".join([*(text.ljust(width) for text, width in zip(row, widths, strict=False)), row[-1]]))
    say(f"\n{plural(len(cells), 'cell')} in {store}.")

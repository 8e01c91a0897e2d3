"""``attention-bounds runs``: the content of a run store, as a list or as a file."""

from pathlib import Path
from typing import Annotated

import typer

from arena.cli.console import JsonOption, require_writable, say
from arena.formats import aligned, count_text, error_text, plural, seconds_text
from arena.run_store import EXPORTS, stored_cells
from attention.files import write_whole
from attention.foreign import printable
from runs import Store

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
        Path | None, typer.Option("--out", "-o", help="Write them to a .csv, .json or .parquet file instead.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """List the cells of a run store, the oldest first, or export them.

    Example: attention-bounds runs results/runs.sqlite --learner newton --out newton.csv
    """
    if out is not None:
        if out.suffix not in EXPORTS:
            raise ValueError(
                f"{out} ends in {out.suffix or 'nothing'}: {', '.join(EXPORTS)} are the formats."
            )
        require_writable(out)
    cells = stored_cells(Store(store, read_only=True), target=target, learner=learner, seed=seed)
    if out is not None:
        write_whole(out, EXPORTS[out.suffix](cells))
        say(f"{out}: {plural(len(cells), 'cell')}.", quiet=as_json)
    if as_json:
        typer.echo(EXPORTS[".json"](cells).decode())
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
            for row in cells
        ]
        table = [_HEADER, *(tuple(map(printable, line)) for line in lines)]
        say(f"{aligned(table, left=len(_HEADER))}\n\n{plural(len(cells), 'cell')} in {store}.")

"""``attention-bounds compare``: the main command, learners against targets."""

import shlex
import sys
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from arena.cli import WorkFailedError, WorkInterruptedError
from arena.cli.console import (
    InputsOption,
    JsonOption,
    RunOptions,
    TokensOption,
    say,
)
from arena.cli.options import takes
from arena.comparison import compare
from arena.learner_table import LEARNERS
from arena.learners import choose_learners
from arena.results import Results
from arena.targets import open_targets
from arena.views.page import render_page
from arena.views.table import print_table
from attention.files import write_whole


@takes(compare, without=("isolated", "command", "progress", "cluster"))
def compare_command(
    files: Annotated[
        list[Path] | None, typer.Argument(help="Targets; without any, nice and hard ones built here.")
    ] = None,
    learners: Annotated[
        str | None,
        typer.Option(
            help=f"Comma-separated among {', '.join(LEARNERS)}, or FILE.py:CLASS for your own; all for every one. By "
            "default those with a star in `attention-bounds learners`."
        ),
    ] = None,
    tokens: TokensOption = None,
    inputs: InputsOption = None,
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder for results.json and index.html.")] = Path(
        "results"
    ),
    *,
    run: RunOptions,
    retry_failed: Annotated[
        bool, typer.Option("--retry-failed", help="Compute cells again that failed or timed out.")
    ] = False,
    as_json: JsonOption = False,
    **settings: Any,
) -> None:
    """Run every learner on every target; print a table, write DIR/results.json and DIR/index.html.

    Every finished cell is kept in a run store: after an interruption the same command continues.

    Example: attention-bounds compare --preset quick --out results
    """
    entries = choose_learners(learners)
    targets = open_targets(files, tokens=tokens, inputs=inputs) if files else None
    options = run.begin(out, "runs")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # a store that fails is reported below
        results = compare(targets, entries, retry_failed=retry_failed, **settings, **options)
    command = shlex.join(["attention-bounds", *sys.argv[1:]])
    results = replace(results, made={"command": command, **results.made})
    total = len(results.targets) * len(entries) * results.seeds
    if results.cells:
        text = results.to_json()
        if as_json:
            typer.echo(text)
        else:
            print_table(results)  # first, because a file may not be written in the end
        write_whole(out / "results.json", text.encode())
        write_whole(out / "index.html", render_page(results).encode())
        if reused := results.made["reused"]:
            again = f"{reused} of {total} cells were in {options['store'].path}; --fresh computes them again."
            say(f"\n{again}", quiet=as_json)
        say(f"\n{out / 'results.json'}\n{out / 'index.html'}", quiet=as_json)
    if results.interruption:
        raise _interruption(results, total)
    if failed := [cell for cell in results.cells if cell.status.lost]:
        first = failed[0]
        raise WorkFailedError(
            f"{len(failed)} of {total} cells failed; the first, {first.learner} on {first.target}: {first.message} "
            "--retry-failed computes them again."
        )


def _interruption(results: Results, total: int) -> WorkFailedError:
    store_error, done = results.made["interrupted"], f"{len(results.cells)} of {total} cells"
    by_hand = store_error is True
    error = WorkInterruptedError if by_hand else WorkFailedError
    why = "Interrupted" if by_hand else store_error.rstrip(".")
    if results.made.get("fresh"):
        return error(f"{why}: {done} were computed afresh; of the others, the store keeps what it had.")
    return error(f"{why}: {done} are done{' and kept' if by_hand else ''}; the same command goes on.")

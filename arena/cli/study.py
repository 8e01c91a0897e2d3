"""``attention-bounds study``: answer questions that the sources leave open, with numbers."""

import textwrap
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from arena.cli.console import (
    JsonOption,
    RunOptions,
    SeedOption,
    TimeoutOption,
    print_json,
    say,
    takes_run_options,
)
from arena.cli.errors import WorkFailedError, WorkInterruptedError
from arena.formats import aligned, plural
from arena.names import find_name
from attention.validation import PositiveFloat, check
from runs import Scale
from studies import STUDIES, Study, StudyResult, find_studies, load_result, run_study, write_study
from studies.folder import result_json, text_table
from studies.rows import chosen as rows_of
from studies.rows import number_text

__all__ = ["measure_studies", "study_command"]


@takes_run_options
def study_command(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="[NAME]...", help=f"Studies, or all: {', '.join(STUDIES)}."),
    ] = None,
    list_only: Annotated[bool, typer.Option("--list", help="Show the question of each study.")] = False,
    scale: Annotated[
        Scale,
        typer.Option(help="quick: seconds to a minute per study; full: the sizes of the documentation."),
    ] = Scale.QUICK,
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder of records and figures.")] = Path(
        "results/studies"
    ),
    *,
    run: RunOptions,
    timeout: TimeoutOption = None,
    seed: SeedOption = 0,
    redraw: Annotated[
        bool, typer.Option("--redraw", help="Measure nothing: draw the records in --out again.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Answer a question with numbers: tables, and a record and a figure in the folder of --out.

    Every finished cell is kept: after an interruption the same command continues.

    Example: attention-bounds study agreement --scale quick --out results/studies
    """
    names = [find_name(name, [*STUDIES, "all"], "study") for name in names or []]
    if list_only:
        _list(find_studies(names or ["all"]), as_json)
        return
    if not names:
        raise ValueError(
            f"No study is named: choose among {', '.join(STUDIES)}, or all; --list shows their questions."
        )
    chosen = find_studies(names)
    if redraw:
        _redraw(chosen, out, as_json)
        return
    measure_studies(chosen, scale=scale, out=out, run=run, timeout=timeout, seed=seed, as_json=as_json)


def measure_studies(
    studies: Sequence[Study],
    *,
    scale: Scale,
    out: Path,
    run: RunOptions,
    timeout: float | None = None,
    seed: int = 0,
    as_json: bool = False,
) -> None:
    """Measure studies, print their tables, and write their records and figures into a folder.

    Raises
    ------
    ValueError
        If an option is wrong, or the folder cannot be written.
    WorkFailedError
        If a cell failed; everything else is measured and written first.
    WorkInterruptedError
        If the user interrupts.
    """
    if timeout is not None:
        check("--timeout", timeout, PositiveFloat)
    options = run.begin(out, "studies")
    done: list[dict[str, Any]] = []
    failures: list[str] = []
    for study in studies:
        if study.missing and len(studies) > 1:
            say(f"{study.name} is left out: it needs {' and '.join(study.missing)}.", quiet=as_json)
            continue
        try:
            result = run_study(study, scale=scale, seed=seed, timeout=timeout, **options)
        except KeyboardInterrupt:
            raise WorkInterruptedError(
                f"Interrupted at {study.name}: {plural(len(done), 'study', 'studies')} of {len(studies)} done. "
                f"What was measured is kept in {options['store'].path}; the same command goes on."
            ) from None
        failures += [f"{study.name}: {failure}" for failure in result.failures]
        if result.rows:
            done.append(_write(study, result, out, as_json))
    if as_json:
        print_json(done)
    if failures:
        raise WorkFailedError(
            f"{plural(len(failures), 'cell')} failed; the first: {failures[0]} The same command measures them again."
        )


def _redraw(studies: Sequence[Study], out: Path, as_json: bool) -> None:
    done = []
    for study in studies:
        path = out / f"{study.name}.csv"
        if not path.is_file():
            old = path.with_suffix(".json").is_file()
            before = (
                " A record in JSON is of an earlier version; e8b75ae is the last that reads it."
                if old
                else ""
            )
            raise ValueError(
                f"{path} is not there: leave --redraw out to measure the study {study.name}.{before}"
            )
        result = load_result(path)
        # a record of an earlier version may have cells that are gone
        rows = (row for cell in study.cells(result.scale) for row in rows_of(result.rows, **cell))
        result = replace(result, rows=tuple(rows))
        try:
            done.append(_write(study, result, out, as_json))
        except (KeyError, TypeError, IndexError, AttributeError) as error:
            raise ValueError(
                f"{path} holds other rows than the study {study.name} measures ({type(error).__name__}: {error}): "
                f"leave --redraw out to measure them again."
            ) from None
    if as_json:
        print_json(done)


def _list(studies: Sequence[Study], as_json: bool) -> None:
    if as_json:
        print_json([{"name": one.name, "title": one.title, "question": one.question} for one in studies])
        return
    width = max(len(one.name) for one in studies) + 2
    for one in studies:
        say(
            textwrap.fill(
                one.question, 100, initial_indent=one.name.ljust(width), subsequent_indent=" " * width
            )
        )


def _write(study: Study, result: StudyResult, out: Path, quiet: bool) -> dict[str, Any]:
    """Write the record and the figure; print the tables and the numbers; return the JSON values."""
    files = write_study(out, study, result)
    tables, numbers = study.tables(result.rows), dict(study.numbers(result.rows))
    shown = "\n\n".join(aligned(text_table(lines)) for lines in tables.values() if lines)
    say(f"{study.title}\n{study.question}\n\n{shown}\n", quiet=quiet)
    for name, value in numbers.items():
        say(f"{name}: {number_text(value)}", quiet=quiet)
    say(f"\n{', '.join(map(str, files))}\n", quiet=quiet)
    return {"question": study.question, "numbers": numbers, **result_json(result)}

"""``attention-bounds study``: answer questions that the sources leave open, with numbers."""

import textwrap
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from arena.cli import WorkFailedError, WorkInterruptedError
from arena.cli.console import JsonOption, RunOptions, report, say
from arena.cli.options import takes
from arena.formats import aligned, folded, plural
from arena.names import find_name
from studies import STUDIES, Study, StudyResult, find_studies, load_result, run_study, write_study
from studies.folder import result_json, text_table
from studies.rows import chosen, number_text


@takes(run_study)
def study_command(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="[NAME]...", help=f"Studies, or all: {', '.join(STUDIES)}."),
    ] = None,
    list_only: Annotated[bool, typer.Option("--list", help="Show the question of each study.")] = False,
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder of records and figures.")] = Path(
        "results/studies"
    ),
    *,
    run: RunOptions,
    redraw: Annotated[
        bool, typer.Option("--redraw", help="Measure nothing: draw the records in --out again.")
    ] = False,
    as_json: JsonOption = False,
    **settings: Any,
) -> None:
    """Answer a question with numbers: tables, and a record and a figure in the folder of --out.

    Every finished cell is kept: after an interruption the same command continues.

    Example: attention-bounds study agreement --scale quick --out results/studies
    """
    names = [find_name(name, [*STUDIES, "all"], "study") for name in names or []]
    if list_only:
        listed = find_studies(names or ["all"])
        width = max(len(study.name) for study in listed) + 2
        indent: Any = {"initial_indent": " " * width, "subsequent_indent": " " * width}
        lines = [one.name.ljust(width) + textwrap.fill(one.question, 100, **indent)[width:] for one in listed]
        questions = [{"name": one.name, "title": one.title, "question": one.question} for one in listed]
        report("\n".join(lines), questions, as_json)
        return
    if not names:
        raise ValueError(
            f"No study is named: choose among {', '.join(STUDIES)}, or all; --list shows their questions."
        )
    chosen = find_studies(names)
    if redraw:
        done = [_redraw(study, out, as_json) for study in chosen]
        if as_json:
            report("", done, as_json)
    else:
        measure_studies(chosen, out=out, run=run, as_json=as_json, **settings)


def measure_studies(
    studies: Sequence[Study],
    *,
    out: Path,
    run: RunOptions,
    as_json: bool = False,
    **settings: Any,
) -> None:
    """Measure studies, print their tables, and write their records and figures into a folder.

    `settings` are those of `run_study`: scale and seed.

    WorkFailedError if a cell failed; everything else is measured and written first.
    """
    options = run.begin(out, "studies")
    done: list[dict[str, Any]] = []
    failures: list[str] = []
    for study in studies:
        if study.missing and len(studies) > 1:
            say(f"{study.name} is left out: it needs {' and '.join(study.missing)}.", quiet=as_json)
            continue
        try:
            result = run_study(study, **settings, **options)
        except KeyboardInterrupt:
            raise WorkInterruptedError(
                f"Interrupted at {study.name}: {plural(len(done), 'study', 'studies')} of {len(studies)} done. "
                f"What was measured is kept in {options['store'].path}; the same command goes on."
            ) from None
        failures += [f"{study.name}: {failure}" for failure in result.failures]
        if result.rows:
            done.append(_write(study, result, out, as_json))
    if as_json:
        report("", done, as_json)
    if failures:
        raise WorkFailedError(
            f"{plural(len(failures), 'cell')} failed; the first: {failures[0]} The same command measures them again."
        )


def _redraw(study: Study, out: Path, quiet: bool) -> dict[str, Any]:
    path = out / f"{study.name}.csv"
    if not path.is_file():
        raise ValueError(
            f"{path} is not there: leave --redraw out to measure the study {study.name}. A record in JSON is of an "
            "earlier version; e8b75ae is the last that reads it."
        )
    try:
        result = load_result(path)
        # a record of an earlier version may have cells that are gone
        rows = tuple(row for cell in study.cells(result.scale) for row in chosen(result.rows, **cell))
        return _write(study, replace(result, rows=rows), out, quiet)
    except (KeyError, TypeError, IndexError, AttributeError) as error:
        raise ValueError(
            f"{path} holds other rows than the study {study.name} measures ({type(error).__name__}: {error}): leave "
            "--redraw out to measure them again."
        ) from None


def _write(study: Study, result: StudyResult, out: Path, quiet: bool) -> dict[str, Any]:
    """Write the record and the figure; print the tables and the numbers; return the JSON values."""
    files = write_study(out, study, result)
    tables, numbers = study.tables(result.rows), study.numbers(result.rows)
    lines = [study.title, *folded([study.question])]
    for table in filter(None, tables.values()):
        named = isinstance(next(iter(table[0].values())), str)
        lines += ["", *aligned(text_table(table), left=int(named)).split("\n")]
    lines += (
        ["", *folded([f"{name}: {number_text(value)}" for name, value in numbers.items()])] if numbers else []
    )
    say("\n".join([*lines, "", ", ".join(map(str, files)), ""]), quiet=quiet)
    return {"question": study.question, "numbers": numbers, **result_json(result)}

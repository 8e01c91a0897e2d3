"""``attention-bounds study``: questions the sources leave open, answered with numbers."""

import os
import textwrap
from pathlib import Path
from typing import Annotated, Any

import typer

from arena._phrases import plural
from arena.calls import WorkersLostError
from arena.cli.console import (
    JsonOption,
    SeedOption,
    WorkFailedError,
    WorkInterruptedError,
    print_json,
    progress_bar,
    require_writable,
    say,
)
from arena.clusters import cluster
from arena.curve_store import CurveStore
from arena.studies.folder import load_result, write_index, write_study
from arena.studies.registry import STUDIES, all_studies
from arena.studies.running import StudyResult, run_study
from arena.studies.study import Study
from arena.studies.words import figures_found, study_text, three_sentences
from attention.validation import count, non_negative
from paper_checks import Scale

__all__ = ["study_command"]


def study_command(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="[NAME]...", help=f"Studies, or all: {', '.join(STUDIES)}."),
    ] = None,
    list_only: Annotated[
        bool, typer.Option("--list", help="Say which studies there are, and run none.")
    ] = False,
    scale: Annotated[
        str | None,
        typer.Option(
            help="quick, the default: seconds to a minute each; full: the sizes of the documentation."
        ),
    ] = None,
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder of figures, tables and pages.")] = Path(
        "studies"
    ),
    store: Annotated[
        Path | None,
        typer.Option(help="Where measured cells are kept; by default studies.sqlite in that folder."),
    ] = None,
    jobs: Annotated[int | None, typer.Option(help="Processes; by default one a core.")] = None,
    dask: Annotated[
        str | None,
        typer.Option(metavar="ADDRESS", help="Measure the cells on the dask cluster of this scheduler."),
    ] = None,
    timeout: Annotated[
        float | None, typer.Option(help="Seconds a cell may take; by default all it needs.")
    ] = None,
    seed: SeedOption = 0,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Measure every cell again, also those in the store.")
    ] = False,
    redraw: Annotated[
        bool,
        typer.Option(
            "--redraw", help="Measure nothing: make figures and pages anew of the records in --out."
        ),
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Answer a question with numbers: a figure, a table and three sentences, written into the folder of --out.

    Every cell is kept as it is done: the same command goes on where it was interrupted.

    Example: attention-bounds study agreement --scale quick --out studies
    """
    if scale is not None and scale not in [one.value for one in Scale]:
        raise ValueError(f"--scale is {scale!r}: {' or '.join(one.value for one in Scale)} is needed.")
    if list_only:
        _list(all_studies(names or []), as_json)
        return
    if not names:
        raise ValueError(
            f"No study is named: choose among {', '.join(STUDIES)}, or all; --list says what each asks."
        )
    chosen = all_studies(names)
    if jobs is not None and dask is not None:
        raise ValueError("--jobs is for this machine: with --dask the cluster's workers decide.")
    jobs = None if dask is not None else (os.cpu_count() or 1) if jobs is None else count("--jobs", jobs)
    if timeout is not None:
        timeout = non_negative("--timeout", timeout, strictly=True)
    if redraw:
        if fresh:
            raise ValueError("--fresh measures everything again and --redraw nothing: give one of them.")
        _redraw(chosen, out, as_json, None if scale is None else Scale(scale), seed or None)
        return
    scale = scale or Scale.QUICK.value
    require_writable(out, directory=True)
    done: list[tuple[Study, StudyResult]] = []
    total = sum(len(study.cells(Scale(scale))) for study in chosen)
    with (
        cluster(dask),
        CurveStore(out / "studies.sqlite" if store is None else store) as kept,
        progress_bar("studies", total, quiet=as_json) as tick,
    ):
        for study in chosen:
            told = 0

            def tell(row: Any, name: str = study.name) -> None:
                nonlocal told
                told += 1
                tick(name)

            try:
                result = run_study(
                    study,
                    scale=Scale(scale),
                    seed=seed,
                    jobs=jobs,
                    store=kept,
                    fresh=fresh,
                    timeout=timeout,
                    on_row=tell,
                )
            except KeyboardInterrupt:
                raise WorkInterruptedError(f"Interrupted: {_kept(study, scale, told, kept, fresh)}") from None
            except WorkersLostError as error:
                raise WorkFailedError(
                    f"What measures the cells broke down ({error}): {_kept(study, scale, told, kept, fresh)}"
                ) from None
            done.append((study, result))
            if result.rows:
                files = write_study(out, study, result)
                say(study_text(study, result) + "\n\n" + ", ".join(map(str, files)) + "\n", quiet=as_json)
    if any(result.rows for _, result in done):
        say(str(write_index(out)), quiet=as_json)
    if as_json:
        print_json([_as_json(study, result) for study, result in done])
    _report_failures(done)


def _kept(study: Study, scale: str, done: int, store: CurveStore, fresh: bool) -> str:
    cells = plural(len(study.cells(Scale(scale))), "cell")
    again = "the same command" + (" without --fresh" if fresh else "")
    return f"{done} of {cells} of {study.name} are done and kept in {store.path}; {again} goes on."


def _redraw(studies: list[Study], out: Path, as_json: bool, scale: Scale | None, seed: int | None) -> None:
    done = []
    for study in studies:
        path = out / f"{study.name}.json"
        if not path.is_file():
            raise ValueError(f"{path} is not there: leave --redraw out to measure the study {study.name}.")
        result = load_result(path)
        if result.fingerprint != study.fingerprint:
            raise ValueError(
                f"{path} was measured by other code than that of today: leave --redraw out to measure the study "
                f"{study.name} again."
            )
        if scale not in (None, result.scale) or seed not in (None, result.seed):
            raise ValueError(
                f"{path} was measured at the {result.scale.value} scale with seed {result.seed}: leave --redraw out to "
                f"measure with others."
            )
        done.append((study, result))
    for study, result in done:
        try:
            write_study(out, study, result)
        except (KeyError, TypeError, IndexError, AttributeError) as error:
            raise ValueError(
                f"{out / study.name}.json holds rows that the study {study.name} cannot have measured "
                f"({type(error).__name__}: {error}): leave --redraw out to measure them again."
            ) from None
        say(study_text(study, result) + "\n", quiet=as_json)
    say(str(write_index(out)), quiet=as_json)
    if as_json:
        print_json([_as_json(study, result) for study, result in done])


def _list(studies: list[Study], as_json: bool) -> None:
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


def _as_json(study: Study, result: StudyResult) -> dict[str, Any]:
    expected, found, limits = three_sentences(study, result)
    return {
        "study": study.name,
        "scale": result.scale.value,
        "seed": result.seed,
        "question": study.question,
        "expected": expected,
        "found": found,
        "figures": list(figures_found(study, result)),
        "limits": limits,
        "failures": list(result.failures),
        "versions": dict(result.versions),
        "rows": list(result.rows),
    }


def _report_failures(done: list[tuple[Study, StudyResult]]) -> None:
    failures = [failure for _, result in done for failure in result.failures]
    if failures:
        raise WorkFailedError(
            f"{plural(len(failures), 'cell')} failed; the first, {failures[0]} The same command measures them again."
        )

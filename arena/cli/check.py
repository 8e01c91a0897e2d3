"""``attention-bounds check``: what the papers claim, claim by claim."""

from pathlib import Path
from typing import Annotated

import typer

from arena.cli.console import (
    JsonOption,
    SeedOption,
    print_json,
    progress_bar,
    require_counts,
    require_writable,
    say,
)
from arena.cli.errors import WorkFailedError, WorkInterruptedError
from arena.formats import plural
from paper_checks import GROUPS, Check, CheckResult, Scale, find_checks
from paper_checks.claims_folder import run_session
from paper_checks.reports import check_to_json, result_text, summary_text, wrong_results

__all__ = ["check_command"]


def check_command(
    checks: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[ID]...",
            help=f"Identifiers such as layer/row-form, patterns with *, groups: {', '.join(GROUPS)}. Without one: all.",
        ),
    ] = None,
    scale: Annotated[
        str, typer.Option(help="quick: all in minutes; full: the sizes that figures are quoted for.")
    ] = Scale.QUICK.value,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            "-o",
            help="Keep the results in this folder, and write the page they make; without it, print only.",
        ),
    ] = None,
    jobs: Annotated[int, typer.Option(help="Processes that share the work, each in one thread.")] = 1,
    inject: Annotated[
        bool,
        typer.Option("--inject", help="Run each again, quickly, on an error injected into it: it must fail."),
    ] = False,
    list_only: Annotated[
        bool, typer.Option("--list", help="Say which checks there are, and run none.")
    ] = False,
    seed: SeedOption = 0,
    as_json: JsonOption = False,
) -> None:
    """Check what the papers claim, one claim after the other.

    Each check says whether its claim is proved, derived here or only measured. With --out, results are kept as they
    come, and those of other checks stay. The exit status is 1 if a check fails.

    Example: attention-bounds check crude-sum --scale full
    """
    require_counts(jobs=jobs)
    if scale not in [one.value for one in Scale]:
        raise ValueError(f"--scale is {scale!r}: {' or '.join(one.value for one in Scale)} is needed.")
    chosen = find_checks(checks or [])
    if list_only:
        if as_json:
            print_json([check_to_json(one, None) for one in chosen])
        else:
            say("\n".join(f"{one.id}: {one.claim}" for one in chosen))
        return
    if out is not None:
        require_writable(out, directory=True)
    with progress_bar("checks", len(chosen), quiet=as_json) as tick:

        def show(check: Check, result: CheckResult) -> None:
            tick(check.id)
            say(result_text(check, result) + "\n", quiet=as_json)

        session = run_session(
            chosen,
            scale=Scale(scale),
            seed=seed,
            jobs=jobs,
            inject=inject,
            folder=out,
            on_result=show,
        )
    if as_json:
        by_id = {one.id: one for one in chosen}
        print_json([check_to_json(by_id[one.id], one) for one in session.results])
    else:
        say(summary_text(chosen, session.results))
        if session.page is not None:
            say(str(session.page))
    if session.interrupted:
        kept = "" if out is None else f" and kept in {out}"
        raise WorkInterruptedError(
            f"Interrupted: {len(session.results)} of {plural(len(chosen), 'check')} are done{kept}."
        )
    wrong = wrong_results(session.results)
    if wrong:
        raise WorkFailedError(f"Not every check does as it must: see {', '.join(one.id for one in wrong)}.")

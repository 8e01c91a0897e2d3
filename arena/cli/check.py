"""``attention-bounds check``: check the claims of the papers one by one."""

from pathlib import Path
from typing import Annotated, Any

import typer

from arena.cli import WorkFailedError, WorkInterruptedError
from arena.cli.console import JsonOption, report, require_writable, say
from arena.cli.options import takes
from arena.formats import plural
from paper_checks import GROUPS, ClaimResult, all_claims, find_claims, run_claims
from paper_checks.claims_folder import keep_result, read_results
from paper_checks.reports import claim_to_json, result_text, summary_text, write_pages


@takes(run_claims, without=("progress",))
def check_command(
    checks: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[ID]...",
            help=f"Identifiers such as layer/row-form, patterns with *, groups: {', '.join(GROUPS)}. Without one: all.",
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            "-o",
            help="Keep the results in this folder and write their pages; without it, print only.",
        ),
    ] = None,
    list_only: Annotated[bool, typer.Option("--list", help="List the claims, and run none.")] = False,
    as_json: JsonOption = False,
    **settings: Any,
) -> None:
    """Check the claims of the papers one by one.

    Each claim says whether it is proved, derived here or only measured. With --out, each result is kept as soon as it
    exists, and results of other claims stay. The exit status is 1 if a claim fails.

    Example: attention-bounds check crude-sum --scale full
    """
    claims = find_claims(checks or [])
    if list_only:
        lines = [f"{claim.id}: {claim.text}" for claim in claims]
        report("\n".join(lines), [claim_to_json(claim, None) for claim in claims], as_json)
        return
    if out is not None:
        require_writable(out, directory=True)
        read_results(out)
    by_id, results, interrupted = {one.id: one for one in claims}, list[ClaimResult](), False
    try:
        for result in run_claims(claims, progress=True, **settings):
            if out is not None:
                keep_result(out, result)
            results.append(result)
            say(result_text(by_id[result.id], result) + "\n", quiet=as_json)
    except KeyboardInterrupt:
        interrupted = True
    results.sort(key=lambda one: list(by_id).index(one.id))
    report(summary_text(claims, results), [claim_to_json(by_id[one.id], one) for one in results], as_json)
    if out is not None:
        write_pages(out, all_claims())
        say(str(out / "index.rst"), quiet=as_json)
    if interrupted:
        where = "" if out is None else f" and kept in {out}"
        raise WorkInterruptedError(
            f"Interrupted: {len(results)} of {plural(len(claims), 'claim')} are done{where}."
        )
    if wrong := [one.id for one in results if not one.passed]:
        raise WorkFailedError(f"{len(wrong)} of {len(results)} claims failed: {', '.join(wrong)}.")

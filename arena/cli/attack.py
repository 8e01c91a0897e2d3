"""``attention-bounds attack``: attacks on an instance of learning with rounding, or on samples from files."""

from pathlib import Path
from typing import Annotated, Any

import typer

from arena.attacking import ATTACKS, attack
from arena.cli import WorkFailedError, WorkInterruptedError
from arena.cli.console import JsonOption, report, require_writable, say, write_json
from arena.cli.options import takes
from arena.samples import Problem
from lwe import AttackOutcome


@takes(attack, without=("isolated", "progress"), flags={"seconds": "--budget"})
def attack_command(
    file: Annotated[
        Path,
        typer.Argument(
            help="An instance of learning with rounding or a parity; samples as .npz or an LWE challenge; the "
            "matrix A, as .npy or as [[1 2][3 4]]; or the name of a set of parameters, such as toy-lpn."
        ),
    ],
    attacks: Annotated[
        str | None,
        typer.Option(
            help=f"Comma-separated among {', '.join(ATTACKS)}; by default all before newton, which learn layers."
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="Where to write the results as JSON, after every attack."),
    ] = None,
    *,
    problem: Problem,
    as_json: JsonOption = False,
    **settings: Any,
) -> None:
    """Attack learning with rounding, or with errors: a table of what each attack finds within its seconds.

    Broken: all labels are predicted; with errors, as many as the secret itself predicts. Predicts: more labels than by
    chance. False: a bound on the probability that random labels have a secret that fits so well, over all secrets;
    above 10^-4 nothing is called broken. Secret: whether it is the true one, or "found" if that is unknown. At the
    limit of its reach, the success of an attack depends on the secret and on --seed.

    Example: attention-bounds attack lwr.safetensors --budget 10

    Samples from files: attention-bounds attack LWE_40_005.txt --budget 300

    Matrices: attention-bounds attack A.npy --labels b.npy --q 3329 --Xe gaussian:3
    """
    if out is not None:
        require_writable(out, source=file)

    def keep(found: Any) -> None:
        if out is not None:
            write_json(out, found.to_json())

    found = attack(file, attacks, on_result=keep, progress=True, **problem.given, **settings)
    if as_json or found.results:
        report(found, {"file": str(file), **found.to_json()}, as_json)
    if out is not None and found.results:
        say(f"\n{out}", quiet=as_json)
    if found.not_run:
        done, rest = len(found.results), ", ".join(found.not_run)
        raise WorkInterruptedError(
            f"Interrupted: {done} of {done + len(found.not_run)} attacks were done. Not run to their end: {rest}."
        )
    if all(one.outcome is AttackOutcome.FAILED for one in found.results):
        raise WorkFailedError(f"All attacks failed; the first: {found.results[0].explanation}")

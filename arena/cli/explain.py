"""``attention-bounds explain``: the six phases one by one on a small target, for newcomers."""

from pathlib import Path
from typing import Annotated

import typer

from arena.cli.console import (
    JsonOption,
    SeedOption,
    print_json,
    require_counts,
    require_writable,
    say,
    showing_steps,
)
from arena.phases import LAYER_FILE, learn_phases
from arena.targets import load_target, nice_target

__all__ = ["explain_command"]


def explain_command(
    file: Annotated[
        Path | None,
        typer.Argument(help="A layer or instance to learn; by default a new nice layer."),
    ] = None,
    paper: Annotated[
        bool,
        typer.Option(
            "--paper/--practical",
            help="The paper's phases alone, or the practical variant: a consistent sum, and Newton at the end.",
        ),
    ] = True,
    heads: Annotated[
        int | None, typer.Option(help="Heads m of the layer (2); for a file, of the student.")
    ] = None,
    tokens: Annotated[int | None, typer.Option(help="Tokens k (2, or as in the file).")] = None,
    dim: Annotated[int | None, typer.Option(help="Coordinates d of a token (16); not for a file.")] = None,
    examples: Annotated[int | None, typer.Option(help="Budget in examples.")] = None,
    work: Annotated[
        int | None,
        typer.Option(help="Tuples of the net, or practical: passes over the examples of phase 6."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option("-o", "--out", help="A folder for the page, the figures and the layer.")
    ] = None,
    seed: SeedOption = 0,
    as_json: JsonOption = False,
) -> None:
    """Walk through the six phases of the learner: what each phase measured, and its distance from the truth.

    Example: attention-bounds explain --practical --heads 3 --dim 24
    """
    require_counts(heads=heads, tokens=tokens, dim=dim, examples=examples, work=work)
    if file is None:
        target = nice_target(heads=heads or 2, tokens=tokens or 2, dim=dim or 16, seed=seed)
    elif dim is None:
        target = load_target(file, tokens=tokens)
    else:
        raise ValueError("--dim is for a layer made on the spot: leave it out, a file has its own.")
    k, d = target.record.tokens, target.record.dim
    if not 1 < k < d:
        raise ValueError(f"There are k = {k} tokens in d = {d} coordinates: the six phases need 1 < k < d.")
    if out is not None:
        require_writable(out, directory=True)
        require_writable(out / LAYER_FILE, source=file)
    with showing_steps("The six phases") as tick:
        told = learn_phases(
            target,
            "six-phase-paper" if paper else "six-phase",
            seed=seed,
            preset="quick",
            examples=examples,
            work=work,
            heads=None if file is None else heads,
            progress=lambda step: tick(step.name),
        )
    print_json(told.to_json()) if as_json else say(str(told))
    if out is not None:
        told.save(out)
        say(f"\nThe page with the figures: {out / 'index.html'}", quiet=as_json)

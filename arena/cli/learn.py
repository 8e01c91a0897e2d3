"""``attention-bounds learn``: one learner on one file."""

import dataclasses
from pathlib import Path
from typing import Annotated, Any

import typer

from arena.cells import fit_target
from arena.cli.console import (
    JsonOption,
    SeedOption,
    WorkFailedError,
    print_json,
    progress_bar,
    require_writable,
    say,
)
from arena.cli.generate import InputsName
from arena.students import DoesNotApplyError, choose_effort, choose_students
from arena.targets import load_target
from attention import Fit, Learner
from attention.files import save_layer

__all__ = ["learn_command"]


def learn_command(
    file: Annotated[Path, typer.Argument(help="The layer or instance to learn.")],
    learner: Annotated[str, typer.Option(help="newton, adam, linear, known-part or elimination.")] = "newton",
    examples: Annotated[int | None, typer.Option(help="Budget in examples.")] = None,
    work: Annotated[
        int | None, typer.Option(help="Budget in passes over the examples (Adam: in steps).")
    ] = None,
    heads: Annotated[
        int | None,
        typer.Option(help="Heads of the student; by default the target's, 8 at most if it is hard."),
    ] = None,
    tokens: Annotated[int | None, typer.Option(help="Number k of tokens, instead of the file's.")] = None,
    inputs: Annotated[
        InputsName | None, typer.Option(help="Distribution of the tokens, instead of the file's.")
    ] = None,
    preset: Annotated[str, typer.Option(help="Effort: quick or full.")] = "full",
    out: Annotated[Path | None, typer.Option("-o", "--out", help="Where to write the fitted layer.")] = None,
    seed: SeedOption = 0,
    as_json: JsonOption = False,
) -> None:
    """Learn a layer from its examples and measure what was learned on fresh ones.

    Example: attention-bounds learn nice.safetensors --learner newton --seed 1 -o fitted.safetensors
    """
    students = choose_students(learner)
    if len(students) > 1:
        raise ValueError(f"{len(students)} learners are named: learn runs one; compare runs several.")
    student = students[0]
    effort = choose_effort(preset)
    target = load_target(file, tokens=tokens, inputs=inputs)
    if out is not None:
        if not student.proper:
            raise ValueError(
                f"{student.title} fits no attention layer: leave out --out, or choose another learner."
            )
        require_writable(out)
    try:
        learner_set_up: Any = student.build(target, effort)
    except DoesNotApplyError as error:
        raise ValueError(f"{error} {file} holds something else.") from None
    learner_set_up = _changed(learner_set_up, {"examples": examples, "work": work, "m": heads}, student.title)

    with progress_bar(student.title, None, quiet=as_json) as tick:
        fit, measures = fit_target(
            target, learner_set_up, seed, extra=student.extra, progress=lambda step: tick(step.name)
        )
    saved = None
    if out is not None and fit.layer is not None:
        made = {
            "generator": f"learn {student.name}",
            "target": file.name,
            "seed": seed,
            "outcome": fit.outcome.name,
        }
        save_layer(out, fit.layer, inputs=target.inputs, made=made)
        saved = out
    if as_json:
        print_json(_as_json(file, student.name, seed, fit, measures, saved))
    else:
        _describe(target.record.title, student.title, fit, measures, saved)
    if out is not None and saved is None:
        raise WorkFailedError(f"{out} was not written: {student.title} ended without a layer.")


def _changed(learner: Learner, changes: dict[str, int | None], title: str) -> Learner:
    names = {field.name for field in dataclasses.fields(learner)}  # type: ignore[arg-type]
    wanted = {name: value for name, value in changes.items() if value is not None}
    for name in wanted.keys() - names:
        option = {"m": "--heads"}.get(name, f"--{name}")
        raise ValueError(f"{title} has no use for {option}: leave it out.")
    return dataclasses.replace(learner, **wanted)  # type: ignore[type-var]


def _as_json(
    file: Path, learner: str, seed: int, fit: Fit, measures: dict[str, float], out: Path | None
) -> dict[str, Any]:
    return {
        "file": str(file),
        "learner": learner,
        "seed": seed,
        "outcome": fit.outcome.name,
        "outcome_text": str(fit.outcome),
        "succeeded": fit.outcome.succeeded,
        "relative_error": measures["relative_error"],
        "unknown_part_error": measures["unknown_part_error"],
        "theta_error": measures.get("theta_error"),
        "w_error": measures.get("w_error"),
        "examples_used": fit.examples_used,
        "seconds": fit.seconds,
        "fitted": None if out is None else str(out),
        "trace": [dataclasses.asdict(step) for step in fit.trace],
    }


def _describe(target: str, learner: str, fit: Fit, measures: dict[str, float], out: Path | None) -> None:
    say(f"{learner} on: {target}")
    say(f"  {fit.outcome}")
    rows = {
        "relative error": measures["relative_error"],
        "error on the unknown part": measures["unknown_part_error"],
        "worst head's error in Theta": measures.get("theta_error"),
        "worst head's error in W": measures.get("w_error"),
    }
    for name, value in rows.items():
        if value is not None:
            say(f"  {name:<28} {value:.3g}")
    say(f"  {'examples used':<28} {fit.examples_used}\n  {'seconds':<28} {fit.seconds:.2f}")
    if out is not None:
        say(f"  {'fitted layer':<28} {out}")

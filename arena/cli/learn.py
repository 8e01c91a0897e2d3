"""``attention-bounds learn``: one learner on one file."""

from pathlib import Path
from typing import Annotated, Any

import typer

from arena.cli.console import (
    DeviceOption,
    EngineOption,
    JsonOption,
    SeedOption,
    WorkFailedError,
    print_json,
    progress_bar,
    require_writable,
    say,
)
from arena.cli.generate import InputsName
from arena.engines import asked_settings, require_engine
from arena.learned import Learned, UnusedSettingError, learn
from arena.phases import LAYER_FILE, LearnedPhases, is_six_phase, learn_phases
from arena.students import STUDENTS, DoesNotApplyError, choose_effort, choose_students
from arena.targets import load_target

__all__ = ["learn_command"]


def learn_command(
    file: Annotated[Path, typer.Argument(help="The layer or instance to learn.")],
    learner: Annotated[
        str,
        typer.Option(help=f"One of {', '.join(STUDENTS)}."),
    ] = "newton",
    examples: Annotated[int | None, typer.Option(help="Budget in examples.")] = None,
    work: Annotated[
        int | None,
        typer.Option(
            help="Budget in passes over the examples (Adam: in steps; six-phase-paper: in tuples of its net)."
        ),
    ] = None,
    heads: Annotated[
        str | None,
        typer.Option(
            metavar="NUMBER|auto",
            help="Heads of the student; by default the target's, 8 at most if it is hard. With auto, newton finds out.",
        ),
    ] = None,
    rank: Annotated[
        int | None,
        typer.Option(
            help="Rank of every head, where it is known, for newton: fewer examples are needed then."
        ),
    ] = None,
    tokens: Annotated[int | None, typer.Option(help="Number k of tokens, instead of the file's.")] = None,
    inputs: Annotated[
        InputsName | None, typer.Option(help="Distribution of the tokens, instead of the file's.")
    ] = None,
    engine: EngineOption = None,
    device: DeviceOption = None,
    preset: Annotated[str, typer.Option(help="Effort: quick or full.")] = "full",
    out: Annotated[
        Path | None,
        typer.Option(
            "-o",
            "--out",
            help="Where to write the fitted layer; of a six-phase learner, without .safetensors at its end, a folder "
            "for the layer, the result, a figure per phase and a page.",
        ),
    ] = None,
    seed: SeedOption = 0,
    as_json: JsonOption = False,
) -> None:
    """Learn a layer from its examples and measure what was learned on fresh ones.

    Example: attention-bounds learn nice.safetensors --learner newton --seed 1 -o fitted.safetensors

    With a figure per phase: attention-bounds learn nice.safetensors --learner six-phase --out phases
    """
    students = choose_students(learner)
    if len(students) > 1:
        raise ValueError(f"{len(students)} learners are named: learn runs one; compare runs several.")
    student = students[0]
    number = _number_of_heads(heads)
    choose_effort(preset)  # what is wrong in the command is said before the file is read
    require_engine(engine, device)
    target = load_target(file, tokens=tokens, inputs=inputs)
    in_phases = is_six_phase(student)
    folder = out if out is not None and in_phases and out.suffix != ".safetensors" else None
    if out is not None:
        if not student.proper:
            raise ValueError(
                f"{student.title} fits no attention layer: leave out --out, or choose another learner."
            )
        if folder is not None:
            require_writable(folder, directory=True)
        require_writable(out if folder is None else folder / LAYER_FILE, source=file)
    settings: dict[str, Any] = {"examples": examples, "work": work, "heads": number}
    asked = asked_settings(engine, device)
    if in_phases and asked:
        raise ValueError(f"{student.title} has no use for --{next(iter(asked))}: leave it out.")
    settings |= asked
    if not in_phases:
        settings["rank"] = rank
    elif rank is not None:
        raise ValueError(f"{student.title} has no use for --rank: leave it out.")
    told: Learned | LearnedPhases
    try:
        with progress_bar(student.title, None, quiet=as_json) as tick:
            told = (learn_phases if in_phases else learn)(
                target,
                student,
                seed=seed,
                preset=preset,
                progress=lambda step: tick(step.name),
                **settings,
            )
    except DoesNotApplyError as error:
        raise ValueError(f"{error} {file} holds something else.") from None
    except UnusedSettingError as error:
        raise ValueError(f"{error.title} has no use for --{error.setting}: leave it out.") from None
    except RuntimeError as error:
        if device is None:
            raise
        # the library's own words: most often that its memory is full
        raise WorkFailedError(f"The work on {device} failed: {error}") from None
    learned = told.learned if isinstance(told, LearnedPhases) else told
    saved = None
    if out is not None and learned.layer is not None:
        saved = learned.save(out) if folder is None else folder / LAYER_FILE
    result = {"file": str(file), **told.to_json(), "fitted": None if saved is None else str(saved)}
    if folder is not None and isinstance(told, LearnedPhases):
        told.save(folder, result=result)
    if as_json:
        print_json(result)
    else:
        say(str(learned))
        if isinstance(told, LearnedPhases):
            say(f"  {told.phases.explanation}")
        if saved is not None:
            say(f"  {'fitted layer':<28} {saved}")
        if folder is not None:
            say(f"  {'the six phases':<28} {folder / 'index.html'}")
    if out is not None and saved is None:
        raise WorkFailedError(f"{out} was not written: {student.title} ended without a layer.")


def _number_of_heads(heads: str | None) -> int | str | None:
    if heads is None or heads == "auto":
        return heads
    try:
        return int(heads)
    except ValueError:
        raise ValueError(f"--heads is {heads!r}: a number, or auto, is needed.") from None

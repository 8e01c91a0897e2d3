"""``attention-bounds learn``: one learner on one file, or on given examples."""

from pathlib import Path
from typing import Annotated, Any

import typer

from arena.cli.console import (
    DeviceOption,
    EngineOption,
    JsonOption,
    SeedOption,
    WorkFailedError,
    WorkInterruptedError,
    print_json,
    progress_bar,
    require_counts,
    require_layer_file,
    require_writable,
    say,
)
from arena.cli.generate import InputsName
from arena.engines import asked_settings, require_known_engine
from arena.given_examples import LearnedExamples, learn_examples
from arena.learned import Learned, UnusedSettingError, learn
from arena.phases import LAYER_FILE, LearnedPhases, is_six_phase, learn_phases
from arena.students import STUDENTS, DoesNotApplyError, Student, choose_effort, choose_students
from arena.targets import Target, load_target
from attention import Step, save_layer
from attention._containers import tensor_names
from attention.errors import FileFormatError
from attention.validation import non_negative

__all__ = ["learn_command"]

_FROM_EXAMPLES = "--examples-from X.npy Y.npy --heads NUMBER"


def learn_command(
    files: Annotated[
        list[Path] | None, typer.Argument(metavar="FILE", help="The layer or instance to learn.")
    ] = None,
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
    noise: Annotated[
        float,
        typer.Option(help="Standard deviation of Gaussian noise that is added to every entry of the labels."),
    ] = 0.0,
    examples_from: Annotated[
        tuple[Path, Path] | None,
        typer.Option(
            metavar="X Y",
            help="Instead of a layer: examples, the token matrices (n, k, d) and their labels, as .npy or safetensors "
            "files. What was learned is then measured on a twentieth of them, held out.",
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

    From examples of one's own: attention-bounds learn --examples-from X.npy Y.npy --heads 2
    """
    students = choose_students(learner)
    if len(students) > 1:
        raise ValueError(f"{len(students)} learners are named: learn runs one; compare runs several.")
    student = students[0]
    # what is wrong in the command is said before a file is read
    number = _number_of_heads(heads)
    require_counts(examples=examples, work=work, rank=rank, tokens=tokens)
    noise = non_negative("--noise", noise)
    choose_effort(preset)
    require_known_engine(engine, device)
    file, more = (files[0], files[1:]) if files else (None, [])
    given = _given_examples(file, examples_from, [str(one) for one in more])
    drawn = {"--tokens": tokens, "--inputs": inputs, "--noise": noise or None}
    for option, value in drawn.items():
        if given is not None and value is not None:
            raise ValueError(
                f"{option} is for examples that are drawn: leave it out, given ones are as they are."
            )
    target = load_target(file, tokens=tokens, inputs=inputs) if file is not None and given is None else None
    in_phases = is_six_phase(student) and given is None
    folder = out if out is not None and in_phases and out.suffix != ".safetensors" else None
    if out is not None:
        for source in given or (file,):
            _require_out(out, folder, student, source)
    settings: dict[str, Any] = {"examples": examples, "work": work, "heads": number, "rank": rank}
    asked = asked_settings(engine, device)
    if is_six_phase(student) and (asked or rank is not None):
        raise ValueError(f"{student.title} has no use for --{next(iter(asked), 'rank')}: leave it out.")
    if in_phases:
        del settings["rank"]
    settings |= asked | {"seed": seed, "preset": preset}
    told: Learned | LearnedPhases | LearnedExamples
    steps: list[Step] = []  # the latest, and before it the latest with a layer
    try:
        with progress_bar(student.title, None, quiet=as_json) as tick:

            def keep(step: Step) -> None:
                steps[:] = [*[one for one in steps if one.layer is not None and step.layer is None][:1], step]
                tick(step.name)

            settings["progress"] = keep
            if target is not None:
                told = (learn_phases if in_phases else learn)(target, student, noise=noise, **settings)
            else:
                told = learn_examples(given or (), student, **settings)
    except KeyboardInterrupt:
        saved = None if out is None else out if folder is None else folder / LAYER_FILE
        raise _interrupted(student, steps, saved, target, seed) from None
    except DoesNotApplyError as error:
        raise ValueError(
            f"{error} {file} holds something else."
            if given is None
            else f"{error} Of given examples none is known."
        ) from None
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
    result = {
        "file": None if file is None else str(file),
        **told.to_json(),
        "fitted": None if saved is None else str(saved),
    }
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


def _interrupted(
    student: Student, steps: list[Step], out: Path | None, target: Target | None, seed: int
) -> WorkInterruptedError:
    """How far a fit came that was interrupted; the layer it had by then is written where one was to be."""
    if not steps:
        return WorkInterruptedError(f"Interrupted: {student.title} had no step done; nothing is kept.")
    last, layer = steps[-1], next((one.layer for one in steps[::-1] if one.layer is not None), None)
    error = last.measures.get("relative_error")
    reached = "" if error is None else f", with relative error {error:.3g}"
    said = f'Interrupted: {student.title} had done "{last.name}" in {last.seconds:.2f} seconds{reached}'
    if out is None or layer is None:
        return WorkInterruptedError(
            f"{said}; {'nothing' if out is None else 'no layer yet, so nothing'} is written."
        )
    made: dict[str, Any] = {"generator": f"learn {student.name}", "seed": seed, "outcome": "INTERRUPTED"}
    if target is not None:
        made["target"] = target.name
    save_layer(out, layer, inputs=None if target is None else target.inputs, made=made)
    return WorkInterruptedError(f"{said}; its layer as it was then is in {out}.")


def _number_of_heads(heads: str | None) -> int | str | None:
    if heads is None or heads == "auto":
        return heads
    try:
        number = int(heads)
    except ValueError:
        raise ValueError(f"--heads is {heads!r}: a number, or auto, is needed.") from None
    require_counts(heads=number)
    return number


def _given_examples(
    file: Path | None, examples: tuple[Path, Path] | None, more: list[str]
) -> tuple[Path, ...] | None:
    """The files of examples, if they are what to learn from; arrays are told how they are given."""
    if examples is not None and examples[1].name.startswith("--"):
        raise ValueError(
            f"--examples-from is followed by {examples[0]} alone: two files are needed, the tokens' and the labels'; "
            "one that holds both, as x and y, is given in place of a layer."
        )
    if file is None:
        if examples is None:
            raise ValueError(f"Missing argument: the file of a layer or instance, or {_FROM_EXAMPLES}.")
        return examples
    if examples is not None:
        raise ValueError(f"{file} and --examples-from are two things to learn from: leave one out.")
    if file.suffix == ".npy":
        how = _FROM_EXAMPLES.replace("X.npy", str(file))
        raise ValueError(
            f"{file} holds an array and no layer: examples are given as "
            f"{how.replace('Y.npy', more[0]) if len(more) == 1 else how}."
        )
    if more:
        raise ValueError(
            f"Got unexpected extra argument ({' '.join(more)}): learn takes one file, or {_FROM_EXAMPLES}."
        )
    return (file,) if _holds_examples(file) else None


def _holds_examples(file: Path) -> bool:
    try:
        names = set(tensor_names(file))
    except FileFormatError:
        return False  # which reading it says in a sentence
    return {"x", "y"} <= names and "theta" not in names


def _require_out(out: Path, folder: Path | None, student: Student, source: Path | None) -> None:
    if not student.proper:
        raise ValueError(
            f"{student.title} fits no attention layer: leave out --out, or choose another learner."
        )
    if folder is not None:
        require_writable(folder, directory=True)
    else:
        require_layer_file(out)
    require_writable(out if folder is None else folder / LAYER_FILE, source=source)

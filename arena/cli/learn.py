"""``attention-bounds learn``: one learner on one file, or on given examples."""

import zipfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import typer

from arena.asking import learn_function
from arena.cli.console import (
    DeviceOption,
    EngineOption,
    InputsOption,
    JsonOption,
    SeedOption,
    TokensOption,
    print_json,
    require_counts,
    require_layer_file,
    require_writable,
    say,
    showing_steps,
)
from arena.cli.errors import WorkFailedError, WorkInterruptedError
from arena.engines import require_known_engine
from arena.given_examples import learn_examples
from arena.learners import LEARNERS, DoesNotApplyError, LearnerEntry, choose_budgets, choose_learners
from arena.learning import UnusedSettingError, learn
from arena.targets import Target, load_target
from arena.views.phases import LAYER_FILE, phase_table, save_phases
from attention import FileFormatError, Step, save_layer
from attention.files import tensor_types
from attention.validation import NonNegativeFloat, check
from upper import ByQueries

__all__ = ["given_examples", "learn_command", "number_of_heads"]


def learn_command(
    file: Annotated[
        Path | None,
        typer.Argument(help="The layer or instance to learn, or a file of x and y (.npz or safetensors)."),
    ] = None,
    learner: Annotated[
        str | None,
        typer.Option(help=f"One of {', '.join(LEARNERS)}. The default is newton, and by-queries with --ask."),
    ] = None,
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
            help="Heads to fit; by default the target's, 8 at most if it is hard. With auto, newton finds out.",
        ),
    ] = None,
    rank: Annotated[
        int | None,
        typer.Option(help="Rank of every head, if known, for newton: it then needs fewer examples."),
    ] = None,
    biases: Annotated[
        bool | None,
        typer.Option(
            help="Whether newton learns biases too; by default where the target has some, or the examples need them."
        ),
    ] = None,
    causal: Annotated[
        bool | None,
        typer.Option(
            help="Whether newton learns a causal layer; by default where the target is one, or the examples show it."
        ),
    ] = None,
    noise: Annotated[
        float | None,
        typer.Option(
            help="Standard deviation of Gaussian noise that is added to every entry of the labels. With --ask: of the "
            "noise that the answers have; by default it is found."
        ),
    ] = None,
    examples_from: Annotated[
        tuple[Path, Path] | None,
        typer.Option(
            metavar="X Y",
            help="Instead of a layer: examples, the token matrices (n, k, d) and their labels, as .npy, .npz or "
            "safetensors files; a file of both is the argument. The error is measured on a held-out twentieth of them.",
        ),
    ] = None,
    ask: Annotated[
        str | None,
        typer.Option(
            metavar="FILE.py:NAME",
            help="Instead of a layer: a function of yours, of a token matrix (k, d) or of several (n, k, d), or a "
            "torch module. It is asked at inputs of the learner's choice; --tokens and --dim say the shape.",
        ),
    ] = None,
    tokens: TokensOption = None,
    dim: Annotated[int | None, typer.Option(help="With --ask: coordinates d of a token.")] = None,
    accuracy: Annotated[
        float | None,
        typer.Option(
            help="For by-queries: the relative rounding unit of the answers, such as 6e-8 for float32; by default it "
            "is found."
        ),
    ] = None,
    inputs: InputsOption = None,
    engine: EngineOption = None,
    device: DeviceOption = None,
    preset: Annotated[str, typer.Option(help="Budgets: quick or full.")] = "full",
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
    """Learn a layer from its examples and measure the error on fresh ones.

    Example: attention-bounds learn nice.safetensors --learner newton --seed 1 -o fitted.safetensors

    With a figure per phase: attention-bounds learn nice.safetensors --learner six-phase --out phases

    From your own examples: attention-bounds learn --examples-from X.npy Y.npy --heads 2

    A function of your own: attention-bounds learn --ask FILE.py:function --tokens 4 --dim 24
    """
    # report errors in the command before reading a file
    if ask is not None:
        if file is not None or examples_from is not None:
            other = "--examples-from" if file is None else file
            raise ValueError(f"--ask and {other} are two things to learn from: leave one out.")
        unused: dict[str, Any] = {"--work": work, "--rank": rank, "--biases": biases, "--causal": causal}
        unused |= {"--inputs": inputs, "--engine": engine, "--device": device}
        if unfit := [option for option, value in unused.items() if value is not None]:
            raise ValueError(f"{unfit[0]} is not for --ask: leave it out.")
        _learn_function(ask, learner, tokens, dim, heads, examples, noise, accuracy, out, seed, as_json)
        return
    if dim is not None:
        raise ValueError("--dim is for --ask: a layer or examples have their own.")
    learner, noise = learner or "newton", noise or 0.0
    entry, *others = choose_learners(learner)
    if others:
        raise ValueError(f"{len(others) + 1} learners are named: learn runs one; compare runs several.")
    require_counts(examples=examples, work=work, rank=rank, tokens=tokens)
    choose_budgets(preset)
    require_known_engine(engine, device)
    settings: dict[str, Any] = {"examples": examples, "work": work, "heads": number_of_heads(heads)}
    settings |= {
        "rank": rank,
        "biases": biases,
        "causal": causal,
        "accuracy": accuracy,
        "engine": engine,
        "device": device,
        "preset": preset,
        "seed": seed,
    }
    given = given_examples(file, examples_from)
    target = None
    if given:
        for option, value in {"--tokens": tokens, "--inputs": inputs, "--noise": noise or None}.items():
            if value is not None:
                raise ValueError(
                    f"{option} is for examples that are drawn: leave it out, given ones are as they are."
                )
    else:
        settings["noise"] = check("--noise", noise, NonNegativeFloat)
        target = load_target(file or "", tokens=tokens, inputs=inputs)
    saved, folder = out, None
    if out is not None:
        in_phases = target is not None and entry.name in ("six-phase", "six-phase-paper")
        folder = out if in_phases and out.suffix != ".safetensors" else None
        saved = out if folder is None else folder / LAYER_FILE
        for source in given or (file,):
            _require_out(saved, folder, entry, source)
    with showing_steps(entry.title) as tick:
        latest = _Latest(tick)
        try:
            if target is None:
                learned = learn_examples(given, entry, progress=latest.keep, **settings)
            else:
                learned = learn(target, entry, progress=latest.keep, **settings)
        except KeyboardInterrupt:
            raise latest.interrupted(entry, saved, target, seed) from None
        except DoesNotApplyError as error:
            where = " The examples here are of something else." if target is None else ""
            raise ValueError(f"{error}{where}") from None
        except UnusedSettingError as error:
            raise ValueError(f"{error.title} has no use for --{error.setting}: leave it out.") from None
        except RuntimeError as error:
            if device is None:
                raise
            # the library's own message, most often about full memory
            raise WorkFailedError(f"The work on {device} failed: {error}") from None
    if learned.layer is None:
        saved = None
    result = {"file": file and str(file), **learned.to_json(), "fitted": saved and str(saved)}
    # first, because a file may not be written in the end
    if as_json:
        print_json(result)
    else:
        say(str(learned))
        if folder is not None:
            say(f"\n{phase_table(learned.fit)}\n")
    if target is not None and folder is not None:
        save_phases(learned, target, folder, result=result)
    elif saved is not None:
        learned.save(saved)
    if saved is not None:
        say(f"  {'fitted layer':<28} {saved}", quiet=as_json)
    if folder is not None:
        say(f"  {'the six phases':<28} {folder / 'index.html'}", quiet=as_json)
    if out is not None and saved is None:
        raise WorkFailedError(f"{out} was not written: {entry.title} ended without a layer.")


def _learn_function(
    ask: str,
    learner: str | None,
    tokens: int | None,
    dim: int | None,
    heads: str | None,
    examples: int | None,
    noise: float | None,
    accuracy: float | None,
    out: Path | None,
    seed: int,
    as_json: bool,
) -> None:
    entry = LEARNERS["by-queries"]
    if learner is not None and choose_learners(learner) != [entry]:
        raise ValueError(
            f"--learner is {learner!r}: a function is asked by by-queries, the default with --ask."
        )
    if tokens is None or dim is None:
        raise ValueError("--ask needs --tokens and --dim, the shape of what the function takes.")
    require_counts(examples=examples, tokens=tokens, dim=dim)
    if out is not None:
        _require_out(out, None, entry, None)
    wanted: Any = number_of_heads(heads) or "auto"
    by_queries = ByQueries(heads=wanted, examples=examples, noise=noise, accuracy=accuracy)
    with showing_steps(entry.title) as tick:
        learned = learn_function(
            ask,
            tokens=tokens,
            dim=dim,
            learner=by_queries,
            seed=seed,
            progress=lambda step: tick(step.title),
        )
    saved = out if learned.layer is not None else None
    if as_json:
        print_json({**learned.to_json(), "fitted": saved and str(saved)})
    else:
        say(str(learned))
    if saved is not None:
        learned.save(saved)
        say(f"  {'fitted layer':<28} {saved}", quiet=as_json)
    elif out is not None:
        raise WorkFailedError(f"{out} was not written: {entry.title} ended without a layer.")


@dataclass
class _Latest:
    """The progress of a fit: its latest step and its latest layer."""

    tick: Callable[[str], None]
    step: Step | None = field(default=None, init=False)
    with_layer: Step | None = field(default=None, init=False)

    def keep(self, step: Step) -> None:
        self.step = step
        if step.layer is not None:
            self.with_layer = step
        self.tick(step.title)

    def interrupted(
        self, entry: LearnerEntry, out: Path | None, target: Target | None, seed: int
    ) -> WorkInterruptedError:
        """The report of an interrupted fit; if an output file was requested, the latest layer is written to it."""
        if self.step is None:
            return WorkInterruptedError(f"Interrupted: {entry.title} had no step done; nothing is written.")
        done = f'Interrupted: {entry.title} had done "{self.step.title}" in {self.step.seconds:.2f} seconds'
        if out is None or self.with_layer is None or self.with_layer.layer is None:
            return WorkInterruptedError(f"{done}; nothing is written.")
        made: dict[str, Any] = {"generator": f"learn {entry.name}", "seed": seed, "outcome": "INTERRUPTED"}
        if target is not None:
            made["target"] = target.name
        save_layer(out, self.with_layer.layer, inputs=None if target is None else target.inputs, made=made)
        error = self.with_layer.measures.get("relative_error")
        reached = "" if error is None else f" of relative error {error:.3g}"
        return WorkInterruptedError(f"{done}; its layer{reached} is in {out}.")


def number_of_heads(heads: str | None) -> int | str | None:
    """What --heads says: a number, "auto" or nothing."""
    if heads is None or heads == "auto":
        return heads
    try:
        number = int(heads)
    except ValueError:
        raise ValueError(f"--heads is {heads!r}: a number, or auto, is needed.") from None
    require_counts(heads=number)
    return number


def given_examples(file: Path | None, examples: tuple[Path, Path] | None) -> tuple[Path, ...]:
    """The files of examples, if the command gives examples."""
    if examples is not None and str(examples[1]).startswith("-"):
        raise ValueError(
            f"--examples-from {examples[0]} has one file: two are needed. One file with x and y is learned by "
            f"attention-bounds learn {examples[0]}."
        )
    if file is None:
        if examples is None:
            raise ValueError(
                "Missing argument: the file of a layer or instance, or of examples x and y, or --examples-from X.npy "
                "Y.npy."
            )
        return examples
    if examples is not None:
        raise ValueError(f"{file} and --examples-from are two things to learn from: leave one out.")
    if file.suffix == ".npy":
        raise ValueError(f"{file} holds an array and no layer: give examples as --examples-from X.npy Y.npy.")
    if file.suffix.lower() == ".npz":
        if zipfile.is_zipfile(file):  # reading another file later gives the error
            with zipfile.ZipFile(file) as archive:
                names = set(archive.namelist())
            if "b.npy" in names and "x.npy" not in names:
                raise ValueError(
                    f"{file} holds samples, not examples of a layer: give it to attention-bounds attack."
                )
        return (file,)
    try:
        names = set(tensor_types(file))
    except FileFormatError:
        return ()  # reading the file later gives the error
    return (file,) if {"x", "y"} <= names and "theta" not in names else ()


def _require_out(saved: Path | None, folder: Path | None, entry: LearnerEntry, source: Path | None) -> None:
    if not entry.proper:
        raise ValueError(
            f"{entry.title} fits no attention layer: leave out --out, or choose another learner."
        )
    if folder is not None:
        require_writable(folder, directory=True)
    elif saved is not None:
        require_layer_file(saved)
    if saved is not None:
        require_writable(saved, source=source)

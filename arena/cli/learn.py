"""``attention-bounds learn``: one learner on one file, on given examples, or on a function that is asked."""

from pathlib import Path
from typing import Annotated, Any

import typer

from arena.cli import WorkFailedError, WorkInterruptedError
from arena.cli.console import JsonOption, Progress, report, require_writable, say, showing_progress
from arena.cli.options import takes
from arena.learner_table import LEARNERS, LearnerEntry
from arena.learners import one_learner
from arena.learning import LearnerSettings, learn, open_source, usual_learner
from arena.target import Target
from arena.views.phases import LAYER_FILE, phase_table, save_phases
from attention import save_layer


@takes(learn)
def learn_command(
    file: Annotated[
        Path | None,
        typer.Argument(help="The layer or instance to learn, or a file of x and y (.npz or safetensors)."),
    ] = None,
    learner: Annotated[
        str | None,
        typer.Option(
            help=f"One of {', '.join(LEARNERS)}. The default is newton; by-queries with --ask, and "
            "rotary for a layer with rotary positions."
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
    out: Annotated[
        Path | None,
        typer.Option(
            "-o",
            "--out",
            help="Where to write the fitted layer; of a six-phase learner, without .safetensors at its end, a folder "
            "for the layer, the result, two figures and a page.",
        ),
    ] = None,
    *,
    settings: LearnerSettings,
    as_json: JsonOption = False,
    **options: Any,
) -> None:
    """Learn a layer from its examples and measure the error on fresh ones.

    Example: attention-bounds learn nice.safetensors --learner newton --seed 1 -o fitted.safetensors

    With a page of the phases: attention-bounds learn nice.safetensors --learner six-phase --out phases

    From your own examples: attention-bounds learn --examples-from X.npy Y.npy --heads 2

    A function of your own: attention-bounds learn --ask FILE.py:function --tokens 4 --dim 24
    """
    sources = {"the file": file, "--examples-from": examples_from, "--ask": ask}
    given = {name: source for name, source in sources.items() if source is not None}
    if len(given) > 1:
        raise ValueError(f"{' and '.join(given)} are two things to learn from: leave one out.")
    if not given:
        raise ValueError(
            "Missing argument: the file of a layer or instance, or of examples x and y, or --examples-from X.npy Y.npy."
        )
    if ask is not None and ".py:" not in ask:
        raise ValueError(f"The function to ask is {ask!r}: FILE.py:NAME is needed.")
    if examples_from is not None and str(examples_from[1]).startswith("-"):
        raise ValueError(
            f"--examples-from {examples_from[0]} has one file: two are needed, or one as the argument."
        )
    reading = {name: options.pop(name) for name in ("tokens", "dim", "inputs")}
    source = open_source(next(iter(given.values())), **reading)
    entry = one_learner(learner or usual_learner(source))
    target = source if isinstance(source, Target) else None
    in_phases = target is not None and entry.name in ("six-phase", "six-phase-paper")
    folder = out if out is not None and in_phases and out.suffix != ".safetensors" else None
    saved = out if folder is None else folder / LAYER_FILE
    if saved is not None:
        if not entry.proper:
            raise ValueError(
                f"{entry.title} fits no attention layer: leave out --out, or choose another learner."
            )
        if folder is not None:
            require_writable(folder, directory=True)
        for path in (file, *(examples_from or ())):
            require_writable(saved, source=path, layer=True)
    with showing_progress(entry.title) as progress:
        try:
            named = entry if learner else None
            learned = learn(source, named, progress=progress.record, **settings.given, **options)
        except KeyboardInterrupt:
            raise _interrupted(progress, entry, saved, target, options["seed"]) from None
        except RuntimeError as error:
            if (device := settings.device) is None:
                raise
            # the library's own message, most often about full memory
            raise WorkFailedError(f"The work on {device} failed: {error}") from None
    if learned.layer is None:
        saved = None
    result = {"file": file and str(file), **learned.to_json(), "fitted": saved and str(saved)}
    report(learned, result, as_json)  # first, because a file may not be written in the end
    if folder is not None:
        say(f"\n{phase_table(learned.fit)}\n", quiet=as_json)
        save_phases(learned, folder, result=result)
        say(f"  {'the six phases':<28} {folder / 'index.html'}", quiet=as_json)
    elif saved is not None:
        learned.save(saved)
    if saved is not None:
        say(f"  {'fitted layer':<28} {saved}", quiet=as_json)
    elif out is not None:
        raise WorkFailedError(f"{out} was not written: {entry.title} ended without a layer.")


def _interrupted(
    progress: Progress, entry: LearnerEntry, out: Path | None, target: Target | None, seed: int
) -> WorkInterruptedError:
    """The report of an interrupted fit; if an output file was requested, the latest layer is written to it."""
    latest, best = progress.latest, progress.with_layer
    if latest is None:
        return WorkInterruptedError(f"Interrupted: {entry.title} had no step done; nothing is written.")
    done = f'Interrupted: {entry.title} had done "{latest.title}" in {latest.seconds:.2f} seconds'
    if out is None or best is None or best.layer is None:
        return WorkInterruptedError(f"{done}; nothing is written.")
    made: dict[str, Any] = {"generator": f"learn {entry.name}", "seed": seed, "outcome": "INTERRUPTED"}
    made |= {} if target is None else {"target": target.name}
    save_layer(out, best.layer, inputs=None if target is None else target.inputs, made=made)
    error = best.measures.get("relative_error")
    reached = "" if error is None else f" of relative error {error:.3g}"
    return WorkInterruptedError(f"{done}; its layer{reached} is in {out}.")

"""``attention-bounds linear``: learn linear attention exactly, certify it, and run the studies of it."""

from pathlib import Path
from typing import Annotated, Any

import typer

from arena.cli.console import (
    FolderOption,
    JsonOption,
    RunOptions,
    SeedOption,
    report,
    require_writable,
    say,
    showing_progress,
    write_json,
)
from arena.cli.options import takes
from arena.cli.study import measure_studies
from arena.formats import plural
from arena.linear import certify_linear, learn_linear
from runs import Scale
from studies import find_studies
from upper.linear_attention import save_linear_attention

linear_app = typer.Typer(
    help=(
        "Linear attention: learned exactly by regression, certified, and the experiments on it.\n\n"
        "Example: attention-bounds linear learn --dim 8 --heads 4 --out learned"
    ),
    rich_markup_mode=None,
)


@linear_app.command("learn")
@takes(learn_linear)
def linear_learn_command(
    file: Annotated[
        Path | None,
        typer.Argument(help="A model of linear attention to learn; by default a random model."),
    ] = None,
    examples_from: Annotated[
        tuple[Path, Path] | None,
        typer.Option(
            metavar="X Y",
            help="Instead of a model: examples, the tokens (N, n, d) and the labels (N, p), as .npy or safetensors "
            "files. A tenth is held out.",
        ),
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Folder for the result and the model.")
    ] = None,
    as_json: JsonOption = False,
    **settings: Any,
) -> None:
    """Learn linear attention from examples by regression; report what they determine, and find its heads.

    Example: attention-bounds linear learn --dim 8 --heads 4 --out learned

    From your own examples: attention-bounds linear learn --examples-from X.npy Y.npy
    """
    if file is not None and examples_from is not None:
        raise ValueError(f"{file} and --examples-from are two things to learn from: leave one out.")
    if out is not None:
        require_writable(out, directory=True)
    with showing_progress("Linear attention"):
        learned = learn_linear(examples_from or file, **settings)
    report(learned, learned.to_json(), as_json)
    if out is not None:
        path, model = out / "model.safetensors", learned.fit.details.model
        write_json(out / "learned.json", learned.to_json())
        save_linear_attention(path, model, made={"generator": "linear learn", "seed": learned.seed})
        say(f"written: {out / 'learned.json'}\nmodel: {path}, {plural(model.heads, 'head')}", quiet=as_json)


@linear_app.command("certify")
@takes(certify_linear)
def linear_certify_command(as_json: JsonOption = False, **settings: Any) -> None:
    """Decide whether examples determine linear attention on a domain, and how much errors may grow there.

    Example: attention-bounds linear certify --data boolean --domain gaussian --dim 4

    With your own tokens: attention-bounds linear certify --data X.npy --domain gaussian --dim 4
    """
    with showing_progress("Certificate"):
        certified = certify_linear(**settings)
    report(certified, certified.to_json(), as_json)


@linear_app.command("experiment")
@takes()
def linear_experiment_command(
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="A study of linear attention: learning or tasks.")
    ],
    out: FolderOption = Path("results/studies"),
    quick: Annotated[bool, typer.Option("--quick", help="Smaller sizes and fewer repetitions.")] = False,
    *,
    run: RunOptions,
    seed: SeedOption = 0,
    as_json: JsonOption = False,
) -> None:
    """Run a study of linear attention: ``study linear-NAME`` at full scale.

    Example: attention-bounds linear experiment tasks --out results/studies
    """
    scale, studies = Scale.QUICK if quick else Scale.FULL, find_studies([f"linear-{name}"])
    measure_studies(studies, scale=scale, out=out, run=run, seed=seed, as_json=as_json)

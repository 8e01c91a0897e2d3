"""``attention-bounds linear``: learn linear attention exactly, and certify it."""

from pathlib import Path
from typing import Annotated, Any

import typer

from arena.cli.console import (
    JsonOption,
    report,
    require_writable,
    say,
    showing_progress,
    write_json,
)
from arena.cli.options import takes
from arena.formats import plural
from arena.linear import certify_linear, learn_linear
from upper.linear_attention import save_linear_attention

linear_app = typer.Typer(
    help=(
        "Linear attention: learned exactly by regression, and certified.\n\n"
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

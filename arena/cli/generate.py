"""``attention-bounds generate``: nice and hard targets as files of data."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from arena.cli.console import JsonOption, SeedOption, require_writable, say
from arena.cli.generate_families import FamilyCommands
from arena.cli.written import OutOption, write_target
from arena.made_targets import nice_target
from arena.targets import checkpoint_target
from attention.conversion import Biases

__all__ = [
    "BiasesOption",
    "CoordinatesOption",
    "HeadsOption",
    "InputsName",
    "PrefixOption",
    "generate_app",
]

generate_app = typer.Typer(
    help=(
        "Make a nice or a hard attention layer, or take one out of a trained model, and write it as a file of "
        "data.\n\n"
        "Example: attention-bounds generate sq-parity --heads 2 --dim 48 -o parity.safetensors"
    ),
    cls=FamilyCommands,
    no_args_is_help=True,
    rich_markup_mode=None,
)

InputsName = Literal["boolean", "gaussian", "sphere"]

HeadsOption = Annotated[
    int | None,
    typer.Option(help="Number m of heads of a checkpoint's layer; by default what its config.json says."),
]
PrefixOption = Annotated[
    str | None,
    typer.Option(help="How the names of a checkpoint's layer begin, where it holds several models."),
]
BiasesOption = Annotated[
    Biases,
    typer.Option(help="Biases of a checkpoint's layer: dropped, or absorbed by a last coordinate that is 1."),
]
CoordinatesOption = Annotated[
    int | None,
    typer.Option(help="Keep the first so many coordinates of a checkpoint's layer; by default all."),
]


@generate_app.command("nice")
def nice_command(
    out: OutOption,
    heads: Annotated[int, typer.Option(help="Number m of heads.")] = 2,
    tokens: Annotated[int, typer.Option(help="Number k of tokens.")] = 2,
    dim: Annotated[int, typer.Option(help="Number d of coordinates of a token.")] = 32,
    sigma: Annotated[float, typer.Option(help="Standard deviation of a logit on Boolean tokens.")] = 2.0,
    inputs: Annotated[InputsName, typer.Option(help="Distribution of the tokens.")] = "boolean",
    seed: SeedOption = 0,
    as_json: JsonOption = False,
) -> None:
    """Make a nice random layer.

    Example: attention-bounds generate nice --heads 4 --tokens 4 --dim 32 --seed 1 -o nice.safetensors
    """
    write_target(
        nice_target(heads=heads, tokens=tokens, dim=dim, sigma=sigma, inputs=inputs, seed=seed),
        out,
        as_json,
    )


@generate_app.command("from-checkpoint")
def checkpoint_command(
    checkpoint: Annotated[Path, typer.Argument(help="A safetensors file, its index, or its folder.")],
    layer: Annotated[int, typer.Option(help="Number of the layer, from 0.")],
    out: OutOption,
    heads: HeadsOption = None,
    prefix: PrefixOption = None,
    biases: BiasesOption = "dropped",
    coordinates: CoordinatesOption = None,
    tokens: Annotated[int, typer.Option(help="Number k of tokens.")] = 4,
    inputs: Annotated[InputsName, typer.Option(help="Distribution of the tokens.")] = "boolean",
    as_json: JsonOption = False,
) -> None:
    """Take an attention layer out of a model's safetensors checkpoint, named as in BERT or GPT-2.

    Example: attention-bounds generate from-checkpoint model.safetensors --layer 3 -o layer.safetensors
    """
    require_writable(out, source=checkpoint)
    target = checkpoint_target(
        checkpoint,
        layer=layer,
        tokens=tokens,
        heads=heads,
        prefix=prefix,
        biases=biases,
        coordinates=coordinates,
        inputs=inputs,
    )
    write_target(target, out, as_json)
    for note in target.made["notes"]:
        say(f"  - {note}", quiet=as_json)

"""``attention-bounds generate``: nice and hard targets as files of data."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from arena.cli.console import JsonOption, SeedOption, require_writable, say
from arena.cli.generate_families import FAMILY_COMMANDS
from arena.cli.written import OutOption, write_target
from arena.made_targets import lwr_target, nice_target, parity_target
from arena.targets import checkpoint_target
from attention.projections import Biases
from lwe import law_from_json
from sq import Construction

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


@generate_app.command("sq-parity")
def parity_command(
    out: OutOption,
    heads: Annotated[
        int | None, typer.Option(help="Number m of heads; by default what --bits needs.")
    ] = None,
    dim: Annotated[int, typer.Option(help="Number d of coordinates of a token.")] = 48,
    bits: Annotated[int | None, typer.Option(help="Hidden bits; by default as many as --heads hide.")] = None,
    construction: Annotated[
        Construction,
        typer.Option(
            help=(
                "A: linear, two heads a bit. B: saturated, one head a bit. C: the same at any slope. D: minimal, "
                "2m - 1 bits in m heads."
            )
        ),
    ] = "D",
    beta: Annotated[
        float | None, typer.Option(help="Slope of A and B (by default 40) or C (1); D has its own.")
    ] = None,
    seed: SeedOption = 0,
    as_json: JsonOption = False,
) -> None:
    """Make a layer of two tokens that hides a parity: hard for statistical queries.

    Example: attention-bounds generate sq-parity --heads 2 --dim 48 --seed 1 -o parity.safetensors
    """
    if heads is None and bits is None:
        heads = 2
    target = parity_target(heads=heads, dim=dim, bits=bits, construction=construction, beta=beta, seed=seed)
    write_target(target, out, as_json)


for _name, _command in FAMILY_COMMANDS.items():
    generate_app.command(_name)(_command)


@generate_app.command("lwr")
def lwr_command(
    out: OutOption,
    secret_dim: Annotated[int, typer.Option(help="Number n of entries of the secret.")] = 24,
    modulus: Annotated[int, typer.Option(help="Modulus q.")] = 64,
    levels: Annotated[int, typer.Option(help="Rounding levels p.")] = 2,
    gadget: Annotated[
        bool, typer.Option("--gadget", help="Standard power-of-two rounding; q a power of 2.")
    ] = False,
    ternary: Annotated[
        bool, typer.Option("--ternary", help="Covariates -1, 0 and 1 in place of bits.")
    ] = False,
    secret_law: Annotated[
        str, typer.Option(help="Law of the secret: uniform, binary, ternary, binomial:2, sparse:8.")
    ] = "uniform",
    noise: Annotated[
        str,
        typer.Option(
            help="Law of errors that labels get on top: zero, gaussian:3, binomial:2, flip:0.1 (which adds "
            "1; with q = 2 that is parity with noise)."
        ),
    ] = "zero",
    deviations: Annotated[
        float | None, typer.Option(help="Leave out heads of sums beyond so many standard deviations.")
    ] = None,
    seed: SeedOption = 0,
    as_json: JsonOption = False,
) -> None:
    """Make a layer of two tokens that computes learning with rounding.

    Example: attention-bounds generate lwr --secret-dim 24 --modulus 64 --levels 2 -o lwr.safetensors
    """
    if gadget and ternary:
        raise ValueError("--gadget and --ternary are two kinds of covariates: leave one out.")
    target = lwr_target(
        secret_dim=secret_dim,
        modulus=modulus,
        levels=levels,
        matrix="gadget" if gadget else "ternary" if ternary else "binary",
        secret=secret_law,
        noise=noise,
        deviations=deviations,
        seed=seed,
    )
    write_target(target, out, as_json)
    law = law_from_json(secret_law)
    if law.secrets(secret_dim, modulus) == 0:
        say(f"Nothing is hidden: {law} is the law of a single secret.", quiet=as_json)


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

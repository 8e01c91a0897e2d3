"""``attention-bounds generate``: targets as files of data, with a command for each hard family."""

import inspect
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from types import NoneType
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args, get_origin

import typer

from arena.cli.console import (
    JsonOption,
    OutOption,
    SeedOption,
    report,
    require_writable,
    say,
)
from arena.cli.options import alternatives, as_option, takes
from arena.targets import checkpoint_target, nice_target, registered_families
from attention import read_checkpoint_layer

if TYPE_CHECKING:
    from arena.target import Target
    from lower.family import FamilyConstructor, Option
    from lwe.sample_files import StoredSamples

_PLAIN = (int, float, str, bool)


class _FamilyCommands(typer.core.TyperGroup):
    """A group with its own commands and one command for each registered family."""

    def list_commands(self, ctx: Any) -> list[str]:
        """The group's own commands, and those of the families."""
        for name, family in sorted(registered_families().items()):
            self.commands[name] = _command(family)
        return list(self.commands)

    def get_command(self, ctx: Any, name: str) -> Any:
        """The command of that name; families are imported only for their own commands."""
        if name not in self.commands:
            self.list_commands(ctx)
        return self.commands.get(name)


generate_app = typer.Typer(
    help=(
        "Make a nice or a hard attention layer, or take one out of a trained model, and write it as a file of "
        "data.\n\n"
        "Example: attention-bounds generate sq-parity --heads 2 --dim 48 -o parity.safetensors"
    ),
    cls=_FamilyCommands,
    no_args_is_help=True,
    rich_markup_mode=None,
)


def _write(target: "Target", out: Path, as_json: bool) -> None:
    """Write the target and report it."""
    from arena.targets import save_target
    from attention.inputs import inputs_to_json

    save_target(out, target)
    shape: dict[str, Any] = {
        "heads": target.layer.heads,
        "tokens": target.inputs.tokens,
        "dim": target.layer.dim,
    }
    shape |= {"kind": target.kind, "title": target.title, "inputs": inputs_to_json(target.inputs)}
    report(f"{out}: {target.title}.", {"file": str(out), **shape, "made": target.made}, as_json)


@generate_app.command("nice")
@takes(nice_target, without=("name",))
def nice_command(out: OutOption, as_json: JsonOption = False, **settings: Any) -> None:
    """Make a nice random layer.

    Example: attention-bounds generate nice --heads 4 --tokens 4 --dim 32 --seed 1 -o nice.safetensors
    """
    _write(nice_target(**settings), out, as_json)


@generate_app.command("samples")
def samples_command(
    source: Annotated[
        Path,
        typer.Argument(
            help="An instance of learning with rounding or a parity, samples, or a set of parameters that "
            "`attention-bounds presets` names."
        ),
    ],
    out: Annotated[
        Path, typer.Option("--out", "-o", help="The file: .npz, or .txt in the format of the LWE challenges.")
    ],
    number: Annotated[
        int | None, typer.Option(help="How many.  [default: 1000, or all that a file of samples has]")
    ] = None,
    labels_out: Annotated[
        Path | None,
        typer.Option(help="Write matrices instead: A to --out and b here, as .npy or else as [[1 2][3 4]]."),
    ] = None,
    with_secret: Annotated[
        bool, typer.Option("--with-secret", help="Write the secret too, into .npz alone.")
    ] = False,
    rounding: Annotated[
        Literal["down", "nearest"] | None,
        typer.Option(help="Of the labels of a set of parameters: down, or nearest, as in Saber."),
    ] = None,
    seed: SeedOption = 0,
    as_json: JsonOption = False,
) -> None:
    """Draw samples (A, b) of learning with rounding or with errors, or write those of a file in another format.

    Example: attention-bounds generate samples lwr.safetensors --number 20000 -o samples.npz
    """
    from arena.samples import Problem, open_samples
    from lwe import save_samples

    for path in (out, labels_out):
        if path is not None:
            require_writable(path, source=source)
    _, found = open_samples(source, number, Problem(rounding=rounding), seed=seed)
    secret = found.secret if with_secret else None
    if with_secret and (secret is None or labels_out is not None):
        raise ValueError(f"--with-secret: {source} has no secret, or matrices are written; leave it out.")
    save_samples(out, found.samples, found.parameters, secret=secret, labels_path=labels_out)
    data = {"file": str(out), "number": len(found.samples), "parameters": found.parameters.to_json()}
    text = f"{out}: {len(found.samples)} samples of {found.parameters}."
    if labels_out is not None:
        text += f"\nMatrices hold no parameters: {_attack_on(out, labels_out, found)}"
    report(text, data, as_json)


def _attack_on(matrix: Path, labels: Path, stored: "StoredSamples") -> str:
    """The command that attacks samples in two files of matrices."""
    parameters = stored.parameters
    options = f"--q {parameters.q}" + ("" if parameters.p == parameters.q else f" --p {parameters.p}")
    options += f" --matrix {'uniform' if parameters.gadget else parameters.matrix}"
    options += f" --Xs {parameters.Xs.words} --Xe {parameters.Xe.words}"
    options += " --rounding nearest" if stored.samples.rounding == "nearest" else ""
    return f"attention-bounds attack {matrix} --labels {labels} {options}"


@generate_app.command("from-checkpoint")
@takes(checkpoint_target, read_checkpoint_layer, without=("name",))
def checkpoint_command(
    checkpoint: Annotated[
        Path, typer.Argument(help="A safetensors or PyTorch file, its index, or its folder.")
    ],
    out: OutOption,
    as_json: JsonOption = False,
    **settings: Any,
) -> None:
    """Take an attention layer out of a model's checkpoint, named as in BERT, GPT-2, ViT and the like.

    Example: attention-bounds generate from-checkpoint model.safetensors --layer 3 -o layer.safetensors
    """
    require_writable(out, source=checkpoint)
    target = checkpoint_target(checkpoint, **settings)
    _write(target, out, as_json)
    for note in target.made["notes"]:
        say(f"  - {note}", quiet=as_json)


@cache
def _command(family: "FamilyConstructor") -> Any:
    from arena.targets import family_target

    parameters = {name: _option(name, option) for name, option in family.options().items()}

    @takes({name: parameter for name, parameter in parameters.items() if parameter is not None})
    def make(out: OutOption, seed: SeedOption = 0, as_json: JsonOption = False, **given: Any) -> None:
        made = family.preset(**{name: value for name, value in given.items() if value is not None})
        _write(family_target(made, seed=seed), out, as_json)

    app = typer.Typer(rich_markup_mode=None, add_completion=False)
    summary = (family.__doc__ or "").partition("\n")[0]
    words = f"{summary}\n\nExample: attention-bounds generate {family.name} --seed 1 -o target.safetensors"
    app.command(family.name, help=words)(make)
    return typer.main.get_command(app)


def _option(name: str, one: "Option") -> inspect.Parameter | None:
    """A parameter of a family as an option: numbers, texts and choices unchanged, everything else as text."""
    kinds = [get_args(kind)[0] if get_origin(kind) is Annotated else kind for kind in alternatives(one.kind)]
    kinds = [kind for kind in kinds if kind is not NoneType]
    read, default = one.read, one.preset
    own = kinds[0] in _PLAIN or get_origin(kinds[0]) in (Literal, Sequence)
    if read is None and not (len(kinds) == 1 and own):
        read = str
    if not isinstance(default, (*_PLAIN, tuple, NoneType)):
        default = str(default)
    return as_option(name, str if read else kinds[0], default, one.help, flag=one.flag, read=read)

"""``attention-bounds inspect``: the content of a file, and the conditions it meets."""

import os
from pathlib import Path
from typing import Annotated, Any

import typer

from arena.cli import WorkFailedError
from arena.cli.console import JsonOption, report, say
from arena.cli.options import takes
from arena.inspection import inspect
from arena.samples import open_samples
from arena.targets import checkpoint_target
from attention import read_checkpoint_layer
from lwe import PRESETS, known_reductions
from lwe.sample_files import kind_of_file


@takes(read_checkpoint_layer)
def inspect_command(
    file: Annotated[
        Path,
        typer.Argument(
            help="A layer, an instance, or with --layer a model's checkpoint; samples of learning with rounding, or "
            "the name of a set of parameters, such as kyber512."
        ),
    ],
    tokens: Annotated[
        int | None,
        typer.Option(min=1, help="Number k of tokens, if the file does not store it; 4 for a checkpoint."),
    ] = None,
    threshold: Annotated[
        list[str] | None, typer.Option(help="NAME=VALUE: another threshold for a condition; may be repeated.")
    ] = None,
    verify: Annotated[
        bool,
        typer.Option(
            "--verify",
            help="Check a hard instance against its definition: heads, known component, certificate.",
        ),
    ] = False,
    layer: Annotated[int | None, typer.Option(help="Number of a checkpoint's layer, from 0.")] = None,
    as_json: JsonOption = False,
    **reading: Any,
) -> None:
    """Show a layer's shape and conditions; for a hard instance, its certificate and its known component.

    For a layer of a trained model, the parts that were dropped are also shown. Learning with rounding has an
    assumption, and known reductions, with what they lose at its parameters.

    Example: attention-bounds inspect parity.safetensors --verify
    """
    thresholds = dict(_name_and_value(one) for one in threshold or [])
    if layer is None:
        if unused := [name for name, value in reading.items() if value not in (None, "kept")]:
            raise ValueError(f"--{unused[0]} is for a model's checkpoint: give the number of a --layer too.")
        if kind_of_file(file) or (str(file) in PRESETS and not os.path.exists(file)):
            _show_samples(file, as_json)
            return
        if file.is_dir():
            raise ValueError(f"{file} is a folder: of a model's checkpoint, give the number of a --layer.")
        found = inspect(file, tokens=tokens, verify=verify, thresholds=thresholds)
    else:
        target = checkpoint_target(file, layer=layer, tokens=tokens or 4, **reading)
        found = inspect(target, verify=verify, thresholds=thresholds)
    report(found, {**found.to_json(), "file": str(file)}, as_json)
    if not found.holds:
        raise WorkFailedError(f"{file} is not what it says it is; the reasons are listed above.")


def _show_samples(file: Path, as_json: bool) -> None:
    """The number of samples and the reductions to their problem; of a set of parameters, the reductions alone."""
    stored = open_samples(file)[1] if os.path.exists(file) else None
    reductions = known_reductions(PRESETS[str(file)] if stored is None else stored.parameters)
    held: dict[str, Any] = {}
    if stored is not None:
        held = {"file": str(file), "number": len(stored.samples)}
        known = "with" if stored.secret is not None else "without"
        head = f"{file}: {len(stored.samples)} samples of {stored.parameters}, {known} their secret\n"
        say(head, quiet=as_json)
    report(reductions, {**held, **reductions.to_json()}, as_json)


def _name_and_value(text: str) -> tuple[str, float]:
    name, _, value = text.partition("=")
    try:
        return name.strip(), float(value)
    except ValueError:
        raise ValueError(f"The threshold is {text!r}: NAME=VALUE is needed, as in theta_trace=0.5.") from None

"""Files of targets: data, never a seed; what they say of their origin is shown as what they say."""

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from arena.target import Target
from arena.targets import (
    INPUTS,
    InputsName,
    inputs_named,
    layer_target,
    registered_families,
)
from attention.files import load_layer, save_layer
from attention.foreign import printable
from attention.validation import PositiveInt, checked
from lower import load_instance, save_instance


@checked
def save_target(path: str | Path, target: Target) -> None:
    """Write a target as data (never as a seed); `load_target` restores it bit for bit."""
    if target.instance is not None and target.block is not None:
        raise ValueError(
            f"{target.name} is a hard instance in a block, which has no file: write the target without its network, "
            "and put it into a block by block_target."
        )
    if target.instance is not None:
        save_instance(path, target.instance, made=target.made)
    else:
        save_layer(path, target.answers, inputs=target.inputs, made=target.made)


@checked
def load_target(
    path: str | os.PathLike, *, tokens: PositiveInt | None = None, inputs: InputsName | None = None
) -> Target:
    """Read a target from a layer or an instance file.

    Parameters
    ----------
    path : path
        The file; its stem names the target.
    tokens : int, optional
        The number of tokens, if the file does not store it or to override it.
    inputs : str, optional
        The distribution of the tokens, likewise.

    Raises
    ------
    FileFormatError
        If the file is neither a layer nor an instance.
    ValueError
        If the file does not store the number of tokens and `tokens` is not given either.
    """
    from lwe.sample_files import kind_of_file

    if kind_of_file(Path(path)) is not None:
        raise ValueError(f"{path} holds samples, not a layer: give it to attention-bounds attack.")
    stored, name = load_layer(path), Path(path).stem
    if stored.kind == "instance":
        if tokens is not None or inputs is not None:
            raise ValueError(
                f"{path} holds a hard instance, whose inputs are its own: leave out tokens and inputs."
            )
        registered_families()
        instance = load_instance(Path(path))
        return Target(name, instance.layer, instance.inputs, instance, stored.made, from_file=True)
    own, layer = stored.inputs, stored.layer
    if own is None or tokens is not None or inputs is not None:
        if tokens is None and own is None:
            raise ValueError(f"{path} does not say how many tokens there are: give --tokens.")
        kinds = {kind: name for name, kind in INPUTS.items()}
        number = tokens if own is None or tokens is not None else own.tokens
        own = inputs_named(inputs or kinds.get(type(own), "boolean"), number, layer.dim)
    target = layer_target(layer, tokens=own.tokens, inputs=own, name=name, made=stored.made)
    return replace(target, from_file=True)


def load_targets(
    paths: Sequence[str | os.PathLike[str]], *, tokens: int | None = None, inputs: InputsName | None = None
) -> list[Target]:
    """Read several targets for a comparison; names and titles show the file of each.

    FileFormatError, ValueError as for `load_target`.

    Parameters
    ----------
    paths : sequence of path
        The files; their stems name the targets. If two stems are equal, the whole paths do.
    tokens, inputs
        As for `load_target`, for all of them.
    """
    targets = [load_target(Path(path), tokens=tokens, inputs=inputs) for path in paths]
    stems = [target.name for target in targets]
    names = stems if len(set(stems)) == len(stems) else [printable(str(path)) for path in paths]
    return [
        replace(target, name=name, title=f"{name}: {target.title}")
        for target, name in zip(targets, names, strict=True)
    ]

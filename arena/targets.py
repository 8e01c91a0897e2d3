"""Targets made of layers, blocks, trained models and hard families, the presets, and files of targets.

A file holds data, never a seed; what it says of its origin is shown as what it says.
"""

import os
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal

import numpy as np

from arena.target import FROM_ARRAYS, FROM_CHECKPOINT, IMPORTED, Target
from attention import (
    AttentionLayer,
    Block,
    BooleanInputs,
    GaussianInputs,
    Inputs,
    SphereInputs,
    make_nice_layer,
    make_nice_network,
    make_nice_rotary_layer,
)
from attention._arrays import shown, to_numpy
from attention.feed_forward import Activation
from attention.files import load_layer, save_layer
from attention.foreign import printable
from attention.layer import Layer
from attention.validation import NonNegativeInt, PositiveFloat, PositiveInt, checked
from lower import FAMILIES, Family, load_instance, save_instance
from lower.family import FamilyConstructor

_VERSIONS = {"version": version("attention-bounds"), "numpy": np.__version__}
InputsName = Literal["boolean", "gaussian", "sphere"]
INPUTS: Mapping[str, Any] = {"boolean": BooleanInputs, "gaussian": GaussianInputs, "sphere": SphereInputs}
"""The token distributions that need only a name."""


@checked
def layer_target(
    layer: Layer | Block,
    *,
    tokens: PositiveInt,
    inputs: str | Inputs = "boolean",
    name: str = "layer",
    made: Mapping[str, Any] | None = None,
) -> Target:
    """The caller's own layer or block as a target.

    Parameters
    ----------
    layer : AttentionLayer, RotaryLayer or Block
        The layer or block, in any array library; the target stores it as NumPy arrays in float64.
    tokens : int
        The number k of tokens.
    inputs : str or Inputs
        The distribution of the tokens, or the name of one in `INPUTS`.
    name : str
        The unique name.
    made : mapping, optional
        How it was made, as JSON values, to be stored in files.

    Raises
    ------
    ValueError
        If `inputs` names no distribution, or its numbers of tokens or coordinates differ from the layer's.
    """
    distribution = inputs_named(inputs, tokens, layer.dim) if isinstance(inputs, str) else inputs
    if (distribution.tokens, distribution.dim) != (tokens, layer.dim):
        raise ValueError(
            f"The inputs have {distribution.tokens} tokens of {distribution.dim} coordinates: {tokens} tokens of "
            f"{layer.dim} are needed."
        )
    layer = layer.map(lambda array: to_numpy(array).astype(np.float64))
    made = {"generator": FROM_ARRAYS} if made is None else dict(made)
    if isinstance(layer, Block):
        return Target(name, layer.layer, distribution, made=made, block=layer)
    return Target(name, layer, distribution, made=made)


@checked
def block_target(
    target: Target, *, width: PositiveInt, activation: Activation = "gelu", seed: NonNegativeInt = 0
) -> Target:
    """The layer of a target in a block: with a nice network behind it, and both residuals.

    Parameters
    ----------
    target : Target
        A nice target, one of a hard family, or the caller's own layer.
    width : int
        Number h of neurons.
    activation : {"relu", "gelu", "tanh"}
        Of the neurons.
    seed : int
        Seed of the network.

    Raises
    ------
    ValueError
        If the target is a block, or its labels have errors of their own.

    Examples
    --------
    >>> block_target(parity_target(dim=16, heads=2), width=32).title
    'Parity of 3 bits, 2 heads, 32 neurons gelu'
    """
    layer, noisy = target.layer, target.instance is not None and target.instance.family.noisy
    if target.block is not None or noisy or not isinstance(layer, AttentionLayer):
        raise ValueError(
            f"{target.name} is a block, or has rotary positions or noisy labels: a layer without noise is needed, "
            "and without positions."
        )
    rng = np.random.default_rng([seed, 1])  # apart from the layer of this seed
    network = make_nice_network(dim=target.layer.dim, width=width, activation=activation, rng=rng)
    parameters = {**target.made.get("parameters", {}), "width": width, "activation": activation}
    return replace(
        target,
        name=f"{target.name}-block-{width}",
        made={**target.made, "parameters": parameters},
        title="",
        block=Block(layer, network),
    )


@checked
def nice_target(
    *,
    heads: PositiveInt = 2,
    tokens: PositiveInt = 2,
    dim: PositiveInt = 32,
    sigma: PositiveFloat = 2.0,
    inputs: InputsName = "boolean",
    width: PositiveInt | None = None,
    activation: Activation = "gelu",
    head_dim: PositiveInt | None = None,
    key_heads: PositiveInt | None = None,
    seed: NonNegativeInt = 0,
    name: str = "",
) -> Target:
    """A nice random layer, as drawn by `attention.make_nice_layer`, or a block around it.

    With `head_dim`, a causal layer with rotary positions and biases, as drawn by `attention.make_nice_rotary_layer`.

    Parameters
    ----------
    heads : int
        Number m of heads.
    tokens : int
        Number k of tokens.
    dim : int
        Number d of coordinates of a token.
    sigma : float
        Standard deviation of a logit on Boolean tokens; with rotary positions it is about 1.
    inputs : {"boolean", "gaussian", "sphere"}
        Distribution of the tokens.
    width : int, optional
        Number of neurons of a network behind the layer, as of `block_target`; by default there is none.
    activation : {"relu", "gelu", "tanh"}
        Of these neurons.
    head_dim : int, optional
        Dimension of the queries of each head, even, of a layer with rotary positions; by default there are none.
    key_heads : int, optional
        Number of key and value maps, which groups of such heads share; by default each has its own.
    seed : int
        Seed of every random choice.
    name : str
        The unique name; made of the numbers if empty.

    Raises
    ------
    ValueError
        If a parameter is out of range or `inputs` names no distribution.
    """
    parameters: dict[str, Any] = {"heads": heads, "tokens": tokens, "dim": dim}
    layer: Layer
    if head_dim is None:
        if key_heads is not None:
            raise ValueError(
                f"key_heads is {key_heads}: give head_dim too, for rotary positions, or leave it out."
            )
        parameters["sigma"] = sigma
        layer = make_nice_layer(heads=heads, dim=dim, sigma=sigma, rng=seed)
    else:
        parameters |= {"head_dim": head_dim, "key_heads": key_heads or heads}
        layer = make_nice_rotary_layer(heads, dim, head_dim, key_heads=key_heads, biases=True, rng=seed)
    parameters["inputs"] = inputs
    positions = "" if head_dim is None else "-rotary"
    target = Target(
        name or f"nice{positions}-{heads}-{tokens}-{dim}" + ("" if inputs == "boolean" else f"-{inputs}"),
        layer,
        inputs_named(inputs, tokens, dim),
        made={"generator": "nice", "parameters": parameters, "seed": seed, **_VERSIONS},
    )
    if width is None:
        return target
    block = block_target(target, width=width, activation=activation, seed=seed)
    return replace(block, name=name or block.name)


@checked
def checkpoint_target(
    path: str | Path,
    *,
    layer: NonNegativeInt,
    tokens: PositiveInt = 4,
    inputs: InputsName = "boolean",
    name: str = "",
    **reading: Any,
) -> Target:
    """An attention layer of a trained model.

    Parameters
    ----------
    path : path
        The checkpoint, its index, or its folder.
    layer : int
        Number of the layer, from 0.
    tokens : int
        Number k of tokens.
    inputs : {"boolean", "gaussian", "sphere"}
        Distribution of the tokens.
    name : str
        The unique name; if empty, made from the file name and the layer's number.
    **reading
        As for `attention.read_checkpoint_layer`: heads, prefix, biases, coordinates.

    Raises
    ------
    FileFormatError
        If the checkpoint is missing, damaged or incomplete.
    ValueError
        If a parameter is out of range.
    """
    from attention import read_checkpoint_layer

    path = Path(path)
    imported = read_checkpoint_layer(path, layer=layer, **reading)
    folder, stem = (path if path.is_dir() else path.parent).resolve().name, imported.source.split(".")[0]
    if stem == "model" and folder:  # the files of all models are named so
        imported, stem = replace(imported, source=f"{folder}/{imported.source}"), folder.split(".")[0]
    facts: dict[str, Any] = {"file": imported.source, "layer": imported.number, "heads": imported.layer.heads}
    facts |= {name: getattr(imported, name) for name in IMPORTED}
    return Target(
        name or f"{stem}-layer-{imported.number}",
        imported.layer,
        inputs_named(inputs, tokens, imported.layer.dim),
        made={"generator": FROM_CHECKPOINT, "notes": list(imported.notes), **_VERSIONS}
        | {"parameters": facts},
    )


@checked
def family_target(
    family: Family, number: int | None = None, *, seed: NonNegativeInt = 0, name: str = ""
) -> Target:
    """A target of a hard family, made by the family's `instance`.

    Parameters
    ----------
    family : lower.Family
        The family, such as `sq.ProfileFamily.bump(dim=32, bits=8)`.
    number : int, optional
        Which of its secrets; by default drawn with the seed.
    seed : int
        The seed for drawing the number.
    name : str
        The unique name; made of family, heads and dimension if empty.

    Raises
    ------
    ValueError
        If the family has no such number.

    Examples
    --------
    >>> from sq import ProfileFamily
    >>> target = family_target(ProfileFamily.bump(dim=20, bits=8), seed=1)
    >>> target.name, target.title
    ('sq-bump-2-20', 'Bump at 4 of 8 bits, 2 heads')
    """
    instance = family.instance(number, rng=seed)
    parameters = _flat({**family.to_json(), "number": number})
    made: dict[str, Any] = {"generator": family.name, "parameters": parameters, **_VERSIONS}
    made |= {"seed": seed} if number is None else {}
    name = name or family.label(instance.layer.heads)
    return Target(name, instance.layer, instance.inputs, instance, made)


def parity_target(
    *, dim: int, heads: int | None = None, seed: int = 0, name: str = "", **parameters: Any
) -> Target:
    """A hidden parity realised by heads: a target of `sq.ParityFamily` with these parameters."""
    from sq import ParityFamily

    return family_target(ParityFamily(dim=dim, heads_count=heads, **parameters), seed=seed, name=name)


def lwr_target(*, seed: int = 0, name: str = "", **parameters: Any) -> Target:
    """Learning with rounding realised by heads: a target of `lwe.LWRFamily` with these parameters."""
    from lwe import LWRFamily

    return family_target(LWRFamily(**parameters), seed=seed, name=name)


def preset_targets() -> list[Target]:
    """The targets of a comparison without files: three nice ones, and each family's own choice (`Family.compared`)."""
    shapes: list[Any] = [
        {"heads": 2, "tokens": 2},
        {"heads": 4, "tokens": 4},
        {"heads": 2, "tokens": 2, "inputs": "gaussian"},
    ]
    families = [family for _, family in sorted(registered_families().items(), reverse=True)]
    hard = [family.preset(**own) for family in families for own in family.compared]
    return [
        *(nice_target(**shape, dim=32) for shape in shapes),
        *map(family_target, hard),
    ]


def registered_families() -> Mapping[str, FamilyConstructor]:
    """The families of hard instances by name, whose packages are imported only here."""
    import lwe  # noqa: F401 - both register their families
    import sq  # noqa: F401

    return FAMILIES


def inputs_named(name: str, tokens: int | None, dim: int) -> Inputs:
    """The distribution with that name.

    ValueError if the name is not in `INPUTS`, or a number is out of range.
    """
    if not isinstance(name, str) or name not in INPUTS:
        raise ValueError(f"The inputs are named {shown(name)}: {', '.join(INPUTS)} are known.")
    return INPUTS[name](tokens=tokens, dim=dim)


def _flat(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters that are set, and those of the family that a family builds on, in one mapping."""
    flat: dict[str, Any] = {}
    for name, value in parameters.items():
        if isinstance(value, Mapping):
            flat |= {name: value["family"], **_flat({key: value[key] for key in value if key != "family"})}
        elif value is not None:
            flat[name] = list(value) if isinstance(value, tuple) else value
    return flat


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


def open_targets(given: Any, *, tokens: int | None = None, inputs: InputsName | None = None) -> list[Target]:
    """Targets for a comparison; files are read, and their stems name them, or their paths where stems are equal.

    Tables and figures show only titles: that of a file begins with its name, and so does one of several equal ones.
    ValueError if there is no target. `tokens` and `inputs` are for the files, as for `load_target`.
    """
    given = [given] if isinstance(given, Target | str | os.PathLike) else list(given)
    if not given:
        raise ValueError("No target is given: give some, or none at all for those of preset_targets.")
    stems = Counter(Path(one).stem for one in given if not isinstance(one, Target))
    targets = []
    for one in given:
        if not isinstance(one, Target):
            path, one = one, load_target(one, tokens=tokens, inputs=inputs)
            name = one.name if stems[one.name] == 1 else printable(str(path))
            one = replace(one, name=name, title=f"{name}: {one.title}")
        targets.append(one)
    times = Counter(target.title for target in targets)
    return [
        target if times[target.title] == 1 else replace(target, title=f"{target.name}: {target.title}")
        for target in targets
    ]

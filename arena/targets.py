"""Targets of a comparison: a layer, its inputs, its known part, and its origin."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from arena.formats import plural
from arena.origin import FROM_ARRAYS, how_made, made_by, made_of_import
from arena.records import TargetRecord
from attention import (
    AttentionLayer,
    BooleanInputs,
    ExampleOracle,
    GaussianInputs,
    GroundTruth,
    Inputs,
    SphereInputs,
    ValueOracle,
    make_nice_layer,
)
from attention._arrays import shown as shown_value
from attention._arrays import to_numpy
from attention.conditions import ConditionReport, check_conditions
from attention.conversion import Biases
from attention.files import StoredLayer, load_layer, save_layer
from attention.foreign import printable
from attention.inputs import Rng, inputs_to_json
from attention.learning import Access
from attention.validation import (
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    checked,
)
from lower import FAMILIES, HardInstance, load_instance, save_instance
from lower.family import FamilyConstructor

__all__ = [
    "INPUTS",
    "InputsName",
    "Target",
    "checkpoint_target",
    "inputs_named",
    "instance_target",
    "layer_target",
    "load_target",
    "load_targets",
    "nice_target",
    "registered_families",
    "save_target",
]

InputsName = Literal["boolean", "gaussian", "sphere"]
INPUTS: Mapping[str, Any] = {"boolean": BooleanInputs, "gaussian": GaussianInputs, "sphere": SphereInputs}
"""The token distributions that need only a name."""


@dataclass(frozen=True, eq=False)
class Target:
    """A layer to learn, with its inputs and its record.

    Attributes
    ----------
    record : TargetRecord
        The record for tables and pages.
    layer : AttentionLayer
        The layer to learn.
    inputs : Inputs
        The distribution of the tokens.
    instance : HardInstance or None
        The hard instance, with its secret and its known part; None for other layers.
    made : dict
        How it was made, as stored in files.
    conditions : ConditionReport or None
        The non-degeneracy conditions measured for the record; None for a hard instance, whose record has the
        certificate instead.
    """

    record: TargetRecord
    layer: AttentionLayer
    inputs: Inputs
    instance: HardInstance | None
    made: dict[str, Any]
    conditions: ConditionReport | None = None

    @property
    def name(self) -> str:
        """The unique name."""
        return self.record.name

    def __repr__(self) -> str:
        record = self.record
        return f"<Target {self.name}: {record.title}, k = {record.tokens}, d = {record.dim}>"

    def oracle(
        self, access: Access = "random examples", *, noise: float = 0.0, rng: Rng = None
    ) -> ExampleOracle | ValueOracle:
        """A fresh oracle on the target. If its family has noise, so have the labels of random examples.

        Parameters
        ----------
        access : "random examples", "value queries" or "samples of rounding"
            How a learner sees the target; a query has as many tokens as an example. Samples of rounding are read from
            random examples.
        noise : float
            Standard deviation of independent Gaussian noise on every entry of a label.
        rng : optional
            Anything `numpy.random.default_rng` accepts (SPEC 7).

        Raises
        ------
        ValueError
            If the noise is out of range, or the labels already have errors.
        """
        if access == "value queries":
            return ValueOracle(self.layer, tokens=self.inputs.tokens, noise=noise, rng=rng)
        if self.instance is not None:
            family = self.instance.family
            if not noise:
                return family.examples(self.instance, rng=rng)
            if family.noisy:
                raise ValueError(
                    f"The noise is {noise}, and the labels of {self.name} have errors of their own: leave it out."
                )
        return ExampleOracle(self.layer, self.inputs, noise=noise, rng=rng)

    def ground_truth(self, n: int = 2000, *, rng: Rng = None) -> GroundTruth:
        """The data for measuring fits: `n` fresh inputs and the known part."""
        known = None if self.instance is None or self.instance.known.is_zero else self.instance.known
        return GroundTruth.draw(self.layer, self.inputs, n, known=known, rng=rng)


@checked
def layer_target(
    layer: AttentionLayer,
    *,
    tokens: PositiveInt,
    inputs: str | Inputs = "boolean",
    name: str = "layer",
    made: Mapping[str, Any] | None = None,
) -> Target:
    """The caller's own layer as a target.

    Parameters
    ----------
    layer : AttentionLayer
        The layer, in any array library; the target stores it as NumPy arrays in float64.
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
    nice = made.get("generator") == "nice"
    described = inputs_to_json(distribution)
    shown = {"boolean": "", "gaussian": ", Gaussian"}.get(described["name"], f", {described['name']}")
    seed = made.get("seed")
    conditions = check_conditions(layer, tokens=distribution.tokens)
    record = TargetRecord(
        name=name,
        title=f"{'Nice' if nice else 'Layer'}, {plural(layer.heads, 'head')}, {plural(tokens, 'token')}{shown}",
        kind="nice" if nice else "file",
        heads=layer.heads,
        tokens=distribution.tokens,
        dim=layer.dim,
        inputs=described,
        how=how_made(made, distribution) or "A layer read from a file.",
        seed=seed if isinstance(seed, int) else None,
        known="Nothing is known in advance: the known part is zero.",
        conditions=tuple(conditions.rows()),
    )
    return Target(
        record=record, layer=layer, inputs=distribution, instance=None, made=made, conditions=conditions
    )


@checked
def nice_target(
    *,
    heads: PositiveInt = 2,
    tokens: PositiveInt = 2,
    dim: PositiveInt = 32,
    sigma: PositiveFloat = 2.0,
    inputs: InputsName = "boolean",
    seed: NonNegativeInt = 0,
    name: str = "",
) -> Target:
    """A nice random layer, as drawn by `attention.make_nice_layer`.

    Parameters
    ----------
    heads : int
        Number m of heads.
    tokens : int
        Number k of tokens.
    dim : int
        Number d of coordinates of a token.
    sigma : float
        Standard deviation of a logit on Boolean tokens.
    inputs : {"boolean", "gaussian", "sphere"}
        Distribution of the tokens.
    seed : int
        Seed of every random choice.
    name : str
        The unique name; made of the numbers if empty.

    Raises
    ------
    ValueError
        If a parameter is out of range or `inputs` names no distribution.
    """
    tokens_in = inputs_named(inputs, tokens, dim)
    layer = make_nice_layer(heads=heads, dim=dim, sigma=sigma, rng=seed)
    parameters = {"heads": heads, "tokens": tokens, "dim": dim, "sigma": sigma, "inputs": inputs}
    return layer_target(
        layer,
        tokens=tokens,
        inputs=tokens_in,
        name=name or f"nice-{heads}-{tokens}-{dim}" + ("" if inputs == "boolean" else f"-{inputs}"),
        made=made_by("nice", parameters, seed=seed),
    )


@checked
def checkpoint_target(
    path: str | Path,
    *,
    layer: NonNegativeInt,
    tokens: PositiveInt = 4,
    heads: PositiveInt | None = None,
    prefix: str | None = None,
    biases: Biases = "kept",
    coordinates: PositiveInt | None = None,
    inputs: InputsName = "boolean",
    name: str = "",
) -> Target:
    """An attention layer of a trained model, as read by `attention.read_checkpoint_layer`.

    Parameters
    ----------
    path : path
        The checkpoint, its index, or its folder.
    layer : int
        Number of the layer, from 0.
    tokens : int
        Number k of tokens.
    heads : int, optional
        Number m of heads of a checkpoint's layer; by default as in its config.json.
    prefix : str, optional
        Prefix of the names of a checkpoint's layer, if it holds several models.
    biases : "kept" or "dropped"
        Biases of a checkpoint's layer: kept, or dropped.
    coordinates : int, optional
        Number of first coordinates of a checkpoint's layer to keep; by default all.
    inputs : {"boolean", "gaussian", "sphere"}
        Distribution of the tokens.
    name : str
        The unique name; if empty, made from the file name and the layer's number.

    Raises
    ------
    FileFormatError
        If the checkpoint is missing, damaged or incomplete.
    ValueError
        If a parameter is out of range.
    """
    from attention import read_checkpoint_layer

    imported = read_checkpoint_layer(
        path, layer=layer, heads=heads, prefix=prefix, biases=biases, coordinates=coordinates
    )
    imported = replace(imported, source=_model_file(Path(path), imported.source))
    return layer_target(
        imported.layer,
        tokens=tokens,
        inputs=inputs_named(inputs, tokens, imported.layer.dim),
        name=name or f"{_model_name(imported.source)}-layer-{imported.number}",
        made=made_of_import(imported),
    )


def registered_families() -> Mapping[str, FamilyConstructor]:
    """The families of hard instances by name, whose packages are imported only here."""
    import lwe  # noqa: F401 - both register their families
    import sq  # noqa: F401

    return FAMILIES


@checked
def instance_target(name: str, instance: HardInstance, made: Mapping[str, Any]) -> Target:
    """The target that a hard instance is."""
    layer, inputs = instance.layer, instance.inputs
    seed = made.get("seed")
    record = TargetRecord(
        name=name,
        title=instance.family.title,
        kind=instance.family.kind,
        heads=layer.heads,
        tokens=inputs.tokens,
        dim=inputs.dim,
        inputs=inputs_to_json(inputs),
        how=how_made(made, inputs)
        or f"A hard instance of the family {instance.family.name}, read from a file.",
        seed=seed if isinstance(seed, int) else None,
        known=instance.known.describe(),
        certificate=instance.certificate.with_facts(instance.family.estimates()),
    )
    return Target(record=record, layer=layer, inputs=inputs, instance=instance, made=dict(made))


@checked
def save_target(path: str | Path, target: Target) -> None:
    """Write a target as data (never as a seed); `load_target` restores it bit for bit."""
    if target.instance is not None:
        save_instance(path, target.instance, made=target.made)
    else:
        save_layer(path, target.layer, inputs=target.inputs, made=target.made)


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
    stored = load_layer(path)
    name = printable(Path(path).stem)
    if stored.kind == "instance":
        if tokens is not None or inputs is not None:
            raise ValueError(
                f"{path} holds a hard instance, whose inputs are its own: leave out tokens and inputs."
            )
        registered_families()
        return _as_the_file_says(instance_target(name, load_instance(Path(path)), stored.made))
    distribution = _distribution(path, stored, tokens, inputs)
    target = layer_target(
        stored.layer, tokens=distribution.tokens, inputs=distribution, name=name, made=stored.made
    )
    return _as_the_file_says(target)


def _as_the_file_says(target: Target) -> Target:
    """The target whose record does not vouch for its origin, which nothing checks."""
    if not how_made(target.made, target.inputs):
        return target
    return replace(target, record=replace(target.record, how=f"The file says: {target.record.how}"))


def load_targets(
    paths: Sequence[str | os.PathLike[str]], *, tokens: int | None = None, inputs: InputsName | None = None
) -> list[Target]:
    """Read several targets for a comparison; names and titles show the file of each.

    Parameters
    ----------
    paths : sequence of path
        The files; their stems name the targets. If two stems are equal, the whole paths do.
    tokens, inputs
        As for `load_target`, for all of them.

    Raises
    ------
    FileFormatError, ValueError
        As for `load_target`.
    """
    targets = [load_target(Path(path), tokens=tokens, inputs=inputs) for path in paths]
    stems = [printable(Path(path).stem) for path in paths]
    names = stems if len(set(stems)) == len(stems) else [printable(str(path)) for path in paths]
    return [
        replace(target, record=replace(target.record, name=name, title=f"{name}: {target.record.title}"))
        for target, name in zip(targets, names, strict=True)
    ]


def _distribution(
    path: str | os.PathLike[str], stored: StoredLayer, tokens: int | None, inputs: str | None
) -> Inputs:
    """The file's distribution or the one that overrides it."""
    own = stored.inputs
    if own is not None and tokens is None and inputs is None:
        return own
    if tokens is None and own is None:
        raise ValueError(f"{path} does not say how many tokens there are: give --tokens.")
    k = own.tokens if tokens is None and own is not None else tokens
    if inputs is None:
        inputs = next((name for name, kind in INPUTS.items() if type(own) is kind), "boolean")
    return inputs_named(inputs, k, stored.layer.dim)


def _model_file(path: Path, file: str) -> str:
    """The file's name, with the folder's name if all models have the same file name."""
    folder = (path if path.is_dir() else path.parent).resolve().name
    return f"{folder}/{file}" if Path(file).stem.split(".")[0] == "model" and folder else file


def _model_name(source: str) -> str:
    return source.split("/")[0].split(".")[0]


def inputs_named(name: str, tokens: int | None, dim: int) -> Inputs:
    """The distribution with that name.

    Raises
    ------
    ValueError
        If the name is not in `INPUTS`, or a number is out of range.
    """
    if not isinstance(name, str) or name not in INPUTS:
        raise ValueError(f"The inputs are named {shown_value(name)}: {', '.join(INPUTS)} are known.")
    return INPUTS[name](tokens=tokens, dim=dim)

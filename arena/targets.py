"""Targets of a comparison: a layer, its inputs, what is known of it in advance, and how it was made."""

from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from arena.results import TargetRecord
from attention import (
    AttentionLayer,
    BooleanInputs,
    ExampleOracle,
    GaussianInputs,
    GroundTruth,
    Inputs,
    SphereInputs,
    inputs_to_json,
    make_nice_layer,
)
from attention.conditions import check_conditions
from attention.files import load_layer, save_layer
from attention.inputs import Rng
from lower import HardInstance, load_instance, save_instance
from lwe import make_lwr_instance
from sq import Construction, make_parity_instance

__all__ = [
    "INPUTS",
    "Target",
    "instance_target",
    "load_target",
    "lwr_target",
    "nice_target",
    "parity_target",
    "preset_targets",
    "save_target",
]

INPUTS: Mapping[str, Any] = {"boolean": BooleanInputs, "gaussian": GaussianInputs, "sphere": SphereInputs}
"""The token distributions that a name alone describes."""

_INPUT_TITLES = {"gaussian": "Gaussian"}
_KINDS = {"sq-parity": "parity", "lwr": "lwr"}


@dataclass(frozen=True, eq=False)
class Target:
    """What learners are run on.

    Attributes
    ----------
    record : TargetRecord
        What is shown of it.
    layer : AttentionLayer
        The layer to learn.
    inputs : Inputs
        The distribution of the tokens.
    instance : HardInstance or None
        The hard instance it is, with its secret and its known part; None for other layers.
    made : dict
        How it was made, as kept in files.
    """

    record: TargetRecord
    layer: AttentionLayer
    inputs: Inputs
    instance: HardInstance | None
    made: dict[str, Any]

    @property
    def name(self) -> str:
        """The unique name."""
        return self.record.name

    def oracle(self, *, rng: Rng = None) -> ExampleOracle:
        """A fresh example oracle on the target."""
        return ExampleOracle(self.layer, self.inputs, rng=rng)

    def ground_truth(self, n: int = 2000, *, rng: Rng = None) -> GroundTruth:
        """What fits are measured against: `n` fresh inputs and the known part."""
        known = None if self.instance is None or self.instance.known.is_zero else self.instance.known
        return GroundTruth.draw(self.layer, self.inputs, n, known=known, rng=rng)


def nice_target(
    *,
    heads: int,
    tokens: int,
    dim: int,
    sigma: float = 2.0,
    inputs: str = "boolean",
    seed: int = 0,
    name: str = "",
) -> Target:
    """A nice random layer, as drawn by `attention.make_nice_layer`.

    Raises
    ------
    ValueError
        If a parameter is out of range or `inputs` names no distribution.
    """
    tokens_in = _inputs_named(inputs, tokens, dim)
    layer = make_nice_layer(heads=heads, dim=dim, sigma=sigma, rng=seed)
    parameters = {"heads": heads, "tokens": tokens, "dim": dim, "sigma": sigma, "inputs": inputs}
    return _layer_target(
        name or f"nice-{heads}-{tokens}-{dim}" + ("" if inputs == "boolean" else f"-{inputs}"),
        layer,
        tokens_in,
        _made("nice", parameters, seed),
    )


def parity_target(
    *,
    dim: int,
    heads: int | None = None,
    bits: int | None = None,
    construction: Construction = "D",
    seed: int = 0,
    name: str = "",
) -> Target:
    """A hidden parity realised by heads, as made by `sq.make_parity_instance`."""
    instance = make_parity_instance(dim=dim, heads=heads, bits=bits, construction=construction, rng=seed)
    made = _made("sq-parity", dict(instance.parameters), seed)
    return instance_target(name or f"sq-parity-{instance.layer.heads}-{dim}", instance, made)


def lwr_target(
    *, secret_dim: int, modulus: int, levels: int, gadget: bool = False, seed: int = 0, name: str = ""
) -> Target:
    """Learning with rounding realised by heads, as made by `lwe.make_lwr_instance`."""
    instance = make_lwr_instance(
        secret_dim=secret_dim, modulus=modulus, levels=levels, gadget=gadget, rng=seed
    )
    made = _made("lwr", dict(instance.parameters), seed)
    return instance_target(name or f"lwr-{secret_dim}-{modulus}-{levels}", instance, made)


def instance_target(name: str, instance: HardInstance, made: Mapping[str, Any]) -> Target:
    """The target that a hard instance is."""
    layer, inputs = instance.layer, instance.inputs
    seed = made.get("seed")
    record = TargetRecord(
        name=name,
        title=_hard_title(instance),
        kind=_KINDS.get(instance.family, "file"),
        heads=layer.heads,
        tokens=inputs.k,
        dim=inputs.d,
        inputs=inputs_to_json(inputs),
        how=_how(made) or f"A hard instance of the family {instance.family}, read from a file.",
        seed=seed if isinstance(seed, int) else None,
        known=instance.known.describe(),
        certificate=tuple(str(instance.certificate).splitlines()),
        hard=True,
    )
    return Target(record=record, layer=layer, inputs=inputs, instance=instance, made=dict(made))


def preset_targets(seed: int = 0) -> list[Target]:
    """The targets of a comparison without files: three nice ones, hidden parity, learning with rounding."""
    return [
        nice_target(heads=2, tokens=2, dim=32, seed=seed),
        nice_target(heads=4, tokens=4, dim=32, seed=seed),
        nice_target(heads=2, tokens=2, dim=32, inputs="gaussian", seed=seed),
        parity_target(heads=2, dim=48, bits=3, seed=seed),
        lwr_target(secret_dim=24, modulus=64, levels=2, seed=seed),
    ]


def save_target(path: str | Path, target: Target) -> None:
    """Write a target as data (never as a seed): `load_target` gives it back bit for bit."""
    if target.instance is not None:
        save_instance(path, target.instance, made=target.made)
    else:
        save_layer(path, target.layer, inputs=target.inputs, made=target.made)


def load_target(path: str | Path, *, tokens: int | None = None, inputs: str | None = None) -> Target:
    """Read a target from a layer or an instance file.

    Parameters
    ----------
    path : path
        The file; its stem names the target.
    tokens : int, optional
        The number of tokens, where the file does not say or another is wanted.
    inputs : str, optional
        The distribution of the tokens, likewise.

    Raises
    ------
    FileFormatError
        If the file is no layer or instance.
    ValueError
        If the file does not say how many tokens there are and `tokens` is not given either.
    """
    stored = load_layer(path)
    name = Path(path).stem
    if stored.kind == "instance":
        if tokens is not None or inputs is not None:
            raise ValueError(
                f"{path} holds a hard instance, whose inputs are its own: leave out tokens and inputs."
            )
        return instance_target(name, load_instance(path), stored.made)
    layer, distribution = stored.layer, stored.inputs
    if tokens is not None or inputs is not None or distribution is None:
        k = tokens if tokens is not None else (distribution.k if distribution else None)
        if k is None:
            raise ValueError(f"{path} does not say how many tokens there are: give --tokens.")
        distribution = _inputs_named("boolean" if inputs is None else inputs, k, layer.dim)
    return _layer_target(name, layer.map(lambda array: array.astype(np.float64)), distribution, stored.made)


def _inputs_named(name: str, k: int, d: int) -> Inputs:
    if name not in INPUTS:
        raise ValueError(f"The inputs are named {name!r}: {', '.join(INPUTS)} are known.")
    return INPUTS[name](k=k, d=d)


def _layer_target(name: str, layer: AttentionLayer, inputs: Inputs, made: Mapping[str, Any]) -> Target:
    nice = made.get("generator") == "nice"
    described = inputs_to_json(inputs)
    seed = made.get("seed")
    record = TargetRecord(
        name=name,
        title=f"{'Nice' if nice else 'Layer'}, {_plural(layer.heads, 'head')}, {_plural(inputs.k, 'token')}"
        + (
            ""
            if described["name"] == "boolean"
            else f", {_INPUT_TITLES.get(described['name'], described['name'])}"
        ),
        kind="nice" if nice else "file",
        heads=layer.heads,
        tokens=inputs.k,
        dim=layer.dim,
        inputs=described,
        how=_how(made) or "A layer read from a file.",
        seed=seed if isinstance(seed, int) else None,
        known="Nothing is known in advance: the known part is zero.",
        certificate=tuple(str(check_conditions(layer, tokens=inputs.k)).splitlines()),
        hard=False,
    )
    return Target(record=record, layer=layer, inputs=inputs, instance=None, made=dict(made))


def _hard_title(instance: HardInstance) -> str:
    heads, parameters = _plural(instance.layer.heads, "head"), instance.parameters
    if _KINDS.get(instance.family) == "parity":
        return f"Parity of {_plural(parameters.get('bits', 0), 'bit')}, {heads}"
    if _KINDS.get(instance.family) == "lwr":
        n, q, p = (parameters.get(name, "?") for name in ("secret_dim", "modulus", "levels"))
        return f"Rounding, n = {n}, q = {q}, p = {p}"
    return f"{instance.family}, {heads}"


def _made(generator: str, parameters: Mapping[str, Any], seed: int) -> dict[str, Any]:
    made = {"generator": generator, "parameters": dict(parameters), "seed": seed}
    return made | {"version": version("attention-bounds"), "numpy": np.__version__}


def _how(made: Mapping[str, Any]) -> str:
    parameters = made.get("parameters")
    if not isinstance(parameters, Mapping) or "generator" not in made:
        return ""
    # sorted, as in a file; lists of numbers are for the file and not for a sentence
    listed = ", ".join(
        f"{key} = {value}" for key, value in sorted(parameters.items()) if not isinstance(value, list)
    )
    seed = f", seed {made['seed']}" if "seed" in made else ""
    return f"Generated by {made['generator']} with {listed}{seed}; stored and used as data."


def _plural(n: int, what: str) -> str:
    return f"{n} {what}" if n == 1 else f"{n} {what}s"

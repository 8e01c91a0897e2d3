"""Hard instances in files: written bit for bit, and read only if all parts make an instance of their family."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from attention import AttentionLayer, FileFormatError
from attention.files import read_tensors, write_tensors
from attention.foreign import escaped, guarded
from attention.inputs import inputs_from_json, inputs_to_json
from attention.validation import checked, real_array
from lower.certificate import Certificate
from lower.family import family_from_json
from lower.instance import HardInstance
from lower.known import KnownComponent

_KIND = "instance"
_MATRICES = ("mixing", "projection")
_METADATA = ("family", "inputs", "certificate", "realisation_error", "parameters")
# scales in files of format 1 differed by 1e-9 between machines
_SCALE_OF_FORMAT_1 = 3e-9
_GONE = {
    "sq-hermite-staircase": "the family sq-hermite-staircase is gone; commit f6c6ba7 of version 0.1.0 reads it last."
}


def tensors_of(instance: HardInstance) -> dict[str, np.ndarray]:
    """The arrays of an instance by their names in its file."""
    layer, known = instance.layer, instance.known
    maps = {"known": known} if known.off is None else {"known_on": known, "known_off": known.off}
    matrices = {f"{which}_{name}": getattr(one, name) for which, one in maps.items() for name in _MATRICES}
    return {"theta": layer.theta, "w": layer.w, "secret": instance.secret, **matrices}


@checked
def save_instance(path: str | Path, instance: HardInstance, *, made: Mapping[str, Any] | None = None) -> None:
    """Write an instance as one safetensors file; `load_instance` gives it back bit for bit.

    `made` may describe how the instance was made, in plain JSON values, for readers of the file. Nothing checks it.

    The file holds theta and w under the names of a layer file, so a program that reads layers also reads the target.
    The two maps of a known component with a gate have their own names, and the gate is in the metadata.
    """
    metadata: dict[str, Any] = {
        "family": instance.family.name,
        "inputs": inputs_to_json(instance.inputs),
        "certificate": instance.certificate.to_json(),
        "realisation_error": instance.realisation_error,
        "parameters": instance.parameters,
    }
    if instance.known.gate is not None:
        metadata["known_gate"] = instance.known.gate
    if made is not None:
        metadata["made"] = dict(made)
    write_tensors(Path(path), _KIND, tensors_of(instance), metadata)


@checked
def load_instance(path: str | Path) -> HardInstance:
    """Read the instance that `save_instance` wrote.

    FileFormatError if the file is missing, truncated or of another kind, its family is not registered or has other
    parameters, or its parts do not make an instance. The packages `sq` and `lwe` register their families.

    Notes
    -----
    Files of format 1 had sentences in place of facts. Neither these nor the error bound beside them are read: both are
    computed anew.
    """
    stored = read_tensors(Path(path), kind=_KIND)
    tensors, metadata = stored.tensors, escaped(stored.metadata)
    if (gone := _GONE.get(str(metadata.get("family")))) is not None:
        raise FileFormatError(f"{path}: {gone}")
    maps = ("known_on", "known_off") if "known_gate" in metadata else ("known",)
    names = ["theta", "w", "secret", *(f"{one}_{name}" for one in maps for name in _MATRICES)]
    missing = [name for name in names if name not in tensors]
    missing += [name for name in _METADATA if name not in metadata]
    if missing:
        raise FileFormatError(f"{path}: the file holds no {', no '.join(missing)}, so it is no instance.")
    return guarded(
        Path(path),
        "its parts make no instance",
        lambda: _assembled([tensors[name] for name in names], metadata),
    )


def unknown_entries(path: str | Path, instance: HardInstance) -> tuple[str, ...]:
    """What an instance's file holds that does not belong to an instance: nothing of it was read."""
    stored = read_tensors(Path(path), kind=_KIND)
    own = {*_METADATA, "made", *(["known_gate"] if instance.known.off else [])}
    tensors = [f"tensor {name}" for name in stored.tensors if name not in tensors_of(instance)]
    names: tuple[str, ...] = escaped(
        (*tensors, *(f"entry {name}" for name in stored.metadata if name not in own))
    )
    return names


def _assembled(arrays: Sequence[np.ndarray], metadata: Mapping[str, Any]) -> HardInstance:
    theta, w, secret, *matrices = arrays
    kinds = [one.dtype.name for one in arrays]
    if kinds[2] != "int64" or {*kinds[:2], *kinds[3:]} - {"float32", "float64"}:
        raise ValueError(
            f"its arrays are {', '.join(kinds)}: int64 is needed for the secret, float64 or float32 for the rest"
        )
    known, *off = [
        KnownComponent(mixing=one, projection=other)
        for one, other in zip(matrices[::2], matrices[1::2], strict=True)
    ]
    if off:
        known = replace(known, gate=metadata["known_gate"], off=off[0])
    given, stated = metadata["certificate"], metadata["parameters"]
    family = family_from_json(metadata["family"], stated)
    stated = family.renamed(stated)
    w_of_file = real_array("direction", stated.get("direction", np.eye(1, theta.shape[-1])[0]))
    first = isinstance(given, Mapping) and "format" not in given and "statements" in given
    if first:
        made = family.realise(family.read_secret(secret), w_of_file)
        facts, error = made.certificate, made.realisation_error
    else:
        facts, error = Certificate.from_json(given), metadata["realisation_error"]
    instance = HardInstance(
        family=family,
        layer=AttentionLayer(theta=theta, w=w),
        inputs=inputs_from_json(metadata["inputs"]),
        secret=secret,
        known=known,
        certificate=facts,
        realisation_error=error,
        direction=w_of_file,
    )
    own = instance.parameters
    if first and "scale" in own and math.isclose(stated["scale"], own["scale"], rel_tol=_SCALE_OF_FORMAT_1):
        stated = {**stated, "scale": own["scale"]}
    if wrong := [name for name in {**stated, **own} if _text(stated.get(name)) != _text(own.get(name))]:
        shown = ", ".join(f"{name} is {stated.get(name)!r:.80}, not {own.get(name)!r:.80}" for name in wrong)
        raise ValueError(f"its parameters are not those of its family: {shown}")
    return instance


def _text(value: Any) -> str:
    """A JSON value as a text; values of different types have different texts."""
    return json.dumps(value, sort_keys=True)

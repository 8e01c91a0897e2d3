"""A hard instance: a layer, its secret, what is known in advance and why it is hard; also as one file."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Int

from attention import AttentionLayer, FileFormatError, Inputs
from attention._arrays import is_numpy
from attention._containers import guarded, tensor_names
from attention.files import read_tensors, write_tensors
from attention.inputs import inputs_from_json, inputs_to_json
from attention.validation import NonNegativeFloat, as_path, checked
from lower.certificate import Certificate
from lower.known import GatedKnownPart, KnownPart, LinearKnownPart

__all__ = ["HardInstance", "load_instance", "save_instance"]

_KIND = "instance"
_TENSORS = ("theta", "w", "secret")
_LINEAR = ("known_mixing", "known_projection")
_GATED = ("known_on_mixing", "known_on_projection", "known_off_mixing", "known_off_projection")
_METADATA = ("family", "inputs", "certificate", "realisation_error", "parameters")


@dataclass(frozen=True, eq=False)
@checked
class HardInstance:
    """A target that is hard to learn, with everything needed to judge a learner on it.

    Parameters
    ----------
    family : str
        The family it was drawn from.
    layer : AttentionLayer
        The target, NumPy parameters.
    inputs : Inputs
        The distribution of the token matrices.
    secret : array of int
        What a learner does not know; its meaning is the family's.
    known : LinearKnownPart or GatedKnownPart
        The part of the target that is the same for every secret.
    certificate : Certificate
        Why the family is hard, and for whom it is not.
    realisation_error : float
        Proved supremum, over all inputs, of the Euclidean norm of a row of `layer` minus the family's ideal
        target, in exact arithmetic on the stored numbers. Evaluating the layer in floating point adds
        rounding of the order of the machine precision times the sum of the heads' coefficients.
    parameters : mapping of str to JSON values
        The family's parameters, all of them public: nothing here depends on the secret.

    Raises
    ------
    ValueError
        If the parts do not fit together.
    """

    family: str
    layer: AttentionLayer
    inputs: Inputs
    secret: Int[np.ndarray, "..."]
    known: KnownPart
    certificate: Certificate
    realisation_error: NonNegativeFloat
    parameters: Mapping[str, Any]

    def __post_init__(self) -> None:
        if self.certificate.family != self.family:
            raise ValueError(
                f"The certificate is of the family {self.certificate.family!r} and the instance of "
                f"{self.family!r}: they must agree."
            )
        if not is_numpy(self.layer.theta):
            raise ValueError("The layer's parameters are not NumPy arrays: convert it with layer.map first.")
        sizes = {"layer": self.layer.dim, "inputs": self.inputs.d, "known part": self.known.d}
        if len(set(sizes.values())) != 1:
            raise ValueError(f"The dimensions differ, {_listed(sizes)}: they must agree.")
        sizes = {"inputs": self.inputs.k, "known part": self.known.k}
        if len(set(sizes.values())) != 1:
            raise ValueError(f"The numbers of tokens differ, {_listed(sizes)}: they must agree.")
        if not self.secret.size:
            raise ValueError("secret is empty: at least one whole number is needed.")
        secret = np.array(self.secret, dtype=np.int64)
        secret.flags.writeable = False
        try:
            parameters = json.loads(json.dumps(dict(self.parameters), allow_nan=False))
        except (TypeError, ValueError) as error:
            raise ValueError(f"The parameters have no JSON form: {error}.") from None
        object.__setattr__(self, "secret", secret)
        object.__setattr__(self, "parameters", parameters)

    @property
    def allowed_error(self) -> float:
        """What a row of the layer may be off its ideal target by when evaluated in its own precision.

        `realisation_error` + 8 eps (1 + sum_i |W_i|) with Frobenius norms and the machine precision eps of the
        layer's numbers. The first part is proved; the second is an allowance for rounding, of its usual order.
        """
        eps = max(float(np.finfo(part.dtype).eps) for part in (self.layer.theta, self.layer.w))
        norms = np.linalg.norm(self.layer.w.astype(np.float64), axis=(1, 2))
        return float(self.realisation_error + 8 * eps * (1 + norms.sum()))

    def __repr__(self) -> str:
        return (
            f"HardInstance(family={self.family!r}, heads={self.layer.heads}, tokens={self.inputs.k}, "
            f"dim={self.layer.dim})"
        )


@checked
def save_instance(path: str | Path, instance: HardInstance, *, made: Mapping[str, Any] | None = None) -> None:
    """Write an instance as one safetensors file; `load_instance` gives it back bit for bit.

    Parameters
    ----------
    path : str or Path
        Where to write.
    instance : HardInstance
        What to write.
    made : mapping, optional
        How the instance was made (command, seed, versions): plain JSON values, for readers of the file only.

    Notes
    -----
    The file holds theta and w under the names of a layer file, so whatever reads layers reads the target too. A
    known part with a gate has its two parts under names of their own, and its gate among the metadata.
    """
    path = as_path(path)
    tensors = {
        "theta": instance.layer.theta,
        "w": instance.layer.w,
        "secret": instance.secret,
    }
    metadata: dict[str, Any] = {
        "family": instance.family,
        "inputs": inputs_to_json(instance.inputs),
        "certificate": instance.certificate.to_json(),
        "realisation_error": instance.realisation_error,
        "parameters": dict(instance.parameters),
    }
    known = instance.known
    if isinstance(known, GatedKnownPart):
        parts = (known.on.mixing, known.on.projection, known.off.mixing, known.off.projection)
        tensors |= dict(zip(_GATED, parts, strict=True))
        metadata["known_gate"] = known.gate
    else:
        tensors |= dict(zip(_LINEAR, (known.mixing, known.projection), strict=True))
    if made is not None:
        metadata["made"] = dict(made)
    write_tensors(path, _KIND, tensors, metadata)


def load_instance(path: str | Path) -> HardInstance:
    """Read the instance that `save_instance` wrote.

    Raises
    ------
    FileFormatError
        If the file is missing, truncated, of another kind, or its parts do not make an instance.
    """
    path = as_path(path)
    stored = read_tensors(path, kind=_KIND)
    tensors, metadata = stored.tensors, stored.metadata
    known = _GATED if "known_gate" in metadata else _LINEAR
    missing = [name for name in (*_TENSORS, *known) if name not in tensors]
    missing += [name for name in _METADATA if name not in metadata]
    if missing:
        raise FileFormatError(f"{path}: the file holds no {', no '.join(missing)}, so it is no instance.")
    return guarded(path, "its parts make no instance", lambda: _assembled(tensors, metadata))


def unknown_tensors(path: str | Path, instance: HardInstance) -> tuple[str, ...]:
    """The tensors of an instance's file that are no part of an instance; only the header is read."""
    parts = {*_TENSORS, *(_GATED if isinstance(instance.known, GatedKnownPart) else _LINEAR)}
    return tuple(name for name in tensor_names(as_path(path)) if name not in parts)


def _assembled(tensors: Mapping[str, np.ndarray], metadata: Mapping[str, Any]) -> HardInstance:
    gated = "known_gate" in metadata
    for name in (*_TENSORS, *(_GATED if gated else _LINEAR)):
        if tensors[name].dtype.kind != ("i" if name == "secret" else "f"):
            raise ValueError(f"{name} is an array of {tensors[name].dtype}")
    if not isinstance(metadata["parameters"], Mapping) or isinstance(metadata["realisation_error"], bool):
        raise ValueError("parameters is no object or realisation_error no number")
    return HardInstance(
        family=metadata["family"],
        layer=AttentionLayer(theta=tensors["theta"], w=tensors["w"]),
        inputs=inputs_from_json(metadata["inputs"]),
        secret=tensors["secret"],
        known=(
            GatedKnownPart(
                gate=metadata["known_gate"],
                on=LinearKnownPart(
                    mixing=tensors["known_on_mixing"], projection=tensors["known_on_projection"]
                ),
                off=LinearKnownPart(
                    mixing=tensors["known_off_mixing"], projection=tensors["known_off_projection"]
                ),
            )
            if gated
            else LinearKnownPart(mixing=tensors["known_mixing"], projection=tensors["known_projection"])
        ),
        certificate=Certificate.from_json(metadata["certificate"]),
        realisation_error=metadata["realisation_error"],
        parameters=metadata["parameters"],
    )


def _listed(sizes: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {size}" for name, size in sizes.items())

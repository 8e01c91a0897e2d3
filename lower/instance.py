"""A hard instance: a layer, its secret, its known part and its certificate; also stored as one file."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Int

from attention import AttentionLayer, FileFormatError, Inputs
from attention.files import guarded, read_tensors, tensor_types, write_tensors
from attention.foreign import escaped
from attention.inputs import inputs_from_json, inputs_to_json
from attention.validation import NonNegativeFloat, checked
from lower.certificate import Certificate
from lower.known import GatedKnownPart, KnownPart, LinearKnownPart

__all__ = ["HardInstance", "load_instance", "save_instance"]

_KIND = "instance"
_PARTS = ("theta", "w", "secret")
_KNOWN = ("known_mixing", "known_projection")
_GATED = ("known_on_mixing", "known_on_projection", "known_off_mixing", "known_off_projection")
_METADATA = ("family", "inputs", "certificate", "realisation_error", "parameters")


@dataclass(frozen=True, eq=False)
@checked
class HardInstance:
    """A target that is hard to learn, with everything needed to judge a learner on it.

    ValueError if the parts do not fit together.
    """

    family: str  #: the family it was drawn from
    layer: AttentionLayer  #: the target, NumPy parameters
    inputs: Inputs  #: the distribution of the token matrices
    secret: Int[np.ndarray, "..."]  #: what a learner does not know; the family defines its meaning
    known: KnownPart  #: the part of the target that is the same for every secret
    certificate: Certificate  #: why the family is hard, and for whom it is not
    #: Proved supremum, over all inputs, of the Euclidean norm of a row of `layer` minus the family's ideal target,
    #: in exact arithmetic on the stored numbers. Floating point adds rounding errors to an evaluation; their order is
    #: the machine precision times the sum of the heads' coefficients.
    realisation_error: NonNegativeFloat
    #: the family's parameters, all of them public: nothing here depends on the secret
    parameters: Mapping[str, Any]

    def __post_init__(self) -> None:
        if self.certificate.family != self.family:
            raise ValueError(
                f"The certificate is of the family {self.certificate.family!r} and the instance of "
                f"{self.family!r}: they must agree."
            )
        if self.layer.biased:
            raise ValueError("The layer has biases: hard instances are layers without.")
        if not isinstance(self.layer.theta, np.ndarray):
            raise ValueError("The layer's parameters are not NumPy arrays: convert it with layer.map first.")
        sizes = {"layer": self.layer.dim, "inputs": self.inputs.d, "known part": self.known.d}
        if len(set(sizes.values())) != 1:
            raise ValueError(f"The dimensions differ, {sizes}: they must agree.")
        sizes = {"inputs": self.inputs.k, "known part": self.known.k}
        if len(set(sizes.values())) != 1:
            raise ValueError(f"The numbers of tokens differ, {sizes}: they must agree.")
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
        """The allowed error of a row of the layer against its ideal target, evaluated in the layer's precision.

        `realisation_error` + 8 eps (1 + sum_i |W_i|) with Frobenius norms and the machine precision eps of the
        layer's numbers. The first part is proved; the second is an allowance for rounding of the usual order.
        """
        eps = max(float(np.finfo(part.dtype).eps) for part in (self.layer.theta, self.layer.w))
        norms = np.linalg.norm(self.layer.w.astype(np.float64), axis=(1, 2))
        return float(self.realisation_error + 8 * eps * (1 + norms.sum()))

    def __repr__(self) -> str:
        return (
            f"HardInstance(family={self.family!r}, heads={self.layer.heads}, tokens={self.inputs.k}, "
            f"dim={self.layer.dim})"
        )


def tensors_of(instance: HardInstance) -> dict[str, np.ndarray]:
    """The arrays of an instance by their names in its file."""
    known, names = instance.known, (*_PARTS, *_names(isinstance(instance.known, GatedKnownPart)))
    parts = (known.on, known.off) if isinstance(known, GatedKnownPart) else (known,)
    matrices = [one for part in parts for one in (part.mixing, part.projection)]
    arrays = (instance.layer.theta, instance.layer.w, instance.secret, *matrices)
    return dict(zip(names, arrays, strict=True))


@checked
def save_instance(path: str | Path, instance: HardInstance, *, made: Mapping[str, Any] | None = None) -> None:
    """Write an instance as one safetensors file; `load_instance` gives it back bit for bit.

    `made` may describe how the instance was made, in plain JSON values, for readers of the file.

    The file holds theta and w under the names of a layer file, so a program that reads layers also reads the target.
    The two parts of a known part with a gate have their own names, and the gate is in the metadata.
    """
    metadata: dict[str, Any] = {
        "family": instance.family,
        "inputs": inputs_to_json(instance.inputs),
        "certificate": instance.certificate.to_json(),
        "realisation_error": instance.realisation_error,
        "parameters": dict(instance.parameters),
    }
    if isinstance(instance.known, GatedKnownPart):
        metadata["known_gate"] = instance.known.gate
    if made is not None:
        metadata["made"] = dict(made)
    write_tensors(Path(path), _KIND, tensors_of(instance), metadata)


@checked
def load_instance(path: str | Path) -> HardInstance:
    """Read the instance that `save_instance` wrote.

    FileFormatError if the file is missing, truncated, of another kind, or its parts do not make an instance.
    """
    stored = read_tensors(Path(path), kind=_KIND)
    tensors, metadata = stored.tensors, escaped(stored.metadata)
    names = (*_PARTS, *_names("known_gate" in metadata))
    missing = [name for name in names if name not in tensors]
    missing += [name for name in _METADATA if name not in metadata]
    if missing:
        raise FileFormatError(f"{path}: the file holds no {', no '.join(missing)}, so it is no instance.")
    return guarded(
        Path(path),
        "its parts make no instance",
        lambda: _assembled([tensors[name] for name in names], metadata),
    )


def unknown_tensors(path: str | Path, instance: HardInstance) -> tuple[str, ...]:
    """The tensors in an instance's file that do not belong to an instance; only the header is read."""
    return tuple(name for name in tensor_types(Path(path)) if name not in tensors_of(instance))


def _names(gated: bool) -> tuple[str, ...]:
    return _GATED if gated else _KNOWN


def _assembled(arrays: Sequence[np.ndarray], metadata: Mapping[str, Any]) -> HardInstance:
    theta, w, secret, *matrices = arrays
    kinds = [one.dtype.name for one in arrays]
    if kinds != ["float64", "float64", "int64"] + ["float64"] * len(matrices):
        raise ValueError(
            f"its arrays are {', '.join(kinds)}: int64 is needed for the secret, float64 for the rest"
        )
    parts = [
        LinearKnownPart(mixing=one, projection=other)
        for one, other in zip(matrices[::2], matrices[1::2], strict=True)
    ]
    return HardInstance(
        layer=AttentionLayer(theta=theta, w=w),
        inputs=inputs_from_json(metadata["inputs"]),
        secret=secret,
        known=parts[0] if len(parts) == 1 else GatedKnownPart(metadata["known_gate"], *parts),
        certificate=Certificate.from_json(metadata["certificate"]),
        **{name: metadata[name] for name in ("family", "realisation_error", "parameters")},
    )

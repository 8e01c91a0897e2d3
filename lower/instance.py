"""A hard instance: a layer, its secret, its known component and its certificate."""

import json
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from attention import AttentionLayer, Inputs
from attention.validation import NonNegativeFloat, checked
from lower.certificate import Certificate
from lower.known import KnownComponent


@dataclass(frozen=True, eq=False)
@checked
class HardInstance:
    """A target that is hard to learn, with everything needed to judge a learner on it.

    ValueError if the parts do not fit together.
    """

    family: Any  #: the `Family` it was drawn from
    layer: AttentionLayer  #: the target, NumPy parameters
    inputs: Inputs  #: the distribution of the token matrices
    secret: Int[np.ndarray, "..."]  #: what a learner does not know; the family defines its meaning
    known: KnownComponent  #: the part of the target that is the same for every secret
    certificate: Certificate  #: why the family is hard, and for whom it is not
    #: Proved supremum, over all inputs, of the Euclidean norm of a row of `layer` minus the family's ideal target,
    #: in exact arithmetic on the stored numbers. Floating point adds rounding errors to an evaluation; their order is
    #: the machine precision times the sum of the heads' coefficients.
    realisation_error: NonNegativeFloat
    direction: Float[np.ndarray, " d"]  #: the output direction w, of norm 1

    def __post_init__(self) -> None:
        if self.certificate.family != getattr(self.family, "name", None):
            raise ValueError(
                f"The certificate is of the family {self.certificate.family!r} and the instance of "
                f"{self.family!r}: a family of that name is needed."
            )
        if self.layer.biased:
            raise ValueError("The layer has biases: hard instances are layers without.")
        if not isinstance(self.layer.theta, np.ndarray):
            raise ValueError("The layer's parameters are not NumPy arrays: convert it with layer.map first.")
        dims = {"layer": self.layer.dim, "inputs": self.inputs.dim, "known component": self.known.dim}
        dims["direction"] = len(self.direction)
        tokens = {"inputs": self.inputs.tokens, "known component": self.known.tokens}
        for what, sizes in (("dimensions", dims), ("numbers of tokens", tokens)):
            if len(set(sizes.values())) != 1:
                raise ValueError(f"The {what} differ, {sizes}: they must agree.")
        if not self.secret.size:
            raise ValueError("secret is empty: at least one whole number is needed.")
        secret = np.array(self.secret, dtype=np.int64)
        secret.flags.writeable = False
        object.__setattr__(self, "secret", secret)

    @property
    def parameters(self) -> dict[str, Any]:
        """What files say of the family and the direction, in plain JSON values; nothing depends on the secret."""
        plain: dict[str, Any] = json.loads(
            json.dumps({**self.family.to_json(), **self.family.public(self.direction)})
        )
        return plain

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
            f"HardInstance(family={self.family.name!r}, heads={self.layer.heads}, tokens={self.inputs.tokens}, "
            f"dim={self.layer.dim})"
        )

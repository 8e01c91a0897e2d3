"""How labels split into the part known in advance and the hidden part that the secret determines."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from attention.validation import PositiveFloat, checked, real_array
from lower import FAMILIES, HardInstance, KnownPart, family_of
from lower.low_degree import FlipRate

__all__ = ["HiddenPart"]


@dataclass(frozen=True, eq=False)
@checked
class HiddenPart:
    """The public facts of a target F = K + scale f w^T, which turn labels into values of f and back.

    ValueError if the direction does not fit the known part or is not of norm 1, or the scale is not above 0.
    """

    known: KnownPart  #: K
    direction: Float[np.ndarray, " d"]  #: w, of norm 1
    scale: PositiveFloat = 1.0  #: the factor of f, which has norm 1
    noise: FlipRate = 0.0  #: the rate at which labels have the sign of f flipped

    def __post_init__(self) -> None:
        with np.errstate(over="ignore"):  # an infinite norm is not 1 either
            norm = float(np.linalg.norm(self.direction))
        if len(self.direction) != self.known.dim or abs(norm - 1) > 1e-9:
            raise ValueError(
                f"direction has {len(self.direction)} entries, norm {norm:.6g}: {self.known.dim} of norm 1 are needed."
            )

    @classmethod
    @checked
    def of(cls, instance: HardInstance) -> "HiddenPart":
        """The public facts of an instance: its known part, and its parameters "direction" and "scale" (default 1).

        ValueError if the instance has no direction for its hidden part.
        """
        public = instance.parameters
        if "direction" not in public:
            raise ValueError(
                f'The instance of the family {instance.family!r} has no parameter "direction": the vector w of its '
                "hidden part is needed."
            )
        noise = getattr(family_of(instance), "noise", 0.0) if instance.family in FAMILIES else 0.0
        direction = real_array("direction", public["direction"])
        return cls(instance.known, direction, public.get("scale", 1.0), noise)

    def of_labels(
        self, x: Float[np.ndarray, "n k d"], y: Float[np.ndarray, "n k d"]
    ) -> Float[np.ndarray, "n k"]:
        """The hidden part that labels show, row by row: <Y - K(X), w> / (scale (1 - 2 eta)), right in the mean."""
        return (y - self.known(x)) @ self.direction / (self.scale * (1 - 2 * self.noise))

    def labels(
        self, x: Float[np.ndarray, "n k d"], hidden: Float[np.ndarray, "n k"]
    ) -> Float[np.ndarray, "n k d"]:
        """The labels K(X) + scale f w^T."""
        return self.known(x) + self.scale * hidden[..., None] * self.direction

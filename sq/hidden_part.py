"""How labels split into the part known in advance and the hidden part that a secret decides."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from attention.validation import non_negative, real_array, require_finite, require_instance, require_shape
from lower import GatedKnownPart, HardInstance, KnownPart, LinearKnownPart
from sq.target_family import require_hard_instance

__all__ = ["HiddenPart"]


@dataclass(frozen=True, eq=False)
class HiddenPart:
    """The public facts of a target F = K + scale f w^T, which turn labels into values of f and back.

    Attributes
    ----------
    known : KnownPart
        K.
    direction : array (d,)
        w, of norm 1.
    scale : float
        What f, of norm 1, is multiplied with.

    Raises
    ------
    ValueError
        If the direction does not fit the known part or is not of norm 1, or the scale is not above 0.
    """

    known: KnownPart
    direction: Float[np.ndarray, " d"]
    scale: float = 1.0

    def __post_init__(self) -> None:
        require_instance(
            "known",
            self.known,
            LinearKnownPart | GatedKnownPart,
            needed="a LinearKnownPart or GatedKnownPart",
        )
        require_shape("direction", self.direction, (self.known.d,))
        require_finite("direction", self.direction)
        with np.errstate(over="ignore"):  # an infinite norm is not 1 either
            norm = float(np.linalg.norm(self.direction))
        if abs(norm - 1) > 1e-9:
            raise ValueError(f"direction has norm {norm:.6g}: a vector of norm 1 is needed.")
        object.__setattr__(self, "scale", non_negative("scale", self.scale, strictly=True))

    @classmethod
    def of(cls, instance: HardInstance) -> "HiddenPart":
        """What an instance makes public: its known part, and "direction" and "scale" (1 if left out) of its parameters.

        Raises
        ------
        ValueError
            If the instance does not say along which direction its hidden part lies.
        """
        require_hard_instance(instance)
        direction = instance.parameters.get("direction")
        if direction is None:
            raise ValueError(
                f'The instance of the family {instance.family!r} has no parameter "direction": the vector w of its '
                "hidden part is needed."
            )
        scale = instance.parameters.get("scale", 1.0)
        return cls(instance.known, real_array("The instance's direction", direction), scale)

    def of_labels(
        self, x: Float[np.ndarray, "n k d"], y: Float[np.ndarray, "n k d"]
    ) -> Float[np.ndarray, "n k"]:
        """The hidden part that labels show: <Y - K(X), w> / scale, row by row."""
        return (y - self.known(x)) @ self.direction / self.scale

    def labels(
        self, x: Float[np.ndarray, "n k d"], hidden: Float[np.ndarray, "n k"]
    ) -> Float[np.ndarray, "n k d"]:
        """The labels K(X) + scale f w^T."""
        return self.known(x) + self.scale * hidden[..., None] * self.direction

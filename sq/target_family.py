"""The protocol of a family of hard targets: numbered targets whose hidden parts have known correlations."""

from typing import Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float

from attention.inputs import Rng
from lower import HardInstance
from sq.secret_set import SecretSet

__all__ = ["TargetFamily"]


@runtime_checkable
class TargetFamily(Protocol):
    """Targets F_S = K + scale f_S w^T, one per secret S: a part K known in advance and a hidden part of norm 1.

    All code that asks, counts or bounds queries uses only these members of a family. The hidden parts f_S map Boolean
    token matrices X to one number per row, with E sum_a f_S(X)_a^2 = 1 over uniform X; w is a unit vector.
    """

    @property
    def name(self) -> str:
        """The family's name, such as "sq-parity"."""

    @property
    def tokens(self) -> int:
        """The number k of tokens."""

    @property
    def dim(self) -> int:
        """The number d of coordinates of a token."""

    @property
    def secrets(self) -> SecretSet:
        """The secrets S and their numbers."""

    @property
    def orthonormal(self) -> bool:
        """Whether the hidden parts are known to be pairwise orthogonal."""

    @property
    def scale(self) -> float:
        """The norm of the hidden part within the layer; f_S is divided by it."""

    def hidden(self, number: int, x: Float[np.ndarray, "n k d"]) -> Float[np.ndarray, "n k"]:
        """f_S on Boolean token matrices, by its definition, not by attention heads."""

    def correlations(self, number: int) -> Float[np.ndarray, " N"]:
        """E sum_a f_S(X)_a f_T(X)_a for every T, in closed form."""

    def instance(self, number: int | None = None, *, rng: Rng = None) -> HardInstance:
        """The target of that number, or a random one drawn with `rng`, as attention heads with a certificate."""

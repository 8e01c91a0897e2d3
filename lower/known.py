"""The known component of a hard target, which everyone knows in advance: linear in the tokens, or on and off a gate."""

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Optional

import array_api_compat
import numpy as np
from jaxtyping import Float, Shaped

from attention._arrays import as_floating, namespace, shown
from attention.memory import require_memory
from attention.validation import NonNegativeInt, PositiveInt, checked, require_array


@dataclass(frozen=True, eq=False)
@checked
class KnownComponent:
    """The known component K(X) = M X P of a target: a mixing M of the tokens, a projection P of the coordinates.

    Errors on hard targets are measured against the target's energy without K, because a learner that finds only K has
    found nothing hidden.

    For more than two tokens "the tokens differ in coordinate g" is not a linear function of them. With a `gate` g this
    map holds where they differ in it, and the map `off` where they agree.

    ValueError if only one of gate and `off` is given, the two maps have different sizes, or the gate is not one of
    their coordinates.

    Examples
    --------
    >>> import numpy as np
    >>> known = KnownComponent.from_gate(-3.0, 1.0, gate=0, direction=np.array([1.0, 0.0]))
    >>> known(np.array([[1.0, 1.0], [1.0, -1.0]]))  # off the gate: C x_11 in both rows
    array([[-3.,  0.],
           [-3.,  0.]])
    >>> known(np.array([[1.0, 1.0], [-1.0, 1.0]]))  # on the gate: c0 x_11, c0 x_21
    array([[ 1.,  0.],
           [-1.,  0.]])
    """

    mixing: Float[np.ndarray, "k k"]  #: M: how the tokens are mixed
    projection: Float[np.ndarray, "d d"]  #: P: it multiplies each mixed token
    gate: NonNegativeInt | None = None  #: g; None if one map holds everywhere
    off: Optional["KnownComponent"] = None  #: K(X) where x_1g, ..., x_kg are all equal
    stream_name: ClassVar = (
        "lower.known.LinearKnownPart"  #: comparisons draw their random numbers by this name
    )

    def __post_init__(self) -> None:
        for name in ("mixing", "projection"):
            array = np.array(getattr(self, name))
            array.flags.writeable = False
            object.__setattr__(self, name, array)
        if self.gate is None and self.off is None:
            return
        if self.gate is None or self.off is None:
            raise ValueError(f"gate is {self.gate} and off is {self.off}: both are needed, or neither.")
        sizes = (self.tokens, self.dim), (self.off.tokens, self.off.dim)
        if sizes[0] != sizes[1]:
            raise ValueError(
                f"The map on the gate is for (k, d) = {sizes[0]}, off it for {sizes[1]}: they must agree."
            )
        if self.gate >= self.dim:
            raise ValueError(f"gate is {self.gate}: a coordinate from 0 to {self.dim - 1} is needed.")

    @classmethod
    @checked
    def zero(cls, tokens: PositiveInt, dim: PositiveInt) -> "KnownComponent":
        """Nothing known in advance about a target on `tokens` tokens in `dim` coordinates."""
        what = f"A known component of {shown(tokens)} tokens in {shown(dim)} dimensions"
        require_memory(what, 16 * (tokens**2 + dim**2), advice="take fewer tokens or fewer dimensions")
        return cls(mixing=np.zeros((tokens, tokens)), projection=np.zeros((dim, dim)))

    @classmethod
    @checked
    def from_gate(
        cls, c: float, c0: float, *, gate: NonNegativeInt, direction: Float[np.ndarray, " d"]
    ) -> "KnownComponent":
        """K = C a_g [1; 1] w^T + c0 u_g [1; -1] w^T: C appears off the gate g of two tokens, c0 on it.

        With a = (x_1 + x_2)/2, u = (x_1 - x_2)/2 and the output direction w: one linear map, for two tokens.
        """
        if gate >= len(direction):
            raise ValueError(f"gate is {gate}: a coordinate from 0 to {len(direction) - 1} is needed.")
        projection = np.zeros((len(direction), len(direction)))
        projection[gate] = direction
        own, other = c / 2 + c0 / 2, c / 2 - c0 / 2
        return cls(mixing=np.array([[own, other], [other, own]]), projection=projection)

    @property
    def tokens(self) -> int:
        """The number of tokens."""
        return int(self.mixing.shape[0])

    @property
    def dim(self) -> int:
        """The number of coordinates of a token."""
        return int(self.projection.shape[0])

    @property
    def is_zero(self) -> bool:
        """Whether nothing is known in advance."""
        return not (self.mixing.any() and self.projection.any()) and (self.off is None or self.off.is_zero)

    def __call__(self, x: Shaped[Any, "*batch k d"]) -> Shaped[Any, "*batch k d"]:
        """K on the token matrices `x`, in the array type of `x`; O(n k d (k + d))."""
        xp = namespace(x)
        if x.ndim < 2 or tuple(x.shape[-2:]) != (self.tokens, self.dim):
            raise ValueError(f"x has shape {tuple(x.shape)}: (..., {self.tokens}, {self.dim}) is needed.")
        x = as_floating(x, xp.asarray(0.0).dtype, xp)
        mixing, projection = (
            # a copy: torch warns about read-only memory
            xp.asarray(np.array(array), dtype=x.dtype, device=array_api_compat.device(x))
            for array in (self.mixing, self.projection)
        )
        with np.errstate(over="ignore", invalid="ignore"):  # the check finds overflows
            known = xp.matmul(mixing, xp.matmul(x, projection))
        require_array("The known component of x", known)
        if self.off is None:
            return known
        column = x[..., self.gate]
        differ = xp.any(column != column[..., :1], axis=-1)
        return xp.where(differ[..., None, None], known, self.off(x))

    def describe(self) -> str:
        """What is known, as sentences."""
        if self.is_zero:
            return "Nothing is known in advance: the known component is zero."
        if self.off is not None:
            on = replace(self, gate=None, off=None)
            return (
                f"Where the tokens differ in coordinate {self.gate}: {on.describe()} "
                f"Where they agree in it: {self.off.describe()}"
            )
        rank = int(np.linalg.matrix_rank(self.projection))
        rows = "; ".join(" ".join(f"{one:.6g}" for one in row) for row in self.mixing)
        return (
            f"Known in advance: K(X) = M X P with the mixing M = [{rows}] of the {self.tokens} tokens "
            f"and a projection P of rank {rank} in {self.dim} coordinates."
        )

"""The norms of transformers: LayerNorm and RMSNorm, row by row."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from jaxtyping import Float, Shaped

from attention._arrays import as_floating, namespace
from attention.layer import own_arrays, writeable
from attention.validation import NonNegativeFloat, checked


@dataclass(frozen=True, eq=False)
@checked
class Norm:
    """n(x) gain + offset, with n(x) = x / sqrt(mean(x^2) + eps), after the mean of x is taken off if it is centred.

    Parameters
    ----------
    gain : array (d,)
        What each coordinate is multiplied by.
    offset : array (d,)
        What is added to it.
    eps : float
        What keeps the norm of a zero token finite.
    centred : bool
        LayerNorm takes the mean off, RMSNorm does not.

    Examples
    --------
    >>> import numpy as np
    >>> Norm.plain(4)(np.array([1.0, 2.0, 3.0, 2.0])).round(3)
    array([-1.414,  0.   ,  1.414,  0.   ])
    """

    gain: Shaped[Any, " d"]
    offset: Shaped[Any, " d"]
    eps: NonNegativeFloat = 1e-5
    centred: bool = True

    def __post_init__(self) -> None:
        for name, array in own_arrays({"gain": self.gain, "offset": self.offset}).items():
            object.__setattr__(self, name, array)

    @classmethod
    def plain(cls, dim: int, eps: float = 1e-5, *, centred: bool = True) -> "Norm":
        """The norm with gains of 1 and no offset."""
        return cls(np.ones(dim), np.zeros(dim), eps, centred)

    @classmethod
    def from_torch(cls, module: Any) -> "Norm":
        """The norm of a ``torch.nn.LayerNorm`` or ``torch.nn.RMSNorm`` on one axis; a ValueError for another module."""
        kind = type(module).__name__
        if kind not in ("LayerNorm", "RMSNorm") or len(module.normalized_shape) != 1:
            raise ValueError(f"A norm is a {kind}: a LayerNorm or RMSNorm of one axis is needed.")
        plain = cls.plain(module.normalized_shape[0])
        gain, offset = (
            default if tensor is None else tensor.detach().double().numpy()
            for tensor, default in (
                (module.weight, plain.gain),
                (getattr(module, "bias", None), plain.offset),
            )
        )
        eps = np.finfo(np.float64).eps if module.eps is None else module.eps
        return cls(gain, offset, float(eps), centred=kind == "LayerNorm")

    def map(self, convert: Callable[[Any], Any]) -> "Norm":
        """The same norm with `convert` applied to its arrays."""
        gain, offset = (convert(writeable(array)) for array in (self.gain, self.offset))
        return replace(self, gain=gain, offset=offset)

    @property
    def dim(self) -> int:
        """The number d of coordinates of a token."""
        return int(self.gain.shape[0])

    def __call__(self, x: Shaped[Any, "*batch d"]) -> Shaped[Any, "*batch d"]:
        """The norm of each token, in the array type of `x`."""
        xp = namespace(x, self.gain)
        x = as_floating(x, self.gain.dtype, xp)
        gain, offset = (xp.astype(array, x.dtype) for array in (self.gain, self.offset))
        if self.centred:
            x = x - xp.mean(x, axis=-1, keepdims=True)
        size = xp.sqrt(xp.mean(x * x, axis=-1, keepdims=True) + self.eps)
        return x / xp.where(size > 0, size, xp.ones_like(size)) * gain + offset

    def derivative(
        self, x: Float[np.ndarray, "n d"], along: Float[np.ndarray, "#n k d"]
    ) -> Float[np.ndarray, "n k d"]:
        """The change of the plain norm at the tokens `x` along directions; gains and offset do not count."""
        if self.centred:
            x, along = (v - v.mean(axis=-1, keepdims=True) for v in (x, along))
        size = np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + self.eps)
        n = (x / size)[:, None]
        return (along - n * np.mean(n * along, axis=-1, keepdims=True)) / size[:, None]

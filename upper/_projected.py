"""The normal operator of a layer's derivative with its linear factor eliminated, J^T (I - Z G^-1 Z^T) J."""

from typing import Any

from jaxtyping import Shaped

from upper.engine import Engine

__all__ = ["ProjectedGram"]


class ProjectedGram:
    """Products with J^T (I - Z G^-1 Z^T) J at one point after another.

    Parameters
    ----------
    engine : Engine
        Where to compute: products are in its low precision, results in its single one.
    jacobian : object
        With `times` and `transpose_times`, in the low precision.
    shape : (int, int)
        The shape (n k, columns) of the reads Z.
    dim : int
        The dimension d of outputs.

    Notes
    -----
    A product costs one with J, one with its transpose and two with Z. It holds n k (columns + d) numbers in low
    precision.
    """

    def __init__(self, engine: Engine, jacobian: Any, shape: tuple[int, int], dim: int) -> None:
        self._engine, self._jacobian = engine, jacobian
        self._read = engine.empty(shape, engine.low)
        self._part = engine.empty((shape[0], dim), engine.low)
        self._inverse: Any = None

    def move_to(self, read: Shaped[Any, "rows columns"], inverse: Shaped[Any, "columns columns"]) -> None:
        """Go to these reads Z, which are copied, and G^-1 in single precision."""
        self._read = self._engine.cast(read, self._engine.low, out=self._read)
        self._inverse = inverse

    def pull(self, flat: Shaped[Any, "rows d"]) -> Shaped[Any, "d directions"]:
        """J^T R of outputs R in low precision."""
        return self._engine.cast(self._jacobian.transpose_times(flat), self._engine.single)

    def times(self, direction: Shaped[Any, "d directions"]) -> Shaped[Any, "d directions"]:
        """J^T (I - Z G^-1 Z^T) J p."""
        engine = self._engine
        change = self._jacobian.times(direction)
        inner = engine.matmul(engine.xp.matrix_transpose(self._read), change)
        inner = engine.matmul(self._inverse, engine.cast(inner, engine.single))
        change -= engine.matmul(self._read, engine.cast(inner, engine.low), out=self._part)
        return self.pull(change)

"""The linear factor of a layer by least squares on what its heads read: W of the full solver, O of the factored one."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Shaped

from upper.engine import Engine

__all__ = ["DOUBLE_BELOW", "RIDGE", "Elimination", "LinearFit"]

DOUBLE_BELOW = 2e-5
"""Below this residual float32 patterns are too coarse to measure the next one by."""
RIDGE = 1e-6
"""The ridge on the linear factor, in units of the mean diagonal of G, at the least."""


@dataclass(frozen=True, eq=False)
class LinearFit:
    """A linear factor by least squares; where numbers overflow its residual is infinite and its arrays are None.

    Attributes
    ----------
    factor : array (columns, d)
        The factor, in double precision, for labels over their largest entry.
    residual : float
        The norm of the residual over that of the labels.
    size : float
        The norm of the residual.
    misfit : array (rows, d)
        The residual over its norm, in single precision.
    inverse : array (columns, columns)
        The inverse of G = Z^T Z with the ridge, in single precision.
    """

    factor: Shaped[Any, "columns d"] | Any
    residual: float
    size: float
    misfit: Shaped[Any, "rows d"] | Any
    inverse: Shaped[Any, "columns columns"] | Any


_OVERFLOWED = LinearFit(None, math.inf, math.inf, None, None)


class Elimination:
    """Fits of the labels by reads Z times a factor, in one precision at a time.

    Parameters
    ----------
    engine : Engine
        Where to compute.
    y : array (n, k, d)
        Labels, in any precision.
    ridge : float
        The ridge in units of the mean diagonal of G, at the least.

    Attributes
    ----------
    unit : float
        The largest entry of the labels; what is fitted is the labels over it.
    dtype : dtype
        The precision of reads and residuals: single at first.
    """

    def __init__(self, engine: Engine, y: Shaped[Any, "n k d"], *, ridge: float) -> None:
        xp = engine.xp
        self._engine, self._y, self._ridge = engine, y, ridge
        self.unit = float(xp.max(xp.abs(y))) or 1.0
        self.go_to(engine.single)

    def go_to(self, dtype: Any) -> None:
        """Go over to another precision of reads and residuals."""
        engine = self._engine
        labels = engine.cast(self._y, engine.double) / self.unit
        self.dtype = dtype
        self._labels = engine.cast(engine.xp.reshape(labels, (-1, self._y.shape[2])), dtype)
        self._scale = engine.norm(self._labels) or 1.0

    def fit(
        self, read: Shaped[Any, "rows columns"], before: Shaped[Any, "columns d"] | None, damping: float
    ) -> LinearFit:
        """The factor for these reads as one correction of that `before`, or of zero.

        Parameters
        ----------
        read : array (rows, columns)
            The reads Z, in the precision gone to.
        before : array (columns, d) or None
            A factor towards which the ridge pulls, and not towards zero.
        damping : float
            The Levenberg-Marquardt parameter lambda: the ridge is at least 1e-3 min(lambda, 1) times the mean diagonal
            of G.
        """
        engine, xp, labels = self._engine, self._engine.xp, self._labels
        if before is None:
            shape = (read.shape[1], labels.shape[1])
            factor, misfit = xp.zeros(shape, dtype=engine.double, device=engine.device), labels
        else:
            factor = before
            misfit = labels - engine.matmul(read, engine.cast(factor, labels.dtype))
        size = engine.norm(misfit)
        if not np.isfinite(size):
            return _OVERFLOWED
        inverse = self._inverse_gram(read, damping)
        if size > 0:
            pull = engine.matmul(xp.matrix_transpose(read), misfit * (1 / size))
            change = engine.matmul(inverse, engine.cast(pull, engine.single))
            factor = factor + size * engine.cast(change, engine.double)
            misfit = labels - engine.matmul(read, engine.cast(factor, labels.dtype))
            size = engine.norm(misfit)
        if not np.isfinite(size):
            return _OVERFLOWED
        misfit = engine.cast(misfit * (1 / (size or 1.0)), engine.single)
        return LinearFit(
            factor=factor, residual=size / self._scale, size=size, misfit=misfit, inverse=inverse
        )

    def _inverse_gram(self, read: Any, damping: float) -> Any:
        engine = self._engine
        gram = engine.gram(engine.cast(read, engine.single))
        p = gram.shape[0]
        mean = float(engine.xp.linalg.trace(gram)) / p
        ridge = max(self._ridge, 1e-3 * min(damping, 1.0)) * mean or 1.0
        gram = gram + ridge * engine.xp.eye(p, dtype=engine.single, device=engine.device)
        return engine.inverse_of_positive(gram)

"""The linear algebra of one Gauss-Newton step: the linear factor eliminated, the damped normal equations solved."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Shaped

from attention._arrays import to_numpy
from upper.engine import Engine

__all__ = ["RIDGE", "Elimination", "LinearFit", "NormalEquations"]

RIDGE = 1e-6
"""The least ridge on the linear factor, in units of the mean diagonal of G."""
# Directions kept from the last solves: 30 took 15 to 20 per cent off the steps, more cost as much time as they save.
_KEPT = 30


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
    """Fits of the labels by reads Z times a factor (W at full rank, O at low rank), in one precision at a time.

    Parameters
    ----------
    engine : Engine
        Where to compute.
    y : array (n, k, d)
        Labels, in any precision.
    ridge : float
        The least ridge, in units of the mean diagonal of G.

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
        """The factor for the reads Z as one correction of the factor `before`, or of zero.

        The ridge pulls towards `before`; it is at least 1e-3 min(damping, 1) times the mean diagonal of G.
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
        engine, xp = self._engine, self._engine.xp
        read = engine.cast(read, engine.single)
        gram = engine.matmul(xp.matrix_transpose(read), read)
        p = gram.shape[0]
        mean = float(xp.linalg.trace(gram)) / p
        ridge = max(self._ridge, 1e-3 * min(damping, 1.0)) * mean or 1.0
        gram = gram + ridge * xp.eye(p, dtype=engine.single, device=engine.device)
        return engine.inverse_of_positive(gram)


class NormalEquations:
    """Solves (J^T (I - Z G^-1 Z^T) J + lambda D) s = J^T R by preconditioned conjugate gradients.

    Parameters
    ----------
    engine : Engine
        Products are in its low precision, the vectors of the iteration in its single one.
    heads : FullHeads, LowRankHeads or SpanHeads
        What is differentiated: J, its transpose, the damping lambda D and the preconditioner M.

    Notes
    -----
    A step costs a product with J, one with its transpose, two with Z and one with the preconditioner. That is M
    deflated by the last 30 directions: with them as columns of S, Y = (A + lambda D) S and E = S^T Y it is
    (I - S E^-1 Y^T) M (I - Y E^-1 S^T) + S E^-1 S^T. Memory: n k (columns of Z + d) numbers in low precision, and 60
    directions, 150 while a preconditioner is made.

    References
    ----------
    The limited-memory preconditioner of Gratton, Sartenaer and Tshimanga, SIAM J. Optim. 21 (2011).
    """

    def __init__(self, engine: Engine, heads: Any) -> None:
        n, k, d = heads.x.shape
        self._engine, self._heads = engine, heads
        self._read = engine.empty((n * k, heads.columns), engine.low)
        self._part = engine.empty((n * k, d), engine.low)
        self._inverse: Any = None
        # directions p with their products A p, at unit p^T (A + lambda D) p; the oldest first
        self._kept: list[tuple[Any, Any]] = []

    def move_to(self, read: Shaped[Any, "rows columns"], inverse: Shaped[Any, "columns columns"]) -> None:
        """Go to the point where the heads are: its reads Z, which are copied, and G^-1 in single precision."""
        self._read = self._engine.cast(read, self._engine.low, out=self._read)
        self._inverse = inverse

    def forget(self) -> None:
        """Drop the directions kept: the parameters have been replaced by others of the same heads."""
        self._kept.clear()

    def solve(
        self, residual: Shaped[Any, "rows d"], damping: float, *, forcing: float, at_most: int
    ) -> tuple[Shaped[Any, "p directions"], int]:
        """The solution to the relative accuracy `forcing`, in the preconditioner's norm, and the steps taken.

        It ends early where rounding leaves no positive curvature.
        """
        engine, damped = self._engine, self._heads.damping_term(damping)
        # numbers may leave single precision where heads hardly change or lambda is huge: that step is rejected
        with np.errstate(over="ignore", invalid="ignore"):
            apply = self._preconditioner(damping, damped)
            r = self._pull(engine.cast(residual, engine.low))
            solution = engine.xp.zeros_like(r)
            z = apply(r)
            p, rz = z, engine.dot(r, z)
            goal = forcing * forcing * rz
            steps = 0
            while steps < at_most and rz > goal and np.isfinite(rz):
                plain, shift = self._times(p), damped(p)
                # in the product with the rounded sum a small damping would be lost
                curvature = engine.dot(p, plain) + engine.dot(p, shift)
                if not (curvature > 0 and np.isfinite(curvature)):
                    break
                unit = curvature**-0.5
                self._kept.append((p * unit, plain * unit))
                if len(self._kept) > _KEPT:
                    del self._kept[0]  # at once: those of a long solve would take several times the memory
                length = rz / curvature
                solution += length * p
                plain += shift
                r = r - length * plain
                z = apply(r)
                before, rz = rz, engine.dot(r, z)
                p = z + (rz / before) * p
                steps += 1
        return solution, steps

    def _pull(self, flat: Any) -> Any:
        return self._engine.cast(self._heads.transpose_times(flat), self._engine.single)

    def _times(self, direction: Any) -> Any:
        engine = self._engine
        change = self._heads.times(direction)
        inner = engine.matmul(engine.xp.matrix_transpose(self._read), change)
        inner = engine.matmul(self._inverse, engine.cast(inner, engine.single))
        change -= engine.matmul(self._read, engine.cast(inner, engine.low), out=self._part)
        return self._pull(change)

    def _preconditioner(self, damping: float, damped: Callable[[Any], Any]) -> Callable[[Any], Any]:
        engine, xp = self._engine, self._engine.xp
        first: Callable[[Any], Any] = self._heads.preconditioner(damping)
        if not self._kept:
            return first
        # S is stacked after Y, so that no more than 90 vectors are there at once, beside the 60 kept
        y = xp.stack([product + damped(one) for one, product in self._kept])
        y = xp.reshape(y, (len(self._kept), -1))
        s = xp.reshape(xp.stack([one for one, _ in self._kept]), y.shape)
        gram = to_numpy(engine.matmul(s, xp.matrix_transpose(y))).astype(np.float64)
        if not np.isfinite(gram).all():  # a direction left the numbers: none is worth keeping
            self.forget()
            return first
        values, vectors = np.linalg.eigh(0.5 * (gram + gram.T))
        good = values > 1e-6 * values[-1]  # other combinations are rounding
        if not good.any():
            return first
        whiten = engine.put((vectors[:, good] / np.sqrt(values[good])).T, engine.single)
        s = engine.matmul(whiten, s)
        y = engine.matmul(whiten, y)
        s_turned, y_turned = xp.matrix_transpose(s), xp.matrix_transpose(y)

        def both(r: Any) -> Any:
            column = xp.reshape(r, (-1, 1))
            along = engine.matmul(s, column)
            z = xp.reshape(first(xp.reshape(column - engine.matmul(y_turned, along), r.shape)), (-1, 1))
            return xp.reshape(z + engine.matmul(s_turned, along - engine.matmul(y, z)), r.shape)

        return both

"""The damped normal equations of one Gauss-Newton step with W eliminated, by preconditioned conjugate gradients."""

from collections.abc import Callable
from typing import Any

import numpy as np
from jaxtyping import Shaped

from upper.engine import Engine

__all__ = ["NormalEquations"]

# Directions kept from the last solves. More of them cost as much time as they save.
_KEPT = 30


class NormalEquations:
    """Solves (J^T (I - Z G^-1 Z^T) J + lambda D) s = J^T R at one point after another.

    Parameters
    ----------
    engine : Engine
        Where to compute: products are in its low precision, the vectors of the iteration in its single one.
    heads : FullHeads or LowRankHeads
        What is differentiated: J, its transpose, the damping lambda D and the preconditioner.

    Notes
    -----
    A step costs a product with J, one with its transpose, two with Z and one application of the preconditioner.

    The preconditioner has two levels. The first is M, of the heads. With 30 directions of the solves before as columns
    of S and Y = (A + lambda D) S the whole is (I - S E^-1 Y^T) M (I - Y E^-1 S^T) + S E^-1 S^T, E = S^T Y. Near the
    solution of the outer problem the system hardly changes, and what one solve learned of its small eigenvalues the
    next need not learn again. It took 15 to 20 per cent off the steps to 1e-6 on the nice layers it was measured on.

    Memory: n k (columns of Z + d) numbers in low precision, and 60 directions, 150 while a preconditioner is made.

    References
    ----------
    The limited-memory preconditioner of Gratton, Sartenaer and Tshimanga, SIAM J. Optim. 21 (2011), after Morales and
    Nocedal, SIAM J. Optim. 10 (2000).
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

        Notes
        -----
        It ends early at the bottom of a valley, where rounding leaves no positive curvature.
        """
        engine, damped = self._engine, self._heads.damping(damping)
        # where heads hardly change with their parameters, or lambda has grown without end, numbers leave single
        # precision: a step that is wild then is rejected
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
        # S after Y, whose rows take memory until it stands, and each whitened in its turn: of 30 directions no more
        # than 90 vectors are there at once, beside those kept
        y = xp.stack([product + damped(one) for one, product in self._kept])
        y = xp.reshape(y, (len(self._kept), -1))
        s = xp.reshape(xp.stack([one for one, _ in self._kept]), y.shape)
        gram = engine.get(engine.matmul(s, xp.matrix_transpose(y))).astype(np.float64)
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

"""The two solves of a trial: the linear factor by least squares, and the damped normal equations of the heads.

The second, the inner solve, is by conjugate gradients, deflated by directions of the last solves.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Shaped

from upper.engine import Engine
from upper.newton.full_heads import NO_PRIOR


@dataclass(frozen=True, eq=False)
class LinearFit:
    """The linear factor by least squares (W at full rank, O at low rank) in float64; the other arrays are float32.

    If numbers overflow, `size` is infinite and the arrays are None. `parameters` are those of the heads.
    """

    factor: Shaped[Any, "columns d"] | Any = None
    size: float = math.inf  # the norm of Y - Z factor
    misfit: Shaped[Any, "rows d"] | Any = None  # Y - Z factor over its norm
    inverse: Shaped[Any, "columns columns"] | Any = None  # of G = Z^T Z with the ridge
    residual: float = math.inf  # size over the norm of the labels
    parameters: Any = None
    penalty: float = 0.0  # of the prior with sigma^2 = 1, relative to the squared norm of the labels

    def cost(self, prior: float) -> float:
        """The root of what is minimised with this prior, relative to the norm of the labels."""
        return math.sqrt(self.residual**2 + prior * self.penalty) if prior else self.residual


def fit_linear(
    engine: Engine,
    read: Shaped[Any, "rows columns"],
    labels: Shaped[Any, "rows d"],
    before: Shaped[Any, "columns d"] | None,
    damping: float,
    *,
    ridge: float,
) -> LinearFit:
    """The factor for the reads Z: one correction of the factor `before` (or of zero), towards which the ridge pulls.

    The ridge is at least `ridge` and 1e-3 min(damping, 1), in units of the mean diagonal of G.
    """
    xp = engine.xp
    if before is None:
        shape = (read.shape[1], labels.shape[1])
        factor, misfit = xp.zeros(shape, dtype=engine.double, device=engine.device), labels
    else:
        factor, misfit = before, labels - read @ engine.cast(before, labels.dtype)
    size = engine.norm(misfit)
    if not np.isfinite(size):
        return LinearFit()
    narrow = engine.cast(read, engine.single)
    gram = xp.matrix_transpose(narrow) @ narrow
    del narrow
    p = gram.shape[0]
    shift = max(ridge, 1e-3 * min(damping, 1.0)) * (float(xp.linalg.trace(gram)) / p) or 1.0
    inverse = engine.inverse_of_positive(gram + shift * xp.eye(p, dtype=engine.single, device=engine.device))
    if size > 0:
        pull = xp.matrix_transpose(read) @ (misfit * (1 / size))
        change = inverse @ engine.cast(pull, engine.single)
        factor = factor + size * engine.cast(change, engine.double)
    return at_factor(engine, read, labels, factor, inverse)


def at_factor(
    engine: Engine,
    read: Shaped[Any, "rows columns"],
    labels: Shaped[Any, "rows d"],
    factor: Shaped[Any, "columns d"],
    inverse: Shaped[Any, "columns columns"],
) -> LinearFit:
    """The fit of a factor as it is, with an inverse of G."""
    misfit = labels - read @ engine.cast(factor, labels.dtype)
    size = engine.norm(misfit)
    if not np.isfinite(size):
        return LinearFit()
    return LinearFit(factor, size, engine.cast(misfit * (1 / (size or 1.0)), engine.single), inverse)


@dataclass(frozen=True)
class InnerSolve:
    """How accurate the inner solves are: a more accurate one takes more steps, and saves some trials."""

    steps: int = 60  #: the most of a solve
    coarsest: float = 0.7  #: the bounds on the relative accuracy, which otherwise is the relative residual
    finest: float = 0.06
    plateau: float = 0.1  #: the accuracy on a plateau, where the smallest eigenvalues decide
    #: directions of the last solves: with 30, 15 to 20 per cent fewer steps; more cost what they save
    recycled: int = 30

    def accuracy(self, residual: float, tolerance: float, *, plateau: bool) -> float:
        """The accuracy at a relative residual; no solve aims far below the tolerance of the run."""
        wanted = min(self.coarsest, residual), self.finest, 0.3 * tolerance / max(residual, tolerance, 1e-300)
        return min(max(wanted), self.plateau) if plateau else max(wanted)


class NormalEquations:
    """Solves (J^T (I - Z G^-1 Z^T) J + lambda D) s = J^T R by preconditioned conjugate gradients.

    J, its transpose, lambda D and the preconditioner M come from the heads. Products are in the engine's low precision,
    and the vectors of the iteration in its single precision.

    Notes
    -----
    A step costs one product with J, one with its transpose, two with Z and one with the preconditioner. The
    preconditioner is M deflated by the last 30 directions: with these as columns of S, Y = (A + lambda D) S and
    E = S^T Y, it is (I - S E^-1 Y^T) M (I - Y E^-1 S^T) + S E^-1 S^T. Memory: n k (columns of Z + d) numbers in low
    precision, and 60 directions (150 while a preconditioner is made).

    References
    ----------
    The limited-memory preconditioner of Gratton, Sartenaer and Tshimanga, SIAM J. Optim. 21 (2011).
    """

    def __init__(self, engine: Engine, heads: Any) -> None:
        self._engine, self._heads = engine, heads
        self._read: Any = None
        self._inverse: Any = None
        # directions p and their products A p, scaled to p^T (A + lambda D) p = 1; the oldest first
        self._directions: list[tuple[Any, Any]] = []

    def move_to(self, read: Shaped[Any, "rows columns"], inverse: Shaped[Any, "columns columns"]) -> None:
        """Set the point of the equations: the reads Z of the heads there, and G^-1 in single precision."""
        self._read = self._engine.cast(read, self._engine.low)
        self._inverse = inverse

    def solve(
        self,
        residual: Shaped[Any, "rows d"],
        damping: float,
        *,
        accuracy: float,
        at_most: int,
        precisions: Sequence[float] = NO_PRIOR,
        gradient: Shaped[Any, "p parameters"] | None = None,
    ) -> tuple[Shaped[Any, "p directions"], int]:
        """The solution to the relative accuracy `accuracy`, in the preconditioner's norm, and the number of steps.

        `precisions` of the prior, one for each block of parameters, are added to lambda D, and `gradient` is
        that of the prior. It ends early if rounding leaves no positive curvature.
        """
        engine, damped = self._engine, self._heads.damping_term(damping, precisions)
        # numbers may overflow if the outputs hardly depend on the heads or lambda is huge; that step is rejected
        with np.errstate(over="ignore", invalid="ignore"):
            apply = self._deflated(self._heads.preconditioner(damping, precisions), damped)
            r = self._pull(engine.cast(residual, engine.low))
            if gradient is not None:
                r = r - gradient
            solution = engine.xp.zeros_like(r)
            z = apply(r)
            p, rz = z, engine.dot(r, z)
            goal = accuracy * accuracy * rz
            steps = 0
            while steps < at_most and rz > goal and np.isfinite(rz):
                plain, shift = self._times(p), damped(p)
                # add the damping separately: a small one would be lost to rounding in the product
                curvature = engine.dot(p, plain) + engine.dot(p, shift)
                if not (curvature > 0 and np.isfinite(curvature)):
                    break
                unit = curvature**-0.5
                self._directions.append((p * unit, plain * unit))
                if len(self._directions) > InnerSolve().recycled:
                    del self._directions[0]  # at once: a long solve has several times as many directions
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
        inner = engine.cast(engine.xp.matrix_transpose(self._read) @ change, engine.single)
        change -= self._read @ engine.cast(self._inverse @ inner, engine.low)
        return self._pull(change)

    def _deflated(self, first: Callable[[Any], Any], damped: Callable[[Any], Any]) -> Callable[[Any], Any]:
        """The preconditioner `first`, deflated by the recycled directions."""
        engine, xp = self._engine, self._engine.xp
        if not self._directions:
            return first
        # stack S after Y, so that at most 90 vectors exist beside the 60 kept ones
        y = xp.stack([product + damped(direction) for direction, product in self._directions])
        y = xp.reshape(y, (len(self._directions), -1))
        s = xp.reshape(xp.stack([direction for direction, _ in self._directions]), y.shape)
        gram = engine.to_numpy(s @ xp.matrix_transpose(y))
        if not np.isfinite(gram).all():  # a direction overflowed: drop all
            self._directions.clear()
            return first
        values, vectors = np.linalg.eigh(0.5 * (gram + gram.T))
        good = values > 1e-6 * values[-1]  # smaller eigenvalues are rounding
        if not good.any():
            return first
        whiten = engine.put((vectors[:, good] / np.sqrt(values[good])).T, engine.single)
        s, y = whiten @ s, whiten @ y
        s_turned, y_turned = xp.matrix_transpose(s), xp.matrix_transpose(y)

        def both(r: Any) -> Any:
            column = xp.reshape(r, (-1, 1))
            along = s @ column
            z = xp.reshape(first(xp.reshape(column - y_turned @ along, r.shape)), (-1, 1))
            return xp.reshape(z + s_turned @ (along - y @ z), r.shape)

        return both

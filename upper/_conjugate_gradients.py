"""Preconditioned conjugate gradients that learn from one system for the next, for systems that change slowly."""

from collections.abc import Callable
from typing import Any

import numpy as np
from jaxtyping import Shaped

from upper.engine import Engine

__all__ = ["Kept", "conjugate_gradients", "two_level"]

# Directions p with their products A p, at unit p^T (A + D) p; the oldest first.
Kept = list[tuple[Any, Any]]

# Directions kept from the last solves. More of them cost as much time as they save.
_KEPT = 30


def conjugate_gradients(
    engine: Engine,
    right: Shaped[Any, "rows columns"],
    products: Callable[[Any], tuple[Any, Any, float]],
    apply: Callable[[Any], Any],
    kept: Kept,
    *,
    forcing: float,
    at_most: int,
) -> tuple[Shaped[Any, "rows columns"], int]:
    """The solution of (A + D) s = `right`, and the steps taken.

    Parameters
    ----------
    engine : Engine
        Where to compute.
    right : array
        The right side, in the precision of the iteration.
    products : callable
        From p to A p, (A + D) p and p^T (A + D) p.
    apply : callable
        The preconditioner, from `two_level`.
    kept : list
        Directions kept for the next solve; those of this one are added, and the last 30 left.
    forcing : float
        The accuracy to end at, relative, in the norm of the preconditioner.
    at_most : int
        At most so many steps.

    Notes
    -----
    A step costs one product and one application of the preconditioner. It ends early at the bottom of a valley, where
    rounding leaves no positive curvature.
    """
    r = right
    solution = engine.xp.zeros_like(r)
    z = apply(r)
    p, rz = z, engine.dot(r, z)
    goal = forcing * forcing * rz
    steps = 0
    while steps < at_most and rz > goal and np.isfinite(rz):
        plain, whole, curvature = products(p)
        if not (curvature > 0 and np.isfinite(curvature)):  # rounding, at the bottom of a valley
            break
        unit = curvature**-0.5
        kept.append((p * unit, plain * unit))
        if len(kept) > _KEPT:
            del kept[0]  # at once: those of a long solve would take several times the memory
        length = rz / curvature
        solution += length * p
        r = r - length * whole
        z = apply(r)
        before, rz = rz, engine.dot(r, z)
        p = z + (rz / before) * p
        steps += 1
    return solution, steps


def two_level(
    engine: Engine, kept: Kept, first: Callable[[Any], Any], damped: Callable[[Any, Any], Any]
) -> Callable[[Any], Any]:
    """A preconditioner for A + D: a first level M, corrected on the directions kept from other solves.

    Parameters
    ----------
    engine : Engine
        Where to compute.
    kept : list
        Directions s with their products A s, from `conjugate_gradients`.
    first : callable
        The first level M.
    damped : callable
        From s and A s to (A + D) s.

    Notes
    -----
    With the directions as columns of S and Y = (A + D) S it is (I - S E^-1 Y^T) M (I - Y E^-1 S^T) + S E^-1 S^T,
    E = S^T Y. Near the solution of the outer problem the system hardly changes, and what one solve learned of its small
    eigenvalues the next need not learn again. Combinations of directions in which E is below 1e-6 of its largest
    eigenvalue are left out.

    References
    ----------
    The limited-memory preconditioner of Gratton, Sartenaer and Tshimanga, SIAM J. Optim. 21 (2011), after Morales and
    Nocedal, SIAM J. Optim. 10 (2000).
    """
    if not kept:
        return first
    xp = engine.xp
    # S after Y, whose rows take memory until it stands, and each whitened in its turn: of 30 directions no more than 90
    # vectors are there at once, beside those kept
    y = xp.reshape(xp.stack([damped(one, product) for one, product in kept]), (len(kept), -1))
    s = xp.reshape(xp.stack([one for one, _ in kept]), y.shape)
    gram = engine.get(engine.matmul(s, xp.matrix_transpose(y))).astype(np.float64)
    if not np.isfinite(gram).all():  # a direction left the numbers: none is worth keeping
        kept.clear()
        return first
    values, vectors = np.linalg.eigh(0.5 * (gram + gram.T))
    good = values > 1e-6 * values[-1]
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

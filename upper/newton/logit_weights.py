"""Near a solution: joint equations of the heads and the linear factor, with weights that let all logits count alike.

A token whose patterns are saturated hardly moves its output, so plain least squares hardly sees its logits. Exact
labels allow any weights. Those here make the equations nearly a Kronecker product, of which the inverse is known.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Shaped

from upper.engine import Engine

Step = tuple[Any, Any]  # of the heads, and of the linear factor


@dataclass(frozen=True)
class WeightRules:
    """When rows are weighted, and how; values of the first three in the ranges named take as long."""

    below: float = 0.03  #: the residual below which steps have weights: .01 to .1
    share: float = 0.1  #: t^2, in units of the mean square of the singular values of T: .03 to .1
    finest: float = 0.01  #: the finest accuracy of a solve: .003 to .03
    #: weights are taken anew if a step leaves more of the residual: T has moved. With .1, (4, 4, 64) takes 387 passes,
    #: not 331; with .3, a run at (4, 4, 32) takes 1211, not 256
    stale: float = 0.03
    holds: float = 0.5  #: a step that leaves more than this share has failed, as at the level of noise
    #: of the residual where fresh weights failed: below it they are tried again. Without, (4, 4, 32) takes 3800 passes
    #: at 1.5 floors, not 1170
    again: float = 0.25


class WeightedEquations:
    """Solves min |Omega^(1/2) (R - J dTheta - Z dW)| in both unknowns by preconditioned conjugate gradients.

    Notes
    -----
    T maps the m k logits of a token to its output, and Omega = (T T^T + t^2)^-1 is a block of d rows for each token.
    With Q = (T^T T + t^2)^-1, t^2 Omega = 1 - T Q T^T and T^T Omega = Q T^T. So only Q is kept, and all is scaled by
    t^2. The equations are then nearly C (x) H for the heads, with C_ij the trace of t^2 Q T^T T between heads i and j,
    and G (x) 1 for W. At the solution, solves to 1e-6 take 19 to 25 steps with H^-1, in place of 130 to 177 without
    weights. Weights stay while T moves a little: the equations are then not quite symmetric, which does no harm.

    A step costs one product with each of J, J^T, Z, Z^T and T, and 2 n k (m k)^2. Weights cost O(n k (m k)^3), and
    n k (m k)^2 numbers in low precision; four times as many while they are made.
    """

    def __init__(self, engine: Engine, heads: Any) -> None:
        self._engine, self._heads, self._rules = engine, heads, WeightRules()
        self._below = self._rules.below if heads.weighable else 0.0
        self._read: Any = None
        self._q: Any = None
        self._fresh = False

    @property
    def finest(self) -> float:
        """The finest accuracy of a solve, which also the low precision allows."""
        return max(self._rules.finest, 8 * float(self._engine.xp.finfo(self._engine.low).eps))

    def hold_at(self, residual: float) -> bool:
        """Whether steps from a point of this relative residual have weights."""
        return residual < self._below

    def hold_after(self, before: float, after: float) -> bool:
        """Whether a step did what it should; if not, its weights are dropped, and were they fresh, so are new ones."""
        held = after < self._rules.holds * before
        if not held and self._fresh:
            self._below = self._rules.again * before
        if not held or after > self._rules.stale * before:
            self._q = None
        return held

    def move_to(self, read: Shaped[Any, "rows columns"], inverse: Shaped[Any, "columns columns"]) -> None:
        """Set the point, where the heads have their derivative: the reads Z there, and G^-1 near it."""
        self._read = self._engine.cast(read, self._engine.low)
        self._fresh = self._q is None
        if self._fresh:
            self._weigh(inverse)
        self._heads.weigh(self._coupling)

    def solve(self, residual: Shaped[Any, "rows d"], *, accuracy: float, at_most: int) -> tuple[Step, int]:
        """The steps of the heads and of the linear factor to this accuracy, and the number of inner steps."""
        xp = self._engine.xp
        with np.errstate(over="ignore", invalid="ignore"):  # a wild step is rejected
            apply = self._heads.preconditioner(0.0)
            r = self._pull(self._engine.cast(residual, self._engine.low))
            solution: Step = (xp.zeros_like(r[0]), xp.zeros_like(r[1]))
            z = apply(r[0]), self._inverse @ r[1]
            p, rz, steps = z, self._dot(r, z), 0
            goal = accuracy * accuracy * rz
            while steps < at_most and rz > goal and np.isfinite(rz):
                product = self._times(p)
                curvature = self._dot(p, product)
                if not (curvature > 0 and np.isfinite(curvature)):
                    break
                solution = _add(solution, rz / curvature, p)
                r = _add(r, -rz / curvature, product)
                z = apply(r[0]), self._inverse @ r[1]
                before, rz = rz, self._dot(r, z)
                p = _add(z, rz / before, p)
                steps += 1
        return solution, steps

    def _weigh(self, inverse: Any) -> None:
        engine, xp = self._engine, self._engine.xp
        gram = self._heads.logit_gram()
        n, k, size, _ = gram.shape
        m, d = size // k, self._heads.x.shape[2]
        # the logits of a head have k - 1 directions that matter
        mean = float(xp.sum(xp.linalg.diagonal(gram))) / (n * k * m * (k - 1))
        self._scale = self._rules.share * mean or 1.0
        q = xp.linalg.inv(gram + self._scale * xp.eye(size, dtype=gram.dtype, device=engine.device))
        seen = n * k * np.eye(size) - self._scale * engine.to_numpy(xp.sum(xp.sum(q, axis=0), axis=0))
        self._coupling = self._scale * np.einsum("ibjb->ij", seen.reshape(m, k, m, k))
        self._q = engine.cast(q, engine.low)
        # of the d directions of an output, the weights take off those that logits explain
        self._inverse = inverse * (1 / (1 - float(np.trace(seen)) / (n * k * d)))

    def _times(self, step: Step) -> Step:
        change = self._heads.times(step[0])
        change += self._read @ self._engine.cast(step[1], self._engine.low)
        return self._pull(change)

    def _pull(self, flat: Any) -> Step:
        """The products with t^2 Omega, and then with J^T and Z^T."""
        engine, xp = self._engine, self._engine.xp
        logits = self._heads.pull(flat)
        logits = xp.reshape(self._q @ xp.reshape(logits, (*self._q.shape[:3], 1)), logits.shape)
        of_heads = self._heads.gather(self._scale * logits)
        rest = flat - self._heads.outputs(logits)
        of_factor = xp.matrix_transpose(self._read) @ rest
        return engine.cast(of_heads, engine.single), engine.cast(of_factor, engine.single)

    def _dot(self, a: Step, b: Step) -> float:
        return self._engine.dot(a[0], b[0]) + self._engine.dot(a[1], b[1])


def _add(a: Step, length: float, b: Step) -> Step:
    return a[0] + length * b[0], a[1] + length * b[1]

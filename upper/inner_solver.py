"""The damped normal equations in Theta with the projections eliminated, by preconditioned conjugate gradients."""

from typing import Any

import numpy as np
from jaxtyping import Shaped

from upper._conjugate_gradients import Kept, conjugate_gradients, two_level
from upper._projected import ProjectedGram
from upper.buffers import StackedJacobian
from upper.engine import Engine
from upper.jacobian import HeadJacobian

__all__ = ["InnerSolver"]

# A probe for the coupling of heads needs few examples: it only has to be right within a factor.
_PROBE_EXAMPLES = 64


class InnerSolver:
    """Solves (J^T (I - Z G^-1 Z^T) J + lambda tr(C)/m) dTheta = J^T R at one point after another.

    Parameters
    ----------
    engine : Engine
        Where to compute; products are in its low precision, the vectors of the iteration in single precision.
    x : array (n, k, d)
        Tokens, in any precision.
    heads : int
        The number m of heads.
    rng : Generator
        For the probe that estimates the coupling C of heads.

    Notes
    -----
    The preconditioner has two levels. The first is (C + lambda tr(C)/m)^-1 on the heads,
    C_ij = <J_i V, J_j V> / |V|^2 for a random probe V: tokens are isotropic, so one probe stands for all directions.
    The second, of `upper._conjugate_gradients`, corrects it on the last 30 directions of the solves before. It took 15
    to 20 per cent off the steps to 1e-6 on the nice layers it was measured on.

    Memory: 3 n k m d numbers in low precision and O(n k m k + n k d); and 60 m d^2 in single precision, 150 m d^2 while
    a preconditioner is made.

    References
    ----------
    The second level is the limited-memory preconditioner of Gratton, Sartenaer and Tshimanga, SIAM J. Optim. 21
    (2011), after Morales and Nocedal, SIAM J. Optim. 10 (2000); the rest derived here.
    """

    def __init__(self, engine: Engine, x: Shaped[Any, "n k d"], heads: int, rng: np.random.Generator) -> None:
        n, k, d = x.shape
        self._engine, self._rng, self._heads = engine, rng, heads
        self._jacobian = StackedJacobian(engine, engine.cast(x, engine.low), heads)
        self._gram = ProjectedGram(engine, self._jacobian, (n * k, heads * d), d)
        self._coupling = np.eye(heads)
        self._kept: Kept = []

    def move_to(
        self,
        pattern: Shaped[Any, "n k m k"],
        read: Shaped[Any, "rows columns"],
        w: Shaped[Any, "columns d"],
        inverse: Shaped[Any, "columns columns"],
    ) -> None:
        """Go to a point: patterns, reads Z, projections and G^-1 in single precision; all but the last are copied."""
        self._jacobian.move_to(pattern, w)
        self._gram.move_to(read, inverse)
        self._coupling = self._head_coupling(pattern, w)

    def solve(
        self, residual: Shaped[Any, "rows d"], damping: float, *, forcing: float, at_most: int
    ) -> tuple[Shaped[Any, "d columns"], int]:
        """The solution to the relative accuracy `forcing` for the outputs' residual R, and the steps taken."""
        engine = self._engine
        mean = float(np.trace(self._coupling)) / self._heads
        shift = damping * mean

        def damped(p: Any, product: Any) -> Any:
            return product + shift * p if shift else product

        def products(p: Any) -> tuple[Any, Any, float]:
            plain = self._gram.times(p)
            # in the product with the rounded sum a small shift would be lost
            curvature = engine.dot(p, plain) + shift * engine.dot(p, p)
            return plain, damped(p, plain), curvature

        # where heads hardly change with their parameters, or lambda has grown without end, numbers leave single
        # precision: a step that is wild then is rejected
        with np.errstate(over="ignore", invalid="ignore"):
            return conjugate_gradients(
                engine,
                self._gram.pull(engine.cast(residual, engine.low)),
                products,
                two_level(engine, self._kept, self._on_heads(shift, mean), damped),
                self._kept,
                forcing=forcing,
                at_most=at_most,
            )

    def _on_heads(self, shift: float, mean: float) -> Any:
        engine, xp, m = self._engine, self._engine.xp, self._heads
        # heads that agree on the probe make the coupling singular, however small the damping
        shifted = self._coupling + (max(shift, 1e-9 * mean) or 1.0) * np.eye(m)
        inverse = engine.put(np.linalg.inv(shifted), engine.single)

        def first(r: Any) -> Any:
            d = r.shape[0]
            turned = xp.reshape(xp.permute_dims(xp.reshape(r, (d, m, d)), (1, 0, 2)), (m, d * d))
            turned = xp.reshape(engine.matmul(inverse, turned), (m, d, d))
            return xp.reshape(xp.permute_dims(turned, (1, 0, 2)), r.shape)

        return first

    def _head_coupling(self, pattern: Any, w: Any) -> np.ndarray:
        engine, xp = self._engine, self._engine.xp
        n, _, d = self._jacobian.x.shape
        few = min(n, _PROBE_EXAMPLES)
        single = [
            engine.cast(array, engine.single)
            for array in (self._jacobian.x[:few, ...], pattern[:few, ...], xp.reshape(w, (-1, d, d)))
        ]
        probe = self._rng.standard_normal((d, d))
        direction = engine.put(probe / np.linalg.norm(probe), engine.single)
        changes = HeadJacobian.at(*single).times_each_head(direction)
        flat = xp.reshape(changes, (self._heads, -1))
        gram = engine.get(engine.matmul(flat, xp.matrix_transpose(flat)))
        return gram.astype(np.float64) * (n / few)

"""The damped normal equations in the factors A, B and V with O eliminated, by preconditioned conjugate gradients."""

from typing import Any

import numpy as np
from jaxtyping import Shaped

from upper._conjugate_gradients import Kept, conjugate_gradients, two_level
from upper._projected import ProjectedGram
from upper.engine import Engine
from upper.factored_buffers import FactoredJacobian

__all__ = ["FactoredSolver"]

# A probe for the coupling of heads needs few examples: it only has to be right within a factor.
_PROBE_EXAMPLES = 128
# The damping of a direction that a factor does not see, of that of the average direction.
_LEAST_WEIGHT = 1e-2


class FactoredSolver:
    """Solves (J^T (I - Z G^-1 Z^T) J + lambda D) (dA, dB, dV) = J^T R at one point after another.

    Parameters
    ----------
    engine : Engine
        Where to compute; products are in its low precision, the vectors of the iteration in single precision.
    x : array (n, k, d)
        Tokens, in any precision.
    heads, rank, w_rank : int
        The numbers m of heads, r of columns of A_i and B_i, and s of columns of V_i; at s = d the V stay as they are.
    rng : Generator
        For the probe that estimates the coupling of heads.

    Notes
    -----
    Tokens are isotropic, so the outputs change by about sum_ij C_ij <dTheta_i, dTheta_j> for a change of the attention
    matrices alone, C the m x m coupling of heads (estimated from random changes of all logits), and by about
    sum_ij E_ij <dW_i, dW_j> for one of the projections alone, E_ij = sum of p_i . p_j over all rows of patterns. With
    dTheta_i = dA_i B_i^T + A_i dB_i^T and dW_i = dV_i O_i these are the quadratic forms of matrices of size m r
    that act on the columns of [dA_1 .. dA_m] (C_ij B_i^T B_j), on those of dB (C_ij A_i^T A_j) and of dV
    (E_ij O_i O_j^T). The preconditioner is the inverse of the three (what couples A, B and V is left out), and D the
    same with the diagonals of C and E replaced by their means and nothing off them: it damps the change of
    Theta_i and W_i, not that of the factors, so that small singular values are not held back. A second level, of
    `upper._conjugate_gradients`, corrects it on the last 30 directions of the solves before.

    Memory: O(n k m (r + s + k) + n k d + 60 m d (2 r + s) + m^2 (r^2 + s^2)).

    References
    ----------
    Derived here; a damping that follows the factors is the ScaledGD of Tong, Ma and Chi, J. Mach. Learn. Res. 22
    (2021). The second level is that of Gratton, Sartenaer and Tshimanga, SIAM J. Optim. 21 (2011).
    """

    def __init__(
        self,
        engine: Engine,
        x: Shaped[Any, "n k d"],
        heads: int,
        rank: int,
        w_rank: int,
        rng: np.random.Generator,
    ) -> None:
        n, k, d = x.shape
        self._engine, self._rng, self._heads, self._n = engine, rng, heads, n
        # V of full rank is any basis: O alone makes W
        self._jacobian = FactoredJacobian(
            engine, engine.cast(x, engine.low), heads, rank, w_rank, values_move=w_rank < d
        )
        self._ranks = (rank, rank, w_rank) if w_rank < d else (rank, rank)
        self._gram = ProjectedGram(engine, self._jacobian, (n * k, heads * w_rank), d)
        self._blocks: list[np.ndarray] = []
        self._damped: list[np.ndarray] = []
        self._kept: Kept = []

    def forget(self) -> None:
        """Drop the directions kept: the factors have been replaced by others of the same heads."""
        self._kept.clear()

    def move_to(
        self,
        pattern: Shaped[Any, "batch k k"],
        read: Shaped[Any, "rows reads"],
        apart: Shaped[Any, "2 batch k r"],
        values: Shaped[Any, "batch k s"],
        factors: Shaped[Any, "d columns"],
        o: Shaped[Any, "reads d"],
        inverse: Shaped[Any, "reads reads"],
    ) -> None:
        """Go to a point: what the forward pass gave there, [A | B | V], O, and G^-1 in single precision."""
        engine = self._engine
        self._jacobian.move_to(pattern, apart, values, o)
        self._gram.move_to(read, inverse)
        self._set_blocks(pattern, engine.get(factors), engine.get(o))

    def solve(
        self, residual: Shaped[Any, "rows d"], damping: float, *, forcing: float, at_most: int
    ) -> tuple[Shaped[Any, "d columns"], int]:
        """The solution to the relative accuracy `forcing` for the outputs' residual R, and the steps taken."""
        engine = self._engine
        shift = [engine.put(damping * one, engine.single) for one in self._damped]

        def damped(p: Any, product: Any) -> Any:
            return product + self._by_blocks(p, shift)

        def products(p: Any) -> tuple[Any, Any, float]:
            plain = self._gram.times(p)
            whole = damped(p, plain)
            return plain, whole, engine.dot(p, whole)

        with np.errstate(over="ignore", invalid="ignore"):  # a wild step is rejected
            return conjugate_gradients(
                engine,
                self._gram.pull(engine.cast(residual, engine.low)),
                products,
                two_level(engine, self._kept, self._on_blocks(damping), damped),
                self._kept,
                forcing=forcing,
                at_most=at_most,
            )

    def _on_blocks(self, damping: float) -> Any:
        inverses = []
        for block, damped in zip(self._blocks, self._damped, strict=True):
            matrix = block + max(damping, 1e-6) * damped
            tiny = 1e-12 * (np.trace(matrix) / len(matrix) or 1.0)
            inverse = np.linalg.inv(matrix + tiny * np.eye(len(matrix)))
            inverses.append(self._engine.put(0.5 * (inverse + inverse.T), self._engine.single))
        return lambda r: self._by_blocks(r, inverses)

    def _by_blocks(self, direction: Any, matrices: list[Any]) -> Any:
        parts, first = [], 0
        for one in matrices:
            parts.append(self._engine.matmul(direction[:, first : first + one.shape[0]], one))
            first += one.shape[0]
        return self._engine.xp.concat(parts, axis=1)

    def _set_blocks(self, pattern: Any, factors: np.ndarray, o: np.ndarray) -> None:
        engine, xp, m = self._engine, self._engine.xp, self._heads
        k = pattern.shape[-1]
        few = min(self._n, _PROBE_EXAMPLES)
        logits = engine.put(self._rng.standard_normal((few, k, k)), engine.single)
        flat = self._jacobian.times_each_head(logits)
        by_logits = engine.get(engine.matmul(flat, xp.matrix_transpose(flat))).astype(np.float64)
        rows = xp.reshape(xp.permute_dims(xp.reshape(pattern, (-1, m, k * k))[:few, ...], (1, 0, 2)), (m, -1))
        by_values = engine.get(engine.matmul(rows, xp.matrix_transpose(rows))).astype(np.float64)
        cut = m * self._ranks[0]
        a, b, o = (one.astype(np.float64) for one in (factors[:, :cut], factors[:, cut : 2 * cut], o))
        self._blocks, self._damped = [], []
        pairs = ((by_logits, b.T @ b), (by_logits, a.T @ a), (by_values, o @ o.T))
        for r, (coupling, gram) in zip(self._ranks, pairs, strict=False):
            coupling = coupling * (self._n / few)
            self._blocks.append(np.kron(coupling, np.ones((r, r))) * gram)
            floor = _LEAST_WEIGHT * (np.trace(gram) / (m * r) or 1.0)
            mean = np.trace(coupling) / m or 1.0
            within = np.kron(np.eye(m), np.ones((r, r))) * gram
            self._damped.append(mean * (within + floor * np.eye(m * r)))

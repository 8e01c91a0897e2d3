"""Heads within a span of matrices: Theta_i = sum_j C_ij B_j, of which only the coordinates C are moved."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Shaped

from upper.engine import Engine
from upper.newton.full_heads import FullHeads

__all__ = ["SpanHeads", "SpanStart"]


@dataclass(frozen=True, eq=False)
class SpanStart:
    """Where to start within a span.

    Parameters
    ----------
    basis : array (p, d, d)
        The B_j, orthogonal and of equal norm.
    coordinates : array (m, p)
        C.
    """

    basis: Shaped[Any, "p d d"]
    coordinates: Shaped[Any, "m p"]


class SpanHeads(FullHeads):
    """The heads Theta_i = sum_j C_ij B_j on one set of tokens; parameters and directions are C^T, (p, m).

    Parameters
    ----------
    engine, x, heads, rng
        As for `FullHeads`.
    basis : array (p, d, d)
        The B_j, orthogonal and of equal norm.

    m p unknowns in place of m d^2; a pass costs O(m p d^2) more than one of `FullHeads`.
    """

    def __init__(
        self,
        engine: Engine,
        x: Shaped[Any, "n k d"],
        heads: int,
        rng: np.random.Generator,
        basis: Shaped[Any, "p d d"],
    ) -> None:
        super().__init__(engine, x, heads, rng)
        self._basis = engine.xp.reshape(engine.cast(basis, engine.double), (basis.shape[0], -1))
        self._square = engine.norm(self._basis) ** 2 / basis.shape[0]

    def reads(self, parameters: Shaped[Any, "p m"]) -> Shaped[Any, "rows reads"]:
        """What the heads read at the coordinates."""
        return super().reads(self._stacked(parameters))

    def times(self, direction: Shaped[Any, "p m"]) -> Shaped[Any, "rows d"]:
        """How the outputs change along a direction of the coordinates."""
        return super().times(self._stacked(self.engine.cast(direction, self.engine.double)))

    def transpose_times(self, residual: Shaped[Any, "rows d"]) -> Shaped[Any, "p m"]:
        """The derivative of <F, R> with respect to the coordinates."""
        engine, xp, d = self.engine, self.engine.xp, self.x.shape[2]
        gradient = engine.cast(super().transpose_times(residual), engine.double)
        apart = xp.permute_dims(xp.reshape(gradient, (d, self.heads, d)), (0, 2, 1))
        return engine.matmul(self._basis, xp.reshape(apart, (d * d, self.heads)))

    def damping(self, damping: float) -> Callable[[Any], Any]:
        """The damping of the matrices that a direction moves."""
        return super().damping(damping * self._square)

    def preconditioner(self, damping: float) -> Callable[[Any], Any]:
        """That of the matrices, in coordinates."""
        inverse = self._inverse_coupling(damping) * (1 / self._square)
        return lambda r: self.engine.matmul(r, inverse)

    def matrices(
        self, parameters: Shaped[Any, "p m"], linear: Shaped[Any, "reads d"]
    ) -> tuple[Shaped[Any, "m d d"], Shaped[Any, "m d d"]]:
        """The Theta_i and W_i."""
        return super().matrices(self._stacked(parameters), linear)

    def _stacked(self, parameters: Any) -> Any:
        xp, d = self.engine.xp, self.x.shape[2]
        each = self.engine.matmul(xp.matrix_transpose(parameters), self._basis)
        return xp.reshape(xp.permute_dims(xp.reshape(each, (-1, d, d)), (1, 0, 2)), (d, -1))

"""The derivative of the layer and its transpose with all heads stacked into few large products.

Every function works on the arrays of any array-API library, in the layouts of `upper.stacked`.
"""

from dataclasses import dataclass
from typing import Any

from jaxtyping import Shaped

from attention._arrays import namespace
from attention._kernels import contract, mix

__all__ = ["HeadJacobian"]


@dataclass(frozen=True, eq=False)
class HeadJacobian:
    """The derivative J of F with respect to all Theta_i at fixed W_i, as products with J and its transpose.

    Parameters
    ----------
    x : array (n, k, d)
        Tokens.
    pattern : array (n, k, m, k)
        The patterns there, from `read_tokens`.
    values : array (n, m k, d)
        The projected tokens x_b W_i, heads outermost; `at` computes them.

    Notes
    -----
    dF_a = sum_i [P_i * (S_i - rowsum(P_i * S_i))]_a X W_i with S_i = X dTheta_i X^T. A product with J or its
    transpose costs O(n k m d (d + 2 k)), as much as the forward pass. Derived here.
    """

    x: Shaped[Any, "n k d"]
    pattern: Shaped[Any, "n k m k"]
    values: Shaped[Any, "n m*k d"]

    @classmethod
    def at(
        cls, x: Shaped[Any, "n k d"], pattern: Shaped[Any, "n k m k"], w: Shaped[Any, "m d d"]
    ) -> "HeadJacobian":
        """The Jacobian at the given patterns and projections."""
        xp = namespace(x, pattern, w)
        n, k, d = x.shape
        m = w.shape[0]
        flat = xp.matmul(xp.reshape(x, (n * k, d)), xp.reshape(xp.permute_dims(w, (1, 0, 2)), (d, m * d)))
        values = xp.permute_dims(xp.reshape(flat, (n, k, m, d)), (0, 2, 1, 3))
        return cls(x=x, pattern=pattern, values=xp.reshape(values, (n, m * k, d)))

    def times(self, direction: Shaped[Any, "m d d"]) -> Shaped[Any, "n k d"]:
        """J dTheta: how the outputs change along `direction`."""
        xp = namespace(self.x, direction)
        n, k, _ = self.x.shape
        change = contract(self.x, direction, xp)
        return xp.matmul(xp.reshape(self._softmax_derivative(change, xp), (n, k, -1)), self.values)

    def times_each_head(self, direction: Shaped[Any, "d d"]) -> Shaped[Any, "m n k d"]:
        """J applied to `direction` in one head at a time."""
        xp = namespace(self.x, direction)
        n, k, d = self.x.shape
        m = self.pattern.shape[2]
        change = contract(self.x, direction[None, :, :], xp)
        change = self._softmax_derivative(xp.broadcast_to(change, self.pattern.shape), xp)
        return xp.matmul(
            xp.permute_dims(change, (2, 0, 1, 3)),
            xp.permute_dims(xp.reshape(self.values, (n, m, k, d)), (1, 0, 2, 3)),
        )

    def transpose_times(self, residual: Shaped[Any, "n k d"]) -> Shaped[Any, "m d d"]:
        """J^T R: the derivative of <F, R> with respect to all Theta_i."""
        xp = namespace(self.x, residual)
        n, k, d = self.x.shape
        m = self.pattern.shape[2]
        pull = xp.reshape(xp.matmul(residual, xp.matrix_transpose(self.values)), self.pattern.shape)
        mixed = mix(self._softmax_derivative(pull, xp), self.x, xp)
        gradient = xp.matmul(xp.matrix_transpose(xp.reshape(self.x, (n * k, d))), mixed)
        return xp.permute_dims(xp.reshape(gradient, (d, m, d)), (1, 0, 2))

    def _softmax_derivative(self, change: Any, xp: Any) -> Any:
        # symmetric, so it serves J and its transpose alike
        weighted = self.pattern * change
        return weighted - self.pattern * xp.sum(weighted, axis=-1, keepdims=True)

"""The stacked layer and its derivative in memory that is reused: what a solver calls hundreds of times."""

from typing import Any

from jaxtyping import Shaped

from upper._memory import shaped
from upper._softmax import softmax_derivative, softmax_in_place
from upper.engine import Engine

__all__ = ["StackedForward", "StackedJacobian"]


class StackedForward:
    """Patterns and what they read, Z = [P_1 X ... P_m X], at one Theta after another, in the same memory.

    Parameters
    ----------
    engine : Engine
        Where to compute.
    x : array (n, k, d)
        Tokens, in the precision to compute in.
    heads : int
        The number m of heads.

    Notes
    -----
    A call costs one product of (n k, d) by (d, m d) and two batched ones, O(n k m d (d + 2 k)), and overwrites what
    the call before returned. It holds n k m (d + k) numbers. Layouts as in `upper.stacked`.
    """

    def __init__(self, engine: Engine, x: Shaped[Any, "n k d"], heads: int) -> None:
        n, k, d = x.shape
        self.engine, self.x, self.heads = engine, x, heads
        self._turned = engine.xp.matrix_transpose(x)
        self._wide = engine.empty((n * k, heads * d), x.dtype)
        self._logits = engine.empty((n, k * heads, k), x.dtype)

    def __call__(
        self, stacked: Shaped[Any, "d columns"]
    ) -> tuple[Shaped[Any, "n k m k"], Shaped[Any, "rows columns"]]:
        """Patterns (n, k, m, k) and reads (n k, m d) at the Theta_i side by side, in the precision of the tokens."""
        engine, xp, m = self.engine, self.engine.xp, self.heads
        n, k, d = self.x.shape
        left = engine.matmul(xp.reshape(self.x, (n * k, d)), stacked, out=self._wide)
        logits = engine.matmul(xp.reshape(left, (n, k * m, d)), self._turned, out=self._logits)
        pattern = softmax_in_place(engine, logits)
        read = engine.matmul(pattern, self.x, out=shaped(xp, self._wide, (n, k * m, d)))
        return xp.reshape(pattern, (n, k, m, k)), xp.reshape(read, (n * k, m * d))


class StackedJacobian:
    """Products with the derivative J of F in all Theta_i, and with its transpose, in the same memory each time.

    Parameters
    ----------
    engine : Engine
        Where to compute.
    x : array (n, k, d)
        Tokens, in the precision to compute in.
    heads : int
        The number m of heads.

    Notes
    -----
    The numbers are those of `upper.jacobian.HeadJacobian`. A product costs O(n k m d (d + 2 k)) and overwrites what
    the product before returned. It holds n k m (2 d + 3 k) numbers, and n k d. Directions and gradients are (d, m d),
    all heads side by side, so that they meet the tokens in one product.
    """

    def __init__(self, engine: Engine, x: Shaped[Any, "n k d"], heads: int) -> None:
        n, k, d = x.shape
        dtype = x.dtype
        self.engine, self.x, self.heads = engine, x, heads
        self._flat = engine.xp.reshape(x, (n * k, d))
        self._turned = engine.xp.matrix_transpose(x)
        self._wide = engine.empty((n * k, heads * d), dtype)
        self._change = engine.empty((n * k * heads, k), dtype)
        self._sums = engine.empty((n * k * heads, k), dtype)
        self._output = engine.empty((n, k, d), dtype)
        self._values = engine.empty((n, heads, k, d), dtype)
        self._pattern = engine.empty((n * k * heads, k), dtype)
        self._ones = engine.xp.ones((k, k), dtype=dtype, device=engine.device)

    def move_to(self, pattern: Shaped[Any, "n k m k"], w: Shaped[Any, "columns d"]) -> None:
        """Go to these patterns and projections (any precision; both are copied)."""
        engine, xp, m = self.engine, self.engine.xp, self.heads
        n, k, d = self.x.shape
        stacked = xp.reshape(xp.permute_dims(xp.reshape(w, (m, d, d)), (1, 0, 2)), (d, m * d))
        flat = engine.matmul(self._flat, engine.cast(stacked, self.x.dtype), out=self._wide)
        values = xp.permute_dims(xp.reshape(flat, (n, k, m, d)), (0, 2, 1, 3))
        self._values = engine.cast(values, self.x.dtype, out=self._values)
        pattern = xp.reshape(pattern, (n * k * m, k))
        self._pattern = engine.cast(pattern, self.x.dtype, out=self._pattern)

    def times(self, direction: Shaped[Any, "d columns"]) -> Shaped[Any, "rows d"]:
        """J dTheta: how the outputs change along `direction`."""
        engine, xp, m = self.engine, self.engine.xp, self.heads
        n, k, d = self.x.shape
        left = engine.matmul(self._flat, engine.cast(direction, self.x.dtype), out=self._wide)
        change = engine.matmul(
            xp.reshape(left, (n, k * m, d)), self._turned, out=shaped(xp, self._change, (n, k * m, k))
        )
        change = self._softmax_derivative(xp.reshape(change, (n * k * m, k)))
        values = xp.reshape(self._values, (n, m * k, d))
        return xp.reshape(
            engine.matmul(xp.reshape(change, (n, k, m * k)), values, out=self._output), (n * k, d)
        )

    def transpose_times(self, residual: Shaped[Any, "rows d"]) -> Shaped[Any, "d columns"]:
        """J^T R: the derivative of <F, R> with respect to all Theta_i; not in reused memory."""
        engine, xp, m = self.engine, self.engine.xp, self.heads
        n, k, d = self.x.shape
        values = xp.reshape(self._values, (n, m * k, d))
        pull = engine.matmul(
            xp.reshape(residual, (n, k, d)),
            xp.matrix_transpose(values),
            out=shaped(xp, self._change, (n, k, m * k)),
        )
        change = self._softmax_derivative(xp.reshape(pull, (n * k * m, k)))
        mixed = engine.matmul(
            xp.reshape(change, (n, k * m, k)), self.x, out=shaped(xp, self._wide, (n, k * m, d))
        )
        return engine.matmul(xp.matrix_transpose(self._flat), xp.reshape(mixed, (n * k, m * d)))

    def _softmax_derivative(self, change: Any) -> Any:
        return softmax_derivative(self.engine, change, self._pattern, self._ones, self._sums)

"""The layer of factored heads and its derivative in memory that is reused, with no product of d by d a head."""

from typing import Any

from jaxtyping import Shaped

from upper._memory import part_of, shaped
from upper._softmax import softmax_derivative, softmax_in_place
from upper.engine import Engine

__all__ = ["FactoredForward", "FactoredJacobian", "side_by_side"]


def side_by_side(engine: Engine, factor: Shaped[Any, "m d r"]) -> Shaped[Any, "d columns"]:
    """The factors of all heads side by side, (d, m r), so that they meet the tokens in one product."""
    m, d, r = factor.shape
    return engine.xp.reshape(engine.xp.permute_dims(factor, (1, 0, 2)), (d, m * r))


class FactoredForward:
    """Patterns and what they read, Z = [P_1 X V_1 ... P_m X V_m], at one set of factors after another.

    Parameters
    ----------
    engine : Engine
        Where to compute.
    x : array (n, k, d)
        Tokens, in the precision to compute in.
    heads, rank, w_rank : int
        The numbers m of heads, r of columns of A_i and B_i, and s of columns of V_i.

    Notes
    -----
    A call costs a product of (n k, d) by (d, 2 m r), one by (d, m s) and two batched ones over r and s,
    O(n k m (r + s) (d + k)), and overwrites what the call before returned. It holds n k m (4 r + 4 s + k) numbers.
    Patterns are (n m, k, k), those of an example's heads one after another.
    """

    def __init__(self, engine: Engine, x: Shaped[Any, "n k d"], heads: int, rank: int, w_rank: int) -> None:
        n, k, d = x.shape
        self.engine, self.heads = engine, heads
        self._flat = engine.xp.reshape(x, (n * k, d))
        self._two = _Layout(engine, n, k, heads, rank, parts=2, dtype=x.dtype)
        self._one = _Layout(engine, n, k, heads, w_rank, parts=1, dtype=x.dtype)
        self._logits = engine.empty((n * heads, k, k), x.dtype)
        self._mixed = engine.empty((n * heads, k, w_rank), x.dtype)
        self._read = engine.empty((n * k, heads * w_rank), x.dtype)

    def __call__(
        self, factors: Shaped[Any, "d columns"]
    ) -> tuple[
        Shaped[Any, "batch k k"],
        Shaped[Any, "rows reads"],
        Shaped[Any, "2 batch k r"],
        Shaped[Any, "batch k s"],
    ]:
        """Patterns, reads (n k, m s), tokens through A and B, and through V, at [A | B | V], (d, 2 m r + m s)."""
        engine, xp = self.engine, self.engine.xp
        cut = self._two.columns
        apart = self._two.through(self._flat, factors[:, :cut])
        values = self._one.through(self._flat, factors[:, cut:])[0, ...]
        logits = engine.matmul(apart[0, ...], xp.matrix_transpose(apart[1, ...]), out=self._logits)
        pattern = softmax_in_place(engine, logits)
        read = self._one.together([engine.matmul(pattern, values, out=self._mixed)], self._read)
        return pattern, read, apart, values


class FactoredJacobian:
    """Products with the derivative J of F in all A_i, B_i and V_i, and with its transpose.

    Parameters
    ----------
    engine : Engine
        Where to compute.
    x : array (n, k, d)
        Tokens, in the precision to compute in.
    heads, rank, w_rank : int
        The numbers m of heads, r of columns of A_i and B_i, and s of columns of V_i.
    values_move : bool
        Whether V is differentiated too; without, directions and gradients end with those of B.

    Notes
    -----
    dF = sum_i [dP_i (X V_i) + P_i (X dV_i)] O_i with dP_i = P_i * (S_i - rowsum(P_i * S_i)) and
    S_i = (X dA_i)(X B_i)^T + (X A_i)(X dB_i)^T. Directions and gradients are [dA | dB | dV], (d, 2 m r + m s). A
    product costs O(n k m (r + s) (d + k)) and overwrites what the product before returned, but for gradients. It
    holds n k m (6 r + 6 s + 3 k) numbers, and n k d.
    """

    def __init__(
        self,
        engine: Engine,
        x: Shaped[Any, "n k d"],
        heads: int,
        rank: int,
        w_rank: int,
        *,
        values_move: bool = True,
    ) -> None:
        n, k, d = x.shape
        dtype = x.dtype
        self.engine, self.heads, self.x, self.values_move = engine, heads, x, values_move
        self._flat = engine.xp.reshape(x, (n * k, d))
        self._two = _Layout(engine, n, k, heads, rank, parts=2, dtype=dtype)
        self._one = _Layout(engine, n, k, heads, w_rank, parts=1, dtype=dtype)
        self._apart = engine.empty((2, n * heads, k, rank), dtype)
        self._values = engine.empty((n * heads, k, w_rank), dtype)
        self._pattern = engine.empty((n * heads, k, k), dtype)
        self._change = engine.empty((n * heads, k, k), dtype)
        self._sums = engine.empty((n * heads * k, k), dtype)
        self._mixed = engine.empty((2, n * heads, k, w_rank), dtype)
        self._read = engine.empty((n * k, heads * w_rank), dtype)
        self._output = engine.empty((n * k, d), dtype)
        self._ones = engine.xp.ones((k, k), dtype=dtype, device=engine.device)
        self._o: Any = None

    def move_to(
        self,
        pattern: Shaped[Any, "batch k k"],
        apart: Shaped[Any, "2 batch k r"],
        values: Shaped[Any, "batch k s"],
        o: Shaped[Any, "reads d"],
    ) -> None:
        """Go to these patterns, tokens through A and B and through V, and O; any precision, all copied."""
        engine, dtype = self.engine, self.x.dtype
        self._pattern = engine.cast(pattern, dtype, out=self._pattern)
        self._apart = engine.cast(apart, dtype, out=self._apart)
        self._values = engine.cast(values, dtype, out=self._values)
        self._o = engine.cast(o, dtype)

    def times(self, direction: Shaped[Any, "d columns"]) -> Shaped[Any, "rows d"]:
        """J (dA, dB, dV): how the outputs change along `direction`, (n k, d)."""
        engine, xp = self.engine, self.engine.xp
        turned, cut = xp.matrix_transpose, self._two.columns
        direction = engine.cast(direction, self.x.dtype)
        parts = self._two.through(self._flat, direction[:, :cut])
        change = engine.matmul(parts[0, ...], turned(self._apart[1, ...]), out=self._change)
        second = shaped(xp, self._sums, tuple(change.shape))
        change += engine.matmul(self._apart[0, ...], turned(parts[1, ...]), out=second)
        change = self._softmax_derivative(change)
        mixed = engine.matmul(change, self._values, out=part_of(self._mixed, 0))
        if self.values_move:
            moved = self._one.through(self._flat, direction[:, cut:])[0, ...]
            mixed += engine.matmul(self._pattern, moved, out=part_of(self._mixed, 1))
        return engine.matmul(self._one.together([mixed], self._read), self._o, out=self._output)

    def transpose_times(self, residual: Shaped[Any, "rows d"]) -> Shaped[Any, "d columns"]:
        """J^T R: the derivative of <F, R> with respect to all A_i, B_i and V_i; not in reused memory."""
        engine, xp = self.engine, self.engine.xp
        turned = xp.matrix_transpose
        pull = self._one.apart(engine.matmul(residual, turned(self._o), out=self._read))[0, ...]
        change = self._softmax_derivative(engine.matmul(pull, turned(self._values), out=self._change))
        pairs = ((change, self._apart[1, ...]), (turned(change), self._apart[0, ...]))
        gradient = self._two.pulled(self._flat, pairs)
        if not self.values_move:
            return gradient
        # the pull lies in the memory of the layout of V, so that its product goes elsewhere first
        back = engine.matmul(turned(self._pattern), pull, out=part_of(self._mixed, 1))
        last = engine.matmul(turned(self._flat), self._one.together([back], self._read))
        return xp.concat([gradient, last], axis=1)

    def times_each_head(self, logits: Shaped[Any, "few k k"]) -> Shaped[Any, "m flat"]:
        """How the outputs of the first examples change, one head at a time, if all its logits change so."""
        engine, xp, m = self.engine, self.engine.xp, self.heads
        few, k, _ = logits.shape
        pattern = xp.reshape(self._pattern, (-1, m, k, k))[:few, ...]
        weighted = pattern * engine.cast(logits, pattern.dtype)[:, None, :, :]
        change = weighted - pattern * xp.sum(weighted, axis=-1)[..., None]
        mixed = xp.matmul(xp.reshape(change, (few * m, k, k)), self._values[: few * m, ...])
        mixed = xp.permute_dims(xp.reshape(mixed, (few, m, k, -1)), (1, 0, 2, 3))
        values = self._values.shape[-1]
        outputs = xp.matmul(xp.reshape(mixed, (m, few * k, values)), xp.reshape(self._o, (m, values, -1)))
        return xp.reshape(engine.cast(outputs, engine.single), (m, -1))

    def _softmax_derivative(self, change: Any) -> Any:
        return softmax_derivative(self.engine, change, self._pattern, self._ones, self._sums)


class _Layout:
    """Between (n k, parts m r), one product with all heads, and (parts, n m, k, r), a batch of heads."""

    def __init__(
        self, engine: Engine, n: int, k: int, heads: int, rank: int, *, parts: int, dtype: Any
    ) -> None:
        self._engine = engine
        self.columns = parts * heads * rank
        self._wide_shape, self._apart_shape = (n, k, parts, heads, rank), (parts, n, heads, k, rank)
        self._batch_shape = (parts, n * heads, k, rank)
        self._wide = engine.empty((n * k, self.columns), dtype)
        self._apart = engine.empty(self._apart_shape, dtype)

    def through(self, flat: Any, factors: Any) -> Any:
        """The tokens times factors that stand side by side, as a batch."""
        return self.apart(self._engine.matmul(flat, factors, out=self._wide))

    def apart(self, wide: Any) -> Any:
        xp = self._engine.xp
        turned = xp.permute_dims(xp.reshape(wide, self._wide_shape), (2, 0, 3, 1, 4))
        return xp.reshape(self._engine.cast(turned, wide.dtype, out=self._apart), self._batch_shape)

    def together(self, parts: list[Any], out: Any) -> Any:
        xp = self._engine.xp
        n, k, count, m, r = self._wide_shape
        turned = [xp.permute_dims(xp.reshape(part, (n, m, k, r)), (0, 2, 1, 3)) for part in parts]
        if out is None:
            return xp.concat([xp.reshape(part, (n * k, m * r)) for part in turned], axis=1)
        for i, part in enumerate(turned):
            self._engine.cast(part, part.dtype, out=xp.reshape(out, (n, k, count, m, r))[:, :, i, ...])
        return out

    def pulled(self, flat: Any, pairs: Any) -> Any:
        """The transpose of the tokens times the products of some pairs, put side by side."""
        engine, xp = self._engine, self._engine.xp
        parts = [
            engine.matmul(left, right, out=shaped(xp, part_of(self._apart, i), tuple(right.shape)))
            for i, (left, right) in enumerate(pairs)
        ]
        return engine.matmul(xp.matrix_transpose(flat), self.together(parts, self._wide))

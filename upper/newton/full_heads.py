"""Heads with free attention matrices: what they read, the derivative in all Theta_i, and a preconditioner for it."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from jaxtyping import Shaped

from attention._arrays import to_numpy
from upper.engine import Engine
from upper.products import change_each_head, softmax_derivative, softmax_in_place

__all__ = ["FullHeads", "FullStart"]

# Examples of the probe for the coupling of heads, which only has to be right within a factor.
_PROBE_EXAMPLES = 64


@dataclass(frozen=True, eq=False)
class FullStart:
    """The matrices Theta_i, (m, d, d), to start from."""

    array: Shaped[Any, "m d d"]

    def parametrise(
        self, engine: Engine, x: Shaped[Any, "n k d"], rng: np.random.Generator
    ) -> tuple[Callable[[Engine], "FullHeads"], Shaped[Any, "d columns"]]:
        """What makes the heads on an engine, and the parameters to start from."""
        (m, d, _), xp = self.array.shape, engine.xp
        theta = engine.cast(engine.detach(self.array), engine.double)
        stacked = xp.reshape(xp.permute_dims(theta, (1, 0, 2)), (d, m * d))
        return partial(FullHeads, x=x, rng=rng, heads=m), stacked


class FullHeads:
    """The heads Theta_i on one set of tokens; parameters and directions are the Theta_i side by side, (d, m d).

    Parameters
    ----------
    engine : Engine
        Where to compute. Products with the derivative are in its low precision.
    x : array (n, k, d)
        Tokens, in any precision.
    heads : int
        The number m of heads.
    rng : Generator
        For the probe that estimates the coupling of heads.

    Notes
    -----
    dF_a = sum_i [P_i * (S_i - rowsum(P_i * S_i))]_a X W_i with S_i = X dTheta_i X^T. A pass, forward or with the
    derivative or its transpose, is one product of (n k, d) by (d, m d) and two batched ones, O(n k m d (d + 2 k)). Each
    lies in the memory of the pass before: n k m (3 d + 4 k) numbers, and n k d.

    For isotropic tokens the squared change of the outputs is about sum_ij C_ij <dTheta_i, dTheta_j>, where
    C_ij = <J_i V, J_j V> / |V|^2 comes from one random probe V.
    """

    # in the precision of reads; their memory goes before that of another precision is taken
    _tokens: Any = None
    _wide: Any = None
    _logits: Any = None
    _pattern: Any = None

    def __init__(self, engine: Engine, x: Shaped[Any, "n k d"], heads: int, rng: np.random.Generator) -> None:
        n, k, d = x.shape
        low = engine.low
        self.engine, self.x, self.heads, self.rng = engine, x, heads, rng
        self.columns = heads * d
        self.go_to(engine.single)
        self._low = self._tokens if low == engine.single else engine.cast(x, low)
        self._ones = engine.xp.ones((k, k), dtype=low, device=engine.device)
        self._output = engine.empty((n, k, d), low)
        self._low_wide = engine.empty((n * k, heads * d), low)
        self._values = engine.empty((n, heads, k, d), low)
        self._change, self._sums, self._low_pattern = (
            engine.empty((n * k * heads, k), low) for _ in range(3)
        )
        self._coupling = np.eye(heads)

    def go_to(self, dtype: Any) -> None:
        """Read in another precision from now on."""
        engine, (n, k, d) = self.engine, self.x.shape
        self._wide = self._logits = self._tokens = self._pattern = None
        self._tokens = engine.cast(self.x, dtype)
        self._wide = engine.empty((n * k, self.heads * d), dtype)
        self._logits = engine.empty((n, k * self.heads, k), dtype)

    def reads(self, parameters: Shaped[Any, "d columns"]) -> Shaped[Any, "rows columns"]:
        """What the heads read at `parameters`, Z = [P_1 X ... P_m X], (n k, m d)."""
        engine, xp, m = self.engine, self.engine.xp, self.heads
        n, k, d = self.x.shape
        tokens = self._tokens
        flat = xp.reshape(tokens, (n * k, d))
        left = engine.matmul(flat, engine.cast(parameters, tokens.dtype), out=self._wide)
        turned = xp.matrix_transpose(tokens)
        logits = engine.matmul(xp.reshape(left, (n, k * m, d)), turned, out=self._logits)
        self._pattern = softmax_in_place(engine, logits)
        read = engine.matmul(self._pattern, tokens, out=engine.shaped(self._wide, (n, k * m, d)))
        return xp.reshape(read, (n * k, m * d))

    def linearise(self, parameters: Any, linear: Shaped[Any, "reads d"]) -> None:
        """Take the derivative where the heads were read last, with the W_i below one another in `linear`."""
        engine, xp, m = self.engine, self.engine.xp, self.heads
        n, k, d = self.x.shape
        stacked = xp.reshape(xp.permute_dims(xp.reshape(linear, (m, d, d)), (1, 0, 2)), (d, m * d))
        flat = xp.reshape(self._low, (n * k, d))
        projected = engine.matmul(flat, engine.cast(stacked, engine.low), out=self._low_wide)
        values = xp.permute_dims(xp.reshape(projected, (n, k, m, d)), (0, 2, 1, 3))
        self._values = engine.cast(values, engine.low, out=self._values)
        pattern = xp.reshape(self._pattern, (n * k * m, k))
        self._low_pattern = engine.cast(pattern, engine.low, out=self._low_pattern)
        self._pattern = None
        self._couple()

    def times(self, direction: Shaped[Any, "d columns"]) -> Shaped[Any, "rows d"]:
        """J dTheta: how the outputs change along `direction`."""
        engine, xp, m = self.engine, self.engine.xp, self.heads
        n, k, d = self.x.shape
        flat = xp.reshape(self._low, (n * k, d))
        left = engine.matmul(flat, engine.cast(direction, engine.low), out=self._low_wide)
        change = engine.matmul(
            xp.reshape(left, (n, k * m, d)),
            xp.matrix_transpose(self._low),
            out=engine.shaped(self._change, (n, k * m, k)),
        )
        change = softmax_derivative(
            engine, xp.reshape(change, (n * k * m, k)), self._low_pattern, self._ones, self._sums
        )
        values = xp.reshape(self._values, (n, m * k, d))
        moved = engine.matmul(xp.reshape(change, (n, k, m * k)), values, out=self._output)
        return xp.reshape(moved, (n * k, d))

    def transpose_times(self, residual: Shaped[Any, "rows d"]) -> Shaped[Any, "d columns"]:
        """J^T R: the derivative of <F, R> with respect to all Theta_i; not in reused memory."""
        engine, xp, m = self.engine, self.engine.xp, self.heads
        n, k, d = self.x.shape
        values = xp.reshape(self._values, (n, m * k, d))
        pull = engine.matmul(
            xp.reshape(residual, (n, k, d)),
            xp.matrix_transpose(values),
            out=engine.shaped(self._change, (n, k, m * k)),
        )
        change = softmax_derivative(
            engine, xp.reshape(pull, (n * k * m, k)), self._low_pattern, self._ones, self._sums
        )
        mixed = engine.matmul(
            xp.reshape(change, (n, k * m, k)), self._low, out=engine.shaped(self._low_wide, (n, k * m, d))
        )
        flat = xp.reshape(self._low, (n * k, d))
        return engine.matmul(xp.matrix_transpose(flat), xp.reshape(mixed, (n * k, m * d)))

    def damping_term(self, damping: float) -> Callable[[Any], Any]:
        """The term lambda D of the normal equations: p -> lambda D p, with D = tr(C)/m I."""
        shift = damping * self._mean
        return lambda direction: shift * direction

    def preconditioner(self, damping: float) -> Callable[[Any], Any]:
        """(C + lambda tr(C)/m)^-1 on the heads of a direction."""
        engine, xp, m = self.engine, self.engine.xp, self.heads
        inverse = self._inverse_coupling(damping)

        def solve(r: Any) -> Any:
            d = r.shape[0]
            turned = xp.reshape(xp.permute_dims(xp.reshape(r, (d, m, d)), (1, 0, 2)), (m, d * d))
            turned = xp.reshape(engine.matmul(inverse, turned), (m, d, d))
            return xp.reshape(xp.permute_dims(turned, (1, 0, 2)), r.shape)

        return solve

    def balanced(self, parameters: Any, linear: Any) -> None:
        """Nothing: the matrices of a layer are unique."""

    def matrices(
        self, parameters: Shaped[Any, "d columns"], linear: Shaped[Any, "columns d"]
    ) -> tuple[Shaped[Any, "m d d"], Shaped[Any, "m d d"]]:
        """The Theta_i and W_i."""
        xp, (d, columns) = self.engine.xp, parameters.shape
        shape = (columns // d, d, d)
        theta = xp.permute_dims(xp.reshape(parameters, (d, *shape[:2])), (1, 0, 2))
        return theta, xp.reshape(linear, shape)

    def _inverse_coupling(self, damping: float) -> Any:
        # heads that agree on the probe make the coupling singular, however small the damping
        shift = max(damping, 1e-9) * self._mean or 1.0
        inverse = np.linalg.inv(self._coupling + shift * np.eye(self.heads))
        return self.engine.put(inverse, self.engine.single)

    @property
    def _mean(self) -> float:
        return float(np.trace(self._coupling)) / self.heads

    def _couple(self) -> None:
        engine, xp, m = self.engine, self.engine.xp, self.heads
        n, k, d = self.x.shape
        few = min(n, _PROBE_EXAMPLES)
        probe = self.rng.standard_normal((d, d))
        direction = engine.put(probe / np.linalg.norm(probe), engine.single)
        tokens = engine.cast(self._low[:few, ...], engine.single)
        left = xp.reshape(engine.matmul(xp.reshape(tokens, (few * k, d)), direction), (few, k, d))
        logits = engine.matmul(left, xp.matrix_transpose(tokens))
        pattern = xp.permute_dims(xp.reshape(self._low_pattern, (n, k, m, k))[:few, ...], (2, 0, 1, 3))
        values = xp.permute_dims(self._values[:few, ...], (1, 0, 2, 3))
        flat = change_each_head(
            engine.cast(pattern, engine.single), logits, engine.cast(values, engine.single), xp
        )
        gram = to_numpy(engine.matmul(flat, xp.matrix_transpose(flat)))
        self._coupling = gram.astype(np.float64) * (n / few)

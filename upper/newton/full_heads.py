"""Heads with free attention matrices: their reads Z, the derivative in all Theta_i, and a preconditioner for it."""

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Float, Shaped

from upper.engine import Engine

NO_PRIOR = (0.0, 0.0, 0.0)
"""Precisions of the prior on up to three blocks of parameters, without a prior."""


@dataclass(eq=False)
class Heads(ABC):
    """A parametrisation of m heads: the heads to start from, their reads, and products with the derivative.

    A kind of heads has its arrays, (m, ...), and `biased`, `columns` and `parameters` of the start. On tokens, it has
    `reads` Z at parameters and `linearise` there; `times` and `transpose_times`, the products with J and J^T, in the
    engine's low precision; the `damping_term` lambda D and a `preconditioner`; and the `matrices` of parameters. With
    biases, tokens on the left get a last coordinate 1, and the reads a last column of ones, whose row of the linear
    factor is b.

    Parameters
    ----------
    causal : bool
        Whether row j attends to the tokens up to j only.
    """

    causal: bool = field(default=False, kw_only=True)
    # set by `on`; the tokens are in the precision of reads, and in the low one
    engine: Engine = field(init=False, repr=False)
    x: Any = field(init=False, repr=False)
    rng: np.random.Generator = field(init=False, repr=False)
    _tokens: Any = field(init=False, repr=False)
    _low: Any = field(init=False, repr=False)

    @property
    def arrays(self) -> dict[str, Any]:
        """The arrays by name, (m, ...); all are of the same library."""
        return {
            part.name: getattr(self, part.name)
            for part in fields(self)
            if part.init and part.name != "causal"
        }

    @property
    def array(self) -> Any:
        """The first of the arrays."""
        return next(iter(self.arrays.values()))

    @property
    def heads(self) -> int:
        """The number m of heads."""
        return int(self.array.shape[0])

    @property
    def rank(self) -> int:
        """The largest rank that a Theta_i may have."""
        return int(self.array.shape[2])

    @property
    def weighable(self) -> bool:
        """Whether rows can be weighted near a solution (see `upper.newton.logit_weights`)."""
        return False

    def map(self, convert: Callable[[Any], Any]) -> Any:
        """The same heads with `convert` applied to every array, for example ``torch.from_numpy``."""
        return replace(self, **{name: convert(array) for name, array in self.arrays.items()})

    def on(self, engine: Engine, x: Shaped[Any, "n k d"], rng: np.random.Generator) -> Any:
        """These heads on tokens; `rng` draws the probe of the coupling of heads."""
        heads = copy.copy(self)
        heads.engine, heads.x, heads.rng = engine, x, rng
        heads.go_to(engine.single)
        heads._low = heads._tokens if engine.low == engine.single else heads._tokens_in(engine.low)
        heads._reset()
        return heads

    def go_to(self, dtype: Any) -> None:
        """Change the precision of reads."""
        self._last: Any = None  # freed before an array of another precision is allocated
        self._tokens = None
        self._tokens = self._tokens_in(dtype)

    @abstractmethod
    def parameters(self, engine: Engine) -> Shaped[Any, "p columns"]:
        """The parameters at the start."""

    @abstractmethod
    def _tokens_in(self, dtype: Any) -> Any:
        """The tokens as products take them."""

    @abstractmethod
    def _reset(self) -> None:
        """Begin without a derivative."""


@dataclass(eq=False)
class FullHeads(Heads):
    """The heads Theta_i; parameters and directions are the Theta_i side by side, (d, m d).

    Parameters
    ----------
    theta : array (m, d, d) or (m, d + 1, d)
        The matrices to start from; with biases, each has c_i as a last row. With a last coordinate 1, a token on the
        left then makes the logit x_a Theta_i x_b + c_i . x_b, and the reads have a last column of ones, whose row of
        the linear factor is b.

    Notes
    -----
    dF_a = sum_i [P_i * (S_i - rowsum(P_i * S_i))]_a X W_i with S_i = X dTheta_i X^T. A pass (forward, or with the
    derivative or its transpose) is one product of (n k, d) by (d, m d) and two batched ones, O(n k m d (d + 2 k)).

    For isotropic tokens the squared change of the outputs is about sum_ij C_ij <dTheta_i, H dTheta_j>, where
    C_ij = <J_i V, J_j V> / |V|^2 comes from one random probe V, and H dTheta is the sum over all pairs of tokens of an
    example of <x_a, dTheta (x_b - mean)> x_a (x_b - mean)^T. With many examples H is nearly a multiple of the identity,
    and the preconditioner inverts C alone. With few, it inverts H too (`PairMoments`), once that costs less than the
    inner steps so far, or rows are weighted, which makes this inverse more exact.
    """

    theta: Shaped[Any, "m e d"]
    _moments: "PairMoments | None" = field(default=None, init=False, repr=False)
    _coupling: Any = field(default=None, init=False, repr=False)
    _weighs: bool = field(default=False, init=False, repr=False)

    #: examples of the probe that estimates the coupling of heads; a constant factor of error does no harm
    probe: ClassVar[int] = 64
    #: the moments of pairs of tokens are inverted up to this dimension, if these are fewer than so many times d^2: with
    #: more they are near a multiple of the identity
    largest: ClassVar[int] = 64
    pairs: ClassVar[int] = 3
    #: rows are weighted if (m k)^3 is at most so many times m d^2: at (8, 4, 32), 4 times, a run to 1e-12 takes .75 of
    #: the time, at (4, 8, 32), 8 times, as long, and at (8, 8, 64), 8 times, 1.4 of it
    inverses: ClassVar[int] = 4
    #: where rows are weighted, moments of pairs save about so many inner steps, and are made if these cost more
    steps_saved: ClassVar[int] = 32

    @property
    def biased(self) -> bool:
        """Whether the heads have biases."""
        return bool(self.theta.shape[1] > self.theta.shape[2])

    @property
    def columns(self) -> int:
        """All m d columns: one block."""
        return self.heads * int(self.theta.shape[2])

    def parameters(self, engine: Engine) -> Shaped[Any, "e columns"]:
        """The parameters at the start."""
        (m, e, d), xp = self.theta.shape, engine.xp
        theta = engine.cast(engine.detach(self.theta), engine.double)
        return xp.reshape(xp.permute_dims(theta, (1, 0, 2)), (e, m * d))

    def reads(self, parameters: Shaped[Any, "e columns"]) -> Shaped[Any, "rows reads"]:
        """The reads of the heads at `parameters`, Z = [P_1 X ... P_m X], (n k, m d)."""
        engine, tokens, (n, k, d) = self.engine, self._tokens, self.x.shape
        self._last = None
        self._last = engine.softmax(self._bilinear(tokens, engine.cast(parameters, tokens.dtype)))
        reads = engine.xp.reshape(self._last @ tokens, (n * k, self.heads * d))
        return with_ones(engine, reads) if self.biased else reads

    def linearise(self, parameters: Any, linear: Shaped[Any, "reads d"]) -> None:
        """Take the derivative at the point of the last call of `reads`; `linear` has the W_i stacked, (m d, d)."""
        engine, xp, m = self.engine, self.engine.xp, self.heads
        n, k, d = self.x.shape
        w = xp.reshape(linear[: m * d, :], (m, d, d))
        stacked = xp.reshape(xp.permute_dims(w, (1, 0, 2)), (d, m * d))
        projected = xp.reshape(self._low, (n * k, d)) @ engine.cast(stacked, engine.low)
        values = xp.permute_dims(xp.reshape(projected, (n, k, m, d)), (0, 2, 1, 3))
        self._values = xp.reshape(values, (n, m * k, d))
        self._pattern = engine.cast(self._last, engine.low)
        self._last = self._coupling = None
        self._weighs = False

    def times(self, direction: Shaped[Any, "e columns"]) -> Shaped[Any, "rows d"]:
        """J dTheta, the change of the outputs along `direction`."""
        self._steps += 1
        return self.outputs(self._bilinear(self._low, self.engine.cast(direction, self.engine.low)))

    def transpose_times(self, residual: Shaped[Any, "rows d"]) -> Shaped[Any, "e columns"]:
        """J^T R: the derivative of <F, R> with respect to all Theta_i, and c_i."""
        return self.gather(self.pull(residual))

    def outputs(self, change: Shaped[Any, "n km k"]) -> Shaped[Any, "rows d"]:
        """T for every token: the change of its output with its logits, which are overwritten."""
        xp, (n, k, d) = self.engine.xp, self.x.shape
        change = self.engine.softmax_derivative(change, self._pattern)
        return xp.reshape(xp.reshape(change, (n, k, self.heads * k)) @ self._values, (n * k, d))

    def pull(self, residual: Shaped[Any, "rows d"]) -> Shaped[Any, "n km k"]:
        """T^T for every token: the derivative of <F, R> with respect to its logits."""
        xp, (n, k, d) = self.engine.xp, self.x.shape
        change = xp.reshape(residual, (n, k, d)) @ xp.matrix_transpose(self._values)
        return self.engine.softmax_derivative(xp.reshape(change, (n, k * self.heads, k)), self._pattern)

    def gather(self, change: Shaped[Any, "n km k"]) -> Shaped[Any, "e columns"]:
        """The derivative with respect to all Theta_i, and c_i, from that with respect to the logits."""
        xp, (n, k, d) = self.engine.xp, self.x.shape
        tokens = xp.matrix_transpose(self._left(self._low))
        return tokens @ xp.reshape(change @ self._low, (n * k, self.heads * d))

    @property
    def weighable(self) -> bool:
        """Whether m k by m k inverses cost little beside a step; not for subclasses, whose products differ."""
        _, k, d = self.x.shape
        return type(self) is FullHeads and k > 1 and self.inverses_pay(self.heads, k, d)

    @classmethod
    def inverses_pay(cls, heads: int, tokens: int, dim: int) -> bool:
        """Whether an m k by m k inverse for every token costs little beside a step."""
        return (heads * tokens) ** 3 <= cls.inverses * heads * dim * dim

    def weigh(self, coupling: Float[np.ndarray, "m m"]) -> None:
        """Take the coupling of weighted rows in place of C, until the next derivative."""
        self._coupling, self._weighs = coupling, True

    def logit_gram(self) -> Shaped[Any, "n k mk mk"]:
        """T^T T for every token."""
        engine, xp, m, (n, k, _) = self.engine, self.engine.xp, self.heads, self.x.shape
        values = engine.cast(self._values, engine.single)
        pattern = xp.reshape(engine.cast(self._pattern, engine.single), (n, k, m * k))
        same_head = engine.put(np.kron(np.eye(m), np.ones((k, k))), engine.single)
        moved = engine.put(np.eye(m * k), engine.single) - same_head * pattern[:, :, None, :]
        moved *= pattern[..., None]
        return moved @ (values @ xp.matrix_transpose(values))[:, None, ...] @ moved

    @property
    def coupling(self) -> Float[np.ndarray, "m m"]:
        """C at the derivative, made when it is first asked for."""
        if self._coupling is None:
            self._couple()
        return self._coupling

    def damping_term(self, damping: float, precisions: Sequence[float] = NO_PRIOR) -> Callable[[Any], Any]:
        """The term lambda D of the normal equations, with the prior: p -> lambda tr(C)/m p + precision p."""
        shift = damping * self._mean + precisions[0]
        return lambda direction: shift * direction

    def preconditioner(self, damping: float, precisions: Sequence[float] = NO_PRIOR) -> Callable[[Any], Any]:
        """Apply (C + (lambda tr(C)/m + precision) I)^-1 to the heads of a direction, and H^-1 if that helps."""
        xp, m = self.engine.xp, self.heads
        inverse = self._inverse_coupling(damping, precisions[0])
        if self._moments is None and self._moments_are_worth_it():
            self._moments = PairMoments(self.engine, self.x)
        moments = self._moments

        def solve(r: Any) -> Any:
            shape = (r.shape[0], m, r.shape[1] // m)
            turned = xp.reshape(xp.permute_dims(xp.reshape(r, shape), (1, 0, 2)), (m, -1))
            turned = inverse @ turned
            if moments is not None:
                turned = moments.solve(turned)
            turned = xp.reshape(turned, (m, shape[0], shape[2]))
            return xp.reshape(xp.permute_dims(turned, (1, 0, 2)), r.shape)

        return solve

    def matrices(
        self, parameters: Shaped[Any, "e columns"], linear: Shaped[Any, "reads d"]
    ) -> tuple[Any, ...]:
        """The Theta_i and W_i, and if the heads are biased the c_i and b."""
        xp, m, d = self.engine.xp, self.heads, self.x.shape[2]
        theta = xp.permute_dims(xp.reshape(parameters, (parameters.shape[0], m, d)), (1, 0, 2))
        w = xp.reshape(linear[: m * d, :], (m, d, d))
        return (theta[:, :d, :], w, theta[:, d, :], linear[m * d, :]) if self.biased else (theta, w)

    def _tokens_in(self, dtype: Any) -> Any:
        return self.engine.cast(self.x, dtype)

    def _reset(self) -> None:
        self._coupling = np.eye(self.heads)
        self._weighs = False
        self._moments = None
        self._steps = 0

    def _left(self, tokens: Any) -> Any:
        """The tokens as rows, with a last coordinate 1 if the heads are biased."""
        rows = self.engine.xp.reshape(tokens, (-1, tokens.shape[2]))
        return with_ones(self.engine, rows) if self.biased else rows

    def _bilinear(self, tokens: Any, matrices: Any) -> Any:
        """x_a M_i x_b for matrices M_i side by side, (n, k m, k)."""
        xp, (n, _, d) = self.engine.xp, tokens.shape
        left = xp.reshape(self._left(tokens) @ matrices, (n, -1, d))
        return left @ xp.matrix_transpose(tokens)

    def _moments_are_worth_it(self) -> bool:
        n, k, d = self.x.shape
        step, price = 8 * n * k * self.heads * d * (d + k), PairMoments.price(n, d)
        few = 0 < n * k * (k - 1) < self.pairs * d * d and step * self._steps > price
        saved = self._weighs and step * self.steps_saved > price
        return (few or saved) and d <= self.largest and not self.biased

    def _inverse_coupling(self, damping: float, precision: float) -> Any:
        # heads that agree on the probe make the coupling singular, however small the damping
        shift = max(damping, 1e-9) * self._mean + precision or 1.0
        inverse = np.linalg.inv(self.coupling + shift * np.eye(self.heads))
        return self.engine.put(inverse, self.engine.single)

    @property
    def _mean(self) -> float:
        return float(np.trace(self.coupling)) / self.heads

    def _couple(self) -> None:
        engine, xp, m = self.engine, self.engine.xp, self.heads
        n, k, d = self.x.shape
        few = min(n, self.probe)
        probe = self.rng.standard_normal((d + self.biased, d))
        direction = engine.put(probe / np.linalg.norm(probe), engine.single)
        tokens = engine.cast(self._low[:few, ...], engine.single)
        logits = self._bilinear(tokens, direction)
        pattern = xp.permute_dims(xp.reshape(self._pattern, (n, k, m, k))[:few, ...], (2, 0, 1, 3))
        values = xp.permute_dims(xp.reshape(self._values, (n, m, k, d))[:few, ...], (1, 0, 2, 3))
        self._coupling = coupling(engine, pattern, logits, values) * (n / few)


class PairMoments:
    """The inverse of the moments H that `FullHeads` defines, scaled to a mean of one, for matrices side by side.

    Notes
    -----
    H is the sum over examples of the Kronecker products of A = X^T X and B, the same of the centred tokens. It is made
    symmetric in A and B. So it maps symmetric matrices to symmetric ones and antisymmetric to antisymmetric ones, and
    each half has an inverse of d (d + 1) / 2 rows. On nice layers at 1.5 and 4 floors this takes up to a fifth more
    passes than the inverse of H itself, for a quarter of its price. The `ridge` is a share of the mean of H; from .01
    to .1 all give as many passes. Memory: at most 3 d^4 numbers of 4 bytes.
    """

    def __init__(self, engine: Engine, x: Shaped[Any, "n k d"], ridge: float = 0.1) -> None:
        self._xp, (n, _, d) = engine.xp, x.shape
        xp, tokens = engine.xp, engine.cast(x, engine.single)
        rows, columns = np.triu_indices(d)
        half = len(rows)
        upper, lower = rows * d + columns, columns * d + rows
        place = np.empty(d * d, dtype=np.int64)
        place[lower], place[upper] = np.arange(half) + half, np.arange(half)
        self._upper, self._lower, self._place = (engine.put(index) for index in (upper, lower, place))

        def squares(z: Any) -> Any:
            return xp.take(xp.reshape(xp.matrix_transpose(z) @ z, (n, d * d)), self._upper, axis=1)

        moments = xp.matrix_transpose(squares(tokens)) @ squares(
            tokens - xp.mean(tokens, axis=1, keepdims=True)
        )
        moments = xp.reshape(moments + xp.matrix_transpose(moments), (-1,))
        pair = np.where(place < half, place, place - half).reshape(d, d)

        def between(first: np.ndarray, second: np.ndarray) -> Any:
            """The moments of A at (p, first) and B at (q, second), for the entries (p, q) of half a matrix."""
            flat = pair[rows[:, None], first] * half + pair[columns[:, None], second]
            return xp.reshape(xp.take(moments, engine.put(flat.ravel()), axis=0), (half, half))

        straight, crossed = between(rows, columns), between(columns, rows)
        diagonal = (rows == columns).astype(np.float64)
        mean = float(xp.linalg.trace(straight)) / half or 1.0
        added = engine.put(np.diag(ridge * mean * (1 + diagonal)), engine.single)
        # an entry of the diagonal counts once, others twice; the antisymmetric half has none
        scale = engine.put(0.5 * mean * (1 + diagonal), engine.single)
        self._symmetric = engine.inverse_of_positive(straight + crossed + added) * scale
        self._antisymmetric = engine.inverse_of_positive(straight - crossed + added) * (0.5 * mean)

    @staticmethod
    def price(n: int, d: int) -> float:
        """The multiplications and additions to make it: the moments, and two inverses."""
        half = d * (d + 1) / 2
        return 2 * n * half**2 + 4 * half**3

    def solve(self, flat: Shaped[Any, "m square"]) -> Shaped[Any, "m square"]:
        """Apply the inverse to each row, a matrix of d^2 entries."""
        xp = self._xp
        above, below = xp.take(flat, self._upper, axis=1), xp.take(flat, self._lower, axis=1)
        even = (above + below) @ self._symmetric
        odd = (above - below) @ self._antisymmetric
        return xp.take(xp.concat([even + odd, even - odd], axis=1), self._place, axis=1)


def with_ones(engine: Engine, rows: Shaped[Any, "rows columns"]) -> Shaped[Any, "rows columns_and_one"]:
    """`rows` with a last column of ones."""
    ones = engine.xp.ones((rows.shape[0], 1), dtype=rows.dtype, device=engine.device)
    return engine.xp.concat([rows, ones], axis=1)


def coupling(
    engine: Engine,
    pattern: Shaped[Any, "m n k k"],
    logits: Shaped[Any, "n k k"],
    values: Shaped[Any, "m n k v"],
) -> Float[np.ndarray, "m m"]:
    """The matrix <c_i, c_j>, with c_i the change of the output of head i if all logits change by `logits`."""
    xp = engine.xp
    pattern, values = engine.cast(pattern, engine.single), engine.cast(values, engine.single)
    weighted = pattern * logits[None, ...]
    change = weighted - pattern * xp.sum(weighted, axis=-1)[..., None]
    flat = xp.reshape(change @ values, (pattern.shape[0], -1))
    return engine.to_numpy(flat @ xp.matrix_transpose(flat))

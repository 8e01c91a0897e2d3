"""Heads of low rank, Theta_i = A_i B_i^T and W_i = V_i O_i, as in transformers: the factors and their derivative."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Shaped

from attention import AttentionLayer
from attention._arrays import namespace, to_numpy
from attention.inputs import Rng
from upper.engine import Engine
from upper.newton.full_heads import NO_PRIOR, Heads, coupling, with_ones


@dataclass(eq=False)
class LowRankHeads(Heads):
    """The heads Theta_i = A_i B_i^T and W_i = V_i O_i; parameters are [A | B | V], (d, 3 m r).

    A, B, V and O are the query, key, value and output maps; r is at most d. The changes A_i -> A_i G, B_i -> B_i G^-T
    and V_i -> V_i H, O_i -> H^-1 O_i change no head. So every Theta_i and every W_i has 2 d r - r^2 unknowns. With a
    row more in A, its last row a_i is the query bias: c_i = B_i a_i. Tokens then get a last coordinate 1; that row of B
    and V stays 0, and the reads have a last column of ones, whose row of the linear factor is b.

    Notes
    -----
    dF = sum_i [dP_i (X V_i) + P_i (X dV_i)] O_i with dP_i = P_i * (S_i - rowsum(P_i * S_i)) and
    S_i = (X dA_i)(X B_i)^T + (X A_i)(X dB_i)^T. A pass costs O(n k m r (d + k)).

    For isotropic tokens, a change of the Theta_i changes the outputs by sum_ij C_ij <dTheta_i, dTheta_j> (squared norm,
    approximately). C is the m x m coupling of heads, from random changes of all logits. A change of the W_i gives
    sum_ij E_ij <dW_i, dW_j>, with E_ij the sum of p_i . p_j over all rows of patterns. As forms in the columns of dA,
    dB and dV, these are C_ij B_i^T B_j, C_ij A_i^T A_j and E_ij O_i O_j^T. The preconditioner inverts these three
    forms. The damping uses the same forms, with C and E replaced by the means of their diagonals times the identity.
    It damps the change of Theta_i and W_i, not that of the factors, so that small singular values can change freely.

    References
    ----------
    A damping that follows the factors is the ScaledGD of Tong, Ma and Chi, J. Mach. Learn. Res. 22 (2021).

    Examples
    --------
    >>> heads = random_factors(heads=2, dim=8, rank=3, rng=0)
    >>> heads.heads, heads.dim, heads.rank
    (2, 8, 3)
    >>> heads.layer()
    AttentionLayer(heads=2, dim=8, dtype=float64)
    """

    a: Shaped[Any, "m e r"]
    b: Shaped[Any, "m d r"]
    v: Shaped[Any, "m d r"]
    o: Shaped[Any, "m r d"]

    #: examples of the probe that estimates the coupling of heads; a constant factor of error does no harm
    probe: ClassVar[int] = 128
    #: the least damping of a direction of the factors, relative to that of the average direction
    least_weight: ClassVar[float] = 1e-2

    @classmethod
    def of(cls, layer: AttentionLayer, rank: int) -> "LowRankHeads":
        """The balanced factors of a layer, each Theta_i and W_i replaced by the nearest matrix of the rank.

        By truncated singular value decompositions, O(m d^3), in NumPy and float64. A c_i of the layer is replaced by
        the nearest vector that the rows of Theta_i span, and b is left out.

        Examples
        --------
        >>> from attention import make_low_rank_layer
        >>> layer = make_low_rank_layer(heads=2, dim=8, rank=3, w_rank=3, rng=0)
        >>> bool(np.allclose(LowRankHeads.of(layer, 3).layer().theta, layer.theta))
        True
        """
        (a, b), (v, o) = (
            _nearest(to_numpy(matrices).astype(np.float64), rank) for matrices in (layer.theta, layer.w)
        )
        if layer.key_bias is not None:
            key_bias = to_numpy(layer.key_bias).astype(np.float64)[:, None]
            a = np.concatenate([a, key_bias @ np.swapaxes(np.linalg.pinv(b), 1, 2)], axis=1)
        scale = np.linalg.norm(v, axis=1, keepdims=True)
        unit = np.where(scale > 0, scale, 1.0)
        return cls(a=a, b=b, v=v / unit, o=np.swapaxes(o * scale, 1, 2))

    @property
    def dim(self) -> int:
        """The number d of coordinates of a token."""
        return int(self.b.shape[1])

    @property
    def biased(self) -> bool:
        """Whether the heads have a bias of the queries."""
        return bool(self.a.shape[1] > self.b.shape[1])

    def parameters(self, engine: Engine) -> Shaped[Any, "e columns"]:
        """The parameters at the start: [A | B | V]."""
        factors = (
            engine.cast(engine.detach(factor), engine.double) for factor in (self.a, self.b, self.v, self.o)
        )
        return LowRankHeads(*factors).side_by_side()

    @property
    def columns(self) -> int:
        """The m r columns of the A_i, of the B_i, of the V_i, and of the reads."""
        return self.heads * self.rank

    def side_by_side(self) -> Shaped[Any, "e columns"]:
        """[A | B | V], the factors of all heads side by side, (d, 3 m r); if A has a row more, B and V get one of 0."""
        xp = namespace(self.a)
        turned = [xp.permute_dims(factor, (1, 0, 2)) for factor in (self.a, self.b, self.v)]
        a, b, v = (xp.reshape(factor, (factor.shape[0], -1)) for factor in turned)
        below = xp.concat([b, v], axis=1)
        if self.biased:
            below = xp.concat([below, 0 * below[:1, :]], axis=0)
        return xp.concat([a, below], axis=1)

    def layer(self) -> AttentionLayer:
        """The layer of these heads, of the same array library, with the c_i if these are biased."""
        xp, d = namespace(self.a), self.dim
        theta, w = self.a @ xp.matrix_transpose(self.b), self.v @ self.o
        return AttentionLayer(theta[:, :d, :], w, theta[:, d, :] if self.biased else None)

    def _reset(self) -> None:
        self._blocks: list[np.ndarray] = []
        self._damped: list[np.ndarray] = []

    def _tokens_in(self, dtype: Any) -> Any:
        rows = self.engine.xp.reshape(self.engine.cast(self.x, dtype), (-1, self.x.shape[2]))
        return with_ones(self.engine, rows) if self.biased else rows

    def reads(self, parameters: Shaped[Any, "e columns"]) -> Shaped[Any, "rows reads"]:
        """The reads of the heads at `parameters`, Z = [P_1 X V_1 ... P_m X V_m], (n k, m r)."""
        self._last = None
        factors = self.engine.cast(parameters, self._tokens.dtype)
        queries, keys, values = self._apart(self._tokens @ factors, parts=3)
        pattern = self.engine.softmax(queries @ self.engine.xp.matrix_transpose(keys))
        self._last = pattern, queries, keys, values
        reads = self._together(pattern @ values)
        return with_ones(self.engine, reads) if self.biased else reads

    def linearise(self, parameters: Shaped[Any, "e columns"], linear: Shaped[Any, "reads d"]) -> None:
        """Take the derivative at `parameters`, the point of the last call of `reads`; `linear` has the O_i."""
        engine = self.engine
        self._pattern, self._queries, self._keys, self._values = (
            engine.cast(factor, engine.low) for factor in self._last
        )
        linear = linear[: self.columns, :]
        self._o = engine.cast(linear, engine.low)
        self._last = None
        self._couple(engine.to_numpy(parameters), engine.to_numpy(linear))

    def times(self, direction: Shaped[Any, "e columns"]) -> Shaped[Any, "rows d"]:
        """J (dA, dB, dV), the change of the outputs along `direction`, (n k, d)."""
        engine, turned = self.engine, self.engine.xp.matrix_transpose
        projected = self._low @ engine.cast(direction, engine.low)
        queries, keys, values = self._apart(projected, parts=3)
        change = queries @ turned(self._keys)
        change += self._queries @ turned(keys)
        mixed = engine.softmax_derivative(change, self._pattern) @ self._values
        mixed += self._pattern @ values
        return self._together(mixed) @ self._o

    def transpose_times(self, residual: Shaped[Any, "rows d"]) -> Shaped[Any, "e columns"]:
        """J^T R: the derivative of <F, R> with respect to all A_i, B_i and V_i."""
        engine, xp, turned = self.engine, self.engine.xp, self.engine.xp.matrix_transpose
        (pull,) = self._apart(residual @ turned(self._o), parts=1)
        change = engine.softmax_derivative(pull @ turned(self._values), self._pattern)
        parts = change @ self._keys, turned(change) @ self._queries, turned(self._pattern) @ pull
        gradient = turned(self._low) @ xp.concat([self._together(part) for part in parts], axis=1)
        if self.biased:  # the last row of B and V is fixed
            cut, d = self.columns, self.dim
            last = xp.concat([gradient[d:, :cut], 0 * gradient[d:, cut:]], axis=1)
            gradient = xp.concat([gradient[:d, :], last], axis=0)
        return gradient

    def damping_term(self, damping: float, precisions: Sequence[float] = NO_PRIOR) -> Callable[[Any], Any]:
        """The term lambda D of the normal equations, with the prior on A, B and V.

        D measures the change of the Theta_i and W_i.
        """
        each = zip(self._damped, precisions, strict=True)
        blocks = [
            self.engine.put(damping * factor + p * np.eye(len(factor)), self.engine.single)
            for factor, p in each
        ]
        return lambda direction: self._by_blocks(direction, blocks)

    def preconditioner(self, damping: float, precisions: Sequence[float] = NO_PRIOR) -> Callable[[Any], Any]:
        """The inverse of the three quadratic forms with their damping and the prior."""
        inverses = []
        for block, damped, p in zip(self._blocks, self._damped, precisions, strict=True):
            matrix = block + max(damping, 1e-6) * damped
            tiny = 1e-12 * (np.trace(matrix) / len(matrix) or 1.0) + p
            inverse = np.linalg.inv(matrix + tiny * np.eye(len(matrix)))
            inverses.append(self.engine.put(0.5 * (inverse + inverse.T), self.engine.single))
        return lambda r: self._by_blocks(r, inverses)

    def matrices(
        self, parameters: Shaped[Any, "e columns"], linear: Shaped[Any, "reads d"]
    ) -> tuple[Any, ...]:
        """The Theta_i and W_i, and if the heads are biased the c_i and b."""
        layer = self._factors(parameters, linear).layer()
        biases = (layer.key_bias, linear[self.columns, :]) if self.biased else ()
        return (layer.theta, layer.w, *biases)

    def _factors(self, parameters: Any, linear: Any) -> "LowRankHeads":
        xp, m, cut, d = self.engine.xp, self.heads, self.columns, self.x.shape[2]
        a, b, v = (
            xp.permute_dims(xp.reshape(factor, (factor.shape[0], m, -1)), (1, 0, 2))
            for factor in (parameters[:, :cut], parameters[:d, cut : 2 * cut], parameters[:d, 2 * cut :])
        )
        return LowRankHeads(a=a, b=b, v=v, o=xp.reshape(linear[:cut, :], (m, -1, d)))

    def _apart(self, wide: Any, *, parts: int) -> list[Any]:
        """Split (n k, parts m r), heads side by side, into batches of heads (n m, k, r)."""
        xp, (n, k, _) = self.engine.xp, self.x.shape
        apart = xp.permute_dims(xp.reshape(wide, (n, k, parts, self.heads, self.rank)), (2, 0, 3, 1, 4))
        apart = xp.reshape(apart, (parts, n * self.heads, k, self.rank))
        return [apart[part, ...] for part in range(parts)]

    def _together(self, batch: Any) -> Any:
        """Put a batch of heads, (n m, k, r), side by side, (n k, m r)."""
        xp, (n, k, _) = self.engine.xp, self.x.shape
        turned = xp.permute_dims(xp.reshape(batch, (n, self.heads, k, self.rank)), (0, 2, 1, 3))
        return xp.reshape(turned, (n * k, -1))

    def _by_blocks(self, direction: Any, matrices: list[Any]) -> Any:
        parts, first = [], 0
        for factor in matrices:
            parts.append(direction[:, first : first + factor.shape[0]] @ factor)
            first += factor.shape[0]
        return self.engine.xp.concat(parts, axis=1)

    def _couple(self, factors: np.ndarray, linear: np.ndarray) -> None:
        engine, xp, m, r = self.engine, self.engine.xp, self.heads, self.rank
        n, k, d = self.x.shape
        few = min(n, self.probe)

        def of_few(array: Any) -> Any:
            apart = xp.reshape(array, (n, m, *array.shape[1:]))[:few, ...]
            return engine.cast(xp.permute_dims(apart, (1, 0, 2, 3)), engine.single)

        pattern, values = of_few(self._pattern), of_few(self._values)
        o = engine.cast(xp.reshape(self._o, (m, r, d)), engine.single)
        written = xp.reshape(values, (m, few * k, r)) @ o
        logits = engine.put(self.rng.standard_normal((few, k, k)), engine.single)
        by_logits = coupling(engine, pattern, logits, xp.reshape(written, (m, few, k, d))) * (n / few)
        flat = xp.reshape(pattern, (m, -1))
        by_values = engine.to_numpy(flat @ xp.matrix_transpose(flat)) * (n / few)
        cut = m * r
        a, b, o = factors[:, :cut], factors[:, cut : 2 * cut], linear
        forms = [(by_logits, b.T @ b), (by_logits, a.T @ a), (by_values, o @ o.T)]
        self._blocks, self._damped = [], []
        for between, gram in forms:
            self._blocks.append(np.kron(between, np.ones((r, r))) * gram)
            floor = self.least_weight * (np.trace(gram) / (m * r) or 1.0)
            mean = np.trace(between) / m or 1.0
            within = np.kron(np.eye(m), np.ones((r, r))) * gram
            self._damped.append(mean * (within + floor * np.eye(m * r)))


def random_factors(*, heads: int, dim: int, rank: int, rng: Rng) -> LowRankHeads:
    """Draw heads of a rank of at most `dim` as a start.

    In expectation |Theta_i| is 1 and V_i is nearly an isometry; O is 0. Entries of A and B are N(0, 1/(d sqrt(r))), so
    that those of Theta have variance 1/d^2. Entries of V are N(0, 1/d).
    """
    rng = np.random.default_rng(rng)
    a, b = rng.standard_normal((2, heads, dim, rank)) * (dim**-0.5 * rank**-0.25)
    v = rng.standard_normal((heads, dim, rank)) / np.sqrt(dim)
    return LowRankHeads(a=a, b=b, v=v, o=np.zeros((heads, rank, dim)))


def _nearest(matrices: np.ndarray, rank: int) -> tuple[np.ndarray, np.ndarray]:
    left, values, right = np.linalg.svd(matrices, full_matrices=False)
    root = np.sqrt(values[:, None, :rank])
    return left[:, :, :rank] * root, np.swapaxes(right, 1, 2)[:, :, :rank] * root

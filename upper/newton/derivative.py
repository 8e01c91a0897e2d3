"""The derivative of a layer's outputs in its heads, with the best change of W taken off, and what it does not show."""

from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float

from attention import AttentionLayer
from attention.layer import read_tokens
from attention.memory import require_memory
from upper.newton.whitening import Whitening

AT_ONCE = 128
"""Examples whose derivatives are held at once."""


@dataclass(frozen=True)
class Rounding:
    """What counts as rounding: larger shares call more directions undetermined, smaller ones take noise for signal.

    The outputs are taken to carry `outputs` roundings of size `eps`, and one more for each unit of the largest logit.
    Singular values below the share `whole` of the derivative before the best change of W is taken off, or `cancelled`
    of the outputs, are rounding. Singular values of a head above the share `rank` of its largest make its rank. A head
    takes part in an unseen direction if its share of the unit vector is above `part`.
    """

    eps: float = float(np.finfo(np.float64).eps)
    outputs: int = 16
    whole: float = 1e-7  # products of derivatives keep half the digits
    cancelled: float = 1e-13
    rank: float = 1e-9
    part: float = 1e-3


@dataclass(frozen=True, eq=False)
class Derivative:
    """The derivative of the outputs in relative changes of the parameters, with the best change of W taken off.

    `relative` has, for each head, orthonormal relative changes of [Theta_i; c_i]. `whitened` has these changes over the
    `reach` max(1, L), in whitened coordinates. `vectors` are combinations of all these columns with the singular values
    `values`, descending. `w_into` maps relative changes of the W_i and b to whitened ones. `w_vectors` are relative
    changes of a column of these with the values `w_values`. `undone` is the derivative in whitened changes, (s, d, m e
    r), on a basis of the outputs that W gives, one for each of the `w_values` above rounding.
    """

    whitening: Whitening
    units: Float[np.ndarray, "m 2"]
    reach: Float[np.ndarray, " m"]
    rounding: float
    relative: list[np.ndarray]
    whitened: list[np.ndarray]
    values: Float[np.ndarray, " p"]
    vectors: Float[np.ndarray, "p p"]
    w_into: Float[np.ndarray, "c c"]
    w_values: Float[np.ndarray, " q"]
    w_vectors: Float[np.ndarray, "c q"]
    undone: Float[np.ndarray, "s d mer"]
    w_units: Float[np.ndarray, " m"]

    @classmethod
    def of(
        cls,
        layer: AttentionLayer,
        x: Float[np.ndarray, "n k d"],
        rank: int | None,
        whitening: Whitening,
        rules: Rounding = Rounding(),
    ) -> "Derivative":
        """The derivative at a layer, on the tokens x; `rank` is that of the Theta_i, if it is known."""
        biased, m, (n, k, d) = layer.biased, layer.heads, x.shape
        r = whitening.rank
        e = r + biased
        require_memory(
            f"A certificate of {m} heads on {r} directions of tokens",
            8 * (6 * (m * r * e) ** 2 + n * k * (m * r + 1) + AT_ONCE * k * (m * r) * (m * r + d)),
            advice="certify fewer heads, or tokens cut to fewer coordinates",
        )
        here, z, spread = whitening.into(layer), whitening(x)[:, :, :r], whitening.spread
        rows = stacked(here, r)
        pattern, reads = read_tokens(z, rows[:, :r], rows[:, r] if biased else None, causal=here.causal)
        size = output_size(here, whitening(x))
        token = float(np.sqrt(np.sum(spread**2) + np.sum(whitening.mean**2)))
        units = _units(rows, whitening, token)
        # the reads in relative changes of the W_i and b
        w = here.w[:, :r] / spread[:, None]
        w_size = np.linalg.norm(w, axis=(1, 2))
        w_units = np.where(w_size > 0, w_size, w_size.max() or 1.0)
        w_into = np.diag(np.concatenate([np.outer(w_units, spread).ravel(), [size or 1.0] * biased]))
        if biased:
            reads = np.concatenate([reads, np.ones((n * k, 1))], axis=1)
            w_into[-1, :-1] = np.outer(w_units, whitening.basis.T @ whitening.mean).ravel()
        basis, w_values, w_vectors = np.linalg.svd(reads @ w_into / np.sqrt(n * k), full_matrices=False)
        logits = layer.logits(x)
        rounding = rules.eps * (rules.outputs + float(np.abs(logits).max())) * size
        reach = np.maximum(1.0, np.ptp(logits, axis=-1).max(axis=(0, 2)))
        basis = basis[:, w_values > rounding]
        whole, undone = _products(z, pattern, here.w[:, :r], basis, biased)
        least = max(rules.whole * np.sqrt(np.trace(whole)), rules.cancelled * size)
        gram = whole - undone.T @ undone
        relative, whitened, moves = [], [], []
        for head, unit, most in zip(rows, units, reach, strict=True):
            left = left_map(whitening, biased, unit)
            free = _directions(np.linalg.solve(left, head / spread), rank, rules.rank)
            into = (left @ free.reshape(e, -1)).reshape(e, r, -1) * spread[:, None]
            relative.append(free)
            whitened.append(into.reshape(e * r, -1) / most)
            moves.append(np.linalg.qr(whitened[-1]))
        parts = range(0, m * e * r, e * r)
        gram = np.vstack([block.T @ gram[i : i + e * r] for (block, _), i in zip(moves, parts, strict=True)])
        gram = np.hstack([gram[:, i : i + e * r] @ block for (block, _), i in zip(moves, parts, strict=True)])
        values, vectors = np.linalg.eigh(gram)
        roots = np.sqrt(np.where(values > least**2, values, 0.0))
        heads = np.split(vectors, np.cumsum([block.shape[1] for block in relative])[:-1])
        root = np.hstack([block.T @ change for block, (_, change) in zip(heads, moves, strict=True)])
        values, vectors = np.linalg.svd(roots[:, None] * root)[1:]
        return cls(
            whitening, units, reach, rounding, relative, whitened, values, vectors.T,
            w_into, w_values, w_vectors.T, undone.reshape(-1, d, m * e * r), w_units,
        )  # fmt: skip

    def by_head(self, changes: Float[np.ndarray, "p u"]) -> list[np.ndarray]:
        """Combinations of the directions as relative changes of [Theta_i; c_i], for each head."""
        return [free @ block for free, block in zip(self.relative, self._split(changes), strict=True)]

    def null_space(self, least: float) -> tuple[Float[np.ndarray, "p u"], Float[np.ndarray, "c v"]]:
        """The directions with values of at most `least`, of the heads and of a column of the W_i and b."""
        seen = int(np.sum(self.w_values > least))
        return self.vectors[:, self.values <= least], np.linalg.svd(self.w_vectors[:, :seen].T)[2][seen:].T

    def undoing(self, changes: Float[np.ndarray, "p u"], least: float) -> Float[np.ndarray, "c d u"]:
        """The relative changes of the W_i and b that do to the outputs what changes of the heads do."""
        moved = self.in_whitened(changes)
        undone = self.undone[: np.sum(self.w_values > least)] @ moved
        into = self.w_vectors[:, : len(undone)] / self.w_values[: len(undone)]
        return np.tensordot(into, undone, 1)

    def in_whitened(self, changes: Float[np.ndarray, "p u"]) -> Float[np.ndarray, "mer u"]:
        """Combinations of the directions in whitened coordinates, heads first."""
        return np.vstack(
            [into @ block for into, block in zip(self.whitened, self._split(changes), strict=True)]
        )

    def inverse_norms(self, least: float) -> Float[np.ndarray, "3 m"]:
        """The norms of the blocks of the Theta_i, c_i and W_i in the pseudo-inverse of the derivative."""
        r, m = self.whitening.rank, len(self.relative)
        seen = self.values > least
        inverse = self.vectors[:, seen] / self.values[seen]
        heads = [(block[: r * r], block[r * r :]) for block in self.by_head(inverse)]
        w_seen = self.w_values > least
        straight = self.w_vectors[:, w_seen] / self.w_values[w_seen]
        squares = self.undone.shape[1] * np.sum(straight**2, axis=1)
        squares += np.sum(self.undoing(inverse, least) ** 2, axis=(1, 2))
        return np.array(
            [
                [np.linalg.norm(theta) for theta, _ in heads],
                [np.linalg.norm(key_bias) for _, key_bias in heads],
                np.sqrt(squares[: m * r].reshape(m, r).sum(axis=1)),
            ]
        )

    def _split(self, changes: np.ndarray) -> list[np.ndarray]:
        return np.split(changes, np.cumsum([block.shape[1] for block in self.relative])[:-1])


def null_moves(
    at: Derivative, rng: np.random.Generator, *, moves: int = 4, tolerance: float = 1e-2
) -> list[tuple[np.ndarray, np.ndarray]]:
    """Random changes, as large as a layer, of [Theta_i; c_i] and of the W_i and b that are not determined; whitened.

    There are `moves` of each, along directions that rounding moves by more than the `tolerance`.
    """
    null, w_null = at.null_space(at.rounding / tolerance)
    (m, r), d = (len(at.relative), at.whitening.rank), at.undone.shape[1]
    random = []
    for _ in range(moves if w_null.size else 0):
        w = w_null @ rng.standard_normal((w_null.shape[1], d)) / np.sqrt(w_null.size)
        random.append((np.zeros((m, len(at.whitened[0]) // r, r)), at.w_into @ w))
    for _ in range(moves if null.size else 0):
        change = null @ rng.standard_normal((null.shape[1], 1)) / np.sqrt(null.shape[1])
        undoing = at.undoing(change, at.rounding)[:, :, 0]
        move = at.in_whitened(change).reshape(m, -1, r), -(at.w_into @ undoing)
        random.append((at.reach.max() * move[0], at.reach.max() * move[1]))
    return random


def moved(here: AttentionLayer, move: tuple[np.ndarray, np.ndarray], step: float) -> AttentionLayer:
    """A layer in whitened coordinates, moved."""
    rows, columns = step * move[0], step * move[1]
    (m, _, r), d = rows.shape, here.dim
    theta = here.theta + np.pad(rows[:, :r], ((0, 0), (0, d - r), (0, d - r)))
    w = here.w + np.pad(columns[: m * r].reshape(m, r, d), ((0, 0), (0, d - r), (0, 0)))
    if here.key_bias is None or here.bias is None:
        return replace(here, theta=theta, w=w)
    key_bias = here.key_bias + np.pad(rows[:, r], ((0, 0), (0, d - r)))
    return AttentionLayer(theta, w, key_bias, here.bias + columns[-1], here.causal)


def stacked(here: AttentionLayer, r: int) -> Float[np.ndarray, "m e r"]:
    """The first r rows and columns of the Theta_i, with c_i as a last row if the layer has biases."""
    if here.key_bias is None:
        return here.theta[:, :r, :r]
    return np.concatenate([here.theta[:, :r, :r], here.key_bias[:, None, :r]], axis=1)


def left_map(whitening: Whitening, biased: bool, unit: Float[np.ndarray, " 2"]) -> Float[np.ndarray, "e e"]:
    """The matrix A with A H diag(spread) = [Theta'; c'] in whitened coordinates, for relative H = [Theta; c]."""
    left = np.diag(np.append(unit[0] * whitening.spread, [unit[1]] * biased))
    if biased:
        left[-1, :-1] = unit[0] * (whitening.mean @ whitening.basis)
    return left


def _units(rows: Float[np.ndarray, "m e r"], whitening: Whitening, token: float) -> Float[np.ndarray, "m 2"]:
    r = whitening.rank
    units = np.ones((len(rows), 2))
    for head, unit in zip(rows, units, strict=True):
        matrix = np.linalg.solve(left_map(whitening, len(head) > r, unit), head / whitening.spread)
        unit[0] = np.linalg.norm(matrix[:r]) or 1 / token**2
        unit[1] = max(float(np.linalg.norm(matrix[r:])), unit[0] * token)
    return units


def output_size(layer: AttentionLayer, x: Float[np.ndarray, "n k d"]) -> float:
    """The sum over heads of the root mean square of their outputs on a token, and the size of b."""
    reads = read_tokens(x, layer.theta, layer.key_bias, causal=layer.causal)[1].reshape(
        -1, layer.heads, 1, layer.dim
    )
    size = np.sqrt(np.sum((reads @ layer.w) ** 2, axis=(2, 3)).mean(axis=0)).sum()
    return float(size + (0.0 if layer.bias is None else np.linalg.norm(layer.bias)))


def _products(
    z: Float[np.ndarray, "n k r"],
    pattern: Float[np.ndarray, "n k m k"],
    w: Float[np.ndarray, "m r d"],
    basis: Float[np.ndarray, "rows q"],
    biased: bool,
) -> tuple[Float[np.ndarray, "mer mer"], Float[np.ndarray, "qd mer"]]:
    """J^T J and Q^T J, J the derivative of the outputs in (Theta_i, c_i) over the root of their number, heads first.

    Q is the basis.
    """
    (n, k, r), (m, _, d), q = z.shape, w.shape, basis.shape[1]
    e = r + biased
    whole = np.zeros((e * e, (m * r) ** 2))
    seen = np.zeros((q * e, m * r * d))
    for first in range(0, n, AT_ONCE):
        few = slice(first, first + AT_ONCE)
        tokens, p = z[few], pattern[few]
        values = np.einsum("nbr,mrd->nmbd", tokens, w)
        own = np.einsum("namb,nbr->namr", p, tokens)
        by_head = p.transpose(0, 2, 1, 3)  # (n, m, k, k)
        mean = by_head @ values
        # sum_b P_ab z_bq V_bo, and the product of the means taken off
        product = np.einsum("nbr,nmbd->nmbrd", tokens, values).reshape(len(tokens), m, k, r * d)
        moved = (by_head @ product).reshape(len(tokens), m, k, r, d)
        moved -= own.transpose(0, 2, 1, 3)[..., None] * mean[..., None, :]
        moved = moved.transpose(0, 2, 1, 3, 4).reshape(-1, m * r, d)
        left = tokens.reshape(-1, r)
        left = np.pad(left, ((0, 0), (0, 1)), constant_values=1.0) if biased else left
        inner = (moved @ moved.transpose(0, 2, 1)).reshape(len(left), -1)
        whole += (left[:, :, None] * left[:, None, :]).reshape(len(left), -1).T @ inner
        rows = basis[first * k : first * k + len(left)]
        seen += (rows[:, :, None] * left[:, None, :]).reshape(len(left), -1).T @ moved.reshape(len(left), -1)
    size = m * e * r
    gram = whole.reshape(e, e, m, r, m, r).transpose(2, 0, 3, 4, 1, 5).reshape(size, size)
    seen = seen.reshape(q, e, m, r, d).transpose(0, 4, 2, 1, 3).reshape(q * d, size)
    return gram / (n * k), seen / np.sqrt(n * k)


def _directions(
    matrix: Float[np.ndarray, "e r"], rank: int | None, least: float
) -> Float[np.ndarray, "er free"]:
    """Orthonormal directions in which a matrix can change among those of its rank; all if it has another rank."""
    left, values, right = np.linalg.svd(matrix)
    if rank is None or rank >= len(right) or np.sum(values > least * values[0]) != rank:
        return np.eye(matrix.size)
    along = np.ones((len(left), len(right)), dtype=bool)
    along[rank:, rank:] = False
    return np.kron(left, right.T)[:, along.ravel()]


def span_of(block: Float[np.ndarray, "p u"], least: float) -> Float[np.ndarray, "p v"]:
    """Orthonormal directions that the columns of a block of a null space span."""
    left, values, _ = np.linalg.svd(block, full_matrices=False)
    return left[:, values > least]

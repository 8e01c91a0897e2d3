"""Weights of a few movable tokens among equal ones, from answers and known projections.

Derived here. Row s of a sequence of tokens y, the filler, and of tokens x_1, ..., x_K at some places is
b + y Wbar + sum_i sum_k a_i(s, k) (x_k - y) W_i: with W known, one linear system for m K weights. The filler has
the rest. The log of a_i(s, k) over the filler's weight is the score of y and x_k at their distance, less a number that
row s has in common for all x_k.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from upper.rotary.moved_token import FARTHEST, EqualTokens
from upper.value_queries.queries import orthonormal

# Of the d numbers in a row, 2 m are left over, and 2 of the rank of a W_i: with fewer, weights lose a digit.
_LEFT_OVER = 2
# Logs of weights differ by at most so much: with 5, answers lose one digit more. Biases may make larger differences;
# then tokens are halved as long as that makes them smaller by a fifth.
_LARGEST, _SMALLER = 3.0, 0.8


@dataclass(frozen=True)
class Movable:
    """Queries of movable tokens, the same for each filler."""

    equal: EqualTokens
    w: Float[np.ndarray, "m d d"]
    places: Int[np.ndarray, " s"]
    tokens: Float[np.ndarray, "q s d"]  #: the first query has those from which the others differ
    differences: Float[np.ndarray, "n d"]  #: of the other queries' tokens to these, orthogonal
    fillers: Float[np.ndarray, "f d"]  #: the corners of a simplex

    @property
    def distances(self) -> Int[np.ndarray, "k s"]:
        """Of each row behind the movable tokens to each of them."""
        rows: np.ndarray = self.places[-1] + 1 + np.arange(self.equal.design.rows)
        return rows[:, None] - self.places

    @property
    def of_differences(self) -> Int[np.ndarray, "k n"]:
        """The distances of each difference."""
        return np.tile(self.distances, (1, len(self.tokens) - 1))

    def log_weights(
        self, fillers: Float[np.ndarray, "f d"], queries: int | None = None
    ) -> Float[np.ndarray, "m f q k s"]:
        """Of the first so many queries, by default all; NaN where a weight is not positive."""
        tokens = self.tokens[:queries]
        (q, size, d), m = tokens.shape, len(self.w)
        linear, rows, out = self.equal.linear, self.equal.design.rows, []
        for y in fillers:
            x = np.broadcast_to(y, (q, self.places[-1] + 1 + rows, d)).copy()
            x[:, self.places] = tokens
            rest = self.equal.oracle.ask(x)[:, -rows:] - linear.bias - y @ linear.projection_sum
            columns = ((tokens - y)[:, None] @ self.w).reshape(q, -1, d).swapaxes(1, 2)
            orthogonal, triangle = np.linalg.qr(columns)
            weights = np.linalg.solve(triangle, (rest @ orthogonal).swapaxes(1, 2)).reshape(q, m, size, -1)
            with np.errstate(invalid="ignore", divide="ignore"):
                logs = np.log(weights) - np.log(1 - weights.sum(axis=2, keepdims=True))
            out.append(np.where(np.isfinite(logs), logs, np.nan).transpose(1, 0, 3, 2))
        return np.array(out).swapaxes(0, 1)

    def differences_of(self, logs: Float[np.ndarray, "m f q k s"]) -> Float[np.ndarray, "m f k n"]:
        """The scores of the fillers and the differences, exactly: what a row has in common cancels."""
        m, f, _, k, _ = logs.shape
        return (logs[:, :, 1:] - logs[:, :, :1]).swapaxes(2, 3).reshape(m, f, k, -1)


def movable_tokens(
    equal: EqualTokens, w: Float[np.ndarray, "m d d"], length: float, rng: np.random.Generator
) -> Movable | None:
    """Movable tokens of at most this length, halved until weights differ little; None where some are not read."""
    d, spread = equal.oracle.dim, equal.design.rows
    singular = np.linalg.svd(w, compute_uv=False)
    rank = int(np.sum(singular > np.sqrt(equal.tolerance) * singular[:, :1], axis=1).min())
    if rank < 2:
        return None
    size = min(max(2, min(d // len(w), rank) - _LEFT_OVER), spread)
    places = np.round(np.linspace(0, spread, size)).astype(int)
    first = rng.standard_normal((size, d)) / np.sqrt(d)
    queries = -(-d // size)
    axes = np.concatenate([orthonormal(rng, d, d), orthonormal(rng, d, d)])[: queries * size]
    corners = np.linalg.qr(np.column_stack([np.ones(d + 1), rng.standard_normal((d + 1, d))]))[0][:, 1:]
    corners *= np.sqrt((d + 1) / d)
    tokens = np.concatenate([first[None], first + axes.reshape(queries, size, d)])
    best, least = None, np.inf
    for _ in range(FARTHEST):
        movable = Movable(equal, w, places, length * tokens, length * axes, length * corners)
        logs = movable.log_weights(movable.fillers[:2], 1)
        largest = float(np.abs(logs - logs.mean(axis=(2, 3, 4), keepdims=True)).max())
        if largest < _LARGEST:
            return movable
        if best is not None and not largest < _SMALLER * least:
            return best
        if np.isfinite(largest):
            best, least = movable, largest
        length /= 2
    return best

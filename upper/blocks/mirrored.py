"""The attention of a post-norm block as an oracle: two tokens and their mirror images tell the lengths of sums."""

import numpy as np
from jaxtyping import Float

from attention import ValueOracle
from upper.blocks.ellipsoid import Ellipsoid
from upper.blocks.peel import NoPreimage
from upper.blocks.summed_map import SummedMap

# Turns of directions and lengths: lengths count in n(y) up to eps only. A sum along x A + b to this is x A + b.
_TURNS, _ALONG = 3, 1e-9
# Where heads may attend, as shares of the other token, when the first does not lead to a preimage
_SHARES = (0.5, 0.1, 0.9, 0.3, 0.7, 0.0, 1.0)


class Mirrored(ValueOracle):
    """The layer F of n2(N(n1(X + F(X)))) on two tokens, its outputs less their means; three queries for each.

    An answer shows the direction of y = x + F(X) alone. For the tokens x, x + delta and x, x - delta the y differ by
    delta W, as sigmoid(t) + sigmoid(-t) = 1. So two directions give both lengths, by least squares.
    """

    def __init__(
        self,
        oracle: ValueOracle,
        last: Ellipsoid,
        g: SummedMap,
        linear: Float[np.ndarray, "d D"],
        bias: Float[np.ndarray, " D"],
    ) -> None:
        self._oracle, self._last, self._g, self._linear, self._bias = oracle, last, g, linear, bias
        self._half = (oracle.tokens or 2) // 2
        self._prepare(self._peeled, 2, oracle.dim, 0.0, None, None)

    @property
    def remaining(self) -> int | None:
        """How many queries of two tokens are left."""
        return None if self._oracle.remaining is None else self._oracle.remaining // 3

    def _peeled(self, x: Float[np.ndarray, "n 2 d"]) -> Float[np.ndarray, "n 2 d"]:
        first, second = x[:, 0], x[:, 1]
        n = len(x)
        tokens = np.concatenate(
            [x, np.stack([first, 2 * first - second], axis=1), np.stack([2 * second - first, second], axis=1)]
        )
        answers = self._oracle.ask(tokens.repeat(self._half, axis=1))
        shown = self._last.plain(answers[:, [0, -1]].reshape(-1, x.shape[2])).reshape(3, n, 2, -1)
        ahead = np.concatenate([shown[0, :, 0], shown[0, :, 1]])
        mirrored = np.concatenate([shown[1, :, 0], shown[2, :, 1]])
        own = np.concatenate([first, second])
        delta = np.concatenate([second - first, first - second])
        y = self._sums(own @ self._linear + self._bias, delta, ahead, mirrored)
        layer = (y - own @ self._last.basis.T) @ self._last.basis
        return np.stack([layer[:n], layer[n:]], axis=1)

    def _sums(self, equal: np.ndarray, delta: np.ndarray, ahead: np.ndarray, mirrored: np.ndarray) -> np.ndarray:
        moved = delta @ (self._linear - self._last.basis.T)
        size = np.linalg.norm(equal, axis=1)
        y = equal.copy()
        todo = np.flatnonzero(np.linalg.norm(moved, axis=1) > _ALONG * size)
        for share in _SHARES:
            rows = equal[todo], moved[todo]
            starts = rows[0] + share * rows[1], rows[0] - (1 - share) * rows[1]
            y[todo] = self._pair(*starts, rows[1], ahead[todo], mirrored[todo])
            lost = ~np.isfinite(y[todo]).all(axis=1)
            todo = todo[lost]
            if not len(todo):
                return y
        raise NoPreimage("An answer has no preimage near its token.")

    def _pair(
        self, plus: np.ndarray, minus: np.ndarray, moved: np.ndarray, ahead: np.ndarray, mirrored: np.ndarray
    ) -> np.ndarray:
        """The sums of tokens with their partner, from those that differ from them by `moved`."""
        for _ in range(_TURNS):
            plus, minus = (
                self._g.inverse(shown, np.linalg.norm(start, axis=1), start)
                for shown, start in ((ahead, plus), (mirrored, minus))
            )
            # a plus - b minus = moved, by least squares
            pp, mm, pm = (np.sum(u * v, axis=1) for u, v in ((plus, plus), (minus, minus), (plus, minus)))
            p, m = np.sum(plus * moved, axis=1), np.sum(minus * moved, axis=1)
            with np.errstate(invalid="ignore", divide="ignore"):
                determinant = pp * mm - pm**2
                a, b = (mm * p - pm * m) / determinant, (pm * p - pp * m) / determinant
                good = (a > 0) & (b > 0)
            a, b = np.where(good, a, np.nan), np.where(good, b, np.nan)
            plus, minus = a[:, None] * plus, b[:, None] * minus
        return plus

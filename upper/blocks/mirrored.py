"""The attention of a post-norm block as an oracle: two tokens and their mirror images tell the lengths of sums."""

import numpy as np
from jaxtyping import Float

from attention import ValueOracle
from attention.value_oracle import DerivedOracle
from upper.blocks.ellipsoid import Ellipsoid
from upper.blocks.peel import NoPreimage
from upper.blocks.summed_map import SummedMap

# Turns of directions and lengths: lengths count in n(y) up to eps only.
_TURNS = 3
# Least squares leave less of the difference where preimages are right; directions with this cosine, less 1, are equal.
_AGREE, _EQUAL = 1e-3, 1e-14
# Where heads may attend, as shares of the other token, when the first does not lead to a preimage
_SHARES = (0.5, 0.1, 0.9, 0.3, 0.7, 0.0, 1.0)


class Mirrored(DerivedOracle):
    """The layer F of n2(N(n1(X + F(X)))) on two tokens, its outputs less their means; three queries for each.

    An answer shows the direction of y = x + F(X) alone. For the tokens x, x + delta and x, x - delta the y differ by
    delta W, as sigmoid(t) + sigmoid(-t) = 1. So two directions give both lengths, by least squares.
    """

    each = 3

    def __init__(
        self,
        oracle: ValueOracle,
        last: Ellipsoid,
        g: SummedMap,
        linear: Float[np.ndarray, "d D"],
        bias: Float[np.ndarray, " D"],
    ) -> None:
        super().__init__(oracle)
        self._prepare(self._derived, 2, oracle.dim, 0.0, None, None)
        self._last, self._g, self._linear, self._bias = last, g, linear, bias
        self._half = (oracle.tokens or 2) // 2

    def _derived(self, x: Float[np.ndarray, "n 2 d"]) -> Float[np.ndarray, "n 2 d"]:
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

    def _sums(
        self, equal: np.ndarray, delta: np.ndarray, ahead: np.ndarray, mirrored: np.ndarray
    ) -> np.ndarray:
        moved = delta @ (self._linear - self._last.basis.T)
        y = equal.copy()
        todo = np.flatnonzero(np.any(moved != 0, axis=1))
        for share in _SHARES:
            starts = equal[todo] + share * moved[todo], equal[todo] - (1 - share) * moved[todo]
            found, right = self._pair(*starts, moved[todo], ahead[todo], mirrored[todo])
            y[todo[right]] = found[right]
            todo = todo[~right]
            if not len(todo):
                return y
        # of a causal layer the first row is that of equal tokens
        expected = self._g.between(equal[todo])
        cosine = np.sum(expected * ahead[todo], axis=1) / (
            np.linalg.norm(expected, axis=1) * np.linalg.norm(ahead[todo], axis=1)
        )
        if np.any(1 - cosine > _EQUAL):
            raise NoPreimage("An answer has no preimage near its token.")
        return y

    def _pair(
        self, plus: np.ndarray, minus: np.ndarray, moved: np.ndarray, ahead: np.ndarray, mirrored: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """The sums of tokens with their partner, those of the mirrored ones and `moved`, and which are right."""
        right = np.ones(len(plus), dtype=bool)
        for _ in range(_TURNS):
            rows = np.flatnonzero(right)
            both = [
                self._g.inverse(shown[rows], np.linalg.norm(start[rows], axis=1), start[rows])
                for shown, start in ((ahead, plus), (mirrored, minus))
            ]
            usable = np.isfinite(both[0] + both[1]).all(axis=1)
            right[rows[~usable]] = False
            rows = rows[usable]
            p, m = (sums[usable] for sums in both)
            # the lengths a, b with a p - b m = moved, by least squares: equal ones where p and m are parallel, as for
            # a token 0 without biases
            basis = np.stack([p, -m], axis=2)
            basis /= np.linalg.norm(basis, axis=1, keepdims=True)
            lengths = np.linalg.pinv(basis, rcond=_EQUAL**0.5) @ moved[rows, :, None]
            plus[rows], minus[rows] = (basis * np.swapaxes(lengths, 1, 2) * [1.0, -1.0]).transpose(2, 0, 1)
            rest = np.linalg.norm(plus[rows] - minus[rows] - moved[rows], axis=1)
            agree = rest < _AGREE * np.linalg.norm(moved[rows], axis=1)
            right[rows] = agree & (lengths[:, :, 0] > 0).all(axis=1)
        return plus, right

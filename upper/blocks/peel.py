"""The attention behind a network: with the map g of one token known, answers give the outputs of the layer alone."""

import numpy as np
from jaxtyping import Float

from attention import ValueOracle
from upper.blocks.token_map import TokenMap

# Differences are this share of their tokens: preimages are then near the tokens, where Newton's method begins.
_SHORT = 0.01


class NoPreimage(ValueError):
    """Newton's method found no preimage of an answer under g near its token."""


def pairs(
    oracle: ValueOracle, g: TokenMap, n: int, length: float, rng: np.random.Generator
) -> tuple[Float[np.ndarray, "n d"], Float[np.ndarray, "n d"]]:
    """Differences delta of two tokens and vectors e with e A = delta, where the attention has a residual; 2 n queries.

    With sigmoid(t) + sigmoid(-t) = 1, the outputs of x beside x + delta and of x beside x - delta differ by delta times
    the sum of the W_i, for any heads and biases; with n_1 copies of one and n_2 of the other token, the numbers change
    places. Behind g this is delta (A - I) A^-1 = delta - e.
    """
    k, d = oracle.tokens or 2, oracle.dim
    x, delta = length / np.sqrt(d) * rng.standard_normal((2, n, d))
    delta *= _SHORT
    others = k // 2
    first = np.concatenate([_repeated(x + delta, others), _repeated(x, k - others)], axis=1)
    second = np.concatenate([_repeated(x - delta, k - others), _repeated(x, others)], axis=1)
    answers = oracle.ask(np.concatenate([first, second]))[:, -1]
    behind = g.inverse(answers, np.concatenate([x, x]))
    return delta, delta - (behind[:n] - behind[n:])


def _repeated(x: np.ndarray, times: int) -> np.ndarray:
    return np.repeat(x[:, None], times, axis=1)


class Peeled(ValueOracle):
    """The attention layer of a block as an oracle: F(X) = Y A - X, where Y are the preimages of the answers under g.

    Parameters
    ----------
    oracle : ValueOracle
        The block.
    g : TokenMap
        Its map of one token, with the right signs.
    linear : array (d, d)
        A = I + sum_i W_i, or sum_i W_i for a block whose attention has no residual.
    residual : bool
        Whether its attention has a residual.
    """

    def __init__(
        self, oracle: ValueOracle, g: TokenMap, linear: Float[np.ndarray, "d d"], residual: bool
    ) -> None:
        self._oracle, self._g, self._linear, self._residual = oracle, g, linear, residual
        self._prepare(self._peeled, oracle.tokens, oracle.dim, 0.0, None, None)

    @property
    def remaining(self) -> int | None:
        """How many queries the block has left."""
        return self._oracle.remaining

    def _peeled(self, x: Float[np.ndarray, "n k d"]) -> Float[np.ndarray, "n k d"]:
        answers = self._oracle.ask(x)
        rows = (answers.reshape(-1, x.shape[2]), x.reshape(-1, x.shape[2]))
        behind = self._g.inverse(*rows).reshape(x.shape)
        if not np.isfinite(behind).all():
            raise NoPreimage("An answer has no preimage near its token: shorter differences are needed.")
        z = behind @ self._linear
        return z - x if self._residual else z

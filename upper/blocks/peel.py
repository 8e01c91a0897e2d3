"""The attention behind a network: with the map g of one token known, answers give the outputs of the layer alone."""

import numpy as np
from jaxtyping import Bool, Float

from attention import AttentionLayer, Outcome, QueriesExhaustedError, Recorder, ValueOracle
from upper.blocks.one_token import one_token
from upper.blocks.token_map import TokenMap
from upper.value_queries import ByQueries

# Of preimages so many may be missed, in a batch of queries: what is read from them is asked again.
_MISSED = 0.02
# Differences are this share of their tokens: preimages are then near the tokens, where Newton's method begins.
_SHORT = 0.001


class NoPreimage(ValueError):
    """Newton's method found no preimage of an answer under g near its token."""


def read_attention(
    peeled: ValueOracle, accuracy: float, rng: np.random.Generator, recorder: Recorder
) -> AttentionLayer | None:
    """The layer that `ByQueries` reads from answers that are right to a relative accuracy; None where it reads none.

    A QueriesExhaustedError where the queries do not suffice.
    """
    try:
        fit = ByQueries(accuracy=accuracy, noise=0.0).fit(
            peeled, rng=rng, progress=lambda step: recorder.step(step.name, **step.measures)
        )
    except NoPreimage as reason:
        recorder.step(str(reason))
        return None
    if fit.outcome is Outcome.EXAMPLES_SPENT:
        raise QueriesExhaustedError(f"{fit.examples_used} queries do not suffice: give a larger budget.")
    return fit.layer if isinstance(fit.layer, AttentionLayer) else None


def pairs(
    oracle: ValueOracle, g: TokenMap, n: int, length: float, rng: np.random.Generator
) -> tuple[Float[np.ndarray, "n d"], Float[np.ndarray, "n d"]]:
    """Differences delta of two tokens and vectors e with e A = delta, where the attention has a residual; 3 n queries.

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
    answers += np.tile(g(x) - one_token(oracle)(x), (2, 1))  # errors of g do not count
    start = np.concatenate([x, x])
    behind = g.inverse(answers, start, start)
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
    near : bool
        Whether the tokens of a query are near its first one. Answers are then counted from that to equal tokens, one
        query more for each first token, so that errors of g at long tokens do not count.
    predicted : AttentionLayer, optional
        A layer whose outputs tell where preimages are; otherwise they are sought at their tokens.
    """

    def __init__(
        self,
        oracle: ValueOracle,
        g: TokenMap,
        linear: Float[np.ndarray, "d d"],
        residual: bool,
        *,
        near: bool = False,
        predicted: AttentionLayer | None = None,
    ) -> None:
        self._oracle, self._g, self._linear, self._residual = oracle, g, linear, residual
        self._near, self._predicted = near, predicted
        self._prepare(self._peeled, oracle.tokens, oracle.dim, 0.0, None, None)

    @property
    def remaining(self) -> int | None:
        """How many queries the block has left."""
        return self._oracle.remaining

    def _peeled(self, x: Float[np.ndarray, "n k d"]) -> Float[np.ndarray, "n k d"]:
        outputs, missed = self.preimages(x)
        if missed.mean() > _MISSED:
            raise NoPreimage("An answer has no preimage near its token: shorter differences are needed.")
        return outputs

    def preimages(
        self, x: Float[np.ndarray, "n k d"]
    ) -> tuple[Float[np.ndarray, "n k d"], Bool[np.ndarray, "n k"]]:
        """The outputs F(X), and which rows have no preimage near their start, which is then taken in its place."""
        answers = self._oracle.ask(x)
        start, base = x, np.zeros_like(x)
        if self._predicted is not None:
            start = base = (self._predicted(x) + x * self._residual) @ np.linalg.inv(self._linear)
        elif self._near:
            first, which = np.unique(x[:, 0], axis=0, return_inverse=True)
            off = self._g(first) - one_token(self._oracle)(first)
            answers = answers + off[which.ravel()][:, None]
            base = np.broadcast_to(x[:, :1], x.shape)
        rows = (part.reshape(-1, x.shape[2]) for part in (answers, start, base))
        behind = self._g.inverse(*rows).reshape(x.shape)
        missed = ~np.isfinite(behind).all(axis=2)
        z = np.where(missed[..., None], start, behind) @ self._linear
        return (z - x if self._residual else z), missed

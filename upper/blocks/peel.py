"""The attention behind a network: with the map g of one token known, answers give the outputs of the layer alone."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Bool, Float

from attention import AttentionLayer, Outcome, QueriesExhaustedError, Recorder, ValueOracle
from attention.value_oracle import DerivedOracle
from upper.blocks.one_token import one_token
from upper.blocks.token_map import TokenMap
from upper.value_queries import ByQueries

# Of preimages so many may be missed, in a batch of queries: what is read from them is asked again.
_MISSED = 0.02
# Differences are this share of their tokens: preimages are then near the tokens, where Newton's method begins.
_SHORT = 0.001


def robust_weights(off: Float[np.ndarray, "*n"]) -> Float[np.ndarray, "*n"]:
    """Weights of rows with these errors: those with more than the median count less."""
    return 1 / (1 + off / (np.median(off) + np.finfo(float).tiny))


class NoPreimage(ValueError):
    """Newton's method found no preimage of an answer under g near its token."""


def read_attention(
    peeled: ValueOracle, accuracy: float, rng: np.random.Generator, recorder: Recorder
) -> AttentionLayer | None:
    """The layer that `ByQueries` reads from answers that are right to a relative accuracy; None where it reads none.

    A QueriesExhaustedError where the queries do not suffice.
    """
    try:
        fit = ByQueries(accuracy=accuracy, noise=0.0, step_length=1.0).fit(
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
    places. Behind g this is delta (A - I) A^-1 = delta - e. Both vectors are weighted by how certain they are.
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
    # errors grow by the inverse of the Jacobian
    certain = 1 / np.linalg.norm(g.inverse_jacobian(x), axis=(1, 2))[:, None]
    return certain * delta, certain * (delta - (behind[:n] - behind[n:]))


def _repeated(x: np.ndarray, times: int) -> np.ndarray:
    return np.repeat(x[:, None], times, axis=1)


@dataclass(frozen=True, eq=False)
class Behind:
    """A block whose network is known: B(X) = g(Y) row by row, where Y A = F(X) + X, or F(X) without the residual."""

    oracle: ValueOracle  #: the block
    g: TokenMap  #: its map of one token, with the right signs
    linear: Float[np.ndarray, "d d"]  #: A = I + sum_i W_i, or sum_i W_i without the attention's residual
    residual: bool  #: whether its attention has a residual

    @cached_property
    def inverse(self) -> Float[np.ndarray, "d d"]:
        """A^-1."""
        return np.linalg.inv(self.linear)

    @property
    def projection_sum(self) -> Float[np.ndarray, "d d"]:
        """W_1 + ... + W_m."""
        return self.linear - np.eye(len(self.linear)) if self.residual else self.linear


class Peeled(DerivedOracle):
    """The attention layer of a block as an oracle: F(X) = Y A - X, where Y are the preimages of the answers under g.

    Parameters
    ----------
    block : Behind
        The block, whose network is known.
    near : bool
        Whether the tokens of a query are near its first one. Answers are then counted from that to equal tokens, one
        query more for each first token, so that errors of g at long tokens do not count.
    predicted : AttentionLayer, optional
        A layer whose outputs tell where preimages are; otherwise they are sought at their tokens.
    """

    def __init__(self, block: Behind, *, near: bool = False, predicted: AttentionLayer | None = None) -> None:
        super().__init__(block.oracle)
        self._block, self._near, self._predicted = block, near, predicted

    def _derived(self, x: Float[np.ndarray, "n k d"]) -> Float[np.ndarray, "n k d"]:
        outputs, missed = self.preimages(x)
        if missed.mean() > _MISSED:
            raise NoPreimage("An answer has no preimage near its token: shorter differences are needed.")
        return outputs

    def preimages(
        self, x: Float[np.ndarray, "n k d"]
    ) -> tuple[Float[np.ndarray, "n k d"], Bool[np.ndarray, "n k"]]:
        """The outputs F(X), and which rows have no preimage near their start, which is then taken in its place."""
        block, answers = self._block, self._oracle.ask(x)
        start, base = x, np.zeros_like(x)
        if self._predicted is not None:
            start = base = (self._predicted(x) + x * block.residual) @ block.inverse
        elif self._near:
            first, which = np.unique(x[:, 0], axis=0, return_inverse=True)
            off = block.g(first) - one_token(self._oracle)(first)
            answers = answers + off[which.ravel()][:, None]
            base = np.broadcast_to(x[:, :1], x.shape)
        rows = (part.reshape(-1, x.shape[2]) for part in (answers, start, base))
        behind = block.g.inverse(*rows).reshape(x.shape)
        missed = ~np.isfinite(behind).all(axis=2)
        z = np.where(missed[..., None], start, behind) @ block.linear
        return z - x * block.residual, missed

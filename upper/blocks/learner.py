"""The learner of blocks by value queries: first the network, then the attention behind it."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from attention import (
    Block,
    Fit,
    Outcome,
    QueriesExhaustedError,
    Recorder,
    ValueOracle,
)
from attention.evaluation import Verdict
from attention.learning import Access, LearnerBase, apart
from attention.validation import NonNegativeInt, checked
from upper.blocks.ellipsoid import find_ellipsoid
from upper.blocks.network import best_block, block_fit
from upper.blocks.one_token import NoNetwork, one_token, read_token_map
from upper.blocks.peel import Behind, Peeled, pairs, read_attention, robust_weights
from upper.blocks.post_norm import PostNormPart, between_norms
from upper.blocks.pre_norm import behind_norms
from upper.blocks.short_differences import read_near
from upper.blocks.sphere import find_sphere
from upper.blocks.token_map import SIGNS, TokenMap, signs_for, signs_from
from upper.value_queries import ByQueries

# Pairs of tokens for every h / d unknown signs, and a few more.
_PAIRS, _MORE = 1.5, 8
# Without a residual of the attention, pairs move by rounding alone.
_MOVED = 1e-5
# Peeled answers are right to so many times the error of g on fresh tokens, within these bounds; a block whose fresh
# queries are worse than the second is not read, whatever g amplifies.
_AMPLIFIED, _LEAST, _LARGEST = 10.0, 1e-12, 1e-3
# Rounds of a robust fit.
_REWEIGHTED = 20


@dataclass(frozen=True)
@checked
class BlockByQueries(LearnerBase):
    """Recovers a block, B(X) = N(X + F(X)) with a network N, from its outputs on token matrices of its own choice.

    Parameters
    ----------
    examples : int, optional
        The most value queries; by default as many as it takes. Where they do not suffice, the outcome says so.

    Notes
    -----
    Derived here. Heads, width, activation, residuals and norms are found.

    1. Equal tokens show a map g of one token, a network with z = x A + b and A = I + sum_i W_i. It is read as
       `FeedForwardByQueries` reads one, but for A and the signs (`read_token_map`).
    2. Two tokens and their mirror images give linear equations for A, whatever the heads are; they fix the signs
       (`pairs`).
    3. g is inverted row by row, and Y A - X is the attention layer (`Peeled`), which `ByQueries` recovers.

    Blocks with norms take other ways (`behind_norms`, `between_norms`). Where there is no block, the
    details say why (`NoNetwork`), and of answers of a norm also what is found (`PostNormPart`).

    The layer of the fit, and its details, are the `attention.Block`, with no bias b where both residuals are there:
    then only b1 + b W1 and b2 + b are determined. Without the attention's residual, W1 is determined up to a matrix
    that the W_i take back.

    Examples
    --------
    >>> from attention import ValueOracle, make_nice_block
    >>> block = make_nice_block(heads=2, dim=16, width=32, rng=0)
    >>> fit = BlockByQueries().fit(ValueOracle(block, tokens=2), rng=1)
    >>> fit.outcome.succeeded, fit.details.network.width, fit.details.heads
    (True, 32, 2)
    """

    access: ClassVar[Access] = "value queries"

    examples: NonNegativeInt | None = None

    def minimum_examples(self, tokens: int | None, dim: int) -> int:
        """The queries of the scale."""
        return dim + 1

    def _prepare(self, oracle: ValueOracle) -> None:
        if oracle.tokens == 1:
            raise ValueError(
                "Queries have one token, which shows no attention: give two, or take FeedForwardByQueries."
            )
        if oracle.dim < 4:
            raise ValueError(
                f"Queries have {oracle.dim} coordinates: at least 4 are needed, to tell neurons apart."
            )

    def _learn(
        self, oracle: ValueOracle, recorder: Recorder, budget: int | None, rng: np.random.Generator
    ) -> Fit:
        random = apart(rng)
        within = oracle if budget is None else oracle.limited(budget)
        block: Block | NoNetwork | PostNormPart
        try:
            ask = one_token(within)
            sphere = find_sphere(ask, oracle.dim, random)
            if sphere is not None:
                return block_fit(recorder, *behind_norms(within, sphere, random, recorder))
            last = find_ellipsoid(ask, oracle.dim, random)
            if last is not None:
                recorder.step("Outputs of a norm")
                return block_fit(recorder, *between_norms(within, last, random, recorder))
            g = read_token_map(ask, oracle.dim, random, recorder)
            if g is NoNetwork.NO_NEURON:  # an attention layer alone
                fit = ByQueries().fit(within, rng=random)
                recorder.step("No network: a layer alone", predict=fit.predict, layer=fit.layer)
                ended = Verdict(fit.outcome, fit.held_out_error, fit.error_rate_bound)
                return recorder.fit(ended, predict=fit.predict, layer=fit.layer, precision=fit.precision)
            if isinstance(g, NoNetwork):
                block, ended = g, Verdict(Outcome.NO_BLOCK)
            else:
                block, ended = _behind(within, g, random, recorder)
        except QueriesExhaustedError:
            block, ended = NoNetwork.SPENT, Verdict(Outcome.EXAMPLES_SPENT)
        return block_fit(recorder, block, ended)


def _behind(
    oracle: ValueOracle, g: TokenMap, rng: np.random.Generator, recorder: Recorder
) -> tuple[Block | NoNetwork, Verdict]:
    """The block whose map of one token is g, judged by fresh queries."""
    h, d = g.u.shape
    ended = Verdict(Outcome.NOT_SEPARATED)
    size = np.linalg.norm(g.u, axis=1)
    length = float(np.median(np.abs(g.a) / size) + 1 / np.median(size))  # of tokens at which neurons bend
    x = length * rng.standard_normal((16, d))
    answers = one_token(oracle)(x)
    off = float(np.linalg.norm(g(x) - answers) / np.linalg.norm(answers))
    accuracy = max(_LEAST, _AMPLIFIED * off)
    recorder.step("Fresh tokens", error=off)
    bare, off = signs_for(g, np.zeros((d, d)))
    network_residual = off > SIGNS
    if not network_residual:
        g = g.flipped(bare)
    number = (int(np.ceil(_PAIRS * h / d)) if network_residual else 2 * d) + _MORE
    delta, moved = pairs(oracle, g, number, length * np.sqrt(d), rng)
    usable = np.isfinite(moved).all(axis=1)
    delta, moved = delta[usable], moved[usable]
    if not len(delta):
        return NoNetwork.NO_PREIMAGE, ended
    residual = bool(np.median(np.linalg.norm(moved, axis=1) / np.linalg.norm(delta, axis=1)) > _MOVED)
    if residual and network_residual:
        signs, off = signs_from(g, delta, moved)
        recorder.step("Signs", off=off, pairs=len(delta))
        if off > SIGNS:
            return NoNetwork.NO_PAIRS, ended
        g = g.flipped(signs)
    linear = g.linear
    if not network_residual:  # A is what maps the moves of pairs to their differences
        linear = _robust(moved, delta) if residual else np.eye(d)
        recorder.step("Linear part", pairs=len(delta))
    network = g.network(linear=linear, residual=network_residual)
    behind = Behind(oracle, g, linear, residual)

    def blocks() -> Iterator[tuple[Block | None, float]]:
        layer = read_attention(Peeled(behind), accuracy, rng, recorder)
        yield None if layer is None else Block(layer, network, residual), 0.0
        layer = read_near(behind, accuracy, length, rng, recorder)
        reached = min(_LARGEST, accuracy * float(g.amplification(x, linear).max()))
        yield None if layer is None else Block(layer, network, residual), reached

    return best_block(oracle, blocks(), rng, recorder)


def _robust(moved: np.ndarray, delta: np.ndarray) -> np.ndarray:
    """The A with e A = delta for all pairs but a few, which found another preimage: they get small weights."""
    weights = np.ones((len(delta), 1))
    for _ in range(_REWEIGHTED):
        linear = np.linalg.lstsq(weights * moved, weights * delta, rcond=None)[0]
        off = np.linalg.norm(moved @ linear - delta, axis=1, keepdims=True)
        weights = robust_weights(off)
    return linear

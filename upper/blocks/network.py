"""The learner of networks by value queries."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from attention import Block, FeedForward, Fit, Outcome, QueriesExhaustedError, Recorder, ValueOracle
from attention.evaluation import Verdict, verdict
from attention.learning import Access, LearnerBase, apart
from attention.validation import NonNegativeInt, checked
from upper.blocks.one_token import NoNetwork, one_token, read_token_map
from upper.blocks.token_map import SIGNS, TokenMap, signs_for

# The relative error below which a verdict is one of rounding: far from the origin, answers in float64 have lost up to
# nine digits.
_ROUNDING = 1e-7


@dataclass(frozen=True)
@checked
class FeedForwardByQueries(LearnerBase):
    """Recovers a network x -> [x +] act(x W1 + b1) W2 + b2 from outputs on tokens of its own choice.

    Parameters
    ----------
    examples : int, optional
        The most value queries; by default as many as it takes. Where they do not suffice, the outcome says so.

    Notes
    -----
    Derived here. Width, activation (ReLU, GELU or tanh) and residual are found.

    1. Far from the origin the network is piecewise linear. A half circle crosses the plane of every neuron once, and
       the slope jumps there by (u_j . direction) v_j (`find_regions`).
    2. Jacobians at some 2.7 h / d points give all u_j up to scale, by least squares (`directions`); for GELU, one value
       near each plane gives the scale (`tube_scales`). For tanh, second differences near the origin
       give all neurons (`read_smooth`).
    3. Short tokens give offsets, scales and outputs by variable projection (`fit_offsets`).
    4. For ReLU and GELU act(t) = t + act(-t), so each neuron has a sign that one token leaves open. That the linear
       part is the identity, or zero, fixes all signs by one linear system (`signs_for`).

    The details of the fit are the `attention.FeedForward`. About 11 h queries for ReLU, 13 h for GELU and 50 h for
    tanh, where the parameters number 2 h + 1 + h / d times d.

    References
    ----------
    Kinks that show weights: Carlini, Jagielski, Mironov, arXiv 2003.04884, for ReLU.

    Examples
    --------
    >>> from attention import ValueOracle, make_nice_network
    >>> network = make_nice_network(dim=8, width=16, activation="relu", rng=0)
    >>> fit = FeedForwardByQueries().fit(ValueOracle(network, tokens=1), rng=1)
    >>> fit.outcome.succeeded, fit.details
    (True, FeedForward(dim=8, width=16, activation='relu'))
    """

    access: ClassVar[Access] = "value queries"

    examples: NonNegativeInt | None = None

    def minimum_examples(self, tokens: int | None, dim: int) -> int:
        """The queries of the scale."""
        return dim + 1

    def _prepare(self, oracle: ValueOracle) -> None:
        if oracle.dim < 4:
            raise ValueError(
                f"Queries have {oracle.dim} coordinates: at least 4 are needed, to tell neurons apart."
            )

    def _learn(
        self, oracle: ValueOracle, recorder: Recorder, budget: int | None, rng: np.random.Generator
    ) -> Fit:
        random = apart(rng)
        within = oracle if budget is None else oracle.limited(budget)
        network: FeedForward | NoNetwork = NoNetwork.SPENT
        ended = Verdict(Outcome.NO_BLOCK)
        try:
            g = read_token_map(one_token(within), oracle.dim, random, recorder)
            network = g if isinstance(g, NoNetwork) else _with_signs(g, recorder)
            if isinstance(network, FeedForward):
                ended = judge_block(within, network, random)
        except QueriesExhaustedError:
            ended = Verdict(Outcome.EXAMPLES_SPENT)
        return block_fit(recorder, network, ended)


def _with_signs(g: TokenMap, recorder: Recorder) -> FeedForward | NoNetwork:
    """The network with the linear part of a residual or of none."""
    identity = np.eye(len(g.linear))
    for residual, linear in ((True, identity), (False, 0 * identity)):
        signs, off = signs_for(g, linear)
        if off < SIGNS:
            recorder.step("Signs", off=off)
            return g.flipped(signs).network(linear=identity, residual=residual)
    wide = g.u.shape[0] > g.u.shape[1] ** 2
    return NoNetwork.TOO_WIDE if wide else NoNetwork.NO_SIGNS


def block_fit(recorder: Recorder, fitted: Any, ended: Verdict) -> Fit:
    """The fit of a network or block and its last step; or of what explains why there is none."""
    if not isinstance(fitted, FeedForward | Block):
        recorder.step(fitted.explanation, predict=np.zeros_like)
        return recorder.fit(ended, predict=np.zeros_like, details=fitted)
    block = fitted if isinstance(fitted, Block) else None
    recorder.step("Fresh queries", predict=fitted, layer=block, error=ended.held_out_error)
    return recorder.fit(ended, predict=fitted, layer=block, details=fitted)


def best_block(
    oracle: ValueOracle,
    blocks: Iterable[tuple[Block | None, float]],
    rng: np.random.Generator,
    recorder: Recorder,
) -> tuple[Block | NoNetwork, Verdict]:
    """The block with the least error on fresh queries, of those up to the first that succeeds, and its verdict.

    Each comes with an accuracy that is known to be worse than rounding, or 0; None where no layer was read.
    """
    best: Block | NoNetwork = NoNetwork.NO_LAYER
    ended = Verdict(Outcome.NOT_SEPARATED)
    for block, accuracy in blocks:
        if block is None:
            continue
        judged = judge_block(oracle, block, rng, accuracy)
        if not judged.held_out_error >= ended.held_out_error:  # the first is NaN
            best, ended = block, judged
        if ended.outcome.succeeded:
            break
        recorder.step("Fresh queries of a layer", error=judged.held_out_error)
    return best, ended


def judge_block(
    oracle: ValueOracle, fitted: Block | FeedForward, rng: np.random.Generator, accuracy: float = 0.0
) -> Verdict:
    """The verdict by 16 fresh queries of unit variance; an `accuracy` that is known to be worse is enough."""
    x = rng.standard_normal((16, oracle.tokens or 4, oracle.dim))
    answers = oracle.ask(x)
    with np.errstate(invalid="ignore"):
        error = float(np.linalg.norm(fitted(x) - answers) / (np.linalg.norm(answers) or 1.0))
    return verdict(
        fitted=error,
        held_out=error,
        evidence=len(answers),
        otherwise=Outcome.NOT_SEPARATED,
        rounding=max(_ROUNDING, accuracy),
    )

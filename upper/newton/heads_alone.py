"""Heads that overfit, fitted alone on more examples than the other heads need.

A row of attention that is nearly all on one token says little of its head. So a sharp head needs more examples than
others, and a run that has too few fits them with a wrong head. What remains on held-out examples is then the error of
this head. Alone it takes few parameters, and many examples are cheap.
"""

import math
from dataclasses import replace

import numpy as np
from jaxtyping import Bool

from attention import AttentionLayer
from upper.newton.low_rank import LowRankHeads
from upper.newton.problem import Problem, SplitExamples, Supply
from upper.newton.starts import Ends, Patience, heads_at, run

OVERFIT_SHARE = 0.6
"""A run from a start overfits if a step leaves more of the held-out error; of 30 nice layers none did."""

# The same after heads alone, whose next fit costs less: steps of all heads that converge leave less.
_OVERFIT_SHARE_AGAIN = 0.1
# Times the examples of all heads. The head of a trained encoder with logits of deviation 13 has a relative error of .49
# on 2,258 examples of 16 tokens, where all heads crawl, and .003 after six steps alone on 9,000.
_TIMES = 4
# A head is fitted alone if its part of the squared held-out error is more than this share of the largest part; the one
# wrong head there has .98 of it all.
_PART = 0.5
# The least fall of the held-out error from one time to the next; see `fit_wrong_heads_alone`.
_FALL = 0.5
# With logits of 40, outputs in float32 have errors of 1e-5.
_COARSE = 1e-3
# The others have errors too, so that the last steps alone gain nothing.
_PATIENCE = Patience(1, 0.9, slow_below=0.0)


def fit_wrong_heads_alone(
    problem: Problem, supply: Supply, ends: Ends, *, work: int | float
) -> tuple[Ends, SplitExamples]:
    """Continue a run that overfitted: fit the wrong heads alone on more examples, then all heads.

    The two alternate while all heads overfit and the error on held-out examples falls by half. If it does not,
    all heads go on with all examples. `work` includes the passes of `ends`. Returns the examples of the last run, too.
    """
    best, passes, more = ends.best, ends.passes, supply.more(problem.examples, _TIMES)
    # from here, a slower fall than that of steps that converge is enough
    problem, error = replace(problem, overfit_share=_OVERFIT_SHARE_AGAIN), problem.examples.held_out.error
    while best.overfits and passes < work:
        before = error(best.layer)
        wrong = wrong_heads(problem, best.layer)
        rest = None if wrong.all() else _only(best.layer, ~wrong)
        alone = replace(problem, examples=_without(rest, more, before), overfit_share=math.inf)
        end = run(alone, heads_at(alone, best.layer, wrong), work=work - passes, patience=_PATIENCE)
        passes += end.passes
        start = heads_at(problem, _together(rest, end.layer))
        best = run(problem, start, work=max(1, work - passes), name="After heads alone")
        passes += best.passes
        if best.overfits and error(best.layer) > _FALL * before:
            problem = replace(problem, examples=more, overfit_share=math.inf)
            best = run(problem, heads_at(problem, best.layer), work=max(1, work - passes), name="With more")
            passes += best.passes
    return Ends((best,), passes, False), problem.examples


def wrong_heads(problem: Problem, layer: AttentionLayer) -> Bool[np.ndarray, " m"]:
    """The heads with the largest parts of the error on held-out examples.

    An error of head i is in the span of the rows of W_i. So the parts are those of the error in these spans, by least
    squares.
    """
    held_out, known = problem.examples.held_out, problem.known
    rank = layer.dim if known.rank is None else known.rank
    outputs = LowRankHeads.of(layer, rank).o
    error = (held_out.y - layer(held_out.x)).reshape(-1, layer.dim)
    along = np.linalg.lstsq(outputs.reshape(-1, layer.dim).T, error.T, rcond=None)[0]
    along = along.reshape(len(outputs), rank, -1)
    parts = np.sum((np.matrix_transpose(along) @ outputs) ** 2, axis=(1, 2))
    return parts >= _PART * parts.max()


def _only(layer: AttentionLayer, which: Bool[np.ndarray, " m"]) -> AttentionLayer:
    """These heads, without b."""
    key_bias = None if layer.key_bias is None else layer.key_bias[which]
    bias = None if layer.bias is None else 0 * layer.bias
    return AttentionLayer(layer.theta[which], layer.w[which], key_bias, bias, layer.causal)


def _together(rest: AttentionLayer | None, alone: AttentionLayer) -> AttentionLayer:
    if rest is None:
        return alone
    theta, w = (np.concatenate(pair) for pair in ((rest.theta, alone.theta), (rest.w, alone.w)))
    if rest.key_bias is None or alone.key_bias is None:
        return AttentionLayer(theta, w, causal=rest.causal)
    return AttentionLayer(theta, w, np.concatenate([rest.key_bias, alone.key_bias]), alone.bias, rest.causal)


def _without(rest: AttentionLayer | None, examples: SplitExamples, error: float) -> SplitExamples:
    """The examples with the outputs of the other heads taken off, in float32 while their errors are larger."""
    if rest is None:
        return examples
    dtype = np.float32 if error > _COARSE else np.float64
    rest = rest.map(lambda array: array.astype(dtype))
    parts = np.array_split(examples.x, max(1, len(examples.x) // 500))
    outputs = [rest(few.astype(dtype)) for few in parts]
    held = examples.y_held - rest(examples.x_held.astype(dtype))
    return replace(examples, y=examples.y - np.concatenate(outputs), y_held=held)

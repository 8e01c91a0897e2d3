"""Attention behind a map that is not injective: heads from long tokens that differ little, logits from short ones.

Derived here. With two tokens of length r / L and a difference of r L, logits are those at the scale r, and rows move by
some r L alone: for a small L the preimage near the tokens is the right one. That gives the projections W_i. A row is
then x + sum_b P_ib t_b W_i with few unknown weights P_ib. They are fitted to the answer, from equal weights, which
short tokens nearly have. That gives the logits, and the layer is fitted to preimages near its own predictions.
"""

from dataclasses import replace
from itertools import islice
from typing import Any

import numpy as np
from jaxtyping import Float

from attention import AnswerPrecision, AttentionLayer, Recorder
from attention.value_oracle import DerivedOracle
from upper.blocks.peel import Behind, NoPreimage, Peeled, robust_weights
from upper.newton.loop import gauss_newton
from upper.value_queries.logits import read_logits
from upper.value_queries.noisy import WeightedHeads, WeightedLowRankHeads
from upper.value_queries.queries import LinearPart, TwoTokens, find_scale_and_rank
from upper.value_queries.separation import Refusal, separate_heads

# The L that are tried. On layer 3 of a trained encoder .01 still finds other preimages.
_STEP_LENGTHS = (0.003, 0.0003)
# Tokens that show by how much preimages amplify errors
_SAMPLE = 24
# Chord steps of a fit of weights, and iterates of the last fit, at most
_STEPS = 40
# The share of the first residual that a fit of weights leaves.
_LEFT = 1e-3
# Of the layer that was read, singular values below this share of the largest are errors.
_SMALL = 0.03
# The last fit ends where this share of the residual is left after so many iterates; and it is repeated so often, with
# weights from the residuals before.
_FALLS, _STUCK, _ROUNDS = 0.5, 4, 3


class Spanned(DerivedOracle):
    """The attention layer of a block whose projections are known, at short tokens: its weights fitted to answers.

    Rows whose fit is no good are answered as if they attended to the first token alone.
    """

    def __init__(self, block: Behind, w: Float[np.ndarray, "m d d"]) -> None:
        super().__init__(block.oracle)
        self._block, self._w = block, w

    def _derived(self, x: Float[np.ndarray, "n k d"]) -> Float[np.ndarray, "n k d"]:
        pairs = zip(x, self._oracle.ask(x), strict=True)
        return np.stack([self._rows(tokens, answers) for tokens, answers in pairs])

    def _rows(self, x: Float[np.ndarray, "k d"], answers: Float[np.ndarray, "k d"]) -> np.ndarray:
        """F(X) = t_0 sum_i W_i + sum_i sum_b P_ib (t_b - t_0) W_i by chord steps in the P_ib, from P_ib = 1 / k."""
        block, mean, total = self._block, x.mean(axis=0), self._w.sum(axis=0)
        columns = ((x[1:] - x[0]) @ self._w).reshape(-1, x.shape[1])
        back = columns @ block.inverse
        inverse = np.linalg.pinv(back @ block.g.jacobian(mean[None])[0])
        alike = mean @ total
        start = (alike + x * block.residual) @ block.inverse
        moved = np.zeros((len(x), len(columns)))
        off = first = answers - block.g(start)
        with np.errstate(all="ignore"):
            for _ in range(_STEPS):
                step = off @ inverse
                moved += step
                off = answers - block.g(start + moved @ back)
                if not np.linalg.norm(step) > 500 * np.finfo(float).eps * np.linalg.norm(moved):
                    break
            good = np.linalg.norm(off, axis=1) <= _LEFT * np.linalg.norm(first, axis=1)
        return np.where(good[:, None], alike + moved @ columns, x[0] @ total)


def read_near(
    block: Behind, accuracy: float, length: float, rng: np.random.Generator, recorder: Recorder
) -> AttentionLayer | None:
    """The attention layer of a block whose g is right to a relative `accuracy` on tokens of about this length."""
    d = len(block.linear)
    sums = LinearPart(np.zeros(d), block.projection_sum)
    for step_length in _STEP_LENGTHS:
        x = length / step_length * rng.standard_normal((_SAMPLE, d))
        errors = block.g.amplification(x, block.linear) * max(
            accuracy, 4 * np.finfo(float).eps / step_length**2
        )
        worst, usual = (AnswerPrecision(0.0, float(error)) for error in (errors.max(), np.median(errors)))
        pairs = TwoTokens(Peeled(block, near=True), sums, worst, step_length=step_length)
        try:
            pairs, rank = find_scale_and_rank(pairs, rng)
            recorder.step("Heads counted", heads=rank, scale=pairs.scale, step_length=step_length)
            pairs = replace(pairs, precision=usual)  # what one wrong row makes wrong is asked again
            heads = separate_heads(pairs, rank, rank, rng, recorder)
        except NoPreimage:
            recorder.step("No preimage near a token", step_length=step_length)
            continue
        if isinstance(heads, Refusal):
            recorder.step(heads.value, heads=rank)
            continue
        # equal weights are off by the cube of the length
        short = pairs.scale * step_length ** (1 / 3)
        at_once = replace(pairs, oracle=Spanned(block, heads.w), step_length=1.0, scale=short)
        layer = read_logits(at_once, heads.w, heads.directions).layer()
        recorder.step("Logits", layer=layer)
        return _fitted_to_fresh(block, layer, accuracy, rng, recorder)
    return None


def _fitted_to_fresh(
    block: Behind, layer: AttentionLayer, accuracy: float, rng: np.random.Generator, recorder: Recorder
) -> AttentionLayer:
    """The layer fitted to fresh tokens of unit variance, of low rank if what was read is."""
    m, d = layer.heads, layer.dim
    singular = np.linalg.svd(np.concatenate([layer.theta, layer.w]), compute_uv=False)
    rank = int(np.sum(singular > _SMALL * singular[:, :1], axis=1).max())
    low = 4 * rank < d
    of_logits = 2 * d * rank if low else d * (d + 1)  # unknowns of each head
    k = block.oracle.tokens or 1 + max(1, d // (2 * m))
    # twice as many numbers, and logits, as parameters
    n = int(np.ceil(2 * of_logits * max(2 * m / (k * d), 1 / (k * (k - 1)))))
    x = rng.standard_normal((n, k, d))
    y, missed = Peeled(block, predicted=layer).preimages(x)
    usable = ~missed.any(axis=1)
    x, y = x[usable], y[usable]
    recorder.step("Preimages from predictions", queries=len(x), missed=missed.mean())
    for _ in range(_ROUNDS):
        theta = layer.theta
        if layer.key_bias is not None:
            theta = np.concatenate([theta, layer.key_bias[:, None]], axis=1)
        heads: Any = WeightedLowRankHeads.of(layer, rank) if low else WeightedHeads(theta)
        # rows whose preimages amplify errors count less
        off = np.linalg.norm(y - layer(x), axis=2, keepdims=True)
        weights = robust_weights(off)
        heads.weights = weights.ravel()
        iterates = gauss_newton(x, weights * y, heads, tolerance=accuracy, rng=rng)
        best, residuals = next(iterates), [np.inf]
        for iterate in islice(iterates, _STEPS):
            residuals.append(iterate.residual)
            best = iterate if iterate.residual < best.residual else best
            if best.residual > _FALLS * residuals[max(0, len(residuals) - _STUCK)]:
                break
        layer = best.layer
        recorder.step("Fitted", layer=layer, residual=best.residual, queries=len(x), rank=rank)
    return layer

"""Attention behind a map that is not injective: heads from long tokens that differ little, their logits from short ones.

Derived here. With two tokens of length r / L and a difference of r L, logits are those at the scale r, and rows move by
some r L alone: for a small L the preimage near the tokens is the right one. That gives the projections W_i. A row is
then x + sum_b P_ib t_b W_i with few unknown weights P_ib. They are fitted to the answer, from equal weights, which short
tokens nearly have. So all logits follow, and the layer is fitted to preimages that are sought from its own predictions.
"""

from dataclasses import replace
from itertools import islice

import numpy as np
from jaxtyping import Float

from attention import AnswerPrecision, AttentionLayer, Recorder, ValueOracle
from upper.blocks.peel import NoPreimage, Peeled
from upper.blocks.token_map import TokenMap
from upper.newton.full_heads import FullHeads
from upper.newton.loop import gauss_newton
from upper.newton.low_rank import LowRankHeads
from upper.value_queries.logits import read_logits
from upper.value_queries.queries import LinearPart, TwoTokens, find_scale_and_rank
from upper.value_queries.separation import Refusal, separate_heads

# The L that are tried. On layer 3 of a trained encoder .01 still finds other preimages.
_STEP_LENGTHS = (0.003, 0.0003)
# Rounding of an answer, as a share of it; and tokens that show by how much preimages amplify errors.
_UNITS, _SAMPLE = 1e-15, 24
# Chord steps of a fit of weights, the change that is rounding, and the share of the first residual that a fit leaves.
_STEPS, _ROUNDING, _LEFT = 40, 1e-13, 1e-3
# Of the layer that was read, singular values below this share of the largest are errors.
_SMALL = 0.03
# The fit has so many times as many numbers as parameters, on queries of so many tokens. It ends where this share of the
# residual is left after so many iterates, or after the most.
_NUMBERS, _TOKENS, _FALLS, _STUCK, _MOST = 2.5, 4, 0.5, 6, 60


class Spanned(ValueOracle):
    """The attention layer of a block whose projections are known, at short tokens: its weights fitted to answers.

    Rows whose fit is no good are answered as if they attended to the first token alone.
    """

    def __init__(
        self,
        oracle: ValueOracle,
        g: TokenMap,
        linear: Float[np.ndarray, "d d"],
        residual: bool,
        w: Float[np.ndarray, "m d d"],
    ) -> None:
        self._oracle, self._g, self._linear, self._residual, self._w = oracle, g, linear, residual, w
        self._behind = np.linalg.inv(linear)
        self._prepare(self._fitted, oracle.tokens, oracle.dim, 0.0, None, None)

    @property
    def remaining(self) -> int | None:
        """How many queries the block has left."""
        return self._oracle.remaining

    def _fitted(self, x: Float[np.ndarray, "n k d"]) -> Float[np.ndarray, "n k d"]:
        pairs = zip(x, self._oracle.ask(x), strict=True)
        return np.stack([self._rows(tokens, answers) for tokens, answers in pairs])

    def _rows(self, x: Float[np.ndarray, "k d"], answers: Float[np.ndarray, "k d"]) -> np.ndarray:
        """F(X) = t_0 sum_i W_i + sum_i sum_b P_ib (t_b - t_0) W_i by chord steps in the P_ib, from P_ib = 1 / k."""
        mean, total = x.mean(axis=0), self._w.sum(axis=0)
        columns = ((x[1:] - x[0]) @ self._w).reshape(-1, x.shape[1])
        back = columns @ self._behind
        inverse = np.linalg.pinv(back @ self._g.jacobian(mean[None])[0])
        alike = mean @ total
        start = (alike + x * self._residual) @ self._behind
        moved = np.zeros((len(x), len(columns)))
        off = first = answers - self._g(start)
        with np.errstate(all="ignore"):
            for _ in range(_STEPS):
                step = off @ inverse
                moved += step
                off = answers - self._g(start + moved @ back)
                if not np.linalg.norm(step) > _ROUNDING * np.linalg.norm(moved):
                    break
            good = np.linalg.norm(off, axis=1) <= _LEFT * np.linalg.norm(first, axis=1)
        return np.where(good[:, None], alike + moved @ columns, x[0] @ total)


def read_near(
    oracle: ValueOracle,
    g: TokenMap,
    linear: Float[np.ndarray, "d d"],
    residual: bool,
    accuracy: float,
    length: float,
    rng: np.random.Generator,
    recorder: Recorder,
) -> AttentionLayer | None:
    """The attention layer behind g, which is right to a relative `accuracy` on tokens of about this length."""
    d = len(linear)
    sums = LinearPart(np.zeros(d), linear - np.eye(d) if residual else linear)
    near = Peeled(oracle, g, linear, residual, near=True)
    for step_length in _STEP_LENGTHS:
        x = length / step_length * rng.standard_normal((_SAMPLE, d))
        error = g.amplification(x, linear) * max(accuracy, _UNITS / step_length**2)
        pairs = TwoTokens(near, sums, AnswerPrecision(0.0, error), step_length=step_length)
        try:
            pairs, rank = find_scale_and_rank(pairs, rng)
            recorder.step("Heads counted", heads=rank, scale=pairs.scale, step_length=step_length)
            heads = separate_heads(pairs, rank, rank, rng, recorder)
        except NoPreimage:
            recorder.step("No preimage near a token", step_length=step_length)
            continue
        if isinstance(heads, Refusal):
            recorder.step(heads.value, heads=rank)
            continue
        # equal weights are off by the cube of the length
        short = pairs.scale * step_length ** (1 / 3)
        spanned = Spanned(oracle, g, linear, residual, heads.w)
        at_once = replace(pairs, oracle=spanned, step_length=1.0, scale=short)
        layer = read_logits(at_once, heads.w, heads.directions).layer()
        recorder.step("Logits", layer=layer)
        return _fitted_to_fresh(oracle, g, linear, residual, layer, accuracy, rng, recorder)
    return None


def _fitted_to_fresh(
    oracle: ValueOracle,
    g: TokenMap,
    linear: Float[np.ndarray, "d d"],
    residual: bool,
    layer: AttentionLayer,
    accuracy: float,
    rng: np.random.Generator,
    recorder: Recorder,
) -> AttentionLayer:
    """The layer fitted to fresh tokens of unit variance, of low rank if what was read is."""
    m, d = layer.heads, layer.dim
    singular = np.linalg.svd(np.concatenate([layer.theta, layer.w]), compute_uv=False)
    rank = int(np.sum(singular > _SMALL * singular[:, :1], axis=1).max())
    low = 4 * rank < d
    unknowns = 4 * m * d * rank if low else 2 * m * d * d
    k = oracle.tokens or _TOKENS
    x = rng.standard_normal((int(np.ceil(_NUMBERS * unknowns / (k * d))), k, d))
    y, missed = Peeled(oracle, g, linear, residual, predicted=layer).preimages(x)
    usable = ~missed.any(axis=1)
    x, y = x[usable], y[usable]
    recorder.step("Preimages from predictions", queries=len(x), missed=missed.mean())
    theta = layer.theta
    if layer.key_bias is not None:
        theta = np.concatenate([theta, layer.key_bias[:, None]], axis=1)
    start = LowRankHeads.of(layer, rank) if low else FullHeads(theta)
    iterates = gauss_newton(x, y, start, tolerance=accuracy, rng=rng)
    best, residuals = next(iterates), [np.inf]
    for iterate in islice(iterates, _MOST):
        residuals.append(iterate.residual)
        best = iterate if iterate.residual < best.residual else best
        if best.residual > _FALLS * residuals[max(0, len(residuals) - _STUCK)]:
            break
    recorder.step("Fitted", layer=best.layer, residual=best.residual, queries=len(x), rank=rank)
    return best.layer

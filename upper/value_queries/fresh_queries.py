"""Fresh queries judge a layer: how far predictions are off, in units that fit what the layer was read from."""

import numpy as np

from attention import AnswerPrecision, AttentionLayer, Outcome, ValueOracle
from attention.evaluation import Verdict, relative_error, verdict
from upper.value_queries.answers import Tolerances
from upper.value_queries.two_tokens import TwoTokens

__all__ = ["judge", "judge_coarse", "judge_one_direction", "masked_rightly"]

# Fresh queries, of as many tokens where the oracle leaves it open.
_CHECKS, _TOKENS = 8, 4
# The shortest tokens of a check, in units of the scale: heads that cancel where they are saturated show there.
_SHORTEST = 2.0**-16
# Noise moves a root mean square over fresh answers by much less than this factor.
_NOISE = 3.0
# A layer that explains less than half of the answers, or whose rows are off by more than a tenth, is another layer.
_HALF, _MASKED = 0.5, 0.1


def judge(pairs: TwoTokens, layer: AttentionLayer, rng: np.random.Generator) -> Verdict:
    """Whether fresh queries are answered as the oracle does. Half of them have shorter and shorter tokens."""
    x = _tokens(pairs.oracle, _CHECKS, rng)
    half = _CHECKS // 2
    x[half:] *= _SHORTEST ** (np.arange(1, half + 1) / half)[:, None, None]
    answers, predicted = pairs.oracle.ask(x), layer(x)
    parts = [slice(half), *(slice(i, i + 1) for i in range(half, _CHECKS))]
    error = max(
        relative_error(predicted[part], answers[part])
        if np.any(answers[part])
        else float(np.abs(predicted[part]).max())
        for part in parts
    )
    return _verdict(error, len(x), Tolerances.of(pairs.precision).prediction)


def judge_one_direction(pairs: TwoTokens, layer: AttentionLayer, rng: np.random.Generator) -> Verdict:
    """The same relative to the heads' values X W_i, which may cancel in an answer.

    A third of the tokens are Gaussian of unit variance, a third Boolean. A third have lengths from the scale down to
    one at which no head saturates: every head then shows, also two that cancel where both are saturated.
    """
    x = _tokens(pairs.oracle, 12 * _CHECKS, rng)
    x[1::3] = np.sign(x[1::3])
    x[::3] *= (
        2 * pairs.scale / np.sqrt(x.shape[2]) * _SHORTEST ** np.linspace(0, 1, 4 * _CHECKS)[:, None, None]
    )
    difference = np.linalg.norm(pairs.oracle.ask(x) - layer(x), axis=(1, 2))
    values = 0 if layer.bias is None else np.linalg.norm(layer.bias)
    values = values + np.linalg.norm(x[:, None] @ layer.w, axis=(2, 3)).sum(axis=1)
    return _verdict(float(np.max(difference / values)), len(x), Tolerances.of(pairs.precision).prediction)


def judge_coarse(
    oracle: ValueOracle, precision: AnswerPrecision, layer: AttentionLayer, rng: np.random.Generator
) -> Verdict:
    """Whether coarse answers differ from the prediction by little more than their error, and by less than from zero."""
    x = _tokens(oracle, _CHECKS, rng)
    answers = oracle.ask(x)
    without_bias = answers if layer.bias is None else answers - layer.bias
    off, size, whole = (
        float(np.sqrt(np.mean(part**2))) for part in (answers - layer(x), without_bias, answers)
    )
    size = size or 1.0
    tolerance = Tolerances.of(precision).prediction * whole / size
    return _verdict(off / size, len(x), min(tolerance, _HALF), min(_NOISE * precision.noise / size, _HALF))


def _verdict(error: float, queries: int, rounding: float, noise: float = 0.0) -> Verdict:
    """Nothing is fitted to answers, so the error on fresh queries is all there is."""
    return verdict(
        fitted=error,
        held_out=error,
        evidence=queries,
        otherwise=Outcome.NOT_SEPARATED,
        rounding=rounding,
        nearly_exact=rounding,
        noise=noise,
    )


def masked_rightly(oracle: ValueOracle, layer: AttentionLayer, rng: np.random.Generator) -> bool:
    """Whether all rows of a causal layer are as predicted, not the last ones alone."""
    x = _tokens(oracle, _CHECKS, rng)
    answers, predicted = oracle.ask(x), layer(x)
    return all(
        np.linalg.norm(answers[:, row] - predicted[:, row]) < _MASKED * np.linalg.norm(answers)
        for row in range(x.shape[1])
    )


def _tokens(oracle: ValueOracle, n: int, rng: np.random.Generator) -> np.ndarray:
    return rng.standard_normal((n, oracle.tokens or _TOKENS, oracle.dim))

"""What the checks of agreement share: planted rows, disagreement of the first row, and exponents with intervals."""

from itertools import combinations

import numpy as np
from jaxtyping import Float
from numpy.random import Generator

from attention import AttentionLayer, BooleanInputs, make_nice_layer
from paper_checks.intervals import Interval, mean_interval
from upper.six_phase import has_repeated_tokens

__all__ = [
    "disagreements",
    "exponent_interval",
    "planted_agreement",
    "residual_without_constraint",
    "weights_of_any_sum",
]


def planted_agreement(
    m: int, k: int, d: int, rng: Generator, *, sigma: float = 1.0
) -> tuple[AttentionLayer, Float[np.ndarray, "1 k d"]]:
    """A layer, nice but for one thing, and one example on whose row 0 all its heads agree."""
    layer = make_nice_layer(heads=m, dim=d, sigma=sigma, rng=rng)
    x = BooleanInputs(k, d).sample(1, rng=rng)
    while has_repeated_tokens(x)[0]:
        x = BooleanInputs(k, d).sample(1, rng=rng)
    theta = layer.theta.copy()
    contrasts = np.linalg.qr((x[0, 1:] - x[0, 0]).T)[0]
    for i in range(1, m):
        apart = x[0, 0] @ (theta[i] - theta[0]) @ contrasts  # what the heads differ by, contrast by contrast
        theta[i] -= np.outer(x[0, 0], contrasts @ apart) / d
    return AttentionLayer(theta=theta, w=layer.w), x


def disagreements(
    layer: AttentionLayer, x: Float[np.ndarray, "n k d"]
) -> tuple[Float[np.ndarray, " n"], Float[np.ndarray, " n"]]:
    """How far heads differ on row 0 of every example: in logits up to a shift, and in the patterns' entries."""
    transposed = x.transpose(0, 2, 1)
    logits = np.stack([((x[:, 0] @ theta)[:, None] @ transposed)[:, 0] for theta in layer.theta], axis=1)
    patterns = np.exp(logits - logits.max(axis=-1, keepdims=True))
    patterns /= patterns.sum(axis=-1, keepdims=True)
    in_logits, in_patterns = np.zeros(len(x)), np.zeros(len(x))
    for i, j in combinations(range(layer.heads), 2):
        in_logits = np.maximum(in_logits, np.ptp(logits[:, i] - logits[:, j], axis=1))
        in_patterns = np.maximum(in_patterns, np.abs(patterns[:, i] - patterns[:, j]).max(axis=1))
    return in_logits, in_patterns


def exponent_interval(values: Float[np.ndarray, " n"], largest: float, *, confidence: float) -> Interval:
    """The power alpha in P(value <= e) ~ e^alpha, by Hill's estimate over the independent values up to `largest`.

    ln(largest / value) has mean 1 / alpha, whose interval is Student's.
    """
    values = values[(values <= largest) & (values > 0)]
    mean = mean_interval(np.log(largest / values), confidence=confidence)
    low, high = 1 / mean.high, 1 / mean.low if mean.low > 0 else np.inf
    return Interval(low, 1 / mean.estimate, float(high), confidence, f"Hill, {values.size} values")


def residual_without_constraint(read: Float[np.ndarray, "k d"], label: Float[np.ndarray, " d"]) -> float:
    """What ordinary least squares of a label on k vectors leaves, relative to the label."""
    weights = np.linalg.lstsq(read.T, label, rcond=None)[0]
    return float(np.linalg.norm(label - weights @ read) / np.linalg.norm(label))


def weights_of_any_sum(
    values: Float[np.ndarray, "n k d"], y: Float[np.ndarray, "n a d"]
) -> tuple[Float[np.ndarray, "n a k"], Float[np.ndarray, "n a d"]]:
    """Ordinary least squares of labels on k vectors, without the constraint: the weights and what is left."""
    transposed = np.swapaxes(values, 1, 2)
    weights = np.swapaxes(np.linalg.solve(values @ transposed, values @ np.swapaxes(y, 1, 2)), 1, 2)
    return weights, y - weights @ values

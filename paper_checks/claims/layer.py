"""The attention layer."""

from collections.abc import Iterator

import numpy as np
from numpy.random import Generator

from attention import (
    AttentionLayer,
    BooleanInputs,
    attention_pattern,
    make_nice_layer,
)
from paper_checks.claim import Basis, claim
from paper_checks.claims._faults import NEGATED_LOGITS
from paper_checks.comparison import Comparison, at_most
from runs import Scale


@claim(
    "layer/row-form",
    source="Chen and Li, arXiv 2402.04084: the definition of the layer",
    basis=Basis.PROVED,
    fault=NEGATED_LOGITS,
)
def row_form(
    scale: Scale, rng: Generator, *, logit_sign: int = 1, rounding: float = 1e-13
) -> Iterator[Comparison]:
    """Row a of F(X) is the sum over heads i and tokens b of p_ab x_b W_i, where p_a is the softmax of x_a Theta_i x_b
    over b.

    Loops over rows, heads and tokens, written from the formula with its own softmax. Compares with the layer's matrix
    form on random Boolean tokens, in floating point, so to rounding.
    """
    heads, tokens, dim = (3, 4, 12) if scale is Scale.QUICK else (4, 6, 48)
    layer = make_nice_layer(heads=heads, dim=dim, rng=rng)
    x = BooleanInputs(tokens, dim).sample(5, rng=rng)
    by_rows = np.zeros_like(x)
    for example, a in np.ndindex(5, tokens):
        for theta, w in zip(layer.theta, layer.w, strict=True):
            logits = [logit_sign * (x[example, a] @ theta @ x[example, b]) for b in range(tokens)]
            total = sum(np.exp(logit) for logit in logits)
            by_rows[example, a] += sum(np.exp(logits[b]) / total * (x[example, b] @ w) for b in range(tokens))
    gap = np.abs(by_rows - layer(x)).max() / np.abs(by_rows).max()
    yield at_most("largest difference, relative", float(gap), rounding)


@claim("layer/lipschitz", source="derived here", basis=Basis.PROVED, fault={"steps": 3})
def lipschitz(scale: Scale, rng: Generator, *, steps: int = 1) -> Iterator[Comparison]:
    """For tokens of norm at most rho and |W_i|_F <= R, other parameters change F(X) in Frobenius norm by at most
    sqrt(k) sum_i (R rho^3 |change of Theta_i|_F + rho |change of W_i|_F). The sum of the absolute changes of a softmax
    is at most the largest change of a logit.

    The page "What is known" has the proof, and uses it for a bound on the examples of least squares. Random pairs of
    layers, near and far; and two logits near 0, where the softmax attains its bound.
    """
    draws = 30 if scale is Scale.QUICK else 1000
    worst = 0.0
    for _ in range(draws):
        heads, tokens, dim = (int(rng.integers(least, 6)) for least in (1, 2, 2))
        first, second = (make_nice_layer(heads=heads, dim=dim, rng=rng) for _ in range(2))
        share = 10 ** rng.uniform(-4, 0)
        theta, w = (a + share * (b - a) for a, b in ((first.theta, second.theta), (first.w, second.w)))
        x = BooleanInputs(tokens, dim).sample(20, rng=rng) * rng.uniform(0.1, 1)
        rho = np.linalg.norm(x[0, 0])
        size = max(np.linalg.norm(one, axis=(1, 2)).max() for one in (first.w, w))
        changes = [np.linalg.norm(a - b, axis=(1, 2)).sum() for a, b in ((first.theta, theta), (first.w, w))]
        bound = np.sqrt(tokens) * (size * rho**3 * changes[0] + rho * changes[1])
        moved = np.linalg.norm(AttentionLayer(theta, w)(x) - first(x), axis=(1, 2)).max()
        worst = max(worst, moved / bound)
    yield at_most("change of F over the bound, largest", steps * worst, 1.0)
    for step in (1e-1, 1e-3):
        changed = attention_pattern(np.array([[step, -step]]))[0] - 0.5
        share = steps * float(np.abs(changed).sum() / step)
        yield at_most(f"change of a softmax over that of logits, {step:g}", share, 1.0)

"""The attention layer."""

import math
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from jaxtyping import Float
from numpy.random import Generator

from attention import (
    AttentionLayer,
    BooleanInputs,
    GaussianInputs,
    attention_pattern,
    make_nice_layer,
)
from attention.conversion import Projections, convert_projections
from paper_checks.claim import Basis, claim
from paper_checks.claims._faults import NEGATED_LOGITS
from paper_checks.comparison import Comparison, at_most, equal
from paper_checks.faults import Fault
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


@claim(
    "layer/biases",
    source="Vaswani et al., arXiv 1706.03762, Section 3.2: the maps of a head; as a layer of this class: derived here",
    basis=Basis.PROVED,
    fault=Fault(
        "attention.conversion:_biases",
        lambda right: lambda maps, scale, kept: right(replace(maps, value_bias=None), scale, kept),
        "the value bias left out",
    ),
)
def biases(scale: Scale, rng: Generator, *, rounding: float = 1e-13) -> Iterator[Comparison]:
    """Heads of dimension h with query, key, value and output maps and biases q_i, nu_i and o are the layer
    1 b^T + sum_i softmax(X Theta_i X^T + 1 (X c_i)^T) X W_i. There Theta_i = Q_i^T K_i / sqrt(h), W_i = V_i^T O_i^T,
    c_i = K_i^T q_i / sqrt(h) and b = o + sum_i O_i nu_i. The key biases change nothing.

    Draws random maps and biases. Compares the textbook loop over heads (project, scale, softmax, mix, concatenate, map
    out) with the converted layer. Runs the loop again without the key biases.
    """
    dim, heads = (12, 3) if scale is Scale.QUICK else (48, 6)
    names = ("query_bias", "key_bias", "value_bias", "output_bias")
    vectors = dict(zip(names, rng.standard_normal((4, dim)), strict=True))
    weights = rng.standard_normal((4, dim, dim)) / math.sqrt(dim)
    maps = Projections(*weights, **vectors)
    x = GaussianInputs(4, dim).sample(10, rng=rng)
    expected = _textbook_attention(maps, x, heads)
    without_key = Projections(*weights, **(vectors | {"key_bias": None}))
    moved = np.abs(_textbook_attention(without_key, x, heads) - expected).max()
    layer = convert_projections(maps, heads=heads).layer
    size = np.abs(expected).max()
    yield at_most("relative difference", float(np.abs(layer(x) - expected).max() / size), rounding)
    yield at_most("change without the key biases, relative", float(moved / size), rounding)
    ranks = [int(np.linalg.matrix_rank(matrix)) for matrix in (*layer.theta, *layer.w)]
    yield equal("ranks of all Theta and W", ranks, [dim // heads] * (2 * heads))


def _textbook_attention(
    maps: Projections, x: Float[np.ndarray, "n k d"], heads: int
) -> Float[np.ndarray, "n k d"]:
    query = x @ maps.query.T + maps.query_bias
    key = x @ maps.key.T + maps.key_bias
    value = x @ maps.value.T + maps.value_bias
    root = (x.shape[-1] // heads) ** -0.5
    mixed = []
    for part in np.split(np.arange(query.shape[-1]), heads):
        odds = np.exp(root * query[..., part] @ np.swapaxes(key[..., part], -1, -2))
        mixed.append(odds / odds.sum(axis=-1, keepdims=True) @ value[..., part])
    return np.concatenate(mixed, axis=-1) @ maps.output.T + maps.output_bias

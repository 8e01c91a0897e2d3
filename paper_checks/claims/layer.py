"""Claims about the layer itself: what follows from its formula alone."""

import itertools
import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from jaxtyping import Float
from numpy.random import Generator

from attention import (
    AttentionLayer,
    BooleanInputs,
    GaussianInputs,
    attention_pattern,
    convert_torch_module,
    make_nice_layer,
)
from attention.conversion import Projections, convert_projections
from paper_checks.check import Constants, Scale
from paper_checks.claims._faults import HALF_LOGITS, NEGATED_LOGITS
from paper_checks.claims.tables import checks
from paper_checks.comparison import Comparison, at_least, at_most, equal
from paper_checks.faults import returned


@checks("layer/row-form", NEGATED_LOGITS)
def row_form(claim: Constants, scale: Scale, rng: Generator) -> Iterator[Comparison]:
    """Loops over rows, heads and tokens, written from the formula with its own softmax. Compares with the
    layer's matrix form on random Boolean tokens, in floating point, so to rounding.
    """
    heads, tokens, dim = (3, 4, 12) if scale is Scale.QUICK else (4, 6, 48)
    layer = make_nice_layer(heads=heads, dim=dim, rng=rng)
    x = BooleanInputs(tokens, dim).sample(5, rng=rng)
    by_rows = np.zeros_like(x)
    for example, a in np.ndindex(5, tokens):
        for theta, w in zip(layer.theta, layer.w, strict=True):
            logits = [claim.logit_sign * (x[example, a] @ theta @ x[example, b]) for b in range(tokens)]
            total = sum(np.exp(logit) for logit in logits)
            by_rows[example, a] += sum(np.exp(logits[b]) / total * (x[example, b] @ w) for b in range(tokens))
    gap = np.abs(by_rows - layer(x)).max() / np.abs(by_rows).max()
    yield at_most("largest difference, relative", float(gap), claim.rounding)


@checks("layer/patterns-are-probabilities", lambda right: lambda logits, xp: xp.exp(logits))
def patterns_are_probabilities(claim: Constants, scale: Scale, rng: Generator) -> Iterator[Comparison]:
    """Sums patterns of random heads on Gaussian tokens over the attended tokens, with logits of standard
    deviation 2. Logits that differ by more than 745 would leave a zero in float64. Such are not drawn.
    """
    dim, tokens, examples = (16, 5, 200) if scale is Scale.QUICK else (64, 8, 2000)
    patterns = make_nice_layer(heads=3, dim=dim, rng=rng).patterns(
        GaussianInputs(tokens, dim).sample(examples, rng=rng)
    )
    off = np.abs(patterns.sum(axis=claim.attended_axis) - claim.sum).max()
    yield at_least("least entry", float(patterns.min()), float(np.nextafter(0, 1)))
    yield at_most("worst sum's distance from the claim", float(off), claim.rounding)


@checks("layer/order-of-tokens")
def order_of_tokens(claim: Constants, scale: Scale, rng: Generator) -> Iterator[Comparison]:
    """Tries all permutations of five random tokens. Proof: P moves rows and columns of X Theta X^T alike,
    softmax acts row by row, and P^T P = 1.
    """
    tokens, dim = (5, 12) if scale is Scale.QUICK else (6, 48)
    layer = make_nice_layer(heads=3, dim=dim, rng=rng)
    x = GaussianInputs(tokens, dim).sample(1, rng=rng)[0]
    orders = np.array(list(itertools.permutations(range(tokens))))
    after = orders if claim.power == 1 else np.argsort(orders, axis=1)
    y = layer(x)
    gap = np.abs(layer(x[orders]) - y[after]).max() / np.abs(y).max()
    yield at_most("largest difference, relative", float(gap), claim.rounding)


@checks("layer/order-of-heads", lambda right: lambda weights, x, xp: right(weights[..., ::-1, :], x, xp))
def order_of_heads(claim: Constants, scale: Scale, rng: Generator) -> Iterator[Comparison]:
    """Tries all orders of four random heads. F is a sum over heads. The injected error permutes the W_i
    alone.
    """
    dim = 12 if scale is Scale.QUICK else 48
    layer = make_nice_layer(heads=4, dim=dim, rng=rng)
    x = BooleanInputs(3, dim).sample(20, rng=rng)
    y, gap = layer(x), 0.0
    for order in map(list, itertools.permutations(range(4))):
        w = layer.w[order] if claim.w_moves_along else layer.w
        gap = max(gap, float(np.abs(AttentionLayer(theta=layer.theta[order], w=w)(x) - y).max()))
    yield at_most("largest difference, relative", gap / float(np.abs(y).max()), claim.rounding)


@checks("layer/odd")
def odd(claim: Constants, scale: Scale, rng: Generator) -> Iterator[Comparison]:
    """Takes random layers and tokens, and the mean of F over all Boolean X at d = 3, k = 2. The logits are
    quadratic in X, so the patterns are even, and F is a pattern times X.
    """
    dim = 12 if scale is Scale.QUICK else 48
    layer, x = make_nice_layer(heads=3, dim=dim, rng=rng), GaussianInputs(4, dim).sample(20, rng=rng)
    y = layer(x)
    gap = np.abs(layer(-x) - claim.sign * y).max() / np.abs(y).max()
    mean = make_nice_layer(heads=3, dim=3, rng=rng)(_all_boolean(2, 3)).mean(axis=0)
    yield at_most("largest difference, relative", float(gap), claim.rounding)
    yield at_most("mean over all Boolean X, largest entry", float(np.abs(mean).max()), claim.rounding)


@checks("layer/zero-attention")
def zero_attention(claim: Constants, scale: Scale, rng: Generator) -> Iterator[Comparison]:
    """Enumerates all Boolean X at (k, d) = (2, 3), (4, 2) with integer W. k is a power of two, so the layer's
    own floating-point numbers are whole after multiplying by k. The right side is in integers.
    """
    for tokens, dim in ((2, 3), (4, 2)) if scale is Scale.QUICK else ((2, 3), (4, 2), (4, 3), (2, 6)):
        x = _all_boolean(tokens, dim)
        w = rng.integers(-9, 10, size=(3, dim, dim))
        w[0] += 50 * np.eye(dim, dtype=w.dtype)  # so that the sum is not 0
        left = tokens**claim.power_of_k * AttentionLayer(theta=np.zeros(w.shape), w=w)(x)
        right = np.repeat((x.astype(int).sum(axis=1) @ w.sum(axis=0))[:, None, :], tokens, axis=1)
        yield equal(
            f"X with k F(X) = J X sum W, of all {len(x)} at k = {tokens}, d = {dim}",
            int((left == right).all(axis=(1, 2)).sum()),
            len(x),
        )


@checks("layer/two-tokens-tanh", HALF_LOGITS)
def two_tokens_tanh(claim: Constants, scale: Scale, rng: Generator) -> Iterator[Comparison]:
    """Compares the hyperbolic form with the layer on random Boolean tokens. A softmax of two logits is (1 +
    tanh(z/2))/2.
    """
    dim, examples = (12, 200) if scale is Scale.QUICK else (64, 2000)
    layer = make_nice_layer(heads=3, dim=dim, rng=rng)
    x, y = np.moveaxis(BooleanInputs(2, dim).sample(examples, rng=rng), 1, 0)
    rows = np.zeros((examples, 2, dim))
    for theta, w in zip(layer.theta, layer.w, strict=True):
        for row, (one, other) in enumerate(((x, y), (y, x))):
            z = np.einsum("ni,ij,nj->n", one, theta, one - other)
            rows[:, row] += (one + other) / 2 @ w
            rows[:, row] += np.tanh(claim.argument * z)[:, None] * ((one - other) / 2 @ w)
    gap = np.abs(layer(np.stack([x, y], axis=1)) - rows).max() / np.abs(rows).max()
    yield at_most("largest difference, relative", float(gap), claim.rounding)


@checks("layer/margin", returned(lambda pattern: pattern**2))
def margin(claim: Constants, scale: Scale, rng: Generator) -> Iterator[Comparison]:
    """Takes random logits with their own margins, and the extreme case at each g. Proof: the others' odds
    against the largest are at most e^-g each.
    """
    draws = 2_000 if scale is Scale.QUICK else 100_000
    worst, extreme = math.inf, 0.0
    for tokens in (2, 3, 6):
        logits = rng.standard_normal((draws, tokens)) * rng.uniform(0, 8, size=(draws, 1))
        ordered = np.sort(logits, axis=1)
        odds = (tokens - claim.not_counted) * np.exp(-claim.rate * (ordered[:, -1] - ordered[:, -2]))
        worst = min(worst, float((attention_pattern(logits).max(axis=1) - (1 - odds)).min()))
        for gap in (0.5, 2.0, 7.0):
            one_above = np.array([gap] + [0.0] * (tokens - 1))
            sharp = 1 / (1 + (tokens - claim.not_counted) * math.exp(-claim.rate * gap))
            extreme = max(extreme, abs(float(attention_pattern(one_above)[0]) - sharp))
    yield at_least("least excess over the bound", worst, -claim.rounding)
    yield at_most("extreme case, distance from its formula", extreme, claim.rounding)


@checks("layer/transformer-heads", HALF_LOGITS)
def transformer_heads(claim: Constants, scale: Scale, rng: Generator) -> Iterator[Comparison]:
    """Draws random maps. Compares the textbook loop over heads (project, scale, softmax, mix, concatenate,
    map out) with the converted layer, and computes the ranks of its matrices.
    """
    dim, heads = (12, 3) if scale is Scale.QUICK else (48, 6)
    maps = _random_maps(dim, rng)
    layer = convert_projections(maps, heads=heads).layer
    size = dim // heads
    x = GaussianInputs(4, dim).sample(10, rng=rng)
    expected = _textbook_attention(maps, x, heads, size**claim.power_of_h)
    gap = np.abs(layer(x) - expected).max() / np.abs(expected).max()
    ranks = [int(np.linalg.matrix_rank(one)) for one in (*layer.theta, *layer.w)]
    yield at_most("largest difference, relative", float(gap), claim.rounding)
    yield equal("ranks of all Theta and W", ranks, [claim.rank_over_h * size] * (2 * heads))


@checks(
    "layer/biases",
    lambda right: lambda maps, scale, kept: right(replace(maps, value_bias=None), scale, kept),
)
def biases(claim: Constants, scale: Scale, rng: Generator) -> Iterator[Comparison]:
    """Draws random maps and biases. Compares the textbook loop with biases with the converted layer. Runs the loop
    again without the key biases.
    """
    dim, heads = (12, 3) if scale is Scale.QUICK else (48, 6)
    vectors = dict(
        zip(
            ("query_bias", "key_bias", "value_bias", "output_bias"),
            rng.standard_normal((4, dim)),
            strict=True,
        )
    )
    plain = _random_maps(dim, rng)
    weights = {name: getattr(plain, name) for name in ("query", "key", "value", "output")}
    maps = Projections(**weights, **vectors)
    x = GaussianInputs(4, dim).sample(10, rng=rng)
    root = (dim // heads) ** -0.5
    expected = _textbook_attention(maps, x, heads, root)
    without_key = Projections(**weights, **(vectors | {"key_bias": None}))
    moved = np.abs(_textbook_attention(without_key, x, heads, root) - expected).max()
    found = convert_projections(maps, heads=heads).layer(x)
    size = np.abs(expected).max()
    yield at_most("relative difference", float(np.abs(found - expected).max() / size), claim.rounding)
    yield at_most("change without the key biases, relative", float(moved / size), claim.rounding)


@checks("layer/torch-attention")
def torch_attention(claim: Constants, scale: Scale, rng: Generator) -> Iterator[Comparison]:
    """Compares the module itself, in float64 with random weights and biases, with the converted layer. Masks,
    keys of another dimension and dropout in training are outside the claim.
    """
    import torch

    dim, heads = (12, 3) if scale is Scale.QUICK else (96, 6)
    module = torch.nn.MultiheadAttention(dim, heads, batch_first=True, dtype=torch.float64).eval()
    for parameter in module.parameters():
        parameter.data = torch.from_numpy(rng.standard_normal(tuple(parameter.shape)) / math.sqrt(dim))
    x = GaussianInputs(4, dim).sample(10, rng=rng)
    with torch.no_grad():
        tokens = torch.from_numpy(x)
        expected = module(tokens, tokens, tokens, need_weights=False)[0].numpy()
    layer = convert_torch_module(module, biases=claim.biases).layer
    gap = np.abs(layer(x) - expected).max() / np.abs(expected).max()
    yield at_most("largest difference, relative", float(gap), claim.rounding)


def _all_boolean(tokens: int, dim: int) -> Float[np.ndarray, "n k d"]:
    signs = list(itertools.product((-1.0, 1.0), repeat=tokens * dim))
    return np.array(signs).reshape(-1, tokens, dim)


def _random_maps(dim: int, rng: Generator) -> Projections:
    return Projections(*(rng.standard_normal((4, dim, dim)) / math.sqrt(dim)))


def _textbook_attention(maps: Projections, x: Any, heads: int, logit_scale: float) -> Any:
    """Project, take scaled products, softmax, mix, concatenate, map out: one head at a time."""
    query = x @ maps.query.T + maps.query_bias
    key = x @ maps.key.T + maps.key_bias
    value = x @ maps.value.T + maps.value_bias
    mixed = []
    for part in np.split(np.arange(query.shape[-1]), heads):
        odds = np.exp(logit_scale * query[..., part] @ np.swapaxes(key[..., part], -1, -2))
        mixed.append(odds / odds.sum(axis=-1, keepdims=True) @ value[..., part])
    return np.concatenate(mixed, axis=-1) @ maps.output.T + maps.output_bias

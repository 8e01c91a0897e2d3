"""Claims about the layer itself: what follows from its formula alone."""

import itertools
import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from jaxtyping import Float
from numpy.random import Generator

from attention import (
    AttentionLayer,
    BooleanInputs,
    ConstantCoordinateInputs,
    GaussianInputs,
    attention_pattern,
    convert_torch_module,
    make_nice_layer,
)
from attention.conversion import convert_projections
from attention.projections import Projections
from paper_checks.check import Basis, Constants, Scale, check
from paper_checks.claims._faults import HALF_LOGITS, NEGATED_LOGITS
from paper_checks.comparison import Comparison, Kind, at_least, at_most, close, equal
from paper_checks.faults import Fault, returned

_LAYER = "Chen and Li, arXiv 2402.04084: the definition of the layer"
_HEADS = "Vaswani et al., arXiv 1706.03762, Section 3.2: the maps of a head; as a layer of this class: derived here"


@check(
    "layer/row-form",
    claim="Row a of F(X) is the sum over heads i and tokens b of p_ab x_b W_i, p_a the softmax of x_a Theta_i x_b.",
    source="Chen and Li, arXiv 2402.04084: the definition of the layer",
    kind=Kind.NUMERIC,
    basis=Basis.PROVED,
    how="A loop over rows, heads and tokens, written from the formula with its own softmax, against the layer's matrix "
    "form on random Boolean tokens. In floating point, so to rounding.",
    constants={"logit_sign": 1, "rounding": 1e-13},
    wrong=NEGATED_LOGITS,
)
def row_form(constants: Constants, scale: Scale, rng: Generator) -> Sequence[Comparison]:
    """One loop a sum."""
    heads, tokens, dim = (3, 4, 12) if scale is Scale.QUICK else (4, 6, 48)
    layer = make_nice_layer(heads=heads, dim=dim, rng=rng)
    x = BooleanInputs(tokens, dim).sample(5, rng=rng)
    by_rows = np.zeros_like(x)
    for example, a in np.ndindex(5, tokens):
        for theta, w in zip(layer.theta, layer.w, strict=True):
            logits = [
                constants["logit_sign"] * (x[example, a] @ theta @ x[example, b]) for b in range(tokens)
            ]
            total = sum(np.exp(logit) for logit in logits)
            by_rows[example, a] += sum(np.exp(logits[b]) / total * (x[example, b] @ w) for b in range(tokens))
    gap = np.abs(by_rows - layer(x)).max() / np.abs(by_rows).max()
    return [at_most("largest difference, relative", float(gap), constants["rounding"])]


@check(
    "layer/patterns-are-probabilities",
    claim="Every row of an attention pattern, over the tokens that are attended to, is positive and sums to 1.",
    source=_LAYER,
    kind=Kind.NUMERIC,
    basis=Basis.PROVED,
    how="Patterns of random heads on Gaussian tokens, with logits of standard deviation 2, summed over the attended "
    "tokens. Logits that differ by more than 745 would leave a zero in float64; such are not drawn.",
    constants={"attended_axis": -1, "sum": 1, "rounding": 1e-14},
    wrong=Fault(
        "attention._kernels:softmax",
        lambda right: lambda logits, xp: xp.exp(logits),
        "the softmax is not normalised",
    ),
)
def patterns_are_probabilities(constants: Constants, scale: Scale, rng: Generator) -> Sequence[Comparison]:
    """The least entry and the worst sum."""
    dim, tokens, examples = (16, 5, 200) if scale is Scale.QUICK else (64, 8, 2000)
    patterns = make_nice_layer(heads=3, dim=dim, rng=rng).patterns(
        GaussianInputs(tokens, dim).sample(examples, rng=rng)
    )
    off = np.abs(patterns.sum(axis=constants["attended_axis"]) - constants["sum"]).max()
    return [
        at_least("least entry", float(patterns.min()), float(np.nextafter(0, 1))),
        at_most("worst sum's distance from the claim", float(off), constants["rounding"]),
    ]


@check(
    "layer/order-of-tokens",
    claim="F commutes with permutations P of the tokens: F(P X) = P F(X). There are no positions in the layer.",
    source="derived here, from the definition of the layer",
    kind=Kind.NUMERIC,
    basis=Basis.PROVED,
    how="All permutations of five random tokens. The proof: P moves rows and columns of X Theta X^T alike, softmax "
    "acts row by row, and P^T P = 1.",
    constants={"power": 1, "rounding": 1e-13},
    wrong={"power": -1},
)
def order_of_tokens(constants: Constants, scale: Scale, rng: Generator) -> Sequence[Comparison]:
    """The claim is F(P X) = P^power F(X)."""
    tokens, dim = (5, 12) if scale is Scale.QUICK else (6, 48)
    layer = make_nice_layer(heads=3, dim=dim, rng=rng)
    x = GaussianInputs(tokens, dim).sample(1, rng=rng)[0]
    orders = np.array(list(itertools.permutations(range(tokens))))
    after = orders if constants["power"] == 1 else np.argsort(orders, axis=1)
    y = layer(x)
    gap = np.abs(layer(x[orders]) - y[after]).max() / np.abs(y).max()
    return [at_most("largest difference, relative", float(gap), constants["rounding"])]


@check(
    "layer/order-of-heads",
    claim="The order of the heads does not matter, as long as each Theta_i keeps its own W_i.",
    source="derived here, from the definition of the layer",
    kind=Kind.NUMERIC,
    basis=Basis.PROVED,
    how="All orders of four random heads; F is a sum over heads. The injected error permutes the W_i alone.",
    constants={"w_moves_along": True, "rounding": 1e-13},
    wrong=Fault(
        "attention.layer:mix",
        lambda right: lambda weights, x, xp: right(weights[..., ::-1, :], x, xp),
        "the W_i in the reverse order of the Theta_i",
    ),
)
def order_of_heads(constants: Constants, scale: Scale, rng: Generator) -> Sequence[Comparison]:
    """The largest change over the orders."""
    dim = 12 if scale is Scale.QUICK else 48
    layer = make_nice_layer(heads=4, dim=dim, rng=rng)
    x = BooleanInputs(3, dim).sample(20, rng=rng)
    y, gap = layer(x), 0.0
    for order in map(list, itertools.permutations(range(4))):
        w = layer.w[order] if constants["w_moves_along"] else layer.w
        gap = max(gap, float(np.abs(AttentionLayer(theta=layer.theta[order], w=w)(x) - y).max()))
    return [at_most("largest difference, relative", gap / float(np.abs(y).max()), constants["rounding"])]


@check(
    "layer/odd",
    claim="F(-X) = -F(X). So the mean of F is 0 on every input distribution that is symmetric about 0.",
    source="derived here, from the definition of the layer",
    kind=Kind.NUMERIC,
    basis=Basis.PROVED,
    how="Random layers and tokens, and the mean of F over all Boolean X at d = 3, k = 2. The logits are quadratic in "
    "X, so the patterns are even, and F is a pattern times X.",
    constants={"sign": -1, "rounding": 1e-13},
    wrong={"sign": 1},
)
def odd(constants: Constants, scale: Scale, rng: Generator) -> Sequence[Comparison]:
    """At X and at -X, and the mean over the cube."""
    dim = 12 if scale is Scale.QUICK else 48
    layer, x = make_nice_layer(heads=3, dim=dim, rng=rng), GaussianInputs(4, dim).sample(20, rng=rng)
    y = layer(x)
    gap = np.abs(layer(-x) - constants["sign"] * y).max() / np.abs(y).max()
    mean = make_nice_layer(heads=3, dim=3, rng=rng)(_all_boolean(2, 3)).mean(axis=0)
    return [
        at_most("largest difference, relative", float(gap), constants["rounding"]),
        at_most("mean over all Boolean X, largest entry", float(np.abs(mean).max()), constants["rounding"]),
    ]


@check(
    "layer/zero-attention",
    claim="With all Theta_i = 0 the layer is linear: k F(X) = J X sum_i W_i, J all ones and k the number of tokens.",
    source="derived here; why the first phase of Chen and Li's learner, the crude sum, is exact without attention",
    kind=Kind.EXACT,
    basis=Basis.PROVED,
    how="All Boolean X at (k, d) = (2, 3), (4, 2) with integer W: k is a power of two, so that the layer's own "
    "floating-point numbers are whole after multiplying by k. The right side is in integers.",
    constants={"power_of_k": 1},
    wrong={"power_of_k": 0},
)
def zero_attention(constants: Constants, scale: Scale, rng: Generator) -> Sequence[Comparison]:
    """The largest difference, a whole number."""
    compared = []
    for tokens, dim in ((2, 3), (4, 2)) if scale is Scale.QUICK else ((2, 3), (4, 2), (4, 3), (2, 6)):
        x = _all_boolean(tokens, dim)
        w = rng.integers(-9, 10, size=(3, dim, dim))
        w[0] += 50 * np.eye(dim, dtype=w.dtype)  # so that the sum is not 0
        left = tokens ** constants["power_of_k"] * AttentionLayer(theta=np.zeros(w.shape), w=w)(x)
        right = np.repeat((x.astype(int).sum(axis=1) @ w.sum(axis=0))[:, None, :], tokens, axis=1)
        compared.append(
            equal(
                f"X with k F(X) = J X sum W, of all {len(x)} at k = {tokens}, d = {dim}",
                int((left == right).all(axis=(1, 2)).sum()),
                len(x),
            )
        )
    return compared


@check(
    "layer/two-tokens-tanh",
    claim="With k = 2 tokens x, y the first row of F is (x + y)/2 sum_i W_i + sum_i tanh(z_i/2) (x - y)/2 W_i, with "
    "z_i = x Theta_i (x - y); the second row exchanges x and y.",
    source="derived here, from the definition of the layer",
    kind=Kind.NUMERIC,
    basis=Basis.PROVED,
    how="The hyperbolic form against the layer on random Boolean tokens. A softmax of two logits is (1 + tanh(z/2))/2.",
    constants={"argument": 0.5, "rounding": 1e-13},
    wrong=HALF_LOGITS,
)
def two_tokens_tanh(constants: Constants, scale: Scale, rng: Generator) -> Sequence[Comparison]:
    """Both rows, without any softmax."""
    dim, examples = (12, 200) if scale is Scale.QUICK else (64, 2000)
    layer = make_nice_layer(heads=3, dim=dim, rng=rng)
    x, y = np.moveaxis(BooleanInputs(2, dim).sample(examples, rng=rng), 1, 0)
    rows = np.zeros((examples, 2, dim))
    for theta, w in zip(layer.theta, layer.w, strict=True):
        for row, (one, other) in enumerate(((x, y), (y, x))):
            z = np.einsum("ni,ij,nj->n", one, theta, one - other)
            rows[:, row] += (one + other) / 2 @ w
            rows[:, row] += np.tanh(constants["argument"] * z)[:, None] * ((one - other) / 2 @ w)
    gap = np.abs(layer(np.stack([x, y], axis=1)) - rows).max() / np.abs(rows).max()
    return [at_most("largest difference, relative", float(gap), constants["rounding"])]


@check(
    "layer/margin",
    claim="If one of k logits exceeds all others by at least g, the softmax puts at least 1 - (k - 1) e^-g on it, and "
    "exactly 1/(1 + (k - 1) e^-g) if all others are equal and lie g below.",
    source="derived here; used for the nearly one-hot rows of the third phase of Chen and Li's learner",
    kind=Kind.NUMERIC,
    basis=Basis.PROVED,
    how="Random logits with their own margins, and the extreme case at each g. The proof: the others' odds against "
    "the largest are at most e^-g each.",
    constants={"not_counted": 1, "rate": 1.0, "rounding": 1e-14},
    wrong=Fault(
        "attention._kernels:softmax",
        returned(lambda pattern: pattern**2),
        "the squares of the weights, which do not sum to 1",
    ),
)
def margin(constants: Constants, scale: Scale, rng: Generator) -> Sequence[Comparison]:
    """The bound is held against every row, the equality against the extreme ones."""
    draws = 2_000 if scale is Scale.QUICK else 100_000
    worst, extreme = math.inf, 0.0
    for tokens in (2, 3, 6):
        logits = rng.standard_normal((draws, tokens)) * rng.uniform(0, 8, size=(draws, 1))
        ordered = np.sort(logits, axis=1)
        odds = (tokens - constants["not_counted"]) * np.exp(
            -constants["rate"] * (ordered[:, -1] - ordered[:, -2])
        )
        worst = min(worst, float((attention_pattern(logits).max(axis=1) - (1 - odds)).min()))
        for gap in (0.5, 2.0, 7.0):
            one_above = np.array([gap] + [0.0] * (tokens - 1))
            sharp = 1 / (1 + (tokens - constants["not_counted"]) * math.exp(-constants["rate"] * gap))
            extreme = max(extreme, abs(float(attention_pattern(one_above)[0]) - sharp))
    return [
        at_least("least excess over the bound", worst, -constants["rounding"]),
        at_most("extreme case, distance from its formula", extreme, constants["rounding"]),
    ]


@check(
    "layer/transformer-heads",
    claim="Heads of head dimension h with query, key, value and output maps W_Q, W_K, W_V, W_O and no biases are heads "
    "of this class: Theta = W_Q^T W_K / sqrt(h), W = W_V^T W_O^T, both of rank h at most.",
    source=_HEADS,
    kind=Kind.NUMERIC,
    basis=Basis.PROVED,
    how="Random maps: the textbook loop over heads (project, scale, softmax, mix, concatenate, map out) against the "
    "converted layer, and the ranks of its matrices.",
    constants={"power_of_h": -0.5, "rank_over_h": 1, "rounding": 1e-13},
    wrong=HALF_LOGITS,
)
def transformer_heads(constants: Constants, scale: Scale, rng: Generator) -> Sequence[Comparison]:
    """The loop takes the scale of the logits from the claim."""
    dim, heads = (12, 3) if scale is Scale.QUICK else (48, 6)
    maps = _random_maps(dim, rng)
    layer = convert_projections(maps, heads=heads).layer
    size = dim // heads
    x = GaussianInputs(4, dim).sample(10, rng=rng)
    expected = _textbook_attention(maps, x, heads, size ** constants["power_of_h"])
    gap = np.abs(layer(x) - expected).max() / np.abs(expected).max()
    ranks = [int(np.linalg.matrix_rank(one)) for one in (*layer.theta, *layer.w)]
    return [
        at_most("largest difference, relative", float(gap), constants["rounding"]),
        equal("ranks of all Theta and W", ranks, [constants["rank_over_h"] * size] * (2 * heads)),
    ]


@check(
    "layer/biases",
    claim="Biases of all four maps are absorbed exactly by one more coordinate that is 1 in every token: the first d "
    "outputs are then those with biases, the last output is 0. The key biases change nothing.",
    source=_HEADS,
    kind=Kind.NUMERIC,
    basis=Basis.PROVED,
    how="Random maps and biases: the textbook loop with biases against the converted layer on tokens with the constant "
    "appended, and the loop again without the key biases.",
    constants={"constant": 1.0, "last_output": 0.0, "rounding": 1e-13},
    wrong=Fault(
        "attention.projections:_parameters",
        lambda right: (
            lambda maps, m, scale, absorbed, kept: right(
                replace(maps, value_bias=None), m, scale, absorbed, kept
            )
        ),
        "the value bias left out",
    ),
)
def biases(constants: Constants, scale: Scale, rng: Generator) -> Sequence[Comparison]:
    """The same loop as for heads without biases."""
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
    x = ConstantCoordinateInputs(GaussianInputs(4, dim)).sample(10, rng=rng)
    root = (dim // heads) ** -0.5
    expected = _textbook_attention(maps, x[..., :-1], heads, root)
    without_key = Projections(**weights, **(vectors | {"key_bias": None}))
    moved = np.abs(_textbook_attention(without_key, x[..., :-1], heads, root) - expected).max()
    x[..., -1] = constants["constant"]
    found = convert_projections(maps, heads=heads, biases="absorbed").layer(x)
    size = np.abs(expected).max()
    return [
        at_most(
            "first d outputs, relative difference",
            float(np.abs(found[..., :-1] - expected).max() / size),
            constants["rounding"],
        ),
        close(
            "last output",
            float(found[..., -1].max()),
            constants["last_output"],
            absolute=constants["rounding"],
        ),
        at_most("change without the key biases, relative", float(moved / size), constants["rounding"]),
    ]


@check(
    "layer/torch-attention",
    claim="torch.nn.MultiheadAttention without mask, as self-attention in evaluation mode, is a layer of this class on "
    "tokens with a constant coordinate 1.",
    source="PyTorch's documentation of MultiheadAttention; derived here",
    kind=Kind.NUMERIC,
    basis=Basis.DERIVED,
    how="The module itself, in float64 with random weights and biases, against the converted layer. Masks, keys of "
    "another dimension and dropout in training are outside the claim.",
    constants={"biases": "absorbed", "rounding": 1e-12},
    wrong={"biases": "dropped"},
    needs=("torch",),
)
def torch_attention(constants: Constants, scale: Scale, rng: Generator) -> Sequence[Comparison]:
    """PyTorch's outputs against the layer's."""
    import torch

    dim, heads = (12, 3) if scale is Scale.QUICK else (96, 6)
    module = torch.nn.MultiheadAttention(dim, heads, batch_first=True, dtype=torch.float64).eval()
    for parameter in module.parameters():
        parameter.data = torch.from_numpy(rng.standard_normal(tuple(parameter.shape)) / math.sqrt(dim))
    x = ConstantCoordinateInputs(GaussianInputs(4, dim)).sample(10, rng=rng)
    with torch.no_grad():
        tokens = torch.from_numpy(x[..., :-1].copy())
        expected = module(tokens, tokens, tokens, need_weights=False)[0].numpy()
    layer = convert_torch_module(module, biases=constants["biases"]).layer
    gap = np.abs(layer(x[..., : layer.dim])[..., :dim] - expected).max() / np.abs(expected).max()
    return [at_most("largest difference, relative", float(gap), constants["rounding"])]


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

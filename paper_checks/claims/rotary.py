"""Rotary positions: what value queries determine, and the steps that compute it.

The layers are those of `attention.RotaryLayer`: S_i(j; x, y) = Re sum_f e^(i j omega_f) x~ M_f y~^T is the score of the
tokens x and y at the distance j.
"""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from numpy.random import Generator
from sympy import QQ_I
from sympy.polys.matrices import DomainMatrix

from attention import RotaryLayer, ValueOracle, make_nice_rotary_layer
from attention.rotary import rotary_frequencies
from paper_checks.claim import Basis, claim
from paper_checks.comparison import Comparison, at_most, equal
from runs import Scale
from upper import RotaryByQueries

_HERE = "derived here, from the definition of the layer"


@claim("rotary/scores", source=_HERE, basis=Basis.PROVED, fault={"sign": -1})
def scores(scale: Scale, rng: Generator, *, sign: int = 1) -> Iterator[Comparison]:
    """The score of two tokens at the distance j = s - t is Re sum_f e^(i j omega_f) x~ M_f y~^T, with M_f = alpha_f
    beta_f^* and x~ = (x, 1). It is the product of query and key, each turned by its place, in planes of the coordinates
    f and f + p / 2.

    The weights of the formula give answers, which are compared with those of the layer at random sequences.
    """
    length = 7 if scale is Scale.QUICK else 40
    for causal in (True, False):
        layer = _layer(rng, 2, 6, 4, causal=causal)
        x = rng.standard_normal((length, 6))
        weights = _weights(layer, x, sign)
        answers = layer.bias + np.einsum("mab,bd,mde->ae", weights, x, layer.w, optimize=True)
        off = float(np.abs(answers - layer(x)).max())
        yield at_most(f"answers of the formula, causal {causal}", off, 1e-12)


@claim("rotary/same-function", source=_HERE, basis=Basis.PROVED, fault={"power": 1})
def same_function(scale: Scale, rng: Generator, *, power: int = -1) -> Iterator[Comparison]:
    """The function is the same for c alpha_f and beta_f / conj(c), with complex c for each frequency and key head, the
    biases included; for any bias of keys that do not turn; and for one head with W_1 + W_2 in place of two whose
    scores differ by a number for each query.

    Answers of changed layers to random sequences.
    """
    length = 9 if scale is Scale.QUICK else 60
    layer = _layer(rng, 2, 6, 4)
    layer = replace(layer, frequencies=np.array([0.7, 0.0]))
    x = rng.standard_normal((length, 6))
    c = rng.standard_normal(4) @ np.array([[1, 0], [1j, 0], [0, 1], [0, 1j]])
    scaled = replace(
        layer,
        queries=_scaled(layer.queries, c),
        query_bias=_scaled(layer.query_bias, c),
        keys=_scaled(layer.keys, c.conj() ** power),
        key_bias=_scaled(layer.key_bias, c.conj() ** power),
    )
    yield at_most("answers with scaled maps", _off(scaled, layer, x), 1e-10)
    assert layer.key_bias is not None
    shifted = replace(layer, key_bias=layer.key_bias + np.array([0.0, 1.0, 0.0, -2.0]))
    yield at_most("answers with biases of keys that do not turn", _off(shifted, layer, x), 1e-10)
    both = np.concatenate([layer.key_bias[:1], layer.key_bias[:1] + np.array([0.0, 1.0, 0.0, -2.0])])
    twice = replace(
        layer,
        queries=layer.queries[[0, 0]],
        keys=layer.keys[[0, 0]],
        query_bias=np.repeat(np.asarray(layer.query_bias)[:1], 2, axis=0),
        key_bias=both,
    )
    merged = replace(
        twice,
        **{name: getattr(twice, name)[:1] for name in ("queries", "keys", "query_bias", "key_bias")},
        w=layer.w.sum(axis=0)[None],
    )
    yield at_most("answers of the merged head", _off(merged, twice, x), 1e-10)


@claim("rotary/equal-tokens", source=_HERE, basis=Basis.PROVED, fault={"sign": -1})
def equal_tokens(scale: Scale, rng: Generator, *, sign: int = 1) -> Iterator[Comparison]:
    """At a sequence of equal tokens the derivative of row s by token t is sum_i a_i(s, t) W_i, with the weights a_i
    there, also for t = s: what the row's own query changes cancels, as all tokens are equal.

    Central differences of order 4 of all rows by all tokens.
    """
    n, d, step = (5, 6, 1e-3) if scale is Scale.QUICK else (12, 8, 1e-3)
    layer = _layer(rng, 2, d, 4)
    y, delta = rng.standard_normal((2, d)) / 2
    x = np.tile(y, (n, 1))
    weights = _weights(layer, x, sign)
    worst = 0.0
    for token in range(n):
        moves = np.zeros((4, n, d))
        moves[:, token] = step * np.array([-2, -1, 1, 2])[:, None] * delta
        derivative = np.tensordot(np.array([1, -8, 8, -1]) / (12 * step), layer(x + moves), 1)
        expected = np.einsum("ma,md->ad", weights[:, :, token], delta @ layer.w)
        worst = max(worst, float(np.abs(derivative - expected).max()))
    yield at_most("derivatives against weights times delta W", worst, 1e-8)


@claim("rotary/head-pencil", source=_HERE, basis=Basis.PROVED, fault={"other": 0})
def head_pencil(scale: Scale, rng: Generator, *, other: int = 1) -> Iterator[Comparison]:
    """At equal tokens, the answers of two rows to moves of the token at each distance are the same heads times
    1 / Z_i(s), the inverse sums of e^score. So the pencil of two rows has the eigenvalues Z_i(s) / Z_i(s'), and its
    eigenvectors are dual to the vectors delta W_i.

    The matrices of distances by outputs are made of the weights; eigenvalues and the duality are those of the
    parameters. With twice the same row, nothing is separated.
    """
    m, d = (2, 8) if scale is Scale.QUICK else (6, 24)
    layer = _layer(rng, m, d, 4)
    n = 4 * m
    x = np.tile(rng.standard_normal(d), (n, 1))
    v = rng.standard_normal(d) @ layer.w
    weights = _weights(layer, x)
    rows, distance = (2 * m, 2 * m + other), np.arange(2 * m + 1)
    first, second = (weights[:, row, row - distance].T @ v for row in rows)
    space = np.linalg.svd(v, full_matrices=False)[2].T
    values, vectors = np.linalg.eig(np.linalg.lstsq(first @ space, second @ space, rcond=None)[0])
    expected = np.sort(weights[:, 2 * m + 1, 2 * m] / weights[:, 2 * m, 2 * m - 1])
    yield at_most(
        "eigenvalues against Z(s) / Z(s')", float(np.abs(np.sort(values.real) - expected).max()), 1e-6
    )
    duality = np.abs(v @ space @ vectors.real)
    largest = duality.max(axis=0)
    duality[duality.argmax(axis=0), np.arange(m)] = 0.0
    yield at_most(
        "products of eigenvectors and other heads", float((duality.max(axis=0) / largest).max()), 1e-6
    )


@claim("rotary/movable-tokens", source=_HERE, basis=Basis.PROVED, fault={"shift": 1})
def movable_tokens(scale: Scale, rng: Generator, *, shift: int = 0) -> Iterator[Comparison]:
    """Among equal tokens y, the log of the weight of a movable token over that of all y together, in two sequences that
    differ in movable tokens only, differs by exactly y~ Theta_j (x - x'), whatever y and the other tokens are.

    The weights of the layer at random sequences against the scores of the parameters.
    """
    n, d, places = (9, 6, [0, 2]) if scale is Scale.QUICK else (40, 12, [0, 3, 7])
    layer = _layer(rng, 2, d, 4)
    y = rng.standard_normal(d)
    rows = np.arange(places[-1] + 1, n)
    logs, movable = [], rng.standard_normal((2, len(places), d))
    for tokens in movable:
        x = np.tile(y, (n, 1))
        x[places] = tokens
        weights = _weights(layer, x)[:, rows]
        own = weights[:, :, places]
        logs.append(np.log(own / (1 - own.sum(axis=-1, keepdims=True))))
    distance = rows[:, None] - np.array(places) + shift
    theta = _theta(layer, distance)  # (m, rows, places, d + 1, d + 1)
    change = np.column_stack([movable[1] - movable[0], np.zeros(len(places))])
    expected = np.einsum("a,mrpab,pb->mrp", np.append(y, 1.0), theta, change, optimize=True)
    yield at_most("logs of weights against scores", float(np.abs(logs[1] - logs[0] - expected).max()), 1e-10)


@claim("rotary/distance-pencil", source=_HERE, basis=Basis.PROVED, fault={"shift": 2})
def distance_pencil(scale: Scale, rng: Generator, *, shift: int = 1) -> Iterator[Comparison]:
    """Scores of p or more tokens y with differences x at the distances j are A D^j B, with e^(+-i omega_f) on the
    diagonal D. In their p dimensions, those at j + 1 are A D A^-1 times those at j. So the frequencies are determined
    as the angles of eigenvalues, and the vector u with u A = 1 at f and 0 elsewhere shows beta_f^* x.

    The matrices are computed from the parameters; angles and the directions of beta are compared with them.
    """
    d, p = (8, 4) if scale is Scale.QUICK else (24, 16)
    layer = _layer(rng, 1, d, p)
    y = np.column_stack([rng.standard_normal((p + 4, d)), np.ones(p + 4)])
    theta = y @ _theta(layer, np.arange(24)[:, None])[0, :, 0, :, :d]  # (distances, tokens, d)
    left = np.linalg.svd(theta.swapaxes(0, 1).reshape(p + 4, -1), full_matrices=False)[0][:, :p]
    core = left.T @ theta
    first, second = (part.swapaxes(0, 1).reshape(p, -1) for part in (core[:-shift], core[shift:]))
    ratio = np.linalg.lstsq(first.T, second.T, rcond=None)[0].T
    values, vectors = np.linalg.eig(ratio.T)
    angles = np.angle(values)
    chosen = np.argsort(-angles)[: p // 2]
    off = np.abs(angles[chosen] - layer.frequencies)
    yield at_most("angles of eigenvalues against frequencies", float(off.max()), 1e-8)
    beta = (layer.keys[0][:, : p // 2] + 1j * layer.keys[0][:, p // 2 :]).T
    rows = vectors[:, chosen].T @ core[0]  # u Theta_0
    cosines = (
        np.abs(np.sum(rows * beta, axis=1)) / np.linalg.norm(rows, axis=1) / np.linalg.norm(beta, axis=1)
    )
    yield at_most("1 - cosine of u Theta and beta^*", float((1 - cosines).max()), 1e-8)


@claim("rotary/lengths", source=_HERE, basis=Basis.PROVED, fault={"distances": 0})
def lengths(scale: Scale, rng: Generator, *, distances: int = 1) -> Iterator[Comparison]:
    """Scores of two layers with head dimensions up to p that agree at the distances 1, ..., 2 p + 1, up to a number for
    each query, agree at all distances: their difference has at most 2 p + 1 components e^(i j omega), and these are
    independent there. So sequences of 2 p + 2 tokens determine the function at every length.

    Exact rank of the powers of 2 p different rational points of the unit circle and of 1, which is full; with the
    distances of too short sequences it is not.
    """
    most = 3 if scale is Scale.QUICK else 6
    for p in range(2, 2 * most, 2):
        points = [QQ_I(1, t) / QQ_I(1, -t) for t in range(1, p + 1)]
        nodes = [*points, *(1 / point for point in points), QQ_I(1, 0)]
        powers = [[node**j for node in nodes] for j in range(1, 2 * p + 1 + distances)]
        matrix = DomainMatrix(powers, (len(powers), len(nodes)), QQ_I)
        yield equal(f"rank at head dimension {p}", int(matrix.rank()), 2 * p + 1)


@claim("rotary/parameters", source=_HERE, basis=Basis.DERIVED, fault={"tokens": 2})
def parameters(scale: Scale, rng: Generator, *, tokens: int = 12) -> Iterator[Comparison]:
    """The answers have as many independent derivatives as there are parameters less those of the symmetries: a complex
    scale for each frequency and key head. With the frequencies as parameters that is p / 2 more. So no other symmetry
    is continuous.

    The rank of the Jacobian of answers to random sequences, by central differences, for generic layers with biases,
    with shared keys and without.
    """
    d, p = 3, 2
    for m, key_heads in ((1, 1), (2, 1), (2, 2)):
        layer = _layer(rng, m, d, p, key_heads=key_heads)
        x = rng.standard_normal((12, tokens, d))
        names = ("queries", "keys", "w", "query_bias", "key_bias", "bias", "frequencies")
        columns = []
        for name in names:
            array = np.asarray(getattr(layer, name))
            for index in np.ndindex(array.shape):
                move = np.zeros(array.shape)
                move[index] = 1e-3
                moved = ({name: array + step * move} for step in (-2, -1, 1, 2))
                ends = [replace(layer, **change)(x).ravel() for change in moved]  # type: ignore[arg-type]
                columns.append(np.array([1, -8, 8, -1]) / (12 * 1e-3) @ ends)
        size = np.linalg.svd(np.array(columns), compute_uv=False)
        expected = d + m * d * d + (d + 1) * p * (m + key_heads) - p * key_heads + p // 2
        yield equal(f"rank, {m} heads, {key_heads} of keys", int(np.sum(size > 1e-7 * size[0])), expected)


@claim("rotary/longer-sequences", source="measured here", basis=Basis.MEASURED, fault={"base": 5e5})
def longer_sequences(scale: Scale, rng: Generator, *, base: float | None = None) -> Iterator[Comparison]:
    """`upper.RotaryByQueries` asks sequences of at most 129 tokens. The layers that it finds answer sequences of 512
    tokens as the layers that were asked, with errors below 1e-8. Frequencies need not be given; wrong ones are refused.

    Nice layers with shared keys and biases.
    """
    frequencies = None if base is None else tuple(rotary_frequencies(8, base))
    for seed in range(1 if scale is Scale.QUICK else 8):
        layer = _layer(rng, 2, 16, 8, key_heads=1)
        fit = RotaryByQueries(frequencies=frequencies).fit(ValueOracle(layer), rng=seed)
        x = rng.standard_normal((1, 512, 16))
        off = np.linalg.norm(fit.predict(x) - layer(x)) / np.linalg.norm(layer(x) - layer.bias)
        yield at_most(f"error at 512 tokens, layer {seed}", float(off), 1e-8)


def _scaled(maps: np.ndarray | None, c: np.ndarray) -> np.ndarray:
    """The planes of coordinates f and f + p / 2, times complex numbers."""
    assert maps is not None
    first, second = np.split(maps, 2, axis=-1)
    turned = (first + 1j * second) * c
    return np.concatenate([turned.real, turned.imag], axis=-1)


def _off(layer: RotaryLayer, other: RotaryLayer, x: np.ndarray) -> float:
    return float(np.abs(layer(x) - other(x)).max())


def _layer(rng: Generator, m: int, d: int, p: int, **more: object) -> RotaryLayer:
    """A nice layer with biases."""
    return make_nice_rotary_layer(m, d, p, biases=True, rng=rng, **more)  # type: ignore[arg-type]


def _theta(layer: RotaryLayer, distance: np.ndarray) -> np.ndarray:
    """Re sum_f e^(i j omega_f) M_f of each head at an array of distances, (m, ..., d + 1, d + 1)."""
    turns = np.exp(1j * distance[..., None] * layer.frequencies)
    return np.einsum("...f,mfab->m...ab", turns, layer.score_maps, optimize=True).real


def _weights(layer: RotaryLayer, x: np.ndarray, sign: int = 1) -> np.ndarray:
    """The weights of each head, (m, rows, tokens), by the formula of `scores`."""
    n = len(x)
    distance = np.arange(n)[:, None] - np.arange(n)
    tokens = np.column_stack([x, np.ones(n)])
    logits = np.einsum("ac,mabcd,bd->mab", tokens, _theta(layer, sign * distance), tokens, optimize=True)
    weights = np.exp(np.where(distance >= 0, logits, -np.inf) if layer.causal else logits)
    return weights / weights.sum(axis=-1, keepdims=True)

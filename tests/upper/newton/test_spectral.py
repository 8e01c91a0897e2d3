"""The cross-moments: their operator, their spectrum and their span."""

import numpy as np
import pytest

from attention import AttentionLayer, BooleanInputs, make_nice_layer
from upper import counting_floor
from upper.newton.spectral import CrossMoment, cross_moment


def _examples(m, k, d, n, seed=0, sigma=2.0):
    layer = make_nice_layer(heads=m, dim=d, sigma=sigma, rng=seed)
    x = BooleanInputs(k, d).sample(n, rng=seed + 100)
    return layer, x, layer(x)


def _explicit_operator(x, y, *, others):
    """The d^2 x d^2 matrix, pair by pair, with labels across the linear part."""
    n, k, d = x.shape
    mean = np.repeat(x.mean(axis=1, keepdims=True), k, axis=1)
    features = np.concatenate([x, mean], axis=2).reshape(n * k, 2 * d)
    labels = y.reshape(n * k, d)
    rest = labels - features @ np.linalg.lstsq(features, labels, rcond=None)[0]
    rest = (rest / np.sqrt(np.mean(rest**2))).reshape(n, k, d)
    total = np.zeros((d * d, d * d))
    for tokens, outputs in zip(x, rest, strict=True):
        for a in range(k):
            kept = [b for b in range(k) if b != a or not others]
            centre = np.mean([np.kron(tokens[a], tokens[b]) for b in kept], axis=0)
            for b in kept:
                total += np.outer(np.kron(tokens[a], tokens[b]) - centre, np.kron(tokens[b], outputs[a]))
    return total / (n * k * (k - 1))


@pytest.mark.parametrize(
    ("k", "n", "others"), [(3, 200, True), (3, 20, False), (2, 300, False)], ids=["many", "few", "two tokens"]
)
def test_the_triples_are_those_of_the_explicit_operator(k, n, others):
    d, p = 4, 6
    _, x, y = _examples(2, k, d, n)
    left, values, right = np.linalg.svd(_explicit_operator(x, y, others=others))
    found = cross_moment(x, y, directions=d * d, rng=0)
    assert found.values[:p] == pytest.approx(values[:p], rel=1e-3)
    for side in (found.theta, found.w):
        flat = side.reshape(d * d, -1)
        assert flat @ flat.T == pytest.approx(np.eye(d * d), abs=1e-5)
    # sides as far as the values tell them apart
    for rows, expected in ((found.theta, left.T), (found.w, right)):
        overlap = rows[:2].reshape(2, -1) @ expected[:2].T
        assert np.linalg.svd(overlap)[1] == pytest.approx(1, abs=1e-3)


@pytest.mark.parametrize(
    ("m", "k", "sigma"),
    [(1, 4, 2.0), (4, 4, 16.0), *(pytest.param(m, m, 2.0, marks=pytest.mark.slow) for m in (2, 4, 8))],
)
def test_heads_are_counted(m, k, sigma):
    _, x, y = _examples(m, k, 32, 16 * counting_floor(heads=m, tokens=k, dim=32), sigma=sigma)
    assert cross_moment(x, y, directions=m + 8, rng=0).head_count() == m


@pytest.mark.parametrize(("gap", "heads"), [(0.2, 1), (0.3, 2)])
def test_a_gap_counts_above_five_times_the_mean_of_the_last_five(gap, heads):
    values = np.exp(-np.cumsum([0.0, 1.0, gap, *5 * [0.05]]))
    matrices = np.zeros((8, 2, 2))
    assert CrossMoment(values, matrices, matrices).head_count() == heads


def test_heads_of_unequal_size_are_counted():
    layer, x, _ = _examples(4, 4, 32, 64 * 86)
    sizes = np.geomspace(1, 3, 4)[:, None, None]
    y = AttentionLayer(sizes * layer.theta, sizes[::-1] * layer.w)(x)
    assert cross_moment(x, y, directions=12, rng=0).head_count() == 4


def test_linear_labels_have_no_cross_moment():
    _, x, _ = _examples(2, 3, 6, 100)
    moment = cross_moment(x, x @ np.diag(np.arange(1.0, 7.0)), directions=10, rng=0)
    assert not moment.values.any()
    assert moment.head_count() == 0

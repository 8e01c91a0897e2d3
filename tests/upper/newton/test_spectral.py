"""The cross-moments: their operator and its spectrum."""

import numpy as np
import pytest

from attention import BooleanInputs, make_nice_layer
from upper import counting_floor
from upper.newton.spectral import cross_moment_values, guessed_head_count


def _examples(m, k, d, n, seed=0, sigma=2.0):
    layer = make_nice_layer(heads=m, dim=d, sigma=sigma, rng=seed)
    x = BooleanInputs(k, d).sample(n, rng=seed + 100)
    return layer, x, layer(x)


def _values(x, y, most):
    return cross_moment_values(x, y, most=most, rng=np.random.default_rng(0))


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
def test_the_values_are_those_of_the_explicit_operator(k, n, others):
    d, p = 4, 6
    _, x, y = _examples(2, k, d, n)
    values = np.linalg.svd(_explicit_operator(x, y, others=others), compute_uv=False)
    assert _values(x, y, d * d)[:p] == pytest.approx(values[:p], rel=1e-3)


@pytest.mark.parametrize(
    ("m", "k", "sigma"),
    [(1, 4, 2.0), (4, 4, 16.0), *(pytest.param(m, m, 2.0, marks=pytest.mark.slow) for m in (2, 4, 8))],
)
def test_heads_are_counted(m, k, sigma):
    _, x, y = _examples(m, k, 32, 16 * counting_floor(heads=m, tokens=k, dim=32), sigma=sigma)
    assert guessed_head_count(_values(x, y, m + 8)) == m


def test_linear_labels_have_no_cross_moment():
    _, x, _ = _examples(2, 3, 6, 100)
    values = _values(x, x @ np.diag(np.arange(1.0, 7.0)), 10)
    assert not values.any()
    assert guessed_head_count(values) == 0

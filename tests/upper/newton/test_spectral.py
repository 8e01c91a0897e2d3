"""The cross-moments: their operator, their spectrum, their span, and the start in it."""

import numpy as np
import pytest

from attention import (
    AttentionLayer,
    BooleanInputs,
    ExampleOracle,
    NotEnoughMemoryError,
    Outcome,
    make_nice_layer,
)
from upper import Newton, counting_floor
from upper.baselines.frozen_attention import regress_projections
from upper.newton import spectral
from upper.newton.runs import SplitExamples
from upper.newton.spectral import cross_moment, spectral_start


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


@pytest.mark.parametrize(
    ("m", "k", "seed"), [(2, 2, 0), *(pytest.param(4, 4, seed, marks=pytest.mark.slow) for seed in (0, 1))]
)
def test_newton_is_exact_from_the_spectral_start(m, k, seed):
    layer = make_nice_layer(heads=m, dim=32, rng=seed)
    oracle = ExampleOracle(layer, BooleanInputs(k, 32), rng=seed + 50)
    fit = Newton(m, start="spectral", starts=1).fit(oracle, rng=seed)
    assert fit.outcome is Outcome.EXACT


def test_the_start_explains_more_than_a_random_one():
    _, x, y = _examples(4, 4, 32, 344)
    starts = (spectral_start(x, y, 4, rng=0), np.random.default_rng(1).standard_normal((4, 32, 32)) / 32)
    errors = []
    for theta in starts:
        (w,) = regress_projections(x, y, theta)
        errors.append(np.linalg.norm(AttentionLayer(theta, w)(x) - y))
    assert errors[0] < 0.6 * errors[1]


@pytest.mark.parametrize(("m", "k", "d"), [(1, 3, 5), (3, 1, 4), (5, 2, 2), (1, 2, 1)])
def test_a_start_for_every_shape(m, k, d):
    _, x, y = _examples(m, k, d, 60)
    theta = spectral_start(x, y, m, rng=0)
    assert theta.shape == (m, d, d)
    assert theta.dtype == np.float64
    assert np.isfinite(theta).all()
    assert np.array_equal(theta, spectral_start(x, y, m, rng=0))


def start_of(start, number, seed=0, m=3):
    _, x, y = _examples(3, 3, 8, 500)
    examples = SplitExamples(x, y, x[:0], y[:0], 1.0)
    return Newton(m, start=start)._start(examples, 3, number, np.random.default_rng(seed))


def share_within(theta, span):
    basis = np.linalg.qr(span.reshape(3, -1).T)[0]
    return np.linalg.norm(theta.reshape(3, -1) @ basis) / np.linalg.norm(theta)


def test_of_newtons_starts_one_is_spectral():
    asked = start_of("spectral", 1)
    assert share_within(start_of("spectral", 1, seed=1), asked) > 0.9
    assert share_within(start_of("random", 2, seed=2), asked) > 0.9
    # of a random start sqrt(3/64) is
    others = [("spectral", 2), ("random", 1), ("random", 3)]
    assert all(share_within(start_of(*one, seed=3), asked) < 0.5 for one in others)
    assert share_within(start_of("random", 2, seed=2, m="auto"), asked) < 0.5


def test_a_spectral_start_that_does_not_fit_is_refused_where_asked_for_and_else_random(monkeypatch):
    def refuse(*_, **__):
        raise NotEnoughMemoryError("A start does not fit.")

    monkeypatch.setattr(spectral, "require_memory", refuse)
    with pytest.raises(NotEnoughMemoryError):
        start_of("spectral", 1)
    drawn = np.random.default_rng(5).standard_normal((3, 8, 8)) / 8
    np.testing.assert_array_equal(start_of("random", 2, seed=5), drawn)

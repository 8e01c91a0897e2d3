"""The number of heads, found: whatever the first student, under noise, and where fewer heads are the same layer."""

import math

import numpy as np
import pytest

from attention import (
    AttentionLayer,
    BooleanInputs,
    ExampleOracle,
    GaussianInputs,
    GroundTruth,
    Outcome,
    SphereInputs,
    make_nice_layer,
)
from attention.layer import read_tokens
from upper import Newton, counting_floor
from upper.newton.noise import cost_of_each_head
from upper.newton.spectral import cross_moment_values, guessed_head_count


def _find(layer, inputs, *, noise=0.0, seed=0, **settings):
    """The fit, and the number of heads it found."""
    if noise:
        noise *= float(np.std(layer(inputs.sample(500, rng=1))))
    oracle = ExampleOracle(layer, inputs, noise=noise, rng=[seed, 1])
    fit = Newton("auto", **settings).fit(oracle, rng=[seed, 2])
    return fit, int(fit.trace[-1].measures["heads"])


def _tried(fit):
    """The numbers of heads that were tried, in order, a pruned or polished one too."""
    told = [step for step in fit.trace if "heads" in step.measures and "iterate" not in step.name]
    return [int(step.measures["heads"]) for step in told if not step.name.startswith("Spectrum")]


_NICE = make_nice_layer(heads=2, dim=12, rng=3)


def _counted(m, layer, inputs, *, slow=True):
    return pytest.param(m, layer, inputs, marks=pytest.mark.slow if slow else ())


def _weighted(second):
    return AttentionLayer(_NICE.theta, _NICE.w * np.array([1, second])[:, None, None])


@pytest.mark.parametrize(
    ("m", "layer", "inputs"),
    [
        *(
            _counted(m, make_nice_layer(heads=m, dim=d, rng=[seed, 100]), BooleanInputs(k, d), slow=m > 2)
            for m, k, d, seed in ((2, 2, 16, 0), (3, 3, 16, 0), (4, 4, 16, 1), (6, 4, 32, 0))
        ),
        _counted(2, make_nice_layer(heads=2, dim=12, rng=5), GaussianInputs(3, 12)),
        _counted(2, make_nice_layer(heads=2, dim=12, rng=5), SphereInputs(3, 12)),
        # a weak head is a head
        *(
            _counted(2, _weighted(weight), BooleanInputs(3, 12), slow=weight != 1e-4)
            for weight in (1e-2, 1e-4, 1e-6)
        ),
        # fewer in truth: one token, equal Theta, W = 0, no attention, and W of opposite sign
        _counted(1, make_nice_layer(heads=3, dim=6, rng=0), BooleanInputs(1, 6), slow=False),
        _counted(1, AttentionLayer(np.stack([_NICE.theta[0]] * 2), _NICE.w), BooleanInputs(3, 12)),
        _counted(1, _weighted(0), BooleanInputs(3, 12)),
        _counted(1, AttentionLayer(0 * _NICE.theta, _NICE.w), BooleanInputs(3, 12), slow=False),
    ],
)
def test_heads_are_counted(m, layer, inputs):
    fit, heads = _find(layer, inputs)
    assert heads == fit.layer.heads == m
    assert fit.outcome is Outcome.EXACT
    errors = GroundTruth.draw(layer, inputs, 200, rng=9).measure(layer=fit.layer)
    assert errors["relative_error"] <= 1e-10
    if isinstance(inputs, BooleanInputs) and inputs.dim > 12:
        assert errors["theta_error"] <= 1e-10


@pytest.mark.parametrize(
    ("m", "k", "d", "first", "noise"),
    [
        (2, 3, 10, 1, 0.0),
        *(pytest.param(4, 4, 16, *one, marks=pytest.mark.slow) for one in ((1, 0.0), (3, 0.1), (7, 0.0))),
    ],
)
def test_the_first_student_costs_time_and_examples_and_not_the_answer(m, k, d, first, noise):
    layer = make_nice_layer(heads=m, dim=d, rng=[0, 100])
    start = make_nice_layer(heads=first, dim=d, rng=7)
    fit = Newton("auto", start=start).fit(
        ExampleOracle(layer, BooleanInputs(k, d), noise=noise, rng=1), rng=2
    )
    assert fit.layer.heads == m
    assert fit.outcome is (Outcome.NOISE_FLOOR if noise else Outcome.EXACT)
    assert _tried(fit)[0] == first
    assert first >= m or first < _tried(fit)[1] <= math.ceil(1.5 * first)
    floors = [counting_floor(heads=one, tokens=k, dim=d) for one in [1, *_tried(fit)]]
    assert fit.examples_used == 4 * max(floors)


@pytest.mark.parametrize(
    ("m", "k", "noise"),
    [
        pytest.param(2, 2, 0.02, marks=pytest.mark.slow),
        pytest.param(3, 3, 0.1, marks=pytest.mark.slow),
        (4, 4, 0.2),
    ],
)
def test_the_heads_are_counted_under_noise_and_growing_ends(m, k, noise):
    layer, inputs = make_nice_layer(heads=m, dim=16, rng=[1, 100]), BooleanInputs(k, 16)
    fit, heads = _find(layer, inputs, noise=noise, seed=2)  # at (2, 2) and .02 23 of 24 draws count right
    assert heads == fit.layer.heads == m
    assert fit.outcome is Outcome.NOISE_FLOOR
    assert m < max(_tried(fit)) <= 2 * m + 1  # more were tried, and did no better
    scale = float(np.std(layer(inputs.sample(500, rng=1))))
    assert fit.trace[-1].measures["noise_level"] == pytest.approx(noise * scale, rel=0.05)


def test_noise_below_what_sizes_are_compared_at():
    fit, heads = _find(make_nice_layer(heads=2, dim=12, rng=3), BooleanInputs(3, 12), noise=1e-5)
    assert heads == 2
    assert fit.outcome is Outcome.NOISE_FLOOR
    assert fit.trace[-1].measures["residual"] == pytest.approx(1e-5, rel=0.3)


@pytest.mark.parametrize("noise", [0.0, 0.3])
def test_labels_without_signal_have_no_head(noise):
    oracle = ExampleOracle(lambda x: 0 * x, BooleanInputs(3, 12), noise=noise, rng=0)
    fit = Newton("auto").fit(oracle, rng=1)
    assert fit.trace[-1].measures["heads"] == 0
    assert not np.any(fit.layer.w)
    assert fit.outcome is (Outcome.NOTHING_LEARNED if noise else Outcome.EXACT)


def test_the_work_is_bounded_over_all_students():
    layer = make_nice_layer(heads=4, dim=16, rng=[0, 100])
    learner = Newton("auto", work=150)
    fit = learner.fit(ExampleOracle(layer, BooleanInputs(4, 16), rng=1), rng=2)
    assert fit.trace[-1].measures["total_passes"] <= 150 + 2 * (2 * 60 + 4)
    assert not fit.outcome.succeeded


def test_the_cost_of_a_head_is_what_dropping_it_costs_and_nothing_where_others_stand_in():
    layer = make_nice_layer(heads=3, dim=6, rng=0)
    x, y = ExampleOracle(layer, BooleanInputs(3, 6), noise=0.1, rng=1).draw(200)
    _, read = read_tokens(x, layer.theta)

    def squared_residual(heads):
        columns = np.concatenate([np.arange(6) + 6 * head for head in heads])
        w, rest, *_ = np.linalg.lstsq(read[:, columns], y.reshape(-1, 6), rcond=None)
        return float(np.sum(rest)), w

    whole, w = squared_residual([0, 1, 2])
    costs = cost_of_each_head(x, AttentionLayer(layer.theta, w.reshape(3, 6, 6)))
    dropped = [squared_residual([i for i in range(3) if i != head])[0] - whole for head in range(3)]
    assert np.allclose(costs, dropped, rtol=1e-8)
    twice = np.stack([layer.theta[0], layer.theta[0], layer.theta[1]])
    costs = cost_of_each_head(x, AttentionLayer(twice, np.stack([layer.w[0], -0.5 * layer.w[0], layer.w[1]])))
    assert np.all(costs[:2] < 1e-8 * costs[2])
    silent = AttentionLayer(layer.theta, layer.w * np.array([0, 1, 1])[:, None, None])
    assert cost_of_each_head(x, silent)[0] == 0


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
def test_the_spectrum_counts_heads(m, k, sigma):
    _, x, y = _examples(m, k, 32, 16 * counting_floor(heads=m, tokens=k, dim=32), sigma=sigma)
    assert guessed_head_count(_values(x, y, m + 8)) == m


def test_linear_labels_have_no_cross_moment():
    _, x, _ = _examples(2, 3, 6, 100)
    values = _values(x, x @ np.diag(np.arange(1.0, 7.0)), 10)
    assert not values.any()
    assert guessed_head_count(values) == 0

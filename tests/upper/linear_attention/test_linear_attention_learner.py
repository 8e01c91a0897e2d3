"""The learner of linear attention: exact on its own kind, honest on softmax attention, and within its memory."""

import numpy as np
import pytest

from attention import (
    AttentionLayer,
    BooleanInputs,
    ExampleOracle,
    GaussianInputs,
    Outcome,
    make_nice_layer,
    relative_error,
)
from attention.evaluation import hold_out
from upper.linear_attention import LinearAttention, feature_count, make_linear_attention
from upper.linear_attention.by_gradient import train_linear_attention
from upper.linear_attention.features import softmax_feature_count, softmax_features
from upper.linear_attention.learner import LinearAttentionLearner

KINDS = ("plain", "aug", "cent")


def _oracle(heads, d, k, seed=0, **noise):
    model = make_linear_attention(heads=heads, dim=d, rng=seed)
    return model, ExampleOracle(lambda x: model.at_queries(x, x), GaussianInputs(k, d), rng=seed + 1, **noise)


@pytest.mark.parametrize(("d", "k", "heads"), [(2, 3, 1), (4, 6, 3), (6, 4, 9)])
def test_linear_attention_is_learned_exactly_from_as_many_equations_as_features(d, k, heads):
    model, oracle = _oracle(heads, d, k)
    learner = LinearAttentionLearner()
    fit = LinearAttentionLearner(examples=learner.minimum_examples(k, d)).fit(oracle)
    assert fit.outcome is Outcome.UNCONFIRMED  # it is, but one example held out is no evidence
    assert fit.examples_used == -(-feature_count(d) // min(k, d)) + 1
    assert fit.predict.regression.rank == feature_count(d)
    assert fit.trace[-1].measures["held_out_error"] < 1e-10
    x = GaussianInputs(3 * k, d).sample(100, rng=9)
    assert relative_error(fit.predict(x), model.at_queries(x, x)) < 1e-10  # of other lengths too


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("inputs", [BooleanInputs(2, 4), GaussianInputs(3, 4)], ids=repr)
@pytest.mark.parametrize("examples", [12, 120], ids=["few", "many"])
def test_no_predictor_of_the_class_does_better_on_the_examples_and_none_as_good_has_a_smaller_norm(
    kind, inputs, examples
):
    layer = make_nice_layer(heads=2, dim=4, rng=0)
    learner = LinearAttentionLearner(kind, examples, least_norm=True)
    fit = learner.fit(ExampleOracle(layer, inputs, rng=1))
    assert fit.layer is None
    assert examples < 120 or inputs.tokens > 2 or not fit.outcome.succeeded
    same = ExampleOracle(layer, inputs, rng=1)
    (x, y), _ = hold_out(*same.draw(examples))
    phi, labels = softmax_features(x, kind).reshape(-1, softmax_feature_count(kind, 4)), y.reshape(-1, 4)
    best = np.linalg.lstsq(phi, labels, rcond=1e-8)[0]
    np.testing.assert_allclose(fit.predict.coefficients, best, atol=1e-8)
    left = np.linalg.norm(labels - phi @ best) / np.linalg.norm(labels)
    assert fit.predict.regression.residual == pytest.approx(left, rel=1e-6, abs=1e-9)
    assert fit.predict.regression.rank == np.linalg.matrix_rank(phi, rtol=1e-8)


def _softmax_head(d, seed=0):
    rng = np.random.default_rng(seed)
    theta, w = 3 * rng.standard_normal((1, d, d)), rng.standard_normal((1, d, d))
    return AttentionLayer(theta, w)


@pytest.mark.parametrize(
    ("k", "d", "kind", "examples", "least_norm"),
    [
        (2, 3, "plain", 10, False),
        (2, 3, "aug", 12, False),
        (2, 3, "cent", 13, False),
        (2, 1, "cent", 4, True),
        (3, 2, "plain", 2, True),
        (3, 2, "aug", 5, True),
    ],
)
def test_signs_that_repeat_themselves_prove_nothing(k, d, kind, examples, least_norm):
    # held-out examples were copies of fitted ones, and softmax attention was taken for linear attention
    head, inputs = _softmax_head(d), BooleanInputs(k, d)
    for seed in range(12):
        learner = LinearAttentionLearner(kind, examples, least_norm)
        fit = learner.fit(ExampleOracle(head, inputs, rng=seed))
        assert fit.outcome is not Outcome.EXACT


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("d", "k"), [(1, 4), (4, 4), (6, 9)])
def test_linear_attention_is_known_from_a_quarter_more_examples_than_are_needed(kind, d, k):
    model = make_linear_attention(heads=2, dim=d, rng=0)

    def target(x):
        return model.at_queries(x - x.mean(axis=1, keepdims=True) if kind == "cent" else x, x)

    oracle = ExampleOracle(target, GaussianInputs(k, d), rng=1)
    least = LinearAttentionLearner(kind).minimum_examples(k, d)
    fit = LinearAttentionLearner(kind, examples=-(-5 * least // 4) + 3).fit(oracle)
    assert fit.outcome in (Outcome.EXACT, Outcome.PRECISION_FLOOR)
    if kind == "plain":
        assert fit.outcome is Outcome.EXACT
        assert LinearAttentionLearner(examples=least).fit(oracle).outcome is Outcome.UNCONFIRMED


def test_few_examples_are_refused_before_any_is_drawn():
    _, oracle = _oracle(2, 4, 3)
    assert LinearAttentionLearner().minimum_examples(3, 4) == 15
    with pytest.raises(ValueError, match=r"14 examples of 3 tokens .* at least 15"):
        LinearAttentionLearner(examples=14).fit(oracle)
    assert oracle.drawn == 0
    assert LinearAttentionLearner(examples=16).fit(oracle).outcome is Outcome.EXACT
    assert LinearAttentionLearner(examples=14, least_norm=True).fit(oracle).outcome is not Outcome.EXACT


def test_the_predictor_takes_any_batch_and_torch():
    _, oracle = _oracle(2, 3, 4)
    predict = LinearAttentionLearner("cent").fit(oracle).predict
    x = np.random.default_rng(3).standard_normal((2, 5, 4, 3))
    whole = predict(x)
    np.testing.assert_allclose(predict(x[1, 2]), whole[1, 2], atol=1e-12)
    assert predict(x[:0]).shape == (0, 5, 4, 3)
    torch = pytest.importorskip("torch")
    np.testing.assert_allclose(predict(torch.from_numpy(x)).numpy(), whole, atol=1e-12)


def test_tokens_of_unlike_scales_are_learned_by_singular_values():
    model = make_linear_attention(heads=2, dim=2, rng=0)
    x = np.random.default_rng(1).standard_normal((60, 3, 2)) * [1.0, 1e-2]  # features down to 1e-6
    fit = LinearAttentionLearner().fit(ExampleOracle.from_arrays(x, model.at_queries(x, x)))
    assert fit.predict.regression.method == "svd"
    assert fit.predict.regression.rank == 6
    assert fit.outcome is Outcome.EXACT


def _data(heads=2, d=3, outputs=3, size=72, average=False, seed=0):
    model = make_linear_attention(heads=heads, dim=d, outputs=outputs, average=average, rng=seed)
    x = np.random.default_rng(seed + 1).standard_normal((size, 6, d))
    return model, x, model(x)


@pytest.mark.parametrize("average", [False, True])
def test_what_is_learned_is_the_model_in_its_own_units(average):
    pytest.importorskip("torch")
    model, x, y = _data(heads=1, d=2, outputs=1, average=average)
    fit = train_linear_attention(x, 1e6 * y, heads=1, steps=800, learning_rate=0.05, average=average, rng=4)
    fresh = np.random.default_rng(5).standard_normal((20, 9, 2))  # of another length
    np.testing.assert_allclose(fit.predict(fresh), 1e6 * model(fresh), rtol=1e-5, atol=1.0)
    assert fit.predict.average is average
    assert isinstance(fit.predict, LinearAttention)


def test_a_rate_that_is_too_large_is_a_sentence():
    pytest.importorskip("torch")
    _, x, y = _data()
    with pytest.raises(ValueError, match="lower the learning rate"):
        train_linear_attention(x, y, heads=2, steps=200, learning_rate=1e200, rng=10)


def test_the_same_seed_gives_the_same_model():
    pytest.importorskip("torch")
    _, x, y = _data()
    one, two, other = (train_linear_attention(x, y, heads=2, steps=100, rng=rng) for rng in (7, 7, 8))
    np.testing.assert_array_equal(one.predict.v, two.predict.v)
    np.testing.assert_array_equal(one.predict.q, two.predict.q)
    assert np.any(other.predict.v != one.predict.v)

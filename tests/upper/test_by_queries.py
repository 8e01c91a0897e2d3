"""All heads of a layer are recovered from value queries, with biases, from any function; and what is not is said."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attention import (
    AttentionLayer,
    BooleanInputs,
    ExampleOracle,
    Outcome,
    QueriesExhaustedError,
    ValueOracle,
    make_low_rank_layer,
    make_nice_layer,
    parameter_errors,
)
from attention.learning import LearnerBase
from upper import ByQueries, Newton
from upper.value_queries.queries import measure_precision

# Queries that a prototype of the steps without following needed, for each (m, d).
PROTOTYPE = {(4, 32): 2127, (16, 64): 10487}


def biased(heads, dim, seed):
    rng = np.random.default_rng(seed)
    nice = make_nice_layer(heads=heads, dim=dim, rng=rng)
    bias, key_bias = rng.standard_normal(dim), rng.standard_normal((heads, dim)) / np.sqrt(dim)
    return AttentionLayer(nice.theta, nice.w, key_bias, bias)


def worst_error(fit, truth):
    """The worst relative error of any Theta, W and c, heads matched."""
    errors = parameter_errors(fit.layer, truth)
    return max(*errors.theta, *errors.w, *errors.key_bias)


@pytest.mark.parametrize(
    ("m", "d"),
    [
        (1, 8),
        (2, 16),
        (4, 32),
        (8, 32),
        pytest.param(16, 64, marks=pytest.mark.slow),
    ],
)
def test_theta_and_w_are_recovered_to_the_last_digits(m, d):
    layer = make_nice_layer(heads=m, dim=d, rng=m)
    fit = ByQueries().fit(ValueOracle(layer), rng=0)
    assert fit.outcome is Outcome.EXACT
    assert worst_error(fit, layer) < 1e-12
    assert fit.examples_used <= PROTOTYPE.get((m, d), 1500)
    assert "held-out queries" in str(fit)
    assert "example" not in str(fit)


@pytest.mark.parametrize(("m", "d", "k"), [(2, 16, None), (4, 32, None), (2, 12, 2), (3, 12, 3), (4, 16, 7)])
def test_biases_are_recovered_whatever_the_number_of_tokens_of_a_query(m, d, k):
    truth = biased(m, d, seed=d + (k or 0))
    oracle = ValueOracle.from_callable(truth, k or 4, d)
    if k is None:
        oracle.tokens = None
    fit = ByQueries().fit(oracle, rng=1)
    assert fit.outcome is Outcome.EXACT
    assert np.allclose(fit.layer.bias, truth.bias, rtol=0, atol=1e-13)
    assert worst_error(fit, truth) < 1e-11


@settings(max_examples=6)
@given(st.integers(0, 10**6), st.integers(1, 4), st.integers(2, 5))
def test_any_nice_layer_is_recovered_at_any_number_of_tokens(seed, m, k):
    layer = make_nice_layer(heads=m, dim=10, rng=seed)
    fit = ByQueries().fit(ValueOracle(layer, tokens=k), rng=seed + 1)
    assert fit.outcome is Outcome.EXACT
    assert parameter_errors(fit.layer, layer).theta.max() < 1e-9


def test_heads_of_low_rank_are_recovered():
    layer = make_low_rank_layer(heads=4, dim=32, rank=4, rng=3)
    fit = ByQueries().fit(ValueOracle(layer), rng=0)
    assert fit.outcome is Outcome.EXACT
    assert parameter_errors(fit.layer, layer).theta.max() < 1e-11


def test_two_heads_that_attend_alike_are_one():
    nice = make_nice_layer(heads=3, dim=12, rng=0)
    layer = AttentionLayer(nice.theta[[0, 0, 1]], nice.w)
    fit = ByQueries().fit(ValueOracle(layer), rng=0)
    assert fit.outcome is Outcome.EXACT
    assert fit.layer.heads == 2


def test_a_layer_that_attends_to_all_tokens_alike_is_linear():
    w = np.random.default_rng(0).standard_normal((2, 6, 6))
    fit = ByQueries().fit(ValueOracle(AttentionLayer(np.zeros((2, 6, 6)), w)), rng=0)
    assert fit.outcome is Outcome.EXACT
    assert np.allclose(fit.layer.w[0], w.sum(axis=0))


@pytest.mark.parametrize(
    "answer",
    [
        lambda x, rng: x + rng.standard_normal(x.shape),  # changes its answers
        lambda x, rng: np.tanh(x),  # is no layer
        pytest.param(  # m > d: heads that depend on each other are looked for up to eight
            lambda x, rng: AttentionLayer(*np.random.default_rng(1).standard_normal((2, 9, 6, 6)))(x),
            marks=pytest.mark.slow,
        ),
        lambda x, rng: np.zeros_like(x),
    ],
)
def test_what_is_no_layer_of_few_heads_ends_with_an_outcome(answer):
    rng = np.random.default_rng(0)
    fit = ByQueries().fit(ValueOracle.from_callable(lambda x: answer(x, rng), 3, 6), rng=1)
    failed = (Outcome.NOT_SEPARATED, Outcome.NO_LAYER)
    assert fit.outcome in failed or not np.any(fit.predict(np.ones((1, 3, 6))))


@pytest.mark.bad_input
@pytest.mark.parametrize(
    ("answer", "wrong"),
    [
        (lambda x: None, "answer"),
        (lambda x: 1 / 0, "raised ZeroDivisionError"),
    ],
)
def test_wrong_answers_are_refused_with_what_was_given(answer, wrong):
    with pytest.raises(ValueError, match=wrong):
        ByQueries().fit(ValueOracle.from_callable(answer, 2, 5), rng=0)


def test_a_query_of_one_token_is_answered_by_the_sum_of_the_projections():
    layer = make_nice_layer(heads=2, dim=5, rng=0)
    x = np.random.default_rng(1).standard_normal((3, 1, 5))
    np.testing.assert_allclose(ValueOracle(layer).ask(x), x @ layer.w.sum(axis=0), atol=1e-14)


def test_queries_are_counted_and_refused_beyond_the_budget():
    layer = make_nice_layer(heads=2, dim=8, rng=0)
    oracle = ValueOracle(layer, budget=5)
    assert np.array_equal(oracle.ask(np.ones((3, 2, 8))), layer(np.ones((3, 2, 8))))
    assert (oracle.drawn, oracle.tokens_asked, oracle.remaining) == (3, 6, 2)
    with pytest.raises(QueriesExhaustedError, match="3 queries were asked and 2"):
        oracle.ask(np.ones((3, 2, 8)))
    assert oracle.drawn == 3
    with pytest.raises(ValueError, match="has 2 queries of any number of tokens in 8 dimensions: at least 9"):
        ByQueries().fit(oracle, rng=0)


@pytest.mark.parametrize(
    ("m", "heads", "step"),
    [
        (2, (0, 1, 2), "No pencil"),
        (3, (0, 0, 1), "Fewer heads"),
        pytest.param(5, (0, 1, 2), "Fewer heads", marks=pytest.mark.slow),
    ],
)
def test_a_wrong_number_of_heads_is_no_success_and_the_trace_says_why(m, heads, step):
    nice = make_nice_layer(heads=3, dim=8, rng=0)
    layer = AttentionLayer(nice.theta[list(heads)], nice.w)
    fit = ByQueries(heads=m).fit(ValueOracle(layer), rng=0)
    assert fit.outcome is Outcome.NOT_SEPARATED
    assert fit.trace[-1].name.startswith(step)


@pytest.mark.parametrize(
    ("size", "outcome"),
    [(1e-13, Outcome.EXACT), (1e-11, Outcome.PRECISION_FLOOR), (1e-8, Outcome.NOISE_FLOOR)],
)
def test_the_verdict_follows_the_digits_that_answers_allow(size, outcome):
    layer = make_nice_layer(heads=2, dim=8, rng=0)
    oracle = ValueOracle.from_callable(lambda x: layer(x) + size * np.sin(50 * x), tokens=3, dim=8)
    assert ByQueries().fit(oracle, rng=1).outcome is outcome


@pytest.mark.parametrize("gain", [3.0, 300.0])
def test_a_saturated_head_is_recovered_or_no_success(gain):
    nice = make_nice_layer(heads=3, dim=8, rng=0)
    layer = AttentionLayer(nice.theta * np.array([gain, 1, 1])[:, None, None], nice.w)
    fit = ByQueries().fit(ValueOracle(layer), rng=0)
    if fit.outcome.succeeded:
        assert parameter_errors(fit.layer, layer).theta.max() < (
            1e-9 if fit.outcome is Outcome.EXACT else 1e-7
        )
    else:
        assert gain == 300
        assert fit.outcome is Outcome.NOT_SEPARATED


@pytest.mark.parametrize("gain", [1e4, 1e6, 1e9])
def test_heads_that_cancel_where_they_are_saturated_are_not_missed(gain):
    """Both attend to one token if tokens are long; if they are short, theirs is half of the output."""
    one, pair = make_nice_layer(heads=1, dim=6, rng=3), make_nice_layer(heads=1, dim=6, rng=0)
    theta = np.concatenate([one.theta, gain * pair.theta, 2 * gain * pair.theta])
    layer = AttentionLayer(theta, np.concatenate([one.w, pair.w, -pair.w]))
    fit = ByQueries().fit(ValueOracle(layer, tokens=3), rng=1)
    assert fit.outcome is Outcome.NOT_SEPARATED or fit.layer.heads == 3


@pytest.mark.bad_input
@pytest.mark.parametrize("m", [1, 2])
def test_queries_of_one_coordinate_are_refused(m):
    layer = AttentionLayer(*np.random.default_rng(0).standard_normal((2, m, 1, 1)))
    with pytest.raises(ValueError, match="one coordinate"):
        ByQueries().fit(ValueOracle(layer, tokens=2), rng=0)


@pytest.mark.parametrize("noise", [0.0, 1e-3])
@pytest.mark.parametrize("queries", [0, 1, 8, 16, 40, 80])
def test_no_budget_is_exceeded(noise, queries):
    oracle = ValueOracle(make_nice_layer(heads=2, dim=8, rng=0), noise=noise, rng=1)
    few = ByQueries(examples=queries)
    if queries < few.minimum_examples(None, 8):
        with pytest.raises(ValueError, match=f"has {queries} queries"):
            few.fit(oracle, rng=0)
    else:
        assert few.fit(oracle, rng=0).outcome is Outcome.EXAMPLES_SPENT
    assert oracle.drawn <= queries


@pytest.mark.parametrize("stated", [0.0, 1e-3])
def test_more_noise_than_stated_is_no_success(stated):
    oracle = ValueOracle(make_nice_layer(heads=3, dim=8, rng=0), noise=0.05, rng=1)
    assert not ByQueries(noise=stated).fit(oracle, rng=0).outcome.succeeded


@pytest.mark.parametrize("stated", [False, True])
@pytest.mark.parametrize(("level", "worst"), [(1e-6, 1e-6), (1e-2, 1e-3)])
def test_heads_are_recovered_from_noisy_answers(level, worst, stated):
    layer = make_nice_layer(heads=2, dim=12, rng=0)
    oracle = ValueOracle(layer, noise=level, rng=1)
    fit = ByQueries(noise=level if stated else None).fit(oracle, rng=2)
    assert fit.outcome is Outcome.NOISE_FLOOR
    assert not fit.precision.repeatable
    assert 0.7 * level < fit.precision.noise < 1.4 * level
    assert worst_error(fit, layer) < worst


def rounded_to(accuracy, layer):
    """The layer with answers that are off by this share, each time in the same way."""
    along = 1e5 * np.random.default_rng(7).standard_normal((layer.dim, layer.dim))

    def answer(x):
        y = layer(x)
        return y * (1 + accuracy * np.sin(x @ along + 1e3 * y @ along))

    return answer


@pytest.mark.parametrize("stated", [False, True])
@pytest.mark.parametrize("accuracy", [1e-14, 3e-11, 3e-10, 1e-4])
def test_errors_are_in_proportion_to_the_accuracy_of_the_answers(accuracy, stated):
    truth = biased(2, 12, seed=2)
    oracle = ValueOracle.from_callable(rounded_to(accuracy, truth), 3, 12)
    fit = ByQueries(accuracy=accuracy if stated else None).fit(oracle, rng=1)
    assert fit.outcome.succeeded
    assert worst_error(fit, truth) < 30 * accuracy
    assert (fit.outcome is Outcome.EXACT) == (fit.held_out_error < 1e-10)


@pytest.mark.parametrize("accuracy", [1e-14, 1e-11])
def test_heads_of_one_output_direction_are_read_from_answers_of_less_than_float64(accuracy):
    rng = np.random.default_rng(2)
    theta = rng.standard_normal((3, 8, 8)) / np.sqrt(8)
    layer = AttentionLayer(theta, rng.standard_normal((3, 8, 1)) * rng.standard_normal(8))
    fit = ByQueries().fit(ValueOracle.from_callable(rounded_to(accuracy, layer), 2, 8), rng=1)
    assert fit.outcome.succeeded
    x = rng.standard_normal((500, 2, 8))
    assert np.abs(fit.predict(x) - layer(x)).max() < 1e3 * accuracy * np.abs(layer(x)).max()


def with_errors(answer, error, seed):
    """The same function with errors of this absolute size, which repeat and do not shrink with the tokens."""
    along = 1e3 * np.random.default_rng(seed).standard_normal((2, 12, 12))
    return lambda x: answer(x) + error * np.sin(x @ along[0] + np.sin(x @ along[1]))


@pytest.mark.parametrize("k", [2, 3])
@pytest.mark.parametrize("error", [1e-12, 1e-10, 1e-8])
def test_a_stated_accuracy_sets_all_thresholds(error, k):
    """Answers of a layer without b that are computed from something larger, such as those of a block."""
    truth = replace(biased(2, 12, seed=2), bias=None)
    oracle = ValueOracle.from_callable(with_errors(truth, error, 0), k, 12)
    fit = ByQueries(accuracy=error).fit(oracle, rng=1)
    assert fit.outcome.succeeded
    assert fit.outcome is not Outcome.EXACT or error < 1e-11
    assert fit.layer.bias is None
    assert worst_error(fit, truth) < 50 * error


def test_biases_are_recovered_from_noisy_answers_of_few_tokens():
    truth = biased(2, 8, seed=0)
    oracle = ValueOracle.from_callable(truth, 3, 8, noise=1e-3, rng=1)
    fit = ByQueries(noise=1e-3).fit(oracle, rng=2)
    assert fit.outcome is Outcome.NOISE_FLOOR
    assert worst_error(fit, truth) < 1e-3


def half(x):
    """Rounded to bfloat16, by hand: 8 bits of the mantissa."""
    mantissa, exponent = np.frexp(x)
    return np.ldexp(np.round(256 * mantissa) / 256, exponent)


@pytest.mark.parametrize(
    ("rounded", "noise", "accuracy"),
    [
        (lambda y: y, 0.0, 2e-16),
        (lambda y: y.astype(np.float32), 0.0, 2.0**-25),
        (lambda y: y.astype(np.float32).astype(float), 0.0, 2.0**-25),
        (half, 0.0, 2.0**-9),
        (lambda y: np.round(y, 6), 1e-6 / np.sqrt(12), 0.0),
    ],
    ids=["float64", "float32", "float32 in float64", "bfloat16", "6 decimals"],
)
def test_the_precision_of_answers_is_found(rounded, noise, accuracy):
    layer = biased(2, 16, seed=0)
    oracle = ValueOracle.from_callable(lambda x: rounded(layer(x)), 3, 16)
    found = measure_precision(oracle, np.random.default_rng(0), noise=None, accuracy=None)
    assert found.repeatable
    assert noise / 1.4 <= found.noise <= 1.4 * noise
    assert found.accuracy == 0 or accuracy / 4 < found.accuracy < 4 * accuracy or noise


def test_rounding_is_relative_to_outputs_that_short_tokens_alone_show():
    """Heads that cancel add 2e-4 x to tokens below 1e-3, and nothing to others. Rounding is 1e-10 |x|."""

    def answer(x):
        differ, size = np.ptp(x, axis=1).max(axis=1) > 0, np.abs(x).max(axis=(1, 2))
        return x * (
            1e-10 * np.sin(1e9 * x / size[:, None, None]) + 2e-4 * (differ & (size < 1e-3))[:, None, None]
        )

    oracle = ValueOracle.from_callable(lambda x: np.nan_to_num(answer(x + 1e-300)), 3, 16)
    found = measure_precision(oracle, np.random.default_rng(0), noise=None, accuracy=None)
    assert 1e-7 < found.accuracy < 1e-6


@pytest.mark.parametrize(("heads", "dim", "k"), [(2, 16, 4), (8, 16, 2), (1, 16, 5)])
def test_a_layer_in_single_precision_is_recovered_without_settings(heads, dim, k):
    """Everything is computed in float32: tokens, logits, weights and outputs."""
    truth = biased(heads, dim, seed=heads)
    single = truth.map(lambda array: array.astype(np.float32))
    oracle = ValueOracle.from_callable(lambda x: single(x.astype(np.float32)), k, dim)
    fit = ByQueries().fit(oracle, rng=1)
    assert fit.outcome is Outcome.PRECISION_FLOOR
    assert worst_error(fit, truth) < 2e-5
    assert 1e-8 < fit.precision.accuracy < 3e-7
    assert fit.precision.noise == 0
    assert f"relative rounding {fit.precision.accuracy:.1g}" in str(fit)


@pytest.mark.parametrize(("rounded", "worst"), [(half, 0.1), (lambda y: np.round(y, 6), 2e-6)])
def test_coarse_answers_end_with_what_was_reached(rounded, worst):
    truth = biased(2, 12, seed=3)
    fit = ByQueries().fit(ValueOracle.from_callable(lambda x: rounded(truth(x)), 2, 12), rng=1)
    assert fit.outcome is Outcome.NOT_SEPARATED or worst_error(fit, truth) < worst
    assert fit.outcome.succeeded or worst > 1e-3


def test_answers_that_repeat_are_not_averaged():
    """An average of equal answers tells nothing new; averages of noise of this size are of 10 answers or more."""
    layer, asked = biased(2, 8, seed=0), []

    def answer(x):
        asked.extend(one.tobytes() for one in x)
        return np.round(layer(x), 2)

    ByQueries().fit(ValueOracle.from_callable(answer, 2, 8), rng=1)
    assert max(Counter(asked).values()) <= 4


@pytest.mark.parametrize("setting", ["noise", "accuracy"])
def test_a_stated_precision_is_not_measured(setting):
    oracle = ValueOracle(make_nice_layer(heads=2, dim=8, rng=0))
    fit = ByQueries(**{setting: 1e-5}).fit(oracle, rng=0)
    assert getattr(fit.precision, setting) == 1e-5


def test_noise_has_the_stated_standard_deviation():
    layer = make_nice_layer(heads=1, dim=10, rng=0)
    x = np.ones((4000, 1, 10))
    off = ValueOracle(layer, noise=0.5, rng=0).ask(x) - layer(x)
    assert abs(off.std() / 0.5 - 1) < 4 / np.sqrt(2 * off.size)


@pytest.mark.bad_input
def test_each_learner_refuses_the_other_ones_oracle():
    layer = make_nice_layer(heads=1, dim=6, rng=0)
    with pytest.raises(ValueError, match="gives value queries: random examples are needed"):
        Newton(heads=1).fit(ValueOracle(layer, tokens=2), rng=0)
    with pytest.raises(ValueError, match="gives random examples: value queries are needed"):
        ByQueries().fit(ExampleOracle(layer, BooleanInputs(tokens=2, dim=6)), rng=0)


@pytest.mark.bad_input
@pytest.mark.parametrize(("declared", "verb"), [("random examples", "ask"), ("value queries", "draw")])
def test_a_learner_that_asks_for_what_it_does_not_declare_is_told_so(declared, verb):
    class Wrong(LearnerBase):
        access = declared

        def _learn(self, oracle, *begun):
            return getattr(oracle, verb)(3)

    layer = make_nice_layer(heads=1, dim=6, rng=0)
    examples = ExampleOracle(layer, BooleanInputs(tokens=2, dim=6))
    oracle = examples if declared == "random examples" else ValueOracle(layer, tokens=2)
    with pytest.raises(ValueError, match=f"Wrong declares access to {declared}, and calls oracle.{verb}"):
        Wrong().fit(oracle)


@pytest.mark.bad_input
def test_sizes_that_do_not_fit_into_memory_are_refused_before_any_query():
    oracle = ValueOracle.from_callable(lambda x: x, 4, 10**7)
    with pytest.raises(ValueError, match=r"along each of 10000000 dimensions needs .* of memory"):
        ByQueries().fit(oracle, rng=0)
    assert oracle.drawn == 0


@pytest.mark.parametrize("k", [2, 4])
@pytest.mark.parametrize(("rounded", "worst"), [(np.float64, 1e-12), (np.float32, 2e-5)])
def test_a_causal_layer_is_found_to_be_one(k, rounded, worst):
    truth = replace(biased(2, 12, seed=k), causal=True)
    oracle = ValueOracle.from_callable(lambda x: truth(x).astype(rounded), k, 12)
    fit = ByQueries().fit(oracle, rng=1)
    assert fit.outcome.succeeded
    assert fit.layer.causal
    assert worst_error(fit, truth) < worst
    assert not ByQueries().fit(ValueOracle(replace(truth, causal=False), tokens=k), rng=1).layer.causal


def test_a_causal_layer_is_found_to_be_one_in_noisy_answers():
    truth = replace(make_nice_layer(heads=2, dim=8, rng=0), causal=True)
    fit = ByQueries().fit(ValueOracle(truth, tokens=2, noise=1e-4, rng=1), rng=1)
    assert fit.outcome is Outcome.NOISE_FLOOR
    assert fit.layer.causal
    assert (
        not ByQueries()
        .fit(ValueOracle(replace(truth, causal=False), tokens=2, noise=1e-4, rng=1))
        .layer.causal
    )


def test_another_mask_than_the_causal_one_is_no_success():
    """Row 1 sees itself alone, the last row sees all, and the others see the last token too."""
    full = biased(2, 8, seed=0)
    causal = replace(full, causal=True)

    def answer(x):
        rows = causal(x)
        rows[:, 1:-1] = full(x)[:, 1:-1]
        return rows

    fit = ByQueries().fit(ValueOracle.from_callable(answer, 4, 8), rng=1)
    assert not fit.outcome.succeeded

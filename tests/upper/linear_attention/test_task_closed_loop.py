import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from upper.linear_attention.features import cubic_features
from upper.linear_attention.model import LinearAttention, make_linear_attention
from upper.linear_attention.regression import CubicRegression, regress
from upper.linear_attention.tasks.closed_loop import agreement, run_closed_loop
from upper.linear_attention.tasks.independent import first_independent


def learned(model):
    """The same function by its coefficients."""
    d = model.dim
    x = np.random.default_rng(0).standard_normal((3 * d**3, 4, d))
    return regress(x, LinearAttention(model.v, model.q, model.average)(x), average=model.average)


def sizes_kept(step, outputs):
    return np.tanh(outputs)[:, None]


@settings(max_examples=15, deadline=None)
@given(st.integers(1, 4), st.booleans(), st.booleans(), st.integers(0, 1000))
def test_incremental_gram_is_that_of_the_whole_history(dim, average, by_coefficients, seed):
    model = make_linear_attention(heads=2, dim=dim, average=average, rng=seed)
    start = np.random.default_rng(seed).standard_normal((3, 2, dim))
    runner = learned(model) if by_coefficients else model
    assert isinstance(runner, CubicRegression) == by_coefficients
    outputs = run_closed_loop(runner, start, 5, sizes_kept)
    tokens = start
    for step in range(5):
        assert np.allclose(outputs[:, step], model(tokens), atol=1e-8)
        tokens = np.concatenate([tokens, sizes_kept(step, outputs[:, step])], axis=1)


def test_replaced_history_is_forgotten():
    model = make_linear_attention(heads=2, dim=3, rng=1)
    contexts = np.random.default_rng(2).standard_normal((4, 5, 6, 3))
    outputs = run_closed_loop(model, contexts[0], 4, lambda step, y: contexts[step + 1], keep=False)
    assert np.allclose(outputs, np.stack([model(x) for x in contexts], axis=1))


def test_tokens_after_the_last_step_are_not_asked_for():
    model, asked = make_linear_attention(heads=1, dim=2, rng=0), []

    def following(step, outputs):
        asked.append(step)
        return np.ones((1, 1, 2))

    run_closed_loop(model, np.ones((1, 1, 2)), 3, following)
    assert asked == [0, 1]


def test_agreement_asks_every_pair_at_the_same_step():
    states, wanted = np.array([[1, 2, 3, 4]]), np.array([[1, 2, 3, 5]])
    tapes, other = np.zeros((1, 4, 2), dtype=int), np.array([[[0, 0], [0, 1], [0, 0], [1, 1]]])
    assert agreement((states, wanted)) == 0.75
    assert agreement((tapes, other)) == 0.5
    assert agreement((states, wanted), (tapes, other)) == 0.5
    assert agreement((states, states), (tapes, tapes)) == 1


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 3), st.integers(1, 30), st.integers(0, 1000))
def test_first_independent_examples_are_a_basis_found_in_order(dim, number, seed):
    x = np.random.default_rng(seed).integers(-1, 2, size=(number, 2, dim)).astype(float)
    phi = cubic_features(x)
    kept = first_independent(x)
    ranks = [0] + [int(np.linalg.matrix_rank(phi[: end + 1])) for end in range(number)]
    assert kept.tolist() == [end for end in range(number) if ranks[end + 1] > ranks[end]]
    assert first_independent(x, rank=2).tolist() == kept[:2].tolist()


@pytest.mark.bad_input
def test_what_does_not_fit_is_refused_in_sentences():
    model, start = make_linear_attention(heads=1, dim=2, rng=0), np.ones((1, 1, 2))
    with pytest.raises(ValueError, match="the model has 2"):
        run_closed_loop(model, np.ones((1, 1, 3)), 1, sizes_kept)
    with pytest.raises(ValueError, match="18 features"):
        run_closed_loop(learned(model), np.ones((1, 1, 3)), 1, sizes_kept)
    with pytest.raises(ValueError, match="next tokens"):
        run_closed_loop(model, start, 2, lambda step, y: np.ones((1, 2)))
    with pytest.raises(ValueError, match="steps is 0"):
        run_closed_loop(model, start, 0, sizes_kept)
    with pytest.raises(ValueError, match="nothing to compare"):
        agreement()
    with pytest.raises(ValueError, match="What was found"):
        agreement((np.zeros((1, 2)), np.zeros((1, 3))))

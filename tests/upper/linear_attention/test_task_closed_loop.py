import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from upper.linear_attention.features import cubic_features, first_independent
from upper.linear_attention.model import LinearAttention, make_linear_attention
from upper.linear_attention.regression import CubicRegression, regress
from upper.linear_attention.tasks.closed_loop import ClosedLoop


def learned(model):
    """The same function by its coefficients."""
    d = model.dim
    x = np.random.default_rng(0).standard_normal((3 * d**3, 4, d))
    return regress(x, LinearAttention(model.v, model.q, model.average)(x), average=model.average)


@settings(max_examples=15, deadline=None)
@given(st.integers(1, 4), st.booleans(), st.booleans(), st.integers(0, 1000))
def test_outputs_are_those_of_the_whole_history(dim, average, by_coefficients, seed):
    model = make_linear_attention(heads=2, dim=dim, average=average, rng=seed)
    tokens = np.random.default_rng(seed).standard_normal((3, 2, dim))
    runner = learned(model) if by_coefficients else model
    assert isinstance(runner, CubicRegression) == by_coefficients
    loop = ClosedLoop(runner, tokens)
    for _ in range(5):
        outputs = loop.outputs()
        assert np.allclose(outputs, model(tokens), atol=1e-8)
        loop.append(np.tanh(outputs)[:, None])
        tokens = np.concatenate([tokens, np.tanh(outputs)[:, None]], axis=1)


def test_replaced_history_is_forgotten():
    model = make_linear_attention(heads=2, dim=3, rng=1)
    contexts = np.random.default_rng(2).standard_normal((4, 5, 6, 3))
    loop = ClosedLoop(model, contexts[0])
    for x in contexts[1:]:
        loop.replace(x)
        assert np.allclose(loop.outputs(), model(x))


def test_a_query_of_zeros_gives_zeros():
    model = make_linear_attention(heads=2, dim=3, rng=1)
    for runner in (model, learned(model)):
        assert not ClosedLoop(runner, np.zeros((2, 4, 3))).outputs().any()


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 3), st.integers(1, 30), st.integers(0, 1000))
def test_first_independent_examples_are_a_basis_found_in_order(dim, number, seed):
    x = np.random.default_rng(seed).integers(-1, 2, size=(number, 2, dim)).astype(float)
    phi = cubic_features(x)
    kept = first_independent(x)
    ranks = [0] + [int(np.linalg.matrix_rank(phi[: end + 1])) for end in range(number)]
    assert kept.tolist() == [end for end in range(number) if ranks[end + 1] > ranks[end]]
    assert first_independent(x, rank=2).tolist() == kept[:2].tolist()


@pytest.mark.parametrize("size", [1e-200, 1e200])
def test_first_independent_examples_do_not_depend_on_the_size_of_the_tokens(size):
    x = np.random.default_rng(0).integers(-1, 2, size=(20, 2, 2)).astype(float)
    assert first_independent(size * x).tolist() == first_independent(x).tolist()


@pytest.mark.bad_input
def test_what_does_not_fit_is_refused_in_sentences():
    model, start = make_linear_attention(heads=1, dim=2, rng=0), np.ones((1, 1, 2))
    with pytest.raises(ValueError, match="the model has 2"):
        ClosedLoop(model, np.ones((1, 1, 3)))
    with pytest.raises(ValueError, match="18 features"):
        ClosedLoop(learned(model), np.ones((1, 1, 3)))
    with pytest.raises(ValueError, match="overflow"):
        ClosedLoop(model, 1e200 * start).outputs()

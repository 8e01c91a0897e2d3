"""As few heads as possible: planted numbers are found again, bounds are bounds, and nothing depends on the gauge."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from upper.linear_attention.heads import (
    fewest_heads_bound,
    fit_heads,
    heads_of_tensor,
    symmetric_rank,
)
from upper.linear_attention.model import LinearAttention, make_linear_attention

SLOW = pytest.param(5, 7, 5, marks=pytest.mark.slow)


def _symmetric(tensor):
    return (tensor + tensor.transpose(0, 2, 1, 3)) / 2


def _planted(d, heads, seed, outputs=None):
    return _symmetric(make_linear_attention(heads=heads, dim=d, outputs=outputs, rng=seed).tensor())


def _tail(model, tensor):
    wanted = _symmetric(tensor)
    return np.linalg.norm(_symmetric(model.tensor()) - wanted) / np.linalg.norm(wanted)


@pytest.mark.parametrize(
    ("d", "heads", "outputs"),
    [(3, 1, 3), (3, 3, 3), (5, 5, 5), (8, 8, 8), (6, 3, 1), (4, 3, 9), (4, 5, 4), SLOW],
)
def test_planted_heads_are_found_and_up_to_the_dimension_their_number_is_proved(d, heads, outputs):
    tensor = _planted(d, heads, 0, outputs)
    found = fit_heads(tensor, restarts=3, rng=0)
    assert found.heads == heads
    assert found.model.outputs == outputs
    assert found.exact
    assert found.tail == pytest.approx(_tail(found.model, tensor), abs=1e-15)
    assert found.tail < 1e-13
    if heads > d:
        assert found.lower_bound == d
        assert dict(found.tried)[heads - 1] > 1e-4
    elif outputs == d:
        assert found.lower_bound == heads
    assert found.minimal == (found.lower_bound == heads)


def test_no_model_of_fewer_heads_than_the_bound_comes_within_the_tolerance():
    tensor = np.random.default_rng(0).standard_normal((3, 3, 3, 3))
    tails = [fit_heads(tensor, heads=heads, restarts=2).tail for heads in (1, 2)]
    for heads, tail in zip((1, 2), tails, strict=True):
        assert fewest_heads_bound(tensor, tolerance=1.001 * tail) <= heads
    # and it says something: well within the tails, more heads are demanded
    assert fewest_heads_bound(tensor, tolerance=0.02) > 1


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 4), st.integers(1, 4), st.integers(1, 6), st.integers(0, 10**6), st.floats(0, 0.49))
def test_the_bound_never_exceeds_the_heads_there_are(outputs, d, heads, seed, noise):
    rng = np.random.default_rng(seed)
    tensor = _planted(d, heads, seed, outputs)
    other = _symmetric(rng.standard_normal(tensor.shape))
    moved = tensor + noise * other * np.linalg.norm(tensor) / np.linalg.norm(other)
    relative = noise * np.linalg.norm(tensor) / np.linalg.norm(moved)
    assert 1 <= fewest_heads_bound(moved, tolerance=1.001 * relative, rng=seed) <= heads


@pytest.mark.parametrize("scale", [1e-300, 1e300])
def test_the_scale_of_the_tensor_goes_into_the_heads(scale):
    tensor = _planted(4, 3, 0)
    found = fit_heads(scale * tensor)
    assert found.heads == 3
    assert found.tail < 1e-13
    assert np.max(np.abs(_symmetric(found.model.tensor() / scale) - tensor)) < 1e-12
    assert fewest_heads_bound(scale * tensor) == 3
    assert symmetric_rank(scale * tensor) == 16
    assert np.allclose(heads_of_tensor(scale * tensor).tensor() / scale, tensor)


def test_the_zero_tensor_is_the_zero_model():
    zero = np.zeros((2, 3, 3, 3))
    found = fit_heads(zero)
    assert (found.heads, found.model.heads, found.tail, found.tried) == (0, 1, 0.0, ())
    assert symmetric_rank(zero) == fewest_heads_bound(zero) == 0
    assert not np.any(heads_of_tensor(zero).v)


def test_a_model_is_reduced_and_its_averaging_kept():
    model = make_linear_attention(heads=2, dim=4, average=True, rng=0)
    doubled = LinearAttention(
        np.concatenate([model.v, model.v]), np.concatenate([model.q, -2 * model.q]), True
    )
    found = fit_heads(doubled)
    x = np.random.default_rng(1).standard_normal((5, 6, 4))
    assert found.heads == 2
    assert found.model.average
    assert np.allclose(found.model(x), doubled(x))
    assert not fit_heads(doubled.tensor()).model.average


def test_with_too_few_heads_the_best_is_returned_and_said_so():
    tensor = _planted(4, 4, 0)
    found = fit_heads(tensor, heads=2, restarts=3)
    assert found.heads == 2
    assert found.lower_bound == 4
    assert not found.exact
    assert not found.minimal
    assert found.tail == pytest.approx(_tail(found.model, tensor))
    assert found.tail > 1e-3
    assert "no representation was found" in str(found)

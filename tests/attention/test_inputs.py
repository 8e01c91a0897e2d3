"""Token distributions: their ranges, weights and moments, and their JSON form."""

import itertools
import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attention import (
    BooleanInputs,
    GaussianInputs,
    Inputs,
    MarkedInputs,
    PositionedInputs,
    SphereInputs,
    sinusoidal_positions,
)
from attention.inputs import inputs_from_json, inputs_to_json

PLAIN = [BooleanInputs, GaussianInputs, SphereInputs]
ALL = [
    *(kind(3, 4) for kind in PLAIN),
    PositionedInputs(BooleanInputs(3, 4), sinusoidal_positions(3, 4)),
    MarkedInputs(GaussianInputs(3, 4), np.arange(6.0).reshape(3, 2)),
]


# Recipes, not distributions: a strategy may not call code under run-time checks, which sample at random.
recipes = st.recursive(
    st.tuples(st.sampled_from(PLAIN), st.integers(1, 4), st.integers(1, 4)),
    lambda inner: st.tuples(st.just(PositionedInputs), inner, st.integers(0, 2**32)),
    max_leaves=3,
)


def build(recipe):
    kind, *args = recipe
    if kind is not PositionedInputs:
        return kind(*args)
    inputs = build(args[0])
    exponents = np.random.default_rng(args[1]).normal(scale=30, size=(inputs.tokens, inputs.dim))
    return PositionedInputs(inputs, 10.0**exponents)


@pytest.mark.parametrize("inputs", ALL, ids=lambda inputs: type(inputs).__name__)
def test_samples_have_their_shape_and_follow_from_the_seed(inputs):
    assert isinstance(inputs, Inputs)
    for n in (0, 1, 5):
        assert inputs.sample(n, rng=0).shape == (n, inputs.tokens, inputs.dim)
    one, other, another = (inputs.sample(4, rng=seed) for seed in (3, np.random.default_rng(3), 4))
    assert one.dtype == np.float64
    assert one.tobytes() == other.tobytes()
    assert one.tobytes() != another.tobytes()
    rng = np.random.default_rng(0)  # a generator goes on
    assert inputs.sample(4, rng=rng).tobytes() != inputs.sample(4, rng=rng).tobytes()


def within(sample, expected, width=5.0):
    """Whether every mean over the examples lies within `width` standard errors of what is expected."""
    mean, error = sample.mean(axis=0), sample.std(axis=0) / np.sqrt(len(sample))
    return bool(np.all(np.abs(mean - expected) <= width * error + 1e-12))


class TestMoments:
    @pytest.mark.parametrize(
        ("kind", "fourth"), [(BooleanInputs, 1), (GaussianInputs, 3), (SphereInputs, 9 / 5)]
    )
    def test_coordinates_are_centred_and_uncorrelated_with_variance_one(self, kind, fourth):
        x = kind(2, 3).sample(40_000, rng=0).reshape(-1, 6)
        assert within(x, 0)
        assert within(x[:, :, None] * x[:, None, :], np.eye(6))
        assert within(x**4, fourth)
        assert within(x.prod(axis=1), 0)  # bits beyond pairs

    def test_sphere_has_norm_root_d(self):
        x = SphereInputs(2, 5).sample(200, rng=0)
        np.testing.assert_allclose(np.linalg.norm(x, axis=-1), np.sqrt(5), rtol=1e-14)

    @given(recipe=recipes, seed=st.integers(0, 2**32))
    def test_positions_are_added(self, recipe, seed):
        inputs = build(recipe)
        plain = inputs.sample(3, rng=seed)
        added = sinusoidal_positions(inputs.tokens, inputs.dim)
        np.testing.assert_array_equal(PositionedInputs(inputs, added).sample(3, rng=seed), plain + added)


def test_marks_stand_before_the_tokens_and_survive_json():
    marks, inner = np.arange(6.0).reshape(3, 2), GaussianInputs(3, 4)
    one = MarkedInputs(inner, marks)
    x = one.sample(5, rng=1)
    assert (x[:, :, :2] == marks).all()
    np.testing.assert_array_equal(x[:, :, 2:], inner.sample(5, rng=1))
    back = inputs_from_json(json.loads(json.dumps(inputs_to_json(one))))
    assert back == one
    assert type(back) is MarkedInputs
    assert one != MarkedInputs(inner, marks + 1)


def test_sinusoidal_positions_are_those_of_the_formula():
    encoding = sinusoidal_positions(7, 6)
    for position, i in itertools.product(range(7), range(3)):
        angle = position / 10000 ** (2 * i / 6)
        assert encoding[position, 2 * i] == pytest.approx(np.sin(angle), abs=1e-15)
        assert encoding[position, 2 * i + 1] == pytest.approx(np.cos(angle), abs=1e-15)


BOOLEAN = {"name": "boolean", "k": 1, "d": 1}
WRONG_JSON = [
    ({"name": "cauchy"}, "named 'cauchy'"),
    ({"name": "boolean", "k": 2}, "does not fit"),
    (BOOLEAN | {"e": 4}, "does not fit"),
    (BOOLEAN | {"k": 0}, "tokens is 0"),
    ({"name": "positioned"}, "does not fit"),
    ({"name": "positioned", "inputs": BOOLEAN, "positions": [[0, 1]]}, "shape"),
]


class TestJson:
    def test_files_name_the_numbers_k_and_d(self):
        written = {
            "name": "marked",
            "inputs": {"name": "sphere", "k": 2, "d": 3},
            "positions": [[1.0], [2.0]],
        }
        inputs = MarkedInputs(SphereInputs(tokens=2, dim=3), np.array([[1.0], [2.0]]))
        assert (inputs_from_json(written), inputs_to_json(inputs)) == (inputs, written)

    @given(recipe=recipes, seed=st.integers(0, 2**32))
    def test_round_trip_bit_for_bit(self, recipe, seed):
        inputs = build(recipe)
        back = inputs_from_json(json.loads(json.dumps(inputs_to_json(inputs), allow_nan=False)))
        assert back == inputs
        assert type(back) is type(inputs)
        assert back.sample(3, rng=seed).tobytes() == inputs.sample(3, rng=seed).tobytes()

    @pytest.mark.bad_input
    @pytest.mark.parametrize(("data", "match"), WRONG_JSON)
    def test_what_is_no_description(self, data, match):
        with pytest.raises(ValueError, match=match):
            inputs_from_json(data)

    @pytest.mark.bad_input
    def test_other_distributions_have_no_json_form(self):
        class Mine(BooleanInputs):
            pass

        with pytest.raises(ValueError, match="of the type Mine"):
            inputs_to_json(Mine(1, 2))

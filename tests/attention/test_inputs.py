"""Token distributions: their ranges, weights and moments, and their JSON form."""

import itertools
import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attention import (
    BooleanInputs,
    ConstantCoordinateInputs,
    GaussianInputs,
    Inputs,
    PositionedInputs,
    SliceInputs,
    SphereInputs,
    sinusoidal_positions,
)
from attention.inputs import inputs_from_json, inputs_to_json

PLAIN = [BooleanInputs, GaussianInputs, SphereInputs]
SLICE = SliceInputs(blocks=(3, 5), weights=((1, 5), (0, 2)))
ALL = [kind(3, 4) for kind in PLAIN]
ALL += [SLICE, PositionedInputs(BooleanInputs(3, 4), sinusoidal_positions(3, 4))]
ALL += [ConstantCoordinateInputs(GaussianInputs(3, 4))]
every = pytest.mark.parametrize("inputs", ALL, ids=lambda inputs: type(inputs).__name__)


# Recipes, not distributions: a strategy may not call code under run-time checks, which sample at random.
@st.composite
def slices(draw):
    blocks = draw(st.lists(st.integers(1, 6), min_size=1, max_size=4))
    weight = st.tuples(*(st.integers(0, size) for size in blocks))
    return SliceInputs, tuple(blocks), tuple(draw(st.lists(weight, min_size=1, max_size=4)))


recipes = st.recursive(
    st.tuples(st.sampled_from(PLAIN), st.integers(1, 4), st.integers(1, 4)) | slices(),
    lambda inner: (
        st.tuples(st.just(PositionedInputs), inner, st.integers(0, 2**32))
        | st.tuples(st.just(ConstantCoordinateInputs), inner)
    ),
    max_leaves=3,
)


def build(recipe):
    kind, *args = recipe
    if kind is ConstantCoordinateInputs:
        return ConstantCoordinateInputs(build(args[0]))
    if kind is not PositionedInputs:
        return kind(*args)
    inputs = build(args[0])
    # exponents from about -100 to 100
    return PositionedInputs(
        inputs, 10.0 ** np.random.default_rng(args[1]).normal(scale=30, size=(inputs.k, inputs.d))
    )


class TestEvery:
    @every
    @pytest.mark.parametrize("n", [0, 1, 5])
    def test_shape(self, inputs, n):
        assert isinstance(inputs, Inputs)
        x = inputs.sample(n, rng=0)
        assert x.shape == (n, inputs.k, inputs.d)
        assert x.dtype == np.float64

    @every
    def test_same_seed_same_bits(self, inputs):
        one, other, another = (inputs.sample(4, rng=seed) for seed in (3, np.random.default_rng(3), 4))
        assert one.tobytes() == other.tobytes()
        assert one.tobytes() != another.tobytes()

    @every
    def test_a_generator_goes_on_and_samples_are_independent(self, inputs):
        rng = np.random.default_rng(0)
        assert inputs.sample(4, rng=rng).tobytes() != inputs.sample(4, rng=rng).tobytes()

    @pytest.mark.bad_input
    @every
    @pytest.mark.parametrize("n", [-1, 1.5, "2", None, True])
    def test_wrong_counts(self, inputs, n):
        with pytest.raises(ValueError, match="n is "):
            inputs.sample(n)


def within(sample, expected, width=5.0):
    """Whether every mean over the examples lies within `width` standard errors of what is expected."""
    mean, error = sample.mean(axis=0), sample.std(axis=0) / np.sqrt(len(sample))
    return bool(np.all(np.abs(mean - expected) <= width * error + 1e-12))


class TestMoments:
    @pytest.mark.parametrize("kind", PLAIN)
    def test_coordinates_are_centred_and_uncorrelated_with_variance_one(self, kind):
        x = kind(2, 3).sample(20_000, rng=0).reshape(-1, 6)
        assert within(x, 0)
        assert within(x[:, :, None] * x[:, None, :], np.eye(6))

    def test_boolean_cells_are_equally_likely(self):
        x = BooleanInputs(1, 3).sample(40_000, rng=0)
        assert set(np.unique(x)) == {-1.0, 1.0}
        for cell in itertools.product([-1, 1], repeat=3):
            assert within((x[:, 0] == cell).all(axis=1), 1 / 8)

    @pytest.mark.parametrize("shape", [(1, 1), (2, 3), (3, 7), (8, 8)])
    def test_boolean_uses_every_bit(self, shape):
        x = BooleanInputs(*shape).sample(9, rng=1)
        assert set(np.unique(x)) <= {-1.0, 1.0}
        assert len(np.unique(BooleanInputs(*shape).sample(500, rng=1).mean(axis=0))) > 1 or shape == (1, 1)

    def test_gaussian_has_fourth_moment_three(self):
        assert within(GaussianInputs(1, 2).sample(50_000, rng=0).reshape(-1, 2) ** 4, 3)

    def test_sphere_has_norm_root_d_and_fourth_moment_3d_over_d_plus_2(self):
        x = SphereInputs(2, 5).sample(20_000, rng=0)
        np.testing.assert_allclose(np.linalg.norm(x, axis=-1), np.sqrt(5), rtol=1e-14)
        assert within(x.reshape(-1, 10) ** 4, 3 * 5 / 7)

    @given(recipe=slices(), seed=st.integers(0, 2**32))
    def test_slice_weights_are_exact(self, recipe, seed):
        inputs = build(recipe)
        x = inputs.sample(7, rng=seed)
        assert x.shape == (7, inputs.k, inputs.d)
        assert set(np.unique(x)) <= {-1.0, 1.0}
        ends = np.cumsum((0, *inputs.blocks))
        for token, weights in enumerate(inputs.weights):
            for first, last, weight in zip(ends[:-1], ends[1:], weights, strict=True):
                assert ((x[:, token, first:last] == 1).sum(axis=1) == weight).all()

    def test_slice_is_uniform_given_its_weights(self):
        x = SLICE.sample(30_000, rng=0)
        mean = np.array([[-1 / 3] * 3 + [1.0] * 5, [-1.0] * 3 + [-1 / 5] * 5])
        assert within(x, mean)
        # the 10 positions of two ones among five are equally likely, and tokens are independent
        ones = x[:, 1, 3:] == 1
        for pair in itertools.combinations(range(5), 2):
            assert within(ones[:, pair[0]] & ones[:, pair[1]], 1 / 10)
            assert within(x[:, 0, 0] * x[:, 1, 3 + pair[0]], 1 / 15)

    def test_positions_are_added(self):
        added = sinusoidal_positions(3, 4, scale=2.0)
        inputs = PositionedInputs(BooleanInputs(3, 4), added)
        np.testing.assert_array_equal(inputs.sample(5, rng=1), BooleanInputs(3, 4).sample(5, rng=1) + added)

    @given(recipe=recipes, seed=st.integers(0, 2**32))
    def test_the_constant_is_appended_and_nothing_else_changes(self, recipe, seed):
        inputs = build(recipe)
        x = ConstantCoordinateInputs(inputs).sample(3, rng=seed)
        assert x.shape == (3, inputs.k, inputs.d + 1)
        assert x[..., :-1].tobytes() == inputs.sample(3, rng=seed).tobytes()
        assert (x[..., -1] == 1).all()


class TestPositions:
    def test_sinusoidal_positions_are_those_of_the_formula(self):
        encoding = sinusoidal_positions(7, 6)
        for position, i in itertools.product(range(7), range(3)):
            angle = position / 10000 ** (2 * i / 6)
            assert encoding[position, 2 * i] == pytest.approx(np.sin(angle), abs=1e-15)
            assert encoding[position, 2 * i + 1] == pytest.approx(np.cos(angle), abs=1e-15)
        np.testing.assert_array_equal(sinusoidal_positions(3, 5, scale=0.5), 0.5 * sinusoidal_positions(3, 5))

    def test_equality_and_hash_go_by_value(self):
        one, same, other, outer = (
            PositionedInputs(inputs, np.full((1, 2), value))
            for inputs, value in (
                (BooleanInputs(1, 2), 1.0),
                (BooleanInputs(1, 2), 1.0),
                (BooleanInputs(1, 2), 2.0),
                (GaussianInputs(1, 2), 1.0),
            )
        )
        assert one == same
        assert hash(one) == hash(same)
        assert one not in (other, outer, 3)
        assert BooleanInputs(1, 2) == BooleanInputs(1, 2) != BooleanInputs(2, 1)

    def test_positions_are_a_frozen_copy(self):
        array = np.zeros((1, 2))
        inputs = PositionedInputs(BooleanInputs(1, 2), array)
        array += 1
        assert not inputs.positions.any()
        assert not inputs.positions.flags.writeable


class TestJson:
    @given(recipe=recipes, seed=st.integers(0, 2**32))
    def test_round_trip_bit_for_bit(self, recipe, seed):
        inputs = build(recipe)
        text = json.dumps(inputs_to_json(inputs), allow_nan=False)
        back = inputs_from_json(json.loads(text))
        assert back == inputs
        assert type(back) is type(inputs)
        assert back.sample(3, rng=seed).tobytes() == inputs.sample(3, rng=seed).tobytes()

    @pytest.mark.bad_input
    @pytest.mark.parametrize(
        ("data", "match"),
        [
            (3, "named None"),
            ([], "named None"),
            ({}, "named None: boolean"),
            ({"name": "cauchy"}, "named 'cauchy'"),
            ({"name": ["boolean"]}, "are named"),
            ({"name": "boolean", "k": 2}, "does not fit"),
            ({"name": "boolean", "k": 2, "d": 3, "e": 4}, "does not fit"),
            ({"name": "boolean", "k": 0, "d": 3}, "k is 0"),
            ({"name": "boolean", "k": 1.5, "d": 3}, "k is 1.5"),
            ({"name": "gaussian", "k": "2", "d": 3}, "k is '2'"),
            ({"name": "slice", "blocks": 3, "weights": [[1]]}, "blocks is 3"),
            ({"name": "slice", "blocks": [3], "weights": [[4]]}, "at most its length"),
            ({"name": "positioned"}, "does not fit"),
            ({"name": "constant-coordinate"}, "does not fit"),
            ({"name": "constant-coordinate", "inputs": {"name": "cauchy"}}, "named 'cauchy'"),
            (
                {"name": "constant-coordinate", "inputs": {"name": "boolean", "k": 1, "d": 1}, "value": 2},
                "does not fit",
            ),
            ({"name": "positioned", "inputs": 3, "positions": [[0]]}, "named None"),
            (
                {"name": "positioned", "inputs": {"name": "boolean", "k": 1, "d": 1}, "positions": [[0, 1]]},
                "shape",
            ),
            (
                {
                    "name": "positioned",
                    "inputs": {"name": "boolean", "k": 1, "d": 1},
                    "positions": [[10**400]],
                },
                "positions is",
            ),
            (
                {"name": "positioned", "inputs": {"name": "boolean", "k": 1, "d": 1}, "positions": {"a": 1}},
                "positions is",
            ),
        ],
    )
    def test_what_is_no_description(self, data, match):
        with pytest.raises(ValueError, match=match):
            inputs_from_json(data)

    @pytest.mark.bad_input
    def test_other_distributions_have_no_json_form(self):
        class Mine(BooleanInputs):
            pass

        with pytest.raises(ValueError, match="of the type Mine"):
            inputs_to_json(Mine(1, 2))


class TestWrongInput:
    @pytest.mark.bad_input
    @pytest.mark.parametrize(
        ("blocks", "weights", "match"),
        [
            ((), ((),), "empty"),
            ((2,), (), "empty"),
            ((2,), ((3,),), "at most its length"),
            ((2,), ((1, 1),), "one weight a block"),
            ((2, 2), ((1,),), "one weight a block"),
        ],
    )
    def test_slices(self, blocks, weights, match):
        with pytest.raises(ValueError, match=match):
            SliceInputs(blocks, weights)

    @pytest.mark.bad_input
    @pytest.mark.parametrize("wrong", [np.zeros((2, 1)), np.zeros(2), np.array([[0.0, np.nan]])])
    def test_positions(self, wrong):
        with pytest.raises(ValueError, match="positions"):
            PositionedInputs(BooleanInputs(1, 2), wrong)

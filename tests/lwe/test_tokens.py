import itertools
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attention import draw_examples
from lwe.distributions import CentredBinomial, DiscreteGaussian, Flips
from lwe.families import LWRFamily
from lwe.heads import kept_range, lwr_heads, value_range
from lwe.parameters import LWEParameters, covariate_form
from lwe.residues import rounded
from lwe.samples import LWRSamples, make_samples
from lwe.tokens import SampleOracle, realised, rows_of_tokens, samples_from_examples

FAMILIES = [
    LWEParameters(6, 16, 4),
    LWEParameters(6, 16, 2, matrix="ternary"),
    LWEParameters(3, 8, 2, matrix="gadget"),
    LWEParameters(3, 8, 4, matrix="uniform"),
]
# a label for each row that names it: q = p = 64 and the row's place
NAMED = LWEParameters(8, 64, 64)
NAMED_SAMPLES = LWRSamples(np.random.default_rng(0).permutation(np.eye(64, 8, dtype=np.int64)), np.arange(64))


@pytest.mark.parametrize("on_gate_only", [False, True])
@pytest.mark.parametrize("made", FAMILIES, ids=str)
def test_examples_are_those_of_the_layer_however_often_a_sample_is_used(made, on_gate_only):
    samples, secret = make_samples(made, 50, rng=1)
    heads = realised(made)
    oracle = SampleOracle(samples, heads, rng=np.random.default_rng(0), on_gate_only=on_gate_only)
    x, y = draw_examples(oracle, 700)
    np.testing.assert_array_equal(LWRFamily.of(heads).instance(secret=secret).layer(x), y)
    assert (oracle.drawn, oracle.remaining, oracle.tokens, oracle.dim) == (700, None, 2, heads.dim)
    _, on_gate = rows_of_tokens(x, heads)
    assert on_gate.all() == on_gate_only
    if not on_gate_only:
        assert abs(on_gate.mean() - 0.5) < 5 * 0.5 / np.sqrt(700)


def used(x, y):
    return samples_from_examples(x, y, NAMED).labels


def test_each_sample_is_used_once_a_pass_first_in_order_and_with_other_tokens():
    oracle = SampleOracle(NAMED_SAMPLES, NAMED, rng=np.random.default_rng(3), on_gate_only=True)
    parts = [oracle.draw(n) for n in (10, 54, 100, 28)]
    x, y = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
    passes = used(x, y).reshape(3, 64)
    np.testing.assert_array_equal(passes[0], np.arange(64))
    np.testing.assert_array_equal(np.sort(passes), np.tile(np.arange(64), (3, 1)))
    assert (passes[1] != passes[0]).any()
    one = [x[place] for place in np.flatnonzero(passes.ravel() == 5)]
    assert not np.array_equal(one[0], one[1])


SIZES = [
    {"n": 8, "q": 16, "p": 2},
    {"n": 6, "q": 9, "p": 4, "matrix": "ternary"},
    {"n": 4, "q": 16, "p": 4, "matrix": "gadget"},
    {"n": 9, "q": 2, "p": 2},
]
NOISES = {2: Flips(0.3), 9: DiscreteGaussian(1.0), 16: CentredBinomial(3)}


@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize("deviations", [None, 2.0])
def test_noisy_labels_are_the_rounded_noisy_inner_product_in_both_rows(size, deviations):
    noise = NOISES[size["q"]]
    family = LWRFamily(**size, Xe=noise, deviations=deviations)
    instance, parameters = family.instance(rng=0), family.parameters
    x, y = family.examples(instance, rng=5).draw(4000)
    assert y.shape == x.shape
    clean = instance.layer(x)
    on = x[:, 0, 0] != x[:, 1, 0]
    np.testing.assert_array_equal(y[~on], clean[~on])
    np.testing.assert_array_equal(y[:, :, 1:], clean[:, :, 1:])
    # samples_from_examples holds both rows to the same whole label in range
    noisy = samples_from_examples(x, y, parameters)
    own = samples_from_examples(x, clean, parameters)
    # the same errors, drawn again: the inputs come first from the same stream
    rng = np.random.default_rng(5)
    np.testing.assert_array_equal(x, instance.inputs.sample(4000, rng=rng))
    errors = noise.draw(4000, parameters.q, rng=rng)[on]
    form = covariate_form(instance.secret, parameters)
    a = (x[on, 0, 1:] != x[on, 1, 1:]).astype(int)
    if parameters.matrix == "ternary":
        a *= (x[on, 0, 1:] * x[on, 0, :1]).astype(int)
    products = a @ form
    if deviations is not None:
        held = np.clip(products, *kept_range(form, parameters.matrix, deviations))
        assert np.any(held != products) or parameters.q == 2  # two deviations are all of some parities
        products = held
    np.testing.assert_array_equal(own.labels, rounded(products, parameters.q, parameters.p))
    np.testing.assert_array_equal(noisy.labels, rounded(products + errors, parameters.q, parameters.p))
    assert np.any(noisy.labels != own.labels)


def test_layers_of_a_small_slope_need_their_allowed_error():
    instance = LWRFamily(n=5, q=8, p=2, beta=3.0).instance(rng=0)
    x = instance.inputs.sample(300, rng=0)
    parameters = LWEParameters(5, 8, 2)
    with pytest.raises(ValueError, match="up to 1e-06, are needed"):
        samples_from_examples(x, instance.layer(x), parameters)
    samples = samples_from_examples(x, instance.layer(x), parameters, allowed_error=instance.allowed_error)
    np.testing.assert_array_equal(samples.labels, rounded(samples.public @ instance.secret, 8, 2))


forms = st.lists(st.integers(-30, 30), min_size=1, max_size=6)


def values(form, matrix):
    """<v, a> for equally likely a, each as often as it is drawn."""
    entries = [-1, 0, 0, 1] if matrix == "ternary" else [0, 1]
    return np.array(list(itertools.product(entries, repeat=len(form)))) @ np.array(form)


@given(form=forms, matrix=st.sampled_from(["binary", "ternary"]), deviations=st.floats(2, 9))
def test_the_kept_range_is_that_of_the_standard_deviation(form, matrix, deviations):
    found = values(form, matrix)
    assert value_range(np.array(form), matrix) == (found.min(), found.max())
    mean = Fraction(int(found.sum()), len(found))
    variance = Fraction(int((found**2).sum()), len(found)) - mean**2
    kept = [
        t
        for t in range(found.min(), found.max() + 1)
        if (t - mean) ** 2 <= Fraction(deviations) ** 2 * variance
    ]
    assert kept_range(np.array(form), matrix, deviations) == (kept[0], kept[-1])


@given(
    form=forms,
    matrix=st.sampled_from(["binary", "ternary"]),
    modulus=st.integers(2, 12),
    deviations=st.sampled_from([None, 2.0]),
    data=st.data(),
)
def test_stairs_are_the_label_of_the_nearest_value_kept(form, matrix, modulus, deviations, data):
    levels = data.draw(st.integers(2, modulus))
    parameters = LWEParameters(n=len(form), q=modulus, p=levels, matrix=matrix)
    stairs = lwr_heads(np.array(form), parameters, deviations=deviations)
    least, most = low, high = value_range(np.array(form), matrix)
    if deviations is not None:
        low, high = kept_range(np.array(form), matrix, deviations)
    t = np.arange(least, most + 1)
    expected = rounded(np.clip(t, low, high), modulus, levels) - (levels - 1) / 2
    np.testing.assert_array_equal(stairs.limit(t), expected)
    assert stairs.coefficients.sum() == 0

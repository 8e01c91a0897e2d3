"""Products of all heads at once: the same layer on every array library."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attention import BooleanInputs, make_nice_layer
from attention.layer import read_tokens

SHAPES = {
    "m": st.integers(1, 4),
    "k": st.integers(1, 4),
    "d": st.integers(1, 6),
    "seed": st.integers(0, 2**32 - 1),
}


def _setting(m, k, d, seed):
    rng = np.random.default_rng(seed)
    return make_nice_layer(heads=m, dim=d, rng=rng), BooleanInputs(k, d).sample(5, rng=rng), rng


@given(**SHAPES)
@settings(max_examples=40, deadline=None)
def test_reads_times_projections_are_the_layer(m, k, d, seed):
    layer, x, _ = _setting(m, k, d, seed)
    pattern, read = read_tokens(x, layer.theta)
    np.testing.assert_allclose(
        (read @ layer.w.reshape(m * d, d)).reshape(x.shape), layer(x), atol=1e-12, rtol=1e-12
    )
    np.testing.assert_allclose(np.moveaxis(pattern, 2, 1), layer.patterns(x), atol=1e-13)


@pytest.mark.parametrize("library", ["torch", "array_api_strict"])
def test_same_numbers_on_every_array_library(library):
    xp = pytest.importorskip(library, reason=f"{library} is not installed")
    layer, x, _ = _setting(3, 2, 5, 0)

    def products(convert):
        return read_tokens(convert(x), convert(np.array(layer.theta)))

    for ours, theirs in zip(products(np.asarray), products(xp.asarray), strict=True):
        assert type(theirs) is type(xp.asarray(x))
        np.testing.assert_allclose(np.asarray(theirs), ours, atol=1e-12)

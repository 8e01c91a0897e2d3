import numpy as np
import pytest

from attention import draw_examples
from lwe.families import LWRFamily
from lwe.parameters import LWEParameters
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

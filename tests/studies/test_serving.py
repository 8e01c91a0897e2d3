"""Answers of a service: its last token tells all rows, rounding is that of the format, and blocks need float64."""

import numpy as np
import pytest

from attention import make_nice_block
from studies import serving

BLOCK = make_nice_block(heads=2, dim=8, width=6, rng=0)
X = np.random.default_rng(1).standard_normal((5, 3, 8))


def measured(target, answers, level=0.0):
    return serving.measure(rng=np.random.default_rng(0), target=target, answers=answers, level=level, draw=0)


def test_the_last_tokens_of_all_orders_are_the_rows():
    np.testing.assert_allclose(serving.served(BLOCK, "last token")(X), BLOCK(X), atol=1e-12)


def test_noise_that_repeats_depends_on_the_query_alone():
    answer = serving.served(BLOCK, "noise that repeats", 0.1)
    first = answer(X) - BLOCK(X)
    np.testing.assert_allclose(answer(X[::-1])[::-1] - BLOCK(X), first, atol=1e-12)
    assert 0.05 < first.std() < 0.2
    assert abs(np.corrcoef(first[0].ravel(), first[1].ravel())[0, 1]) < 0.6


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "bfloat16"])
def test_rounding_is_that_of_the_format(dtype):
    torch = pytest.importorskip("torch")
    rounded = torch.from_numpy(BLOCK(X)).to(getattr(torch, dtype)).double().numpy()
    np.testing.assert_array_equal(serving.served(BLOCK, dtype)(X), rounded)


def test_a_layer_is_read_to_the_rounding_and_a_block_only_in_float64():
    layer, block = measured("layer", "float16"), measured("block", "float16")
    assert 1e-6 < layer["function"] < 1e-3
    assert block["function"] is None
    assert measured("block", "float32")["function"] == 1
    exact, last = measured("block", "float64"), measured("block", "last token")
    assert max(exact["function"], exact["parameters"], last["parameters"]) < 1e-7
    assert last["queries"] == 2 * exact["queries"]

"""Batches: all examples are drawn in order and counted, and never all in memory."""

import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attention import BooleanInputs, ExampleOracle, make_nice_layer
from upper.six_phase import PhaseFailedError, estimate_projection_sum
from upper.six_phase.common import batches, remaining


def _oracle(rng, noise=0.0, k=2, d=6):
    return ExampleOracle(
        make_nice_layer(heads=2, dim=d, rng=0), BooleanInputs(tokens=k, dim=d), noise=noise, rng=rng
    )


@given(
    n=st.integers(1, 90),
    batch=st.integers(1, 40),
    given_arrays=st.booleans(),
)
@settings(max_examples=15, deadline=None)
def test_all_n_are_drawn_in_order_and_counted(n, batch, given_arrays):
    x, y = _oracle(2).draw(100)
    oracle = ExampleOracle.from_arrays(x, y) if given_arrays else _oracle(3)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("upper.six_phase.common.batch_size", lambda k, d: batch)
        parts = list(batches(oracle, n))
    sizes = [len(part[0]) for part in parts]
    assert sum(sizes) == oracle.drawn == n
    assert all(size == batch for size in sizes[:-1])
    assert 1 <= sizes[-1] <= batch
    if given_arrays:
        np.testing.assert_array_equal(np.concatenate([part[0] for part in parts]), x[:n])
        np.testing.assert_array_equal(np.concatenate([part[1] for part in parts]), y[:n])
        assert oracle.remaining == 100 - n


def test_examples_are_never_all_in_memory(monkeypatch):
    monkeypatch.setattr("upper.six_phase.common.batch_size", lambda k, d: 200)
    estimate_projection_sum(_oracle(5), 200)  # imports are no part of it
    tracemalloc.start()
    estimate_projection_sum(_oracle(5), 20_000)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 8 * 20_000 * 2 * 6 / 3  # a third of the tokens alone


def test_remaining_is_what_is_left_of_given_examples_and_all_of_others():
    oracle = ExampleOracle.from_arrays(*_oracle(6).draw(50))
    oracle.draw(20)
    left = [remaining(one, n, "to look at") for one, n in ((oracle, 29), (oracle, 31), (_oracle(6), 31))]
    assert left == [29, 30, 31]
    oracle.draw(30)
    with pytest.raises(PhaseFailedError, match="no example is left to look at"):
        remaining(oracle, 1, "to look at")

"""Batches in their own random streams: no bit, no count and no memory depends on threads, backends or how many."""

import threading
import weakref

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attention import BooleanInputs, ExampleOracle, make_nice_layer
from upper.six_phase import PhaseFailedError, estimate_projection_sum
from upper.six_phase.common import map_batches, remaining


def _oracle(rng, noise=0.0, k=2, d=6):
    return ExampleOracle(
        make_nice_layer(heads=2, dim=d, rng=0), BooleanInputs(k=k, d=d), noise=noise, rng=rng
    )


def _both(x, y):
    return x.copy(), y.copy()


@given(
    n=st.integers(1, 90),
    batch=st.integers(1, 40),
    given_arrays=st.booleans(),
    jobs=st.sampled_from([None, 1, 2]),
)
@settings(max_examples=15, deadline=None)
def test_all_n_are_drawn_in_order_and_counted(n, batch, given_arrays, jobs):
    x, y = _oracle(2).draw(100)
    oracle = ExampleOracle.from_arrays(x, y) if given_arrays else _oracle(3)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("upper.six_phase.common.batch_size", lambda k, d: batch)
        parts = list(map_batches(oracle, _both, n, jobs=jobs))
    sizes = [len(part[0]) for part in parts]
    assert sum(sizes) == oracle.drawn == n
    assert all(size == batch for size in sizes[:-1])
    assert 1 <= sizes[-1] <= batch
    if given_arrays:
        np.testing.assert_array_equal(np.concatenate([part[0] for part in parts]), x[:n])
        np.testing.assert_array_equal(np.concatenate([part[1] for part in parts]), y[:n])
        assert oracle.remaining == 100 - n


class _Watched:
    """Boolean tokens that know how many of them are in memory at once."""

    def __init__(self, k, d):
        self.k, self.d = k, d
        self.alive = self.peak = 0
        self._inputs, self._lock = BooleanInputs(k=k, d=d), threading.Lock()

    def sample(self, n, *, rng=None):
        x = self._inputs.sample(n, rng=rng)
        weakref.finalize(x, self._gone, n)
        with self._lock:
            self.alive += n
            self.peak = max(self.peak, self.alive)
        return x

    def _gone(self, n):
        with self._lock:
            self.alive -= n


@pytest.mark.parametrize("jobs", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_memory_does_not_grow_with_n(jobs, monkeypatch):
    monkeypatch.setattr("upper.six_phase.common._NUMBERS", 50 * 2 * 6)
    peaks = []
    for n in (500, 5_000):
        inputs = _Watched(2, 6)
        oracle = ExampleOracle(make_nice_layer(heads=1, dim=6, rng=0), inputs, rng=5)
        estimate_projection_sum(oracle, n, jobs=jobs)
        assert oracle.drawn == n
        peaks.append(inputs.peak)
    assert max(peaks) <= 2 * jobs * 50


def test_remaining_is_what_is_left_of_given_examples_and_all_of_others():
    oracle = ExampleOracle.from_arrays(*_oracle(6).draw(50))
    oracle.draw(20)
    left = [remaining(one, n, "to look at") for one, n in ((oracle, 29), (oracle, 31), (_oracle(6), 31))]
    assert left == [29, 30, 31]
    oracle.draw(30)
    with pytest.raises(PhaseFailedError, match="no example is left to look at"):
        remaining(oracle, 1, "to look at")

"""Batches in their own random streams: no bit, no count and no memory depends on threads, backends or how many."""

import threading
import weakref

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attention import BooleanInputs, ExampleOracle, ExamplesExhaustedError, make_nice_layer
from upper.six_phase import PhaseFailedError, estimate_projection_sum
from upper.six_phase.common import batch_size, map_batches, norm, remaining


def _oracle(rng, noise=0.0, k=2, d=6):
    return ExampleOracle(
        make_nice_layer(heads=2, dim=d, rng=0), BooleanInputs(k=k, d=d), noise=noise, rng=rng
    )


def _both(x, y):
    return x.copy(), y.copy()


@pytest.mark.parametrize("noise", [0.0, 0.3])
def test_bits_do_not_depend_on_jobs(noise, monkeypatch):
    monkeypatch.setattr("upper.six_phase.common._NUMBERS", 300 * 2 * 6)
    one = estimate_projection_sum(_oracle(1, noise), 5_000, jobs=1)
    two = estimate_projection_sum(_oracle(1, noise), 5_000, jobs=2)
    every = estimate_projection_sum(_oracle(1, noise), 5_000, jobs=-1)
    for other in (two, every):
        assert np.array_equal(one.w, other.w)
        assert one.measures == other.measures


@given(
    n=st.integers(1, 90),
    batch=st.integers(1, 40),
    given_arrays=st.booleans(),
    jobs=st.sampled_from([None, 1, 2]),
)
@settings(max_examples=30, deadline=None)
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


def test_batches_are_independent_of_one_another(monkeypatch):
    monkeypatch.setattr("upper.six_phase.common.batch_size", lambda k, d: 20)
    parts = [part[0] for part in map_batches(_oracle(4), _both, 60)]
    again = [part[0] for part in map_batches(_oracle(4), _both, 60)]
    assert all(np.array_equal(a, b) for a, b in zip(parts, again, strict=True))
    assert not any(np.array_equal(parts[i], parts[j]) for i in range(3) for j in range(i))


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
    for n in (1_000, 20_000):
        inputs = _Watched(2, 6)
        oracle = ExampleOracle(make_nice_layer(heads=1, dim=6, rng=0), inputs, rng=5)
        estimate_projection_sum(oracle, n, jobs=jobs)
        assert oracle.drawn == n
        peaks.append(inputs.peak)
    assert max(peaks) <= 2 * jobs * 50


def test_a_batch_is_as_large_whatever_n_and_never_tiny():
    assert batch_size(2, 32) * 2 * 32 == 1 << 17
    assert batch_size(64, 4096) == 32


def test_remaining_is_what_is_left_of_given_examples_and_all_of_others():
    oracle = ExampleOracle.from_arrays(*_oracle(6).draw(50))
    oracle.draw(20)
    left = [remaining(one, n, "to look at") for one, n in ((oracle, 29), (oracle, 31), (_oracle(6), 31))]
    assert left == [29, 30, 31]
    oracle.draw(30)
    with pytest.raises(PhaseFailedError, match="no example is left to look at"):
        remaining(oracle, 1, "to look at")


@pytest.mark.parametrize("jobs", [1, 2])
def test_exhausted_examples_are_said_and_nothing_hangs(jobs, monkeypatch):
    monkeypatch.setattr("upper.six_phase.common.batch_size", lambda k, d: 4)
    oracle = ExampleOracle.from_arrays(*_oracle(6).draw(50))
    with pytest.raises(ExamplesExhaustedError):
        list(map_batches(oracle, _both, 51, jobs=jobs))


@pytest.mark.parametrize("unit", [1e-200, 1e200])
def test_the_norm_is_that_of_any_unit(unit):
    assert norm(unit * np.array([[3.0, 4.0]])) == pytest.approx(5 * unit, rel=1e-15)


@pytest.mark.bad_input
@pytest.mark.parametrize("jobs", [0, -2, 1.5, True])
def test_threads_that_are_none_are_refused(jobs):
    with pytest.raises(ValueError, match="jobs is"):
        estimate_projection_sum(_oracle(7), 5, jobs=jobs)

"""The gap of a spectrum: where its sharpest relative step lies, whatever the unit."""

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from upper.six_phase.convex_body import SpectralGap, spectral_gap

SPECTRUM = st.lists(st.floats(1e-6, 1e6), min_size=1, max_size=12).map(
    lambda values: np.sort(np.array(values))
)


@given(SPECTRUM)
def test_is_the_largest_ratio_of_neighbours(spectrum):
    found = spectral_gap(spectrum)
    ratios = spectrum[1:] / spectrum[:-1]
    if found.wide == 0:
        assert np.all(ratios < 1.5)
    else:
        assert found.ratio == ratios.max() >= 1.5
        assert found.ratio == ratios[found.wide - 1]
    assert 0 <= found.wide < len(spectrum)


@given(SPECTRUM, st.integers(-40, 40))
def test_does_not_depend_on_the_unit(spectrum, exponent):
    assert spectral_gap(2.0**exponent * spectrum) == spectral_gap(spectrum)


@given(SPECTRUM, st.data())
def test_a_given_number_of_wide_directions_is_kept(spectrum, data):
    wide = data.draw(st.integers(0, len(spectrum) - 1))
    found = spectral_gap(spectrum, wide=wide)
    assert found.wide == wide
    assert found.ratio == (spectrum[wide] / spectrum[wide - 1] if wide else np.inf)


@given(SPECTRUM, st.data())
def test_looking_for_the_step_finds_none_sharper(spectrum, data):
    assume(len(spectrum) > 1)
    found = spectral_gap(spectrum)
    wide = data.draw(st.integers(1, len(spectrum) - 1))
    assert spectral_gap(spectrum, wide=wide).ratio <= found.ratio


@given(
    below=st.lists(st.floats(0.9, 1.1), min_size=1, max_size=4),
    above=st.lists(st.floats(0.9, 1.1), min_size=1, max_size=8),
    factor=st.floats(3.0, 1e12),
)
def test_a_planted_step_is_found(below, above, factor):
    spectrum = np.concatenate([np.sort(below), factor * np.sort(above)])
    found = spectral_gap(spectrum)
    assert found.wide == len(below)
    assert factor * 0.8 <= found.ratio <= factor * 1.25


@given(st.integers(1, 4), st.integers(1, 5))
def test_zeros_below_are_an_infinite_step(zeros, others):
    spectrum = np.concatenate([np.zeros(zeros), np.ones(others)])
    assert spectral_gap(spectrum) == SpectralGap(zeros, np.inf)


@given(st.integers(1, 6))
def test_rounding_below_zero_counts_as_zero(others):
    """Eigenvalues of exact equations come out as -1e-18 as often as 1e-18."""
    spectrum = np.concatenate([[-1e-18], np.ones(others)])
    assert spectral_gap(spectrum) == SpectralGap(1, np.inf)


@pytest.mark.parametrize("value", [0.0, 1.0])
@pytest.mark.parametrize("size", [1, 2, 5])
def test_equal_values_have_no_step(value, size):
    assert spectral_gap(np.full(size, value)).wide == 0


def test_a_step_below_the_least_is_none():
    assert spectral_gap(np.array([1.0, 1.4, 1.5])) == SpectralGap(0, 1.4)


@pytest.mark.bad_input
@pytest.mark.parametrize("wide", [3, 4, -1, 1.0])
def test_more_wide_directions_than_values_are_refused(wide):
    with pytest.raises(ValueError, match="wide"):
        spectral_gap(np.array([1.0, 2.0, 3.0]), wide=wide)

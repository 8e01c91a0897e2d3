"""The count of statistical queries of phases 1 to 5, and their tolerances."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from upper.six_phase import six_phase_queries


@given(d=st.integers(3, 200), k=st.integers(2, 5))
def test_the_count_is_that_of_the_entries_of_the_moments(d, k):
    """Phase 1: d^2 entries. Phases 2, 4: a form symmetric in two factors. Phase 3: a symmetric and a square matrix."""
    counts = six_phase_queries(tokens=min(k, d - 1), dim=d)
    symmetric = d * (d + 1) // 2
    form = symmetric**2 + d**2 + 3 + 12
    assert [one.count for one in counts] == [d**2, form, symmetric + d**2 + 12, form, 0]
    assert all(0 < one.tolerance <= 1 for one in counts)


@pytest.mark.bad_input
@pytest.mark.parametrize("options", [{"tokens": 8, "dim": 8}, {"tokens": 20, "dim": 30}])
def test_tokens_that_certify_no_agreement_are_refused(options):
    with pytest.raises(ValueError, match=r"2 <= k < d|tokens is 20"):
        six_phase_queries(**options)

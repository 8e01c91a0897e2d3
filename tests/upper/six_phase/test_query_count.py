"""The count of statistical queries of phases 1 to 5, and their tolerances."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from upper.six_phase import QueryPlan, six_phase_queries


@given(d=st.integers(3, 200), k=st.integers(2, 5), steps=st.integers(1, 30))
def test_the_count_is_that_of_the_entries_of_the_moments(d, k, steps):
    """Phase 1: d^2 entries. Phases 2, 4: a form symmetric in two factors. Phase 3: a symmetric and a square matrix."""
    counts = six_phase_queries(QueryPlan(heads=2, tokens=min(k, d - 1), dim=d, steps=steps))
    symmetric = d * (d + 1) // 2
    form = symmetric**2 + d**2 + 3 + steps
    assert [one.count for one in counts] == [d**2, form, symmetric + d**2 + steps, form, 0]
    assert all(0 < one.tolerance <= 1 for one in counts)


def test_tolerances_of_each_agreement_phase_follow_its_own_share_of_rows():
    plan = QueryPlan(heads=2, tokens=2, dim=10, accept=(0.02, 0.005))
    assert plan.agreement_tolerances(2)[0] == pytest.approx(4 * plan.agreement_tolerances(4)[0])
    assert plan.agreement_tolerances(2)[1] > plan.agreement_tolerances(4)[1]


@pytest.mark.bad_input
@pytest.mark.parametrize("options", [{"tokens": 8}, {"accept": (0.1,)}, {"tokens": 20, "dim": 30}])
def test_plans_that_do_not_fit_together_are_refused(options):
    with pytest.raises(ValueError, match=r"2 <= k < d|one for phase 4|tokens is 20"):
        QueryPlan(**{"heads": 2, "tokens": 2, "dim": 8, **options})

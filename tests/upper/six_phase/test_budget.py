"""Shares of a budget: nothing beyond it, no phase starved, leftovers passed on."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from upper.six_phase.learner import Wish, share_of_budget

WISHES = st.lists(
    st.tuples(st.integers(1, 10**6), st.integers(0, 10**3)).map(lambda two: Wish(max(two), min(two))),
    min_size=1,
    max_size=6,
)


@given(WISHES, st.integers(0, 10**7), st.floats(0, 1))
def test_phases_that_draw_what_they_may_stay_within_the_budget(wishes, budget, used):
    plan = {str(place): wish for place, wish in enumerate(wishes)}
    drawn = 0
    enough = budget >= sum(wish.least for wish in wishes)
    for name, wish in plan.items():
        share = share_of_budget(plan, name, budget, drawn)
        assert 0 <= share <= wish.wanted
        assert not enough or share >= wish.least
        drawn += int(used * share)
    assert drawn <= budget


@given(WISHES)
def test_without_a_budget_every_phase_draws_what_it_wants(wishes):
    plan = {str(place): wish for place, wish in enumerate(wishes)}
    assert [share_of_budget(plan, name, None) for name in plan] == [wish.wanted for wish in wishes]


def test_a_cheap_phase_does_not_starve_beside_an_expensive_one():
    plan = {"sum": Wish(64_000, 8), "hull": Wish(10**9, 100)}
    assert share_of_budget(plan, "sum", 300_000) > 2_000


def test_what_a_phase_leaves_goes_to_the_later_ones():
    plan = {"one": Wish(1000, 0), "two": Wish(1000, 0)}
    assert share_of_budget(plan, "two", 1000, share_of_budget(plan, "one", 1000)) == 500
    assert share_of_budget(plan, "two", 1000, 100) == 900


@pytest.mark.parametrize(("budget", "share"), [(0, 0), (3, 3), (10, 5)])
def test_a_budget_below_the_least_is_never_exceeded(budget, share):
    assert share_of_budget({"one": Wish(100, 5), "two": Wish(100, 50)}, "one", budget) == share


def test_the_last_phase_takes_all_that_is_left_of_given_examples():
    wishes = {"one": Wish(100, 10), "two": Wish(400, 0)}
    assert share_of_budget(wishes, "two", 2000, 100) == 400
    assert share_of_budget(wishes, "one", 2000, use_all=True) == 100
    assert share_of_budget(wishes, "two", 2000, 100, use_all=True) == 1900
    assert share_of_budget(wishes, "two", None, 100, use_all=True) == 400

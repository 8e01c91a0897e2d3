"""Shares of a budget: nothing beyond it, no phase starved, leftovers passed on."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from upper.six_phase.plan import Plan, Wish

WISHES = st.lists(
    st.tuples(st.integers(1, 10**6), st.integers(0, 10**3)).map(lambda two: Wish(max(two), min(two))),
    min_size=1,
    max_size=6,
)


@given(WISHES, st.integers(0, 10**7), st.floats(0, 1))
def test_phases_that_draw_what_they_may_stay_within_the_budget(wishes, budget, used):
    plan = Plan({str(place): wish for place, wish in enumerate(wishes)}, budget)
    drawn = 0
    enough = budget >= sum(wish.least for wish in wishes)
    for name, wish in plan.wishes.items():
        share = plan.share(name, drawn)
        assert 0 <= share <= wish.wanted
        assert not enough or share >= wish.least
        drawn += int(used * share)
    assert drawn <= budget
    assert plan.limited == (budget < sum(wish.wanted for wish in wishes))


@given(WISHES)
def test_without_a_budget_every_phase_draws_what_it_wants(wishes):
    plan = Plan({str(place): wish for place, wish in enumerate(wishes)}, None)
    assert [plan.share(name) for name in plan.wishes] == [wish.wanted for wish in wishes]
    assert not plan.limited


def test_a_cheap_phase_does_not_starve_beside_a_dear_one():
    plan = Plan({"sum": Wish(64_000, 8), "hull": Wish(10**9, 100)}, 300_000)
    assert plan.share("sum") > 2_000


def test_what_a_phase_leaves_goes_to_the_later_ones():
    plan = Plan({"one": Wish(1000, 0), "two": Wish(1000, 0)}, 1000)
    assert plan.share("two", plan.share("one")) == 500
    assert plan.share("two", 100) == 900


@pytest.mark.parametrize(("budget", "share"), [(0, 0), (3, 3), (10, 5)])
def test_a_budget_below_the_least_is_never_exceeded(budget, share):
    assert Plan({"one": Wish(100, 5), "two": Wish(100, 50)}, budget).share("one") == share


def test_the_last_phase_takes_all_that_is_left_of_given_examples():
    wishes = {"one": Wish(100, 10), "two": Wish(400, 0)}
    assert Plan(wishes, 2000).share("two", 100) == 400
    whole = Plan(wishes, 2000, use_all=True)
    assert (whole.share("one"), whole.share("two", 100)) == (100, 1900)
    assert Plan(wishes, None, use_all=True).share("two", 100) == 400

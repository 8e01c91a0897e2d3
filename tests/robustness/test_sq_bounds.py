"""Every model and bound of statistical queries in `sq`, asked with what a user may give by mistake."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from fuzzing import Subject, choice, made, real, whole
from sq_makers import CORRELATION, TOLERANCE

import sq
from sq import CSQ, STAT


def tau_is_right(result, given):
    tau = exact(given["tolerance"])
    assert result.tolerance == pytest.approx(float(tau))
    assert 0 < result.tolerance < 1
    values = np.array([-0.5, 0.0, 0.25])
    assert result.allows(values, 0.0).tolist() == [abs(one) <= result.tolerance for one in values]


def examples_are_right(result, given):
    n, p = int(given["examples"]), np.linspace(0, 1, 5)
    np.testing.assert_allclose(
        result.errors(p), [max(1 / n, math.sqrt(one * (1 - one) / n)) for one in p], rtol=1e-12
    )


def exact(value):
    """What a number stands for: the shortest decimal that prints it."""
    return Fraction(repr(float(value)) if isinstance(value, float | np.floating) else value)


def full_cap_is_right(result, given):
    tau = exact(given["tolerance"])
    # strictly below 1/(4 tau^2), and no whole number between
    assert result.whole * 4 * tau**2 < 1 <= (result.whole + 1) * 4 * tau**2


def orthogonal_cap_is_right(result, given):
    tau = exact(given["tolerance"])
    assert result.whole * tau**2 < 1 <= (result.whole + 1) * tau**2


def pairwise_cap_is_right(result, given):
    gamma, tau = exact(given["correlation"]), exact(given["tolerance"])
    assert result.value == (1 - gamma) / (tau**2 - gamma)
    assert result.whole < result.value <= result.whole + 1


def szorenyi_cap_is_right(result, given):
    gamma, tau = exact(given["correlation"]), exact(given["tolerance"])
    assert result.value == 2 * (1 - gamma) / (tau**2 - gamma)
    assert result.whole % 2 == 0
    assert result.whole < result.value <= result.whole + 2


def needed_is_right(result, given):
    left = exact(given["success"]) * int(given["targets"]) - 1
    assert result.value == left / given["cap"].whole
    assert result.whole == max(0, math.ceil(left / given["cap"].whole))


def group_bound_is_right(result, given):
    tau, targets = exact(given["tolerance"]), int(given["targets"])
    most = math.ceil(1 / tau**2) - 1
    halvings = next(steps for steps in itertools.count() if 2**steps >= most)
    assert result == -((1 - targets) // most) + halvings


def visible_is_right(result, given):
    """From a hair above it on the queries are too few, and a hair below they are not."""
    targets, queries = int(given["targets"]), int(given["queries"])
    cap = sq.full_query_cap if given["full"] else sq.orthogonal_cap
    above, below = (Fraction(result) * (1 + Fraction(sign, 10**9)) for sign in (1, -1))
    if targets - 1 > queries and targets < 10**9:
        assert queries * cap(above).whole < targets - 1
        assert queries * cap(below).whole >= targets - 1 or cap(below).whole == cap(above).whole
    assert 0 <= result <= 1


SUBJECTS = [
    *(
        Subject(f"sq.{one.__name__}", one, {"tolerance": TOLERANCE}, right=tau_is_right)
        for one in (CSQ, STAT)
    ),
    Subject("sq.VSTAT", sq.VSTAT, {"examples": whole()}, right=examples_are_right),
    *(
        Subject(f"sq.{one.__name__}", one, {"tolerance": TOLERANCE}, right=right)
        for one, right in (
            (sq.full_query_cap, full_cap_is_right),
            (sq.orthogonal_cap, orthogonal_cap_is_right),
        )
    ),
    *(
        Subject(
            f"sq.{one.__name__}",
            one,
            {"correlation": CORRELATION, "tolerance": TOLERANCE},
            right=right,
            refuses=True,
        )
        for one, right in (
            (sq.pairwise_cap, pairwise_cap_is_right),
            (sq.szorenyi_cap, szorenyi_cap_is_right),
        )
    ),
    Subject(
        "sq.queries_needed",
        sq.queries_needed,
        {"targets": whole(), "cap": made(lambda: sq.orthogonal_cap(0.5), "<cap>"), "success": choice(1, 0.5)},
        right=needed_is_right,
    ),
    Subject(
        "sq.group_learner_bound",
        sq.group_learner_bound,
        {"targets": whole(), "tolerance": real(0.1, 0.5)},
        right=group_bound_is_right,
    ),
    Subject(
        "sq.visible_below",
        sq.visible_below,
        {"targets": whole(2, 9), "queries": whole(), "full": choice(False, True)},
        right=visible_is_right,
    ),
]


@pytest.mark.bad_input
@pytest.mark.parametrize("subject", SUBJECTS, ids=repr)
def test_every_call_is_answered_rightly_or_refused_in_a_sentence(subject, fuzz):
    fuzz(subject)

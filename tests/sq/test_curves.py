import math
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lower import eliminated_per_query, query_lower_bound
from sq.curves import (
    CURVE_LEARNERS,
    CurveCell,
    curve_cells,
    measure_cell,
    visible_below,
)


@settings(max_examples=25, deadline=None)
@given(
    dim=st.integers(2, 10),
    bits=st.integers(1, 3),
    tolerance=st.integers(300, 9999).map(lambda n: n / 1e4),
    oracle=st.sampled_from(["reference", "most-preserving", "exact"]),
    learner=st.sampled_from(["exhaustive", "group", "signed-group"]),
)
def test_every_point_is_right_or_an_honest_refusal_and_keeps_its_bounds(
    dim, bits, tolerance, oracle, learner
):
    point = measure_cell(CurveCell(learner, dim, min(bits, dim - 1), tolerance, oracle))
    assert point.status in ("found", "refused")
    assert (point.queries is None) == (point.status == "refused")
    if oracle == "reference" and learner == "group":
        assert point.cell.lower_bound == point.queries <= point.cell.group_bound
    if oracle != "exact" and point.status == "found":
        assert point.queries >= point.cell.lower_bound


def test_honest_points_count_examples_and_repeat():
    cell = CurveCell("exhaustive", 6, 1, 0.45, "honest", batch=400, seed=3)
    first = measure_cell(cell)
    assert (first.status, first.examples) == ("found", 400 * first.asked)
    assert first == measure_cell(cell)
    cells = curve_cells([12], [2], [0.3, 0.1], oracle="exact", seed=5, learners=["exhaustive", "group"])
    assert len({measure_cell(cell).secret for cell in cells}) == 1  # one target for all
    others = (CurveCell("exhaustive", 12, 2, 0.3, "exact", seed=seed) for seed in range(6))
    assert len({measure_cell(cell).secret for cell in others}) > 1


@pytest.mark.parametrize("learner", CURVE_LEARNERS)
def test_an_honest_batch_left_out_keeps_all_queries_within_the_tolerance(learner):
    cell = CurveCell(learner, 12, 2, 0.3, "honest")
    assert cell.batch == math.ceil(4 * math.log(200 * 55) / 0.09)
    assert curve_cells([12], [2], [0.3], learners=[learner], oracle="honest") == (cell,)
    assert CurveCell(learner, 12, 2, 0.3, "honest", batch=7).batch == 7


@pytest.mark.parametrize(
    ("cell", "said"),
    [
        (CurveCell("group", 400, 30, 0.1), "targets: at most 20,000,000 are"),
        (CurveCell("exhaustive", 10_000, 5000, 0.1), "over 1e300 targets"),
        (CurveCell("exhaustive", 10, 2, 1e-6, "honest"), "A batch has 7.11e+14 numbers"),
        (CurveCell("exhaustive", 10, 2, 1e-300, "honest"), "over 1e300 numbers"),
    ],
)
def test_cells_out_of_reach_are_one_sentence(cell, said):
    point = measure_cell(cell)
    assert (point.status, point.queries, point.asked) == ("not run", None, None)
    assert said in point.explanation
    assert "\n" not in point.explanation


@given(targets=st.integers(1, 10**6), queries=st.integers(1, 10**6))
def test_from_that_tolerance_on_and_not_below_the_queries_are_too_few(targets, queries):
    edge = Fraction(1, math.ceil(Fraction(max(targets - 1, 1), queries)))  # tau^2
    assert visible_below(targets, queries) == math.sqrt(edge)
    assert visible_below(targets, queries, full=True) == math.sqrt(edge) / 2
    if edge < 1 and targets > 1:
        for factor, too_few in ((Fraction(1001, 1000), True), (Fraction(999, 1000), False)):
            tau = Fraction(math.sqrt(edge)) * factor
            if (tau < 1) and (too_few or _one_step_below(targets, queries, tau)):
                assert (queries < query_lower_bound(targets, tau)) is too_few
                half = eliminated_per_query(tau / 2, eigenvalue=Fraction(1, 4))
                assert (queries * half < targets - 1) is too_few


def test_the_edge_of_more_targets_than_a_float_counts_is_exact():
    assert visible_below(10**400, 1) == pytest.approx(1e-200, rel=1e-15)
    assert visible_below(10**400 + 1, 10**390) == pytest.approx(1e-5, rel=1e-15)


def _one_step_below(targets, queries, tau):
    """Whether tau is far enough below the edge for M* to have grown."""
    return math.ceil(1 / tau**2) > math.ceil(Fraction(targets - 1, queries))

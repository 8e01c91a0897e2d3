import json
import math
from fractions import Fraction
from math import comb

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lower import query_lower_bound
from sq.caps import full_query_cap, visible_below
from sq.curves import CURVE_COLUMNS, CURVE_LEARNERS, CurveCell, CurvePoint, curve_cells, measure_cell


@settings(max_examples=25, deadline=None)
@given(
    dim=st.integers(2, 10),
    bits=st.integers(1, 3),
    tolerance=st.integers(300, 9999).map(lambda n: n / 1e4),
    oracle=st.sampled_from(["reference", "most-preserving", "exact"]),
    learner=st.sampled_from(["scan", "group", "signed-group"]),
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


def test_learners_that_ask_plain_functions_count_every_coordinate():
    low = measure_cell(CurveCell("low-degree", 4, 1, 0.2, "exact"))
    assert low.queries == 2 * sum(comb(8, degree) for degree in range(4)) + 1
    descent = measure_cell(CurveCell("descent", 3, 1, 0.01, "exact"))
    # four heads' worth of Theta and v a step, and one query that confirms
    assert descent.status == "found"
    assert (descent.queries - 1) % (3 * 3 + 3) == 0


def test_honest_points_count_examples_and_repeat():
    cell = CurveCell("scan", 6, 1, 0.45, "honest", batch=400, seed=3)
    first = measure_cell(cell)
    assert (first.status, first.examples) == ("found", 400 * first.asked)
    assert first == measure_cell(cell)
    cells = curve_cells([12], [2], [0.3, 0.1], oracle="exact", seed=5, learners=["scan", "group"])
    assert len({measure_cell(cell).secret for cell in cells}) == 1  # one target for all
    assert (
        len({measure_cell(CurveCell("scan", 12, 2, 0.3, "exact", seed=seed)).secret for seed in range(6)}) > 1
    )


@pytest.mark.parametrize("learner", CURVE_LEARNERS)
def test_an_honest_batch_left_out_keeps_all_queries_within_the_tolerance(learner):
    cell = CurveCell(learner, 12, 2, 0.3, "honest")
    asked = {
        "low-degree": 2 * sum(comb(24, degree) for degree in range(6)) + 1,
        "descent": 400 * 4 * (12**2 + 12) + 1,
    }.get(learner, 55)
    assert cell.batch == math.ceil(4 * math.log(200 * asked) / 0.09)
    assert curve_cells([12], [2], [0.3], learners=[learner], oracle="honest") == (cell,)
    assert CurveCell(learner, 12, 2, 0.3, "honest", batch=7).batch == 7


@pytest.mark.parametrize("oracle", ["reference", "exact", "honest"])
def test_parities_of_twenty_bits_and_more_are_measured(oracle):
    point = measure_cell(CurveCell("scan", 22, 20, 0.3, oracle))
    assert (point.cell.targets, point.status) == (21, "found")
    assert len(point.secret) == 20


@pytest.mark.parametrize(
    ("cell", "said"),
    [
        (CurveCell("group", 400, 30, 0.1), "targets: at most 20,000,000 are"),
        (CurveCell("scan", 10_000, 5000, 0.1), "over 1e300 targets"),
        (CurveCell("low-degree", 40, 3, 0.1), "coefficients to ask for: at most 10,000,000"),
        (CurveCell("descent", 20, 1, 0.1), "at most 16 entries"),
        (
            CurveCell("descent", 200, 1, 0.1, "honest", batch=10),
            "takes 1.32e+09 derivatives, of 160800 parameters",
        ),
        (CurveCell("scan", 10, 2, 1e-6, "honest"), "A batch has 7.11e+14 numbers"),
        (CurveCell("scan", 10, 2, 1e-300, "honest"), "over 1e300 numbers"),
    ],
)
def test_cells_out_of_reach_are_one_sentence(cell, said):
    point = measure_cell(cell)
    assert (point.status, point.queries, point.asked) == ("not run", None, None)
    assert said in point.explanation
    assert "\n" not in point.explanation


@pytest.mark.parametrize("learner", ["scan", "low-degree"])
def test_rows_have_all_columns_and_give_the_point_back(learner):
    point = measure_cell(CurveCell(learner, 4, 1, 0.05))
    row = point.row()
    assert tuple(row) == CURVE_COLUMNS
    assert CurvePoint.from_row(json.loads(json.dumps(row))) == point
    with pytest.raises(ValueError, match="no point"):
        CurvePoint.from_row({"learner": learner})


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
                half = full_query_cap(tau / 2).whole
                assert (queries * half < targets - 1) is too_few


def test_the_edge_of_more_targets_than_a_float_counts_is_exact():
    assert visible_below(10**400, 1) == pytest.approx(1e-200, rel=1e-15)
    assert visible_below(10**400 + 1, 10**390) == pytest.approx(1e-5, rel=1e-15)


def _one_step_below(targets, queries, tau):
    """Whether tau is far enough below the edge for M* to have grown."""
    return math.ceil(1 / tau**2) > math.ceil(Fraction(targets - 1, queries))


def test_cells_are_sorted_and_none_is_twice():
    cells = curve_cells([16, 10, 16], [3, 2], [0.1, 0.3], learners=["group", "scan"])
    assert [(c.bits, c.tolerance, c.dim, c.learner) for c in cells[:3]] == [
        (2, 0.3, 10, "scan"),
        (2, 0.3, 10, "group"),
        (2, 0.3, 16, "scan"),
    ]
    assert len(cells) == len(set(cells)) == 16

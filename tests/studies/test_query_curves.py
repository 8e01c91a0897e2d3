"""Query curves: counts against what is proved, a line for every learner and bound, and what six phases need."""

import math

import pytest

from lower import query_lower_bound
from studies import run_study
from studies.query_curves import query_curves, six_phase_curves


def measured(study):
    return run_study(study, isolated=False).rows


def test_counts_hold_the_lower_bound_and_every_learner_and_bound_has_a_line():
    study = query_curves(dims=[8, 10], bits=[1, 2], tau=[0.3, 0.1])
    rows = measured(study)
    assert len(rows) == 2 * 2 * 2 * 3
    for row in rows:
        assert row["lower_bound"] == query_lower_bound(row["targets"], row["tolerance"]) <= row["queries"]
    group = {(row["dim"], row["tolerance"]): row["queries"] for row in rows if row["learner"] == "group"}
    assert group == {(8, 0.3): 2, (8, 0.1): 1, (10, 0.3): 4, (10, 0.1): 1}
    lines = study.tables(rows)["queries"]
    assert [(line["l"], line["tau"], line["d"]) for line in lines[1:3]] == [(1, 0.3, 10), (1, 0.1, 8)]
    assert lines[-1]["group"] == lines[-1]["at least"] == 1
    bounds = {"group's bound (proved)", "lower bound (proved)", "number N of targets"}
    for axes in study.figure(rows).axes:
        assert set(axes.get_legend_handles_labels()[1]) == {"exhaustive", "group", "signed-group"} | bounds
    alone = query_curves(dims=[8, 10], bits=[2], tau=[0.3], learners=["exhaustive"])
    (axes,) = alone.figure(measured(alone)).axes
    assert set(axes.get_legend_handles_labels()[1]) == {"exhaustive", *bounds} - {"group's bound (proved)"}


def test_a_number_that_is_missing_has_its_reason():
    study = query_curves(dims=[4, 10_000], bits=[2], tau=[0.3], learners=["exhaustive"])
    rows = measured(study)
    assert [line["exhaustive"] for line in study.tables(rows)["queries"]] == [2, "not run"]
    ((place, reason),) = study.numbers(rows).items()
    assert place == "exhaustive, not run, such as at l = 2, tau = 0.3, d = 10000"
    assert "targets" in reason


def test_six_phases_mark_exactly_what_the_bound_hides():
    study = six_phase_curves()
    rows = measured(study)
    for row in rows:
        # by the definition: as many queries of that tolerance rule out too few
        most = math.ceil(1 / (4 * row["tolerance"] ** 2)) - 1
        assert row["invisible"] == (row["queries"] * most < row["targets"] - 1)
        assert row["targets"] > 1
    assert {row["heads"] for row in rows if row["invisible"]} == {16}
    *_, last = study.tables(rows)["tolerances"]
    assert [title for title, entry in last.items() if str(entry).endswith("*")] == ["hides l=31, m=16"]
    assert len(study.figure(rows).axes) == 2
    with pytest.raises(ValueError, match="two targets"):
        six_phase_curves(dims=[8], heads=[16])

"""The study of violations: layers with one condition violated, the errors of phases, and what is made of the rows."""

import json
from pathlib import Path

import numpy as np
import pytest

from arena.studies import _violations, _violations_runs
from arena.studies._violations import NICE, VIOLATIONS, violated_layer
from arena.studies._violations_figure import _cell
from arena.studies._violations_runs import (
    BREAKS_AT,
    broken_phase,
    ends_by,
    newton_error,
    phase_errors,
    phase_ratio,
    ratios,
)
from arena.studies.violations import STUDY
from attention import BooleanInputs, ExampleOracle, check_conditions, make_nice_layer
from paper_checks import Scale


def _made(name, step, seed=0):
    heads = 2 if name == NICE else VIOLATIONS[name].heads
    return violated_layer(name, step, heads=heads, tokens=2, dim=16, rng=np.random.default_rng(seed))


@pytest.mark.parametrize("name", VIOLATIONS)
def test_the_condition_is_violated_and_more_so_step_by_step(name, monkeypatch):
    monkeypatch.setattr(_violations, "_TRIES", 2)
    kind = VIOLATIONS[name]
    layers = [_made(name, step).layer for step in (kind.steps[0], kind.steps[-1])]
    mild, extreme = (check_conditions(layer, tokens=2)[kind.condition] for layer in layers)
    assert not mild.verdict
    assert not extreme.verdict
    assert extreme.measured >= mild.measured if mild.better == "small" else extreme.measured <= mild.measured


@pytest.mark.parametrize("name", [name for name in VIOLATIONS if VIOLATIONS[name].heads == 2])
def test_mild_violations_are_alone(name):
    made = _made(name, VIOLATIONS[name].steps[0])
    assert check_conditions(made.layer, tokens=2).violated == (VIOLATIONS[name].condition,)
    assert made.beside == ()


@pytest.mark.parametrize(
    ("name", "step", "measured"),
    [
        ("close heads", 0.2, 1 - 0.2**2 / 2),
        ("opposed heads", 0.9, 0.9),
        ("heavy column", 0.6, 0.6),
        ("trace", 3, 3),
        ("weak head", 20, 20),
        ("large norms", 32, 32),
        ("lattice", 0, 1),
        ("alike W", 0.99, 0.99),
        ("opposed W", 1, 1),
        ("low-rank W", 1, 1),
        ("weak W", 6, 6),
    ],
)
def test_the_amount_is_what_the_condition_measures(name, step, measured):
    assert _made(name, float(step)).measured == pytest.approx(measured, rel=1e-9)


def test_violations_with_one_seed_begin_with_the_same_nice_layer():
    nice, weak, alike = _made(NICE, 0.0), _made("weak W", 6.0), _made("alike W", 0.9)
    assert check_conditions(nice.layer, tokens=2).satisfied
    np.testing.assert_array_equal(nice.layer.theta, weak.layer.theta)
    np.testing.assert_array_equal(nice.layer.w[0], alike.layer.w[0])


def test_opposed_projections_cancel_in_the_sum():
    w = _made("opposed W", 1.0).layer.w
    np.testing.assert_allclose(w.sum(axis=0), 0, atol=1e-12)


@pytest.mark.slow
def test_error_of_phase_one_is_that_of_its_mean_and_the_end_is_exact():
    layer = _made(NICE, 0.0).layer
    run = phase_errors(layer, "practical", tokens=2, rng=np.random.default_rng(5))
    for_oracle, *_ = np.random.default_rng(5).spawn(3)
    x, y = ExampleOracle(layer, BooleanInputs(2, 16), rng=for_oracle).draw(16_000)
    estimate = np.einsum("nad,nbe->de", x, y) / (2 * len(x))
    true = layer.w.sum(axis=0)
    error = np.linalg.norm(estimate - true) / np.linalg.norm(true)
    assert run["errors"]["1"] == pytest.approx(error, rel=0.1)  # other examples, the same bias
    assert list(run["errors"]) == ["1", "3", "4", "5", "6"]
    assert run["failed"] is None
    assert run["error"] < 1e-10
    assert run["errors"]["5"] < 0.05


def test_newton_finds_a_nice_layer():
    layer = _made(NICE, 0.0).layer
    assert newton_error(layer, tokens=2, floors=4, rng=np.random.default_rng(2)) < 1e-10


def test_newton_is_given_as_many_floors_as_are_asked_for(monkeypatch):
    given = []

    class Told:
        def __init__(self, *, m, examples, **_):
            given.append((m, examples))

        def fit(self, oracle, *, rng):
            return oracle.layer_fit

    monkeypatch.setattr(_violations_runs, "Newton", Told)
    monkeypatch.setattr(_violations_runs, "ExampleOracle", lambda layer, *_, **__: FitOf(layer))
    newton_error(_made(NICE, 0.0).layer, tokens=2, floors=28, rng=np.random.default_rng(2))
    assert given == [(2, 28 * 128)]


class FitOf:
    """Of an oracle and of a fit what the measurement reads."""

    def __init__(self, layer):
        self.layer_fit, self.predict = self, layer


def test_projections_that_cancel_end_paper_mode():
    layer = _made("opposed W", 1.0).layer
    run = phase_errors(layer, "paper", tokens=2, rng=np.random.default_rng(5))
    assert run["failed"] is not None
    assert run["errors"]["6"] is None


def _run(errors, failed=None, error=1e-3):
    return {"errors": {str(at + 1): one for at, one in enumerate(errors)}, "failed": failed, "error": error}


def test_the_first_phase_to_break_is_the_first_above_the_factor_or_the_one_that_ends_the_run():
    usual = [_run([0.1, 0.2, 0.01]), _run([0.3, 0.2, 0.01]), _run([0.2, 0.2, 0.01])]
    just_over = BREAKS_AT * 1.01
    assert broken_phase(_run([0.2, 0.2, 0.01]), usual) is None
    assert broken_phase(_run([0.2, 0.2 * just_over, 1.0]), usual) == 2
    assert broken_phase(_run([0.2, 0.2, None], failed=3), usual) == 3
    assert broken_phase(_run([0.2 * just_over, 0.2, None], failed=2), usual) == 1
    assert ratios(_run([0.4, None, 0.02]), usual) == pytest.approx({"1": 2.0, "3": 2.0})
    assert broken_phase(_run([9.0, 9.0, 9.0]), []) is None


@pytest.fixture(scope="module")
def rows():
    """The quick cells with made-up numbers: twice the usual errors, and phase 3 of paper mode fails when opposed."""
    found = []
    for cell in STUDY.cells(Scale.QUICK):
        scale = 1.0 if cell["violation"] == NICE else 2.0
        good = {str(phase): 0.01 * scale for phase in range(1, 7)}
        ended = {**dict.fromkeys("3456"), "1": 0.01, "2": 0.01}
        paper = {"errors": good, "failed": None, "outcome": "REACHED_TOLERANCE", "error": 0.01 * scale}
        if cell["violation"] == "opposed heads":
            paper = {"errors": ended, "failed": 3, "outcome": "NO_LARGE_MARGIN", "error": 0.5}
        practical = {"errors": good, "failed": None, "outcome": "EXACT", "error": 1e-15}
        made = {"paper": paper, "practical": practical}
        nice = cell["violation"] == NICE
        found.append(
            {
                **cell,
                "measured": [None if nice else 0.5] * cell["newton"],
                "holds": [nice] * cell["newton"],
                "beside": [[]] * cell["newton"],
                "stable_ranks": [4.0 / scale] * cell["newton"],
                # with more examples it is exact
                "newton_errors": [1e-14]
                + [scale - 1 if cell["floors"] == 4 else 1e-14] * (cell["newton"] - 1),
                **{mode: [made[mode]] * cell["runs"] for mode in cell["modes"]},
            }
        )
    return found


def headline(rows):
    return STUDY.found(rows).partition("; ")[0]


def test_headline_begins_with_paper_mode_and_says_what_stops_each_learner(rows):
    assert headline(rows) == (
        "One violated condition alone often stops paper mode (1 of 3 settings), never stops practical mode (0 of 4) "
        "and Newton at 28 (0 of 4), mostly stops Newton at 4 counting floors of examples (4 of 4), and paper mode's "
        "first phase to err threefold, or to end, is phase 3 in 1 of 1"
    )


def test_headline_on_newton_at_more_floors_is_of_its_own_rows(rows):
    worse = [{**row, "newton_errors": [0.3, 0.3]} if row["floors"] == 28 else row for row in rows]
    assert "Newton at 4 counting floors of examples (4 of 4) and Newton at 28 (4 of 4)" in headline(worse)
    assert "Newton at 28" not in headline([row for row in rows if row["floors"] == 4])


def test_a_phase_that_is_first_no_more_often_than_another_is_not_named(rows):
    close = {"errors": {"1": 0.5}, "failed": None, "outcome": "EXACT", "error": 0.1}
    tied = [
        {**row, "paper": [close]} if row["violation"] == "close heads" and row["modes"] else row
        for row in rows
    ]
    assert "first phase to err" not in headline(tied)


def test_found_counts_phases_and_newton(rows):
    found = STUDY.found(rows)
    assert (
        "where paper mode first has three times its usual error, or ends, of 3 settings: nowhere in 2, phase 3 in 1;"
        in (found)
    )
    assert (
        "over all 3 settings paper mode fails in a run in 1, in most runs in 1, and its median error is over 10 times "
        "that on nice layers in 1; over all settings Newton is exact throughout in 0 of 4 at 4 counting floors, 4 of 4 "
        "at 28 counting floors, practical mode in 4 of 4;"
    ) in found
    assert "draws in which Newton is exact at 4 counting floors where it is not in all: close heads" in found
    assert "is exact at 28 counting floors where" not in found
    assert "where every run of paper mode ends its error is 2 (close heads" in found


def test_examples_are_told_where_practical_mode_is_exact_and_newton_never(rows):
    never = [
        {
            **row,
            "newton_errors": [0.3, 0.3],
            "practical": [{**run, "examples": 451_000} for run in row["practical"]],
        }
        if row["violation"] == "diagonal" and row["modes"]
        else row
        for row in rows
    ]
    assert (
        "practical mode is exact and Newton with fewest examples never on diagonal 1 (from 500,000 examples, Newton's "
        "512);"
    ) in STUDY.found(never)
    assert "Newton with fewest examples" not in STUDY.found(rows)


def test_phase_one_on_a_low_rank_is_told_against_the_stable_rank(rows):
    low = {**rows[2], "violation": "low rank", "step": 1.0, "stable_ranks": [1.0, 1.0]}
    better = [{**run, "errors": {**run["errors"], "1": 0.007}} for run in low["paper"]]
    words = "phase 1 has 0.7 times its usual error at rank 1 (by the stable rank 2), contrary to what was expected"
    assert words in STUDY.found([rows[0], {**low, "paper": better}])
    assert "contrary to what was expected" not in STUDY.found([rows[0], low])


def test_a_phase_three_that_breaks_without_harm_is_told(rows):
    def with_errors(row, third, fifth):
        errors = {"1": 0.01, "3": third, "4": 0.005, "5": fifth, "6": 0.005}
        return {**row, "practical": [{**run, "errors": errors} for run in row["practical"]]}

    close = rows[2]
    words = "phase 3 of practical mode breaks and phases 4 to 6 are no worse than usual with close heads 0.05"
    assert words in STUDY.found([rows[0], with_errors(close, 0.05, 0.005)])
    assert words not in STUDY.found([rows[0], with_errors(close, 0.05, 0.05)])


def with_beside(row, *draws):
    return {**row, "beside": [list(names) for names in draws]}


def test_settings_that_violate_another_condition_in_some_draw_are_not_in_the_headline(rows):
    changed = [
        with_beside(row, [], ["theta_trace"]) if row["violation"] == "opposed heads" else row for row in rows
    ]
    assert "never stops paper mode (0 of 2 settings), practical mode (0 of 3) and Newton at 28" in headline(
        changed
    )
    assert "of 4 settings 1 violate another condition, too, in some draw: opposed heads 1" in STUDY.found(
        changed
    )
    (line,) = [line for line in STUDY.table(changed).rows if line[0].startswith("opposed heads")]
    assert line[3] == "trace 50 %"
    every = [with_beside(row, ["theta_trace"]) if row["violation"] != NICE else row for row in rows]
    assert "A violated condition, never alone here, often stops paper mode (1 of 3 settings)" in headline(
        every
    )


def test_a_setting_that_does_not_violate_its_condition_is_named(rows):
    assert "holds all the same" not in STUDY.found(rows)
    met = [{**row, "holds": [False, True]} if row["violation"] == "diagonal" else row for row in rows]
    assert "the condition to be violated holds all the same in some draw of diagonal 1;" in STUDY.found(met)


def test_phase_five_of_a_weak_head_is_said_to_be_over_its_own_norm(rows):
    broken = {"errors": {"1": 0.01, "5": 0.5}, "failed": None, "outcome": "EXACT", "error": 1e-15}
    nice = rows[0]
    weak = {**nice, "violation": "weak head", "step": 20.0, "modes": ["practical"], "practical": [broken] * 3}
    words = "phase 5 in 1 (1 with a weak head, whose distance is over its own small norm)"
    assert words in STUDY.found([nice, weak])
    assert words not in STUDY.found([nice, {**weak, "violation": "lattice"}])


def test_every_published_layer_violates_its_condition():
    path = Path(__file__).parents[3] / "docs" / "studies" / "violations.json"
    for row in json.loads(path.read_text(encoding="utf-8"))["rows"]:
        assert any(row.get("holds", ())) == (row["violation"] == NICE and "holds" in row), row["violation"]
        if row["violation"] != NICE:
            nice = make_nice_layer(heads=row["heads"], dim=row["dim"], rng=0)
            one = check_conditions(nice, tokens=2)[VIOLATIONS[row["violation"]].condition]
            extreme = min(row["measured"]) if one.better == "small" else -max(row["measured"])
            assert extreme > (one.threshold if one.better == "small" else -one.threshold), row["violation"]


@pytest.mark.slow
def test_words_table_and_figure_of_many_rows_and_of_one(rows):
    assert [line[0].split(":")[0] for line in STUDY.table(rows).rows] == [
        "nothing, 2 heads",
        "nothing, 3 heads",
        "close heads",
        "opposed heads",
        "diagonal",
        "affinely dependent",
    ]
    assert ">end<" in STUDY.draw(rows).svg
    assert ">Newton 28<" in STUDY.draw(rows).svg
    for row in rows[::3]:
        assert STUDY.found([row]).endswith(".")
        assert len(STUDY.table([row]).rows) == 1
        assert "<svg" in STUDY.draw([row]).svg


def test_figure_shows_no_phase_after_the_one_by_which_most_runs_have_ended():
    usual = [_run([0.1] * 6)]
    runs = [_run([0.1, 0.1], failed=2), _run([0.1, 0.1], failed=3), _run([0.1] * 6)]
    rows = [
        {"violation": name, "step": 1.0, "heads": 2, "modes": ["paper"], "paper": paper}
        for name, paper in ((NICE, usual), ("large norms", runs))
    ]
    assert [_cell(rows, rows[1], "paper", phase)[0] for phase in range(1, 7)] == ["1", "1", "end", "", "", ""]
    assert not ends_by(rows[1], "paper", 2)
    assert phase_ratio(rows, rows[1], "paper", 2) == pytest.approx(1.0)
    assert phase_ratio(rows, rows[1], "paper", 4) is None


def test_cells_are_distinct_and_draw_the_same_layers():
    for scale in Scale:
        cells = STUDY.cells(scale)
        texts = [json.dumps(cell, sort_keys=True) for cell in cells]
        assert len(set(texts)) == len(texts)
        assert len({cell["dim"] for cell in cells if cell["heads"] == 2}) == 1
    assert STUDY.stream == ("heads", "dim")
    assert {cell["violation"] for cell in STUDY.cells(Scale.FULL)} == {NICE, *VIOLATIONS}


@pytest.mark.slow
def test_a_measured_cell_is_plain_json_and_the_same_again():
    cell = {
        "violation": NICE,
        "step": 0.0,
        "heads": 2,
        "dim": 16,
        "modes": ["paper"],
        "runs": 0,
        "newton": 2,
        "floors": 4,
    }
    once, again = (STUDY.measure(rng=np.random.default_rng(1), **cell) for _ in range(2))
    assert json.loads(json.dumps(once, allow_nan=False)) == once == again
    assert max(once["newton_errors"]) < 1e-10
    assert once["holds"] == [True, True]
    layer = _made_by(cell)
    assert once["stable_ranks"][0] == pytest.approx(
        check_conditions(layer, tokens=2)["theta_stable_rank"].measured
    )


def _made_by(cell):
    """The layer of a cell's first draw."""
    stream = np.random.default_rng(1).spawn(1)[0].spawn(2)[0]
    return violated_layer(cell["violation"], cell["step"], heads=2, tokens=2, dim=16, rng=stream).layer


@pytest.mark.slow
def test_newton_alone_with_more_examples_is_measured_on_the_same_layers():
    cell = {"violation": "opposed W", "step": 1.0, "heads": 2, "dim": 16, "modes": [], "runs": 0, "newton": 1}
    few, many = (STUDY.measure(rng=np.random.default_rng(1), **cell, floors=floors) for floors in (4, 28))
    assert few["measured"] == many["measured"]
    assert few["stable_ranks"] == many["stable_ranks"]
    assert few["holds"] == [False]
    assert many["newton_errors"][0] < 1e-10

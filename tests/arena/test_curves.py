"""``curves``: nothing of Theta below the counting floor, all of it from two floors on, and what is kept."""

import math

import numpy as np
import pytest

from arena import nice_target
from arena.targets import layer_target
from attention import AttentionLayer, BooleanInputs, Outcome, make_nice_layer
from runs import Store
from studies import load_result, run_study
from studies.learning_curve import learning_curve
from upper import counting_floor

HEADS, TOKENS, DIM = 2, 3, 6
LAYER = make_nice_layer(heads=HEADS, dim=DIM, rng=0)
FLOOR = counting_floor(heads=HEADS, tokens=TOKENS, dim=DIM)
STUDY = learning_curve(layer_target(LAYER, tokens=TOKENS), TOKENS, seeds=1)


def measured(study, **options):
    return run_study(study, isolated=False, **options).rows


@pytest.fixture(scope="module")
def rows():
    return measured(STUDY)


def by_fraction(rows, access):
    return {row["fraction"]: row for row in rows if row["access"] == access}


def test_theta_is_lost_below_the_counting_floor_and_exact_from_two(rows):
    examples = by_fraction(rows, "random examples")
    assert {row["floor"] for row in rows} == {FLOOR}
    assert examples[2.0]["number"] == 2 * FLOOR
    for fraction, row in examples.items():
        assert fraction > 1 or row["theta_error"] > 0.1
        assert fraction < 2 or row["theta_error"] < 1e-10
        assert Outcome[row["outcome"]].succeeded == (row["theta_error"] < 1e-6)


def test_queries_below_what_is_needed_show_no_theta_and_all_of_them_do(rows):
    queries = by_fraction(rows, "value queries")
    assert set(queries) == {0.5, 0.75, 1.0}
    assert queries[0.5]["theta_error"] == queries[0.75]["theta_error"] == 1
    assert queries[1.0]["theta_error"] < 1e-10
    assert queries[0.5]["number"] == -(-queries[1.0]["number"] // 2)


def test_biases_and_masks_raise_the_floor_and_are_learned():
    rng, plain = np.random.default_rng(0), make_nice_layer(heads=1, dim=6, rng=0)
    layer = AttentionLayer(plain.theta, plain.w, rng.normal(size=(1, 6)), rng.normal(size=6), causal=True)
    rows = measured(learning_curve(layer_target(layer, tokens=3), 3, seeds=1))
    assert rows[0]["floor"] == counting_floor(heads=1, tokens=3, dim=6, biases=True, causal=True)
    assert by_fraction(rows, "random examples")[4.0]["theta_error"] < 1e-8
    assert by_fraction(rows, "value queries")[1.0]["theta_error"] < 1e-8


@pytest.mark.slow
def test_a_second_run_computes_nothing_and_other_layers_are_computed(tmp_path):
    store = Store(tmp_path / "examples.sqlite")
    first, again, other = (
        measured(learning_curve(nice_target(heads=1, tokens=3, dim=4, seed=seed), 3, seeds=1), store=store)
        for seed in (0, 0, 1)
    )
    assert first == again  # their seconds, too
    assert not {row["seconds"] for row in first} & {row["seconds"] for row in other}


@pytest.mark.slow
def test_given_examples_have_a_held_out_error_and_a_certificate(cli, tmp_path):
    x = BooleanInputs(tokens=TOKENS, dim=DIM).sample(100, rng=1)
    for name, array in (("x", x), ("y", LAYER(x))):
        np.save(tmp_path / f"{name}.npy", array)
    given = ["curves", "examples", tmp_path / "x.npy", tmp_path / "y.npy", "--seeds", 1, "--jobs", 1]
    out = cli(*given, "-o", tmp_path / "curve").out
    assert "value queries" not in out
    rows = load_result(tmp_path / "curve" / "examples.csv").rows
    assert {row["floor"] for row in rows} == {FLOOR}
    assert {row["number"] for row in rows} == {
        *(math.ceil(part * FLOOR) for part in (0.5, 0.75, 1, 1.25, 1.5, 2, 4, 8)),
        100 - 5,
    }
    for row in rows:
        if row["fraction"] >= 2:
            assert row["error"] < 1e-10
            assert row["determined"] == 1
            assert row["theta_error"] < 1e-8
        assert row["fraction"] > 1 or row["error"] > 0.1


def test_the_figure_and_the_table_mark_the_counting_floor(rows):
    left, right = STUDY.figure(rows).axes
    assert left.get_legend_handles_labels()[1] == ["Newton, random examples", "By queries"]
    assert right.get_title(loc="left") == "error in Theta, worst head"
    assert FLOOR in left.lines[-1].get_xdata()
    (line,) = (one for one in STUDY.tables(rows)["medians"] if one["number"] == 2 * FLOOR)
    assert line["recovered"] == "1 of 1"
    assert STUDY.numbers(rows) == {"counting floor": str(FLOOR)}

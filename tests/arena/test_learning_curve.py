"""``curves examples``: nothing of Theta below the counting floor, all of it from two floors on, and what is kept."""

import csv
import re
from xml.etree import ElementTree

import numpy as np
import pytest

from arena import nice_target
from arena.learning_curve import draw_learning_curve, learning_curve, learning_table
from arena.targets import layer_target
from attention import AttentionLayer, BooleanInputs, make_nice_layer
from runs import Store
from upper import counting_floor

HEADS, TOKENS, DIM = 2, 3, 12
LAYER = make_nice_layer(heads=HEADS, dim=DIM, rng=0)
FLOOR = counting_floor(heads=HEADS, tokens=TOKENS, dim=DIM)


@pytest.fixture(scope="module")
def points():
    return learning_curve(layer_target(LAYER, tokens=TOKENS), seeds=1, isolated=False)


def by_fraction(points, access):
    return {point.fraction: point for point in points if point.access == access}


def test_theta_is_lost_below_the_counting_floor_and_exact_from_two(points):
    examples = by_fraction(points, "random examples")
    assert {point.floor for point in points} == {FLOOR}
    assert examples[2.0].number == 2 * FLOOR
    for fraction, point in examples.items():
        assert fraction > 1 or point.theta_error > 0.1
        assert fraction < 2 or point.theta_error < 1e-10
        assert point.recovered == (point.theta_error < 1e-6)


def test_queries_below_what_is_needed_show_no_theta_and_all_of_them_do(points):
    queries = by_fraction(points, "value queries")
    assert list(queries) == [0.5, 0.75, 1.0]
    assert queries[0.5].theta_error == queries[0.75].theta_error == 1
    assert queries[1.0].theta_error < 1e-10
    assert queries[0.5].number == -(-queries[1.0].number // 2)


def test_biases_and_masks_raise_the_floor_and_are_learned():
    rng, plain = np.random.default_rng(0), make_nice_layer(heads=1, dim=6, rng=0)
    layer = AttentionLayer(plain.theta, plain.w, rng.normal(size=(1, 6)), rng.normal(size=6), causal=True)
    points = learning_curve(layer_target(layer, tokens=3), seeds=1, isolated=False)
    assert points[0].floor == counting_floor(heads=1, tokens=3, dim=6, biases=True, causal=True)
    assert by_fraction(points, "random examples")[4.0].theta_error < 1e-8
    assert by_fraction(points, "value queries")[1.0].theta_error < 1e-8


@pytest.mark.slow
def test_a_second_run_computes_nothing_and_other_layers_are_computed(points, tmp_path):
    store, target = Store(tmp_path / "examples.sqlite"), nice_target(heads=1, tokens=3, dim=4)
    seen = []

    def interrupt(point):
        seen.append(point)
        if len(seen) == 4:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        learning_curve(target, seeds=1, isolated=False, store=store, on_point=interrupt)
    whole = learning_curve(target, seeds=1, isolated=False, store=store)
    assert set(seen) <= set(whole)  # their seconds, too
    assert learning_curve(target, seeds=1, isolated=False, store=store) == whole
    other = nice_target(heads=1, tokens=3, dim=4, seed=1)
    assert not set(learning_curve(other, seeds=1, isolated=False, store=store)) & set(whole)


@pytest.mark.slow
def test_given_examples_have_a_held_out_error_and_a_certificate(cli, tmp_path):
    x = BooleanInputs(tokens=TOKENS, dim=DIM).sample(100, rng=1)
    for name, array in (("x", x), ("y", LAYER(x))):
        np.save(tmp_path / f"{name}.npy", array)
    given = ["curves", "examples", tmp_path / "x.npy", tmp_path / "y.npy", "--seeds", 1, "--jobs", 1]
    out = cli(*given, "-o", tmp_path / "curve").out
    assert "value queries" not in out
    with (tmp_path / "curve" / "examples.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert {row["floor"] for row in rows} == {str(FLOOR)}
    assert rows[-1]["number"] == str(100 - 5)
    for row in rows:
        exact = float(row["fraction"]) >= 2
        assert (
            float(row["error"]) < 1e-10 if exact else float(row["fraction"]) > 1 or float(row["error"]) > 0.1
        )
        assert not exact or (float(row["determined"]) == 1 and float(row["theta_error"]) < 1e-8)
    assert {path.suffix for path in (tmp_path / "curve").iterdir()} == {
        ".csv",
        ".json",
        ".pdf",
        ".sqlite",
        ".svg",
    }


def test_the_figure_and_the_table_mark_the_counting_floor(points):
    figure = draw_learning_curve(points)
    ElementTree.fromstring(figure.svg)
    labels = set(re.findall(r"<text[^>]*>([^<]*)</text>", figure.svg))
    assert {"Newton, random examples", "By queries", "error in F", "error in Theta, worst head"} <= labels
    assert f"examples or queries (dotted: the counting floor, {FLOOR})" in labels
    text = learning_table(points)
    assert re.search(rf"random examples +{2 * FLOOR} +2 .* 1 of 1", text)
    assert f"Counting floor: {FLOOR}." in text


def test_a_run_that_takes_too_long_is_no_point_and_is_named():
    # a target large enough: a run of .01 s may end before it is stopped
    failed = learning_curve(nice_target(heads=4, tokens=4, dim=32), seeds=1, timeout=0.01)
    assert all(point.message and not point.outcome for point in failed)
    with pytest.raises(ValueError, match="no point"):
        draw_learning_curve(failed)

"""The study of value queries: its cells, the bound beside them, slopes, and one colour a learner."""

import numpy as np
import pytest

from arena.student_table import learner_looks
from runs import Scale
from studies.queries_by_dimension import STUDY


def measured(**cell):
    return cell | STUDY.measure(rng=np.random.default_rng(0), draw=0, **cell)


def test_nice_layers_are_found_above_the_bound():
    pairs = measured(part="nice", name="two tokens", dim=16)
    several = measured(part="nice", name="any tokens", dim=16)
    assert pairs["bound"] == 128
    assert pairs["bound"] < pairs["count"] < 4 * pairs["bound"]
    assert several["count"] < pairs["count"]
    assert several["tokens"] > 2 * several["count"]
    assert max(pairs["error"], several["error"]) < 1e-10


def test_a_parity_is_found_and_has_the_bound_of_its_certificate():
    row = measured(part="hard", name="parity of 3 bits", dim=12)
    assert (row["bound"], row["heads"]) == (2, 2)  # 165 secrets, 99 of which one query can rule out
    assert row["error"] < 1e-8


def row(name, dim, count, error=0.0, part="hard", bound=10):
    return {"part": part, "name": name, "dim": dim, "draw": 0, "count": count, "error": error, "bound": bound}


def test_slopes_and_counts_leave_out_what_was_not_found():
    rows = [row("pair", dim, 3 * dim**2) for dim in (8, 16, 32)] + [row("pair", 32, 5, error=0.5)]
    rows += [row("two tokens", dim, dim**2, part="nice", bound=dim**2 // 2) for dim in (16, 32)]
    numbers = STUDY.numbers(rows)
    assert (numbers["hard"], numbers["nice"]) == ("3 of 4", "2 of 2")
    assert numbers["least_slope"] == numbers["slope_two_tokens"] == "2.00"
    assert numbers["floors_two_tokens"] == "2.00"
    (line, *_) = STUDY.table(rows)
    assert (line["d = 32"], line["found"]) == ("3,072", "3 of 4")


def test_a_learner_has_the_colour_that_it_has_in_a_comparison():
    rows = [row("pair", 8, 5), row("examples", 8, 5, part="nice"), row("two tokens", 8, 5, part="nice")]
    lines = {line.get_label(): line for axes in STUDY.figure(rows).axes for line in axes.get_lines()}
    looks = learner_looks(["newton", "by-queries"])
    assert lines["By queries: pair"].get_color() == looks["by-queries"]["color"]
    assert lines["By queries of two tokens"].get_color() == looks["by-queries"]["color"]
    assert lines["Newton, examples of two tokens"].get_color() == looks["newton"]["color"]


@pytest.mark.parametrize("scale", Scale)
def test_no_family_has_more_hidden_bits_than_coordinates(scale):
    for cell in STUDY.cells(scale):
        if cell["name"] == "centre thresholds":
            assert cell["dim"] > 17

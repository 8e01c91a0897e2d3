"""The table in the terminal: everything in it, nothing wider than asked, hostile names harmless."""

import io
from dataclasses import replace

import pytest

from arena.results import Cell, Results
from arena.table import print_table, table_text
from arena.words import findings, in_order, short_count, short_error, short_seconds


def rows_of(text, title):
    """The block of lines of a target."""
    blocks = text.split("-----\n")
    return next(block for block in blocks if title in block)


def test_the_sample_fits_100_columns_side_by_side(sample_results):
    text = table_text(sample_results)
    assert max(map(len, text.splitlines())) <= 100
    assert text.count("Target ") == 1
    parity = rows_of(text, "Two-head parity")
    for words in ("HARD", "1.16 nothing", "5e-15 learned", "114 ex 4ms", "stuck", "exact", "m=2 k=2 d=48"):
        assert words in parity
    assert "1.0 = nothing learned beyond what is known in advance" in text


def test_only_hard_targets_are_marked_and_stand_below(sample_results):
    text = table_text(replace(sample_results, targets=sample_results.targets[::-1]))
    assert text.count("HARD") == 2
    assert text.index("Nice, 2 heads") < text.index("HARD Learning with")
    assert [target.hard for target in in_order(sample_results)] == [False] * 3 + [True] * 2


@pytest.mark.parametrize("width", [40, 60, 80, 100, 160])
def test_no_line_is_wider_than_asked_and_no_learner_is_lost(sample_results, width):
    text = table_text(sample_results, width=width)
    assert max(map(len, text.splitlines())) <= width
    for word in ("Newton", "Adam", "regression", "Known part", "elimination"):
        assert word in text


def test_what_is_no_terminal_gets_no_colours_and_100_columns(sample_results, monkeypatch):
    monkeypatch.setenv("COLUMNS", "37")
    out = io.StringIO()
    print_table(sample_results, file=out)
    assert "\x1b" not in out.getvalue()
    assert [line.rstrip() for line in out.getvalue().splitlines()] == table_text(sample_results).splitlines()


def test_a_terminal_gets_colours(sample_results, monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    out = Terminal()
    print_table(sample_results, file=out, width=100)
    assert "\x1b[1;32m" in out.getvalue()


def test_a_name_can_neither_move_the_cursor_nor_write_markup(sample_results):
    evil = "a\x1b[2J[red]b\r\nc\x07:smile:"
    first, *others = sample_results.targets
    text = table_text(replace(sample_results, targets=(replace(first, title=evil), *others)))
    assert "\x1b" not in text
    assert "\x07" not in text
    assert "[red]" in text
    assert ":smile:" in text.replace("\n", "")


def test_a_name_the_encoding_lacks_ends_no_run(sample_results):
    first, *others = sample_results.targets
    out = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    print_table(replace(sample_results, targets=(replace(first, title="Θ nice"), *others)), file=out)
    out.flush()
    assert b"? nice" in out.buffer.getvalue()


def test_failures_are_named_below(sample_results):
    cells = [cell for cell in sample_results.cells if (cell.target, cell.learner) != ("lwr", "adam")]
    cells += [Cell("lwr", "adam", seed, "failed", message="It broke.") for seed in (0, 1)]
    text = table_text(replace(sample_results, cells=tuple(cells)))
    assert "Failed: Adam on Learning with rounding, seed 0 (and 1 more): It broke." in text


def test_findings_say_who_learned_what(sample_results):
    assert findings(sample_results) == [
        "All 3 nice targets are learned by Newton and Adam.",
        "Two-head parity is learned only by Parity elimination.",
        "Learning with rounding is learned by nobody: no error is below 0.9.",
    ]


def test_findings_of_a_run_that_stopped(sample_results):
    some = tuple(cell for cell in sample_results.cells if cell.target == "parity")
    said = findings(replace(sample_results, cells=some))
    assert said[0] == "Not finished: 20 of 25 pairs of target and learner have not run."
    # of targets that were not run, or not to the end, nothing can be said
    assert said[1:] == ["Two-head parity is learned only by Parity elimination."]


def test_a_part_learned_is_said(sample_results):
    better = tuple(
        replace(cell, unknown_part_error=0.5) if (cell.target, cell.learner) == ("lwr", "adam") else cell
        for cell in sample_results.cells
    )
    said = findings(replace(sample_results, cells=better))
    assert said[2] == "Learning with rounding is learned by nobody; in part by Adam."


def test_an_empty_comparison_is_a_table_too():
    assert "Target" in table_text(Results({}, (), (), ()))


def test_short_numbers_stay_short():
    for exponent in range(-320, 309):
        for digit in (1.0, 4.996, 9.4999, 9.996, 9.9996):
            value = digit * 10.0**exponent
            assert len(short_error(value)) <= 6
            assert float(short_error(value)) == pytest.approx(value, rel=0.5)
    assert all(len(short_count(10**power - 1)) <= 5 for power in range(13))
    assert all(len(short_seconds(10.0**power)) <= 7 for power in range(-9, 8))

"""The table in the terminal: everything in it, nothing wider than asked, hostile names harmless."""

import io
from dataclasses import replace

import pytest

from arena.results import Cell, Results
from arena.summary import summarise
from arena.table import print_table, table_text
from arena.words import (
    findings,
    in_order,
    interruption,
    outcome_words,
    seeds_wanted,
    short_count,
    short_error,
    short_seconds,
)
from lower import Hardness


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


def test_targets_with_a_secret_are_labelled_and_stand_below(sample_results):
    text = table_text(replace(sample_results, targets=sample_results.targets[::-1]))
    assert "HARD (proved for SQ)" in rows_of(text, "Two-head parity")
    assert text.index("Nice, 2 heads") < text.index("Learning with")
    assert [target.has_secret for target in in_order(sample_results)] == [False] * 3 + [True] * 2


def test_a_target_whose_certificate_says_looks_easy_is_not_labelled_hard(sample_results):
    lines = table_text(sample_results).splitlines()
    place = next(place for place, line in enumerate(lines) if line.startswith("Learning with"))
    assert lines[place - 1].startswith("EASY?")


def test_labels_are_told_under_the_table_where_they_occur(sample_results):
    told = table_text(sample_results, width=200).splitlines()[-1]
    assert all(one.label in told for one in (Hardness.PROVED, Hardness.NEITHER))
    assert Hardness.ASSUMED.label not in told
    nice = replace(sample_results, targets=sample_results.targets[:3], cells=())
    assert "EASY?" not in table_text(nice)


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


def test_an_exact_fit_says_that_newton_alone_found_it(sample_results):
    found = Cell("toy", "six-phase", 0, "done", outcome="EXACT", unknown_part_error=1e-15, alone="Newton")
    others = [replace(found, seed=seed, alone="") for seed in (1, 2)]
    assert outcome_words(summarise([found])) == "exact, by Newton alone"
    assert outcome_words(summarise([found, *others])) == "exact"
    cells = tuple(
        replace(cell, alone="Newton") if cell.outcome == "EXACT" else cell for cell in sample_results.cells
    )
    lines = " ".join(table_text(replace(sample_results, cells=cells)).split())
    assert "Newton alone" in lines
    assert "Newton alone" not in " ".join(table_text(sample_results).split())


def test_time_outs_are_named_below_and_lost_seeds_in_the_cell(sample_results, eventful_results):
    text = table_text(eventful_results)
    assert rows_of(text, "Two-head parity").count("timed out") == 1
    assert "failed" in rows_of(text, "Nice, Gaussian inputs")  # a failure weighs more than a time-out
    assert "1 of 2 seeds" in rows_of(text, "Nice, 4 heads")
    assert "seeds" not in rows_of(text, "Nice, 2 heads")
    assert "seeds" not in table_text(sample_results).replace("median over seeds", "")
    flat = " ".join(text.split())
    assert "Timed out: Adam on Two-head parity, seed 0 (and 1 more): It was stopped after 90 s" in flat
    assert "Failed: Linear regression on Nice, Gaussian inputs, seed 0: LinAlgError" in flat
    assert "Timed out: Linear regression on Nice, Gaussian inputs, seed 1: It was stopped" in flat


def test_a_pair_is_what_the_gravest_of_its_cells_is():
    def cell(seed, status, error=None):
        outcome = "EXACT" if status == "done" else ""
        return Cell("t", "l", seed, status, outcome=outcome, unknown_part_error=error, message=f"{status}.")

    def verdict(*statuses):
        return summarise([cell(seed, status, 1e-9) for seed, status in enumerate(statuses)]).verdict

    assert verdict("timed out", "failed", "not applicable") == "failed"
    assert verdict("not applicable", "timed out") == "timed out"
    assert verdict("not applicable") == "does not apply"
    assert verdict("failed", "done", "timed out") == "learned"
    some = summarise([cell(0, "not applicable"), cell(1, "timed out"), cell(2, "done", 0.1)])
    assert (some.done, some.seeds, some.message) == (1, 3, "timed out.")


def test_how_many_seeds_there_should_be(sample_results):
    assert seeds_wanted(sample_results) == 2
    assert seeds_wanted(replace(sample_results, made={"seeds": 3})) == 3
    assert seeds_wanted(replace(sample_results, made={})) == 2
    assert seeds_wanted(Results({"seeds": "many"}, (), (), ())) == 0
    short = replace(sample_results, made={"seeds": 3})
    assert "2 of 3 seeds" in rows_of(table_text(short), "Nice, 2 heads")


def test_findings_name_those_who_never_came_back(eventful_results):
    assert findings(eventful_results)[0] == "Not finished: 3 of 25 pairs of target and learner have not run."
    assert (
        findings(eventful_results)[-1]
        == "Two-head parity is learned only by Parity elimination; Adam timed out."
    )


def test_an_interruption_is_said_in_words(sample_results, eventful_results):
    assert interruption(sample_results) == ""
    here = "44 of 50 fits are here"
    on = "The same command goes on where it stopped."
    assert interruption(eventful_results) == f"Stopped by hand before the end: {here}. {on}"
    made = {"interrupted": "The store is full.", "seeds": 2}
    said = interruption(replace(eventful_results, made=made))
    assert said == f"Stopped before the end: {here}. The store is full."
    assert interruption(replace(eventful_results, made={"interrupted": True})).startswith("Stopped by hand")


def test_findings_say_who_learned_what(sample_results):
    assert findings(sample_results) == [
        "All 3 nice targets are learned by Newton and Adam.",
        "Two-head parity is learned only by Parity elimination.",
        "Learning with rounding is learned by none of these learners: no error is below 0.9.",
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
    assert said[2] == "Learning with rounding is learned by none of these learners; in part by Adam."


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

"""The table in the terminal: everything in it, nothing wider than asked, hostile names harmless."""

import io
from dataclasses import replace

import pytest

from arena.formats import count_text, error_text, seconds_text
from arena.views.table import print_table, table_text


def block(text, title):
    """The lines of a target."""
    return next(part for part in text.split("-----\n") if title in part)


def test_the_table_says_how_every_learner_did_on_every_target(sample_results):
    text = table_text(sample_results)
    parity = block(text, "Two-head parity")
    for words in ("0.1 of 16215 targets", "1.16 nothing", "5e-15 learned", "114 ex 4ms", "m=2 k=2 d=48"):
        assert words in parity
    assert "Newton: nice: 3 of 3 learned; parity: 0 of 1 learned; lwr: 0 of 1 learned." in text
    assert "nothing learned beyond what is known in advance" in text
    assert str(sample_results) + "\n" == text


@pytest.mark.parametrize("width", [40, 60, 80, 100, 160])
def test_no_line_is_wider_than_asked_and_no_learner_is_lost(eventful_results, width):
    text = table_text(eventful_results, width=width)
    assert max(map(len, text.splitlines())) <= width
    for word in ("Newton", "Adam", "regression", "Known part", "elimination"):
        assert word in text
    headers = " ".join(line for line in text.splitlines() if line.startswith("Target"))
    assert all(learner.title.split()[-1] in headers for learner in eventful_results.learners)


def test_no_text_can_move_the_cursor_or_write_markup(eventful_results):
    evil = "a\x1b[2J[red]b\r\nc\x07:smile:"
    results = replace(
        eventful_results,
        targets=tuple(replace(one, title=evil) for one in eventful_results.targets),
        learners=tuple(replace(one, title=evil) for one in eventful_results.learners),
        cells=tuple(replace(one, message=evil, outcome=evil, alone=evil) for one in eventful_results.cells),
    )
    text = table_text(results)
    assert not [letter for letter in text if not letter.isprintable() and letter != "\n"]
    assert "[red]" in text
    assert ":smile:" in text.replace("\n", "")


def test_a_name_the_encoding_lacks_ends_no_run(sample_results):
    first, *others = sample_results.targets
    out = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    print_table(replace(sample_results, targets=(replace(first, title="Θ nice"), *others)), file=out)
    out.flush()
    assert b"? nice" in out.buffer.getvalue()


def test_what_is_lost_is_told_in_its_cell_and_below(sample_results, eventful_results):
    text = table_text(eventful_results)
    assert "timed out" in block(text, "Two-head parity")
    assert "failed" in block(text, "Nice, Gaussian inputs")  # a failure weighs more than a time-out
    assert "1 of 2 seeds" in block(text, "Nice, 4 heads")
    assert "seeds" not in block(text, "Nice, 2 heads")
    flat = " ".join(text.split())
    assert "linear on nice-gaussian, seed 0, failed: LinAlgError: SVD did not converge" in flat
    assert "adam on parity, seed 1, timed out: It was stopped after 90 s" in flat
    assert "of 2 seeds" not in table_text(sample_results)


def test_short_numbers_stay_short():
    for exponent in range(-320, 309):
        for digit in (1.0, 4.996, 9.4999, 9.996, 9.9996):
            value = digit * 10.0**exponent
            assert len(error_text(value)) <= 6
            assert float(error_text(value)) == pytest.approx(value, rel=0.5)
    assert all(len(count_text(10**power - 1)) <= 5 for power in range(13))
    assert all(len(seconds_text(10.0**power)) <= 7 for power in range(-9, 8))

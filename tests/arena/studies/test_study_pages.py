"""The pages of studies that are kept: written by the command, at full scale, from the studies of today."""

from pathlib import Path

import pytest

from arena.studies import STUDIES, find_study, load_result
from arena.studies.pages import render_index, render_page
from paper_checks import Scale

FOLDER = Path(__file__).parents[3] / "docs" / "studies"
AGAIN = "attention-bounds study {} --scale full --out docs/studies"


@pytest.mark.parametrize("name", STUDIES)
def test_the_page_is_what_the_command_writes_from_rows_measured_by_the_code_of_today(name):
    study, result = find_study(name), load_result(FOLDER / f"{name}.json")
    again = AGAIN.format(name)
    assert result.scale is Scale.FULL
    assert result.fingerprint == study.fingerprint, again
    assert not result.failures, again
    cells = study.cells(Scale.FULL)
    assert len(result.rows) == len(cells), again
    for row, cell in zip(result.rows, cells, strict=True):
        assert {key: row[key] for key in cell} == dict(cell), again
    page = render_page(study, result, alt=study.draw(result.rows).words)
    assert (FOLDER / f"{name}.rst").read_text(encoding="utf-8") == page, again
    assert (FOLDER / f"{name}.svg").stat().st_size > 1000
    assert len((FOLDER / f"{name}.csv").read_bytes().splitlines()) >= len(cells) + 1


def test_the_overview_is_what_the_command_writes():
    results = {name: load_result(FOLDER / f"{name}.json") for name in STUDIES}
    text = render_index(results, [find_study(name) for name in STUDIES])
    assert (FOLDER / "index.rst").read_text(encoding="utf-8") == text, AGAIN.format("all")

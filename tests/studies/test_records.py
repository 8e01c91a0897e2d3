"""The committed records of all studies, and the pages filled in from them."""

from pathlib import Path

import pytest

from attention import FileFormatError
from runs import Scale
from studies import STUDIES, find_studies, load_result, write_study
from studies.folder import render_page

RECORDS = Path(__file__).parents[2] / "docs" / "studies"


@pytest.mark.parametrize("name", STUDIES)
def test_a_record_has_the_cells_of_its_study_and_fills_its_page(name):
    (study,) = find_studies([name])
    assert study.name == name
    result = load_result(RECORDS / f"{name}.json")
    rows, wanted = result.rows, study.cells(result.scale)
    assert result.scale is Scale.FULL
    assert [{key: row[key] for key in cell} for row, cell in zip(rows, wanted, strict=True)] == list(wanted)
    table = study.table(rows)
    assert table
    assert all(list(line) == list(table[0]) for line in table)
    assert all(isinstance(text, str) for line in table for text in line.values())
    assert study.figure(rows).axes
    page = render_page((RECORDS / f"{name}.rst").read_text(), study, result)
    assert any(str(number) in page for number in study.numbers(rows).values())
    assert "{{" not in page


def test_what_is_written_is_read_back(tmp_path):
    (study,) = find_studies(["linear-random"])
    result = load_result(RECORDS / "linear-random.json")
    files = write_study(tmp_path, study, result)
    assert {path.suffix for path in files} == {".json", ".csv", ".svg", ".pdf"}
    assert load_result(tmp_path / "linear-random.json") == result
    assert files[1].read_text() == (RECORDS / "linear-random.csv").read_text()
    for text in ("", "[]", "{}", '{"version": 2}'):
        files[0].write_text(text)
        with pytest.raises(FileFormatError, match="no record of a study"):
            load_result(files[0])


@pytest.mark.bad_input
def test_no_such_study():
    with pytest.raises(ValueError, match="no study 'nothing'"):
        find_studies(["nothing"])

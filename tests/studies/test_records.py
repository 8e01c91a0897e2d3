"""The committed records of all studies: their cells, the pages filled in from them, and the figures that are quoted."""

import tomllib
from pathlib import Path

import pytest
from jinja2 import UndefinedError

from attention import FileFormatError
from runs import Scale
from studies import STUDIES, find_studies, load_result, write_study
from studies.folder import render_page

FIGURES = tomllib.loads(Path(__file__).with_name("figures.toml").read_text())


@pytest.mark.parametrize("name", STUDIES)
def test_a_record_has_the_cells_of_its_study_and_fills_its_page(name, record, records):
    (study,) = find_studies([name])
    assert study.name == name
    result = record(name)
    rows, wanted = result.rows, study.cells(result.scale)
    assert result.scale is Scale.FULL
    assert [{key: row[key] for key in cell} for row, cell in zip(rows, wanted, strict=True)] == list(wanted)
    table = study.table(rows)
    assert table
    assert all(list(line) == list(table[0]) for line in table)
    assert all(isinstance(text, str) for line in table for text in line.values())
    assert study.figure(rows).axes
    numbers = study.numbers(rows)
    page = (records / f"{name}.rst").read_text()
    assert page == render_page((records / f"{name}.rst.j2").read_text(), study, result)
    assert any(str(number) in page for number in numbers.values())
    quoted = FIGURES.get(name, {})
    assert {key: str(numbers[key]) for key in quoted} == quoted


def test_what_is_written_is_read_back(tmp_path, record, records):
    (study,) = find_studies(["linear-random"])
    result = record("linear-random")
    (tmp_path / "linear-random.rst.j2").write_text("{{ cells }} cells")
    files = write_study(tmp_path, study, result)
    assert {path.suffix for path in files} == {".json", ".csv", ".svg", ".pdf", ".rst"}
    assert files[-1].read_text() == f"{len(result.rows)} cells"
    assert load_result(tmp_path / "linear-random.json") == result
    assert files[1].read_text() == (records / "linear-random.csv").read_text()
    with pytest.raises(UndefinedError):
        render_page("{{ n.nothing }}", study, result)
    for text in ("", "[]", "{}", '{"version": 2}'):
        files[0].write_text(text)
        with pytest.raises(FileFormatError, match="no record of a study"):
            load_result(files[0])

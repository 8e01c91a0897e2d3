"""The committed records of all studies: their cells, the pages filled in from them, and the figures that are quoted."""

import tomllib
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jinja2 import UndefinedError
from matplotlib.figure import Figure

from attention import FileFormatError
from runs import Scale
from studies import STUDIES, StudyResult, find_studies, load_result, write_study
from studies.folder import render_page
from studies.rows import chosen, number_text
from tests.studies.test_running import TOY

FIGURES = tomllib.loads(Path(__file__).with_name("figures.toml").read_text())
VALUES = (
    st.none() | st.booleans() | st.integers() | st.sampled_from([0.5, -2.5e-14, 3.0]) | st.text('1"a,\n #e.-')
)


@pytest.mark.parametrize("name", STUDIES)
def test_a_record_has_the_cells_of_its_study_and_fills_its_page(name, record, records):
    (study,) = find_studies([name])
    assert study.name == name
    result = record(name)
    assert result.scale is Scale.FULL
    cells = list(study.cells(result.scale))
    assert all(chosen(result.rows, **cell) for cell in cells)
    assert sum(len(chosen(result.rows, **cell)) for cell in cells) == len(result.rows)
    assert study.figure(result.rows).axes
    page = (records / f"{name}.rst").read_text()
    assert page == render_page((records / f"{name}.rst.j2").read_text(), study, result)
    numbers = {key: number_text(value) for key, value in study.numbers(result.rows).items()}
    assert any(number in page for number in numbers.values())
    quoted = FIGURES.get(name, {})
    assert {key: numbers[key] for key in quoted} == quoted
    assert (records / f"{name}.csv").stat().st_size <= 20_000
    assert (records / f"{name}.svg").stat().st_size <= 60_000


@given(rows=st.lists(st.fixed_dictionaries({"size": VALUES, "value": VALUES}), min_size=1, max_size=5))
def test_what_is_written_is_read_back(tmp_path_factory, rows):
    toy = StudyResult("toy", Scale.FULL, 3, tuple(rows), (), {"numpy": "2"})
    folder = tmp_path_factory.mktemp("study")
    write_study(folder, replace(TOY, figure=lambda rows: Figure()), toy)
    assert load_result(folder / "toy.csv") == toy


def test_files_that_are_no_records_are_refused(tmp_path):
    toy = StudyResult("toy", Scale.FULL, 3, ({"size": 1, "draw": 0, "value": 2.0},))
    (tmp_path / "toy.rst.j2").write_text("{{ cells }} cells, {{ n.least }}")
    files = write_study(tmp_path, TOY, toy)
    assert {path.suffix for path in files} == {".csv", ".svg", ".pdf", ".rst"}
    assert files[-1].read_text() == "1 cells, 2.00"
    with pytest.raises(UndefinedError):
        render_page("{{ n.nothing }}", TOY, toy)
    for text in (
        "",
        "# {}",
        "# []\na\n1",
        "a,b\n1,2",
        '# {"study": "a", "scale": "full", "seed": 0}\na\n1,2',
    ):
        files[0].write_text(text)
        with pytest.raises(FileFormatError, match="no record of a study"):
            load_result(files[0])

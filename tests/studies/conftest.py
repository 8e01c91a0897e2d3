"""What every committed record of a study must pass."""

from pathlib import Path

import pytest

from studies.folder import load_result, render_page

RECORDS = Path(__file__).parents[2] / "docs" / "studies"


@pytest.fixture
def shown_record():
    """Gives the committed record of a study: its cells are the study's; its table, figure and page can be made."""
    return _shown_record


def _shown_record(study):
    result = load_result(RECORDS / f"{study.name}.json")
    wanted = study.cells(result.scale)
    assert [{key: row[key] for key in cell} for row, cell in zip(result.rows, wanted, strict=True)] == list(
        wanted
    )
    assert all(isinstance(text, str) for line in study.table(result.rows) for text in line.values())
    assert study.figure(result.rows).axes
    assert "{{" not in render_page((RECORDS / f"{study.name}.rst").read_text(), study, result)
    return result

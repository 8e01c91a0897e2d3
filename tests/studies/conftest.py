"""The committed records of the studies."""

from pathlib import Path

import pytest

from studies import load_result

RECORDS = Path(__file__).parents[2] / "docs" / "studies"


@pytest.fixture
def record():
    """Gives the committed record of a study by its name."""
    return lambda name: load_result(RECORDS / f"{name}.json")

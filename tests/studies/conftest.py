"""The committed records of the studies."""

from pathlib import Path

import pytest

from studies import load_result


@pytest.fixture
def records():
    """Where they are, with the pages."""
    return Path(__file__).parents[2] / "docs" / "studies"


@pytest.fixture
def record(records):
    """Gives the record of a study by its name."""
    return lambda name: load_result(records / f"{name}.csv")

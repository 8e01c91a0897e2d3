"""The claims page that is kept: written by the command, from the checks of today."""

from pathlib import Path

import pytest

from paper_checks import Verdict, all_checks
from paper_checks.claims_folder import ClaimsFolder

FOLDER = Path(__file__).parents[2] / "docs" / "claims"
AGAIN = (
    "attention-bounds check --scale full --inject, and give it the changed checks' names to run those alone"
)


@pytest.fixture(scope="module")
def kept():
    return ClaimsFolder(FOLDER)


def test_the_page_is_what_the_command_writes(kept):
    pages = dict(kept.pages(all_checks()))
    assert {path for path in FOLDER.iterdir() if path.suffix == ".rst"} == set(pages), AGAIN
    for path, text in pages.items():
        assert path.read_text(encoding="utf-8") == text, AGAIN


def test_every_check_of_today_was_run_and_held_and_failed_on_its_injected_error(kept):
    shown = kept.shown(all_checks())
    assert {one.id for one in all_checks()} == set(shown), AGAIN
    for result in shown.values():
        assert result.verdict is Verdict.HOLDS, result.id
        assert result.injected is Verdict.FAILS, result.id

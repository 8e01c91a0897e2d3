"""The results of claims that are kept: of the checks of today, and each as it must be."""

from pathlib import Path

from paper_checks import Verdict, all_checks
from paper_checks.claims_folder import ClaimsFolder

FOLDER = Path(__file__).parents[2] / "docs" / "claims"
AGAIN = (
    "attention-bounds check --scale full --inject, and give it the changed checks' names to run those alone"
)


def test_every_check_of_today_was_run_and_held_and_failed_on_its_injected_error():
    results = ClaimsFolder(FOLDER).shown(all_checks())
    assert {one.id for one in all_checks()} == set(results), AGAIN
    for result in results.values():
        assert result.verdict is Verdict.HOLDS, result.id
        assert result.injected is Verdict.FAILS, result.id

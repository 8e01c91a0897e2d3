"""Statistical queries: bounds and counts: every check holds, and is seen to fail on its injected error."""

import pytest

from paper_checks import Verdict, run_check

GROUP = "queries"
SLOW = {"queries/honest-scan", "queries/sandwich", "queries/table"}


def test_holds(check):
    result = run_check(check)
    if result.verdict is Verdict.SKIPPED:
        pytest.skip(result.reason)
    assert result.verdict is Verdict.HOLDS, result


def test_fails_on_its_injected_error(check):
    result = run_check(check, constants=check.wrong)
    if result.verdict is Verdict.SKIPPED:
        pytest.skip(result.reason)
    assert result.verdict is Verdict.FAILS, result

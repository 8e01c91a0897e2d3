"""Every check of the group that a test file names, run as it is and with its injected error."""

from functools import cache

import pytest

from paper_checks import Kind, Verdict, find_checks, run_check


def pytest_generate_tests(metafunc):
    if "check" in metafunc.fixturenames:
        checks = find_checks([metafunc.module.GROUP])
        slow = getattr(metafunc.module, "SLOW", ())
        marked = [pytest.param(one, marks=pytest.mark.slow) if one.id in slow else one for one in checks]
        metafunc.parametrize("check", marked, ids=[one.id for one in checks])


@cache
def _run(name):
    (check,) = find_checks([name])
    return run_check(check)


@pytest.fixture
def result(check):
    found = _run(check.id)
    if found.verdict is Verdict.SKIPPED:
        pytest.skip(found.reason)
    return found


@pytest.fixture
def injected(check, result):
    return run_check(check, inject=True)


@pytest.fixture
def expectations():
    """What each comparison of a result holds its figure against; the rule of an interval tells what was measured."""

    def of(result):
        return [
            (one.expected, "" if one.kind is Kind.STATISTICAL else one.rule) for one in result.comparisons
        ]

    return of

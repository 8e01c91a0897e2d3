"""Every check of the group that a test file names."""

import pytest

from paper_checks import find_checks


def pytest_generate_tests(metafunc):
    if "check" in metafunc.fixturenames:
        checks = find_checks([metafunc.module.GROUP])
        slow = getattr(metafunc.module, "SLOW", ())
        marked = [pytest.param(one, marks=pytest.mark.slow) if one.id in slow else one for one in checks]
        metafunc.parametrize("check", marked, ids=[one.id for one in checks])

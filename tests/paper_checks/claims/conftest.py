"""Every check of the group that a test file names."""

from paper_checks import find_checks


def pytest_generate_tests(metafunc):
    if "check" in metafunc.fixturenames:
        checks = find_checks([metafunc.module.GROUP])
        metafunc.parametrize("check", checks, ids=[one.id for one in checks])

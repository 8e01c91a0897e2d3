"""The fixture by which the tests here try a subject."""

import sys
from collections import Counter
from pathlib import Path

import pytest

# the engine stands beside the tests, and importlib-style collection does not make it importable
sys.path.insert(0, str(Path(__file__).parent))


def pytest_collection_modifyitems(items):
    for item in items:
        if "fuzz" in getattr(
            item, "fixturenames", ()
        ):  # arrays are given as tensors, too, where PyTorch is installed
            item.add_marker("extras")


@pytest.fixture
def fuzz(request):
    """Try one subject with as many cases as the session asks for, count them, and fail with what was found."""
    from fuzzing import run
    from report import COUNTS

    def tried(subject):
        if subject.needs:
            pytest.importorskip(subject.needs, reason=f"{subject.needs} is not installed")
        number = request.config.getoption("--fuzz-cases")
        tally = run(subject, number)
        if not tally.counts["answer"] and not tally.violations:  # few cases may all be wrong ones
            tally = run(subject, 10 * number)
        request.config.stash[COUNTS].setdefault(subject.name, Counter()).update(tally.counts)
        if tally.violations:
            pytest.fail("\n".join(tally.violations.values()), pytrace=False)
        # a function that refuses everything keeps the law and is no use
        assert tally.counts["answer"] or subject.refuses, (
            f"{subject.name} answered none of {tally.counts.total()} calls"
        )

    return tried

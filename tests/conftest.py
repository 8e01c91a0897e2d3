"""Shapes in annotations are enforced at run time here, and only here; and every process computes in one thread."""

import os
import sys
from pathlib import Path

import jaxtyping
import pytest
from hypothesis import settings
from threadpoolctl import threadpool_limits

# there are as many processes as cores: more threads would only wait for one another
for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "1")
threadpool_limits(limits=1)  # of libraries that are loaded already

# of properties that name no number of their own; a busy machine is no failure
settings.register_profile("suite", max_examples=40, deadline=None)
settings.load_profile("suite")

PACKAGES = ["attention", "upper", "lower", "sq", "lwe", "paper_checks", "arena"]
# importlib-style collection may import a package before this file's imports below it: the hook comes first
jaxtyping.install_import_hook(PACKAGES, "beartype.beartype")


@pytest.fixture(autouse=True)
def _shape_checks_step_aside(request):
    """Let wrong input reach the library's own errors in tests marked ``bad_input``."""
    if request.node.get_closest_marker("bad_input") is None:
        yield
        return
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)


# the longest tests, which say little that shorter ones do not: a line each, as pytest names them
_SLOW = frozenset(Path(__file__).with_name("slow.txt").read_text(encoding="utf-8").splitlines())


def pytest_addoption(parser):
    parser.addoption(
        "--slow", action="store_true", help="run also the longest tests, those in tests/slow.txt"
    )
    parser.addoption(
        "--fuzz-cases",
        type=int,
        default=10,
        metavar="N",
        help="calls on which the tests in tests/robustness try each public function (10; 300 is a deep run)",
    )


def pytest_configure(config):
    # registered here: the process that prints the summary may collect nothing, and so never see that folder
    folder = str(Path(__file__).with_name("robustness"))
    if folder not in sys.path:
        sys.path.insert(0, folder)
    from report import CountsPlugin

    config.pluginmanager.register(CountsPlugin(), "robustness-counts")


def pytest_collection_modifyitems(config, items):
    if config.getoption("--slow"):
        return
    skip = pytest.mark.skip(reason="one of the longest tests: pytest --slow runs it, too")
    for item in items:
        if item.nodeid in _SLOW:
            item.add_marker(skip)

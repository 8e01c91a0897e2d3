"""Shapes in annotations are enforced at run time here, and only here; and every process computes in one thread."""

import os
import zlib
from pathlib import Path

import jaxtyping
import pytest
from hypothesis import HealthCheck, settings
from threadpoolctl import threadpool_limits

# there are as many processes as cores: more threads would only wait for one another
for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "1")
threadpool_limits(limits=1)  # of libraries that are loaded already

# of properties that name no number of their own; a busy machine is no failure
settings.register_profile(
    "suite", max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("suite")

ROOT = Path(__file__).parents[1]
PACKAGES = ("attention", "upper", "lower", "sq", "lwe", "paper_checks", "arena")
# many small calls: checks would double the time of the estimates of costs, and triple that of Newton
BUSY = ("lwe/costs/", "upper/engine.py", "upper/newton/full_heads.py", "upper/newton/loop.py")
MODULES = [
    name.removesuffix(".py").replace("/", ".")
    for package in PACKAGES
    for path in (ROOT / package).rglob("*.py")
    if path.stem != "__init__" and not (name := path.relative_to(ROOT).as_posix()).startswith(BUSY)
]
# importlib-style collection may import a package before this file's imports below it: the hook comes first
jaxtyping.install_import_hook(MODULES, "beartype.beartype")


@pytest.fixture(autouse=True)
def _shape_checks_step_aside(request):
    """Let wrong input reach the library's own errors in tests marked ``bad_input``."""
    if request.node.get_closest_marker("bad_input") is None:
        yield
        return
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)


def pytest_addoption(parser):
    parser.addoption("--slow", action="store_true", help="run also the tests marked slow")
    parser.addoption(
        "--sixth",
        type=int,
        metavar="N",
        help="run also a sixth of the tests marked slow; N to N + 5, whatever N is, are all of them",
    )
    parser.addoption(
        "--passed",
        type=Path,
        metavar="FILE",
        help="leave out the tests that FILE names, and add those that pass",
    )


def pytest_configure(config):
    # the process that hears of all tests keeps what passed
    if config.getoption("--passed") and not hasattr(config, "workerinput"):
        config.pluginmanager.register(_Passed(config.getoption("--passed")), "passed")


def pytest_collection_modifyitems(config, items):
    path, sixth = config.getoption("--passed"), config.getoption("--sixth")
    passed = set(path.read_text(encoding="utf-8").splitlines()) if path and path.exists() else ()

    def chosen(item):
        if item.nodeid in passed:
            return False
        if item.get_closest_marker("slow") is None or config.getoption("--slow"):
            return True
        return sixth is not None and (zlib.crc32(item.nodeid.encode()) - sixth) % 6 == 0

    config.hook.pytest_deselected(items=[item for item in items if not chosen(item)])
    items[:] = [item for item in items if chosen(item)]


class _Passed:
    """Keeps the names of the tests that pass, but not of those that do more where the extras are installed."""

    def __init__(self, path):
        self.path, self.names = path, []

    def pytest_runtest_logreport(self, report):
        if report.when == "call" and report.passed and "extras" not in report.keywords:
            self.names.append(f"{report.nodeid}\n")

    def pytest_sessionfinish(self):
        with self.path.open("a", encoding="utf-8") as file:
            file.writelines(self.names)

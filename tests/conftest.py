"""Shapes in annotations are enforced at run time here, and only here; and every process computes in one thread."""

import collections
import dataclasses
import functools
import os
import signal
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
    "suite", max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("suite")

MOST_TOUCHED = 90  # slow tests of the packages that a change touches; they take two seconds each
CHECKED = 5  # calls of a function in a test: a check costs more than most functions themselves
_calls = collections.Counter()
_every_call = jaxtyping.jaxtyped


def _first_calls(kind=None, *, typechecker):
    """Check the shapes of a function's first calls in each test, or those of a dataclass's fields."""
    if kind is None:
        return functools.partial(_first_calls, typechecker=typechecker)
    if isinstance(kind, type):
        if dataclasses.is_dataclass(kind) and "__init__" in vars(kind):
            kind.__init__ = _first_calls(kind.__init__, typechecker=typechecker)
        return kind
    # without shapes there is little that mypy does not see, and to check a function costs milliseconds once
    if not any("jaxtyping" in repr(hint) for hint in kind.__annotations__.values()):
        return kind
    checking = None
    name = f"{kind.__module__}.{kind.__qualname__}"  # as a key the function would keep what it closes over

    @functools.wraps(kind)
    def call(*given, **named):
        nonlocal checking
        number = _calls[name]
        if number == CHECKED or jaxtyping.config.jaxtyping_disable:
            return kind(*given, **named)
        _calls[name] = number + 1
        if checking is None:  # here, because it costs more than to define the function
            checking = _every_call(kind, typechecker=typechecker)
        return checking(*given, **named)

    return call


jaxtyping.jaxtyped = _first_calls  # what the hook decorates by
# importlib-style collection may import a package before this file's imports below it: the hook comes first
jaxtyping.install_import_hook(
    ["attention", "upper", "lower", "sq", "lwe", "paper_checks", "arena"], "beartype.beartype"
)


@pytest.fixture(autouse=True)
def _shapes_are_checked(request):
    """Check anew in each test, but let wrong input reach the library's own errors in tests marked ``bad_input``."""
    _calls.clear()
    jaxtyping.config.update("jaxtyping_disable", request.node.get_closest_marker("bad_input") is not None)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)


@pytest.fixture(scope="module", autouse=True)
def signals_that_are_heard():
    """What is started in the background, or by nohup, hands ignored signals on to what tests start and interrupt."""
    numbers = [getattr(signal, name) for name in ("SIGINT", "SIGHUP", "SIGTERM") if hasattr(signal, name)]
    ignored = [number for number in numbers if signal.getsignal(number) is signal.SIG_IGN]
    for number in ignored:
        signal.signal(number, signal.default_int_handler if number is signal.SIGINT else signal.SIG_DFL)
    yield
    for number in ignored:
        signal.signal(number, signal.SIG_IGN)


def pytest_addoption(parser):
    parser.addoption("--slow", action="store_true", help="run also the tests marked slow")
    parser.addoption(
        "--sixth",
        type=int,
        metavar="N",
        help="run also a sixth of the tests marked slow; N to N + 5, whatever N is, are all of them",
    )
    parser.addoption(
        "--touched",
        metavar="NAMES",
        help=f"run also tests marked slow in these folders of tests, separated by commas: about {MOST_TOUCHED} at most",
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
    folders = tuple(f"tests/{name}/" for name in (config.getoption("--touched") or "").split(",") if name)
    passed = set(path.read_text(encoding="utf-8").splitlines()) if path and path.exists() else ()
    slow = {item.nodeid for item in items if item.get_closest_marker("slow") is not None}
    touched = {name for name in slow if name.startswith(folders)}
    parts = max(1, -(-len(touched) // MOST_TOUCHED))  # after a large change each run takes the next part

    def in_turn(name, parts):
        return (zlib.crc32(name.encode()) - (sixth or 0)) % parts == 0

    def chosen(item):
        if item.nodeid in passed:
            return False
        if item.nodeid not in slow or config.getoption("--slow"):
            return True
        if item.nodeid in touched and in_turn(item.nodeid, parts):
            return True
        return sixth is not None and in_turn(item.nodeid, 6)

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

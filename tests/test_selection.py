"""Which tests a run takes: the fast ones, a sixth of the slow ones, and none that passed elsewhere."""

from pathlib import Path
from types import SimpleNamespace

import pytest

NAMES = [f"tests/test_it.py::test_case[{number}]" for number in range(60)]


@pytest.fixture
def taken(request):
    """The names that are left of one fast test and sixty slow ones under some options."""
    hooks = request.config.pluginmanager.get_plugin(str(Path(__file__).with_name("conftest.py")))

    def call(**options):
        config = SimpleNamespace(
            getoption=lambda name: options.get(name.strip("-")),
            hook=SimpleNamespace(pytest_deselected=lambda items: None),
        )
        fast = SimpleNamespace(nodeid="fast", get_closest_marker=lambda name: None)
        slow = [
            SimpleNamespace(nodeid=name, get_closest_marker=lambda name: name == "slow") for name in NAMES
        ]
        items = [fast, *slow]
        hooks.pytest_collection_modifyitems(config, items)
        return [item.nodeid for item in items]

    return call


def test_slow_tests_are_left_out_of_a_plain_run_and_taken_when_asked_for(taken):
    assert taken() == ["fast"]
    assert taken(slow=True) == ["fast", *NAMES]


@pytest.mark.parametrize("first", [0, 115])
def test_six_runs_in_a_row_take_every_slow_test_once(taken, first):
    parts = [taken(sixth=first + number) for number in range(6)]
    assert all(part[0] == "fast" for part in parts)
    assert sorted(name for part in parts for name in part[1:]) == sorted(NAMES)
    assert all(2 <= len(part[1:]) <= 20 for part in parts)


def test_what_passed_elsewhere_is_left_out(taken, tmp_path):
    passed = tmp_path / "passed"
    assert taken(passed=passed) == ["fast"]
    passed.write_text(f"fast\n{NAMES[0]}\n")
    assert taken(passed=passed, slow=True) == NAMES[1:]


def test_what_passes_is_kept_unless_it_does_more_with_the_extras(request, tmp_path):
    hooks = request.config.pluginmanager.get_plugin(str(Path(__file__).with_name("conftest.py")))
    kept = hooks._Passed(tmp_path / "passed")
    for name, passed, keywords in (("one", True, {}), ("failed", False, {}), ("more", True, {"extras": 1})):
        for when in ("setup", "call"):
            kept.pytest_runtest_logreport(
                SimpleNamespace(nodeid=name, when=when, passed=passed, keywords=keywords)
            )
    kept.pytest_sessionfinish()
    assert (tmp_path / "passed").read_text() == "one\n"

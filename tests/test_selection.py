"""Shapes are checked; a run takes the fast tests, a sixth of the slow ones, and none that passed elsewhere."""

from pathlib import Path
from types import SimpleNamespace

import jaxtyping
import numpy as np
import pytest

from attention.errors import ParameterErrors
from upper.engine import choose_engine

NAMES = [f"tests/test_it.py::test_case[{number}]" for number in range(60)]


@pytest.fixture
def hooks(request):
    return request.config.pluginmanager.get_plugin(str(Path(__file__).with_name("conftest.py")))


@pytest.fixture
def taken(hooks):
    """The names that are left of one fast test and sixty slow ones under some options."""

    def call(**options):
        config = SimpleNamespace(
            getoption=lambda name: options.get(name.strip("-")),
            hook=SimpleNamespace(pytest_deselected=lambda items: None),
        )
        items = [SimpleNamespace(nodeid="fast", get_closest_marker=lambda name: None)]
        items += [
            SimpleNamespace(nodeid=name, get_closest_marker=lambda name: name == "slow") for name in NAMES
        ]
        hooks.pytest_collection_modifyitems(config, items)
        return [item.nodeid for item in items]

    return call


def test_slow_tests_are_taken_when_asked_for_all_or_in_sixths(taken):
    assert taken() == ["fast"]
    assert taken(slow=True) == ["fast", *NAMES]
    parts = [taken(sixth=115 + number) for number in range(6)]
    assert all(part[0] == "fast" and 2 <= len(part[1:]) <= 20 for part in parts)
    assert sorted(name for part in parts for name in part[1:]) == sorted(NAMES)


def test_slow_tests_of_the_packages_touched_are_taken(taken, monkeypatch):
    names = ["tests/upper/test_a.py::test", "tests/upper_b/test_a.py::test", "tests/sq/test_a.py::test"]
    monkeypatch.setitem(globals(), "NAMES", names)
    assert taken(touched="") == ["fast"]
    assert taken(touched="upper") == ["fast", names[0]]
    assert taken(touched="lwe,sq,upper") == ["fast", names[0], names[2]]


def test_what_passed_is_kept_and_left_out_unless_it_does_more_with_the_extras(taken, hooks, tmp_path):
    passed = tmp_path / "passed"
    kept = hooks._Passed(passed)
    for name, good, keywords in (("fast", True, {}), ("failed", False, {}), ("more", True, {"extras": 1})):
        for when in ("setup", "call"):
            kept.pytest_runtest_logreport(
                SimpleNamespace(nodeid=name, when=when, passed=good, keywords=keywords)
            )
    kept.pytest_sessionfinish()
    assert passed.read_text() == "fast\n"
    assert taken(passed=passed, slow=True) == NAMES


def test_the_first_calls_of_a_function_in_a_test_are_held_to_their_annotations(hooks):
    derivative, two, one = choose_engine("numpy").softmax_derivative, np.ones((2, 3)), np.ones((1, 3))
    with pytest.raises(jaxtyping.TypeCheckError, match=r"parameters of upper\.engine.*softmax_derivative"):
        derivative(two, one)
    with pytest.raises(jaxtyping.TypeCheckError, match=r"parameters of attention\.errors\.ParameterErrors"):
        ParameterErrors(np.ones(2), np.ones(3), matching=np.arange(2), key_bias=np.ones(2), bias=0.0)
    for _ in range(hooks.CHECKED - 1):
        derivative(two, two)
    derivative(two, one)  # no longer checked

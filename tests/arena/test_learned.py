"""One learner on one target from Python: the numbers of a comparison, the words of the command."""

import json
from dataclasses import dataclass, replace

import numpy as np
import pytest

from arena import Learned, compare, learn, load_target, nice_target, parity_target, save_target
from arena.cli.main import run
from arena.learned import UnusedSettingError
from arena.students import STUDENTS, DoesNotApplyError
from attention import FileFormatError
from attention.files import load_layer
from attention.inputs import inputs_to_json
from upper import KnownPart, LinearBaseline, Newton


@pytest.fixture(scope="module")
def nice():
    return nice_target(heads=2, tokens=3, dim=8, seed=1)


@pytest.fixture(scope="module")
def learned(nice):
    return learn(nice, "newton", seed=3)


def test_newton_learns_a_nice_layer(learned, nice):
    assert learned.fit.outcome.name == "EXACT"
    assert learned.error == learned.measures["unknown_part_error"] < 1e-12
    x = nice.inputs.sample(5, rng=0)
    np.testing.assert_allclose(learned.layer(x), nice.layer(x), atol=1e-11)
    assert (learned.target, learned.learner.name, learned.seed) == (nice.record, "newton", 3)
    assert learned.learner.parameters["m"] == 2
    assert repr(learned).startswith("<Learned: Newton on Nice, 2 heads, 3 tokens, EXACT, error ")
    assert len(repr(learned)) < 100


@pytest.mark.parametrize("name", [pytest.param("newton", marks=pytest.mark.slow), "linear", "known-part"])
def test_the_numbers_are_those_of_a_comparison(nice, name):
    results = compare([nice], name, seeds=2, isolated=False)
    for cell in results.cells:
        alone = learn(nice, name, seed=cell.seed, preset="quick")
        for measure in ("relative_error", "unknown_part_error"):
            assert alone.measures[measure] == getattr(cell, measure)
        assert alone.fit.examples_used == cell.examples_used


@pytest.mark.slow
def test_words_and_json_are_the_commands(nice, tmp_path, capsys):
    path = tmp_path / "nice.safetensors"
    save_target(path, nice)
    alone = learn(path, "newton", seed=3)
    assert run(["learn", str(path), "--seed", "3"]) == 0
    assert timeless(capsys.readouterr().out) == timeless(str(alone) + "\n")
    assert run(["learn", str(path), "--seed", "3", "--json", "-o", str(tmp_path / "f.safetensors")]) == 0
    said = json.loads(capsys.readouterr().out)
    assert (said.pop("file"), said.pop("fitted")) == (str(path), str(tmp_path / "f.safetensors"))
    assert without_seconds(said) == without_seconds(alone.to_json())
    assert alone.save(tmp_path / "g.safetensors") == tmp_path / "g.safetensors"
    assert (tmp_path / "g.safetensors").read_bytes() == (tmp_path / "f.safetensors").read_bytes()


def timeless(text):
    return [line for line in text.splitlines() if "seconds" not in line]


def without_seconds(said):
    trace = [{name: value for name, value in step.items() if name != "seconds"} for step in said["trace"]]
    return {**said, "seconds": None, "trace": trace}


def test_a_saved_fit_is_a_target_again(learned, nice, tmp_path):
    path = learned.save(tmp_path / "fitted.safetensors")
    made = {"generator": "learn newton", "target": nice.name, "seed": 3, "outcome": "EXACT"}
    assert load_layer(path).made == made
    again = load_target(path)
    assert inputs_to_json(again.inputs) == inputs_to_json(nice.inputs)
    np.testing.assert_array_equal(again.layer.theta, learned.layer.theta)
    np.testing.assert_array_equal(again.layer.w, learned.layer.w)


def test_without_a_layer_there_is_nothing_to_save(nice, tmp_path):
    improper = learn(nice, "linear")
    assert improper.layer is None
    with pytest.raises(ValueError, match="Linear baseline ended without a layer: there is nothing to save"):
        improper.save(tmp_path / "f.safetensors")
    assert not list(tmp_path.iterdir())


def test_what_is_not_finite_becomes_null(learned):
    broken = replace(learned, measures={"relative_error": np.inf, "unknown_part_error": np.nan})
    said = broken.to_json()
    assert (said["relative_error"], said["unknown_part_error"], said["theta_error"]) == (None, None, None)
    json.dumps(said, allow_nan=False)
    assert "relative error               inf" in str(broken)


def test_a_learner_may_be_a_name_a_student_or_an_object(nice):
    by_name, by_student = learn(nice, "linear", examples=64), learn(nice, STUDENTS["linear"], examples=64)
    by_object = learn(nice, LinearBaseline(examples=64))
    assert by_name.error == by_student.error == by_object.error
    assert by_object.learner.title == "LinearBaseline"
    assert isinstance(by_object, Learned)


def test_settings_replace_the_learners_own(nice):
    steps = []
    few = learn(nice, Newton(m=2), heads=1, work=5, examples=400, progress=steps.append)
    parameters = few.learner.parameters
    assert (parameters["m"], parameters["work"], parameters["examples"]) == (1, 5, 400)
    assert few.layer.heads == 1
    assert tuple(steps) == few.fit.trace


@pytest.mark.bad_input
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"learner": "nobody"}, "'nobody' is no learner"),
        ({"learner": "newton,linear"}, "2 learners are named: learn runs one"),
        ({"learner": 7}, "7 is no learner"),
        ({"preset": "slow"}, "'quick' or 'full'"),
        ({"work": 0}, "work is 0: a whole number of at least 1"),
        ({"examples": 3}, "at least"),
        ({"learner": "elimination"}, "attack on hidden parities only"),
        ({"learner": "known-part", "examples": 3}, "Known part has no use for examples"),
        ({"learner": LinearBaseline(), "heads": 2}, "LinearBaseline has no use for heads"),
    ],
)
def test_what_cannot_be_learned_is_a_sentence(nice, options, message):
    with pytest.raises(ValueError, match=message):
        learn(nice, **options)


def test_errors_have_their_kinds(nice, tmp_path):
    with pytest.raises(DoesNotApplyError):
        learn(nice, "elimination")
    with pytest.raises(UnusedSettingError) as caught:
        learn(nice, "linear", work=3)
    assert (caught.value.title, caught.value.setting) == ("Linear baseline", "work")
    with pytest.raises(FileFormatError):
        learn(tmp_path / "absent.safetensors")


def test_elimination_finds_a_parity():
    found = learn(parity_target(heads=2, dim=12, seed=1), "elimination", seed=2)
    assert found.error < 1e-12
    assert str(found).splitlines()[0] == "Elimination on: Parity of 3 bits, 2 heads"


@dataclass(frozen=True)
class _Broken(KnownPart):
    def fit(self, oracle, *, rng=None, truth=None, progress=None):
        raise RuntimeError("the learner broke")


def test_a_learner_that_breaks_is_heard(nice):
    with pytest.raises(RuntimeError, match="the learner broke"):
        learn(nice, _Broken())

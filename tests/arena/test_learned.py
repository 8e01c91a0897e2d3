"""One learner on one target: the numbers of a comparison, noise, heads found, what an interruption leaves."""

import json
import re
from dataclasses import replace

import numpy as np
import pytest

from arena import (
    compare,
    learn,
    load_target,
    lwr_target,
    nice_target,
)
from attention import relative_error
from attention.files import load_layer
from attention.inputs import inputs_to_json
from lwe import DiscreteGaussian
from upper import Newton


@pytest.fixture(scope="module")
def learned(nice):
    return learn(nice, "newton", seed=3)


@pytest.mark.parametrize(
    "name", [pytest.param("newton", marks=pytest.mark.slow), "linear", "known-component"]
)
def test_the_numbers_are_those_of_a_comparison(nice, name):
    for cell in compare([nice], name, seeds=2, isolated=False).cells:
        alone = learn(nice, name, seed=cell.seed, preset="quick")
        for measure in ("relative_error", "unknown_part_error"):
            assert alone.measures[measure] == getattr(cell, measure)
        assert alone.fit.examples_used == cell.examples_used


@pytest.mark.parametrize("as_json", [True, False])
def test_a_full_disk_loses_no_result(cli, file, tmp_path, monkeypatch, as_json):
    def full(*arguments, **named):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("arena.learned.save_layer", full)
    said = cli("learn", file, "-o", tmp_path / "f.safetensors", *["--json"] * as_json, status=1)
    assert ("relative_error" if as_json else "relative error") in said.out
    assert "No space left" in said.err


def test_text_json_and_file_are_the_commands(learned, cli, file, tmp_path):
    def timeless(text):
        return [line for line in text.splitlines() if "seconds" not in line]

    assert timeless(cli("learn", file, "--seed", 3).out) == timeless(str(learned))
    said = json.loads(cli("learn", file, "--seed", 3, "--json", "-o", tmp_path / "f.safetensors").out)
    assert (said.pop("file"), said.pop("fitted")) == (str(file), str(tmp_path / "f.safetensors"))
    own = learned.to_json()
    assert set(said) == set(own)
    assert all(said[name] == own[name] for name in own if name not in ("seconds", "trace"))
    learned.save(tmp_path / "g.safetensors")
    ours, theirs = load_layer(tmp_path / "g.safetensors"), load_layer(tmp_path / "f.safetensors")
    assert {**ours.made, "target": ""} == {**theirs.made, "target": ""}
    np.testing.assert_array_equal(ours.layer.theta, theirs.layer.theta)


def test_a_saved_fit_is_a_target_again(learned, nice, tmp_path):
    path = learned.save(tmp_path / "fitted.safetensors")
    made = {"generator": "learn newton", "target": nice.name, "seed": 3, "outcome": "EXACT"}
    assert load_layer(path).made == made
    again = load_target(path)
    assert inputs_to_json(again.inputs) == inputs_to_json(nice.inputs)
    np.testing.assert_array_equal(again.layer.theta, learned.layer.theta)


def test_what_is_not_finite_becomes_null(learned):
    broken = replace(learned, measures={"relative_error": np.inf, "unknown_part_error": np.nan}).to_json()
    assert json.loads(json.dumps(broken, allow_nan=False))["relative_error"] is None


def test_settings_replace_the_learners_own(nice):
    steps = []
    few = learn(nice, Newton(heads=2), heads=1, work=5, examples=400, progress=steps.append)
    parameters = few.learner.parameters
    assert (parameters["heads"], parameters["work"], parameters["examples"]) == (1, 5, 400)
    assert few.layer.heads == 1
    assert tuple(steps) == few.fit.trace
    assert any(step.layer is not None for step in steps)
    assert all(step.layer is None for step in few.fit.trace)


@pytest.mark.slow
def test_newton_finds_the_level_of_the_noise_that_is_added(nice, tmp_path):
    noisy = learn(nice, noise=0.05, examples=600)
    found = noisy.to_json()
    assert (noisy.fit.outcome.name, noisy.noise) == ("NOISE_FLOOR", 0.05)
    # 256 unknowns; of Gaussian noise the estimate has relative standard deviation 1 / sqrt(2 (N k d - p))
    equations = found["examples_used"] * 3 * 8
    assert found["noise_level"] == pytest.approx(0.05, rel=5 / np.sqrt(2 * (equations - 256)))
    assert found["expected_excess"] == pytest.approx(found["noise_level"] ** 2 * 256 / equations)
    assert noisy.measures["relative_error"] < 0.05
    assert noisy.to_json()["noise_level"] == found["noise_level"]
    assert f"{found['noise_level']:.3g}" in str(noisy)
    assert load_layer(noisy.save(tmp_path / "f.safetensors")).made["noise"] == 0.05
    assert learn(nice, "linear", noise=3.0).error > 1.02 * learn(nice, "linear").error


@pytest.mark.bad_input
def test_noise_on_labels_that_have_errors_of_their_own_is_refused():
    rounding = {"n": 4, "q": 8, "p": 2}
    with pytest.raises(ValueError, match="have errors of their own: leave it out"):
        learn(lwr_target(**rounding, Xe=DiscreteGaussian(1.0)), "linear", noise=0.1)
    assert learn(lwr_target(**rounding), "linear", noise=0.1, examples=500).noise == 0.1


@pytest.mark.slow
def test_heads_found_are_trusted_where_they_explain_the_examples(nice):
    target = nice_target(heads=4, tokens=4, dim=16, seed=1)
    few, enough = (learn(target, heads="auto", examples=examples) for examples in (50, None))
    assert (few.heads_found, few.fit.outcome.succeeded) == (few.layer.heads, False)
    assert (enough.heads_found, enough.fit.outcome.succeeded) == (4, True)
    assert "not to be trusted" in str(few)
    noisy = learn(nice, heads="auto", noise=0.05, examples=600)
    assert (noisy.heads_found, noisy.fit.outcome.succeeded) == (2, True)
    assert learn(target, heads=2, work=10).heads_found is None


@pytest.mark.parametrize("tokens", [1, 2])
def test_of_one_token_it_says_that_theta_cannot_be_found(tokens):
    learned = learn(nice_target(heads=2, tokens=tokens, dim=6, seed=1), "newton")
    assert learned.fit.outcome.name == "EXACT"
    assert ("examples tell nothing of Theta" in str(learned)) is (tokens == 1)
    assert (learned.measures["theta_error"] > 0.1) is (tokens == 1)


@pytest.fixture
def interrupted(monkeypatch):
    """`learn`, interrupted by the third step that has a layer."""

    def call(*given, progress, **settings):
        there = []

        def until(step):
            progress(step)
            there.extend([step] * (step.layer is not None))
            if len(there) == 3:
                raise KeyboardInterrupt

        return learn(*given, progress=until, **settings)

    monkeypatch.setattr("arena.cli.learn.learn", call)


def test_an_interrupted_fit_leaves_its_layer_and_says_how_good_it_is(cli, file, tmp_path, interrupted):
    out = tmp_path / "fitted.safetensors"
    said = cli("learn", file, "-o", out, status=130).err
    assert said.count("\n") == 1
    error = float(re.search(r"relative error (\S+) is in", said)[1])
    target = load_target(file)
    x = target.inputs.sample(2000, rng=5)
    assert relative_error(load_target(out).layer(x), target.layer(x)) == pytest.approx(error, rel=0.2)
    assert "nothing is written" in cli("learn", file, status=130).err

"""Learning from examples in files: what is held out is never learned from, and nothing else is measured."""

import json
from dataclasses import replace

import numpy as np
import pytest

from arena import learn
from arena.targets import load_target
from attention import AttentionLayer, BooleanInputs, ExampleOracle, make_nice_layer
from attention.evaluation import orbits
from attention.files import load_layer, write_tensors
from upper import LinearBaseline

LAYER = make_nice_layer(heads=2, dim=6, rng=0)
N = 400


@pytest.fixture
def files(tmp_path):
    x, y = ExampleOracle(LAYER, BooleanInputs(3, 6), rng=1).draw(N)
    np.save(tmp_path / "x.npy", x)
    np.save(tmp_path / "y.npy", y)
    write_tensors(tmp_path / "both.safetensors", "examples", {"x": x, "y": y}, {})
    return tmp_path / "x.npy", tmp_path / "y.npy"


def test_newton_finds_the_layer_of_the_examples(cli, files, tmp_path):
    fitted = tmp_path / "fitted.safetensors"
    said = json.loads(cli("learn", "--examples-from", *files, "--heads", 2, "-o", fitted, "--json").out)
    assert (said["outcome"], said["files"], said["file"]) == ("EXACT", [str(file) for file in files], None)
    assert (said["examples"], said["tokens"], said["dim"]) == (N, 3, 6)
    assert said["held_out"] == pytest.approx(N // 20, abs=1)  # some of the inputs follow from others
    assert said["examples_used"] == N - said["held_out"]
    assert said["held_out_error"] < 1e-10
    assert not {"relative_error", "theta_error", "unknown_part_error"} & set(said)
    x = BooleanInputs(3, 6).sample(20, rng=5)
    np.testing.assert_allclose(load_layer(fitted).layer(x), LAYER(x), atol=1e-9)
    assert load_target(fitted, tokens=3).record.dim == 6
    with pytest.raises(ValueError, match="give --tokens"):
        load_target(fitted)


def test_one_file_of_both_is_the_same_as_two(cli, files, tmp_path):
    one = json.loads(cli("learn", tmp_path / "both.safetensors", "--heads", 2, "--seed", 3, "--json").out)
    two = json.loads(cli("learn", "--examples-from", *files, "--heads", 2, "--seed", 3, "--json").out)
    assert one["held_out_error"] == two["held_out_error"]
    assert one["file"] == str(tmp_path / "both.safetensors")


def test_what_is_held_out_is_not_learned_from(files):
    x = np.load(files[0])
    x[100:200] = x[:100]  # copies go together
    np.save(files[0], x)
    learned, seen = seen_by_learner(files)
    fitted, given = (set(orbits(part).tolist()) for part in (seen, x))
    assert len(seen) + learned.data["held_out"] == N
    held = given - fitted
    assert len(held) == N // 20
    assert sum(one in held for one in orbits(x).tolist()) == learned.data["held_out"] > len(held)
    kept = np.array([one in fitted for one in orbits(x).tolist()])
    np.testing.assert_array_equal(seen, x[kept])  # in order


def seen_by_learner(files):
    """A learner on the examples, and the inputs that it is given: those not held out at seed 0."""
    seen = []

    class Spy(LinearBaseline):
        def fit(self, oracle, **settings):
            seen.append(oracle.draw(oracle.remaining)[0])
            return super().fit(ExampleOracle(LAYER, BooleanInputs(3, 6), rng=0), **settings)

    return learn(files, Spy()), seen[0]


def test_the_held_out_error_is_that_of_the_predictor(files):
    y = np.load(files[1])
    np.save(files[1], y + np.random.default_rng(0).standard_normal(y.shape))
    learned = learn(files, "newton", heads=2, examples=10_000)
    assert learned.fit.outcome.name == "NOISE_FLOOR"
    assert learned.to_json()["noise_level"] > 0
    share = 1 / np.sqrt(1 + np.mean(y**2))  # noise is what is left of a label
    assert learned.error == pytest.approx(share, rel=0.25)


@pytest.mark.parametrize("learner", ["newton", "l-bfgs", "linear", "linear-attention", "one-step"])
def test_outcome_and_error_are_of_the_same_held_out_examples(files, learner):
    heads = 2 if learner in ("newton", "l-bfgs") else None
    learned = learn(files, learner, heads=heads)
    assert learned.fit.examples_used == N - learned.data["held_out"]
    if learner != "one-step":  # it has no verdict
        assert learned.fit.held_out_error == pytest.approx(learned.error, rel=1e-6, abs=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("labels", ["others", "zero"])
def test_a_fit_that_held_out_examples_contradict_is_not_exact(files, labels):
    x, y = np.load(files[0]), np.load(files[1])
    held = ~np.isin(orbits(x), orbits(seen_by_learner(files)[1]))
    y[held] = y[held] + 1.0 if labels == "others" else 0.0
    np.save(files[1], y)
    learned = learn(files, "newton", heads=2)
    assert learned.fit.outcome.name == "OVERFITTED"
    assert learned.error > 0.1  # absolute at zero labels, which have no relative error
    assert learned.certificate is None


@pytest.mark.slow
def test_labels_that_are_all_zero_lose_no_fit(files):
    np.save(files[1], np.zeros_like(np.load(files[1])))
    learned = learn(files, "newton", heads=2)
    assert (learned.fit.outcome.name, learned.error) == ("EXACT", 0)


@pytest.mark.parametrize("learner", ["linear", "one-step", "known-component"])
def test_learners_without_heads_need_no_number(cli, files, learner):
    said = json.loads(cli("learn", "--examples-from", *files, "--learner", learner, "--json").out)
    assert 0.1 < said["held_out_error"] <= 1
    assert said["certificate"] is None
    assert said["uncertified"]


def test_it_says_why_a_certificate_is_left_out(cli, files, monkeypatch):
    arguments = ["learn", "--examples-from", *files, "--heads", 2]
    assert json.loads(cli(*arguments, "--json").out)["uncertified"] == ""
    assert "is left out: the fit did not succeed." in cli(*arguments, "--work", 1).out
    monkeypatch.setattr("arena.sources._MOST_CERTIFIED", 71)
    assert "is left out: Theta and c have 72 entries, and more than 71 take minutes" in cli(*arguments).out


@pytest.mark.parametrize("heads", ["2", "auto"])
def test_biases_are_learned_where_the_examples_need_them(cli, tmp_path, heads):
    rng = np.random.default_rng(0)
    layer = AttentionLayer(LAYER.theta, LAYER.w, rng.standard_normal((2, 6)), rng.standard_normal(6))
    x = BooleanInputs(3, 6).sample(N, rng=1)
    np.savez(tmp_path / "both.npz", x=x, y=layer(x))
    result = json.loads(cli("learn", tmp_path / "both.npz", "--heads", heads, "--json").out)
    assert (result["outcome"], result["biases"]) == ("EXACT", True)
    result = json.loads(
        cli("learn", tmp_path / "both.npz", "--heads", 2, "--no-biases", "--work", 500, "--json").out
    )
    assert (result["succeeded"], result["biases"]) == (False, False)


@pytest.mark.parametrize("heads", ["2", "auto"])
def test_a_causal_layer_is_found_by_its_examples(cli, tmp_path, heads):
    x = BooleanInputs(3, 6).sample(N, rng=1)
    both = tmp_path / "both.npz"
    np.savez(both, x=x, y=replace(LAYER, causal=True)(x))
    result = json.loads(cli("learn", both, "--heads", heads, "--json").out)
    assert (result["outcome"], result["causal"]) == ("EXACT", True)
    assert "causal, without biases" in cli("learn", both, "--heads", 2).out
    result = json.loads(cli("learn", both, "--heads", 2, "--no-causal", "--work", 500, "--json").out)
    assert (result["succeeded"], result["causal"]) == (False, False)


def test_a_student_too_small_has_a_residual_and_no_noise(cli, files):
    text = cli("learn", "--examples-from", *files, "--heads", 1).out
    assert "residual, not noise" in text
    assert "noise on the labels" not in text

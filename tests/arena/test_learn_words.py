"""What `learn` says beyond its errors: the noise, the heads it found, one token, and examples that are too few."""

import json
import re

import numpy as np
import pytest

from arena import layer_target, learn, load_target, lwr_target, nice_target, save_target
from arena.phases import learn_phases
from attention import AttentionLayer, BooleanInputs
from attention.metrics import relative_error
from upper import Newton


@pytest.fixture(scope="module")
def nice():
    return nice_target(heads=2, tokens=3, dim=8, seed=1)


@pytest.fixture
def file(nice, tmp_path):
    path = tmp_path / "nice.safetensors"
    save_target(path, nice)
    return path


@pytest.mark.slow
def test_newton_finds_the_level_of_the_noise_that_is_added(cli, file):
    command = ["learn", file, "--noise", 0.05, "--examples", 600]
    said = json.loads(cli(*command, "--json").out)
    assert (said["outcome"], said["noise"]) == ("RESIDUAL_FLOOR", 0.05)
    # 256 unknowns; of Gaussian noise the estimate has relative standard deviation 1 / sqrt(2 (N k d - p))
    equations = said["examples_used"] * 3 * 8
    assert said["noise_level"] == pytest.approx(0.05, rel=5 / np.sqrt(2 * (equations - 256)))
    assert said["expected_excess"] == pytest.approx(said["noise_level"] ** 2 * 256 / equations)
    assert said["relative_error"] < 0.05
    words = cli(*command).out
    assert "noise on the labels, added   0.05\n" in words
    found = re.search(
        r"noise on the labels, found +(\S+) an entry \(expected excess squared error (\S+)\)", words
    )
    assert float(found[1]) == pytest.approx(said["noise_level"], rel=1e-2)
    assert float(found[2]) == pytest.approx(said["expected_excess"], rel=0.1)


def test_without_noise_there_is_no_word_of_it(nice):
    learned = learn(nice, "newton", seed=3)
    said = learned.to_json()
    assert (said["noise"], said["noise_level"], said["expected_excess"]) == (0.0, None, None)
    assert "noise" not in str(learned)


@pytest.mark.slow
def test_noise_is_kept_with_the_layer_and_reaches_every_learner(nice, tmp_path):
    from attention.files import load_layer

    noisy = learn(nice, "linear", noise=3.0)
    assert noisy.error > 1.02 * learn(nice, "linear").error
    phases = learn_phases(nice_target(heads=2, tokens=2, dim=8, seed=1), noise=0.5, preset="quick")
    assert phases.learned.noise == 0.5
    saved = learn(nice, "newton", noise=0.1).save(tmp_path / "f.safetensors")
    assert load_layer(saved).made["noise"] == 0.1


@pytest.mark.bad_input
def test_noise_on_labels_that_have_errors_of_their_own_is_refused():
    rounding = {"secret_dim": 4, "modulus": 8, "levels": 2}
    with pytest.raises(ValueError, match="have errors of their own: leave it out"):
        learn(lwr_target(**rounding, noise="gaussian:1"), "linear", noise=0.1)
    assert learn(lwr_target(**rounding), "linear", noise=0.1, examples=500).noise == 0.1
    with pytest.raises(ValueError, match="noise is -1"):
        learn(lwr_target(**rounding), "linear", noise=-1)


@pytest.mark.slow
def test_a_number_of_heads_that_explains_nothing_is_not_to_be_trusted():
    target = nice_target(heads=4, tokens=4, dim=16, seed=1)
    few = learn(target, "newton", heads="auto", examples=50)
    assert few.fit.outcome.name in ("LOCAL_MINIMUM", "OVERFITTED")
    heads = few.layer.heads
    assert f"heads found                  {heads} (not to be trusted: " in str(few)
    assert few.to_json()["heads_found"] == heads != 4
    enough = learn(target, "newton", heads="auto")
    assert "heads found                  4\n" in str(enough)
    assert learn(target, "newton", heads=2, work=10).to_json()["heads_found"] is None


def test_heads_found_in_noise_are_trusted(nice):
    found = learn(nice, "newton", heads="auto", noise=0.05, examples=600)
    assert found.fit.outcome.name == "RESIDUAL_FLOOR"
    assert "heads found                  2\n" in str(found)


@pytest.mark.parametrize("tokens", [1, 2])
def test_of_one_token_it_says_that_theta_cannot_be_found(tokens):
    learned = learn(nice_target(heads=2, tokens=tokens, dim=6, seed=1), "newton")
    assert learned.fit.outcome.name == "EXACT"
    assert ("examples tell nothing of Theta" in str(learned)) is (tokens == 1)
    assert (learned.measures["theta_error"] > 0.1) is (tokens == 1)


def test_one_token_hides_theta_and_all_of_w_but_the_sum():
    generator = np.random.default_rng(0)
    theta, w = generator.standard_normal((2, 2, 4, 4))
    shift = generator.standard_normal((4, 4))
    other = AttentionLayer(theta=-3 * theta, w=w + np.stack([shift, -shift]))
    x = BooleanInputs(1, 4).sample(50, rng=generator)
    np.testing.assert_allclose(other(x), AttentionLayer(theta=theta, w=w)(x), atol=1e-12)


@pytest.mark.bad_input
@pytest.mark.parametrize(
    ("rank", "options"), [(None, {}), pytest.param(1, {"rank": 1}, marks=pytest.mark.slow)]
)
def test_too_few_examples_are_told_the_least_and_the_usual_number(nice, rank, options):
    least, usual = (
        Newton(2, rank=rank).minimum_examples(3, 8),
        learn(nice, "newton", **options).fit.examples_used,
    )
    assert usual > least
    with pytest.raises(ValueError, match=rf"at least {least} are needed.* by default it takes {usual}\."):
        learn(nice, "newton", examples=least - 1, **options)


@pytest.mark.bad_input
def test_too_few_examples_for_one_head_are_too_few_for_any(nice):
    least = Newton("auto").minimum_examples(3, 8)
    with pytest.raises(ValueError, match=rf"at least {least} are needed, and that for a single head\."):
        learn(nice, "newton", examples=least - 1, heads="auto")


def test_one_step_does_not_ask_for_work_it_cannot_be_given(cli, file):
    said = cli("learn", file, "--learner", "one-step").out
    assert "One pass done" in said
    assert "more work" not in said


def test_targets_print_short():
    layer = nice_target(heads=3, tokens=2, dim=12, seed=1).layer
    target = layer_target(layer, tokens=2, name="mine")
    assert repr(target) == "<Target mine: Layer, 3 heads, 2 tokens, k = 2, d = 12>"


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


def test_an_interrupted_fit_says_how_far_it_came_and_leaves_its_layer(cli, file, tmp_path, interrupted):
    out = tmp_path / "fitted.safetensors"
    said = cli("learn", file, "-o", out, status=130).err
    assert said.count("\n") == 1
    error = float(re.search(r"relative error (\S+); its layer as it was then is in", said)[1])
    target = load_target(file)
    x = target.inputs.sample(2000, rng=5)
    assert relative_error(load_target(out).layer(x), target.layer(x)) == pytest.approx(error, rel=0.2)


def test_an_interrupted_fit_says_where_nothing_is_written(cli, file, interrupted):
    assert "; nothing is written." in cli("learn", file, status=130).err


def test_a_fit_interrupted_before_its_first_step_says_so(cli, file, tmp_path, monkeypatch):
    def at_once(*given, **settings):
        raise KeyboardInterrupt

    monkeypatch.setattr("arena.cli.learn.learn", at_once)
    said = cli("learn", file, "-o", tmp_path / "fitted.safetensors", status=130).err
    assert said == "attention-bounds: Interrupted: Newton had no step done; nothing is kept.\n"
    assert not (tmp_path / "fitted.safetensors").exists()


def test_the_trace_holds_no_layers(nice):
    seen = []
    learned = learn(nice, "newton", seed=3, progress=seen.append)
    assert any(step.layer is not None for step in seen)
    assert all(step.layer is None for step in learned.fit.trace)

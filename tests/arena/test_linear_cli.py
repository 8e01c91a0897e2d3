"""``attention-bounds linear``: learned, certified, written; wrong use is one line."""

import json

import numpy as np
import pytest

from upper.linear_attention import load_linear_attention, make_linear_attention, save_linear_attention


@pytest.fixture
def told(cli):
    """What a command tells machines."""
    return lambda *arguments: json.loads(cli("linear", *arguments, "--json")[0])


def test_learn_recovers_a_model_with_its_heads_and_writes_them(cli, tmp_path):
    target, out = make_linear_attention(heads=2, dim=4, outputs=3, rng=5), tmp_path / "learned"
    save_linear_attention(tmp_path / "model.safetensors", target)
    said, _ = cli("linear", "learn", tmp_path / "model.safetensors", "--out", out)
    assert "Determined: the examples have the full rank 40" in said
    written = json.loads((out / "learned.json").read_text())
    found = written["details"]
    assert (found["rank"], found["features"], found["examples"], found["determined"]) == (40, 40, 80, True)
    assert (written["outcome"], written["error"] < 1e-12) == ("EXACT", True)
    assert found["heads"]["number"] == 2
    x = np.random.default_rng(0).standard_normal((50, 6, 4))
    np.testing.assert_allclose(load_linear_attention(out / "model.safetensors")(x), target(x), atol=1e-6)


def test_learn_from_examples_holds_some_out_and_takes_a_vector_of_labels(told, tmp_path):
    model, x = (
        make_linear_attention(heads=1, dim=3, rng=0),
        np.random.default_rng(1).standard_normal((60, 5, 3)),
    )
    np.save(tmp_path / "x.npy", x)
    np.save(tmp_path / "y.npy", model(x))
    np.save(tmp_path / "zero.npy", np.zeros(60))
    found = told("learn", "--examples-from", tmp_path / "x.npy", tmp_path / "y.npy")
    details = found["details"]
    assert (found["examples_used"], found["unseen_examples"], details["heads"]["number"]) == (54, 6, 1)
    assert found["held_out_error"] < 1e-12
    found = told("learn", "--examples-from", tmp_path / "x.npy", tmp_path / "zero.npy")
    details = found["details"]
    assert (details["outputs"], found["held_out_error"], details["heads"]["number"]) == (1, 0, 0)


def test_learn_with_noise_finds_the_planted_heads(told):
    found = told("learn", "--dim", 5, "--heads", 2, "--noise", 0.01, "--examples", 2000)
    heads = found["details"]["heads"]
    assert (heads["number"], found["outcome"]) == (2, "NOISE_FLOOR")
    assert 1e-4 < found["error"] < 1e-2
    # few heads have less to be wrong about
    assert heads["error"] < 0.7 * found["error"]
    assert heads["tail"] < heads["tolerance"] < 2 * heads["tail"]


def test_certify_populations(cli, told):
    arguments = ("certify", "--data", "boolean", "--domain", "gaussian", "--dim", 4, "--tokens", 3)
    assert "deficit 12" in cli("linear", *arguments)[0]
    found = told(*arguments)
    assert (found["rank"], found["domain_rank"], found["joint_rank"], found["deficit"]) == (28, 40, 40, 12)
    assert (found["identified"], found["data_rank_proved"], found["factor"]) == (False, 28, None)
    assert (found["data_tokens"], found["domain_tokens"], found["warnings"]) == (3, 3, [])
    # a constant coordinate counts as a dimension
    found = told("certify", "--data", "boolean-constant", "--domain", "gaussian", "--dim", 5, "--tokens", 3)
    assert (found["rank"], found["features"], found["deficit"]) == (55, 75, 20)


def test_certify_files(cli, told, tmp_path):
    x, few, zero = (tmp_path / f"{name}.npy" for name in ("x", "few", "zero"))
    np.save(x, np.random.default_rng(0).standard_normal((50, 4, 3)))
    np.save(few, np.ones((1, 4, 3)))
    np.save(zero, np.zeros((2, 4, 3)))
    found = told("certify", "--data", x, "--domain", "boolean")
    assert found["identified_everywhere"]
    # the file's length is that of the population beside it, whichever comes first
    assert (found["data_tokens"], found["domain_tokens"]) == (4, 4)
    found = told("certify", "--domain", x, "--data", "boolean")
    assert (found["data_tokens"], found["dim"]) == (4, 3)
    said = cli("linear", "certify", "--data", x, "--domain", few)[0]
    assert "these 1 sequences and nothing else" in said
    assert told("certify", "--data", zero, "--domain", zero)["rank"] == 0

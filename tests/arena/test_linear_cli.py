"""``attention-bounds linear``: learned, certified, experiments run and kept; wrong use is one line."""

import json

import numpy as np
import pytest

from upper.linear_attention import load_linear_attention, make_linear_attention, save_linear_attention


@pytest.fixture
def model_file(tmp_path):
    model = make_linear_attention(heads=2, dim=4, outputs=3, rng=5)
    save_linear_attention(tmp_path / "model.safetensors", model)
    return tmp_path / "model.safetensors"


def test_learn_recovers_a_model_with_its_heads_and_writes_them(cli, model_file, tmp_path):
    out = tmp_path / "learned"
    said, _ = cli("linear", "learn", model_file, "--out", out)
    assert "Determined: the examples have the full rank 40" in said
    told = json.loads((out / "learned.json").read_text())
    assert (told["rank"], told["features"], told["examples"], told["determined"]) == (40, 40, 80, True)
    assert told["unseen_error"] < 1e-12
    assert told["heads"]["number"] == 2
    found, target = load_linear_attention(out / "model.safetensors"), load_linear_attention(model_file)
    x = np.random.default_rng(0).standard_normal((50, 6, 4))
    np.testing.assert_allclose(found(x), target(x), atol=1e-6)
    assert (out / "learning.svg").read_text().startswith("<?xml")
    assert (out / "learning.pdf").read_bytes().startswith(b"%PDF")
    errors = {point["examples"]: point["unseen_error"] for point in told["curve"]}
    assert errors[39] > 1e-2
    assert errors[40] < 1e-9


def test_learn_from_examples_holds_some_out(cli, tmp_path):
    model = make_linear_attention(heads=1, dim=3, rng=0)
    x = np.random.default_rng(1).standard_normal((60, 5, 3))
    np.save(tmp_path / "x.npy", x)
    np.save(tmp_path / "y.npy", model(x))
    arguments = ("linear", "learn", "--examples-from", tmp_path / "x.npy", tmp_path / "y.npy", "--json")
    said, _ = cli(*arguments)
    told = json.loads(said)
    assert (told["examples"], told["unseen_examples"], told["heads"]["number"]) == (54, 6, 1)
    assert told["unseen_against"] == "labels"
    assert told["unseen_error"] < 1e-12


def test_learn_from_signs_says_that_the_rest_is_open(cli):
    said, _ = cli("linear", "learn", "--dim", 4, "--heads", 2, "--inputs", "boolean", "--json")
    told = json.loads(said)
    assert (told["rank"], told["determined"], told["heads"]) == (28, False, None)
    assert told["unseen_error"] < 1e-12
    assert "Determined in part" in told["verdict"]


def test_learn_with_noise_finds_the_planted_heads(cli):
    arguments = ("--dim", 5, "--heads", 2, "--noise", 0.01, "--examples", 2000, "--json")
    told = json.loads(cli("linear", "learn", *arguments)[0])
    assert told["heads"]["number"] == 2
    assert 1e-4 < told["unseen_error"] < 1e-2
    # few heads have less to be wrong about
    assert told["heads"]["unseen_error"] < 0.7 * told["unseen_error"]
    assert told["heads"]["tail"] < told["heads"]["tolerance"] < 2 * told["heads"]["tail"]


@pytest.mark.parametrize("noise", [0.1, pytest.param(0.3, marks=pytest.mark.slow)])
def test_the_default_tolerance_is_the_standard_error_of_the_coefficients(cli, noise):
    arguments = ("--dim", 4, "--heads", 2, "--noise", noise, "--examples", 400, "--json")
    told = json.loads(cli("linear", "learn", *arguments)[0])
    assert told["heads"]["number"] == 2


def test_what_is_determined_in_part_can_be_kept(cli, tmp_path):
    cli("linear", "learn", "--dim", 3, "--heads", 1, "--inputs", "boolean", "--out", tmp_path / "part")
    model = load_linear_attention(tmp_path / "part" / "model.safetensors")
    x = np.sign(np.random.default_rng(0).standard_normal((20, 6, 3)))
    assert model(x).shape == (20, 3)


def test_one_output_may_be_a_vector_and_zero_labels_have_an_error(cli, tmp_path):
    x = np.random.default_rng(1).standard_normal((60, 5, 3))
    np.save(tmp_path / "x.npy", x)
    np.save(tmp_path / "y.npy", np.zeros(60))
    said, _ = cli("linear", "learn", "--examples-from", tmp_path / "x.npy", tmp_path / "y.npy", "--json")
    told = json.loads(said)
    assert (told["outputs"], told["unseen_error"], told["heads"]["number"]) == (1, 0, 0)


def test_adam_in_the_same_run(cli):
    pytest.importorskip("torch")
    said, _ = cli("linear", "learn", "--dim", 3, "--heads", 1, "--adam", 300, "--no-heads")
    assert "Adam, 1 head " in said
    assert "Adam, 2 heads" in said


def test_certify_populations_and_files(cli, tmp_path):
    arguments = ("linear", "certify", "--data", "boolean", "--domain", "gaussian", "--dim", 4, "--tokens", 3)
    said, _ = cli(*arguments, "--out", tmp_path / "c")
    told = json.loads((tmp_path / "c" / "certified.json").read_text())
    assert (told["rank"], told["domain_rank"], told["joint_rank"], told["deficit"]) == (28, 40, 40, 12)
    assert (told["identified"], told["data_rank_proved"], told["factor"]) == (False, 28, None)
    assert (told["data_tokens"], told["domain_tokens"], told["warnings"]) == (3, 3, [])
    assert "deficit 12" in said
    assert (tmp_path / "c" / "spectrum.svg").exists()
    np.save(tmp_path / "x.npy", np.random.default_rng(0).standard_normal((50, 4, 3)))
    told = json.loads(
        cli("linear", "certify", "--data", tmp_path / "x.npy", "--domain", "boolean", "--json")[0]
    )
    assert told["identified_everywhere"]
    assert told["factor"] > 0
    # the file's length is that of the population beside it, whichever comes first
    assert (told["data_tokens"], told["domain_tokens"]) == (4, 4)
    other = cli("linear", "certify", "--domain", tmp_path / "x.npy", "--data", "boolean", "--json")[0]
    assert (json.loads(other)["data_tokens"], json.loads(other)["dim"]) == (4, 3)
    np.save(tmp_path / "few.npy", np.ones((1, 4, 3)))
    few = cli("linear", "certify", "--data", tmp_path / "x.npy", "--domain", tmp_path / "few.npy")[0]
    assert "these 1 sequences and nothing else" in few
    np.save(tmp_path / "zero.npy", np.zeros((2, 4, 3)))
    arguments = ("--data", tmp_path / "zero.npy", "--domain", tmp_path / "zero.npy", "--out", tmp_path / "z")
    cli("linear", "certify", *arguments)
    assert (tmp_path / "z" / "certified.json").exists()


def test_means_over_tokens_change_the_factor_between_lengths(cli):
    arguments = (
        "--data",
        "gaussian",
        "--domain",
        "gaussian",
        "--dim",
        2,
        "--tokens",
        4,
        "--domain-tokens",
        8,
        "--json",
    )
    plain, mean = (
        json.loads(cli("linear", "certify", *arguments, *more)[0]) for more in ((), ("--average",))
    )
    assert plain["factor"] == pytest.approx(4 * mean["factor"])


def test_a_constant_coordinate_counts_as_a_dimension(cli):
    arguments = ("--data", "boolean-constant", "--domain", "gaussian", "--dim", 5, "--tokens", 3, "--json")
    told = json.loads(cli("linear", "certify", *arguments)[0])
    assert (told["rank"], told["features"], told["deficit"]) == (55, 75, 20)


@pytest.mark.bad_input
@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("learn", "--dim", 4, "--examples", 39), "39 examples and 40 features"),
        (("learn", "--dim", 64), "GiB are allowed"),
        (("learn", "--dim", 0), "--dim is 0"),
        (("learn", "--inputs", "cauchy"), "--inputs is 'cauchy'"),
        (("learn", "--method", "lu"), "method is 'lu'"),
        (("learn", "--noise", "-1"), "--noise is -1"),
        (("learn", "--adam", "-1"), "--adam is -1"),
        (("learn", "--adam-heads", 2), "--adam-heads is for --adam"),
        (("learn", "nothing.safetensors"), "nothing.safetensors"),
        (("learn", "nothing.safetensors", "--dim", 4), "--dim is for a random model"),
        (
            ("learn", "--examples-from", "x.npy", "y.npy", "--tokens", 3),
            "--tokens is for examples that are drawn",
        ),
        (("certify", "--data", "boolean", "--domain", "gaussian"), "give --dim a number"),
        (("certify", "--data", "cauchy", "--domain", "gaussian", "--dim", 3), "'cauchy' is no population"),
        (("certify", "--data", "x.npy", "--domain", "gaussian", "--dim", 3), "x.npy"),
        (("certify", "--data", "boolean-constant", "--domain", "boolean", "--dim", 1), "--dim is 1"),
        (("certify", "--data", "boolean", "--domain", "boolean", "--dim", 3, "--tokens", 0), "--tokens is 0"),
        (("learn", "--examples", 10**12), "--examples and --tokens ask for"),
        (("learn", "--heads", 10**9), "--heads, --outputs and --dim ask for"),
        (("learn", "--dim", 10**6), "GiB are allowed"),
        (("learn", "--tolerance", 2), "--tolerance is 2"),
        (("learn", "--no-heads", "--fit-heads", 2), "--no-heads leaves nothing"),
        (("certify", "--data", "boolean", "--domain", "boolean", "--dim", 40), "GiB are allowed"),
        (("experiment", "nothing"), "There is no experiment 'nothing'"),
    ],
)
def test_wrong_use_is_one_line_and_status_two(cli, arguments, complaint):
    said, told = cli("linear", *arguments, status=2)
    assert said == ""
    assert told.startswith("attention-bounds: ")
    assert told.count("\n") == 1
    assert complaint in told

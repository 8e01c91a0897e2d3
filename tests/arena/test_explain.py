"""``attention-bounds explain``, and ``learn`` with the six-phase learners."""

import json

import numpy as np
import pytest

from arena import learn_phases, nice_target
from attention.files import load_layer


@pytest.fixture
def nice(tmp_path, cli):
    path = tmp_path / "nice.safetensors"
    cli("generate", "nice", "--heads", 2, "--tokens", 2, "--dim", 12, "--seed", 1, "-o", path)
    return path


def timeless(text):
    return [line for line in text.splitlines() if "seconds" not in line]


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["paper", "practical"])
def test_explain_walks_through_the_phases(cli, mode):
    options = () if mode == "paper" else ("--practical",)
    words = cli("explain", "--seed", 3, "--dim", 12, *options).out
    learner = "six-phase-paper" if mode == "paper" else "six-phase"
    told = learn_phases(nice_target(heads=2, tokens=2, dim=12, seed=3), learner, seed=3, preset="quick")
    assert timeless(words) == timeless(str(told) + "\n")
    assert words.startswith(f"The six phases in {mode} mode on: Nice, 2 heads, 2 tokens\n")
    assert words.count("\nPhase ") == 6
    assert words.count("Against the truth: ") == (6 if mode == "paper" else 5)


@pytest.mark.slow
def test_explain_as_json_and_as_a_page(cli, tmp_path):
    said = cli("explain", "--heads", 1, "--dim", 12, "--json", "--out", tmp_path / "page")
    assert said.err == ""
    told = json.loads(said.out)
    assert [phase["number"] for phase in told["phases"]] == [1, 2, 3, 4, 5, 6]
    assert (told["mode"], told["heads"]) == ("paper", 1)
    assert json.loads((tmp_path / "page" / "result.json").read_text(encoding="utf-8")) == told
    assert (tmp_path / "page" / "index.html").exists()


def test_explain_a_file_with_other_heads(cli, nice):
    words = cli("explain", nice, "--practical", "--heads", 1).out
    assert "m = 2 heads, k = 2 tokens, d = 12 coordinates; the learner looks for 1" in words
    assert "d = 12" in words


def test_explain_a_hard_target_names_the_phase_that_failed(cli, tmp_path):
    path = tmp_path / "parity.safetensors"
    cli("generate", "sq-parity", "--heads", 2, "--dim", 16, "--seed", 1, "-o", path)
    words = cli("explain", path).out
    assert "It failed." in words
    assert "The end: Phase 2 failed" in words
    assert words.count("Not reached.") == 4


@pytest.mark.slow
def test_learn_fills_a_folder(cli, nice, tmp_path):
    out = tmp_path / "phases"
    said = cli("learn", nice, "--learner", "six-phase-paper", "--preset", "quick", "--out", out, "--json").out
    assert (out / "result.json").read_text(encoding="utf-8") == said
    told = json.loads(said)
    assert (told["file"], told["fitted"]) == (str(nice), str(out / "fitted.safetensors"))
    assert len(told["phases"]) == 6
    assert sorted(path.name for path in out.glob("*.svg"))[0] == "phase-1-sum.svg"
    assert {path.name[6] for path in out.glob("*.svg")} == set("123456")
    assert load_layer(out / "fitted.safetensors").layer.heads == 2
    words = cli("learn", nice, "--learner", "six-phase-paper", "--preset", "quick", "--out", out).out
    assert str(out / "index.html") in words
    assert "The best of" in words


@pytest.mark.slow
def test_learn_still_writes_a_file(cli, nice, tmp_path):
    out = tmp_path / "f.safetensors"
    said = json.loads(cli("learn", nice, "--learner", "six-phase", "-o", out, "--json").out)
    assert said["fitted"] == str(out)
    assert said["outcome"] == "EXACT"
    assert out.is_file()
    np.testing.assert_allclose(
        load_layer(out).layer(np.ones((1, 2, 12))), load_layer(nice).layer(np.ones((1, 2, 12))), atol=1e-10
    )
    # of other learners the path is a file whatever its name
    cli("learn", nice, "--learner", "newton", "-o", tmp_path / "plain")
    assert (tmp_path / "plain").is_file()


@pytest.mark.parametrize(("tokens", "dim"), [("1", "8"), ("16", "8")])
def test_tokens_that_the_phases_cannot_take_are_one_line(cli, tokens, dim):
    said = cli("explain", "--tokens", tokens, "--dim", dim, status=2)
    assert "the six phases need 1 < k < d" in said.err
    assert not said.out


@pytest.mark.slow
def test_both_run_in_a_comparison_beside_others(cli, nice, tmp_path):
    parity, rounding = tmp_path / "parity.safetensors", tmp_path / "rounding.safetensors"
    cli("generate", "sq-parity", "--heads", 2, "--dim", 16, "--seed", 1, "-o", parity)
    cli("generate", "lwr", "--secret-dim", 5, "--modulus", 8, "-o", rounding)
    names = "six-phase,six-phase-paper,linear"
    options = ["--learners", names, "--jobs", 1, "--seeds", 1, "--out", tmp_path / "r", "--json"]
    cells = json.loads(cli("compare", nice, parity, rounding, *options).out)["cells"]
    assert {cell["status"] for cell in cells} == {"done"}
    ended = {(cell["target"], cell["learner"]): cell["outcome"] for cell in cells}
    assert ended["nice", "six-phase"] == "EXACT"
    assert ended["parity", "six-phase-paper"] == ended["parity", "six-phase"] == "CONTRADICTION"
    assert ended["rounding", "six-phase"] == ended["rounding", "six-phase-paper"] == "NO_PROJECTION_SUM"


WRONG = [
    (["explain", "{nice}", "--dim", "4"], "--dim is for a layer made on the spot"),
    (["explain", "--heads", "0"], "heads is 0: a whole number of at least 1"),
    (["explain", "--seed", "-1"], "--seed"),
    (["explain", "{dir}/absent.safetensors"], "absent.safetensors"),
    (["explain", "{dir}"], "{dir}"),
    (["explain", "{text}"], "text.safetensors"),
    (["explain", "{nice}", "--heads", "0"], "--heads is 0: a whole number of at least 1"),
    (["learn", "{nice}", "--learner", "six-phase", "--examples", "3"], "at least"),
    (["learn", "{taken}", "--learner", "six-phase", "--out", "{dir}/taken"], "would take the place"),
    (["explain", "{taken}", "--out", "{dir}/taken"], "would take the place"),
]


@pytest.mark.bad_input
@pytest.mark.parametrize(
    ("arguments", "complaint"), WRONG, ids=lambda value: " ".join(value) if isinstance(value, list) else ""
)
def test_wrong_use_is_one_line_and_status_two(cli, nice, tmp_path, arguments, complaint):
    text, taken = tmp_path / "text.safetensors", tmp_path / "taken" / "fitted.safetensors"
    text.write_text("hello")
    taken.parent.mkdir()
    taken.write_bytes(nice.read_bytes())
    names = {"nice": nice, "dir": tmp_path, "text": text, "taken": taken}
    said = cli(*(argument.format(**names) for argument in arguments), status=2)
    assert said.out == ""
    assert said.err.count("\n") == 1
    assert complaint.format(**names) in said.err


@pytest.mark.parametrize("command", ["learn", "explain"])
def test_a_folder_that_is_a_file_is_one_line(cli, nice, tmp_path, command):
    (tmp_path / "plain").write_text("mine")
    learner = ["--learner", "six-phase"] if command == "learn" else []
    said = cli(command, nice, *learner, "--out", tmp_path / "plain", status=2)
    assert said.err.count("\n") == 1
    assert "is a file: give the path of a folder" in said.err
    assert (tmp_path / "plain").read_text() == "mine"

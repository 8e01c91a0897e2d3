"""``attention-bounds explain``, and ``learn`` with the six-phase learners."""

import json

import pytest

from arena import learn_phases, nice_target
from attention.files import load_layer


@pytest.fixture
def nice(tmp_path, cli):
    path = tmp_path / "nice.safetensors"
    cli("generate", "nice", "--heads", 2, "--tokens", 2, "--dim", 12, "--seed", 1, "-o", path)
    return path


@pytest.mark.slow
def test_explain_prints_the_table_of_the_phases(cli):
    words = cli("explain", "--seed", 3, "--dim", 12, "--practical").out.splitlines()
    told = learn_phases(nice_target(heads=2, tokens=2, dim=12, seed=3), "six-phase", seed=3, preset="quick")
    assert words[:-1] == str(told).splitlines()[:-1]  # the last one has seconds


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
    told = json.loads(cli("explain", nice, "--practical", "--heads", 1, "--json").out)
    assert (told["mode"], told["heads"]) == ("practical", 1)


def test_explain_a_hard_target_names_the_phase_that_failed(cli, tmp_path):
    path = tmp_path / "parity.safetensors"
    cli("generate", "sq-parity", "--heads", 2, "--dim", 16, "--seed", 1, "-o", path)
    words = cli("explain", path).out
    assert "Phase 2 failed" in words
    assert words.count("not reached") == 4


@pytest.mark.slow
def test_learn_fills_a_folder(cli, nice, tmp_path):
    out = tmp_path / "phases"
    command = ["learn", nice, "--learner", "six-phase-paper", "--preset", "quick", "--out", out]
    said = cli(*command, "--json").out
    assert (out / "result.json").read_text(encoding="utf-8") == said
    told = json.loads(said)
    assert (told["file"], told["fitted"]) == (str(nice), str(out / "fitted.safetensors"))
    assert {path.name[6] for path in out.glob("*.svg")} == set("123456")
    assert load_layer(out / "fitted.safetensors").layer.heads == 2
    assert str(out / "index.html") in cli(*command).out

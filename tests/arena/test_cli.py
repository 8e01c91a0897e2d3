"""The command line: targets made and looked at, the main job end to end, names, wrong use in one line."""

import dataclasses
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from arena.results import Results
from attention.files import load_layer
from lower import load_instance, save_instance
from lwe import PRESETS, estimate


@pytest.mark.parametrize(
    ("command", "shape"),
    [
        (["nice", "--heads", 3, "--tokens", 2, "--dim", 5, "--sigma", 1.0], (3, 2, 5)),
        (["nice", "--inputs", "gaussian", "--dim", 4], (2, 2, 4)),
        (["sq-parity", "--heads", 2, "--dim", 8], (2, 2, 8)),
        (["sq-parity", "--bits", 3, "--dim", 8, "--construction", "B"], (3, 2, 8)),
        (["sq-parity", "--bits", 2, "--dim", 8, "--construction", "A"], (4, 2, 8)),
        (["sq-parity", "--bits", 3, "--dim", 8, "--construction", "C", "--beta", 2], (3, 2, 8)),
        (["sq-pair", "--dim", 8, "--beta", 2], (1, 2, 8)),
        (["sq-bump", "--dim", 8, "--bits", 4, "--at", 1], (2, 2, 8)),
        (["sq-two-slope", "--dim", 8, "--bits", 5, "--slopes", "0.2,1"], (2, 2, 8)),
        (["sq-designed-steps", "--dim", 8, "--bits", 6, "--heads", 3], (3, 2, 8)),
        (["sq-designed-steps", "--dim", 8, "--bits", 6, "--thresholds", "0.5,3.5"], (2, 2, 8)),
        (["sq-centre-threshold", "--dim", 8, "--bits", 6, "--heads", 4, "--steps", "best-fit"], (4, 2, 8)),
        (["sq-token-parity", "--dim", 8, "--tokens", 4, "--bits", 3], (3, 4, 8)),
        (["sq-hidden-gate", "--dim", 8], (3, 2, 8)),
        (["sq-hidden-gate", "--dim", 8, "--construction", "C", "--beta", 2], (4, 2, 8)),
        (["sq-hidden-gate", "--dim", 8, "--base", "two-slope", "--bits", 6], (3, 2, 8)),
        (["lwr", "--n", 5, "--q", 8, "--p", 2], (None, 2, 6)),
        (["lwr", "--n", 2, "--q", 8, "--p", 2, "--matrix", "gadget"], (None, 2, 7)),
    ],
    ids=str,
)
def test_generate_writes_what_it_says(cli, tmp_path, command, shape):
    path = tmp_path / "target.safetensors"
    said = json.loads(cli("generate", *command, "-o", path, "--json").out)
    stored = load_layer(path)
    written = stored.layer.heads, stored.inputs.tokens, stored.layer.dim
    assert (said["heads"], said["tokens"], said["dim"]) == written
    assert shape[0] in (None, said["heads"])
    assert (said["tokens"], said["dim"]) == shape[1:]


@pytest.mark.parametrize("kind", ["sq-parity", "sq-hidden-gate"])
def test_a_family_is_verified_its_forgery_found_out_and_only_a_parity_eliminated(cli, tmp_path, kind):
    path, lie = tmp_path / "hard.safetensors", tmp_path / "lie.safetensors"
    cli("generate", kind, "--dim", 20, "-o", path)
    assert f"Certificate of the family {kind}" in cli("inspect", path, "--verify").out
    said = json.loads(cli("inspect", path, "--verify", "--json").out)
    assert said["certificate"]["facts"]
    assert said["verification"]["holds"] is True
    instance = load_instance(path)
    secret = instance.secret.copy()  # all coordinates but one are the same
    secret[-1] = np.setdiff1d(np.arange(2, 20), secret)[-1]
    save_instance(lie, dataclasses.replace(instance, secret=secret))
    said = cli("inspect", lie, "--verify", status=1)
    assert "NOT verified" in said.out
    assert said.err.count("\n") == 1
    command = ["learn", path, "--learner", "elimination", "--json"]
    if kind == "sq-parity":
        assert json.loads(cli(*command).out)["outcome"] == "EXACT"
    else:
        assert "attack on hidden parities only" in cli(*command, status=2).err


def test_estimates_say_for_how_long_they_run(cli, monkeypatch):
    monkeypatch.setattr("runs.progress._FIRST", 0.01)
    assert "Estimates, 0 s" in cli("estimate", "--n", 40, "--q", 97, "--Xe", "gaussian:3").err


def test_numbers_of_an_estimate_make_the_same_problem_as_a_name(cli):
    numbers = ["--n", 512, "--q", 3329, "--Xe", "binomial:3", "--Xs", "binomial:3"]
    found = [
        json.loads(cli("estimate", *words, "--m", 512, "--json").out) for words in (["kyber512"], numbers)
    ]
    assert found[0] == found[1] == sorted(found[0], key=lambda one: one["log2_rop"])
    assert any(one["log2_rop"] == pytest.approx(118.6, abs=0.05) for one in found[0])


@pytest.mark.parametrize(
    ("name", "columns"),
    [("ntru-hps2048509", 20), ("toy-lpn", 200), pytest.param("hesv2-131072-128", 20, marks=pytest.mark.slow)],
)
def test_the_table_of_an_estimate_fits_eighty_columns(cli, monkeypatch, name, columns):
    monkeypatch.setenv("COLUMNS", str(columns))  # it is the same wherever it goes, also through a pipe
    lines = cli("estimate", name).out.splitlines()
    assert max(map(len, lines)) <= 80
    rows = {line.split()[0]: line.split() for line in lines if line.strip()}
    # no number is cut
    assert all(rows[cost.attack][1] == cost.rop for cost in estimate(PRESETS[name]))
    assert "…" not in "".join(lines)


def test_a_layer_that_was_not_found_is_not_saved(cli, tmp_path):
    path, fitted = tmp_path / "parity.safetensors", tmp_path / "fitted.safetensors"
    cli("generate", "sq-parity", "--heads", 2, "--dim", 12, "--seed", 1, "-o", path)
    few = ["--learner", "elimination", "--examples", 12]
    said = cli("learn", path, *few, "-o", fitted, "--json", status=1)
    assert json.loads(said.out)["fitted"] is None
    assert "was not written" in said.err
    assert not fitted.exists()


def test_compare_writes_what_it_prints_as_json_and_tells_files_of_one_name_apart(cli, file, tmp_path):
    other = tmp_path / "other" / file.name
    other.parent.mkdir()
    other.write_bytes(file.read_bytes())
    out = tmp_path / "made" / "here"
    said = cli("compare", file, other, "--learners", "known-component", "--jobs", 1, "--out", out, "--json")
    results = Results.from_json(said.out)
    assert results.to_json() == (out / "results.json").read_text(encoding="utf-8")
    assert [target.name for target in results.targets] == [str(file), str(other)]
    assert len({target.title for target in results.targets}) == 2
    assert (out / "index.html").read_text(encoding="utf-8").rstrip().endswith("</html>")


OWN = '''
from dataclasses import dataclass
from upper import LinearBaseline

@dataclass(frozen=True)
class MeanLabel(LinearBaseline):
    """The mean label, whatever the tokens."""
    heads: int = 1
'''


def test_a_learner_of_ones_own_stands_beside_names_in_any_case(cli, file, tmp_path):
    (tmp_path / "own.py").write_text(OWN)
    own = f"{tmp_path / 'own.py'}:MeanLabel"
    said = cli("compare", file, "--learners", f"Known-Component,{own}", "-o", tmp_path / "r", "--json").out
    results = Results.from_json(said)
    assert [learner.name for learner in results.learners] == ["known-component", "meanlabel"]
    assert {cell.status.value for cell in results.cells} == {"done"}
    assert results.learners[1].parameters["heads"] == 2
    for wrong in (own + "s", f"{tmp_path / 'none.py'}:MeanLabel"):
        assert cli("learn", file, "--learner", wrong, status=2).err.count("\n") == 1


def test_an_edit_of_a_file_computes_its_learner_again_and_the_others_not(cli, file, tmp_path):
    own, reused = tmp_path / "json.py", []
    for text in (OWN, OWN, OWN.replace("= 1", "= 3 - 2"), OWN):
        own.write_text(text)
        said = cli(
            "compare", file, "--learners", f"{own}:MeanLabel,known-component", "-o", tmp_path / "r", "--json"
        )
        reused.append(Results.from_json(said.out).made["reused"])
    assert reused == [0, 2, 1, 2]
    assert json.loads("1") == 1  # the file replaces no module of its name


@pytest.mark.parametrize(
    ("text", "said"),
    [("import sibling", "alone"), ("raise SystemExit(3)", "SystemExit"), ("x = (", "SyntaxError")],
)
def test_a_file_is_imported_alone_and_one_that_does_not_run_is_one_line(
    cli, file, tmp_path, monkeypatch, text, said
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "sibling.py").write_text("")
    (tmp_path / "own.py").write_text(text)
    ended = cli("compare", file, "--learners", "own.py:Mine", status=2)
    assert said in ended.err
    assert ended.err.count("\n") == 1


def test_no_process_runs_code_of_the_current_folder(file, tmp_path):
    (tmp_path / "here").mkdir()
    (tmp_path / "start.py").write_text("from arena.cli import main\nmain()\n")  # as the installed command
    for name in ("runs", "arena", "threading", "multiprocessing", "signal", "pebble"):
        (tmp_path / "here" / f"{name}.py").write_text("open('ran', 'w').close()\nraise SystemExit(1)\n")
    command = [
        sys.executable,
        tmp_path / "start.py",
        "compare",
        file,
        "--learners",
        "known-component",
        "-o",
        "out",
    ]
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])}
    done = subprocess.run(
        command, cwd=tmp_path / "here", env=environment, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    assert not (tmp_path / "here" / "ran").exists()


def test_where_nothing_can_be_written_is_said_before_the_work(cli, file, tmp_path, monkeypatch):
    def never(*_, **__):
        raise AssertionError("work was done")

    monkeypatch.setattr("arena.cli.learn.learn", never)
    monkeypatch.setattr("arena.cli.generate.nice_target", never)
    absent = tmp_path / "absent" / "f.safetensors"
    cli("learn", file, "-o", absent, status=2)
    cli("generate", "nice", "-o", absent, status=2)

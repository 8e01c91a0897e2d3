"""The command line: the main job end to end, JSON alone on standard output, one-line errors."""

import dataclasses
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from arena.made_targets import preset_count, preset_targets
from arena.results import Results
from attention import make_nice_layer
from attention.files import load_layer, save_layer
from lower import load_instance, save_instance
from sq import two_head_families

FAMILIES = {
    "sq-parity": [],
    "sq-pair": [],
    "sq-bump": ["--bits", 4],
    "sq-two-slope": ["--bits", 4],
    "sq-designed-steps": ["--bits", 4],
    "sq-centre-threshold": ["--bits", 4],
    "sq-token-parity": [],
    "sq-hidden-gate": [],
}


@pytest.fixture
def nice(tmp_path, cli):
    path = tmp_path / "nice.safetensors"
    cli("generate", "nice", "--heads", 2, "--tokens", 3, "--dim", 8, "--seed", 1, "-o", path)
    return path


@pytest.fixture
def parity(tmp_path, cli):
    path = tmp_path / "parity.safetensors"
    cli("generate", "sq-parity", "--heads", 2, "--dim", 12, "--seed", 1, "-o", path)
    return path


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
        (["lwr", "--secret-dim", 5, "--modulus", 8, "--levels", 2], (None, 2, 6)),
        (["lwr", "--secret-dim", 2, "--modulus", 8, "--levels", 2, "--matrix", "gadget"], (None, 2, 7)),
    ],
    ids=str,
)
def test_generate_writes_what_it_says(cli, tmp_path, command, shape):
    path = tmp_path / "target.safetensors"
    said = json.loads(cli("generate", *command, "-o", path, "--json").out)
    stored = load_layer(path)
    assert (said["heads"], said["tokens"], said["dim"]) == (
        stored.layer.heads,
        stored.inputs.k,
        stored.layer.dim,
    )
    assert shape[0] in (None, said["heads"])
    assert (said["tokens"], said["dim"]) == shape[1:]


def test_inspect_a_nice_layer(cli, nice):
    words = cli("inspect", nice).out
    assert "theta_stable_rank" in words
    said = json.loads(cli("inspect", nice, "--json").out)
    assert said["certificate"] is None
    assert said["conditions"]


@pytest.mark.parametrize("kind", [*FAMILIES, "lwr"])
def test_inspect_a_hard_instance_shows_and_verifies_its_certificate(cli, tmp_path, kind):
    path = tmp_path / "hard.safetensors"
    size = ["--secret-dim", 6, "--modulus", 8] if kind == "lwr" else ["--dim", 6, *FAMILIES[kind]]
    cli("generate", kind, *size, "-o", path)
    words = cli("inspect", path, "--verify").out
    assert f"Certificate of the family {kind}" in words
    assert "nown in advance" in words
    said = json.loads(cli("inspect", path, "--verify", "--json").out)
    assert said["certificate"]["statements"]
    assert said["verification"]["holds"] is True


@pytest.mark.parametrize("kind", FAMILIES)
def test_another_secret_of_the_family_is_found_out(cli, tmp_path, kind):
    path, lie = tmp_path / "hard.safetensors", tmp_path / "lie.safetensors"
    cli("generate", kind, "--dim", 20, *FAMILIES[kind], "-o", path)
    instance = load_instance(path)
    # all coordinates but one are the same
    secret = instance.secret.copy()
    secret[-1] = np.setdiff1d(np.arange(2, 20), secret)[-1]
    save_instance(lie, dataclasses.replace(instance, secret=secret))
    cli("inspect", path, "--verify")
    said = cli("inspect", lie, "--verify", status=1)
    assert "NOT verified" in said.out
    assert said.err.count("\n") == 1


@pytest.mark.parametrize("kind", FAMILIES)
def test_elimination_applies_where_its_attack_does(cli, tmp_path, kind):
    path = tmp_path / "hard.safetensors"
    cli("generate", kind, "--dim", 12, *FAMILIES[kind], "-o", path)
    command = ["learn", path, "--learner", "elimination", "--json"]
    if kind == "sq-parity":
        assert json.loads(cli(*command).out)["outcome"] == "EXACT"
    else:
        assert "attack on hidden parities only" in cli(*command, status=2).err


@pytest.mark.parametrize("construction", ["A", "B", "C", "D"])
def test_elimination_solves_every_construction(cli, tmp_path, construction):
    path = tmp_path / "parity.safetensors"
    cli("generate", "sq-parity", "--bits", 3, "--dim", 10, "--construction", construction, "-o", path)
    assert json.loads(cli("inspect", path, "--verify", "--json").out)["verification"]["holds"] is True
    said = json.loads(cli("learn", path, "--learner", "elimination", "--json").out)
    assert (said["outcome"], said["unknown_part_error"] < 1e-12) == ("EXACT", True)


@pytest.mark.slow
def test_compare_every_family(cli, tmp_path):
    paths = [tmp_path / f"{kind}.safetensors" for kind in FAMILIES]
    for kind, path in zip(FAMILIES, paths, strict=True):
        cli("generate", kind, "--dim", 8, *FAMILIES[kind], "-o", path)
    options = ["--learners", "linear,known-part,elimination", "--jobs", 1, "--out", tmp_path / "r"]
    results = Results.from_json(cli("compare", *paths, *options, "--json").out)
    assert [target.kind for target in results.targets] == [kind.removeprefix("sq-") for kind in FAMILIES]
    assert all(target.hardness is not None for target in results.targets)
    for cell in results.cells:
        solved = cell.learner == "elimination" and cell.target == "sq-parity"
        wanted = "done" if solved or cell.learner != "elimination" else "does not apply"
        assert cell.status == wanted
        if cell.learner == "known-part":
            assert cell.unknown_part_error == pytest.approx(1.0)
        assert cell.succeeded is True or not solved


def test_families_lists_what_two_heads_hide(cli):
    words = cli("families", "--dim", 12, "--bits", 6).out
    assert [line.split("  ")[0] for line in words.splitlines()[1:]] == [
        one.name for one in two_head_families(dim=12, bits=6)
    ]
    assert all(len(line) < 200 for line in words.splitlines())
    said = json.loads(cli("families", "--dim", 12, "--bits", 6, "--json").out)
    assert (said["dim"], said["bits"]) == (12, 6)
    hardest = said["families"][0]
    assert (hardest["family"], hardest["targets"], hardest["lowest_degree"]) == ("sq-parity", 165, 7)
    assert [one["family"] for one in said["families"]] == [one.name for one in two_head_families(bits=6)]
    assert all(one["broken_by"] and one["title"] and one["formula"] for one in said["families"])


@pytest.mark.slow
def test_learn_reports_and_saves_the_layer(cli, nice, tmp_path):
    fitted = tmp_path / "fitted.safetensors"
    said = json.loads(cli("learn", nice, "--learner", "newton", "--seed", 3, "-o", fitted, "--json").out)
    wanted = [
        "outcome",
        "relative_error",
        "unknown_part_error",
        "theta_error",
        "w_error",
        "examples_used",
        "seconds",
    ]
    assert set(wanted) <= set(said)
    assert said["outcome"] == "EXACT"
    assert said["relative_error"] < 1e-12
    x = np.ones((1, 3, 8))
    np.testing.assert_allclose(load_layer(fitted).layer(x), load_layer(nice).layer(x), atol=1e-11)
    assert "Exact" in cli("learn", nice).out


def test_a_layer_that_was_not_found_is_not_saved(cli, parity, tmp_path):
    fitted = tmp_path / "fitted.safetensors"
    few = ["--learner", "elimination", "--examples", 12]
    said = cli("learn", parity, *few, "-o", fitted, "--json", status=1)
    assert json.loads(said.out)["fitted"] is None
    assert "was not written" in said.err
    assert not fitted.exists()


def test_inspect_a_layer_from_elsewhere_needs_no_tokens(cli, tmp_path):
    path = tmp_path / "own.safetensors"
    save_layer(path, make_nice_layer(heads=2, dim=16, rng=0))
    assert "k not given" in cli("inspect", path).out
    assert json.loads(cli("inspect", path, "--json").out)["conditions"]["tokens"] is None


def test_thresholds_are_the_callers(cli, nice):
    said = json.loads(cli("inspect", nice, "--threshold", "theta_trace=0", "--json").out)
    assert "theta_trace" in said["conditions"]["violated"]


def test_an_instance_that_lies_about_its_secret_is_found_out(cli, parity, tmp_path):
    instance = load_instance(parity)
    other = dataclasses.replace(instance, secret=np.setdiff1d(np.arange(1, 12), instance.secret)[:3])
    path = tmp_path / "lie.safetensors"
    save_instance(path, other)
    said = cli("inspect", path, "--verify", status=1)
    assert "NOT verified" in said.out
    assert said.err.count("\n") == 1
    said = json.loads(cli("inspect", parity, "--verify", "--json").out)
    assert said["verification"]["holds"] is True


@pytest.mark.slow
def test_learn_is_reproducible(cli, nice):
    one, two = (json.loads(cli("learn", nice, "--seed", 5, "--json").out) for _ in range(2))
    for said in (one, two):
        said.pop("seconds")
        for step in said["trace"]:
            step.pop("seconds")
    assert one == two


def test_learn_with_a_budget(cli, nice):
    said = json.loads(cli("learn", nice, "--learner", "linear", "--examples", 50, "--json").out)
    assert said["examples_used"] == 50
    assert said["theta_error"] is None


def test_elimination_solves_parity(cli, parity):
    said = json.loads(cli("learn", parity, "--learner", "elimination", "--json").out)
    assert said["outcome"] == "EXACT"
    assert said["unknown_part_error"] < 1e-12


@pytest.mark.slow
def test_compare_files_writes_results_and_page(cli, nice, parity, tmp_path):
    out = tmp_path / "made" / "here"
    said = cli(
        "compare", nice, parity, "--learners", "linear,known-part,elimination", "--jobs", 1, "--out", out
    )
    assert "nice" in said.out
    results = Results.from_json((out / "results.json").read_text(encoding="utf-8"))
    assert [target.name for target in results.targets] == ["nice", "parity"]
    assert len(results.cells) == 6
    page = (out / "index.html").read_text(encoding="utf-8")
    assert page.lstrip().lower().startswith("<!doctype html>")
    assert page.rstrip().endswith("</html>")


@pytest.mark.slow
def test_files_of_one_shape_are_told_apart(cli, nice, tmp_path):
    other = tmp_path / "other" / nice.name
    other.parent.mkdir()
    other.write_bytes(nice.read_bytes())
    options = ["--learners", "known-part", "--jobs", 1, "--json", "--out", tmp_path / "r"]
    said = Results.from_json(cli("compare", nice, other, *options).out)
    assert [target.name for target in said.targets] == [str(nice), str(other)]
    assert len({target.title for target in said.targets}) == 2


def test_compare_json_is_alone_on_standard_output(cli, nice, tmp_path):
    said = cli("compare", nice, "--learners", "known-part", "--jobs", 1, "--out", tmp_path / "r", "--json")
    assert Results.from_json(said.out).to_json() == (tmp_path / "r" / "results.json").read_text(
        encoding="utf-8"
    )
    assert said.err == ""


WRONG = [
    (["learn", "{nice}", "--learner", "nobody"], "'nobody' is no learner"),
    (["learn", "{nice}", "--learner", "elimination"], "attack on hidden parities only"),
    (["learn", "{nice}", "--learner", "linear", "-o", "{dir}/f.safetensors"], "fits no attention layer"),
    (["learn", "{nice}", "--examples", "3"], "at least"),
    (["learn", "{nice}", "--learner", "known-part", "--examples", "3"], "no use for --examples"),
    (["learn", "{nice}", "--learner", "newton,linear"], "learn runs one"),
    (["learn", "{nice}", "--work", "0"], "work is 0: a whole number of at least 1"),
    (["learn", "{nice}", "--preset", "slow"], "'quick' or 'full'"),
    (["learn", "{nice}", "--heads", "0"], "--heads is 0: a whole number of at least 1"),
    (["learn", "{nice}", "--rank", "0"], "--rank is 0: a whole number of at least 1"),
    (["learn", "{nice}", "--noise", "-1"], "--noise is -1.0"),
    (["learn", "{nice}", "-o", "{dir}/fitted.txt"], "fitted.txt ends in .txt: layers are written as"),
    (["generate", "nice", "-o", "{dir}/nice.txt"], "nice.txt ends in .txt: layers are written as"),
    (["generate", "nice", "-o", "{dir}/absent/n"], "absent does not exist"),
    (["compare", "{nice}", "--out", "{nice}"], "is a file: give the path of a folder"),
    (["learn", "{dir}/absent.safetensors"], "absent.safetensors"),
    (["learn", "{dir}"], "{dir}"),
    (["learn", "{text}"], "text.safetensors"),
    (["inspect", "{nice}", "--verify"], "verify needs a hard instance"),
    (["inspect", "{nice}", "--threshold", "theta_trace"], "NAME=VALUE"),
    (["inspect", "{nice}", "--threshold", "nothing=1"], "nothing"),
    (["inspect"], "Missing argument"),
    (["generate", "nice", "--heads", "0", "-o", "{dir}/n"], "heads is 0: a whole number of at least 1"),
    (["generate", "nice", "--sigma", "nan", "-o", "{dir}/n"], "sigma"),
    (["generate", "sq-parity", "--dim", "3", "--bits", "5", "-o", "{dir}/n"], "bits"),
    (["generate", "sq-parity", "--heads", "2", "--bits", "9", "-o", "{dir}/n"], "heads"),
    (["generate", "lwr", "--modulus", "12", "--matrix", "gadget", "-o", "{dir}/n"], "power of"),
    (["generate", "sq-pair", "--beta", "0", "-o", "{dir}/n"], "beta"),
    (["generate", "sq-bump", "--bits", "8", "--dim", "8", "-o", "{dir}/n"], "bits is 8 and dim 8"),
    (["generate", "sq-bump", "--at", "9", "-o", "{dir}/n"], "at is 9"),
    (["generate", "sq-two-slope", "--bits", "2", "-o", "{dir}/n"], "of at least 3"),
    (["generate", "sq-two-slope", "--slopes", "1,1", "-o", "{dir}/n"], "slopes is (1.0, 1.0)"),
    (["generate", "sq-designed-steps", "--heads", "9", "-o", "{dir}/n"], "heads_count is 9"),
    (["generate", "sq-designed-steps", "--thresholds", "1", "-o", "{dir}/n"], "half-integers"),
    (["generate", "sq-centre-threshold", "--heads", "3", "-o", "{dir}/n"], "an even number"),
    (["generate", "sq-centre-threshold", "--steps", "some", "-o", "{dir}/n"], "--steps"),
    (
        ["generate", "sq-token-parity", "--tokens", "1", "-o", "{dir}/n"],
        "tokens is 1: a whole number of at least 2",
    ),
    (["generate", "sq-hidden-gate", "--bits", "2", "--construction", "B", "-o", "{dir}/n"], "c0 = 0"),
    (["generate", "sq-hidden-gate", "--at", "2", "-o", "{dir}/n"], "no use for it"),
    (["generate", "sq-hidden-gate", "--base", "two-slope", "--beta", "2", "-o", "{dir}/n"], "beta"),
    (["families", "--bits", "5"], "bits is 5"),
    (["families", "--dim", "8"], "dim is 8"),
    (["generate", "nice"], "--out"),
    (["compare", "{nice}", "--seeds", "0", "--out", "{dir}/r"], "seeds is 0: a whole number of at least 1"),
    (["compare", "{nice}", "--jobs", "0", "--out", "{dir}/r"], "jobs is 0: a whole number of at least 1"),
    (["generate", "nice", "--seed", "-1", "-o", "{dir}/n"], "--seed"),
    (["compare", "{nice}", "{nice}", "--out", "{dir}/r"], "Two targets are named"),
    (["compare", "--preset", "slow", "--out", "{dir}/r"], "'quick' or 'full'"),
    (["frobnicate"], "frobnicate"),
    (["--nonsense"], "--nonsense"),
]


@pytest.mark.bad_input
@pytest.mark.parametrize(
    ("arguments", "complaint"), WRONG, ids=lambda value: " ".join(value) if isinstance(value, list) else ""
)
def test_wrong_use_is_one_line_and_status_two(cli, nice, tmp_path, arguments, complaint):
    text = tmp_path / "text.safetensors"
    text.write_text("hello")
    names = {"nice": nice, "dir": tmp_path, "text": text}
    said = cli(*(argument.format(**names) for argument in arguments), status=2)
    assert said.out == ""
    assert said.err.count("\n") == 1
    assert complaint.format(**names) in said.err
    assert "Traceback" not in said.err


def test_a_folder_that_does_not_exist_is_one_line(cli, nice, tmp_path):
    said = cli("learn", nice, "-o", tmp_path / "absent" / "f.safetensors", status=2)
    assert said.err.count("\n") == 1
    assert "absent" in said.err


def test_where_nothing_can_be_written_is_said_before_the_work(cli, nice, tmp_path, monkeypatch):
    def never(*_, **__):
        raise AssertionError("work was done")

    monkeypatch.setattr("arena.cli.learn.learn", never)
    monkeypatch.setattr("arena.cli.generate.nice_target", never)
    absent = tmp_path / "absent" / "f.safetensors"
    cli("learn", nice, "-o", absent, status=2)
    cli("generate", "nice", "-o", absent, status=2)


def test_compare_counts_the_targets_it_builds(cli):
    assert len(preset_targets()) == preset_count()
    assert f"without any, {preset_count()} built here" in " ".join(cli("compare", "--help").out.split())


@pytest.mark.parametrize(
    "command",
    [
        "",
        "generate",
        "generate nice",
        *(f"generate {kind}" for kind in FAMILIES),
        "generate lwr",
        "families",
        "inspect",
        "learn",
        "explain",
        "compare",
        "runs",
    ],
)
def test_help_has_an_example(cli, command):
    words = cli(*command.split(), "--help").out
    assert "Example: attention-bounds" in words


def test_the_installed_command_runs():
    program = Path(sys.executable).with_name("attention-bounds")
    if not program.exists():
        pytest.skip("the package is not installed with its command")
    done = subprocess.run([program, "--version"], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("attention-bounds ")


def test_a_law_of_a_single_secret_is_said_to_hide_nothing(cli, tmp_path):
    command = ["generate", "lwr", "--secret-dim", 16, "--modulus", 16, "--levels", 2, "-o", tmp_path / "f"]
    assert "Nothing is hidden" in cli(*command, "--secret-law", "zero").out
    assert "Nothing is hidden" not in cli(*command).out

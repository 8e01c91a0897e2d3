"""Attacks side by side: one's end loses no other's result, and tables say what was found."""

import json
import os
import re
import sys
import time
from dataclasses import dataclass, replace

import cloudpickle
import numpy as np
import pytest

import runs
from arena import ATTACKS, attack, lwr_target, save_target
from arena.samples import open_samples, samples_of
from attention import AttentionLayer
from lwe import (
    PRESETS,
    TERNARY,
    Attack,
    CentredBinomial,
    DiscreteGaussian,
    LWEParameters,
    known_reductions,
    make_samples,
    read_samples,
)
from lwe.sample_files import read_matrix

cloudpickle.register_pickle_by_value(sys.modules[__name__])


@dataclass(frozen=True)
class Odd(Attack):
    """Ends as its name says."""

    name: str = "odd"

    def run(self, attempt, rng):
        while self.name == "endless":
            time.sleep(0.05)
        if self.name == "crash":
            os._exit(3)
        raise ZeroDivisionError("by nothing")


def outcomes(found):
    return {one.attack: one.outcome.name for one in found.results}


@pytest.mark.slow
@pytest.mark.usefixtures("processes")
def test_crashes_errors_and_endless_loops_lose_no_other_result(monkeypatch):
    monkeypatch.setattr("studies.lwr_reach._GRACE", 0.5)
    target, seen = lwr_target(n=12, q=4, p=2, seed=1), []
    attacks = [
        Odd("crash"),
        ATTACKS["linearisation"],
        Odd("endless"),
        Odd("raises"),
        ATTACKS["exhaustive"],
    ]
    found = attack(target, attacks, samples=1500, seconds=2.0, jobs=3, on_result=seen.append)
    assert outcomes(found) == {
        "crash": "FAILED",
        "linearisation": "BROKEN",
        "endless": "BUDGET_SPENT",
        "raises": "FAILED",
        "exhaustive": "BROKEN",
    }
    assert seen[-1] == found
    assert len(seen) == len(attacks)
    said = str(found)
    assert "ZeroDivisionError: by nothing" in said
    assert "ended by force after 2.5 seconds" in said
    assert re.search(r"linearisation +broken +1\.000 +0\.\d+ +10\^-\d+ +is the true secret", said)
    assert "A failed attack is no claim of security." in said


def test_attacks_find_the_planted_secret_of_an_instance():
    target = lwr_target(n=3, q=8, p=2, matrix="gadget", seed=4)
    stored = samples_of(target, 300, seed=1)
    drawn = stored.samples
    assert np.array_equal(2 * (drawn.public @ stored.secret % 8) // 8, drawn.labels)
    found = attack(target, "linearisation,exhaustive", samples=1500, isolated=False)
    assert found.broken_by == ("linearisation", "exhaustive")
    assert found.is_secret(found.results[0])


@pytest.mark.parametrize(
    "settings",
    [
        {"n": 6, "q": 8, "p": 2, "seed": 4},
        # beyond the range that its heads keep a label may differ
        {"n": 40, "q": 16, "p": 2, "seed": 3, "deviations": 2.0},
    ],
    ids=["all", "kept"],
)
def test_a_layer_with_other_labels_is_not_attacked_as_if_it_had_them(settings):
    target = lwr_target(**settings)
    assert len(samples_of(target, 100).samples) == 100
    layer = AttentionLayer(theta=target.instance.layer.theta, w=-target.instance.layer.w)
    changed = replace(target, instance=replace(target.instance, layer=layer))
    with pytest.raises(ValueError, match="the layer's labels are not those of its secret"):
        samples_of(changed, 100)


def test_noise_is_met_as_it_is():
    target = lwr_target(n=6, q=16, p=16, Xe=CentredBinomial(1), seed=2)
    stored = samples_of(target, 2000)
    drawn = stored.samples
    assert set(np.mod(drawn.labels - drawn.public @ stored.secret, 16)) == {0, 1, 15}
    found = attack(target, "exhaustive", samples=500, isolated=False)
    assert outcomes(found) == {"exhaustive": "BROKEN"}
    assert f"The secret itself predicts {found.best_accuracy:.3g} of the labels" in str(found)


def test_a_periodic_wave_is_attacked_by_lattices_and_shown_in_comparisons(cli, tmp_path):
    pytest.importorskip("fpylll")
    path = tmp_path / "wave.safetensors"
    cli("generate", "sq-periodic", "--dim", 8, "--seed", 1, "-o", path)
    assert json.loads(cli("learn", path, "--learner", "lattice", "--json").out)["outcome"] == "EXACT"
    assert "learn --learner lattice" in cli("attack", path, status=2).err
    cli("compare", path, "--learners", "lattice,elimination", "--out", tmp_path / "results")
    cells = json.loads((tmp_path / "results" / "results.json").read_text())["cells"]
    assert [one["outcome"] for one in cells] == ["EXACT", ""]


def test_matrices_of_others_are_attacked_and_what_may_be_left_out_is_said(cli, tmp_path):
    parameters = LWEParameters(10, 97, 97, matrix="uniform", Xs=TERNARY, Xe=CentredBinomial(1))
    samples, secret = make_samples(parameters, 500, rng=0)
    for name, array in {"A": samples.public, "b": samples.labels, "s": secret}.items():
        np.save(tmp_path / f"{name}.npy", array)
    given = ["attack", tmp_path / "A.npy", "--labels", tmp_path / "b.npy", "--q", 97]
    given += ["--Xs", "ternary", "--secret", tmp_path / "s.npy", "--attacks", "exhaustive"]
    said = cli(*given, "--Xe", "binomial:1").out
    assert re.search(r"exhaustive +broken .* is the true secret", said)
    assert "give Xe" not in said
    assert "give Xe or p" in cli(*given).out
    np.save(tmp_path / "A.npy", samples.public % 2)
    assert "matrix binary" in cli(*given).out
    assert "matrix binary" not in cli(*given, "--matrix", "binary").out


@pytest.mark.parametrize("rounding", ["down", "nearest"])
def test_the_rounding_of_labels_is_found_where_nothing_says_it(cli, tmp_path, rounding):
    saber = LWEParameters(12, 256, 32, "uniform", Xs=TERNARY)
    samples, secret = make_samples(saber, 40, rounding=rounding, rng=0)
    for name, array in {"A": samples.public, "b": samples.labels, "s": secret}.items():
        np.save(tmp_path / f"{name}.npy", array)
    given = ["attack", tmp_path / "A.npy", "--labels", tmp_path / "b.npy", "--q", 256, "--p", 32]
    given += ["--Xs", "ternary", "--secret", tmp_path / "s.npy"]
    given += ["--attacks", "least-squares,meet-in-the-middle"]
    said = cli(*given).out
    assert re.search(r"meet-in-the-middle +broken .* is the true secret", said)
    assert ("rounded to the nearest." in said) is (rounding == "nearest")
    # what is said is not tried otherwise
    others = "down" if rounding == "nearest" else "nearest"
    assert "Broken by none" in cli(*given, "--rounding", others).out


def test_an_attack_that_refuses_is_not_said_to_have_spent_its_budget(cli, tmp_path):
    save_target(tmp_path / "it.safetensors", lwr_target(n=24, q=64, p=2, seed=1))
    given = ["--attacks", "meet-in-the-middle", "--samples", 1000, "--json"]
    found = json.loads(cli("attack", tmp_path / "it.safetensors", *given).out)
    assert found["results"][0]["outcome"] == "REFUSED"
    assert found["broken_by"] == []


def test_an_interruption_keeps_what_was_found_and_names_the_others(cli, tmp_path, monkeypatch):
    def interrupted(cells, **settings):
        yield next(runs.run(cells, **settings | {"isolated": False, "timeout": None}))
        raise KeyboardInterrupt

    monkeypatch.setattr("arena.attacking.run", interrupted)
    path, out = tmp_path / "easy.safetensors", tmp_path / "found.json"
    save_target(path, lwr_target(n=6, q=16, p=2, seed=1))
    names = "least-squares,linearisation,exhaustive"
    done = cli("attack", path, "--attacks", names, "--samples", 1000, "-o", out, status=130)
    assert "Broken by none." in done.out
    assert done.err.endswith("1 of 3 attacks were done. Not run to their end: linearisation, exhaustive.\n")
    kept = json.loads(out.read_text(encoding="utf-8"))
    assert [one["attack"] for one in kept["results"]] == ["least-squares"]
    assert kept["not_run"] == ["linearisation", "exhaustive"]


def test_samples_go_from_an_instance_through_every_format_and_are_attacked(cli, tmp_path):
    target, held = tmp_path / "it.safetensors", tmp_path / "s.npz"
    save_target(target, lwr_target(n=8, q=4, p=2, seed=1))
    said = json.loads(
        cli("generate", "samples", target, "--number", 600, "--with-secret", "-o", held, "--json").out
    )
    assert (said["number"], said["parameters"]["q"]) == (600, 4)
    for path in (target, held):
        known = json.loads(cli("inspect", path, "--json").out)
        known = known if path == held else known["reductions"]
        assert known["rests_on"] == "LWE with errors uniform on 2 residues"
    matrices = ["--labels", tmp_path / "b.txt"]
    cli("generate", "samples", held, "-o", tmp_path / "A.txt", "--labels-out", tmp_path / "b.txt")
    options = ["--attacks", "exhaustive", "--json"]
    found = json.loads(cli("attack", held, *options).out)
    assert (found["broken_by"], found["samples"]) == (["exhaustive"], 600)
    problem = ["--q", 4, "--p", 2, "--matrix", "binary"]
    again = json.loads(cli("attack", tmp_path / "A.txt", *matrices, *problem, *options).out)
    assert again["results"][0]["secret"] == found["results"][0]["secret"]
    stored = read_samples(held)
    np.testing.assert_array_equal(read_matrix(tmp_path / "A.txt"), stored.samples.public)
    assert np.array_equal(2 * (stored.samples.public @ stored.secret % 4) // 4, stored.samples.labels)


def test_a_challenge_of_others_is_attacked_by_its_file_alone(cli, tmp_path):
    parameters = LWEParameters(6, 97, 97, "uniform", Xe=DiscreteGaussian(0.5))
    samples, _ = make_samples(parameters, 60, rng=0)
    rows = "\n".join(f"[{' '.join(map(str, row))}]" for row in samples.public.tolist())
    labels = " ".join(map(str, samples.labels.tolist()))
    (tmp_path / "c.txt").write_text(f"6\n60\n97\n{0.5 / 97}\n[{labels}]\n[{rows}]\n")
    _, found = open_samples(tmp_path / "c.txt")
    assert found.parameters == parameters
    assert "60 samples of LWE n=6 q=97" in cli("inspect", tmp_path / "c.txt").out
    said = json.loads(
        cli("attack", tmp_path / "c.txt", "--attacks", "least-squares", "--samples", 40, "--json").out
    )
    assert (said["samples"], said["results"][0]["outcome"]) == (40, "NOTHING")
    assert found.secret is None


@pytest.mark.parametrize("name", ["kyber512", "toy-gadget"])
def test_named_parameters_have_reductions_and_samples(name, cli, tmp_path):
    assert str(known_reductions(PRESETS[name])) in cli("inspect", name).out
    cli("generate", "samples", name, "--number", 7, "-o", tmp_path / "s.npz")
    assert read_samples(tmp_path / "s.npz").parameters == PRESETS[name]
    assert len(open_samples(name, 7, seed=3)[1].samples) == 7


@pytest.mark.parametrize("matrix", ["ternary", "gadget"])
def test_samples_written_as_matrices_come_with_the_command_that_attacks_them(
    cli, tmp_path, monkeypatch, matrix
):
    monkeypatch.chdir(tmp_path)
    cli(*f"generate lwr --n 4 --q 16 --p 2 --matrix {matrix} -o a.safetensors".split())
    said = cli(*["generate", "samples", "a.safetensors", "-o", "A.npy", "--labels-out", "b.npy"]).out
    command = said.split("attention-bounds ")[1].split()
    found = cli(*command, "--attacks", "exhaustive", "--json").out
    assert json.loads(found)["broken_by"] == ["exhaustive"]

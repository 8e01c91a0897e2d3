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

import arena.attacking
from arena import (
    ATTACKS,
    Attacked,
    AttackKind,
    attack,
    attack_samples,
    choose_attacks,
    lwr_target,
    nice_target,
    samples_of,
    save_target,
)
from attention import AttentionLayer
from lwe import (
    AttackOutcome,
    AttackResult,
    BaseAttack,
    BinomialLaw,
    LWRParameters,
    TernaryLaw,
    make_samples,
    write_samples,
)

cloudpickle.register_pickle_by_value(sys.modules[__name__])
EASY = LWRParameters(secret_dim=12, modulus=4, levels=2)


@dataclass(frozen=True)
class Endless(BaseAttack):
    """Never looks at its clock."""

    name = "endless"

    def run(self, attempt, generator):
        while True:
            time.sleep(0.05)


@dataclass(frozen=True)
class Crash(BaseAttack):
    """Takes its process with it."""

    name = "crash"

    def run(self, attempt, generator):
        os._exit(3)


@dataclass(frozen=True)
class Raises(BaseAttack):
    """Breaks down."""

    name = "raises"

    def run(self, attempt, generator):
        raise ZeroDivisionError("by nothing")


def kind(make):
    return AttackKind(make.name, make.name.title(), "Nothing.", lambda parameters: make())


def outcomes(found):
    return {one.attack: one.outcome.name for one in found.results}


@pytest.fixture(scope="module")
def easy():
    return make_samples(EASY, 1500, rng=0)


@pytest.mark.slow
@pytest.mark.parametrize("jobs", [1, 3])
def test_crashes_errors_and_endless_loops_lose_no_other_result(easy, monkeypatch, jobs):
    monkeypatch.setattr(arena.attacking, "_GRACE", 0.5)
    samples, secret = easy
    kinds = [kind(Crash), ATTACKS["linearisation"], kind(Endless), kind(Raises), ATTACKS["least-squares"]]
    seen = []
    found = attack_samples(
        samples,
        EASY,
        kinds,
        secret=secret,
        seconds=2.0,
        jobs=jobs,
        on_result=lambda one: seen.append(one.attack),
    )
    assert outcomes(found) == {
        "crash": "FAILED",
        "linearisation": "BROKEN",
        "endless": "BUDGET_SPENT",
        "raises": "FAILED",
        "least-squares": "NOTHING",
    }
    assert sorted(seen) == sorted(one.name for one in kinds)
    said = str(found)
    assert "ZeroDivisionError: by nothing" in said
    assert "ended by force after 2.5 seconds" in said
    assert re.search(r"linearisation +broken +1\.000 +0\.\d+ +the true one", said)
    assert "Broken by linearisation." in said
    assert "no claim of security" in " ".join(said.split())


@pytest.mark.slow
def test_results_do_not_depend_on_processes(easy):
    samples, secret = easy
    names = "least-squares,exhaustive,linearisation"
    here = attack_samples(samples, EASY, names, secret=secret, isolated=False)
    apart = attack_samples(samples, EASY, names, secret=secret, jobs=2)
    strip = [replace(one, seconds=0.0, predict=None).to_json() for one in here.results]
    assert strip == [replace(one, seconds=0.0).to_json() for one in apart.results]


def test_an_instance_is_attacked_through_samples_of_its_own_labels():
    target = lwr_target(secret_dim=3, modulus=8, levels=2, gadget=True, seed=4)
    drawn, parameters, secret = samples_of(target, 300, seed=1)
    assert len(drawn) == 300
    assert np.array_equal(2 * (drawn.public @ np.array(secret) % 8) // 8, drawn.labels)
    found = attack(target, "linearisation,exhaustive", samples=1500, isolated=False)
    assert outcomes(found) == {"linearisation": "BROKEN", "exhaustive": "BROKEN"}
    assert found.is_secret(found.results[0])
    assert parameters.gadget


def test_a_layer_with_other_labels_is_not_attacked_as_if_it_had_them():
    target = lwr_target(secret_dim=6, modulus=8, levels=2, seed=4)
    layer = AttentionLayer(theta=target.instance.layer.theta, w=-target.instance.layer.w)
    changed = replace(target, instance=replace(target.instance, layer=layer))
    with pytest.raises(ValueError, match="the layer's labels are not those of its secret"):
        samples_of(changed, 100)


def test_beyond_the_range_that_heads_keep_a_label_may_differ():
    target = lwr_target(secret_dim=40, modulus=16, levels=2, seed=3, deviations=2.0)
    drawn, _, secret = samples_of(target, 100)
    assert np.array_equal(2 * (drawn.public @ np.array(secret) % 16) // 16, drawn.labels)
    layer = AttentionLayer(theta=target.instance.layer.theta, w=-target.instance.layer.w)
    changed = replace(target, instance=replace(target.instance, layer=layer))
    with pytest.raises(ValueError, match="the layer's labels are not those of its secret"):
        samples_of(changed, 100)


def test_noise_is_met_as_it_is():
    target = lwr_target(secret_dim=6, modulus=16, levels=16, noise=BinomialLaw(1), seed=2)
    drawn, parameters, secret = samples_of(target, 2000)
    errors = np.mod(drawn.labels - drawn.public @ np.array(secret), 16)
    assert set(errors) == {0, 1, 15}
    assert outcomes(attack(target, "exhaustive", samples=500, isolated=False))["exhaustive"] == "BROKEN"
    assert parameters.noisy


def test_the_last_words_name_what_was_found_short_of_all_labels():
    secret = (1, -2)
    outcomes = [
        AttackResult("lattice", AttackOutcome.PREDICTS, "Some.", 0.4, 0.1, 50, np.array(secret)),
        AttackResult("dual", AttackOutcome.DISTINGUISHED, "Told."),
        AttackResult("bkw", AttackOutcome.NOTHING, "Nothing."),
    ]
    parameters = LWRParameters(2, 97, 97, noise=BinomialLaw(2))
    found = Attacked("Samples", parameters, 100, 5.0, tuple(outcomes), secret, ("adam",))
    said = " ".join(str(found).split())
    assert "Broken by none of those that ran. Predicted in part by lattice." in said
    assert "Told from random labels, no more, by dual." in said
    assert "The true secret was found by lattice. Interrupted; not run to their end: adam." in said
    assert f"The secret itself predicts {parameters.best_accuracy:.3g} of the labels" in said
    assert found.to_json()["not_run"] == ["adam"]
    assert found.to_json()["broken_by"] == []


@pytest.mark.bad_input
def test_what_cannot_be_attacked_is_a_sentence():
    with pytest.raises(ValueError, match="no instance of learning with rounding"):
        attack(nice_target(heads=1, tokens=2, dim=8))
    with pytest.raises(ValueError, match="'guess' is no attack: choose among least-squares"):
        choose_attacks("guess")
    with pytest.raises(ValueError, match="No attack is named"):
        choose_attacks(" , ")
    assert not any(one.learner for one in choose_attacks())


class TestCommand:
    @pytest.mark.slow
    def test_table_json_and_file(self, cli, tmp_path):
        save_target(tmp_path / "easy.safetensors", lwr_target(secret_dim=12, modulus=4, levels=2, seed=1))
        given = [tmp_path / "easy.safetensors", "--attacks", "linearisation,bkw", "--samples", 1000]
        said = cli("attack", *given, "-o", tmp_path / "found.json").out
        assert "Rounding, n = 12, q = 4, p = 2" in said
        assert "Broken by linearisation." in said
        written = json.loads((tmp_path / "found.json").read_text(encoding="utf-8"))
        assert [one["outcome"] for one in written["results"]] == ["BROKEN", "NOT_APPLICABLE"]
        printed = json.loads(cli("attack", *given, "--json").out)
        assert printed["broken_by"] == ["linearisation"]
        assert printed["results"][0]["is_the_secret"] is True

    def test_matrices_of_others(self, cli, tmp_path):
        parameters = LWRParameters(10, 97, 97, matrix="uniform", secret=TernaryLaw(), noise=BinomialLaw(1))
        samples, secret = make_samples(parameters, 500, rng=0)
        paths = [tmp_path / name for name in ("A.npy", "b.npy", "s.npy")]
        write_samples(paths[0], paths[1], samples, secret_path=paths[2], secret=secret)
        given = ["attack", paths[0], "--labels", paths[1], "--modulus", 97, "--secret-law", "ternary"]
        said = cli(*given, "--noise", "binomial:1", "--secret", paths[2], "--attacks", "exhaustive").out
        assert re.search(r"exhaustive +broken .* the true one", said)

    @pytest.mark.slow
    def test_what_may_have_been_left_out_is_said(self, cli, tmp_path):
        parameters = LWRParameters(6, 97, 97, noise=BinomialLaw(1))
        samples, _ = make_samples(parameters, 60, rng=0)
        write_samples(tmp_path / "A.npy", tmp_path / "b.npy", samples)
        given = ["attack", tmp_path / "A.npy", "--labels", tmp_path / "b.npy", "--modulus", 97]
        given += ["--attacks", "least-squares"]
        said = cli(*given).out
        assert "give --noise or --levels" in said
        assert "--matrix binary" in said
        said = cli(*given, "--matrix", "binary", "--noise", "binomial:1").out
        assert "give --noise or --levels" not in said
        assert "--matrix binary tells" not in said

    def test_an_attack_that_refuses_is_not_said_to_have_spent_its_budget(self, cli, tmp_path):
        save_target(tmp_path / "large.safetensors", lwr_target(secret_dim=24, modulus=64, levels=2, seed=1))
        given = [
            "attack",
            tmp_path / "large.safetensors",
            "--attacks",
            "meet-in-the-middle",
            "--samples",
            1000,
        ]
        said = cli(*given).out
        assert re.search(r"meet-in-the-middle +refused ", said)
        assert "spent" not in said

    def test_an_interruption_names_the_attacks_that_were_not_run_to_their_end(
        self, cli, tmp_path, monkeypatch
    ):
        def interrupted(*given, on_result, **settings):
            def then_stop(result):
                on_result(result)
                raise KeyboardInterrupt

            attack_samples(*given, **settings, on_result=then_stop, isolated=False)

        monkeypatch.setattr("arena.cli.attack.attack_samples", interrupted)
        path, out = tmp_path / "easy.safetensors", tmp_path / "found.json"
        save_target(path, lwr_target(secret_dim=6, modulus=16, levels=2, seed=1))
        names = "least-squares,linearisation,exhaustive"
        done = cli("attack", path, "--attacks", names, "--samples", 1000, "-o", out, status=130)
        said = " ".join(done.out.split())
        assert "Broken by none of those that ran." in said
        assert "linearisation, exhaustive" in said
        assert done.err.endswith(
            "1 of 3 attacks were done. Not run to their end: linearisation, exhaustive.\n"
        )
        kept = json.loads(out.read_text(encoding="utf-8"))
        assert [one["attack"] for one in kept["results"]] == ["least-squares"]
        assert kept["not_run"] == ["linearisation", "exhaustive"]

    @pytest.mark.bad_input
    @pytest.mark.parametrize(
        ("options", "said"),
        [
            (["{dir}/none.safetensors"], "none.safetensors"),
            (["{dir}/A.npy"], "--labels is needed"),
            (["{dir}/A.npy", "--labels", "{dir}/b.npy"], "--modulus is needed"),
            (["{dir}/A.npy", "--labels", "{dir}/none.npy", "--modulus", "8"], "none.npy"),
            (["{dir}/A.npy", "--labels", "{dir}/b.npy", "--modulus", "8", "--noise", "loud"], "'loud'"),
            (["{dir}/A.npy", "--labels", "{dir}/b.npy", "--modulus", "8", "--levels", "0"], "levels"),
            (["{dir}/A.npy", "--labels", "{dir}/b.npy", "--modulus", "8", "--matrix", "none"], "'none'"),
            (["{dir}/A.npy", "--labels", "{dir}/A.npy", "--modulus", "8"], "one label for each row"),
            (["{dir}/b.npy", "--labels", "{dir}/b.npy", "--modulus", "8"], "b.npy has shape (20,)"),
            (
                ["{dir}/A.npy", "--labels", "{dir}/b.npy", "--modulus", "8", "--samples", "50"],
                "--samples is 50",
            ),
            (["{dir}/A.npz", "--labels", "{dir}/b.npy", "--modulus", "8"], "numpy.save"),
            (["{dir}/easy.safetensors", "--modulus", "8"], "--modulus: such options are for matrices"),
            (["{dir}/easy.safetensors", "--attacks", "guess"], "'guess' is no attack"),
            (["{dir}/easy.safetensors", "--budget", "0"], "--budget"),
            (["{dir}/easy.safetensors", "--samples", "3"], "5"),
            (["{dir}/easy.safetensors", "--jobs", "0"], "jobs"),
        ],
    )
    def test_wrong_input_is_one_sentence(self, cli, tmp_path, options, said):
        save_target(tmp_path / "easy.safetensors", lwr_target(secret_dim=4, modulus=4, levels=2, seed=1))
        np.save(tmp_path / "A.npy", np.ones((20, 3), dtype=np.int64))
        np.save(tmp_path / "b.npy", np.ones(20, dtype=np.int64))
        result = cli("attack", *[one.format(dir=tmp_path) for one in options], status=2)
        assert said in result.err
        assert result.err.count("\n") == 1

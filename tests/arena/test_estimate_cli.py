"""``estimate``: a table of costs with the model's name, JSON for machines, and a sentence for wrong numbers."""

import json

import pytest

from arena.cli.main import run


def test_kyber_is_printed_with_the_published_exponent_and_the_cost_model(capsys):
    assert run(["estimate", "kyber512", "--samples", "512"]) == 0
    shown = capsys.readouterr().out
    assert "2^118.6" in shown
    assert "core-SVP" in shown
    assert "no claim of security" in shown


def test_numbers_make_the_same_problem_as_a_name(capsys):
    numbers = ["--n", "512", "--q", "3329", "--noise", "binomial:3", "--secret", "binomial:3"]
    found = []
    for words in (["kyber512"], numbers):
        assert run(["estimate", *words, "--samples", "512", "--json"]) == 0
        found.append(json.loads(capsys.readouterr().out))
    assert found[0] == found[1]
    assert found[0] == sorted(found[0], key=lambda one: one["exponent"])


def test_the_best_attack_on_a_sparse_secret_is_a_hybrid_one(capsys):
    words = [
        "--n",
        "512",
        "--q",
        "3329",
        "--noise",
        "binomial:3",
        "--secret",
        "sparse:32",
        "--samples",
        "512",
    ]
    assert run(["estimate", *words, "--model", "MATZOV", "--json"]) == 0
    best = json.loads(capsys.readouterr().out)[0]
    assert best["attack"] == "hybrid, meeting in the middle"
    assert best["model"] == "MATZOV"
    assert best["exponent"] == pytest.approx(85.4, abs=0.5)


def test_moduli_beyond_those_of_samples_are_estimated(capsys):
    assert (
        run(["estimate", "--n", "256", "--q", "2^64", "--sigma", "3.19", "--secret", "ternary", "--json"])
        == 0
    )
    found = json.loads(capsys.readouterr().out)
    assert found[0]["parameters"] == "LWE n=256 q=2^64 secret=ternary sigma=3.19"


@pytest.mark.bad_input
@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["kyber"], "'kyber' is no set of parameters"),
        (["--n", "10"], "--q and one of --sigma and --noise"),
        (["kyber512", "--n", "10"], "numbers of its own"),
        (["--n", "10", "--q", "a97", "--sigma", "3"], "q is 'a97'"),
        (["--n", "10", "--q", "2^2000", "--sigma", "3"], "modulus is"),
        (["--n", "10", "--q", "97", "--sigma", "-3"], "sigma is -3"),
        (["--n", "10", "--q", "97", "--noise", "nix"], "The law is 'nix'"),
        (["--n", "10", "--q", "2^40", "--noise", "binomial:2"], "give --sigma"),
        (["kyber512", "--samples", "0"], "samples is 0"),
    ],
)
def test_wrong_numbers_get_a_sentence(words, told, capsys):
    assert run(["estimate", *words]) == 2
    assert told in capsys.readouterr().err

"""Studies of linear attention: acceptance figures of their cells."""

import itertools
from pathlib import Path

import numpy as np
import pytest

from attention import AttentionLayer
from runs import Scale
from studies import find_studies, load_result
from upper.linear_attention.features import softmax_features

RECORDS = Path(__file__).parents[2] / "docs" / "studies"


def linear_study(name):
    return find_studies([f"linear-{name}"])[0]


def measured(name, cell, seed=3):
    return linear_study(name).measure(rng=np.random.default_rng(seed), **cell)


def cells(name, **chosen):
    every = linear_study(name).cells(Scale.QUICK)
    return [cell for cell in every if all(cell[key] == value for key, value in chosen.items())]


def test_the_threshold_is_as_many_examples_as_features():
    row = measured("random", {"d": 4, "heads": 16, "noise": 0.0})
    errors = {(fit["examples"], fit["solver"]): fit["error"] for fit in row["fits"]}
    assert errors[39, "svd"] > 1e-3
    assert errors[40, "svd"] < 1e-11
    noisy = measured("random", {"d": 4, "heads": 4, "noise": 0.1})
    assert noisy["excess"] == pytest.approx(1e-4, rel=1 / 3)


def test_signs_determine_signs_and_twenty_gaussian_examples_the_rest():
    signs, added = (measured("ranks", cell) for cell in cells("ranks", part="transfer"))
    assert signs["on_signs"] < 1e-13
    assert signs["on_gaussian"] > 0.1
    assert (added["rank"], added["on_gaussian"] < 1e-11) == (75, True)


def test_key_value_ranks_and_the_nineteenth_query():
    rows = {row["keys"]: {**row, **measured("key-value", row)} for row in cells("key-value")}
    assert [rows[keys]["rank"] for keys in ("haar", "fixed", "gaussian", "half-queried")] == [92, 76, 112, 38]
    assert rows["two-keys"]["deficit"] == 4
    errors = {one["queries"]: one["error"] for one in rows["rare"]["rare"]}
    assert errors[18] > 1e-3
    assert errors[19] < 1e-20


def test_automata_run_on_without_an_error_once_the_rank_is_reached():
    sizes = {"draws": 1, "strings": 50, "steps": 1000}
    whole = measured("automata", {"part": "fixed", "states": 3, "symbols": 2, "size": 6, **sizes}, seed=7)
    assert (whole["rank"], whole["shares"]) == (6, [1.0])
    # .50, .26 and .20 are single draws; over a thousand steps a word forgets its start
    sizes = {"draws": 6, "strings": 4, "steps": 1000}
    for (states, symbols, seen), documented in zip(
        [(3, 2, 4), (5, 3, 3), (8, 4, 1)], (0.50, 0.26, 0.20), strict=True
    ):
        cell = {"part": "fixed", "states": states, "symbols": symbols, "size": seen, **sizes}
        row = measured("automata", cell, seed=7)
        assert row["rank"] == seen
        assert min(row["shares"]) <= documented <= max(row["shares"])
        assert np.mean(row["shares"]) < 1
    sizes = {"draws": 1, "strings": 20, "steps": 100}
    for states, number, rank in [(2, 50, 20), (3, 200, 78), (4, 1000, 200)]:
        cell = {"part": "context", "states": states, "symbols": 2, "size": number, **sizes}
        row = measured("automata", cell, seed=7)
        assert (row["rank"], row["shares"]) == (rank, [1.0])


def test_a_reader_of_fourteen_dimensions_is_learned_exactly():
    cell = {"part": "tape", "states": 2, "symbols": 2, "size": 4, "draws": 1, "strings": 200, "steps": 1}
    row = measured("automata", cell, seed=0)
    assert (row["rank"], row["full_rank"], row["constructed_error"]) == (40, 40, 0)
    assert row["learned_error"] < 6e-15


@pytest.mark.slow
def test_turing_machines_for_a_thousand_steps_in_whole_numbers_and_learned():
    runs = {"stop": None, "machines": 1}
    for size in ([2, 2, 4], [3, 3, 6], [4, 3, 10]):
        made = measured("turing", {"model": "constructed", "size": size, "runs": 2, "steps": 1000, **runs})
        assert (made["shares"], made["rounding"]) == ([1.0], 0)
    for size, rank, steps in (([2, 2, 4], 40, 100), ([3, 2, 5], 90, 30)):
        row = measured("turing", {"model": "short", "size": size, "runs": 3, "steps": steps, **runs})
        assert (row["rank"], row["shares"]) == (rank, [1.0])


@pytest.mark.slow
def test_learned_from_random_machines_it_runs_unseen_ones_at_the_exact_rank():
    cell = {"model": "universal-short", "size": [2, 2, 2], "machines": 10, "runs": 1, "steps": 40}
    half, whole = (measured("turing", {**cell, "stop": stop}) for stop in (188, 376))
    assert (half["rank"], whole["rank"], whole["full_rank"]) == (188, 376, 376)
    assert min(whole["shares"]) == 1
    assert whole["rounding"] < 1e-12
    assert np.mean(half["shares"]) < 0.9


@pytest.mark.slow
def test_cubic_features_on_softmax_attention():
    row = measured("softmax", {"k": 4, "d": 8, "draws": 16, "samples": 8000}, seed=9)
    means = {kind: np.mean(values, axis=1) for kind, values in row["missed"].items()}
    assert 1 - means["plain"][0] == pytest.approx(0.23, abs=0.03)
    assert 1 - means["aug"][2] == pytest.approx(0.87, abs=0.03)
    assert 1 - means["cent"][2] == pytest.approx(0.95, abs=0.02)


def test_two_tokens_are_enumerated_and_missed_is_the_error_of_exact_least_squares():
    """Of 2^12 inputs all, by another route."""
    row = measured("softmax", {"k": 2, "d": 6, "draws": 2, "samples": 0}, seed=5)
    rng = np.random.default_rng(5)
    theta = rng.standard_normal((4, 2, 6, 6))
    theta /= np.linalg.norm(theta, axis=(2, 3), keepdims=True)
    w = rng.standard_normal((4, 2, 6, 6)) / np.sqrt(6)
    x = np.array(list(itertools.product([-1.0, 1.0], repeat=12))).reshape(-1, 2, 6)
    phi = softmax_features(x, "cent", every_row=False)
    for draw in range(2):
        y = AttentionLayer(theta[2, draw][None], w[2, draw][None])(x)[:, -1]
        error = y - phi @ np.linalg.lstsq(phi, y, rcond=1e-10)[0]
        missed = np.sum(error**2) / np.sum(y**2)
        assert row["missed"]["cent"][2][draw] == pytest.approx(missed, rel=1e-8)


def test_planted_heads_are_found():
    row = measured("heads", {"part": "found", "d": 4, "planted": 3, "draw": 0})
    assert row["found"]
    assert row["rank"] == 16
    rows = load_result(RECORDS / "linear-heads.json").rows
    assert all(row["found"] for row in rows if row["part"] == "found")
    (learned,) = (row for row in rows if row["part"] == "learned")
    assert (learned["rank"], learned["heads"]) == (64, 4)

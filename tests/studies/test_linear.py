"""Studies of linear attention: acceptance figures of their cells."""

import itertools

import numpy as np
import pytest

from attention import AttentionLayer, relative_error
from runs import Scale
from studies import find_studies
from upper.linear_attention import fit_heads, make_linear_attention, regress, symmetric_rank
from upper.linear_attention.features import softmax_features


def measured(name, seed=3, **cell):
    (study,) = find_studies([f"linear-{name}"])
    return study.measure(rng=np.random.default_rng(seed), **cell)


def test_the_threshold_is_as_many_examples_as_features():
    errors = {fit["examples"]: fit["error"] for fit in measured("learning", part="threshold", d=4, heads=16)}
    assert errors[39] > 1e-3
    assert errors[40] < 1e-11


def test_signs_determine_signs_and_twenty_gaussian_examples_the_rest():
    signs, added = (measured("learning", part="transfer", d=5, added=added) for added in (0, 20))
    assert signs["on_signs"] < 1e-13
    assert signs["on_gaussian"] > 0.1
    assert (added["rank"], added["on_gaussian"] < 1e-11) == (75, True)


def test_planted_heads_are_found(record):
    row = measured("learning", part="heads", d=4, heads=3, draw=0)
    assert row["found"]
    assert row["rank"] == 16
    assert all(row["found"] for row in record("linear-learning").rows if row["part"] == "heads")


def test_four_heads_are_found_of_a_model_learned_at_eight_dimensions():
    rng = np.random.default_rng(0)
    model = make_linear_attention(heads=4, dim=8, rng=rng)
    x, fresh = rng.standard_normal((576, 10, 8)), rng.standard_normal((500, 10, 8))
    learned = regress(x, model(x))
    heads = fit_heads(learned, rng=rng).model
    assert (symmetric_rank(learned.tensor), heads.heads) == (64, 4)
    assert relative_error(heads(fresh), model(fresh)) < 1e-9


def test_key_value_ranks_and_the_nineteenth_query():
    ranks = [
        measured("tasks", task="memory", keys=keys, examples=1500)["rank"]
        for keys in ("haar", "fixed", "gaussian", "half-queried")
    ]
    assert ranks == [92, 76, 112, 38]
    assert measured("tasks", task="memory", keys="two-keys", examples=1500)["deficit"] == 4
    rare = measured("tasks", task="memory", keys="rare", examples=1500)
    errors = {row["queries"]: row["error"] for row in rare}
    assert errors[18] > 1e-3
    assert errors[19] < 1e-20


def test_automata_run_on_without_an_error_once_the_rank_is_reached():
    runs = {"draws": 6, "runs": 4, "steps": 1000}
    whole = measured("tasks", 7, task="automaton", states=3, symbols=2, examples=6, **runs)
    assert (whole["rank"], whole["least"]) == (6, 1)
    for states, symbols, seen in ((3, 2, 4), (5, 3, 3), (8, 4, 1)):
        row = measured("tasks", 7, task="automaton", states=states, symbols=symbols, examples=seen, **runs)
        assert row["rank"] == seen
        assert row["right"] < 1
    for states, number, rank in [(2, 50, 20), (3, 200, 78), (4, 1000, 200)]:
        size = {"states": states, "symbols": 2, "examples": number, "draws": 20, "steps": 100}
        row = measured("tasks", 7, task="automaton in context", **size)
        assert (row["rank"], row["least"]) == (rank, 1)


@pytest.mark.slow
def test_turing_machines_for_a_thousand_steps_in_whole_numbers_and_learned():
    names = ("states", "symbols", "positions")
    for size in ((2, 2, 4), (3, 3, 6), (4, 3, 10)):
        runs = {"draws": 1, "runs": 2, "steps": 1000}
        made = measured("tasks", task="machine", **dict(zip(names, size, strict=True)), **runs)
        assert (made["least"], made["rounding"]) == (1, 0)
    for size, rank, steps in (((2, 2, 4), 40, 100), ((3, 2, 5), 90, 30)):
        runs = {"draws": 1, "runs": 3, "steps": steps}
        row = measured("tasks", task="learned machine", **dict(zip(names, size, strict=True)), **runs)
        assert (row["rank"], row["least"]) == (rank, 1)


@pytest.mark.slow
def test_learned_from_random_machines_it_runs_unseen_ones_at_the_exact_rank():
    size = {"states": 2, "symbols": 2, "positions": 2, "draws": 10, "steps": 40}
    half, whole = (
        measured("tasks", task="learned universal machine", **size, stop=stop) for stop in (188, 376)
    )
    assert (half["rank"], whole["rank"], whole["full_rank"]) == (188, 376, 376)
    assert whole["least"] == 1
    assert whole["rounding"] < 1e-12
    assert half["right"] < 0.9


@pytest.mark.slow
def test_cubic_features_on_softmax_attention():
    rows = measured("softmax", 9, k=4, d=8, draws=16, samples=8000)
    missed = {(row["norm"], row["features"]): row["missed"] for row in rows}
    assert 1 - missed[0.03, "plain"] == pytest.approx(0.23, abs=0.03)
    assert 1 - missed[1.0, "with row mean"] == pytest.approx(0.87, abs=0.03)
    assert 1 - missed[1.0, "centred"] == pytest.approx(0.95, abs=0.02)


def test_two_tokens_are_enumerated_and_missed_is_the_error_of_exact_least_squares():
    """Of 2^12 inputs all, by another route."""
    rows = measured("softmax", 5, k=2, d=6, draws=2, samples=0)
    (row,) = [row for row in rows if (row["norm"], row["features"]) == (1.0, "centred")]
    rng = np.random.default_rng(5)
    theta = rng.standard_normal((4, 2, 6, 6))
    theta /= np.linalg.norm(theta, axis=(2, 3), keepdims=True)
    w = rng.standard_normal((4, 2, 6, 6)) / np.sqrt(6)
    x = np.array(list(itertools.product([-1.0, 1.0], repeat=12))).reshape(-1, 2, 6)
    phi, missed = softmax_features(x, "cent", every_row=False), []
    for draw in range(2):
        y = AttentionLayer(theta[2, draw][None], w[2, draw][None])(x)[:, -1]
        error = y - phi @ np.linalg.lstsq(phi, y, rcond=1e-10)[0]
        missed.append(np.sum(error**2) / np.sum(y**2))
    assert row["missed"] == pytest.approx(np.mean(missed), rel=1e-8)


def test_every_population_has_the_rank_of_its_formula():
    cells = [
        cell for cell in find_studies(["linear-learning"])[0].cells(Scale.QUICK) if cell["part"] == "rank"
    ]
    assert all(row["rank"] == row["formula"] for row in (measured("learning", **cell) for cell in cells))

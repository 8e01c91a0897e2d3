"""Studies of linear attention: acceptance figures of their cells."""

import numpy as np
import pytest

from attention import relative_error
from studies import find_studies
from upper.linear_attention import fit_heads, make_linear_attention, regress, symmetric_rank


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


def test_a_rare_key_is_learned_from_its_nineteenth_query():
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
@pytest.mark.parametrize(("size", "rank"), [((2, 2, 4), 40), ((3, 2, 5), 90)])
def test_turing_machines_learned_from_steps_run_on_without_an_error(size, rank):
    sizes = dict(zip(("states", "symbols", "positions"), size, strict=True))
    row = measured("tasks", task="learned machine", **sizes, draws=1, runs=3, steps=100, stop=None)
    assert (row["rank"], row["least"]) == (rank, 1)

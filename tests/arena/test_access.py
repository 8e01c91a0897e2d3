"""How a learner saw its target is said wherever its result is, and the wrong oracle is a sentence."""

import json
from dataclasses import dataclass

import pytest

from arena import compare, learn, lwr_target, nice_target
from arena.results import Results
from arena.views.page import render_page
from arena.views.table import table_text
from attention import make_nice_layer, save_layer
from upper import LinearBaseline, Newton

SEEN = {"by-queries": "value queries", "linearisation": "samples of rounding", "linear": "random examples"}


@pytest.fixture(scope="module")
def nice():
    return nice_target(heads=1, tokens=2, dim=4)


def test_a_comparison_says_who_saw_what(nice):
    rounding = lwr_target(n=3, q=8, p=2, matrix="gadget")
    results = compare([nice, rounding], list(SEEN), isolated=False)
    assert {one.name: one.access for one in Results.from_json(results.to_json()).learners} == SEEN
    text, page = table_text(results), render_page(results)
    for access in SEEN.values():
        assert f"From {access}: " in text
        assert f"From {access}: " in page
        assert f"<strong>Sees.</strong> {access.capitalize()}." in page
    assert f"{results.summary('nice-1-2-4', 'by-queries').examples:.0f} queries" in page


@dataclass(frozen=True)
class Asks(Newton):
    """Declares value queries and draws examples."""

    access = "value queries"


@dataclass(frozen=True)
class Misnamed(LinearBaseline):
    """Declares what there is not."""

    access = "questions"


@pytest.mark.bad_input
def test_a_learner_that_declares_the_wrong_access_is_refused_by_learn_and_compare(nice):
    with pytest.raises(ValueError, match="gives value queries: random examples are needed"):
        learn(nice, Asks(heads=1))
    (cell,) = compare([nice], [Asks(heads=1)], isolated=False).cells
    assert "gives value queries: random examples are needed" in cell.message
    with pytest.raises(ValueError, match=r"^Misnamed.access is 'questions'"):
        compare([nice], [Misnamed()], isolated=False)


def test_the_command_says_it(cli, tmp_path):
    save_layer(tmp_path / "layer.safetensors", make_nice_layer(heads=2, dim=8, rng=0))
    file = str(tmp_path / "layer.safetensors")
    said = cli("learn", file, "--learner", "by-queries", "--tokens", "2").out
    assert "queries asked" in said
    assert "value queries" in said
    told = json.loads(cli("learn", file, "--learner", "by-queries", "--tokens", "2", "--json").out)
    assert (told["access"], told["outcome"]) == ("value queries", "EXACT")


def test_a_learner_of_queries_is_told_the_noise_of_the_answers():
    found = learn(nice_target(heads=2, tokens=2, dim=8, seed=1), "by-queries", noise=1e-3, seed=1)
    assert found.fit.outcome.name == "NOISE_FLOOR"
    assert found.error < 1e-3

"""Laws of tokens: moments the expectation rests on, paired comparisons, and what is said of the rows."""

import json

import numpy as np
import pytest

from arena.studies._inputs_measures import LAWS, tokens_of
from arena.studies.inputs import STUDY
from paper_checks import Scale
from upper.floor import counting_floor


@pytest.mark.parametrize("law", ["boolean", "gaussian", "sphere"])
def test_second_moments_are_the_identity(law):
    x = tokens_of(law, 1, 6).sample(40_000, rng=0)[:, 0]
    np.testing.assert_allclose(x.T @ x / len(x), np.eye(6), atol=0.04)


def test_norms_vary_for_gaussian_tokens_only():
    spread = {
        law: np.std(np.sum(tokens_of(law, 2, 16).sample(4000, rng=1) ** 2, axis=2) / 16) for law in LAWS
    }
    assert spread["gaussian"] == pytest.approx(np.sqrt(2 / 16), rel=0.05)
    assert max(spread[law] for law in LAWS if law != "gaussian") < 1e-12


def test_slice_tokens_have_no_component_along_ones():
    assert not tokens_of("slice", 3, 8).sample(50, rng=2).sum(axis=2).any()


def _cell(learner: str, law: str, size: tuple[int, int, int], examples: int, draws: int) -> dict:
    names = ("learner", "inputs", "heads", "tokens", "dim", "examples", "draws")
    return dict(zip(names, (learner, law, *size, examples, draws), strict=True))


def _row(*cell) -> dict:
    parameters = _cell(*cell)
    return {**parameters, **STUDY.measure(rng=np.random.default_rng(3), **parameters)}


_FLOOR = counting_floor(heads=2, tokens=3, dim=8)


@pytest.fixture(scope="module")
def rows() -> list[dict]:
    return [
        *(_row("newton", law, (2, 3, 8), 8 * _FLOOR, 2) for law in LAWS),
        _row("newton", "boolean", (2, 3, 8), _FLOOR + 1, 2),
        _row("phases", "boolean", (2, 2, 16), 16_000, 1),
        _row("phases", "slice", (2, 2, 16), 4000, 1),
    ]


def test_newton_is_exact_with_many_examples_and_not_at_the_floor(rows):
    # one start may end in a local minimum
    assert [min(row["error"]) < 1e-6 for row in rows[:3]] == [True] * 3
    assert min(rows[4]["error"]) > 1e-6


def test_slice_tokens_stop_the_phases_before_a_span(rows):
    assert rows[5]["span"][0] < 0.2
    assert rows[6]["span"] == [None]


def test_rows_are_plain_and_are_the_same_again(rows):
    json.dumps(rows, allow_nan=False)
    assert _row("newton", "gaussian", (2, 3, 8), 8 * _FLOOR, 2) == rows[1]


def test_no_more_examples_are_drawn_than_the_cell_allows(rows):
    assert all(drawn <= row["examples"] for row in rows for drawn in row["drawn"])


def _newton(law: str, errors: list[float]) -> dict:
    return {**_cell("newton", law, (2, 2, 16), 128, len(errors)), "error": errors}


def test_pairs_are_told_apart_only_beyond_chance():
    plain = _newton("boolean", [1e-12] * 10)
    few = STUDY.found([plain, _newton("gaussian", [0.1] * 2 + [1e-12] * 8)])
    assert "of 10 pairs of fits to one layer 2 were exact with Boolean tokens only and 0" in few
    assert "no difference beyond chance" in few
    assert "in favour of Boolean tokens" in STUDY.found([plain, _newton("gaussian", [0.1] * 10)])
    many = [_newton("boolean", [0.1] * 10), _newton("sphere", [1e-12] * 10)]
    assert "in favour of sphere tokens" in STUDY.found(many)


def test_ratio_of_errors_is_their_geometric_mean():
    twice = [_phases("boolean", [0.1, 0.2, 0.4, 0.1]), _phases("gaussian", [0.2, 0.4, 0.8, 0.2])]
    text = STUDY.found([*twice, _phases("sphere", [0.1, 0.2, 0.4, 0.1])])
    assert "2.00 (2.00 to 2.00) and 1.00 (1.00 to 1.00) of the span" in text


def _phases(law: str, errors: list[float]) -> dict:
    same = dict.fromkeys(("crude", "sampling", "refined", "span", "error"), errors)
    return {**_cell("phases", law, (2, 2, 16), 1000, len(errors)), **same}


def test_results_of_all_rows_and_of_each_alone(rows):
    adam = [{**_cell("adam", law, (2, 2, 16), 9600, 1), "error": [0.1]} for law in LAWS]
    for chosen in ([*rows, *adam], rows[:1], rows[5:6]):
        assert STUDY.draw(chosen).svg.startswith("<?xml")
    for chosen in ([*rows, *adam], *([row] for row in (*rows, adam[0]))):
        assert STUDY.found(chosen).endswith(".")
        STUDY.table(chosen)


@pytest.mark.parametrize("scale", list(Scale), ids=lambda scale: scale.value)
def test_cells_are_distinct(scale):
    cells = [json.dumps(cell, sort_keys=True) for cell in STUDY.cells(scale)]
    assert len(set(cells)) == len(cells)

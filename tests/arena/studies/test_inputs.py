"""Laws of tokens: moments the expectation rests on, paired comparisons, and what is said of the rows."""

import json

import numpy as np
import pytest

from arena.studies._inputs_measures import LAWS, tokens_of
from arena.studies._inputs_rows import apart, exact_more_often
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


@pytest.mark.slow
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


def _newton(law: str, errors: list[float], examples: int = 128) -> dict:
    return {**_cell("newton", law, (2, 2, 16), examples, len(errors)), "error": errors}


def test_pairs_are_told_apart_only_beyond_chance():
    plain = _newton("boolean", [1e-12] * 10)
    few = STUDY.found([plain, _newton("gaussian", [0.1] * 2 + [1e-12] * 8)])
    assert (
        "of 10 pairs of Newton's fits to one layer, on 10 layers, 2 (on 2 layers) with Boolean tokens only"
        in few
    )
    assert "No difference between the laws was seen" in few
    assert "Newton is exact more often with Boolean than with Gaussian tokens" in STUDY.found(
        [plain, _newton("gaussian", [0.1] * 10)]
    )
    many = [_newton("boolean", [0.1] * 10), _newton("sphere", [1e-12] * 10)]
    assert "Newton is exact more often with sphere than with Boolean tokens" in STUDY.found(many)


def test_a_layer_fitted_from_many_numbers_of_examples_is_one_layer():
    # twenty pairs that all say the same, but of two layers
    rows = [
        _newton(law, [error] * 2 + [1e-12] * 6, examples)
        for law, error in (("boolean", 1e-12), ("gaussian", 0.1))
        for examples in range(129, 139)
    ]
    assert apart(rows, "gaussian")[:2] == (80, 0)
    assert exact_more_often(rows, "gaussian") is None
    assert "20 (on 2 layers) with Boolean tokens only" in STUDY.found(rows)


def _steps(law: str, shares: dict[int, int]) -> list[dict]:
    """Newton's rows of eight layers with so many exact ones by examples."""
    return [_newton(law, [1e-12] * good + [0.1] * (8 - good), n) for n, good in shares.items()]


def test_factor_that_could_not_have_been_seen_is_that_of_the_step_all_laws_share():
    alike = {128: 0, 256: 8}
    rows = [*_steps("boolean", alike), *_steps("gaussian", alike), *_steps("sphere", alike)]
    text = STUDY.found(rows)
    assert text.startswith(
        "No difference between the laws was seen in how many examples Newton needs (below a factor of 2.0 none could "
        "be)"
    )
    assert "of 16 pairs" in text
    assert "and 16 could tell little" in text
    assert "between 1 and 2 floors at m, k, d = 2, 2, 16" in text
    later = _steps("gaussian", {128: 0, 192: 3, 256: 8})
    earlier = _steps("boolean", {128: 0, 192: 5, 256: 8})
    assert STUDY.found([*earlier, *later]).startswith(
        "Newton is first exact on half of the layers at other numbers"
    )
    assert "(none could be)" in STUDY.found([*_steps("boolean", {128: 0}), *_steps("gaussian", {128: 0})])


def _errors(learner: str, law: str, errors: list[float], *, dim: int = 16, examples: int = 1000) -> dict:
    same = dict.fromkeys(("crude", "sampling", "refined", "span", "error"), errors)
    return {**_cell(learner, law, (2, 2, dim), examples, len(errors)), **same}


def test_ratio_of_errors_is_their_geometric_mean():
    base = [0.1, 0.2, 0.4, 0.1]
    rows = [
        _errors("phases", law, [factor * one for one in base])
        for law, factor in (("boolean", 1.0), ("gaussian", 2.0), ("sphere", 1.0))
    ]
    text = STUDY.found(rows)
    assert (
        "of the span is, over that with Boolean tokens, with Gaussian ones 2.00 (2.00 to 2.00) at d = 16"
        in text
    )
    assert "with sphere ones 1.00 (1.00 to 1.00) at d = 16" in text


def test_sizes_are_told_apart_and_a_layer_counts_at_its_most_examples_only():
    base = np.array([0.1, 0.2, 0.4, 0.1, 0.3])
    rows = [
        _errors("paper", law, (base * (factor if law == "gaussian" else 1.0)).tolist(), dim=dim, examples=n)
        for law in ("boolean", "gaussian")
        for dim, n, factor in ((16, 500, 9.0), (16, 1000, 0.5), (32, 1000, 1.01))
    ]
    text = STUDY.found(rows)
    assert (
        "of paper mode's span is, over that with Boolean tokens, with Gaussian ones 0.50 (0.50 to 0.50, below 1 "
        "on all 5 layers) at d = 16 and 1.01 (1.01 to 1.01, above 1 on all 5 layers) at d = 32" in text
    )


def test_headline_names_errors_that_differ_and_no_others():
    newton = [*_steps("boolean", {128: 0, 256: 8}), *_steps("gaussian", {128: 0, 256: 8})]
    for factor, named in ((2.0, True), (1.1, False)):
        adam = [
            _errors("adam", "boolean", [0.1, 0.2, 0.3]),
            _errors("adam", "gaussian", [factor * one for one in (0.1, 0.21, 0.3)]),
        ]
        headline = STUDY.found([*newton, *adam]).split("; ")[0]
        said = "but with Gaussian tokens the error of Adam is 2 times that with Boolean ones"
        assert (said in headline) is named
        assert ("the error" in headline) is named


def test_errors_that_part_at_the_size_of_the_expectation_are_called_contrary_to_it_and_come_first():
    newton = [*_steps("boolean", {128: 0, 256: 8}), *_steps("gaussian", {128: 0, 256: 8})]
    base = np.array([0.1, 0.2, 0.3])
    rows = [
        _errors(learner, law, (base * (factor if law == "gaussian" else 1.0)).tolist(), dim=dim)
        for law in ("boolean", "gaussian")
        for learner, dim, factor in (("paper", 16, 0.1), ("adam", 32, 2.0))
    ]
    assert (
        STUDY.found([*newton, *rows])
        .split("; ")[0]
        .endswith(
            "but with Gaussian tokens the error of Adam is 2 times that with Boolean ones, against "
            "expectation, and of paper mode's refined sum 0.1 times"
        )
    )


def test_sizes_that_pooling_would_dilute_are_told_one_by_one():
    rows = [
        *_steps("boolean", {128: 0, 256: 4, 384: 5}),
        *(row for law in ("gaussian", "sphere") for row in _steps(law, {128: 0, 256: 8, 384: 8})),
    ]
    found = STUDY.found(rows)
    said = (
        "exact with Boolean, Gaussian and sphere tokens 9 of 16, 16 of 16 and 16 of 16 at m, k, d = 2, 2, 16"
    )
    assert f"{said}, none of it beyond chance" in found
    alike = [row for law in ("boolean", "gaussian", "sphere") for row in _steps(law, {128: 0, 256: 8})]
    assert "by size" not in STUDY.found(alike)


def test_slices_that_end_at_the_guard_of_phase_three_prove_nothing():
    phases = _errors("phases", "boolean", [0.1] * 3)
    stopped = {**phases, "inputs": "slice", "span": [None] * 3, "refined": [None] * 3, "crude": [0.27] * 3}
    guarded = STUDY.found([phases, {**stopped, "outcome": ["NO_LARGE_MARGIN"] * 3}])
    assert "a span in 0 of 3 runs, as phase 3 asks for tokens of full rank" in guarded
    assert "it is 0.27 at d = 16 (that with Boolean ones and 1/sqrt(d) in quadrature: 0.27)" in guarded
    other = STUDY.found(
        [phases, {**stopped, "outcome": ["NO_LARGE_MARGIN", "NO_AGREEMENT", "NO_LARGE_MARGIN"]}]
    )
    assert "a span in 0 of 3 runs" in other
    assert "full rank" not in other


@pytest.mark.slow
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

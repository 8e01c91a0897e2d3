"""Laws of tokens: moments the expectation rests on, paired comparisons, and the committed record."""

import json

import numpy as np
import pytest

from runs import Scale
from studies.fit_on_tokens import LAWS, tokens_of
from studies.inputs import STUDY, discordant_layers
from upper import counting_floor

FLOOR = counting_floor(heads=2, tokens=3, dim=8)


def cell_of(learner, law, size, examples, draws):
    names = ("learner", "inputs", "heads", "tokens", "dim", "examples", "draws")
    return dict(zip(names, (learner, law, *size, examples, draws), strict=True))


def row_of(*cell):
    parameters = cell_of(*cell)
    return {**parameters, **STUDY.measure(rng=np.random.default_rng(3), **parameters)}


@pytest.fixture(scope="module")
def rows():
    return [
        *(row_of("newton", law, (2, 3, 8), 8 * FLOOR, 2) for law in LAWS),
        row_of("newton", "boolean", (2, 3, 8), FLOOR + 1, 2),
        row_of("phases", "boolean", (2, 2, 16), 16_000, 1),
        row_of("phases", "slice", (2, 2, 16), 4000, 1),
    ]


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


@pytest.mark.slow
def test_newton_is_exact_with_many_examples_and_not_at_the_floor(rows):
    # one start may end in a local minimum
    assert [min(row["error"]) < 1e-6 for row in rows[:3]] == [True] * 3
    assert min(rows[4]["error"]) > 1e-6


def test_slice_tokens_stop_the_phases_before_a_span(rows):
    assert rows[5]["span"][0] < 0.2
    assert rows[6]["span"] == [None]


def test_rows_are_plain_the_same_again_and_within_their_budget(rows):
    json.dumps(rows, allow_nan=False)
    assert row_of("newton", "gaussian", (2, 3, 8), 8 * FLOOR, 2) == rows[1]
    assert all(drawn <= row["examples"] for row in rows for drawn in row["drawn"])


@pytest.mark.slow
def test_few_rows_make_numbers_a_table_and_a_figure(rows):
    for chosen in (rows, rows[:1], rows[5:6]):
        assert STUDY.numbers(chosen)
        assert STUDY.table(chosen)
        assert len(STUDY.figure(chosen).axes) == 4


def newton(law, errors, examples=128):
    return {**cell_of("newton", law, (2, 2, 16), examples, len(errors)), "error": errors}


def test_a_layer_fitted_from_many_numbers_of_examples_is_one_layer():
    rows = [
        newton(law, [error] * 2 + [1e-12] * 6, examples)
        for law, error in (("boolean", 1e-12), ("gaussian", 0.1))
        for examples in range(129, 139)
    ]
    assert discordant_layers(rows, "gaussian") == (2, 0)


def test_steps_that_differ_are_both_told():
    shares = {"boolean": {128: 0, 256: 8}, "gaussian": {128: 0, 256: 3, 384: 8}, "sphere": {128: 0, 256: 8}}
    rows = [
        newton(law, [1e-12] * good + [0.1] * (8 - good), examples)
        for law, steps in shares.items()
        for examples, good in steps.items()
    ]
    assert STUDY.numbers(rows)["step_2_2_16"] == "1 to 2 or 2 to 3"


def test_ratios_are_of_errors_on_the_same_layers():
    rows = [
        {
            **cell_of("adam", law, (2, 2, 32), 9600, 4),
            "error": [factor * error for error in (0.1, 0.2, 0.3, 0.9)],
        }
        for law, factor in (("boolean", 1.0), ("gaussian", 2.0))
    ]
    assert STUDY.numbers(rows)["gaussian_adam_error_32"] == "2.00 (2.00 to 2.00)"


@pytest.mark.parametrize("scale", list(Scale), ids=lambda scale: scale.value)
def test_cells_are_distinct(scale):
    cells = [json.dumps(cell, sort_keys=True) for cell in STUDY.cells(scale)]
    assert len(set(cells)) == len(cells)


def test_the_record_has_no_difference_for_newton_and_one_for_adam_and_paper_mode(record):
    numbers = STUDY.numbers(record("inputs").rows)
    steps = [numbers[f"step_{size}"] for size in ("2_2_16", "4_4_32", "2_2_32")]
    assert steps == ["1 to 1.5", "1.5 to 2", "1 to 1.5"]
    for law in ("gaussian", "sphere"):
        low, high = map(float, numbers[f"{law}_share"].split(" to "))
        assert low < 0.5 < high
    assert numbers["gaussian_adam_error_32"] == "2.45 (1.69 to 3.55)"
    assert numbers["gaussian_paper_refined_16"] == "0.21 (0.14 to 0.32)"
    assert numbers["slice_spans"] == "0 of 27"

"""Laws of tokens: moments the expectation rests on, paired comparisons, and the committed record."""

import json

import numpy as np
import pytest

from attention.intervals import proportion_interval
from studies.fit_on_tokens import LAWS
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


def test_newton_is_exact_as_often_on_gaussian_and_sphere_tokens_as_on_boolean_ones(record):
    rows = record("inputs").rows
    for law in ("gaussian", "sphere"):
        plain, this = discordant_layers(rows, law)
        share = proportion_interval(this, plain + this, confidence=0.95)
        assert share.low < 0.5 < share.high

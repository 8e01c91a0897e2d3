"""Laws of tokens: where slices stop the phases, paired comparisons, and the committed record."""

import numpy as np

from studies.inputs import STUDY, discordant_layers
from studies.intervals import proportion_interval


def cell_of(learner, law, size, examples, draws):
    names = ("learner", "inputs", "heads", "tokens", "dim", "examples", "draws")
    return dict(zip(names, (learner, law, *size, examples, draws), strict=True))


def test_slice_tokens_stop_the_phases_before_a_span():
    cells = (
        cell_of("phases", "boolean", (2, 2, 16), 16_000, 1),
        cell_of("phases", "slice", (2, 2, 16), 4000, 1),
    )
    boolean, sliced = (STUDY.measure(rng=np.random.default_rng(3), **cell) for cell in cells)
    assert boolean["span"][0] < 0.2
    assert boolean["drawn"][0] <= 16_000
    assert sliced["span"] == [None]


def newton(law, errors, examples=128):
    return {**cell_of("newton", law, (2, 2, 16), examples, len(errors)), "error": errors}


def test_a_layer_fitted_from_many_numbers_of_examples_is_one_layer():
    rows = [
        newton(law, [error] * 2 + [1e-12] * 6, examples)
        for law, error in (("boolean", 1e-12), ("gaussian", 0.1))
        for examples in range(129, 139)
    ]
    assert discordant_layers(rows, "gaussian") == (2, 0)


def test_newton_is_exact_as_often_on_gaussian_and_sphere_tokens_as_on_boolean_ones(record):
    rows = record("inputs").rows
    for law in ("gaussian", "sphere"):
        plain, this = discordant_layers(rows, law)
        share = proportion_interval(this, plain + this, confidence=0.95)
        assert share.low < 0.5 < share.high

"""Distributions of tokens: where slices stop the phases."""

import numpy as np
import pytest

from studies.inputs import STUDY


def test_slice_tokens_stop_the_phases_before_a_span():
    pytest.importorskip("torch")
    cell = {"learner": "phases", "heads": 2, "tokens": 2, "dim": 16, "draws": 1}
    sizes = {"boolean": 16_000, "slice": 4000}
    ((boolean,), (sliced,)) = (
        STUDY.measure(rng=np.random.default_rng(3), inputs=inputs, examples=examples, **cell)
        for inputs, examples in sizes.items()
    )
    assert boolean["span"] < 0.2
    assert sliced["crude"] is not None
    assert sliced["span"] is None

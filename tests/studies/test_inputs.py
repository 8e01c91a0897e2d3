"""Distributions of tokens: the same layers, examples and learners on each."""

import numpy as np

from studies.inputs import measure


def test_newton_is_exact_on_every_distribution_once_it_has_enough_examples():
    cell = {"learner": "newton", "heads": 1, "tokens": 2, "dim": 6, "examples": 81, "draws": 2}
    for inputs in ("boolean", "gaussian", "sphere"):
        row = measure(rng=np.random.default_rng(3), inputs=inputs, **cell)
        assert (row["floors"], row["exact"]) == (4.5, 2)

"""Two blocks in one box: what of each is read."""

import numpy as np

from studies import two_blocks


def test_all_neurons_of_both_networks_and_the_function_of_one_token_are_read():
    row = two_blocks.measure(rng=np.random.default_rng(2), part="one token", dim=8, width=16, draw=0)
    assert (row["first"], row["second"]) == (16, 16)
    assert row["error"] < 1e-6
    assert 200 < row["queries"] < 10_000


def test_a_neuron_with_another_offset_is_not_counted():
    rows = np.random.default_rng(0).standard_normal((5, 4))
    other = rows * np.array([[1.0], [-2.0], [3.0], [1.0], [1.0]])
    other[3, 3] += 1e-3
    assert two_blocks._matched(rows, other) == 4

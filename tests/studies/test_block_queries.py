"""Blocks by queries and by examples: the bound, and what descent reaches."""

import numpy as np
import pytest

from studies import block_queries


def measured(**cell):
    return block_queries.measure(rng=np.random.default_rng(0), draw=0, **cell)


def test_blocks_are_read_above_the_bound_of_their_free_parameters():
    gelu, relu = (
        measured(part="width", name=f"block, {kind}", dim=8, width=16, times=0) for kind in ("gelu", "relu")
    )
    # two heads with Theta, W and c; W1, b1, W2 and b2; ReLU has a free scale for each neuron
    assert gelu["bound"] == (2 * (64 + 64 + 8) + 8 * 16 + 16 + 16 * 8 + 8) / 8
    assert relu["bound"] == gelu["bound"] - 16 / 8
    for row in (gelu, relu):
        assert row["bound"] < row["tokens"] < 20 * row["bound"]
        assert row["error"] < 1e-7


def test_newton_on_the_attention_alone_does_not_learn_a_block():
    row = measured(part="examples", name="newton", dim=8, width=16, times=1)
    assert row["examples"] == row["queries"]
    assert 0.05 < row["error"] < 1


@pytest.mark.slow
def test_descent_learns_some_of_a_block(monkeypatch):
    pytest.importorskip("torch")
    monkeypatch.setattr(block_queries, "_STEPS", 500)
    row = measured(part="examples", name="adam, width 4", dim=8, width=16, times=1)
    assert 1e-4 < row["error"] < 0.3

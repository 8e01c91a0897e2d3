"""Blocks beside layers: as targets of a comparison, in files, at the command line, and as one's own function."""

import json

import numpy as np
import pytest

import arena
from arena import block_target
from attention import (
    Block,
    GaussianInputs,
    block_errors,
    load_layer,
    make_nice_block,
    make_nice_layer,
)
from attention.testing import check_learner
from upper import BlockByQueries, Newton

NICE = arena.nice_target(heads=2, dim=8, seed=0)
PARITY = arena.parity_target(heads=2, dim=12, seed=1)
NICE_NETWORK = make_nice_block(heads=1, dim=4, width=5, rng=0).network


def test_learners_of_layers_fail_on_blocks_and_the_learner_of_blocks_reads_them(tmp_path):
    targets = [NICE, block_target(PARITY, width=24, activation="relu")]
    learners = [Newton(heads=2, work=600), "linear,known-component,elimination,by-queries,block"]
    results = arena.compare(targets, learners, isolated=False)
    errors = {
        learner.name: [
            cell.unknown_part_error for cell in results.cells if cell.learner == learner.name and cell.fitted
        ]
        for learner in results.learners
    }
    assert max(errors["newton"][:1] + errors["by-queries"][:1]) < 1e-12
    assert min(errors["newton"][1:] + errors["by-queries"][1:]) > 0.1
    assert errors["known-component"] == pytest.approx([1.0, 1.0])
    assert errors["elimination"] == []
    assert max(errors["block"]) < 1e-7
    # of the parity, the heads too
    parity = next(cell for cell in results.cells if cell.learner == "block" and "parity" in cell.target)
    assert parity.theta_error < 1e-6
    assert results.tally("block")["block"]["learned"] == 1
    results.save(tmp_path)
    page = (tmp_path / "index.html").read_text()
    assert "Parity of 3 bits, 2 heads, 24 neurons relu" in page
    assert "The network is known, too." in page


def test_a_file_of_a_block_is_made_shown_and_learned_at_the_command_line(cli, tmp_path):
    path, fitted = tmp_path / "block.safetensors", tmp_path / "fitted.safetensors"
    said = cli("generate", "nice", "--heads", 2, "--dim", 8, "--width", 12, "-o", path).out
    assert "Nice, 2 heads, 2 tokens, 12 neurons gelu" in said
    shown = cli("inspect", path).out
    assert "then FeedForward(dim=8, width=12, activation='gelu')" in shown
    assert json.loads(cli("inspect", path, "--json").out)["kind"] == "block"
    learned = json.loads(cli("learn", path, "--learner", "block", "-o", fitted, "--json").out)
    assert learned["outcome"] == "EXACT"
    assert max(learned[name] for name in ("theta_error", "w_error", "network_error")) < 1e-7
    block = load_layer(path).layer
    assert block_errors(load_layer(fitted).layer, block).worst < 1e-7
    layer = json.loads(cli("learn", path, "--preset", "quick", "--json").out)
    assert layer["unknown_part_error"] > 0.1


def test_a_block_of_ones_own_is_asked(cli, tmp_path):
    block = make_nice_block(heads=2, dim=8, width=12, rng=0)
    parts = {**block.layer.parameters, **block.network.parameters}
    np.savez(tmp_path / "block.npz", **parts)
    (tmp_path / "own.py").write_text(
        f"""
import numpy as np
from attention import AttentionLayer, FeedForward

a = dict(np.load({str(tmp_path / "block.npz")!r}))
layer = AttentionLayer(*(a[name] for name in ("theta", "w", "key_bias", "bias")))
network = FeedForward(*(a[name] for name in ("w1", "b1", "w2", "b2")))


def block(x):
    return network(x + layer(x))
"""
    )
    out = tmp_path / "found.safetensors"
    given = ("--ask", f"{tmp_path / 'own.py'}:block", "--tokens", 3, "--dim", 8)
    said = cli("learn", *given, "--learner", "block", "-o", out).out
    assert "2 heads, then FeedForward(dim=8, width=12, activation='gelu')" in said
    assert block_errors(load_layer(out).layer, block).worst < 1e-7


def test_what_is_found_of_a_block_that_is_not_read_is_shown(cli, tmp_path):
    (tmp_path / "own.py").write_text(
        """
import numpy as np
from attention import Block, Norm, make_nice_block

nice = make_nice_block(heads=2, dim=8, width=8, activation="relu", rng=0)
norm = Norm(np.full(8, 3.0), np.full(8, 0.5))
block = Block(nice.layer, nice.network, norms=(norm, norm), norm_first=False)
"""
    )
    given = ("--ask", f"{tmp_path / 'own.py'}:block", "--tokens", 3, "--dim", 8, "--learner", "block")
    assert "the last norm (gain 3 to 3" in cli("learn", *given).out.replace("-3", "3")
    found = json.loads(cli("learn", *given, "--json").out)["details"]
    assert np.abs(found["last"]["gain"]) == pytest.approx(3.0, rel=1e-3)


@pytest.mark.bad_input
def test_the_learner_of_blocks_keeps_the_contract_on_a_layer():
    fit = check_learner(BlockByQueries(), make_nice_layer(heads=1, dim=4, rng=0), GaussianInputs(2, 4))
    assert fit.outcome.succeeded


def test_targets_of_blocks_come_back_from_files_bit_for_bit(tmp_path):
    own = arena.layer_target(Block(make_nice_layer(heads=1, dim=4, rng=0), NICE_NETWORK, False), tokens=3)
    for target in (own, block_target(NICE, width=5)):
        arena.save_target(tmp_path / "block.safetensors", target)
        read = arena.load_target(tmp_path / "block.safetensors")
        assert (read.kind, read.title) == ("block", target.title)
        assert read.content == target.content != NICE.content
        assert read.block.residual is target.block.residual
        x = target.inputs.sample(3, rng=0)
        assert np.array_equal(read.answers(x), target.answers(x))


def test_what_makes_no_block_or_no_file_of_one_is_refused(tmp_path):
    block = block_target(PARITY, width=5)
    with pytest.raises(ValueError, match="block_target"):
        arena.save_target(tmp_path / "block.safetensors", block)
    noisy = arena.parity_target(heads=2, dim=8, noise=0.1)
    for target in (block, noisy):
        with pytest.raises(ValueError, match="a layer without noise is needed"):
            block_target(target, width=5)

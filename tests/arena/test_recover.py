"""Every layer of a small model with biases learned back, from examples and from queries; resumed; refused."""

import json

import numpy as np
import pytest

import arena.recovery
from arena import recover
from arena.recovery import LayerRecovery, Recovery
from arena.target import Target
from attention.checkpoints import checkpoint_layers
from runs import Store

HEADS, DIM = 2, 8


@pytest.fixture
def model(tmp_path, checkpoint):
    return checkpoint(tmp_path / "model", dim=DIM)


def recovered(model, by, layers=(0, 1), **settings):
    return recover(model, layers=layers, by=by, isolated=False, **settings).layers


@pytest.mark.parametrize("by", ["examples", "queries"])
def test_every_layer_comes_back_with_its_biases(model, by):
    for number, one in enumerate(recovered(model, by)):
        assert (one.layer, one.status, one.outcome, one.succeeded) == (number, "done", "EXACT", True)
        assert (one.heads, one.heads_found, one.dim, one.head_dim, one.ranks) == (
            HEADS,
            HEADS,
            DIM,
            4,
            (4, 4),
        )
        assert one.biased
        assert one.recovered == ("F", "Theta", "W", "c", "b")
        assert max(one.errors.values()) < 1e-11
        assert "theta_stable_rank" in one.violated
        assert one.used > 0
        assert one.seconds > 0
        assert one.engine == ("numpy" if by == "examples" else "")


def test_with_more_than_four_tokens_a_rough_fit_to_short_sequences_is_the_start(model, monkeypatch):
    seen = []
    fit_target = Target.fit

    def watched(target, learner, *given, **settings):
        found = fit_target(target, learner, *given, **settings)
        seen.append((target.inputs.tokens, learner, found[0]))
        return found

    monkeypatch.setattr(Target, "fit", watched)
    one = recovered(model, "examples", [0], tokens=6)[0]
    (short, rough, first), (long, final, last) = seen
    assert (short, long) == (4, 6)
    assert rough.start == "random"
    assert final.start is first.layer
    assert one.outcome == "EXACT"
    assert one.used == first.examples_used + last.examples_used
    seen.clear()
    assert recovered(model, "examples", [0], tokens=6, examples=150)[0].used == 150
    assert len(seen) == 1


def test_half_precision_and_layers_without_biases_are_recovered(tmp_path, checkpoint):
    model = checkpoint(tmp_path / "half", dim=DIM, dtype=np.float16)
    one = recovered(model, "queries", [0])[0]
    assert one.outcome == "EXACT"
    assert "Stored in float16" in str(Recovery("model", "queries", {}, (one,)))
    one = recovered(model, "queries", [0], biases="dropped")[0]
    assert not one.biased
    assert one.recovered == ("F", "Theta", "W")
    assert one.errors["c"] is one.errors["b"] is None


def test_too_few_queries_end_with_their_outcome_and_recover_nothing(model):
    one = recovered(model, "queries", [0], examples=100)[0]
    assert (one.status, one.outcome, one.succeeded, one.recovered) == ("done", "EXAMPLES_SPENT", False, ())
    assert one.heads_found is None


def test_a_layer_that_cannot_be_learned_is_a_failed_row_and_the_others_stay(model, cli):
    one = recovered(model, "examples", [0], examples=1)[0]
    assert (one.status, one.outcome, one.recovered) == ("failed", "", ())
    assert "examples" in one.message
    assert "failed" in str(Recovery("model", "examples", {}, (one,)))
    said = cli("recover", model, "--examples", 1, "--jobs", 1, status=1)
    assert "2 of 2 layers failed" in said.err


def test_a_resumed_command_computes_nothing_twice_wherever_the_file_is(
    model, tmp_path, monkeypatch, checkpoint
):
    store = Store(tmp_path / "kept.sqlite")
    first = recovered(model, "queries", [0], store=store)
    computed = []
    monkeypatch.setattr(arena.recovery, "checkpoint_target", lambda *given, **_: computed.append(given))
    again = recovered(model, "queries", [0], store=store)
    moved = model.rename(tmp_path / "elsewhere")
    assert first == again == recovered(moved, "queries", [0], store=store)
    assert computed == []
    other = checkpoint(tmp_path / "other", dim=DIM, seed=1)
    for model, seed in ((other, 0), (moved, 1)):
        assert recovered(model, "queries", [0], seed=seed, store=store)[0].status == "failed"
    assert len(computed) == 2


def test_the_command_prints_a_table_and_json_and_makes_a_page(model, tmp_path, cli):
    out = tmp_path / "out"
    options = ["--by", "queries", "--layers", "0-1", "--jobs", 1, "--out", out]
    words = cli("recover", model, *options).out
    assert "Layers of model, learned from queries" in words
    assert words.count("F Theta W c b") == 2
    told = json.loads(cli("recover", model, *options, "--json").out)
    assert told["checkpoint"] == "model"
    assert [one["layer"] for one in told["layers"]] == [0, 1]
    assert told == json.loads((out / "recovered.json").read_text())  # the second call found all in the store
    page = (out / "index.html").read_text()
    assert page.startswith("<!DOCTYPE html>")
    assert str(tmp_path) not in page
    assert "F Theta W c b" in page


def test_names_and_messages_are_text_on_the_page(tmp_path):
    failed = LayerRecovery(3, 2, 4, 2, False, (2, 2), "failed", message="<b>no</b>")
    told = Recovery("<i>x", "queries", {"seed": 0}, (failed,))
    told.save(tmp_path)
    page = (tmp_path / "index.html").read_text()
    assert "&lt;i&gt;x" in page
    assert "&lt;b&gt;no&lt;/b&gt;" in page


def test_a_block_of_gpt2_comes_back_whole_and_a_resumed_command_computes_nothing_twice(
    tmp_path, checkpoint, cli, monkeypatch
):
    model, out = checkpoint(tmp_path / "model", "gpt2", dim=12, width=16, layers=1), tmp_path / "out"
    options = ["--blocks", "--by", "queries", "--jobs", 1, "--out", out]
    words = cli("recover", model, *options).out
    assert "Blocks of model, learned from queries" in words
    assert "; gains and offsets of norms" in words
    monkeypatch.setattr(arena.recovery, "layer_target", None)
    told = json.loads(cli("recover", model, *options, "--json").out)
    assert told == json.loads((out / "recovered.json").read_text())
    (block,) = told["layers"]
    assert block["recovered"] == ["F", "Theta", "W", "c", "b", "neurons"]
    assert max(error for error in block["errors"].values() if error is not None) < 1e-7
    assert (block["heads_found"], block["neurons_found"], block["neurons"]) == (2, 16, 16)
    page = (out / "index.html").read_text()
    assert "Blocks of model" in page
    assert "Conditions violated" not in page


def test_a_block_that_is_not_read_ends_with_its_outcome_and_a_sentence(tmp_path, checkpoint, cli):
    model = checkpoint(tmp_path / "model", dim=8, width=12, layers=1)
    words = cli("recover", model, "--blocks", "--by", "queries", "--jobs", 1, "--examples", 500).out
    assert "nothing" in words
    assert "Layer 0: " in words
    assert "; the offset of the first norm" in words


def test_blocks_of_what_has_none_are_refused_in_one_sentence(model, tmp_path, cli):
    (tmp_path / "text.safetensors").write_text("no checkpoint")
    whole = ("--blocks", "--by", "queries")
    for arguments, words in [
        ((model, "--blocks"), "by queries"),
        ((model, *whole, "--biases", "dropped"), "no --biases"),
        ((model, *whole), "is no whole block: the tensor"),
        ((model, *whole, "--layers", 7), "there is no layer 7"),
        ((tmp_path / "text.safetensors", *whole), "no valid safetensors"),
    ]:
        said = cli("recover", *arguments, status=2).err
        assert words in said
        assert "Traceback" not in said


def test_layers_are_chosen_by_numbers_and_ranges(model, cli):
    assert checkpoint_layers(model) == (0, 1)
    for text, wanted in {"1": [1], " 1 , 0-1": [0, 1], "ALL": [0, 1]}.items():
        told = cli("recover", model, "--by", "queries", "--jobs", 1, "--layers", text, "--json").out
        assert [one["layer"] for one in json.loads(told)["layers"]] == wanted

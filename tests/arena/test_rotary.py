"""Layers with rotary positions: as targets and files, at the command line, as one's own function, in checkpoints."""

import json
from dataclasses import replace

import numpy as np
import pytest
import safetensors.numpy

import arena
from attention import GaussianInputs, RotaryLayer, load_layer, make_nice_rotary_layer, rotary_errors
from attention.testing import check_learner
from upper import RotaryByQueries

NICE = arena.nice_target(heads=2, dim=16, head_dim=8, key_heads=1, tokens=5, inputs="gaussian", seed=0)


def worst(errors):
    return max(errors.w.max(), errors.score_maps.max(), errors.bias)


def test_only_the_learner_of_rotary_positions_applies():
    results = arena.compare([NICE], "newton,six-phase,by-queries,block,linear,rotary", isolated=False)
    ended = {cell.learner: cell for cell in results.cells}
    for name in ("newton", "six-phase", "by-queries", "block"):
        assert ended[name].status.name == "NOT_APPLICABLE"
        assert "take the learner named rotary" in ended[name].message
    assert ended["linear"].unknown_part_error > 0.1
    assert ended["rotary"].outcome == "EXACT"
    assert ended["rotary"].unknown_part_error < 1e-9


def test_a_file_is_made_shown_and_learned_at_the_command_line(cli, tmp_path):
    path, fitted = tmp_path / "rotary.safetensors", tmp_path / "fitted.safetensors"
    shape = ("--heads", 2, "--dim", 16, "--head-dim", 8, "--key-heads", 1, "--tokens", 5)
    said = cli("generate", "nice", *shape, "-o", path).out
    assert "Nice, 2 heads, rotary positions, 5 tokens" in said
    assert "RotaryLayer(heads=2, key_heads=1, dim=16, head_dim=8" in cli("inspect", path).out
    shown = json.loads(cli("inspect", path, "--json").out)
    assert (shown["kind"], shown["conditions"]) == ("rotary", None)
    learned = json.loads(cli("learn", path, "-o", fitted, "--json").out)
    assert (learned["learner"], learned["outcome"]) == ("rotary", "EXACT")
    assert max(learned[name] for name in ("score_error", "w_error", "relative_error")) < 1e-8
    assert worst(rotary_errors(load_layer(fitted).layer, load_layer(path).layer)) < 1e-8


def test_a_target_comes_back_from_its_file_bit_for_bit(tmp_path):
    arena.save_target(tmp_path / "rotary.safetensors", NICE)
    read = arena.load_target(tmp_path / "rotary.safetensors")
    assert (read.kind, read.content) == ("rotary", NICE.content)
    assert read.content != arena.layer_target(make_nice_rotary_layer(2, 16, 8, rng=1), tokens=5).content


def test_a_function_of_ones_own_is_asked_at_any_length(cli, tmp_path):
    layer = make_nice_rotary_layer(2, 16, 8, causal=False, rng=3)
    arena.save_target(tmp_path / "own.safetensors", arena.layer_target(layer, tokens=4))
    (tmp_path / "own.py").write_text(
        f"from attention import load_layer\nlayer = load_layer({str(tmp_path / 'own.safetensors')!r}).layer\n"
        "def own(x):\n    return layer(x)\n"
    )
    out = tmp_path / "found.safetensors"
    given = ("--ask", f"{tmp_path / 'own.py'}:own", "--tokens", 4, "--dim", 16, "--learner", "rotary")
    said = cli("learn", *given, "-o", out).out
    assert "4 frequencies, 2 heads, 2 key heads" in said
    assert worst(rotary_errors(load_layer(out).layer, layer)) < 1e-8


@pytest.mark.bad_input
def test_the_learner_keeps_the_contract():
    layer = make_nice_rotary_layer(1, 8, 4, rng=0)
    assert check_learner(RotaryByQueries(), layer, GaussianInputs(3, 8)).outcome.succeeded


def with_equal_heads(layer):
    parameters = {name: np.array(array) for name, array in layer.parameters.items()}
    for name in ("queries", "keys", "query_bias", "key_bias"):
        parameters[name][1] = parameters[name][0]
    return replace(layer, **parameters)


WRONG = {
    "no rotation": (lambda layer: replace(layer, frequencies=np.zeros(4)), "no positions; take byqueries"),
    "equal heads": (with_equal_heads, "1 head"),  # the same function has one head
    "saturated heads": (lambda layer: replace(layer, queries=1e4 * layer.queries), "heads not separated"),
    "one saturated head": (
        lambda layer: replace(layer, queries=layer.queries * np.array([1.0, 1e5])[:, None, None]),
        "heads not separated",
    ),
}


@pytest.mark.parametrize("wrong", WRONG)
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_a_layer_that_is_not_read_ends_with_its_outcome_and_a_sentence(wrong, seed, cli, tmp_path):
    change, words = WRONG[wrong]
    layer = change(make_nice_rotary_layer(2, 16, 8, causal=seed != 1, biases=True, rng=seed))
    arena.save_target(tmp_path / "layer.safetensors", arena.layer_target(layer, tokens=6, inputs="gaussian"))
    said = cli("learn", tmp_path / "layer.safetensors")
    assert words in said.out.lower()
    assert "Traceback" not in said.err
    learned = json.loads(cli("learn", tmp_path / "layer.safetensors", "--json").out)
    assert learned["succeeded"] is (learned["relative_error"] < 1e-6) is (wrong == "equal heads")


@pytest.fixture
def llama(tmp_path):
    """A model of two layers in Llama's layout, with shared keys."""
    rng, tensors = np.random.default_rng(0), {}
    for number in range(2):
        for name, (rows, columns) in {"q": (32, 24), "k": (16, 24), "v": (16, 24), "o": (24, 32)}.items():
            weight = rng.standard_normal((rows, columns)) / np.sqrt(columns)
            tensors[f"model.layers.{number}.self_attn.{name}_proj.weight"] = weight
    folder = tmp_path / "llama"
    folder.mkdir()
    safetensors.numpy.save_file(tensors, folder / "model.safetensors")
    config = {"model_type": "llama", "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 8}
    (folder / "config.json").write_text(json.dumps(config | {"rope_theta": 10000.0}))
    return folder


def test_every_layer_of_a_checkpoint_comes_back_at_lengths_beyond_those_asked(llama, cli, tmp_path):
    told = json.loads(cli("recover", llama, "--by", "queries", "--out", tmp_path / "out", "--json").out)
    for number, layer in enumerate(told["layers"]):
        assert (layer["layer"], layer["heads_found"], layer["rotary"]) == (number, 4, True)
        assert layer["recovered"] == ["F", "M", "W"]
        assert max(layer["errors"][name] for name in "FMW") < 1e-7
    words = cli("recover", llama, "--by", "queries", "--out", tmp_path / "out").out
    assert "on fresh sequences of 512 tokens" in words
    assert "Conditions violated" not in (tmp_path / "out" / "index.html").read_text()
    assert "rotated by position, base 10000" in cli("inspect", llama, "--layer", 1).out
    target = arena.checkpoint_target(llama, layer=1)
    assert isinstance(target.layer, RotaryLayer)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("recover", "{}"), "give --by queries"),
        (("recover", "{}", "--by", "queries", "--blocks"), "whole blocks are known of"),
        (("inspect", "{}", "--layer", 0, "--threshold", "theta_trace=1"), "rotary positions have none"),
        (("generate", "nice", "--key-heads", 2, "-o", "x.safetensors"), "give head_dim too"),
        (("generate", "nice", "--head-dim", 4, "--width", 3, "-o", "x.safetensors"), "without positions"),
    ],
)
def test_what_does_not_apply_is_one_sentence(arguments, words, llama, cli):
    said = cli(*(str(argument).format(llama) for argument in arguments), status=2)
    assert words in said.err
    assert "Traceback" not in said.err

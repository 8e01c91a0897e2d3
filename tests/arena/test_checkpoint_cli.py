"""One's own model: from a checkpoint to its conditions, a target, and back by a learner."""

import json
from dataclasses import replace

import pytest

from arena.comparison import compare
from arena.inspection import inspect
from arena.targets import checkpoint_target, load_target
from arena.views.page import render_page
from attention import SphereInputs, read_checkpoint_layer
from attention.files import load_layer

SHAPE = {"heads": 4, "dim": 32, "layers": 3}
both = pytest.mark.parametrize("model", ["bert", "gpt2"])


@pytest.fixture(scope="module")
def folders(tmp_path_factory, checkpoint):
    folder = tmp_path_factory.mktemp("models")
    return {model: checkpoint(folder / model, model, **SHAPE) for model in ("bert", "gpt2")}


@both
def test_inspect_shows_the_layer_and_what_was_dropped(cli, folders, model):
    given = ["--layer", 2, "--biases", "dropped", "--coordinates", 10, "--tokens", 3]
    words = cli("inspect", folders[model], *given).out
    said = json.loads(cli("inspect", folders[model], *given, "--json").out)
    for role in ("query", "key", "value", "output"):
        assert f"  - The {role} bias was dropped: " in words
    assert ("is causal" in words) is (model == "gpt2")
    assert (said["heads"], said["tokens"], said["dim"]) == (4, 3, 10)
    assert said["ranks"] == {"theta": [8] * 4, "w": [8] * 4}
    assert said["file"] == str(folders[model])
    assert said["made"]["parameters"]["head_dim"] == 8
    assert all(note in words for note in said["made"]["notes"])
    assert str(folders[model]) not in words


@both
@pytest.mark.parametrize("biases", ["kept", "dropped"])
def test_generate_writes_the_layer_with_all_that_is_told_of_it(cli, folders, tmp_path, model, biases):
    path = tmp_path / "layer.safetensors"
    given = ["--layer", 1, "--biases", biases, "--tokens", 3, "--inputs", "sphere"]
    words = cli("generate", "from-checkpoint", folders[model], *given, "-o", path).out
    imported, stored = read_checkpoint_layer(folders[model], layer=1, biases=biases), load_layer(path)
    assert stored.layer.theta.tobytes() == imported.layer.theta.tobytes()
    assert stored.layer.w.tobytes() == imported.layer.w.tobytes()
    assert stored.layer.biased is (biases == "kept")
    assert stored.made["notes"] == list(imported.notes)
    assert all(note in words for note in imported.notes)
    target = checkpoint_target(
        folders[model], layer=1, tokens=3, biases=biases, inputs="sphere", name="layer"
    )
    back, how = load_target(path), f"The file says: {target.record.how}"
    assert back.record == replace(target.record, how=how)
    assert (back.made, back.inputs) == (target.made, SphereInputs(3, 32))
    assert inspect(path).conditions.rows() == inspect(target).conditions.rows()
    assert str(tmp_path) not in back.record.how


def test_a_comparison_says_what_was_dropped_of_a_model_and_that_it_is_given(folders):
    page = render_page(
        compare(checkpoint_target(folders["gpt2"], layer=1), "known-component", isolated=False)
    )
    assert "is causal" in page
    assert 'class="badge given"' in page

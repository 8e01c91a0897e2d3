"""Files and JSON of `attention`, written and read with what a user may give by mistake."""

import json
from pathlib import Path

import numpy as np
import pytest
from attention_makers import a_layer, layer, outputs, plain, some_inputs
from fuzzing import (
    Argument,
    Given,
    Subject,
    anything,
    array,
    assert_finite,
    choice,
    fixed,
)
from hypothesis import strategies as st

import attention
from attention import (
    ExampleOracle,
)


def same_layer(one, other):
    assert one.theta.dtype == one.w.dtype == np.float64 or plain(one.theta).dtype == np.float64
    np.testing.assert_array_equal(plain(one.theta), plain(other.theta))
    np.testing.assert_array_equal(plain(one.w), plain(other.w))


def saved_is_right(result, given):
    """What was saved loads equal."""
    stored = attention.load_layer(given["path"])
    same_layer(stored.layer, given["layer"])
    assert stored.inputs == given["inputs"]
    assert stored.made == json.loads(json.dumps(given["made"] or {}))


def loaded_is_right(result, given):
    if given["path"] == FILES["layer"]:
        same_layer(result.layer, layer())


def written_examples_are_right(result, given):
    for name, one in attention.files.read_arrays(given["path"], ["x", "y"]).items():
        np.testing.assert_array_equal(plain(one), plain(given[name]))


def written_tensors_are_right(result, given):
    stored = attention.files.read_tensors(given["path"])
    tensors = given["tensors"] if "tensors" in given else {"a": given["a"]}
    assert set(stored.tensors) == set(tensors)
    for name, one in tensors.items():
        assert stored.tensors[name].shape == np.shape(plain(one))
        np.testing.assert_array_equal(plain(stored.tensors[name]), plain(one))
    assert stored.metadata == json.loads(json.dumps(given.get("metadata", {})))


def read_is_right(result, given):
    arrays = (result.tensors if hasattr(result, "tensors") else result).values()
    if given["path"] == FILES["examples"]:
        assert all(np.array_equal(one, np.ones((3, 2, 2))) for one in arrays)


def inputs_are_right(result, given):
    assert attention.inputs.inputs_from_json(attention.inputs.inputs_to_json(result)) == result
    assert result.sample(2, rng=0).shape == (2, result.k, result.d)


def json_is_right(result, given):
    assert attention.inputs.inputs_from_json(json.loads(json.dumps(result))) == given["inputs"]


FILES: dict[str, Path] = {}


@pytest.fixture(scope="module", autouse=True)
def stored(tmp_path_factory):
    """Files that the readers may read."""
    folder = tmp_path_factory.mktemp("stored")
    FILES.clear()
    attention.save_layer(folder / "layer.safetensors", layer())
    attention.write_examples(folder / "examples.safetensors", np.ones((3, 2, 2)), np.ones((3, 2, 2)))
    np.save(folder / "x.npy", np.ones((3, 2, 2)))
    (folder / "damaged.safetensors").write_bytes(b"\x10\0\0\0\0\0\0\0{}")
    FILES.update({path.stem: path for path in folder.iterdir()}, folder=folder)
    return folder


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    """Texts such as "nan" are paths, too: what is written there is not to stay."""
    monkeypatch.chdir(tmp_path)


def a_file(stem):
    own = Given(stem, lambda: FILES[stem])
    others = st.sampled_from(
        [Given(one, lambda one=one: FILES[one]) for one in ("layer", "examples", "x", "damaged", "folder")]
        + [Given("text", lambda: str(FILES[stem])), Given("none", lambda: FILES["folder"] / "none")]
        + [fixed("a\0b"), fixed("x" * 5000)]
    )
    return Argument(st.just(own), others | anything(None).hostile)


def new_file():
    return anything(Given("new", lambda: FILES["folder"] / "new.safetensors"))


JSON = [
    {"name": "boolean", "k": 2, "d": 3},
    {"name": "slice", "blocks": [2, 1], "weights": [[1, 1]]},
    {"name": "positioned", "inputs": {"name": "sphere", "k": 1, "d": 1}, "positions": [[1.0]]},
    {"name": "constant-coordinate", "inputs": {"name": "gaussian", "k": 1, "d": 1}},
]
BAD_JSON = [
    {"name": "boolean", "k": 2},
    {"name": "boolean", "k": 2, "d": 3, "e": 3},
    {"name": "boolean", "k": "2", "d": None},
    {"name": "slice", "blocks": 3, "weights": [[1, 1]]},
    {"name": "slice", "blocks": [2], "weights": [3]},
    {"name": "positioned", "inputs": {"name": "sphere", "k": 1, "d": 1}, "positions": [["a"]]},
    {"name": "positioned", "inputs": 3, "positions": [[1.0]]},
    {"name": "constant-coordinate", "inputs": []},
    {"name": []},
]


SUBJECTS = [
    Subject(
        "attention.inputs_from_json",
        attention.inputs.inputs_from_json,
        {
            "data": Argument(
                st.sampled_from(JSON).map(fixed),
                st.sampled_from(BAD_JSON).map(fixed) | anything(None).hostile,
            )
        },
        right=inputs_are_right,
        words=("inputs", "name", "k", "d", "positions", "blocks", "weights"),
    ),
    Subject(
        "attention.inputs_to_json",
        attention.inputs.inputs_to_json,
        {"inputs": some_inputs()},
        right=json_is_right,
    ),
    Subject(
        "attention.ExampleOracle.from_files",
        ExampleOracle.from_files,
        {"x_path": a_file("x"), "y_path": a_file("x")},
        right=lambda result, given: assert_finite(result.draw(1)),
        words=("file", "path", "examples"),
    ),
    Subject(
        "attention.save_layer",
        attention.save_layer,
        {"path": new_file(), "layer": a_layer(), "inputs": some_inputs(), "made": anything({"seed": 3})},
        right=saved_is_right,
        words=("metadata",),
        also=(OSError,),
    ),
    Subject(
        "attention.load_layer",
        attention.load_layer,
        {"path": a_file("layer")},
        words=("file", "theta", "header"),
        right=loaded_is_right,
    ),
    Subject(
        "attention.read_arrays",
        attention.files.read_arrays,
        {"path": a_file("examples"), "names": anything(["x"])},
        words=("file", "header", "array"),
        right=read_is_right,
    ),
    Subject(
        "attention.read_tensors",
        attention.files.read_tensors,
        {"path": a_file("examples"), "kind": choice("examples", None)},
        words=("file", "header"),
        right=read_is_right,
    ),
    Subject(
        "attention.write_examples",
        attention.write_examples,
        lambda size: {"path": new_file()} | outputs("x", "y")(size),
        right=written_examples_are_right,
        also=(OSError,),
    ),
    Subject(
        "attention.write_tensors",
        attention.files.write_tensors,
        lambda size: {
            "path": new_file(),
            "kind": anything("things"),
            "tensors": anything({"a": np.ones(2)}),
            "metadata": anything({"b": [1, 2]}),
        },
        right=written_tensors_are_right,
        also=(OSError,),
    ),
    Subject(
        "attention.write_tensors.of any entries",
        lambda path, a: attention.files.write_tensors(path, "things", {"a": a}, {}),
        lambda size: {"path": new_file(), "a": array((size.m, size.d))},
        right=written_tensors_are_right,
        also=(OSError,),
    ),
]


@pytest.mark.bad_input
@pytest.mark.parametrize("subject", SUBJECTS, ids=repr)
def test_every_call_is_answered_rightly_or_refused_in_a_sentence(subject, fuzz):
    fuzz(subject)

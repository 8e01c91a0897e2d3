"""A look inside: the same words and values from Python as from the command line."""

import json
from dataclasses import replace

import numpy as np
import pytest

from arena.inspection import inspect
from arena.targets import family_target, layer_target, lwr_target, nice_target, save_target
from attention import make_nice_layer
from attention.files import save_layer
from sq import HiddenGateFamily, ParityFamily, ProfileFamily

TARGETS = {
    "nice": lambda: nice_target(heads=2, tokens=3, dim=12, inputs="gaussian", seed=4),
    "lwr": lambda: lwr_target(n=6, q=8, p=2, seed=4),
    "two-slope": lambda: family_target(ProfileFamily.two_slope(dim=12, bits=5), seed=4),
    "hidden-gate": lambda: family_target(HiddenGateFamily(base=ParityFamily(dim=6, bits=3)), seed=4),
    "own": lambda: layer_target(make_nice_layer(heads=2, dim=12, rng=0), tokens=3),
}


@pytest.mark.parametrize("kind", TARGETS)
def test_words_and_json_are_those_of_the_command(kind, tmp_path, cli):
    target = TARGETS[kind]()
    path = tmp_path / f"{target.name}.safetensors"
    save_target(path, target)
    verify = ["--verify"] if target.instance is not None else []
    found = inspect(path, verify=bool(verify))
    assert cli("inspect", path, *verify).out == f"{found}\n"
    assert json.loads(cli("inspect", path, *verify, "--json").out) == found.to_json()
    assert found.holds
    how = f"The file says: {target.record.how}"
    assert found.record == replace(target.record, how=how)
    of_target = inspect(target, verify=bool(verify))
    assert str(of_target) == str(found).replace("The file says: ", "")
    of_file = found.to_json()
    assert of_target.to_json() == of_file | {"file": None, "made": of_file.pop("file_says")}


def test_a_layer_without_tokens_shows_its_conditions_alone(tmp_path, cli):
    path = tmp_path / "own.safetensors"
    save_layer(path, make_nice_layer(heads=2, dim=12, rng=0))
    found = inspect(path)
    assert (found.record, found.holds) == (None, True)
    assert str(found) == str(found.conditions)
    assert json.loads(cli("inspect", path, "--json").out) == found.to_json()
    assert inspect(path, tokens=5).record.tokens == 5


def test_notes_of_a_damaged_record_are_none(tmp_path):
    path = tmp_path / "odd.safetensors"
    made = {"generator": "from-checkpoint", "parameters": {"prefix": 3}, "notes": "no list"}
    layer = make_nice_layer(heads=2, dim=12, rng=0)
    save_target(path, layer_target(layer, tokens=2, made=made))
    found = inspect(path)
    assert found.notes == ()
    assert found.ranks == {"theta": (12, 12), "w": (12, 12)}
    assert "Layer ? of ?" in str(found)
    assert np.array_equal(np.linalg.matrix_rank(layer.theta), found.ranks["theta"])

"""The benchmark of trained layers: that it reads a model, measures all learners on its layer, and skips without one."""

import json
from importlib.util import find_spec
from subprocess import CompletedProcess

import numpy as np
import pytest
from safetensors.numpy import save_file

from benchmarks.trained_layers import run_trained_layers


@pytest.mark.slow
@pytest.mark.skipif(find_spec("torch") is None, reason="torch is not installed")
def test_newton_and_its_peers_learn_the_layer_of_a_small_model(tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    names = {name: f"attention.self.{name}" for name in ("query", "key", "value")}
    tensors = {
        f"encoder.layer.1.{name}.{kind}": 0.5 * rng.standard_normal((8, 8) if kind == "weight" else 8)
        for name in (*names.values(), "attention.output.dense")
        for kind in ("weight", "bias")
    }
    save_file(tensors, tmp_path / "model.safetensors")
    monkeypatch.setattr("benchmarks.trained_layers._model", lambda folder: tmp_path / "model.safetensors")
    monkeypatch.setattr("benchmarks.trained_layers._HEADS", 2)
    found = run_trained_layers(tmp_path / "t.json", layer=1, dim=5, tokens=3, floors=16, factors=(0.5, 1.0))
    assert json.loads((tmp_path / "t.json").read_text(encoding="utf-8"))["rows"] == found["rows"]
    newton, *peers = found["rows"]
    assert newton["error"] < 1e-10
    assert [(row["learner"], row["steps"] >= 1) for row in peers] == [
        (name, True) for name in ("adam", "muon", "soap") for _ in range(2)
    ]
    assert all(1e-8 < row["error"] < 10 for row in peers)


def test_without_a_registry_it_is_skipped_and_says_so(monkeypatch, capsys):
    monkeypatch.setattr("subprocess.run", lambda *_, **__: CompletedProcess([], 1))
    assert run_trained_layers() == {}
    assert capsys.readouterr().out.startswith("Skipped")

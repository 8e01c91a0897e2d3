"""Where learners compute: asked for on the command line and from Python, held to what is there, named in the cells."""

import os
import subprocess
import sys
from importlib.util import find_spec

import pytest

from arena import compare, learn
from arena.comparison import _with_settings
from arena.learner_table import LEARNERS, PRESETS
from arena.learners import require_engine
from arena.target import identity
from upper import GradientDescent, KnownComponentBaseline, Newton
from upper import engine as engines

needs_torch = pytest.mark.skipif(find_spec("torch") is None, reason="torch is not installed")


@pytest.fixture
def without_torch(monkeypatch):
    monkeypatch.setattr(engines, "find_spec", lambda name: None)


@needs_torch
def test_a_fit_names_its_engine(nice, monkeypatch):
    for learner, engines_there in {
        Newton(1, engine="auto"): ("numpy",),  # too small for torch to be worth it
        Newton(1, engine="torch"): ("torch cpu float32", "torch cpu bfloat16"),
        GradientDescent(1, work=2): ("torch cpu float32",),
        KnownComponentBaseline(): ("",),
    }.items():
        assert learn(nice, learner).fit.engine in engines_there
    # on a CPU that multiplies bfloat16 torch is worth it, and on no other
    for has, used in ((True, "torch cpu bfloat16"), (False, "numpy")):
        monkeypatch.setattr(engines, "has_bfloat16", lambda device, has=has: has)
        assert str(Newton(8, engine="auto").engine_for(8, 8, 64)) == used
    assert str(Newton(8).engine_for(8, 8, 64)) == "numpy"


def test_the_words_of_the_command_line_reach_every_learner_that_has_a_choice(nice):
    entries = [LEARNERS[name] for name in ("newton", "adam", "linear")]
    settings = {"engine": "torch", "device": "cuda:1"}
    newton, adam, linear = (_with_settings(one, settings).build(nice, PRESETS["quick"]) for one in entries)
    assert (newton.engine, newton.device) == ("torch", "cuda:1")
    assert adam.device == "cuda:1"
    assert linear == entries[2].build(nice, PRESETS["quick"])


@pytest.mark.slow
@needs_torch
def test_cells_name_their_engine_and_are_known_by_what_was_asked(nice, tmp_path):
    path = tmp_path / "runs.sqlite"

    def run(**asked):
        results = compare([nice], "newton", store=path, isolated=False, **asked)
        (cell,) = results.cells
        assert {name: results.made[name] for name in asked} == asked
        assert cell.unknown_part_error < 1e-12
        return cell.engine, results.made["reused"]

    assert run() == ("numpy", 0)
    assert run(engine="numpy") == ("numpy", 1)  # which is Newton's default
    assert run(device="cpu") == ("numpy", 0)  # asked for otherwise, and still NumPy
    engine, reused = run(engine="torch", device="cpu")
    assert engine.startswith("torch cpu ")
    assert reused == 0
    assert [run(**asked)[1] for asked in ({}, {"device": "cpu"}, {"engine": "torch", "device": "cpu"})] == [
        1
    ] * 3


def test_what_auto_comes_to_is_no_part_of_what_a_cell_is_known_by(nice, monkeypatch):
    said = []
    for find in (lambda name: None, find_spec):
        monkeypatch.setattr(engines, "find_spec", find)
        said.append(identity(LEARNERS["newton"].build(nice, PRESETS["quick"])))
    assert said[0] == said[1]


@pytest.mark.slow
@needs_torch
def test_torch_that_newton_brings_along_computes_in_one_thread(tmp_path):
    program = (
        "from arena import nice_target\n"
        "from dataclasses import dataclass\n"
        "from upper import Newton\n"
        "class Telling(Newton):\n"
        "    def fit(self, oracle, **options):\n"
        "        import torch; print(torch.get_num_threads())\n"
        "        return super().fit(oracle, **options)\n"
        "nice_target(heads=1, tokens=2, dim=4).fit(Telling(1, engine='torch'), 0)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=True,
        env=os.environ | dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS"), "2"),
    )
    assert done.stdout == "1\n"


def test_without_torch_the_extra_is_named_and_the_cpu_is_numpy(without_torch, cli, file, nice):
    assert "pip install torch" in cli("learn", file, "--device", "cuda", status=2).err
    require_engine(device="cpu")
    learned = learn(nice, "newton", device="cpu")
    assert learned.fit.engine == learned.to_json()["engine"] == "numpy"
    assert learned.error < 1e-12


def test_the_library_breaking_down_on_a_device_is_one_line(cli, file, monkeypatch):
    def full(*_, **__):
        raise RuntimeError("CUDA out of memory.\nTried to allocate 2 GiB.")

    monkeypatch.setattr("upper.newton.problem.Run", full)
    said = cli("learn", file, "--device", "cpu", status=1)
    assert said.err == (
        "attention-bounds: The work on cpu failed: CUDA out of memory. Tried to allocate 2 GiB.\n"
    )

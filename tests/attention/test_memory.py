"""Memory: what there is is read where the system says it, and what does not fit is refused before the work."""

import tracemalloc
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

import upper
from attention import BooleanInputs, ExampleOracle, NotEnoughMemoryError, make_nice_layer, memory


@pytest.fixture
def limit_memory(monkeypatch):
    def limit(free):
        monkeypatch.setattr(memory, "available_memory", lambda: free)
        monkeypatch.setattr(memory, "_SMALL", 0)

    return limit


@pytest.mark.parametrize(("most", "free"), [("5000", 3000), ("max", 9000 * 1024)])
def test_free_memory_is_what_the_tighter_limit_leaves(most, free, tmp_path, monkeypatch):
    texts = {"proc/meminfo": "MemTotal: 9 kB\nMemAvailable:   9000 kB\n"}
    texts |= {"sys/fs/cgroup/memory.max": most, "sys/fs/cgroup/memory.current": "2000"}
    for name, text in texts.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.setattr(memory, "Path", lambda *parts: tmp_path / Path(*parts).relative_to("/"))
    assert memory.available_memory() == free


def test_nine_tenths_of_what_is_free_may_be_taken(limit_memory):
    limit_memory(100)
    memory.require_memory("It", 90)
    for needed in (91, 10**400):
        with pytest.raises(NotEnoughMemoryError, match=r"It needs .*, and 100 bytes are free: take less"):
            memory.require_memory("It", needed, advice="take less")


def test_a_layer_asks_for_the_memory_that_it_takes(monkeypatch):
    asked = []
    monkeypatch.setattr("attention.layer.require_memory", lambda what, size, *, advice: asked.append(size))
    layer, x = make_nice_layer(heads=6, dim=16, rng=0), BooleanInputs(5, 16).sample(2000, rng=1)
    layer(x)
    tracemalloc.start()
    layer(x)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak <= asked[-1] <= 4 * peak


LEARNERS = [
    upper.Newton(heads=2, examples=10**7, engine="numpy"),
    upper.LBFGS(heads=2, examples=10**7),
    *([upper.GradientDescent(heads=10**6)] if find_spec("torch") else []),
    upper.LinearBaseline(examples=10**7),
    upper.OneGradientStep(examples=10**7),
    upper.SixPhase(heads=2),
    upper.LinearAttentionLearner(examples=10**7),
]


@pytest.mark.parametrize("learner", LEARNERS, ids=lambda one: type(one).__name__)
def test_what_does_not_fit_is_not_drawn(learner, limit_memory):
    layer = make_nice_layer(heads=2, dim=3, rng=0)
    source = ExampleOracle(layer, BooleanInputs(2, 3), rng=0)
    limit_memory(1 << 16)
    for call in (
        lambda: learner.fit(source, rng=0),
        lambda: layer(np.ones((10**5, 2, 3))),
        lambda: source.draw(10**6),
    ):
        with pytest.raises(ValueError, match=r"\d (K|M|G|T|P)iB"):
            call()
    assert source.drawn == 0

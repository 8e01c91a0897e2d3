"""Memory: what there is is read where the system says it, and what does not fit is refused before the work."""

import tracemalloc
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

import upper
from attention import BooleanInputs, ExampleOracle, NotEnoughMemoryError, make_nice_layer, memory
from attention.memory import memory_limited_to, require_memory

FILES = {
    "group of version 2": ({"memory.max": "5000", "memory.current": "2000"}, 3000),
    "group of version 1": (
        {"memory/memory.limit_in_bytes": "7000", "memory/memory.usage_in_bytes": "3000"},
        4000,
    ),
    "group without a limit": ({"memory.max": "max", "memory.current": "10"}, 9000 * 1024),
}


@pytest.mark.parametrize(("files", "free"), FILES.values(), ids=FILES)
def test_free_memory_is_what_the_tightest_limit_leaves(files, free, tmp_path, monkeypatch):
    files = {f"sys/fs/cgroup/{name}": text for name, text in files.items()}
    for name, text in (files | {"proc/meminfo": "MemTotal: 9 kB\nMemAvailable:   9000 kB\n"}).items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.setattr(memory, "Path", lambda *parts: tmp_path / Path(*parts).relative_to("/"))
    assert memory.available_memory() == free


def test_nine_tenths_of_what_is_free_may_be_taken(monkeypatch):
    with memory_limited_to(100):
        require_memory("It", 90)
        for needed in (91, 10**400):
            with pytest.raises(NotEnoughMemoryError, match=r"It needs .* of memory, and 100 bytes are free"):
                require_memory("It", needed)
    monkeypatch.setattr(memory, "available_memory", lambda: 2**30)
    require_memory("The table", 2**29, advice="take fewer rows")
    with pytest.raises(NotEnoughMemoryError, match="2 GiB of memory, and 1 GiB are free: take fewer rows"):
        require_memory("The table", 2**31, advice="take fewer rows")


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


def test_layers_and_oracles_refuse_what_does_not_fit():
    layer = make_nice_layer(heads=2, dim=3, rng=0)
    source = ExampleOracle(layer, BooleanInputs(2, 3), rng=0)
    with memory_limited_to(1 << 20):
        for call in (lambda: layer(np.ones((10**5, 2, 3))), lambda: source.draw(10**6)):
            with pytest.raises(NotEnoughMemoryError):
                call()
        assert len(source.draw(100)[0]) == 100
    assert source.drawn == 100


MUCH = 10**7
LEARNERS = [
    upper.Newton(heads=2, examples=MUCH, engine="numpy"),
    upper.LBFGS(heads=2, examples=MUCH),
    *([upper.GradientDescent(heads=10**6)] if find_spec("torch") else []),
    upper.LinearBaseline(examples=MUCH),
    upper.OneGradientStep(examples=MUCH),
    upper.SixPhase(heads=2),
]


@pytest.mark.parametrize("learner", LEARNERS, ids=lambda one: type(one).__name__)
def test_a_learner_that_needs_too_much_draws_nothing(learner):
    source = ExampleOracle(make_nice_layer(heads=2, dim=3, rng=0), BooleanInputs(2, 3), rng=0)
    with memory_limited_to(1 << 16), pytest.raises(ValueError, match=r"\d (K|M|G|T|P)iB"):
        learner.fit(source, rng=0)
    assert source.drawn == 0

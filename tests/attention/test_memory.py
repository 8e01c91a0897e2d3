"""Memory: what there is is read where the system says it, and what does not fit is refused before the work."""

import tracemalloc
from pathlib import Path

import pytest

from attention import BooleanInputs, NotEnoughMemoryError, make_nice_layer, memory

FILES = {
    "a group of version 2": (
        {
            "proc/self/cgroup": "0::/jobs/mine\n",
            "sys/fs/cgroup/jobs/mine/memory.max": "max",
            "sys/fs/cgroup/jobs/mine/memory.current": "10",
            "sys/fs/cgroup/jobs/memory.max": "5000",
            "sys/fs/cgroup/jobs/memory.current": "2000",
        },
        3000,
    ),
    "a group of version 1": (
        {
            "proc/self/cgroup": "5:cpu:/mine\n4:memory,pids:/mine\n",
            "sys/fs/cgroup/memory/mine/memory.limit_in_bytes": "7000",
            "sys/fs/cgroup/memory/mine/memory.usage_in_bytes": "3000",
        },
        4000,
    ),
}


@pytest.mark.parametrize(("files", "free"), FILES.values(), ids=FILES)
def test_free_memory_is_what_the_tightest_limit_leaves(files, free, tmp_path, monkeypatch):
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.setattr(memory, "Path", lambda name: tmp_path / Path(name).relative_to("/"))
    assert memory.available_memory() == free


def test_without_a_limit_the_memory_there_is_decides(monkeypatch):
    monkeypatch.setattr(memory, "available_memory", lambda: 2**30)
    memory.require_memory("The table", 2**29, advice="take fewer rows")
    with pytest.raises(NotEnoughMemoryError, match="The table needs 2 GiB of memory, and 1 GiB are free"):
        memory.require_memory("The table", 2**31, advice="take fewer rows")


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

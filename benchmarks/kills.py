"""Kill commands with SIGKILL at random moments, repeat them, and compare what they print with an uninterrupted run."""

import json
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save_file

from arena import nice_target, parity_target, save_target
from benchmarks.report import Json, end_with, write_json
from runs import Store, StoreError

_PROGRAM = (sys.executable, "-c", "from arena.cli import main; main()")
# Each command, and the store in its folder.
_COMMANDS = {
    "compare": (
        "runs.sqlite",
        "compare nice.safetensors parity.safetensors --learners newton,linear,known-component,elimination "
        "--seeds {seeds}",
    ),
    "curves": ("studies.sqlite", "curves sq --dims 10,16,20 --bits 3 --tau 0.3"),
    "recover": ("recover.sqlite", "recover model --by queries"),
}
# What differs between two runs of the same work.
_INCIDENTAL = {"seconds", "made", "versions"}


@dataclass(frozen=True)
class Kill:
    """One kill: the command, its time, the cells in the store then and at the end, and the result of the repetition."""

    command: str
    after: float
    stored: int
    total: int
    equal: bool
    twice: int
    orphans: int

    @property
    def good(self) -> bool:
        """Whether the output is the same, nothing was computed twice, no process is left, and there is a store."""
        return self.equal and self.twice == 0 and self.orphans == 0 and self.total > 0

    def __str__(self) -> str:
        return (
            f"{self.command} killed after {self.after:5.2f} s with {self.stored:2} of {self.total} cells stored: "
            f"{'the same output' if self.equal else 'ANOTHER OUTPUT'}, {self.twice} cells computed twice, "
            f"{self.orphans} processes left"
        )


def run_kills(times: int = 20, seed: int = 0, seeds: int = 6, out: Json = None) -> None:
    """Kill `compare`, `curves` and `recover` in turn, each at a random moment of its work; print the count."""
    rng = np.random.default_rng(seed)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        save_target(folder / "nice.safetensors", nice_target(heads=2, tokens=2, dim=16, seed=1))
        save_target(folder / "parity.safetensors", parity_target(heads=2, dim=12, seed=2))
        _save_model(folder / "model")
        whole = {}
        for command in [*_COMMANDS][:times]:
            began = time.monotonic()
            printed = _finish(_start(folder, f"whole-{command}", command, seeds))
            whole[command] = printed, time.monotonic() - began
            print(f"{command} uninterrupted: {whole[command][1]:.1f} s.", flush=True)
        kills = []
        for turn in range(times):
            command = [*_COMMANDS][turn % len(_COMMANDS)]
            printed, length = whole[command]
            after = rng.uniform(0, length)
            kills.append(_kill(folder, f"killed-{turn}", command, after, printed, seeds))
            print(f"{turn + 1:3}. {kills[-1]}.", flush=True)
    print(f"{sum(kill.good for kill in kills)} of {times} repeated to the uninterrupted output.")
    write_json(out, {"kills": [vars(kill) for kill in kills]})
    end_with(str(kill) for kill in kills if not kill.good)


def _save_model(folder: Path, dim: int = 48, layers: int = 6) -> None:
    """A checkpoint of random attention layers under the names of BERT."""
    rng, tensors = np.random.default_rng(0), {}
    for number in range(layers):
        for name in ("self.query", "self.key", "self.value", "output.dense"):
            path = f"encoder.layer.{number}.attention.{name}"
            tensors[f"{path}.weight"] = rng.normal(size=(dim, dim), scale=dim**-0.5).astype(np.float32)
            tensors[f"{path}.bias"] = rng.normal(size=dim, scale=0.2).astype(np.float32)
    folder.mkdir()
    save_file(tensors, folder / "model.safetensors")
    (folder / "config.json").write_text(json.dumps({"model_type": "bert", "num_attention_heads": 4}))


def _kill(folder: Path, name: str, command: str, after: float, whole: Any, seeds: int) -> Kill:
    process = _start(folder, name, command, seeds)
    store = folder / name / _COMMANDS[command][0]
    with suppress(subprocess.TimeoutExpired):
        process.wait(timeout=after)
    children = _descendants(process.pid)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    deadline = time.monotonic() + 5  # starting processes exit when they see that they are alone
    while (orphans := sum(map(_is_ours, children))) and time.monotonic() < deadline:
        time.sleep(0.1)
    before = _finished(store)
    again = _finish(_start(folder, name, command, seeds))
    later = _finished(store)
    twice = sum(later.get(key) != when for key, when in before.items())
    return Kill(command, round(after, 3), len(before), len(later), again == whole, twice, orphans)


def _start(folder: Path, name: str, command: str, seeds: int) -> "subprocess.Popen[bytes]":
    arguments = _COMMANDS[command][1].format(seeds=seeds).split()
    return subprocess.Popen(
        [*_PROGRAM, *arguments, "--jobs", "2", "--json", "-o", name], cwd=folder, stdout=subprocess.PIPE
    )


def _finish(process: "subprocess.Popen[bytes]") -> Any:
    """What a command prints, without what differs between two runs."""
    text, _ = process.communicate()
    if process.returncode:
        raise RuntimeError(f"The command ended with status {process.returncode}.")
    return _lasting(json.loads(text))


def _lasting(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _lasting(part) for name, part in value.items() if name not in _INCIDENTAL}
    return [_lasting(part) for part in value] if isinstance(value, list) else value


def _finished(store: Path) -> dict[str, str]:
    """When each cell in the store was finished."""
    if not store.exists():
        return {}
    try:
        values = Store(store, read_only=True).values()
    except StoreError:  # the run was killed while it made the file
        return {}
    return {json.dumps(value["arguments"], sort_keys=True): value["finished"] for value in values}


def _descendants(parent: int) -> list[int]:
    """The child processes of a process, on Linux; none on other systems."""
    found = []
    for tasks in Path(f"/proc/{parent}/task").glob("*/children"):
        try:
            children = [int(text) for text in tasks.read_text().split()]
        except OSError:
            continue
        found += children
        for child in children:
            found += _descendants(child)
    return found


def _is_ours(process: int) -> bool:
    try:
        return b"arena" in Path(f"/proc/{process}/cmdline").read_bytes()
    except OSError:  # the process has ended
        return False

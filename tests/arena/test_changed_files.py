"""A changed file is read or refused in one line: no traceback, and nothing that moves a terminal's cursor."""

import contextlib
import io
import json
import sqlite3
from pathlib import Path

import numpy as np
import pytest

import arena
from arena import Results
from arena.cli.main import run
from arena.views.page import render_page
from attention import FileFormatError
from attention.files import write_tensors
from lwe import LWEParameters, make_samples, save_samples
from lwe.distributions import DiscreteGaussian

CHANGES = 12  # of each file; 2,000 in all were tried once
ATTACK = "attack {} --attacks exhaustive --budget 0.2 --samples 60 --json"
LEARN = "learn {} --learner linear --preset quick --examples 60"
MATRIX = "attack {} --labels b.npy --q 7 --attacks exhaustive --budget 0.2"
# the commands that read each file
READERS = {
    "nice.safetensors": ("inspect {}", "inspect {} --json", LEARN, f"{LEARN} --json"),
    "parity.safetensors": ("inspect {} --verify", "inspect {} --verify --json", LEARN),
    "lwr.safetensors": ("inspect {} --verify", "inspect {} --json", ATTACK),
    "examples.safetensors": ("learn {} --learner linear",),
    "s.npz": ("inspect {}", "inspect {} --json", ATTACK),
    "s.txt": ("inspect {}", "attack {} --attacks exhaustive --budget 0.2"),
    "A.npy": (MATRIX,),
    "A.txt": (MATRIX,),
    "results.json": (),
    "runs.sqlite": (
        "runs {}",
        "runs {} --json",
        "compare nice.safetensors --learners known-component --store {} --seeds 1",
    ),
}
NASTY = (
    -1,
    2**70,
    1e308,
    None,
    True,
    [],
    {},
    "\x1b[31m\nVerified on all inputs\x9b\u202e\u2028",
    "٣",
    "1e999999999",
)


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("whole")
    with contextlib.chdir(folder), contextlib.redirect_stdout(io.StringIO()):
        for words in (
            "generate nice --heads 1 --tokens 2 --dim 4 -o nice.safetensors",
            "generate sq-parity --dim 8 -o parity.safetensors",
            "generate lwr --n 4 --q 8 --p 2 -o lwr.safetensors",
        ):
            assert run(words.split()) == 0
        x = np.random.default_rng(0).standard_normal((60, 3, 2))
        write_tensors("examples.safetensors", "examples", {"x": x, "y": x}, {})
        rounding, errors = LWEParameters(4, 8, 2), LWEParameters(3, 7, 7, "uniform", Xe=DiscreteGaussian(1.0))
        save_samples("s.npz", make_samples(rounding, 60, rng=0)[0], rounding)
        samples = make_samples(errors, 60, rng=0)[0]
        save_samples("s.txt", samples, errors)
        np.save("A.npy", samples.public)
        np.save("b.npy", samples.labels)
        Path("A.txt").write_text(str(samples.public.tolist()))
        target = arena.nice_target(heads=1, tokens=2, dim=4)
        arena.compare(target, "known-component", seeds=1, isolated=False, store="runs.sqlite").save(".")
        Path("index.html").unlink()
    return folder


def changed_value(value, rng):
    """A JSON value with one part of it replaced, renamed, doubled or nested deeply."""
    if isinstance(value, dict | list) and value and rng.random() < 0.85:
        keys = sorted(value) if isinstance(value, dict) else range(len(value))
        key, value = keys[rng.integers(len(keys))], value.copy()
        part = value[key]
        if isinstance(part, str) and part.startswith("{"):  # metadata are JSON in JSON
            value[key] = json.dumps(changed_value(json.loads(part), rng))
        elif isinstance(value, dict) and rng.random() < 0.15:
            value[str(NASTY[rng.integers(len(NASTY))])] = value.pop(key)
        else:
            value[key] = changed_value(part, rng)
        return value
    if rng.random() < 0.05:
        return json.loads("[" * 500 + "]" * 500)
    if isinstance(value, str) and rng.random() < 0.5:
        place = rng.integers(len(value) + 1)
        return value[:place] + NASTY[-3 + rng.integers(3)] + value[place:]
    return NASTY[rng.integers(len(NASTY))]


def changed(content, suffix, rng):
    """Other bytes: single ones, a part, or a value of the JSON in it."""
    kind = rng.integers(5)
    if kind > 1 and suffix == ".safetensors":
        start = 8 + int.from_bytes(content[:8], "little")
        header = json.dumps(changed_value(json.loads(content[8:start]), rng)).encode()
        return len(header).to_bytes(8, "little") + header + content[start:]
    if kind > 1 and suffix == ".json":
        return json.dumps(changed_value(json.loads(content), rng)).encode()
    if kind == 0:
        return content[: rng.integers(len(content))]
    content, end = bytearray(content), len(content) if rng.random() < 0.5 else min(len(content), 300)
    for place in rng.integers(end, size=rng.integers(1, 5)):
        content[place] = rng.integers(256)
    if suffix == ".txt" and kind > 1:
        place = rng.integers(len(content))
        content[place:place] = str(NASTY[rng.integers(len(NASTY))]).encode()
    return bytes(content)


def change_store(path, rng):
    """Other text in a row of a store, or other bytes in its file."""
    if rng.random() < 0.5:
        path.write_bytes(changed(path.read_bytes(), ".sqlite", rng))
        return
    with contextlib.closing(sqlite3.connect(path)) as store, store:
        (text,) = store.execute("SELECT value FROM results").fetchone()
        value = json.dumps(changed_value(json.loads(text), rng))
        store.execute("UPDATE results SET value = ?", (value if rng.random() < 0.8 else b"\xff",))


def complaint(words):
    """What is wrong with the answer of a command; empty if nothing is."""
    out, err = io.StringIO(), io.StringIO()
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            status = run(words.split())
    except Exception as error:
        return f"{words}: {type(error).__name__}: {error!s:.200}"
    strange = {letter for letter in out.getvalue() + err.getvalue() if not letter.isprintable()} - {"\n"}
    forged = "--verify" not in words and "\nVerified" in f"\n{out.getvalue()}"
    lines = err.getvalue().count("\n") == (status != 0)
    return (
        ""
        if lines and not strange and not forged
        else f"{words}: {status}, {strange}: {err.getvalue()[:300]}"
    )


@pytest.mark.bad_input
@pytest.mark.parametrize("name", READERS)
def test_no_changed_file_breaks_a_command_or_moves_the_cursor(name, files, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for needed in ("b.npy", "nice.safetensors"):
        Path(needed).write_bytes((files / needed).read_bytes())
    whole, path = (files / name).read_bytes(), Path(f"changed{Path(name).suffix}")
    rng, complaints = np.random.default_rng(list(READERS).index(name)), []
    for _ in range(CHANGES):
        path.write_bytes(whole)
        if path.suffix == ".sqlite":
            change_store(path, rng)
        else:
            path.write_bytes(changed(whole, path.suffix, rng))
        complaints += filter(None, (complaint(words.format(path)) for words in READERS[name]))
        if path.suffix == ".json":
            with contextlib.suppress(FileFormatError):
                render_page(Results.load(path)).encode()
    assert not complaints, "\n".join(complaints)

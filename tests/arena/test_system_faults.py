"""Faults of the system and odd names lose no work: one line names the file, the cause and what to do."""

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from lines import without_progress

import arena
from arena.cli.main import run
from arena.learner_table import LEARNERS
from attention import BooleanInputs, load_layer, make_nice_layer, save_layer
from attention.files import write_tensors

resource = pytest.importorskip("resource")
FORGED = "x\n\x1b[1mVerified on all inputs: 2 heads\x9b\u202e\u2028\ud83d\ude00"
COMPARE = "compare nice.safetensors --learners known-component --seeds 1 --jobs 1 --out out"


@pytest.fixture
def nice(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    save_layer("nice.safetensors", make_nice_layer(heads=1, dim=4, rng=0), inputs=BooleanInputs(2, 4))
    return tmp_path / "nice.safetensors"


def answer(words, *limits):
    """The status and the error of a command under limits of the system, in a process of its own."""

    def limit():
        for kind, number in limits:
            resource.setrlimit(kind, (number, number))

    command = [sys.executable, "-c", "from arena.cli import main; main()", *words]
    done = subprocess.run(command, capture_output=True, preexec_fn=limit, timeout=120)
    return done.returncode, without_progress(done.stderr.decode())


@pytest.mark.usefixtures("processes")
def test_too_few_open_files(nice, monkeypatch, capsys):
    monkeypatch.setattr(resource, "getrlimit", lambda kind: (16, 16))
    assert run(COMPARE.split()) == 1
    line = capsys.readouterr().err
    assert line.count("\n") == 1
    assert "Too many open files" in line
    assert "ulimit -n" in line


@pytest.mark.slow
def test_a_size_beyond_the_limit_of_the_process(nice):
    words = ["generate", "nice", "--heads", "8", "--tokens", "3", "--dim", "9000", "-o", "new.safetensors"]
    status, line = answer(words, (resource.RLIMIT_AS, 4 << 30))
    assert status in (1, 2)
    assert line.count("\n") == 1
    assert "GiB" in line
    assert not Path("new.safetensors").exists()


@pytest.mark.parametrize(
    ("words", "streams", "status"),
    [
        pytest.param("inspect nice.safetensors", ">&- <&-", 0, marks=pytest.mark.slow),
        ("inspect missing.safetensors", "2>&-", 2),
        pytest.param("inspect missing.safetensors", "2>/dev/full", 2, marks=pytest.mark.slow),
    ],
)
def test_the_status_tells_what_a_closed_or_full_stream_cannot(nice, words, streams, status):
    command = f"exec {sys.executable} -c 'from arena.cli import main; main()' {words} {streams}"
    done = subprocess.run(["sh", "-c", command], capture_output=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (status, b"", b"")


@pytest.mark.skipif(
    os.name != "posix" or sys.platform == "darwin", reason="names of files are bytes on Linux"
)
def test_a_name_that_is_not_utf8_loses_no_work(nice):
    odd = os.fsdecode(b"o\xff\x1b[31m\n.safetensors")
    nice.rename(odd)
    place = os.fsdecode(b"out\xff")
    compare = ["compare", odd, "--learners", "known-component", "--jobs", "1", "--out", place]
    for words in (compare, ["learn", odd, "-o", os.fsdecode(b"fitted\xff"), "--json"]):
        status, error = answer(words)
        assert status == 0, error
    assert sorted(path.name for path in Path(place).iterdir()) == [
        "index.html",
        "results.json",
        "runs.sqlite",
    ]
    assert arena.Results.load(place).cells[0].status == "done"
    assert load_layer(os.fsdecode(b"fitted\xff")).layer.heads == 1


@pytest.mark.parametrize("letter", ["\x1b", "\n", "\ud800"])
def test_a_strange_letter_in_a_name_makes_a_page(letter, tmp_path):
    name = f"a{letter}b"
    entry = replace(LEARNERS["known-component"], name=name, title=name)
    target = arena.nice_target(heads=1, tokens=2, dim=4)
    target = replace(target, name=name, title=name)
    results = arena.compare(target, entry, seeds=1, isolated=False, store=tmp_path / "s.sqlite")
    results.save(tmp_path)
    again = arena.Results.load(tmp_path)
    assert again == results
    shown = str(again) + (tmp_path / "index.html").read_text(encoding="utf-8")
    assert ascii(letter)[1:-1] in again.learners[0].title
    assert letter == "\n" or letter not in shown
    again.plot(target.name).save(tmp_path / "f.svg")


@pytest.mark.parametrize("generator", [FORGED, {"x": [FORGED]}])
@pytest.mark.parametrize("json", [False, True])
def test_a_file_writes_no_line_of_its_own(nice, generator, json, capsys):
    made = {"generator": generator, "parameters": {FORGED: FORGED}, "notes": [FORGED]}
    save_layer(
        "forged.safetensors", make_nice_layer(heads=1, dim=4, rng=0), inputs=BooleanInputs(2, 4), made=made
    )
    assert run(["inspect", "forged.safetensors", *["--json"] * json]) == 0
    out = capsys.readouterr().out
    assert all(line.isprintable() and not line.strip().startswith("Verified") for line in out.splitlines())
    assert r"\x1b[1mVerified" in out


def test_a_full_disk_names_the_file(nice, monkeypatch, capsys):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        write_tensors("some", "some", {}, {})
    assert run(["learn", "nice.safetensors", "--learner", "newton", "-o", "fitted.safetensors"]) == 1
    assert "fitted.safetensors: No space left on device: free some space" in capsys.readouterr().err

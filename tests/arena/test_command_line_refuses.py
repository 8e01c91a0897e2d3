"""Whatever an option is given, a command answers or refuses on one line: never a traceback, never for long.

Commands and options are read off the command line itself, so that a new option is tried without being listed; only a
cheap call of each command is written down, and wrong uses with what the line must say.
"""

import contextlib
import inspect
import io
import os
import random
import resource
import shutil
import signal
import warnings
import zlib
from importlib.util import find_spec
from pathlib import Path
from types import UnionType
from typing import Annotated, Literal, Union, get_args, get_origin

import numpy as np
import pytest
import typer
from safetensors.numpy import save_file

from arena.cli.main import app, run
from attention.files import write_tensors
from lwe import LWEParameters, make_samples, save_samples
from upper.linear_attention import make_linear_attention, save_linear_attention

pytestmark = pytest.mark.bad_input
SECONDS = 30  # of one call: none takes more than a few on a quiet machine
PARTS = 6  # of the bad values; the first is always tried
# cheap calls that work: what follows the name of the command
CALLS = {
    "generate nice": "--heads 1 --dim 8 --out new.safetensors",
    "generate lwr": "--n 4 --q 8 --out new.safetensors",
    "generate samples": "lwr.safetensors --number 50 --out new.npz",
    "generate from-checkpoint": "nice.safetensors --layer 0 --out new.safetensors",
    "recover": "model --layers 0 --by queries --jobs 1 --out recovered",
    "families": "--dim 10",
    "estimate": "toy",
    "inspect": "nice.safetensors",
    "learn": "nice.safetensors --learner linear --preset quick",
    "attack": "lwr.safetensors --attacks exhaustive --budget 0.2 --samples 60",
    "compare": "nice.safetensors --learners known-component --seeds 1 --jobs 1 --out compared",
    "runs": "made/runs.sqlite",
    "check": "layer/row-form --list",
    "study": "agreement --list",
    "curves sq": "--dims 4 --bits 1 --tau 0.3 --learners exhaustive --jobs 1 --out curves",
    "curves lwr": "--n 4 --q 8 --p 2 --attacks exhaustive --budget 0.2 --samples 60 --jobs 1 --out reach",
    "curves examples": "nice.safetensors --seeds 1 --jobs 1 --out learning",
    "curves learner-side": "--dims 8 --heads 2 --out side",
    "learners": "",
    "attacks": "",
    "presets": "",
    "linear learn": "--dim 2 --heads 1 --tokens 3 --examples 40",
    "linear certify": "--data boolean --domain gaussian --dim 2 --tokens 3",
}
WORDS = ("abc", "", "nan", "1.5", "True", "\u0663", "two\nlines", "--", "\udcff")
WHOLES = ("0", "-1", "10**12", "1000000000000", "9" * 400)
REALS = ("0", "-1", "inf", "-inf", "1e-320", "1e300", "1e400", "1/3")
TEXTS = ["a=b", "=", ",", "4,,5", "x:-1", "binomial:1e9", "sparse:nan", "../up"]
TEXTS += ["x" * 10_000, "'; DROP TABLE cells; --"]
FILES = ["missing", "missing/x.safetensors", "folder", "folder.safetensors", "", "x" * 300, "/proc/no/such"]
FILES += ["pipe.npy", "pipe.safetensors", "loop.safetensors", "~", "nice.safetensors/below", "x.npy"]
FILES += ["nice.safetensors"]
FILES += [
    f"{stem}{end}" for stem in ("empty", "half", "random") for end in (".safetensors", ".npy", ".sqlite")
]
# who asks for hours of work gets them: not tried with what is huge
WORK = {"budget", "timeout", "work", "seeds", "examples"}
for kind in ("parity", "pair", "token-parity", "hidden-gate"):
    CALLS[f"generate sq-{kind}"] = "--dim 8 --out new.safetensors"
for kind in ("bump", "two-slope", "designed-steps", "centre-threshold"):
    CALLS[f"generate sq-{kind}"] = "--bits 4 --dim 8 --out new.safetensors"
CALLS["generate sq-periodic"] = "--dim 6 --out new.safetensors"
COMMAND = typer.main.get_command(app)
TORCH = find_spec("torch") is not None
GIVEN = "learn --examples-from x.npy x.npy"
# what cannot be done, and what the line says of it
WRONG = [
    ("--nonsense", "--nonsense"),
    ("compair", "'compare'"),
    ("generate sq-party", "'sq-parity'"),
    ("generate nice", "--out"),
    ("generate nice -o nice.txt", "nice.txt ends in .txt: layers are written as"),
    ("inspect", "Missing argument"),
    ("inspect nice.safetensors --verify", "verify needs a hard instance"),
    ("inspect nice.safetensors --threshold theta_trace", "NAME=VALUE"),
    ("inspect model", "give the number of a --layer"),
    ("inspect nice.safetensors --heads 2", "--heads is for a model's checkpoint"),
    ("learn x.npy y.npy", "--examples-from X.npy Y.npy"),
    ("linear learn x.npy y.npy z.npy", "--examples-from X.npy Y.npy"),
    ("learn x.npy", "--examples-from X.npy Y.npy"),
    ("learn own.py", "--ask own.py:NAME"),
    ("learn nice.safetensors --learner newton,linear", "learn runs one"),
    ("learn nice.safetensors --learner linear -o f.safetensors", "fits no attention layer"),
    ("learn nice.safetensors --learner six-phase --out x.npy", "is a file: give the path of a folder"),
    ("learn taken/fitted.safetensors --learner six-phase --out taken", "would take the place"),
    ("learn nice.safetensors --learner newton -o nice.safetensors", "take the place of what is read"),
    ("generate from-checkpoint model --layer 0 -o model/model.safetensors", "take the place of what is read"),
    ("learn nice.safetensors --heads 0", "--heads is 0: a whole number of at least 1"),
    ("learn nice.safetensors --engine numpy --device cuda", "NumPy computes on the CPU"),
    ("learn", "the file of a layer or instance, or of examples x and y, or --examples-from X.npy Y.npy"),
    ("learn examples.safetensors --heads 2 -o examples.safetensors", "would take the place"),
    (GIVEN, "do not say how many heads Newton is to fit: give heads"),
    (f"{GIVEN} --heads 2 --noise 1", "noise is for labels that are drawn"),
    (f"{GIVEN} --heads 2 --tokens 3", "tokens is for examples"),
    ("learn --examples-from same.npy x.npy --heads 2", "are all of one input"),
    ("recover model --layers 1-0", "as in 0,2-4"),
    ("learn s.npz", "give it to attention-bounds attack"),
    ("generate samples s.npz --number 100 -o x.npz", "s.npz has 60"),
    ("attack A.npy --labels b.npy", "q is needed"),
    ("attack A.npy --labels b.npy --q 8 --samples 50", "samples is 50"),
    ("attack b.npy --labels b.npy --q 8", "b.npy: A has shape (20,)"),
    ("estimate kyber521", "'kyber512'"),
    ("estimate kyber512 --n 10", "numbers of its own"),
    ("estimate --n 10 --q a97 --Xe gaussian:3", "q is 'a97'"),
    ("nice", "No such"),
    ("estimate --n 10 --q 97 --Xe nix", "The distribution is 'nix'"),
    ("estimate --n 2147483648 --q 3329 --Xe gaussian:3", "at most 2^18"),
    ("compare nice.safetensors --learners linear --engine numpy -o r", "None of these learners has a choice"),
    ("runs made/runs.sqlite --out cells.txt", ".csv and .json are the formats"),
    ("study", "No study is named"),
    ("curves sq --learners exhastive", "exhaustive, group"),
    ("curves sq --tau nan", "--tau is 'nan'"),
    ("curves sq --oracle delphi", "reference, most-preserving, exact, honest"),
    ("curves lwr --n 4,x", "whole numbers with commas"),
    ("curves lwr --attacks bkv", "'bkv' is no attack"),
    ("curves learner-side --dims 8 --heads 16", "two targets"),
    ("curves examples", "Missing argument"),
    ("curves examples x.npy", "give examples as two files"),
    ("curves examples nice.safetensors --heads 2", "heads is for examples"),
    ("curves examples nice.safetensors --tokens 1", "at least two of both"),
    ("curves examples x.npy x.npy --tokens 3", "tokens is for examples"),
    ("curves examples x.npy x.npy x.npy", "3 files are named"),
    ("linear learn --dim 4 --examples 39", "39 examples and 40 features"),
    ("linear learn linear.safetensors --dim 4", "dim and heads are for what is drawn at random"),
    ("linear certify --data boolean --domain gaussian", "give dim a number"),
]
if TORCH:
    WRONG += [
        ("learn nice.safetensors --device cuda:99", "which PyTorch does not find here"),
        ("compare nice.safetensors --device meta -o r", "cuda:1 for the second GPU"),
    ]


def commands(command=COMMAND, path=()):
    """All commands by their words."""
    if not hasattr(command, "commands"):
        return {" ".join(path): command}
    below = (commands(command.get_command(None, name), (*path, name)) for name in command.list_commands(None))
    return {name: one for part in below for name, one in part.items()}


COMMANDS = commands()


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Files as a user has them, damaged ones, and pipes and links that cannot be read."""
    folder, chance = tmp_path_factory.mktemp("files"), random.Random(0)
    with contextlib.chdir(folder), contextlib.redirect_stdout(io.StringIO()):
        for words in (
            "generate nice --heads 1 --dim 4 -o nice.safetensors",
            "generate lwr --n 4 --q 8 --p 2 -o lwr.safetensors",
        ):
            assert run(words.split()) == 0
        x = np.random.default_rng(0).standard_normal((60, 3, 2))
        np.save("x.npy", x)
        Path("model").mkdir()
        parts = ("self.query", "self.key", "self.value", "output.dense")
        maps = {f"layer.0.attention.{part}.weight": np.eye(4) + x[n, :1, :1] for n, part in enumerate(parts)}
        save_file(maps, "model/model.safetensors")
        Path("model/config.json").write_text('{"num_attention_heads": 1}')
        write_tensors("examples.safetensors", "examples", {"x": x, "y": x}, {})
        save_linear_attention("linear.safetensors", make_linear_attention(heads=1, dim=2, rng=0))
        assert run(["compare", *CALLS["compare"].replace("compared", "made").split()]) == 0
        for like in map(Path, ("nice.safetensors", "x.npy", "made/runs.sqlite")):
            whole = like.read_bytes()
            damaged = {"empty": b"", "half": whole[: len(whole) // 2], "random": chance.randbytes(500)}
            for stem, content in damaged.items():
                Path(stem + like.suffix).write_bytes(content)
        arrays = {"A": np.ones((20, 3), int), "b": np.ones(20, int), "same": np.ones_like(x)}
        for name, array in arrays.items():
            np.save(f"{name}.npy", array)
        rounding = LWEParameters(n=4, q=8, p=2)
        save_samples("s.npz", make_samples(rounding, 60, rng=0)[0], rounding)
        Path("pickle.bin").write_bytes(b"\x80\x04.")
        for name in ("folder", "folder.safetensors", "taken"):
            Path(name).mkdir()
        shutil.copy("nice.safetensors", "taken/fitted.safetensors")
    return folder


@pytest.fixture
def here(files, tmp_path, monkeypatch):
    """A copy of the files, with pipes and links that cannot be read, in which a test works."""
    monkeypatch.chdir(shutil.copytree(files, tmp_path / "here"))
    os.symlink("loop.safetensors", "loop.safetensors")
    for pipe in ("pipe.npy", "pipe.safetensors"):
        os.mkfifo(pipe)


@pytest.fixture(autouse=True)
def _in_this_process(monkeypatch):
    """The tree of commands is built once, and memory is short."""
    monkeypatch.setattr(typer.main, "get_command", lambda _: COMMAND)
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + (2 << 30), hard))
    monkeypatch.setattr("attention.memory.available_memory", lambda: 256 << 20)
    yield
    resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


class TookTooLong(BaseException):
    """Raised in the middle of a call; no `except Exception` catches it."""


def complaint(words):
    """What is wrong with how a command takes its words; empty if nothing is."""

    def bark(number, frame):
        raise TookTooLong(f"more than {SECONDS} s")

    out, err = io.StringIO(), io.StringIO()
    before = signal.signal(signal.SIGALRM, bark)
    signal.setitimer(signal.ITIMER_REAL, SECONDS, 1.0)
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            status = run(words)
    except BaseException as error:
        return f"{type(error).__name__}: {str(error)[:200]}"
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    said = err.getvalue()
    if status == 0:
        return "" if not said else f"works and says {said[:200]!r}"
    line = said.startswith("attention-bounds: ") and said.count("\n") == 1 and said[:-1].isprintable()
    foreign = any(word in said for word in ("Traceback", "Unable to allocate", " MemoryError", "KeyError"))
    sentence = line and said.endswith((".\n", "?\n", "!\n")) and len(said) < 2000
    return "" if status in (1, 2) and sentence and not foreign else f"status {status}: {said[:300]!r}"


def plain(kind):
    """An annotation without what typer adds, None and lists."""
    while get_origin(kind) in (Annotated, Union, UnionType, list):
        kind = next(one for one in get_args(kind) if one is not type(None))
    return kind


def bad_values(option, kind):
    """What an option is tried with: by its type."""
    huge = lambda pool: [one for one in pool if option.name not in WORK or len(one) < 3]  # noqa: E731
    if kind is int:
        return (*WORDS, *huge(WHOLES))
    if kind is float:
        return (*WORDS, *huge(REALS))
    if kind is Path:
        # a pipe that is written to waits for a reader
        return [one for one in FILES if not option.name.endswith("out") or "pipe" not in one]
    return (
        (*WORDS, "no-such")
        if get_origin(kind) is Literal
        else (*WORDS, *TEXTS, "0", "-1", "1e400", "missing.npy")
    )


@pytest.mark.parametrize("part", [0, *(pytest.param(one, marks=pytest.mark.slow) for one in range(1, PARTS))])
@pytest.mark.parametrize(
    "name",
    # where a value is right, this one computes for seconds
    [pytest.param(one, marks=[pytest.mark.slow] * (one == "curves examples")) for one in COMMANDS],
)
def test_bad_values_of_every_option_get_one_line_and_no_traceback(name, part, here):
    hints = inspect.signature(COMMANDS[name].callback, eval_str=True).parameters
    wrong = []
    for option in COMMANDS[name].params:
        if getattr(option, "is_flag", False) or option.name == "help":
            continue
        kind = plain(hints[option.name].annotation)
        kinds = [plain(one) for one in get_args(kind)] if get_origin(kind) is tuple else [kind]
        for value in bad_values(option, kinds[0]):
            if zlib.crc32(f"{name} {option.name} {value!a}".encode()) % PARTS != part:
                continue
            given, call = [value] * len(kinds), CALLS[name].split()
            argument = option.param_type_name == "argument"
            words = [*given, *call[1:]] if argument else [*call, option.opts[-1], *given]
            words = [*name.split(), *words]
            if why := complaint(words):
                wrong.append(f"{ascii(' '.join(words))[:300]}: {why}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("name", sorted(CALLS.keys() - {"generate from-checkpoint"}))
def test_the_calls_that_are_changed_work_as_they_stand(name, here):
    assert run([*name.split(), *CALLS[name].split()]) == 0


def written():
    """What is in the files, but for stores, which may be made before a call is refused."""
    there = [path for path in Path().rglob("*") if ".sqlite" not in path.name and not path.is_dir()]
    return {path: path.read_bytes() if path.is_file() else None for path in there}


@pytest.mark.parametrize(("words", "said"), WRONG, ids=[words for words, _ in WRONG])
def test_wrong_use_is_one_line_and_status_two_and_nothing_is_written(words, said, files, capsys, monkeypatch):
    monkeypatch.chdir(files)
    before = written()
    status = run(words.split())
    told = capsys.readouterr()
    assert (status, told.out, told.err.count("\n")) == (2, "", 1)
    assert said in told.err
    assert written() == before


def test_every_command_is_tried_and_a_defect_is_told_from_a_refusal(monkeypatch):
    assert set(CALLS) == set(COMMANDS)
    for broken in (lambda words: {}["no"], lambda words: 3, lambda words: print("Traceback") or 1):
        monkeypatch.setitem(globals(), "run", broken)
        assert complaint(["x"])

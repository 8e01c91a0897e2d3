"""Every option of every command with hostile values: an answer, or one sentence and an exit status of 1 or 2.

Commands and their options are read from the command line itself, so that a new option is tried without being listed;
only a cheap valid call of each command stands here. A case gives one or two of its options other values.
"""

import contextlib
import hashlib
import inspect
import io
import json
import os
import random
import shutil
import sys
from collections import Counter
from itertools import pairwise
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Literal, NamedTuple, Union, get_args, get_origin, get_type_hints

import cloudpickle
import numpy as np
import pytest
import safetensors.numpy
import typer
from fuzzing import _fence, _TookTooLong
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from report import COUNTS

import arena.calls
from arena import ATTACKS, STUDENTS
from arena.cli.main import app, run
from arena.studies.registry import STUDIES
from attention.files import write_examples
from upper.linear_attention import POPULATIONS, make_linear_attention, save_linear_attention

pytestmark = pytest.mark.bad_input

SECONDS = 6.0  # of CPU, for one command
MESSAGE = 2000  # characters that a message may have

# what each command is called with where nothing is varied: by option, the values as the command line takes them
TARGET = {"out": ["new.safetensors"], "dim": ["8"]}
BASES: dict[str, dict[str, list[str]]] = {
    "generate nice": {**TARGET, "heads": ["1"]},
    "generate sq-parity": TARGET,
    "generate sq-pair": TARGET,
    "generate sq-bump": {**TARGET, "bits": ["4"]},
    "generate sq-two-slope": {**TARGET, "bits": ["4"]},
    "generate sq-designed-steps": {**TARGET, "bits": ["4"]},
    "generate sq-centre-threshold": {**TARGET, "bits": ["4"]},
    "generate sq-token-parity": TARGET,
    "generate sq-hidden-gate": TARGET,
    "generate lwr": {"out": ["new.safetensors"], "secret_dim": ["4"], "modulus": ["8"]},
    "generate from-checkpoint": {"checkpoint": ["bert"], "layer": ["0"], "out": ["new.safetensors"]},
    "families": {"dim": ["10"]},
    "inspect": {"file": ["nice.safetensors"]},
    "learn": {"files": ["nice.safetensors"], "learner": ["linear"], "preset": ["quick"]},
    "attack": {
        "file": ["lwr.safetensors"],
        "attacks": ["exhaustive"],
        "budget": ["0.2"],
        "samples": ["60"],
    },
    "explain": {"heads": ["1"], "dim": ["4"], "examples": ["300"], "work": ["50"]},
    "compare": {
        "files": ["nice.safetensors"],
        "learners": ["known-part"],
        "seeds": ["1"],
        "jobs": ["1"],
        "out": ["compared"],
    },
    "runs": {"store": ["runs.sqlite"]},
    "check": {"checks": ["layer/row-form"], "list_only": [""], "out": ["claims"]},
    "study": {"names": ["agreement"], "list_only": [""], "out": ["studied"]},
    "curves sq": {
        "dims": ["4"],
        "bits": ["1"],
        "tau": ["0.3"],
        "learners": ["scan"],
        "with_learner_side": ["no"],
        "jobs": ["1"],
        "out": ["curves"],
    },
    "curves lwr": {
        "dims": ["4"],
        "modulus": ["8"],
        "levels": ["2"],
        "attacks": ["exhaustive"],
        "budget": ["0.2"],
        "samples": ["60"],
        "jobs": ["1"],
        "out": ["reach"],
    },
    "linear learn": {"dim": ["2"], "heads": ["1"], "tokens": ["3"], "examples": ["40"]},
    "linear certify": {"data": ["boolean"], "domain": ["gaussian"], "dim": ["2"], "tokens": ["3"]},
    "linear experiment": {"name": ["no-such"], "out": ["linear"]},
}
# other ways to call them, where options exclude one another
MORE_BASES: dict[str, list[dict[str, list[str]]]] = {
    "generate from-checkpoint": [
        {**BASES["generate from-checkpoint"], "checkpoint": ["gpt2"], "biases": ["absorbed"]}
    ],
    "inspect": [{"file": ["bert"], "layer": ["1"]}, {"file": ["parity.safetensors"], "verify": [""]}],
    "learn": [
        {"examples_from": ["x.npy", "y.npy"], "heads": ["1"], "preset": ["quick"]},
        {"files": ["examples.safetensors"], "learner": ["linear"], "preset": ["quick"]},
    ],
    "attack": [
        {
            "file": ["A.npy"],
            "labels": ["b.npy"],
            "modulus": ["8"],
            "levels": ["2"],
            "attacks": ["exhaustive"],
            "budget": ["0.2"],
        }
    ],
    "linear learn": [
        {"examples_from": ["x.npy", "v.npy"]},
        {"file": ["linear.safetensors"], "examples": ["40"]},
    ],
    "linear certify": [{"data": ["x.npy"], "domain": ["gaussian"]}],
}
# options by which one may ask for hours of work, and is then given them: tried with what is small or no number
WORK = {"budget", "timeout", "adam", "work"}
# flags that ask for a minute of work: tried the other way
SLOW = {"with_learner_side"}
# files and folders that a command writes: these may change, and no others
WRITTEN = {"out", "store"}

NUMBERS = ("1", "2", "3", "5")
BAD_WHOLES = (
    "0",
    "-1",
    "-7",
    "",
    " ",
    "abc",
    "1.5",
    "1e3",
    "nan",
    "inf",
    "0x10",
    "٣",
    "1_0",
    "--",
    "−1",
    "True",
)
HUGE_WHOLES = (
    "1000000000",
    "1000000000000",
    "9223372036854775808",
    "18446744073709551616",
    "9" * 400,
    "9" * 5000,
)
REALS = ("0.5", "1", "2.5")
BAD_REALS = (
    "0",
    "-0.0",
    "-1",
    "1e-320",
    "1e-300",
    "nan",
    "-nan",
    "inf",
    "-inf",
    "1e400",
    "",
    " ",
    "abc",
    "1/3",
    "١",
)
HUGE_REALS = ("1e300", "1.7e308", "1e17")
TEXTS = (
    "",
    " ",
    ",",
    ",,",
    "no-such",
    "NO SUCH",
    "two\nlines",
    "\x1b[31mred\x07",
    "\u202etfel",
    "sn\u00f6\u2603\U0001f600",
    "\udcff",
    "x" * 10_000,
    "../up",
    "/",
    ".",
    "*",
    "[",
    "%s%n{}{0}",
    "a=b",
    "=",
    "--",
    "-1",
    "0",
    "1e400",
    "nan",
    "None",
    "true",
    "'; DROP TABLE cells; --",
)
# what some options of text take, in turn sane and not
LAWS = (
    "uniform",
    "binary",
    "ternary",
    "binomial:2",
    "sparse:2",
    "gaussian:1.5",
    "flip:0.1",
    "zero",
    "binomial:",
    "binomial:-1",
    "binomial:1e9",
    "binomial:1000000000000",
    "sparse:100",
    "sparse:0",
    "sparse:nan",
    "gaussian:nan",
    "gaussian:1e300",
    "gaussian:-1",
    "gaussian:1e-300",
    "flip:2",
    "flip:nan",
    "uniform:3",
    ":",
)
LISTS = (
    "4,5",
    "4,4",
    "4,,5",
    "4;5",
    "0",
    "-1",
    "1000000000",
    "9" * 400,
    "9" * 5000,
    "1.5",
    "0.3",
    "nan",
    "inf",
    "1/3",
    "1/0",
    "1e-300",
    "1e400",
    "0,1",
)
KNOWN: dict[str, tuple[str, ...]] = {
    "secret_law": LAWS,
    "noise": LAWS,
    "dims": LISTS,
    "bits": LISTS,
    "tau": LISTS,
    "levels": LISTS,
    "learner": ("known-part", "linear", "elimination", "newton,linear", "all", "linear,linear"),
    "learners": ("known-part", "linear,known-part", "scan", "group,scan", "scan,scan"),
    "attacks": ("exhaustive", "elimination", "exhaustive,exhaustive", "least-squares"),
    "heads": ("auto", "1", "2", "0", "1000000000", "9" * 5000),
    "engine": ("numpy", "torch", "auto", "cuda"),
    "device": ("cpu", "cuda", "cuda:1", "cuda:-1", "cpu:7", "meta"),
    "preset": ("quick", "full"),
    "scale": ("quick", "full"),
    "oracle": ("reference", "most-preserving", "exact", "honest"),
    "matrix": ("binary", "ternary", "gadget", "uniform"),
    "method": ("auto", "cholesky", "svd", "kernel"),
    "inputs": ("gaussian", "boolean", "sphere"),
    "data": POPULATIONS,
    "domain": POPULATIONS,
    "threshold": ("theta_trace=0.5", "theta_trace=nan", "theta_trace", "=1", "no_such=1", "theta_trace=inf"),
    "prefix": ("bert.encoder.", "bert"),
    "status": ("done", "failed", "timed out", "not applicable"),
    "target": ("nice", "n*", "?"),
    "name": ("no-such",),
    "names": ("agreement", "all", "no-such"),
    "checks": ("layer/row-form", "layer", "no-such/*", "all"),
    "dask": ("tcp://127.0.0.1:1", "127.0.0.1:1", "localhost", "inproc://x"),
}
FILES = (
    "nice.safetensors",
    "parity.safetensors",
    "lwr.safetensors",
    "linear.safetensors",
    "examples.safetensors",
    "bert",
    "bert/model.safetensors",
    "runs.sqlite",
    "x.npy",
    "A.npy",
    "arrays.npz",
    "missing",
    "missing.safetensors",
    "missing.npy",
    "missing/x.safetensors",
    "folder",
    "folder.safetensors",
    "folder.npy",
    "nice.safetensors/below",
    "loop.safetensors",
    "nowhere.safetensors",
    "pipe.npy",
    "pipe.safetensors",
    "/dev/null",
    "/proc/no/such",
    "",
    ".",
    "..",
    "~",
    "\udcff.safetensors",
    "two\nlines.safetensors",
    "x" * 300,
    "x" * 10_000,
    "--json",
)
# stems of files that are damaged, each with every ending
DAMAGED = tuple(
    f"{stem}{ending}"
    for stem in ("empty", "random", "half", "text", "list", "zeros")
    for ending in (".safetensors", ".npy", ".npz", ".json", ".sqlite", "")
)
PLACES = (
    "new.safetensors",
    "new",
    "new.json",
    "new.csv",
    "new.parquet",
    "new.txt",
    ".safetensors",
    "folder/new.safetensors",
    "missing/new.safetensors",
    "missing/further/new",
    "folder",
    "folder.safetensors",
    "nice.safetensors",
    "x.npy",
    "nice.safetensors/new.safetensors",
    "loop.safetensors",
    "nowhere.safetensors",
    "runs.sqlite",
    "empty.sqlite",
    "random.sqlite",
    "half.sqlite",
    "/proc/no/new.safetensors",
    "/proc/new.safetensors",
    "/dev/null",
    "",
    ".",
    "sn\u00f6\u2603.safetensors",
    "\udcff.safetensors",
    "two\nlines.safetensors",
    "x" * 300 + ".safetensors",
    "x" * 250 + ".csv",
    "x" * 10_000,
)


class Parameter(NamedTuple):
    """An option or an argument of a command, as the command line declares it."""

    name: str
    options: tuple[str, ...]
    annotation: Any
    values: int
    flag: bool


def commands() -> dict[str, list[Parameter]]:
    """All commands by their words, each with its parameters."""
    found: dict[str, list[Parameter]] = {}

    def walk(command, path):
        if hasattr(command, "commands"):
            for name, below in command.commands.items():
                walk(below, (*path, name))
            return
        hints = get_type_hints(inspect.unwrap(command.callback), include_extras=True)
        found[" ".join(path)] = [
            Parameter(
                one.name,
                () if one.param_type_name == "argument" else (*one.opts, *one.secondary_opts),
                hints[one.name],
                one.nargs,
                bool(getattr(one, "is_flag", False)),
            )
            for one in command.params
        ]

    walk(COMMAND, ())
    return found


COMMAND = typer.main.get_command(app)
COMMANDS = commands()


def plain(annotation: Any) -> Any:
    """An annotation without what typer adds, None and lists."""
    while True:
        if get_origin(annotation) is Annotated:
            annotation = get_args(annotation)[0]
        elif get_origin(annotation) in (Union, UnionType):
            annotation = next(one for one in get_args(annotation) if one is not type(None))
        elif get_origin(annotation) is list:
            annotation = get_args(annotation)[0]
        else:
            return annotation


def values_of(parameter: Parameter, kind: Any = None) -> st.SearchStrategy:
    """What one value of a parameter is tried with."""
    kind = plain(parameter.annotation) if kind is None else plain(kind)
    known = KNOWN.get(parameter.name, ())
    modest = parameter.name in WORK
    if kind is int:
        pool = NUMBERS + BAD_WHOLES + (() if modest else HUGE_WHOLES) + known
        return st.sampled_from(pool) | (st.nothing() if modest else st.integers().map(str))
    if kind is float:
        pool = REALS + BAD_REALS + (() if modest else HUGE_REALS) + known
        return st.sampled_from(pool) | (st.nothing() if modest else st.floats().map(repr))
    if kind is Path:
        return st.sampled_from(PLACES + FILES if parameter.name in WRITTEN else FILES + DAMAGED)
    if get_origin(kind) is Literal:
        return st.sampled_from(get_args(kind)) | st.sampled_from(TEXTS)
    texts = st.sampled_from(TEXTS) | st.text(
        st.characters(exclude_characters="\x00", codec="utf-8"), max_size=8
    )
    files = st.sampled_from(FILES + DAMAGED) if parameter.name in ("data", "domain", "name") else st.nothing()
    return (st.sampled_from(known) | texts | files) if known else (texts | files)


def tokens_of(parameter: Parameter, values: list[str]) -> list[str]:
    """A parameter with its values as the command line takes it."""
    if parameter.flag:
        return [parameter.options[-1 if values == ["no"] else 0]]
    if not parameter.options:
        return values
    if parameter.values == 1:
        return [word for value in values for word in (parameter.options[-1], value)]
    return [parameter.options[-1], *values]


@st.composite
def calls(draw, name: str, parameter: Parameter):
    """A call of a command in which one parameter, and now and then another, has other values."""
    given = dict(draw(st.sampled_from([BASES[name], *MORE_BASES.get(name, [])])))
    chosen = {parameter.name: parameter}
    if draw(st.integers(0, 3)) == 0:
        other = draw(st.sampled_from(COMMANDS[name]))
        chosen[other.name] = other
    for one in chosen.values():
        if one.flag:
            given[one.name] = [draw(st.sampled_from(["yes", "no"])) if one.name not in SLOW else "no"]
            continue
        kinds = get_args(plain(one.annotation)) if get_origin(plain(one.annotation)) is tuple else (None,)
        times = draw(st.integers(1, 3)) if get_origin(_unwrapped(one.annotation)) is list else 1
        given[one.name] = [draw(values_of(one, kind)) for _ in range(times) for kind in kinds]
    if draw(st.integers(0, 2)) == 0:
        given["as_json"] = [""]
    if draw(st.integers(0, 30)) == 0:
        given.pop(draw(st.sampled_from(sorted(given))))
    options, arguments = [], []
    for one in COMMANDS[name]:
        if one.name in given:
            (options if one.options else arguments).extend(tokens_of(one, given[one.name]))
    written = [place for role in WRITTEN for place in given.get(role, [])]
    return [*name.split(), *options, *arguments], written


def _unwrapped(annotation: Any) -> Any:
    annotation = get_args(annotation)[0] if get_origin(annotation) is Annotated else annotation
    if get_origin(annotation) in (Union, UnionType):
        return next(one for one in get_args(annotation) if one is not type(None))
    return annotation


# ------------------------------------------------------------------------------------------- the files they meet


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """A folder of files as a user has them, and of damaged ones."""
    folder = tmp_path_factory.mktemp("files")
    with contextlib.chdir(folder), contextlib.redirect_stdout(io.StringIO()):
        for words in (
            "generate nice --heads 1 --dim 4 -o nice.safetensors",
            "generate sq-parity --dim 6 -o parity.safetensors",
            "generate lwr --secret-dim 4 --modulus 8 --levels 2 -o lwr.safetensors",
        ):
            assert run(words.split()) == 0
        _write_arrays(np.random.default_rng(0))
        with _in_this_process():
            assert (
                run(
                    [
                        "compare",
                        "nice.safetensors",
                        "--learners",
                        "known-part",
                        "--seeds",
                        "1",
                        "--jobs",
                        "1",
                        "--out",
                        "made",
                    ]
                )
                == 0
            )
        shutil.move("made/runs.sqlite", "runs.sqlite")
        shutil.rmtree("made")
        _write_damaged()
        for name in ("folder", "folder.safetensors", "folder.npy"):
            Path(name).mkdir()
            Path(name, "kept.txt").write_text("kept")
    return folder


def _write_arrays(rng: np.random.Generator) -> None:
    a, s = rng.integers(0, 8, (40, 4)), rng.integers(0, 8, 4)
    x = rng.standard_normal((60, 3, 2))
    np.save("A.npy", a)
    np.save("b.npy", (a @ s % 8) * 2 // 8)
    np.save("s.npy", s)
    np.save("x.npy", x)
    np.save("y.npy", x[:, :, ::-1])
    np.save("v.npy", x.sum(axis=(1, 2))[:, None])
    np.savez("arrays.npz", x=x)
    write_examples("examples.safetensors", x, x[:, :, ::-1])
    save_linear_attention("linear.safetensors", make_linear_attention(heads=1, dim=2, rng=0))
    modules = [f"attention.self.{role}" for role in ("query", "key", "value")] + ["attention.output.dense"]
    bert = {f"bert.encoder.layer.{n}.{name}": (4, 4) for n in range(2) for name in modules}
    gpt = {f"transformer.h.{n}.{name}": shape for n in range(2) for name, shape in _GPT.items()}
    for kind, word, shapes, axis in (("bert", "num_attention_heads", bert, 0), ("gpt2", "n_head", gpt, 1)):
        Path(kind).mkdir()
        tensors = {f"{name}.weight": rng.standard_normal(shape) for name, shape in shapes.items()}
        tensors |= {f"{name}.bias": rng.standard_normal(shape[axis]) for name, shape in shapes.items()}
        safetensors.numpy.save_file(tensors, Path(kind, "model.safetensors"))
        Path(kind, "config.json").write_text(json.dumps({"model_type": kind, word: 2}))


_GPT = {"attn.c_attn": (4, 12), "attn.c_proj": (4, 4)}


def _write_damaged() -> None:
    like = {
        ".safetensors": "nice.safetensors",
        ".npy": "x.npy",
        ".npz": "arrays.npz",
        ".sqlite": "runs.sqlite",
        ".json": "bert/config.json",
    }
    chance = random.Random(0)
    for name in DAMAGED:
        path = Path(name)
        content = {
            "empty": b"",
            "random": chance.randbytes(500),
            "half": Path(like.get(path.suffix, "x.npy")).read_bytes(),
            "text": b"some words\n" * 20,
            "list": b"[1, 2, NaN]",
            "zeros": bytes(4096),
        }[path.stem]
        path.write_bytes(content[: len(content) // 2] if path.stem == "half" else content)


def put_files(files: Path, folder: Path) -> None:
    """A copy of the files in a folder that lies alone in another, with links and pipes that cannot be read."""
    shutil.rmtree(folder.parent, ignore_errors=True)
    shutil.copytree(files, folder)
    os.symlink("loop.safetensors", folder / "loop.safetensors")
    os.symlink("nowhere", folder / "nowhere.safetensors")
    for pipe in ("pipe.npy", "pipe.safetensors"):
        os.mkfifo(folder / pipe)


@contextlib.contextmanager
def _in_this_process():
    """What runs in processes of its own runs here: they take seconds to start, and are tested elsewhere."""

    def here(job, *, timeout=None, group="", wanted=None):
        function, arguments = cloudpickle.loads(job)
        return function(*arguments)

    before = arena.calls.run_isolated
    arena.calls.run_isolated = here
    try:
        yield
    finally:
        arena.calls.run_isolated = before


def _contents(folder: Path) -> dict[str, str]:
    """What lies in a folder: a hash of every file."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        if path.is_file()
        else "-"
        for path in sorted(folder.rglob("*"))
        if path.is_file() or path.is_dir()
    }


# ------------------------------------------------------------------------------------------- the law


def complaint_of(words: list[str], written: list[str], folder: Path) -> tuple[str, str]:
    """Run one command in a folder: whether it answered or refused, and what is wrong with that."""
    here, above = _contents(folder), sorted(folder.parent.iterdir())
    out = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", errors="strict", write_through=True)
    err = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", errors="backslashreplace", write_through=True)
    status: int | None = None
    try:
        with (
            contextlib.chdir(folder),
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(err),
            _fence(SECONDS),
        ):
            status = run(words)
    except _TookTooLong:
        return "", f"it took more than {SECONDS:g} seconds"
    except BaseException as error:
        where = [
            frame for frame in inspect.getinnerframes(error.__traceback__) if "/arena/" in frame.filename
        ]
        place = f" [{where[-1].filename.rpartition('/arena/')[2]}:{where[-1].lineno}]" if where else ""
        return "", f"it raised {type(error).__name__}: {str(error)[:300]}{place}"
    told, said = (stream.buffer.getvalue().decode() for stream in (out, err))  # type: ignore[attr-defined]
    if status not in (0, 1, 2):
        return "", f"its exit status is {status!r}"
    if status == 0 and said:
        return "", f"it worked and says on standard error {said[:300]!r}"
    if status and (complaint := _complaint_of_message(said)):
        return "", f"{complaint}: {said[:300]!r}"
    if "--json" in words and "--help" not in words and told:
        try:
            json.loads(told)
        except ValueError:
            if "--json" not in _values(words):
                return "", f"--json is not alone on standard output: {told[:200]!r}"
    elif status == 2 and told:
        return "", f"it refuses and prints {told[:200]!r}"
    allowed = {os.path.realpath(folder / place) for place in written if len(place) < 255}
    for name, content in _contents(folder).items():
        path = folder / name
        ours = any(str(path.resolve()).startswith(one) for one in allowed)
        if (name in here and here[name] != content and not ours) or name.endswith((".tmp", ".probe")):
            return "", f"it changed or left behind {name}"
    gone = [name for name in here if not (folder / name).exists()]
    if gone:
        return "", f"it removed {gone[0]}"
    if sorted(folder.parent.iterdir()) != above:
        return "", "it wrote outside of its folder"
    return ("answer" if status == 0 else "refusal"), ""


def _values(words: list[str]) -> list[str]:
    """The words that follow an option, where one that begins with a dash is the option's value."""
    return [word for before, word in pairwise(words) if before.startswith("-")]


def _complaint_of_message(said: str) -> str:
    if not said.startswith("attention-bounds: ") or said.count("\n") != 1:
        return "its message is not one line"
    if not said.endswith(".\n"):
        return "its message does not end with a full stop"
    if not said[:-1].isprintable():
        return "its message holds control characters"
    if len(said) > MESSAGE:
        return f"its message has {len(said)} characters"
    if (
        "Unable to allocate" in said
        or "MemoryError" in said
        or "Error:" in said.removeprefix("attention-bounds: ")[:25]
    ):
        return "its message is that of another program"
    return ""


# ------------------------------------------------------------------------------------------- the tests


@pytest.fixture
def quick_start(monkeypatch):
    """The tree of commands is built once, and not for every call."""
    monkeypatch.setattr(typer.main, "get_command", lambda _: COMMAND)
    with _in_this_process():
        yield


@pytest.mark.parametrize("name", BASES)
def test_options_answer_or_refuse(name, files, tmp_path, request, quick_start):
    cases = max(2, request.config.getoption("--fuzz-cases") // 20)
    counts: Counter = request.config.stash[COUNTS].setdefault(f"attention-bounds {name}", Counter())
    violations: dict[str, str] = {}
    for parameter in COMMANDS[name]:

        @settings(
            max_examples=min(cases, 4) if parameter.flag else cases,
            derandomize=True,
            database=None,
            deadline=None,
            phases=(Phase.generate,),
            suppress_health_check=list(HealthCheck),
        )
        @given(calls(name, parameter))
        def check(call):
            words, written = call
            folder = tmp_path / "case" / "here"
            put_files(files, folder)
            verdict, complaint = complaint_of(words, written, folder)
            counts[verdict or "violation"] += 1
            if complaint:
                shown = " ".join(ascii(word) if len(word) < 99 else f"'{word[:9]}...'" for word in words)
                violations.setdefault(complaint[-90:], f"{shown}: {complaint}")

        check()
    if violations:
        pytest.fail("\n".join(violations.values()), pytrace=False)


@pytest.mark.parametrize("name", [name for name in BASES if name != "linear experiment"])
def test_what_is_varied_works_as_it_stands(name, files, tmp_path, quick_start, capsys):
    for given_values in [BASES[name], *MORE_BASES.get(name, [])]:
        folder = tmp_path / "here"
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(files, folder)
        by_name = {one.name: one for one in COMMANDS[name]}
        order = sorted(given_values, key=lambda one: not by_name[one].options)
        words = [word for one in order for word in tokens_of(by_name[one], given_values[one])]
        with contextlib.chdir(folder):
            assert run([*name.split(), *words]) == 0, capsys.readouterr()


def test_every_command_has_a_call_that_is_varied():
    assert set(BASES) == set(COMMANDS)
    for name, parameters in COMMANDS.items():
        named = {one for base in [BASES[name], *MORE_BASES.get(name, [])] for one in base}
        assert named <= {one.name for one in parameters}


def test_lists_of_words_hold_what_there_is():
    assert set(KNOWN["learner"][:3]) <= set(STUDENTS)
    assert {"exhaustive", "elimination"} <= set(ATTACKS)
    assert "agreement" in STUDIES


def test_the_law_is_broken_by_what_breaks_it(tmp_path, monkeypatch):
    here = tmp_path / "outer" / "here"
    here.mkdir(parents=True)

    def tried(does):
        monkeypatch.setattr(sys.modules[__name__], "run", does)
        return complaint_of(["x", "--json"], [], here)[1]

    def complain(text):
        sys.stderr.write(text)
        return 2

    assert "raised ZeroDivisionError" in tried(lambda words: 1 // 0)
    assert "exit status is 3" in tried(lambda words: 3)
    assert "not one line" in tried(lambda words: complain("Traceback:\n  here\n"))
    assert "full stop" in tried(lambda words: complain("attention-bounds: no\n"))
    assert "alone" in tried(lambda words: print("{} words") or 0)
    assert "outside" in tried(lambda words: Path("../stray").touch() or 0)
    assert not tried(lambda words: print("{}") or 0)

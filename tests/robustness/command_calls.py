"""Calls of the command line: a cheap valid one of each command, of which one or two options are varied."""

import inspect
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Literal, NamedTuple, Union, get_args, get_origin, get_type_hints

import typer
from command_values import (
    BAD_REALS,
    BAD_WHOLES,
    DAMAGED,
    FILES,
    HUGE_REALS,
    HUGE_WHOLES,
    KNOWN,
    NUMBERS,
    PLACES,
    REALS,
    TEXTS,
)
from hypothesis import strategies as st

from arena.cli.main import app

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

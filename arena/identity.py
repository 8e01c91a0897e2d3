"""What makes a cell this cell and no other: the hash under which a run store keeps it."""

import dataclasses
import hashlib
import inspect
import json
import math
import secrets
import sys
import sysconfig
from collections.abc import Iterable, Mapping, Set
from enum import Enum
from functools import cache
from pathlib import Path, PurePath
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any

import cloudpickle
import numpy as np

from arena.students import Effort, Student
from arena.targets import Target
from attention import inputs_to_json
from attention._arrays import to_numpy

__all__ = ["cell_key", "learner_identity", "target_identity"]


def cell_key(target: Any, learner: Any, seed: int, versions: Mapping[str, str]) -> str:
    """The SHA-256, in hexadecimal, of the canonical JSON of target, learner, seed and versions.

    Parameters
    ----------
    target, learner : JSON values
        What `target_identity` and `learner_identity` give.
    seed : int
        The seed of the fit.
    versions : mapping of str to str
        Versions of what the numbers depend on, as `arena.versions` gives them.

    Notes
    -----
    The code of this toolkit itself counts by its text and not by its version alone: a cell computed before a change
    of a learner is not taken for one computed after it.

    Examples
    --------
    >>> cell_key("toy", "newton", 0, {"numpy": "2.0"}) == cell_key("toy", "newton", 0, {"numpy": "2.0"})
    True
    >>> cell_key("toy", "newton", 0, {"numpy": "2.0"}) == cell_key("toy", "newton", 1, {"numpy": "2.0"})
    False
    """
    content = {
        "target": target,
        "learner": learner,
        "seed": seed,
        "versions": dict(versions),
        "code": _code(),
    }
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode("ascii")).hexdigest()


def target_identity(target: Target) -> Any:
    """What a fit on a target depends on: its name (which picks the random streams), numbers, inputs, known part."""
    known = None if target.instance is None else target.instance.known
    return {
        "name": target.name,
        "layer": _plain(target.layer),
        "inputs": _plain(inputs_to_json(target.inputs)),
        "known": _plain(known),
    }


def learner_identity(student: Student, target: Target, effort: Effort) -> Any:
    """What a fit depends on at the learner's side: the learner as set up for the target, and its code.

    Notes
    -----
    Code outside this toolkit counts by what it does: the functions and classes of the learner's module that the
    learner reaches by name, what they close over, and the constants they use. What they call in other modules
    does not count; after a change there the cells must be computed afresh by hand.
    """
    described: dict[str, Any]
    try:
        described = {"learner": student.build(target, effort)}
    except Exception:  # the cell will say why; what it says depends on this
        described = {"build": student.build, "effort": effort}
    try:
        return {"name": student.name, **{name: _plain(value) for name, value in described.items()}}
    except RecursionError:
        return {"name": student.name, "learner": _like_nothing_else()}


def _plain(value: Any, met: "_Met | None" = None) -> Any:
    """`value` as JSON that is equal for equal values only; arrays by their hashes, code by what it does.

    What is no JSON is an object of one entry, which no JSON value of a caller becomes: lists stay lists, and mappings
    are of this kind too. `met` are the classes and functions described so far: each is described once.
    """
    met = {} if met is None else met
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, int):
        return int(value) if abs(value) < 2**64 else {"int": hex(value)}
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else {"float": repr(float(value))}
    if isinstance(value, Enum):
        return {"enum": [_of_code(type(value), met), value.name]}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {one.name: _plain(getattr(value, one.name), met) for one in dataclasses.fields(value)}
        return {"dataclass": [_of_code(type(value), met), fields]}
    if isinstance(value, Mapping):
        return {"mapping": _sorted([_plain(key, met), _plain(item, met)] for key, item in value.items())}
    if isinstance(value, list | tuple):
        return [_plain(item, met) for item in value]
    if isinstance(value, Set):
        return {"set": _sorted(_plain(item, met) for item in value)}
    if isinstance(value, PurePath):
        return {"path": str(value)}
    if isinstance(value, np.generic):
        return {"number": [str(value.dtype), _hash(value.tobytes())]}
    if inspect.isroutine(value) or isinstance(value, type):
        return _of_code(value, met)
    try:
        if hasattr(value, "shape") and hasattr(value, "dtype"):
            array = np.ascontiguousarray(to_numpy(value))
            if not array.dtype.hasobject and array.shape == tuple(value.shape):
                content = [str(array.dtype), list(array.shape), _hash(array.tobytes())]
                return {"array": [_named(type(value)), *content]}
        # an object of another kind: where its bytes change from run to run it is computed again, never mistaken
        return {"object": [_of_code(type(value), met), _hash(cloudpickle.dumps(value))]}
    except Exception:
        return _like_nothing_else()


_Met = dict[int, tuple[int, Any]]
"""By identity: how many came before, and the object itself, so that no other takes its identity meanwhile."""


def _like_nothing_else() -> Any:
    return {"unknown": secrets.token_hex(16)}


def _sorted(values: Iterable[Any]) -> list[Any]:
    return sorted(values, key=lambda one: json.dumps(one, sort_keys=True))


def _of_code(value: Any, met: _Met) -> Any:
    """A class or a function: of this toolkit and of what is installed by name, of others by what it does."""
    if isinstance(value, MethodType):
        return {"method": [_of_code(value.__func__, met), _plain(value.__self__, met)]}
    name = _named(value)
    if name.split(".")[0] in ("arena", *_PACKAGES) and "<" not in name:
        return name
    if id(value) in met:
        return {"met": met[id(value)][0]}
    met[id(value)] = len(met), value
    if isinstance(value, FunctionType):
        return {"function": [name, _of_function(value, met)]}
    if not isinstance(value, type):  # compiled
        bound = getattr(value, "__self__", None)
        return {"named": [name, None if isinstance(bound, ModuleType) else _plain(bound, met)]}
    if _is_installed(value):
        return {"named": [name, _of_text(value)]}
    parts = {
        attribute: _of_parts(part, met)
        for attribute, part in vars(value).items()
        if not (attribute.startswith("__") and _is_simple(part))
    }
    bases = [_of_code(base, met) for base in value.__bases__ if base is not object]
    return {
        "class": [name, bases, {attribute: part for attribute, part in parts.items() if part is not None}]
    }


def _of_parts(part: Any, met: _Met) -> Any:
    """What an attribute of a class does; None if that is nothing."""
    if isinstance(part, FunctionType):
        return _of_code(part, met)
    if isinstance(part, type) or _is_simple(part):
        return {"is": _plain(part, met)}
    inner = [getattr(part, name, None) for name in ("__func__", "fget", "fset", "func", "__wrapped__")]
    functions = [_of_code(one, met) for one in inner if isinstance(one, FunctionType)]
    return {type(part).__name__: functions} if functions else None


def _of_function(function: FunctionType, met: _Met) -> Any:
    codes = _codes(function.__code__)
    names = sorted({name for code in codes for name in code.co_names} & function.__globals__.keys())
    used = {name: function.__globals__[name] for name in names}
    return {
        "code": [[_hash(code.co_code), list(code.co_names), _constants(code, met)] for code in codes],
        "defaults": _plain([function.__defaults__, function.__kwdefaults__], met),
        "closure": [_of_cell(cell, met) for cell in function.__closure__ or ()],
        "uses": {name: _plain(one, met) for name, one in used.items() if _is_followed(one, function)},
    }


def _codes(code: CodeType) -> list[CodeType]:
    """The code and, in order, all that is within it."""
    inner = [one for one in code.co_consts if isinstance(one, CodeType)]
    return [code, *(each for one in inner for each in _codes(one))]


def _constants(code: CodeType, met: _Met) -> list[Any]:
    return [_plain(one, met) for one in code.co_consts if not isinstance(one, CodeType)]


def _of_cell(cell: Any, met: _Met) -> Any:
    try:
        return _plain(cell.cell_contents, met)
    except ValueError:  # it holds nothing yet
        return {"empty": None}


def _is_followed(value: Any, function: FunctionType) -> bool:
    if isinstance(value, FunctionType | type):
        return value.__module__ == function.__module__
    return _is_simple(value)


def _is_simple(value: Any) -> bool:
    if isinstance(value, tuple | list | set | frozenset):
        return all(map(_is_simple, value))
    if isinstance(value, dict):
        return all(_is_simple(key) and _is_simple(item) for key, item in value.items())
    return value is None or isinstance(value, bool | int | float | complex | str | bytes | np.ndarray)


def _is_installed(value: Any) -> bool:
    file = getattr(sys.modules.get(value.__module__), "__file__", None)
    if file is None:  # compiled into Python; or of a notebook, a prompt
        return value.__module__ in sys.builtin_module_names
    return any(Path(file).is_relative_to(folder) for folder in _installed())


@cache
def _installed() -> tuple[str, ...]:
    return tuple({sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")})


@cache
def _of_text(value: type) -> str | None:
    try:
        return _hash(inspect.getsource(value).encode("utf-8", "surrogatepass"))
    except (OSError, TypeError):  # compiled
        return None


_PACKAGES = ("attention", "upper", "lower", "sq", "lwe")


def _named(value: Any) -> str:
    return f"{getattr(value, '__module__', '')}.{getattr(value, '__qualname__', type(value).__qualname__)}"


@cache
def _code() -> str:
    """The text of everything of this toolkit that a number can depend on."""
    here = Path(__file__).parent
    files = [here / f"{name}.py" for name in ("cells", "students", "targets")]
    for package in _PACKAGES:
        files += sorted((here.parent / package).rglob("*.py"))
    digest = hashlib.sha256()
    for file in files:
        digest.update(f"{file.parent.name}/{file.name}\0".encode() + file.read_bytes() + b"\0")
    return digest.hexdigest()


def _hash(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()

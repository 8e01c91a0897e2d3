"""What a value is, as JSON: numbers by their bits, code by what it does, the same in every process."""

import copyreg
import dataclasses
import hashlib
import inspect
import json
import math
import os
import pickle
import random
import secrets
import sys
import sysconfig
import weakref
from collections.abc import Iterable, Mapping, Sequence
from enum import Enum, EnumMeta
from functools import cache, cached_property, partial, partialmethod
from pathlib import Path, PurePath
from types import (
    BuiltinFunctionType,
    ClassMethodDescriptorType,
    CodeType,
    FunctionType,
    GetSetDescriptorType,
    MappingProxyType,
    MemberDescriptorType,
    MethodDescriptorType,
    MethodType,
    MethodWrapperType,
    ModuleType,
    WrapperDescriptorType,
)
from typing import Any
from weakref import WeakKeyDictionary, WeakSet, WeakValueDictionary

import numpy as np

from attention._arrays import to_numpy

__all__ = ["TOOLKIT", "described", "like_nothing_else"]

TOOLKIT = ("attention", "upper", "lower", "sq", "lwe")
"""The packages whose text a key holds, so that their code counts by its name."""


def described(value: Any) -> Any:
    """`value` as JSON that is equal for equal values only; arrays by their hashes, code by what it does.

    Functions, classes and objects are described once each, in a list, and are numbers elsewhere: they may use
    one another in circles, and in chains of any length.
    """
    account = _Account()
    top, parts = _plain(value, account), []
    for part, by_kind in account.waiting:  # which grows meanwhile
        if len(account.waiting) > _MOST:
            raise OverflowError(f"More than {_MOST} functions, classes and objects are reached.")
        account.by_kind = by_kind
        parts.append(_of_part(part, account))
    return {"is": top, "parts": parts}


_MOST = 100_000  # there are objects that make others whenever they are looked at


class _Account:
    """What a description has met so far.

    `waiting` holds functions, classes and objects in the order of their numbers (and so keeps their identities from
    being taken), each with whether it may count by its kind alone; `inside` the containers around the present value.
    """

    def __init__(self, *, shallow: bool = False) -> None:
        self.waiting: list[tuple[Any, bool]] = []
        self.numbers: dict[int, int] = {}
        self.inside: list[int] = []
        self.by_kind = False
        self.shallow = shallow

    def number(self, value: Any) -> int:
        if id(value) not in self.numbers:
            self.numbers[id(value)] = len(self.waiting)
            self.waiting.append((value, self.by_kind or _is_code(value)))
        return self.numbers[id(value)]


def _plain(value: Any, account: _Account) -> Any:
    """`value` as JSON, with the numbers of what is described elsewhere.

    What is no JSON is an object of one entry, which no JSON value of a caller becomes: lists stay lists, and mappings
    are of this kind too.
    """
    kind = type(value)
    if value is None or kind in (bool, str):
        return value
    if kind is int:
        return value if abs(value) < 2**64 else {"int": hex(value)}
    if kind in (float, np.float64):
        return float(value) if math.isfinite(value) else {"float": repr(float(value))}
    if kind is complex:
        return {"complex": [_plain(value.real, account), _plain(value.imag, account)]}
    if kind is bytes:
        return {"bytes": _hash(value)}
    if kind in _CONTAINERS:
        return _of_container(value, account)
    if isinstance(value, Enum):
        return {"enum": [_plain(kind, account), value.name, _plain(value.value, account)]}
    if isinstance(value, PurePath):
        return {"path": str(value)}
    if isinstance(value, np.generic) and not value.dtype.hasobject:
        return {"number": [str(value.dtype), _hash(value.tobytes())]}
    if issubclass(kind, ModuleType):
        return {"module": value.__name__}
    if any(value is one for one in _OF_THE_PROCESS):
        return {"of the process": _named(kind)}
    if kind in _INNER:
        return {kind.__name__: [_guarded(getattr(value, name), account) for name in _INNER[kind]]}
    if kind in _COMPILED:
        bound, owner = (getattr(value, name, None) for name in ("__self__", "__objclass__"))
        bound = None if isinstance(bound, ModuleType) else _plain(bound, account)
        return {"named": [_named(value), owner and _named(owner), bound]}
    if _is_code(value) and _is_of_toolkit(value.__module__) and "<" not in _named(value):
        return {"named": _named(value)}
    array = _of_array(value)
    if array is not None:
        return array
    return {"part": _at_first_sight(value, account) if account.shallow else account.number(value)}


# they are others in every process; what uses them must be told their seeds to be repeated at all
_OF_THE_PROCESS = (
    os.environ,
    getattr(random.random, "__self__", None),
    getattr(np.random.rand, "__self__", None),
)
_VIEWS: tuple[Any, ...] = ({}.keys(), {}.items(), {}.values())
_CONTAINERS = (list, tuple, dict, MappingProxyType, set, frozenset, *map(type, _VIEWS))
_INNER: Mapping[type, Sequence[str]] = {
    staticmethod: ("__func__",),
    classmethod: ("__func__",),
    property: ("fget", "fset", "fdel"),
    cached_property: ("func",),
    partial: ("func", "args", "keywords"),
    partialmethod: ("func", "args", "keywords"),
    MethodType: ("__func__", "__self__"),
}
_COMPILED = (
    *(BuiltinFunctionType, ClassMethodDescriptorType, MethodDescriptorType, MethodWrapperType),
    *(GetSetDescriptorType, MemberDescriptorType, WrapperDescriptorType),
)


def _guarded(value: Any, account: _Account) -> Any:
    try:
        return _plain(value, account)
    except Exception:
        return _unknown(value, account)


def _unknown(value: Any, account: _Account) -> Any:
    return {"kind": _plain(type(value), account)} if account.by_kind else like_nothing_else()


def like_nothing_else() -> Any:
    """A description that is never made again."""
    return {"unknown": secrets.token_hex(16)}


def _of_container(value: Any, account: _Account) -> Any:
    inside = account.inside
    if id(value) in inside:
        return {"circle": len(inside) - inside.index(id(value))}
    inside.append(id(value))
    try:
        if isinstance(value, dict | MappingProxyType):
            keys = _in_order(value)
            return {"mapping": [[_plain(key, account), _plain(value[key], account)] for key in keys]}
        if isinstance(value, list | tuple):
            return [_plain(item, account) for item in value]
        items = value if isinstance(value, _VALUES) else _in_order(value)
        return {"set": [_plain(item, account) for item in items]}
    finally:
        inside.pop()


_VALUES = type(_VIEWS[-1])


def _in_order(items: Iterable[Any]) -> list[Any]:
    """In an order that is the same in every process, as that of a set is not."""
    return sorted(items, key=lambda one: json.dumps(_guarded(one, _Account(shallow=True)), sort_keys=True))


def _at_first_sight(value: Any, account: _Account) -> Any:
    """What can be said without going further, so that it ends: for an order only."""
    if type(value) is FunctionType:
        code = value.__code__
        cells = [_of_cell(cell) for cell in value.__closure__ or ()]
        beside = [*cells, *(value.__defaults__ or ()), *code.co_consts]
        seen: list[Any] = [_hash(code.co_code), code.co_firstlineno]
    else:
        names = [one.name for one in dataclasses.fields(value)] if dataclasses.is_dataclass(value) else []
        state = {} if _is_code(value) else {name: getattr(value, name) for name in names} | _state(value)
        beside, seen = [state[name] for name in sorted(state)], []
    seen += [
        _plain(one, account) for one in beside if isinstance(one, int | float | str | bytes | np.generic)
    ]
    return [_named(value), *seen]


# parts


def _of_part(value: Any, account: _Account) -> Any:
    try:
        if type(value) is FunctionType:
            return {"function": [_named(value), _of_function(value, account)]}
        if _is_code(value):
            return _of_class(value, account)
        return _of_object(value, account)
    except Exception:
        return _unknown(value, account)


def _of_function(function: FunctionType, account: _Account) -> Any:
    codes, module = _codes(function.__code__), function.__globals__.get("__name__")
    names, attributes = {name for code in codes for name in code.co_names}, vars(function)
    if _is_of_toolkit(module) or _is_of_package(
        module
    ):  # what those hang on their wrappers may be of the process
        names, attributes = set(), {name: attributes[name] for name in attributes if name == "__wrapped__"}
    used = {name: function.__globals__[name] for name in sorted(names & function.__globals__.keys())}
    return {
        "code": [_of_code(code, account) for code in codes],
        "defaults": _guarded([function.__defaults__, function.__kwdefaults__], account),
        "closure": [_guarded(_of_cell(cell), account) for cell in function.__closure__ or ()],
        "attributes": _guarded(attributes, account),
        "uses": {
            name: _guarded(one, account) for name, one in used.items() if not isinstance(one, ModuleType)
        },
    }


def _codes(code: CodeType) -> list[CodeType]:
    """The code and, in order, all that is within it."""
    inner = [one for one in code.co_consts if isinstance(one, CodeType)]
    return [code, *(each for one in inner for each in _codes(one))]


def _of_code(code: CodeType, account: _Account) -> Any:
    arguments = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    kinds = [code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags]
    constants = [_guarded(one, account) for one in code.co_consts if not isinstance(one, CodeType)]
    jumps = _hash(code.co_code + code.co_exceptiontable)
    return [jumps, list(code.co_names), [*kinds, *arguments], constants]


def _of_cell(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # it holds nothing yet
        return ...


def _of_class(value: type, account: _Account) -> Any:
    name = _named(value)
    if _is_of_package(value.__module__):
        return {"named": [name, _of_text(value)]}
    members: dict[str, Any] = {}
    if isinstance(value, EnumMeta):
        members = {one: _guarded(getattr(value, one).value, account) for one in value.__members__}
    parts = {
        attribute: _guarded(part, account)
        for attribute, part in sorted(vars(value).items())
        if attribute not in members and _is_attribute(attribute, part, value)
    }
    bases = [_plain(base, account) for base in (type(value), *value.__bases__) if base not in (type, object)]
    return {"class": [name, bases, parts, members]}


def _is_attribute(name: str, part: Any, owner: type) -> bool:
    """Whether an attribute is one that was written there, and not Python's own book-keeping."""
    if name.startswith("__") and name.endswith("__"):
        own = isinstance(part, GetSetDescriptorType | MemberDescriptorType)
        return not own and (callable(part) or hasattr(type(part), "__get__"))
    return not name.startswith("_abc_") and not (isinstance(owner, EnumMeta) and name.endswith("_"))


def _of_object(value: Any, account: _Account) -> Any:
    kind = type(value)
    if "__dataclass_fields__" in vars(kind):
        fields = {one.name: _guarded(getattr(value, one.name), account) for one in dataclasses.fields(value)}
        return {"dataclass": [_plain(kind, account), fields]}
    content: Any
    if isinstance(value, weakref.ref | WeakKeyDictionary | WeakValueDictionary | WeakSet):
        return {"kind": _plain(kind, account)}  # it holds nothing itself, as a cache does
    if isinstance(value, set | frozenset):
        content = [_of_container(value, account), _plain(_state(value), account)]
    elif not _is_of_package(kind.__module__):
        try:
            content = _reduced(value)
        except Exception:
            if not account.by_kind:
                raise
            content = _state(value)
    elif callable(value) and hasattr(value, "__wrapped__"):  # of a cache, or compiled on demand
        content = value.__wrapped__
    else:
        _Portable(_Nowhere()).dump(value)
        content = _reduced(value)
    return {"object": [_plain(kind, account), _plain(content, account)]}


def _of_array(value: Any) -> Any:
    """Numbers of any library; None for what is no array of numbers, or of a kind of one's own."""
    if not _is_of_package(type(value).__module__):
        return None
    try:
        if not (hasattr(value, "shape") and hasattr(value, "dtype")):
            return None
        array = np.ascontiguousarray(to_numpy(value))
        if array.dtype.hasobject or array.shape != tuple(value.shape):
            return None
    except Exception:
        return None
    return {"array": [_named(type(value)), str(array.dtype), list(array.shape), _hash(array.tobytes())]}


def _state(value: Any) -> dict[str, Any]:
    return dict(getattr(value, "__dict__", {}))


def _reduced(value: Any) -> Any:
    """What `pickle` would keep of an object, before it turns it into bytes."""
    reduce = copyreg.dispatch_table.get(type(value))
    reduced = value.__reduce_ex__(4) if reduce is None else reduce(value)
    if isinstance(reduced, str):
        return [reduced, _state(value)]
    make, arguments, state, items, pairs = (*reduced, None, None, None)[:5]
    return [make, arguments, state, list(items or ()), [list(pair) for pair in pairs or ()]]


class _Nowhere:
    def write(self, data: Any) -> int:
        return len(data)


class _Portable(pickle.Pickler):
    """Raises for objects of a package that hold what is of this process only, such as locks and open files."""

    def persistent_id(self, value: Any) -> str | None:
        kind = type(value)
        own = kind.__module__ != "builtins" and not _is_of_package(kind.__module__)
        code = _is_code(value) or kind in _COMPILED or kind in _INNER or isinstance(value, ModuleType)
        return "" if own or code or (callable(value) and hasattr(value, "__wrapped__")) else None


# where things are from


def _is_code(value: Any) -> bool:
    return type(value) is FunctionType or issubclass(type(value), type)


def _is_of_toolkit(module: Any) -> bool:
    return str(module).split(".")[0] in ("arena", *TOOLKIT)


def _is_of_package(module: Any) -> bool:
    """Whether a module is Python's own or that of an installed package."""
    file = getattr(sys.modules.get(str(module)), "__file__", None)
    # without a file: compiled into Python; or of a notebook, a prompt
    return str(module) in sys.builtin_module_names if file is None else _is_installed(file)


@cache
def _is_installed(file: str) -> bool:
    folders = {sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")}
    return any(Path(file).is_relative_to(folder) for folder in folders)


@cache
def _of_text(value: type) -> str | None:
    try:
        return _hash(inspect.getsource(value).encode("utf-8", "surrogatepass"))
    except (OSError, TypeError):  # compiled
        return None


def _named(value: Any) -> str:
    return f"{getattr(value, '__module__', '')}.{getattr(value, '__qualname__', type(value).__qualname__)}"


def _hash(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()

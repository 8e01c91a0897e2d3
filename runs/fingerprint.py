"""A hash of a value and of the caller's code in it: the same in every process, and another after an edit."""

import ast
import dis
import hashlib
import io
import sys
import time
import uuid
import warnings
from collections.abc import Iterable, Iterator
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from types import CodeType, FunctionType, GetSetDescriptorType, MemberDescriptorType, ModuleType
from typing import Any

import cloudpickle

_ROOT = Path(__file__).parents[1]
_PACKAGES = ("attention", "runs", "upper", "lower", "sq", "lwe", "paper_checks", "studies", "arena")
_BEGAN, _THIS_PROCESS = time.time(), uuid.uuid4().hex
_HEAP_TYPE = 1 << 9  # the flag of classes that are not built into the interpreter
# parts of a class that say nothing about it, or change from process to process
_INCIDENTAL = {"__slotnames__", "__firstlineno__", "__static_attributes__", "_abc_impl"}


def fingerprint(value: Any) -> str:
    """SHA-256 of a value and of the code that it refers to.

    Functions and classes of this package, of the standard library and of installed packages count by their names.
    Those of a script, of a notebook or of a file loaded by its path count by their compiled code, with the globals
    and closures they use. Those of other modules count by their source files, with all files of their package and of
    the modules that these import.

    Notes
    -----
    A value that cannot be pickled has a different hash at each call. A file that changed after this process began has
    a different hash in each process, because the code in memory may be older.

    Examples
    --------
    >>> fingerprint(lambda x: x + 1) == fingerprint(lambda x: x + 1)
    True
    >>> fingerprint(lambda x: x + 1) == fingerprint(lambda x: x + 2)
    False
    """
    out = io.BytesIO()
    try:
        _Pickler(out, protocol=5).dump(value)
    except Exception:  # objects of the caller may raise anything
        return uuid.uuid4().hex
    return hashlib.sha256(out.getvalue()).hexdigest()


def is_installed(module: str) -> bool:
    """Whether a module belongs to this package, to the standard library or to an installed package."""
    return not any(_own_files(module))


class _Pickler(cloudpickle.Pickler):
    """Writes what cloudpickle writes, with sources in place of names, and without line numbers and random numbers."""

    def reducer_override(self, value: Any) -> Any:
        if isinstance(value, CodeType):
            return tuple, (_parts_of_code(value),)
        if isinstance(value, ModuleType):
            sources = _sources([value.__name__])
            return (_with, (value.__name__, sources)) if sources else NotImplemented
        reduced = super().reducer_override(value)
        if not (
            isinstance(value, FunctionType) or (isinstance(value, type) and value.__flags__ & _HEAP_TYPE)
        ):
            return reduced
        name = f"{value.__module__}.{value.__qualname__}"
        if reduced is NotImplemented:  # other processes import it
            sources = _sources([value.__module__])
            return (_with, (name, sources)) if sources else NotImplemented
        state = _parts_of_class(value) if isinstance(value, type) else _parts_of_function(value)
        return _with, (name,), state


def _with(*parts: Any) -> Any:
    raise NotImplementedError("A hash is not read back.")


def _parts_of_code(code: CodeType) -> list[Any]:
    constants = [sorted(map(repr, one)) if isinstance(one, frozenset) else one for one in code.co_consts]
    # pickle marks strings that are one object, and whether equal constants are differs from process to process
    constants = [sys.intern(one) if type(one) is str else one for one in constants]
    counts = (code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags)
    names = (code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars)
    sources = _sources(_names(code, "IMPORT_NAME"))
    return [code.co_code, code.co_exceptiontable, counts, names, constants, sources]


def _parts_of_function(function: FunctionType) -> list[Any]:
    used = _names(function.__code__, "LOAD_GLOBAL", "LOAD_NAME") & function.__globals__.keys()
    return [
        function.__code__,
        function.__defaults__,
        function.__kwdefaults__,
        function.__closure__,
        function.__annotations__,
        function.__dict__,
        [(name, function.__globals__[name]) for name in sorted(used)],
    ]


def _names(code: CodeType, *operations: str) -> set[str]:
    """The names that operations of the code, or of functions within it, are given."""
    names = {one.argval for one in dis.get_instructions(code) if one.opname in operations}
    return names.union(*(_names(one, *operations) for one in code.co_consts if isinstance(one, CodeType)))


def _parts_of_class(kind: type) -> list[Any]:
    own = {
        name: part
        for name, part in vars(kind).items()
        if name not in _INCIDENTAL and not isinstance(part, GetSetDescriptorType | MemberDescriptorType)
    }
    return [type(kind), kind.__bases__, own]


def _sources(modules: Iterable[str]) -> list[tuple[str, str]]:
    """The files of the caller's own modules among these, and of those they import, each with a hash."""
    sources: list[tuple[str, str]] = []
    waiting = {name.partition(".")[0] for name in modules}
    seen: set[str] = set()
    while waiting:
        seen.add(module := waiting.pop())
        for path in _own_files(module):
            status = path.stat()
            digest, imported = _read(path, status.st_mtime_ns, status.st_size)
            sources.append((path.name, digest))
            waiting |= imported - seen
    return sorted(sources)


@cache
def _read(path: Path, changed: int, size: int) -> tuple[str, frozenset[str]]:
    """The hash of a source file, and the top-level modules that it imports anywhere."""
    content = path.read_bytes()
    digest = hashlib.sha256(content).hexdigest()
    if changed > _BEGAN * 1e9:
        digest += _THIS_PROCESS
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            nodes = list(ast.walk(ast.parse(content)))
    except (SyntaxError, ValueError, RecursionError):  # compiled, or a file that nobody imports
        return digest, frozenset()
    names = {one.name for node in nodes if isinstance(node, ast.Import) for one in node.names}
    names |= {node.module or "" for node in nodes if isinstance(node, ast.ImportFrom) and not node.level}
    return digest, frozenset(name.partition(".")[0] for name in names)


def _own_files(module: str) -> Iterator[Path]:
    """The files of a top-level module or package of the caller; none if it is installed or not a file."""
    for place in map(Path, _places(module.partition(".")[0])):
        if _is_own(place):
            yield from sorted(place.rglob("*.py")) if place.is_dir() else [place]


@cache
def _places(module: str) -> list[str]:
    if module in sys.builtin_module_names or module in sys.stdlib_module_names or module == "__main__":
        return []
    try:
        spec = find_spec(module)
    except (ImportError, ValueError):  # in sys.modules, without a specification
        file = getattr(sys.modules.get(module), "__file__", None)
        return [file] if file else []
    if spec is None:
        return []
    return list(
        spec.submodule_search_locations or ([spec.origin] if spec.has_location and spec.origin else [])
    )


def _is_own(place: Path) -> bool:
    if place.parent == _ROOT and place.name in _PACKAGES:
        return False
    return place.exists() and not {"site-packages", "dist-packages"} & set(place.parts)

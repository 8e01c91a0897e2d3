"""A digest of code: of functions, of what they name in their own module and package, and of constants."""

import ast
import hashlib
import inspect
import sys
import textwrap
from collections.abc import Callable, Iterator
from typing import Any

__all__ = ["fingerprint"]


def fingerprint(*functions: Callable[..., Any], extra: tuple[str, ...] = (), within: str) -> str:
    """A digest of functions, and of the functions, classes and constants that they name.

    Parameters
    ----------
    functions : callable
        Where it begins.
    extra : tuple of str
        What else counts.
    within : str
        A package: what is named counts where it lies there or in the same module; other libraries do not.

    Returns
    -------
    str
        16 hexadecimal digits, the same in every process.

    Examples
    --------
    >>> def one():
    ...     return 1
    >>> fingerprint(one, within="nowhere") == fingerprint(one, extra=("more",), within="nowhere")
    False
    """
    seen: set[int] = set()
    parts = [part for function in functions for part in _code(function, within, seen)]
    return hashlib.sha256("\n".join([*parts, *extra]).encode()).hexdigest()[:16]


def _code(function: Any, within: str, seen: set[int]) -> Iterator[str]:
    """The code of a function and of what it names in its own module and in a package."""
    if id(function) in seen:
        return
    seen.add(id(function))
    try:
        (node,) = ast.parse(textwrap.dedent(inspect.getsource(function))).body
    except (OSError, TypeError, SyntaxError, ValueError):  # typed in, not read from a file
        yield function.__code__.co_code.hex() if inspect.isfunction(function) else repr(type(function))
        return
    if isinstance(node, ast.FunctionDef):
        node.decorator_list = []
    yield ast.unparse(node)
    module = sys.modules.get(function.__module__)
    known = {} if module is None else vars(module)
    for name in sorted({one.id for one in ast.walk(node) if isinstance(one, ast.Name)}):
        value = known.get(name)
        home = getattr(value, "__module__", "")
        if (inspect.isfunction(value) or inspect.isclass(value)) and (
            home == function.__module__ or home.startswith(within)
        ):
            yield from _code(value, within, seen)
        elif _is_plain(value):
            yield f"{name} = {value!r}"


def _is_plain(value: Any) -> bool:
    """Whether a value reads the same in every process."""
    if isinstance(value, tuple | list):
        return all(_is_plain(one) for one in value)
    if isinstance(value, dict):
        return all(_is_plain(one) for pair in value.items() for one in pair)
    return isinstance(value, str | int | float | None)

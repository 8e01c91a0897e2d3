"""Packages whose names are imported when they are first asked for, so that a command imports only what it uses."""

import ast
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from sys import modules as imported
from typing import Any


def lazily(package: str, file: str) -> Callable[[str], Any]:
    """The `__getattr__` of a package: it imports the names of the indented imports in the package's file.

    Parameters
    ----------
    package, file : str
        Its `__name__` and `__file__`.

    Examples
    --------
    >>> import upper
    >>> lazily("upper", upper.__file__)("Newton")
    <class 'upper.newton.learner.Newton'>
    """
    homes = {
        alias.name: line.module
        for line in ast.walk(ast.parse(Path(file).read_bytes()))
        if isinstance(line, ast.ImportFrom) and line.module is not None and line.col_offset
        for alias in line.names
    }
    modules = {home.removeprefix(f"{package}.").split(".")[0] for home in homes.values()}

    def get(name: str) -> Any:
        if name in modules and name not in homes:
            return import_module(f"{package}.{name}")
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(import_module(homes[name]), name)
        setattr(imported[package], name, value)  # so the package has it from now on
        return value

    return get

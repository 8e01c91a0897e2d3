"""What files of foreign origin hold: errors name the file, JSON is strict, and text has no control characters."""

import json
import math
import os
import re
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

JSON_LIMIT = 16 * 2**20
"""The most bytes of the header of a file, or of a checkpoint's config or index."""
_DEEPEST = 100  # values in values; what this toolkit writes has fewer than ten


def printable(text: str) -> str:
    r"""`text` with every character escaped that is not printable, such as a line break, a colour or half a character.

    Examples
    --------
    >>> print(printable("a\x1b[31m\nb\udcff"))
    a\x1b[31m\nb\udcff
    """
    if text.isprintable():
        return text
    return "".join(letter if letter.isprintable() else ascii(letter)[1:-1] for letter in text)


def escaped(value: Any) -> Any:
    """A JSON value with all its strings `printable`, names included; tuples stay tuples."""
    if isinstance(value, str):
        return printable(value)
    if isinstance(value, Mapping):
        return {escaped(name): escaped(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(map(escaped, value))
    return value


def json_text(data: Any, *, indent: int | None = 1) -> str:
    r"""Data as JSON; characters that are not printable become ``\u`` escapes, so a reader gets the same strings.

    Examples
    --------
    >>> print(json_text({"é": "\x1b\u202e"}, indent=None))
    {"é": "\u001b\u202e"}
    """
    text = json.dumps(data, indent=indent, ensure_ascii=False, allow_nan=False)
    lines = (
        line
        if line.isprintable()
        else "".join(letter if letter.isprintable() else json.dumps(letter)[1:-1] for letter in line)
        for line in text.split("\n")
    )
    return "\n".join(lines)


def strict_json(text: str | bytes) -> Any:
    """Parse JSON in UTF-8.

    ValueError if it is not JSON or has over 100 levels, an object has a name twice, a number is not finite, or a text
    has half a surrogate pair.

    Examples
    --------
    >>> strict_json('{"a": 1, "a": 2}')
    Traceback (most recent call last):
        ...
    ValueError: an object has the name 'a' twice
    """
    text = text.decode("utf-8") if isinstance(text, bytes) else text
    try:
        value = json.loads(text, object_pairs_hook=_distinct, parse_float=_finite, parse_constant=_finite)
        deep = _levels(value) > _DEEPEST
    except RecursionError:
        deep = True
    if deep:
        raise ValueError(f"it has more than {_DEEPEST} levels")
    if re.search(r"\\u[dD][89a-fA-F]", text):  # a pair of surrogates is a character, one alone has no UTF-8
        json.dumps(value, ensure_ascii=False).encode("utf-8")
    return value


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) < len(pairs):
        name = Counter(name for name, _ in pairs).most_common(1)[0][0]
        raise ValueError(f"an object has the name {name!r:.100} twice")
    return values


def _finite(text: str) -> float:
    if not math.isfinite(number := float(text)):
        raise ValueError(f"the number {text:.100} is not finite")
    return number


def _levels(value: Any) -> int:
    """How many lists and objects are within one another."""
    items = value.values() if isinstance(value, dict) else value if isinstance(value, list) else None
    return 0 if items is None else 1 + max(map(_levels, items), default=0)


class FileFormatError(ValueError):
    """A file is invalid: missing, truncated, of another kind, with wrong shapes, or with entries not finite."""


def read_json(path: Path, what: str) -> dict[str, Any]:
    """The JSON object in a file, its strings `printable`."""
    require_file(path)
    if path.stat().st_size > JSON_LIMIT:
        raise wrong(path, f"the {what} has more than {JSON_LIMIT} bytes")
    return dict(escaped(json_object(path, what, path.read_bytes)))


def wrong(path: Path, what: str) -> FileFormatError:
    """The error that says what is wrong with a file, on one line."""
    return FileFormatError(f"{path}: {' '.join(what.split())}.")


def guarded(path: Path, what: str, use: Callable[[], Any]) -> Any:
    """The result of `use`; any error that it raises becomes a FileFormatError."""
    try:
        return use()
    except FileFormatError:
        raise
    except BaseException as error:
        # a panic in a library's Rust code is not an Exception; do not catch KeyboardInterrupt
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
            raise
        reason = getattr(error, "strerror", None) or str(error).strip().split("\n")[0].rstrip(".")[:200]
        raise wrong(path, f"{what} ({reason or type(error).__name__})") from None


def require_finite(path: Path, name: str, array: np.ndarray) -> np.ndarray:
    """The array of a file; a FileFormatError if it has entries that are not finite."""
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        raise wrong(path, f"{name} holds NaN or infinite entries")
    return array


def require_file(path: Path) -> None:
    """A FileFormatError if there is no such file, or it is a directory or a device."""
    if not guarded(path, "the file cannot be opened", lambda: os.path.exists(path)):
        raise wrong(path, "there is no such file")
    if not path.is_file():  # opening a pipe would block forever
        raise wrong(path, "a file is needed, and this is a directory or a device")


def json_object(path: Path, what: str, text: Callable[[], str | bytes]) -> dict[str, Any]:
    """The JSON object that a text from a file is."""
    value = guarded(path, f"the {what} is not valid JSON", lambda: strict_json(text()))
    if not isinstance(value, dict):
        raise wrong(path, f"the {what} is not a JSON object")
    return value

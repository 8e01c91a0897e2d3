"""Matrices and named numbers as text: of fplll, of LWE challenges, of JSON, and of Python."""

import re
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Int

from attention.files import guarded, require_file, wrong
from attention.foreign import strict_json

__all__ = ["matrix_of_text", "named_values", "names_samples", "read_text", "text_of_array"]

_ROW = re.compile(r"\[[^\[\]]*\]")
_PLAIN = re.compile(r"[-+\d,\s]*\d[-+\d,\s]*")
_NAME = re.compile(r"""(?:^[ \t]*|[{,]\s*)(?:([A-Za-z_]\w*)[ \t]*=(?!=)|["']([A-Za-z_]\w*)["']\s*:)""", re.M)
_SAMPLES = re.compile(rb"""(?:^|[\s{,"'])[AbXy]["']?\s*[:=]\s*[\w.]*\s*[(\[]""")
_BITS = str.maketrans("()", "[]")


def read_text(path: Path) -> str:
    """The text of a file."""
    require_file(path)
    text: str = guarded(path, "the file is no valid text", lambda: path.read_text(encoding="ascii"))
    return text


def names_samples(start: bytes) -> bool:
    """Whether the start of a file gives A, b, X or y a value in brackets, as JSON or Python do."""
    return re.match(rb"[\s{\"'A-Za-z_#]", start) is not None and _SAMPLES.search(start) is not None


def named_values(path: Path) -> dict[str, Any]:
    """The names in a file of JSON, or of Python text such as "q = 7" or {'q': 7}, and their numbers and arrays.

    Python text is read as data and never run: lists and tuples of whole numbers, perhaps inside ``array(...)``, and
    numbers. Names with other values are left out.
    """
    text = read_text(path)
    if path.suffix == ".json" or re.match(r'\s*\{\s*"', text):
        data = guarded(path, "it is no valid JSON", lambda: strict_json(text))
        if not isinstance(data, dict):
            raise wrong(path, "it is JSON without names: an object with q, A and b is needed")
        return {name: _array_of_lists(path, name, value) for name, value in data.items()}
    text = re.sub(r"#[^\n]*", "", text)
    names = list(_NAME.finditer(text))
    found: dict[str, Any] = {}
    for match, end in zip(names, [*(one.start() for one in names[1:]), len(text)], strict=True):
        name, value = match[1] or match[2], _value(path, text[match.end() : end].strip(" \t\r\n,;}"))
        if name in found:
            raise wrong(path, f"it gives {name} two values")
        if value is not None:
            found[name] = value
    return found


def matrix_of_text(path: Path, text: str) -> Int[np.ndarray, "..."]:
    """The matrix or vector of whole numbers in a text such as [[1 2][3 4]], with or without the brackets."""
    if _PLAIN.fullmatch(text):
        rows = [f"[{line}]" for line in text.splitlines() if line.strip(" \t,")]
        matrix = _rows(path, rows)
        return matrix.ravel() if 1 in matrix.shape else matrix
    rows = _ROW.findall(text)
    skeleton = _skeleton(text)
    if skeleton not in ("r" * max(1, len(rows)), f"[{'r' * len(rows)}]"):
        raise wrong(path, "the file is no valid .npy file and no matrix such as [[1 2][3 4]]")
    matrix = _rows(path, rows)
    return matrix[0] if skeleton == "r" else matrix


def text_of_array(array: np.ndarray) -> str:
    """A vector or a matrix of whole numbers in brackets, without commas."""
    if array.ndim == 1:
        return f"[{' '.join(map(str, array.tolist()))}]"
    return "[" + "\n".join(map(text_of_array, array)) + "]"


def _array_of_lists(path: Path, name: str, value: Any) -> Any:
    if not isinstance(value, list):
        return value
    return guarded(path, f"{name} has rows of different lengths", lambda: np.array(value))


def _value(path: Path, text: str) -> Any:
    """The array or number that a Python text stands for; None if it is neither."""
    if "[" in text or text.startswith("("):
        text = text[text.index("[") : text.rindex("]") + 1] if "[" in text and "]" in text else text
        text = text.translate(_BITS).replace("True", "1").replace("False", "0")
        return matrix_of_text(path, text)
    for number in (int, float):
        try:
            return number(text.partition("\n")[0])
        except ValueError:
            continue
    return None


def _skeleton(text: str) -> str:
    """The text with "r" for each row in brackets, without white space and commas."""
    return re.sub(r"[\s,]", "", _ROW.sub("r", text))


def _rows(path: Path, rows: list[str]) -> Int[np.ndarray, "rows columns"]:
    numbers = [row[1:-1].replace(",", " ").split() for row in rows]
    if len({len(row) for row in numbers}) != 1:
        raise wrong(path, "its rows have different lengths, or there are none")
    return np.asarray(
        guarded(
            path,
            "its entries are not whole numbers of at most 64 bits",
            lambda: np.array([[int(entry) for entry in row] for row in numbers], dtype=np.int64),
        )
    )

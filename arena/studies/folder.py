"""The folder of studies: for each its record, its figure, its table and its page, and an overview of all."""

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from arena._csv import csv_text
from arena.studies.pages import render_index, render_page
from arena.studies.registry import STUDIES, find_study
from arena.studies.running import StudyResult
from arena.studies.study import Study
from attention.errors import FileFormatError
from attention.files import write_whole
from paper_checks import Scale

__all__ = ["load_result", "write_index", "write_study"]

_VERSION = 1


def write_study(folder: str | os.PathLike[str], study: Study, result: StudyResult) -> list[Path]:
    """Write what came of a study: ``.json`` with its rows, ``.csv``, ``.svg``, ``.pdf`` and the page, ``.rst``.

    Returns
    -------
    list of path
        The files.

    Raises
    ------
    ValueError
        If no cell was measured.
    OSError
        If one cannot be written.
    """
    if not result.rows:
        raise ValueError(f"No cell of the study {study.name} was measured: there is nothing to write.")
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    figure = study.draw(result.rows)
    header = tuple(dict.fromkeys(name for row in result.rows for name in row))
    texts = {
        "json": _record(result),
        "csv": csv_text(header, ([_flat(row.get(name)) for name in header] for row in result.rows)),
        "rst": render_page(study, result, alt=figure.words),
    }
    written = []
    for ending, text in texts.items():
        written.append(folder / f"{study.name}.{ending}")
        write_whole(written[-1], text.encode())
    return [figure.save(folder / f"{study.name}.{ending}") for ending in ("svg", "pdf")] + written


def write_index(folder: str | os.PathLike[str]) -> Path:
    """Write the overview of the studies whose records are in a folder.

    Raises
    ------
    FileFormatError
        If one of them is no record of a study.
    OSError
        If it cannot be written.
    """
    folder = Path(folder)
    names = [name for name in STUDIES if (folder / f"{name}.json").is_file()]
    results = {name: load_result(folder / f"{name}.json") for name in names}
    write_whole(folder / "index.rst", render_index(results, [find_study(name) for name in names]).encode())
    return folder / "index.rst"


def load_result(path: str | os.PathLike[str]) -> StudyResult:
    """The record that `write_study` wrote.

    Raises
    ------
    FileFormatError
        If the file is no such record.
    OSError
        If it cannot be read.
    """
    text = Path(path).read_bytes()
    try:
        data: Any = json.loads(text)
        if data["version"] != _VERSION:
            raise ValueError(f"its version is {data['version']!r}, not {_VERSION}")
        return StudyResult(
            str(data["study"]),
            Scale(data["scale"]),
            int(data["seed"]),
            tuple(_rows(data["rows"])),
            tuple(str(one) for one in data["failures"]),
            str(data["fingerprint"]),
            dict(data["versions"]),
        )
    except (ValueError, KeyError, TypeError) as error:
        raise FileFormatError(
            f"{path} is no record of a study ({error}): take it away or give another folder."
        ) from None


def _record(result: StudyResult) -> str:
    data = {
        "version": _VERSION,
        "study": result.study,
        "scale": result.scale.value,
        "seed": result.seed,
        "fingerprint": result.fingerprint,
        "versions": dict(result.versions),
        "failures": list(result.failures),
        "rows": list(result.rows),
    }
    head, tail = json.dumps({**data, "rows": []}, ensure_ascii=False, indent=1).rsplit("[]", 1)
    rows = ",\n".join(
        "  " + json.dumps(row, ensure_ascii=False, allow_nan=False, separators=(", ", ": "))
        for row in result.rows
    )
    return f"{head}[\n{rows}\n ]{tail}\n"


def _rows(rows: Sequence[Any]) -> Sequence[Any]:
    if not all(isinstance(row, dict) for row in rows):
        raise ValueError("a row is no object")
    return rows


def _flat(value: Any) -> Any:
    """A list or an object in a cell of a table, as JSON."""
    return json.dumps(value) if isinstance(value, list | dict) else value

"""A study in a folder: its record, its table, its figure, and its page with the numbers of the record."""

import csv
import io
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from attention import FileFormatError
from attention.files import write_whole
from runs import Scale
from runs.figures import save_figure
from studies.running import StudyResult
from studies.study import Study

__all__ = ["load_result", "render_page", "result_json", "write_study"]

_VERSION = 1


def write_study(folder: str | os.PathLike[str], study: Study, result: StudyResult) -> list[Path]:
    """Write NAME.json with the rows, NAME.csv with the table, and the figure as NAME.svg and NAME.pdf.

    If the folder has a template of a page, NAME.rst.j2, the page NAME.rst is written from it, too. Records keep six
    digits of every measured number.

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
    result = replace(result, rows=tuple(_six_digits(row) for row in result.rows))
    record = {"version": _VERSION, **result_json(result)}
    rows = record.pop("rows")
    head, *lines = (json.dumps(one, ensure_ascii=False, allow_nan=False) for one in (record, *rows))
    text = f'{head[:-1]}, "rows": [\n' + ",\n".join(lines) + "\n]}\n"  # a row a line, for git
    write_whole(folder / f"{study.name}.json", text.encode())
    table, out = study.table(result.rows), io.StringIO()
    writer = csv.DictWriter(out, list(table[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(table)
    write_whole(folder / f"{study.name}.csv", out.getvalue().encode())
    figure = study.figure(result.rows)
    figures = [save_figure(figure, folder / f"{study.name}.{ending}") for ending in ("svg", "pdf")]
    files = [folder / f"{study.name}.json", folder / f"{study.name}.csv", *figures]
    template, page = (folder / f"{study.name}.{ending}" for ending in ("rst.j2", "rst"))
    if template.is_file():
        write_whole(page, render_page(template.read_text(encoding="utf-8"), study, result).encode())
        files.append(page)
    return files


def _six_digits(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _six_digits(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_six_digits(one) for one in value]
    return float(f"{value:.6g}") if isinstance(value, float) else value


def result_json(result: StudyResult) -> dict[str, Any]:
    """A result as JSON values, with the rows last."""
    parts = {**vars(result), "scale": result.scale.value}
    return {name: parts[name] for name in ("study", "scale", "seed", "versions", "failures", "rows")}


def load_result(path: str | os.PathLike[str]) -> StudyResult:
    """The record that `write_study` wrote.

    Raises
    ------
    FileFormatError
        If the file is not such a record.
    OSError
        If it cannot be read.
    """
    text = Path(path).read_bytes()
    try:
        data = json.loads(text)
        if data["version"] != _VERSION:
            raise ValueError(f"its version is {data['version']!r}, not {_VERSION}")
        rows, failures = tuple(data["rows"]), tuple(data["failures"])
        return StudyResult(
            data["study"], Scale(data["scale"]), data["seed"], rows, failures, data["versions"]
        )
    except (ValueError, KeyError, TypeError) as error:
        raise FileFormatError(
            f"{path} is no record of a study ({error}): take it away or give another folder."
        ) from None


def render_page(page: str, study: Study, result: StudyResult) -> str:
    """A page of the documentation with the numbers of a study filled in.

    Parameters
    ----------
    page : str
        A jinja2 template. It may use `n`, the result of `Study.numbers`; `table`; `cells`, the number of measured
        cells; `scale`; `seed`; `versions`.
    study : Study
        The study.
    result : StudyResult
        Its record.

    Raises
    ------
    jinja2.UndefinedError
        If the template uses another name.
    """
    from jinja2 import Environment, StrictUndefined

    template = Environment(undefined=StrictUndefined, keep_trailing_newline=True).from_string(page)
    return template.render(
        n=study.numbers(result.rows),
        table=_simple_table(study.table(result.rows)),
        cells=len(result.rows),
        scale=result.scale.value,
        seed=result.seed,
        versions=", ".join(f"{name} {version}" for name, version in sorted(result.versions.items())) + ".",
    )


def _simple_table(table: Sequence[Mapping[str, str]]) -> str:
    """A table of reStructuredText that reads as it stands."""
    # bars would be read as a substitution, a dash as a list, an empty first cell as a line that goes on
    rows = [
        ["–" if text == "-" else text.replace("|", r"\|") for text in row]
        for row in ([*table[0]], *([*line.values()] for line in table))
    ]
    rows = [[row[0] or "\\", *row[1:]] for row in rows]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    rule = "  ".join("=" * max(width, 1) for width in widths)
    lines = [
        "  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip() for row in rows
    ]
    body = [rule, lines[0], rule, *lines[1:], rule]
    return "\n".join([".. table::", "   :class: study", "", *(f"   {line}" for line in body)])

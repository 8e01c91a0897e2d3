"""A study in a folder: its record, its figure, and its page with the numbers of the record."""

import csv
import io
import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

from attention import FileFormatError
from attention.files import write_whole
from runs import Scale
from runs.figures import save_figure
from studies.rows import chosen, number_text
from studies.study import Study, StudyResult, Table

_DIGITS = 5  # of a measured number in a record


def write_study(folder: str | os.PathLike[str], study: Study, result: StudyResult) -> list[Path]:
    """Write the record NAME.csv, and the figure as NAME.svg and NAME.pdf.

    The first line of a record is `#` and a JSON object of the study, scale, seed and versions. Then come the rows, with
    five digits of every measured number; an empty entry is None. If the folder has a template of a page, NAME.rst.j2,
    the page NAME.rst is written from it, too.

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
    names = dict.fromkeys(name for row in result.rows for name in row)
    rows = tuple({name: _rounded(row.get(name)) for name in names} for row in result.rows)
    result, out = replace(result, rows=rows), io.StringIO()
    out.write(f"# {json.dumps(_origin(result))}\n")
    writer = csv.writer(out, lineterminator="\n")
    writer.writerows([names, *([_entry(value) for value in row.values()] for row in rows)])
    files = [folder / f"{study.name}.csv"]
    write_whole(files[0], out.getvalue().encode())
    figure = study.figure(rows)
    files += [save_figure(figure, folder / f"{study.name}.{ending}") for ending in ("svg", "pdf")]
    template, page = (folder / f"{study.name}.{ending}" for ending in ("rst.j2", "rst"))
    if template.is_file():
        write_whole(page, render_page(template.read_text(encoding="utf-8"), study, result).encode())
        files.append(page)
    return files


def _rounded(value: Any) -> Any:
    return float(f"{value:.{_DIGITS}g}") if isinstance(value, float) else value


def _entry(value: Any) -> str:
    """A value in a record: JSON, but texts without quotes where they cannot be mistaken."""
    if value is None:
        return ""
    return value if isinstance(value, str) and value == _value(value) else json.dumps(value, allow_nan=False)


def _value(entry: str) -> Any:
    try:
        return json.loads(entry) if entry else None
    except ValueError:
        return entry


def _origin(result: StudyResult) -> dict[str, Any]:
    return {
        "study": result.study,
        "scale": result.scale.value,
        "seed": result.seed,
        "versions": dict(result.versions),
    }


def result_json(result: StudyResult) -> dict[str, Any]:
    """A result as JSON values, with the rows last."""
    return {**_origin(result), "failures": result.failures, "rows": result.rows}


def load_result(path: str | os.PathLike[str]) -> StudyResult:
    """The record that `write_study` wrote.

    Raises
    ------
    FileFormatError
        If the file is not such a record.
    OSError
        If it cannot be read.
    """
    try:
        first, _, text = Path(path).read_bytes().decode().partition("\n")
        if not first.startswith("# "):
            raise ValueError("its first line is no comment")
        origin = json.loads(first[2:])
        names, *lines = csv.reader(io.StringIO(text), strict=True)
        rows = tuple(dict(zip(names, map(_value, line), strict=True)) for line in lines)
        return StudyResult(
            origin["study"], Scale(origin["scale"]), origin["seed"], rows, versions=origin["versions"]
        )
    except (ValueError, KeyError, TypeError, csv.Error) as error:
        raise FileFormatError(
            f"{path} is no record of a study ({error}): take it away or give another folder."
        ) from None


def render_page(page: str, study: Study, result: StudyResult) -> str:
    """A page of the documentation with the numbers of a study filled in.

    Parameters
    ----------
    page : str
        A jinja2 template. It may use `n`, the result of `Study.numbers`; `tables`; `cells`, the number of measured
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
        n={name: number_text(value) for name, value in study.numbers(result.rows).items()},
        tables={name: _simple_table(lines) for name, lines in study.tables(result.rows).items() if lines},
        cells=sum(any(chosen(result.rows, **cell)) for cell in study.cells(result.scale)),
        scale=result.scale.value,
        seed=result.seed,
        versions=", ".join(f"{name} {version}" for name, version in sorted(result.versions.items())) + ".",
    )


def text_table(lines: Table) -> list[list[str]]:
    """The titles and the lines of a table as texts."""
    return [list(line) for line in lines[:1]] + [
        [number_text(value) for value in line.values()] for line in lines
    ]


def _simple_table(table: Table) -> str:
    """A table of reStructuredText that reads as it stands."""
    # bars would be read as a substitution, a dash as a list, an empty first cell as a line that goes on
    rows = [["–" if text == "-" else text.replace("|", r"\|") for text in row] for row in text_table(table)]
    rows = [[row[0] or "\\", *row[1:]] for row in rows]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    rule = "  ".join("=" * max(width, 1) for width in widths)
    lines = [
        "  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip() for row in rows
    ]
    body = [rule, lines[0], rule, *lines[1:], rule]
    return "\n".join([".. table::", "   :class: study", "", *(f"   {line}" for line in body)])

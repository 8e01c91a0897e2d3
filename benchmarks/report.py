"""Output shared by the benchmarks: tables, JSON, figures."""

import json
import platform
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from arena.formats import as_plain
from runs.figures import canvas, save_figure

Json = Annotated[Path | None, typer.Option("--json", help="where to write the figures")]
Svg = Annotated[Path | None, typer.Option("--svg", help="where to draw them")]


def end_with(complaints: Iterable[str]) -> None:
    """End with a failure and a sentence for each goal that is missed, if one is."""
    if words := "\n".join(complaints):
        sys.exit(words)


def show_table(
    title: str, columns: Sequence[str], rows: Sequence[Sequence[str]], *, width: int = 130
) -> None:
    """Print a table; columns whose name begins with "<" are aligned to the left."""
    table = Table(title=title)
    for name in columns:
        table.add_column(name.removeprefix("<"), justify="left" if name.startswith("<") else "right")
    for row in rows:
        table.add_row(*row)
    Console(width=width).print(table)


def case_words(row: Any) -> str:
    """The shape of a case for a table, "m,k,d"."""
    return f"{row['m']},{row['k']},{row['d']}"


def write_json(path: Path | None, found: Any) -> None:
    """Write the results to a file, if one is given: of lists an item a line, for git."""
    if path is None:
        return
    parts = []
    for name, value in as_plain(found).items():
        items = value if isinstance(value, list) else [value]
        text = ",\n".join(json.dumps(item, allow_nan=False) for item in items)
        parts.append(f"{json.dumps(name)}: " + (f"[\n{text}\n]" if isinstance(value, list) else text))
    path.write_text("{" + ",\n".join(parts) + "}\n", encoding="utf-8")


def machine() -> dict[str, Any]:
    """The machine of the one-thread figures."""
    return {"machine": platform.processor() or platform.machine(), "threads": 1}


@contextmanager
def drawing(path: Path | None, size: tuple[float, float]) -> Iterator[Any]:
    """A figure that is written as SVG when the context ends; the same numbers give the same file."""
    with canvas(*size) as figure:
        figure.set_layout_engine("constrained")
        yield figure
        if path is not None:
            save_figure(figure, path)

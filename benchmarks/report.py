"""Output shared by the benchmarks: tables, JSON, figures."""

import io
import json
import platform
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from arena.formats import as_plain

__all__ = ["case_words", "drawing", "machine", "show_table", "write_json"]


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
    """Write the results to a file, if one is given."""
    if path is not None:
        path.write_text(json.dumps(as_plain(found), indent=1, allow_nan=False) + "\n", encoding="utf-8")


def machine() -> dict[str, Any]:
    """The machine of the one-thread figures."""
    return {"machine": platform.processor() or platform.machine(), "threads": 1}


@contextmanager
def drawing(path: Path | None, title: str, size: tuple[float, float]) -> Iterator[Any]:
    """A figure that is written as SVG when the context ends; the same numbers give the same file."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    with rc_context({"svg.fonttype": "none", "svg.hashsalt": title}):
        figure = Figure(figsize=size, layout="constrained")
        yield figure
        if path is not None:
            out = io.StringIO()
            figure.savefig(out, format="svg", metadata={"Date": None, "Title": title})
            path.write_text(out.getvalue(), encoding="utf-8")

"""The comparison as a table in the terminal: targets down, learners across."""

import io
import sys
from typing import TYPE_CHECKING, Any

from arena.results import Results, TargetRecord
from arena.summary import BROKEN, Summary
from arena.words import (
    LEGEND,
    family,
    findings,
    hardness_meaning,
    in_order,
    losses,
    outcome_words,
    printable,
    seeds_note,
    seeds_wanted,
    short_count,
    short_error,
    short_seconds,
    verdict_meaning,
)

if TYPE_CHECKING:
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

__all__ = ["print_table", "results_table", "table_text"]

_TARGET_WIDTH, _CELL_WIDTH, _GAP = 22, 13, 2
_STYLES = {"learned": "bold green", "partly": "yellow", "nothing": "red"} | dict.fromkeys(BROKEN, "bold red")
# dashes, not box-drawing characters: pipes, logs and every encoding take them
_LINES = "    \n    \n -- \n    \n -- \n    \n    \n    \n"


def print_table(results: Results, *, file: Any = None, width: int | None = None) -> None:
    """Print the table, what it says, and its legend.

    Parameters
    ----------
    results : Results
        The comparison.
    file : text file, optional
        Where to; standard output unless given. What is not a terminal gets no colours.
    width : int, optional
        Columns; the terminal's own unless given, 100 where there is no terminal.
    """
    from rich.console import Console

    file = sys.stdout if file is None else file
    if width is None and not file.isatty():
        width = 100
    console = Console(file=file, width=width, highlight=False, emoji=False, markup=False)
    encoding = getattr(file, "encoding", None) or "utf-8"
    try:
        table_text(results).encode(encoding)
    except UnicodeEncodeError:
        # a name the encoding lacks must not end the run: it loses its letters, and the table its colours
        file.write(table_text(results, width=console.width).encode(encoding, "replace").decode(encoding))
    else:
        console.print(results_table(results, width=console.width))


def table_text(results: Results, *, width: int = 100) -> str:
    """The table as plain text without colours, `width` columns wide at most."""
    from rich.console import Console

    out = io.StringIO()
    console = Console(
        file=out,
        width=width,
        highlight=False,
        emoji=False,
        markup=False,
        color_system=None,
        force_terminal=False,
        legacy_windows=False,
    )
    console.print(results_table(results, width=width))
    return "".join(line.rstrip() + "\n" for line in out.getvalue().splitlines())


def results_table(results: Results, *, width: int = 100) -> "Group":
    """The table as something `rich` prints.

    Parameters
    ----------
    results : Results
        The comparison.
    width : int
        Columns to fill; learners that do not fit side by side go into a second table below.
    """
    from rich.console import Group
    from rich.text import Text

    names = [learner.name for learner in results.learners]
    fit = max(1, (width - _TARGET_WIDTH) // (_CELL_WIDTH + _GAP))
    # two tables of about the same width read better than a full one and a rest
    bands = -(-len(names) // fit) or 1
    size = -(-len(names) // bands) or 1
    tables = [_band(results, names[first : first + size]) for first in range(0, len(names) or 1, size)]
    said = [Text(printable(sentence), style="bold") for sentence in findings(results)]
    notes = [Text(printable(note), style="red") for note in losses(results)]
    labels = hardness_meaning(results)
    legend = Text(
        f"\nError on the unknown part, median over seeds: {LEGEND}.\n"
        f"{verdict_meaning().capitalize()}. ex: examples drawn." + (f"\n{labels}." if labels else ""),
        style="dim",
    )
    spaced = [line for table in tables for line in (table, Text(""))]
    return Group(*spaced, *said, *notes, legend)


def _band(results: Results, names: list[str]) -> "Table":
    from rich.box import Box
    from rich.table import Table
    from rich.text import Text

    table = Table(box=Box(_LINES, ascii=True), show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column("Target", width=_TARGET_WIDTH)
    for name in names:
        title = Text(printable(results.learner(name).title))
        table.add_column(title, width=_CELL_WIDTH, overflow="fold", vertical="top")
    wanted = seeds_wanted(results)
    for target in in_order(results):
        cells = [_cell(results.summary(target.name, name), wanted) for name in names]
        table.add_row(_target(target), *cells, end_section=True)
    return table


def _target(target: TargetRecord) -> "Text":
    from rich.text import Text

    text = Text(f"{family(target)}\n" if target.has_secret else "", style="bold magenta", overflow="fold")
    text.append(printable(target.title), style="bold not magenta" if target.has_secret else "bold")
    return text.append(f"\nm={target.heads} k={target.tokens} d={target.dim}", style="not bold dim default")


def _cell(summary: Summary, wanted: int) -> "Text":
    from rich.text import Text

    style = _STYLES.get(summary.verdict, "dim")
    if summary.status != "done":
        return Text(summary.verdict, style=style)
    text = Text(f"{short_error(summary.error)} {summary.verdict}", style=style)
    cost = f"{short_count(summary.examples)} ex {short_seconds(summary.seconds).replace(' ', '')}"
    text.append(f"\n{cost}", style="not bold default")
    text.append(f"\n{outcome_words(summary)}", style="not bold dim default")
    note = seeds_note(summary, wanted)
    return text.append(f"\n{note}", style="not bold red") if note else text

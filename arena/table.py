"""The comparison as a table in the terminal: targets down, learners across."""

import io
import math
import sys
from typing import TYPE_CHECKING, Any

from arena.comparison_record import ComparisonRecord
from arena.formats import count_text, error_text, seconds_text
from arena.records import TargetRecord
from arena.summary import LEARNED, NOTHING, Summary
from attention.evaluation import CONFIDENCE
from attention.outcome import Outcome

if TYPE_CHECKING:
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

__all__ = ["LINES", "legend", "outcome_legend", "print_table", "rendered", "table_text"]

_TARGET_WIDTH, _CELL_WIDTH, _GAP = 22, 13, 2
_STYLES = {"learned": "bold green", "partly": "yellow", "nothing": "red", "failed": "bold red"}
LINES = "    \n    \n -- \n    \n -- \n    \n    \n    \n"
"""The lines of a table: dashes, not box-drawing characters, because they work in pipes, logs and every encoding."""


_LABELS = {
    "at tau": "N queries at tau of M targets: at least N correlational queries of tolerance tau are needed (proved); "
    "other learners may be fast.",
    "assumed": "Assumed: that problem is assumed to be hard; a failed attack is no claim of security.",
    "estimate": "Estimate: heuristic.",
}
"""What the words of labels mean."""


def print_table(results: ComparisonRecord, *, file: Any = None, width: int | None = None) -> None:
    """Print the table and its legend.

    Parameters
    ----------
    results : Results
        The comparison.
    file : text file, optional
        The output; by default standard output. Colours appear only on a terminal.
    width : int, optional
        Columns; by default the width of the terminal, or 100 without a terminal.
    """
    from rich.console import Console

    file = sys.stdout if file is None else file
    if width is None and not file.isatty():
        width = 100
    console = Console(file=file, width=width, highlight=False, emoji=False, markup=False)
    encoding = getattr(file, "encoding", None) or "utf-8"
    text = table_text(results, width=console.width)
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        # a name that cannot be encoded must not end the run: its letters are replaced, and the table has no colours
        file.write(text.encode(encoding, "replace").decode(encoding))
    else:
        console.print(_table(results, console.width))


def table_text(results: ComparisonRecord, *, width: int = 100) -> str:
    """The table as plain text without colours, at most `width` columns wide."""
    return rendered(_table(results, width), width=width)


def rendered(shown: Any, *, width: int = 100) -> str:
    """A renderable of rich as plain text without colours, at most `width` columns wide."""
    from rich.console import Console

    out = io.StringIO()
    Console(
        file=out,
        width=width,
        highlight=False,
        emoji=False,
        markup=False,
        color_system=None,
        legacy_windows=False,
    ).print(shown)
    return "".join(line.rstrip() + "\n" for line in out.getvalue().splitlines())


def legend(results: ComparisonRecord) -> list[str]:
    """What the error, the verdicts and the labels of the targets mean, and how learners see a target if they differ."""
    labels = [target.label for target in results.targets if target.certificate is not None]
    seen: dict[str, list[str]] = {}
    for learner in results.learners:
        seen.setdefault(learner.access, []).append(learner.title)
    sights = [f"From {access}: {', '.join(titles)}." for access, titles in seen.items()]
    bounded = any(cell.error_rate_bound is not None for cell in results.cells)
    vouched = f"<=7%: with confidence {CONFIDENCE:g}, the fit is wrong on at most 7% of inputs."
    return [
        "Error on the unknown part, median over seeds: 1.0 = nothing learned beyond what is known in advance.",
        f"Learned: at most {LEARNED:g}. Nothing: at least {NOTHING:g}. Partly: in between.",
        *((vouched,) if bounded else ()),
        *(meaning for words, meaning in _LABELS.items() if any(words in label for label in labels)),
        *(sights if seen.keys() - {"random examples"} else ()),
    ]


def outcome_legend(results: ComparisonRecord) -> list[str]:
    """What the outcomes in the table mean."""
    names = sorted({cell.outcome for cell in results.cells if cell.fitted} & set(Outcome.__members__))
    lines = []
    for name in names:
        meaning = str(Outcome[name]).split(";")[0].rstrip(".")
        lines.append(f"{name.lower().replace('_', ' ')}: {meaning.partition(': ')[2] or meaning}.")
    return lines


def _table(results: ComparisonRecord, width: int) -> "Group":
    from rich.console import Group
    from rich.text import Text

    names = [learner.name for learner in results.learners]
    fit = max(1, (width - _TARGET_WIDTH) // (_CELL_WIDTH + _GAP))
    # two tables of about equal width read better than a full one and a small rest
    bands = -(-len(names) // fit) or 1
    size = -(-len(names) // bands) or 1
    parts: list[Any] = []
    for first in range(0, len(names) or 1, size):
        parts += [_band(results, names[first : first + size]), Text("")]
    for row in results.tallies:
        found = "; ".join(f"{one.family}: {one.text}" for one in row)
        parts.append(Text(f"{row[0].learner}: {found}.", style="bold") if row else Text(""))
    for cell in results.cells:
        if cell.status.lost:
            where = f"{cell.learner} on {cell.target}, seed {cell.seed}, {cell.status}: {cell.message}"
            parts.append(Text(where, style="red"))
    units = "m: heads. k: tokens. d: coordinates. ex: examples drawn."
    if any(_asks(results, name) for name in names):
        units += " q: value queries asked."
    lines = (*legend(results), *outcome_legend(results), units)
    return Group(*parts, Text(""), *(Text(line, style="dim") for line in lines))


def _band(results: ComparisonRecord, names: list[str]) -> "Table":
    from rich.box import Box
    from rich.table import Table
    from rich.text import Text

    table = Table(box=Box(LINES, ascii=True), show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column("Target", width=_TARGET_WIDTH)
    for name in names:
        title = Text(results.learner(name).title)
        table.add_column(title, width=_CELL_WIDTH, overflow="fold", vertical="top")
    for target in results.shown:
        cells = [
            _cell(results.summary(target.name, name), results.seeds, "q" if _asks(results, name) else "ex")
            for name in names
        ]
        table.add_row(_target(target), *cells, end_section=True)
    return table


def _target(target: TargetRecord) -> "Text":
    from rich.text import Text

    text = Text(
        "" if target.certificate is None else f"{target.label}\n",
        style="bold magenta",
        overflow="fold",
    )
    text.append(target.title, style="bold not magenta")
    return text.append(f"\nm={target.heads} k={target.tokens} d={target.dim}", style="not bold dim default")


def _asks(results: ComparisonRecord, learner: str) -> bool:
    return results.learner(learner).access == "value queries"


def _cell(summary: Summary, seeds: int, unit: str) -> "Text":
    from rich.text import Text

    style = _STYLES.get(summary.verdict, "dim")
    if math.isnan(summary.error):
        return Text(summary.verdict, style=style)
    text = Text(f"{error_text(summary.error)} {summary.verdict}", style=style)
    cost = f"{count_text(summary.examples)} {unit} {seconds_text(summary.seconds).replace(' ', '')}"
    text.append(f"\n{cost}", style="not bold default")
    by = f"by {summary.alone} alone" if summary.alone else ""
    ended = ", ".join(filter(None, (summary.outcome.lower().replace("_", " "), by, summary.vouched)))
    text.append(f"\n{ended}", style="not bold dim default")
    if summary.done < seeds:
        text.append(f"\n{summary.done} of {seeds} seeds", style="not bold red")
    return text

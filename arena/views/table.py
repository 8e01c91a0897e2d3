"""The comparison as a table in the terminal: targets down, learners across."""

import io
import math
import sys
from collections.abc import Mapping
from typing import Any

from rich.box import Box
from rich.console import Console, Group
from rich.table import Table
from rich.text import Text

from arena.formats import count_text, error_text, seconds_text
from arena.records import TargetRecord
from arena.results import LEARNED, NOTHING, Results, Summary
from attention.evaluation import CONFIDENCE
from attention.outcome import Outcome

# dashes, not box-drawing characters, because they work in pipes, logs and every encoding
_LINES = "    \n    \n -- \n    \n -- \n    \n    \n    \n"
_TARGET_WIDTH, _CELL_WIDTH, _GAP = 22, 13, 2
_STYLES = {"learned": "bold green", "partly": "yellow", "nothing": "red", "failed": "bold red"}
_LABELS = {
    "at tau": "N queries at tau of M targets: at least N correlational queries of tolerance tau are needed (proved); "
    "other learners may be fast.",
    "assumed": "Assumed: that problem is assumed to be hard; a failed attack is no claim of security.",
    "estimate": "Estimate: heuristic.",
}
"""What the words of labels mean."""


def print_table(results: Results, *, file: Any = None, width: int | None = None) -> None:
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
    file = sys.stdout if file is None else file
    if hasattr(file, "reconfigure"):
        file.reconfigure(errors="replace")  # a name that cannot be encoded must not end the run
    if width is None and not file.isatty():
        width = 100
    console = Console(
        file=file, width=width, highlight=False, emoji=False, markup=False, legacy_windows=False
    )
    console.print(_table(results, console.width))


def table_text(results: Results, *, width: int = 100) -> str:
    """The table as plain text without colours, at most `width` columns wide."""
    out = io.StringIO()
    print_table(results, file=out, width=width)
    return "".join(line.rstrip() + "\n" for line in out.getvalue().splitlines())


def legend(results: Results) -> list[str]:
    """What the error, the verdicts and the labels of the targets mean, and how learners see a target if they differ."""
    labels = [target.label for target in results.targets if target.certificate is not None]
    titles: dict[str, list[str]] = {}
    for learner in results.learners:
        titles.setdefault(learner.access, []).append(learner.title)
    lines = [
        "Error on the unknown part, median over seeds: 1.0 = nothing learned beyond what is known in advance.",
        f"Learned: at most {LEARNED:g}. Nothing: at least {NOTHING:g}. Partly: in between.",
    ]
    if any(cell.error_rate_bound is not None for cell in results.cells):
        lines.append(f"<=7%: with confidence {CONFIDENCE:g}, the fit is wrong on at most 7% of inputs.")
    lines += [meaning for words, meaning in _LABELS.items() if any(words in label for label in labels)]
    if titles.keys() - {"random examples"}:
        lines += [f"From {access}: {', '.join(learners)}." for access, learners in titles.items()]
    return lines


def outcome_legend(results: Results) -> list[str]:
    """What the outcomes in the table mean."""
    names = sorted({cell.outcome for cell in results.cells if cell.fitted} & set(Outcome.__members__))
    meanings = {name: str(Outcome[name]).split(";")[0].rstrip(".") for name in names}
    return [
        f"{_outcome(name)}: {meaning.partition(': ')[2] or meaning}." for name, meaning in meanings.items()
    ]


def tally_text(verdicts: Mapping[str, int]) -> str:
    """How often each verdict was given, as "3 of 5 learned", or the reason why no target has a number.

    Examples
    --------
    >>> tally_text({"learned": 3, "partly": 2}), tally_text({"failed": 4, "timed out": 1})
    ('3 of 5 learned', 'failed')
    """
    if verdicts.keys().isdisjoint({"learned", "partly", "nothing"}):
        return max(verdicts, key=verdicts.__getitem__)
    return f"{verdicts.get('learned', 0)} of {sum(verdicts.values())} learned"


def _table(results: Results, width: int) -> Group:
    names = [learner.name for learner in results.learners]
    most = max(1, (width - _TARGET_WIDTH) // (_CELL_WIDTH + _GAP))
    # two tables of about equal width read better than a full one and a small rest
    tables = -(-len(names) // most) or 1
    size = -(-len(names) // tables) or 1
    parts: list[Any] = []
    for first in range(0, len(names) or 1, size):
        parts += [_columns(results, names[first : first + size]), Text("")]
    for learner in results.learners:
        tally = "; ".join(f"{group}: {tally_text(n)}" for group, n in results.tally(learner.name).items())
        parts.append(Text(f"{learner.title}: {tally}." if tally else "", style="bold"))
    for cell in results.cells:
        if cell.status.lost:
            where = f"{cell.learner} on {cell.target}, seed {cell.seed}, {cell.status}: {cell.message}"
            parts.append(Text(where, style="red"))
    units = "m: heads. k: tokens. d: coordinates. ex: examples drawn."
    if any(learner.asks for learner in results.learners):
        units += " q: value queries asked."
    lines = (*legend(results), *outcome_legend(results), units)
    return Group(*parts, Text(""), *(Text(line, style="dim") for line in lines))


def _columns(results: Results, names: list[str]) -> Table:
    table = Table(box=Box(_LINES, ascii=True), show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column("Target", width=_TARGET_WIDTH)
    learners = [results.learner(name) for name in names]
    for learner in learners:
        table.add_column(Text(learner.title), width=_CELL_WIDTH, overflow="fold", vertical="top")
    for target in results.shown:
        cells = [
            _cell(results.summary(target.name, learner.name), results.seeds, "q" if learner.asks else "ex")
            for learner in learners
        ]
        table.add_row(_target(target), *cells, end_section=True)
    return table


def _target(target: TargetRecord) -> Text:
    label = "" if target.certificate is None else f"{target.label}\n"
    text = Text(label, style="bold magenta", overflow="fold")
    text.append(target.title, style="bold not magenta")
    return text.append(f"\nm={target.heads} k={target.tokens} d={target.dim}", style="not bold dim default")


def _cell(summary: Summary, seeds: int, unit: str) -> Text:
    style = _STYLES.get(summary.verdict, "dim")
    if math.isnan(summary.error):
        return Text(summary.verdict, style=style)
    text = Text(f"{error_text(summary.error)} {summary.verdict}", style=style)
    cost = f"{count_text(summary.examples)} {unit} {seconds_text(summary.seconds).replace(' ', '')}"
    text.append(f"\n{cost}", style="not bold default")
    alone = f"by {summary.alone} alone" if summary.alone else ""
    ended = ", ".join(filter(None, (_outcome(summary.outcome), alone, summary.vouched)))
    text.append(f"\n{ended}", style="not bold dim default")
    if summary.done < seeds:
        text.append(f"\n{summary.done} of {seeds} seeds", style="not bold red")
    return text


def _outcome(name: str) -> str:
    return name.lower().replace("_", " ")

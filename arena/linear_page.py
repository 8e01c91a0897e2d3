"""Experiments on linear attention as one self-contained HTML page: a section, tables and figures for each."""

import base64
import json
from collections.abc import Sequence
from typing import Any

from arena._inline import dark_colours, inline_figure
from arena._templates import templates
from arena.linear_figures import draw_plot
from arena.linear_words import cell_text
from paper_checks.linear_attention import Experiment, Table

__all__ = ["render_experiments"]


def render_experiments(experiments: Sequence[Experiment], *, command: str, missing: str = "") -> str:
    """The page of experiments that were run.

    Parameters
    ----------
    experiments : sequence of Experiment
        In the order of the page.
    command : str
        The command that makes it.
    missing : str
        What is not there and why, in a sentence; empty if nothing is missing.

    Returns
    -------
    str
        One HTML document that needs no network and has no script.
    """
    from markupsafe import Markup

    written = json.dumps(
        [one.to_json() for one in experiments], indent=1, ensure_ascii=False, allow_nan=False
    )
    shown = []
    for one in experiments:
        figures = [
            {
                "svg": Markup(inline_figure(draw_plot(plot).svg, f"{one.name}-{plot.name}", plot.words)),
                "words": plot.words,
            }
            for plot in one.plots
        ]
        shown.append(
            {
                "name": one.name,
                "title": one.title,
                "question": one.question,
                "findings": one.findings,
                "checks": one.checks,
                "holds": one.holds,
                "held": sum(check.holds for check in one.checks),
                "tables": [_shown(table) for table in one.tables],
                "figures": figures,
            }
        )
    page = (
        templates()
        .get_template("linear.html.j2")
        .render(
            experiments=shown,
            command=command,
            missing=missing,
            dark=dark_colours(),
            data="data:application/json;charset=utf-8;base64," + base64.b64encode(written.encode()).decode(),
        )
    )
    return str(page).lstrip()


def _shown(table: Table) -> dict[str, Any]:
    numbers = [
        any(isinstance(row[place], int | float) for row in table.rows) for place in range(len(table.columns))
    ]
    return {
        "title": table.title,
        "note": table.note,
        "columns": [
            {"title": title, "number": number} for title, number in zip(table.columns, numbers, strict=True)
        ],
        "rows": [[cell_text(value) for value in row] for row in table.rows],
    }

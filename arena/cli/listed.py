"""``attention-bounds learners`` and ``attacks``: which there are."""

from collections.abc import Sequence

import typer

from arena.attacks import ATTACKS
from arena.cli.console import JsonOption, print_json
from arena.students import STUDENTS

__all__ = ["attacks_command", "learners_command"]


def learners_command(as_json: JsonOption = False) -> None:
    """List the learners: what each promises, and the extra package it needs.

    Those marked with a star run in a comparison where no learner is named. A learner of your own is named by its file
    and class: --learners own.py:Mine.

    Example: attention-bounds learners
    """
    rows = [
        {"name": one.name, "by_default": one.by_default, "needs": one.extra, "promise": one.guarantee}
        for one in STUDENTS.values()
    ]
    if as_json:
        print_json(rows)
        return
    _show(
        ("learner", "needs", "promise"),
        [(f"{one.name}{'*' * one.by_default}", one.extra, one.guarantee) for one in STUDENTS.values()],
    )


def attacks_command(as_json: JsonOption = False) -> None:
    """List the attacks on learning with rounding and with errors.

    Example: attention-bounds attacks
    """
    rows = [
        {"name": one.name, "title": one.title, "learner_of_layers": one.learner} for one in ATTACKS.values()
    ]
    if as_json:
        print_json(rows)
        return
    kinds = [(one.name, one.title, "learner of layers" if one.learner else "") for one in ATTACKS.values()]
    _show(("attack", "title", ""), kinds)


def _show(header: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for title in header:
        table.add_column(title, no_wrap=title != header[-1])
    for row in rows:
        table.add_row(*row)
    console = Console(
        highlight=False, markup=False, width=None if typer.get_text_stream("stdout").isatty() else 100
    )
    console.print(table)

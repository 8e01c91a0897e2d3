"""``attention-bounds families``: the families of hard targets that two heads realise, and what breaks each."""

from collections.abc import Mapping, Sequence
from decimal import Decimal
from io import StringIO
from typing import Annotated, Any

import typer

from arena.cli.console import JsonOption, print_json, say
from sq import two_head_families

__all__ = ["families_command"]


def families_command(
    dim: Annotated[int, typer.Option(help="Number d of coordinates for which targets are counted.")] = 40,
    bits: Annotated[int, typer.Option(help="Number l of hidden coordinates where it is free; even.")] = 8,
    as_json: JsonOption = False,
) -> None:
    """List the hard families that two heads realise: how many targets, from which degree on, broken by what.

    Example: attention-bounds families --dim 48
    """
    rows = [
        {
            "family": one.name,
            "title": one.title,
            "formula": one.secrets.formula,
            "targets": one.secrets.size,
            "lowest_degree": one.lowest_degree,
            "broken_by": one.broken_by,
        }
        for one in two_head_families(dim=dim, bits=bits)
    ]
    if as_json:
        print_json({"dim": dim, "bits": bits, "families": rows})
    else:
        say(_table(rows, dim))


def _table(rows: Sequence[Mapping[str, Any]], dim: int) -> str:
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for title in ("family", "of", "targets", f"d = {dim}", "lowest degree", "broken by"):
        table.add_column(title, no_wrap=True)
    for row in rows:
        table.add_row(*(_short(one) if isinstance(one, int) else one for one in row.values()))
    text = StringIO()
    Console(file=text, width=400, color_system=None).print(table)
    return "\n".join(line.rstrip() for line in text.getvalue().splitlines())


def _short(number: int) -> str:
    return str(number) if number < 10**12 else f"{Decimal(number):.2e}"

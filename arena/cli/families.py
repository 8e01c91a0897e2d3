"""``attention-bounds families``: the families of hard targets that two heads realise, and what breaks each."""

from typing import Annotated

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
    families = two_head_families(dim=dim, bits=bits)
    if not as_json:
        say(str(families))
        return
    rows = [
        {
            "family": one.name,
            "formula": one.formula,
            "targets": one.targets(dim),
            "lowest_degree": one.lowest_degree,
            "broken_by": one.broken_by,
            "source": one.source,
        }
        for one in families
    ]
    print_json({"dim": dim, "bits": bits, "families": rows})

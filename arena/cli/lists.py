"""``attention-bounds learners``, ``attacks`` and ``families``: the lists of what exists."""

import shutil
import sys
import textwrap
from collections.abc import Sequence
from decimal import Decimal
from typing import Annotated, Any

import typer

from arena.cli.console import JsonOption, print_json, say
from arena.formats import aligned
from sq import two_head_families

__all__ = ["attacks_command", "families_command", "learners_command", "presets_command"]


def learners_command(as_json: JsonOption = False) -> None:
    """List the learners with their extra packages and what each promises.

    Learners with a star run in a comparison that names no learner. Name your own learner by its file and class:
    --learners own.py:Mine.

    Example: attention-bounds learners
    """
    from arena.learner_table import LEARNERS

    if as_json:
        names = {"name": "name", "by_default": "by_default", "needs": "extra", "promise": "guarantee"}
        print_json([{said: getattr(one, name) for said, name in names.items()} for one in LEARNERS.values()])
        return
    rows = [(f"{one.name}{'*' * one.by_default}", one.extra, one.guarantee) for one in LEARNERS.values()]
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else 100
    labels = aligned([("learner", "needs"), *(row[:2] for row in rows)], left=2).splitlines()
    indent = max(map(len, labels)) + 2
    for label, promise in zip(labels, ["promise", *(row[2] for row in rows)], strict=True):
        text = textwrap.wrap(promise, max(width - indent, 30))
        say("\n".join([f"{label:<{indent}}{text[0]}", *(" " * indent + line for line in text[1:])]))


def attacks_command(as_json: JsonOption = False) -> None:
    """List the attacks on learning with rounding and with errors.

    Example: attention-bounds attacks
    """
    from arena.attacks import ATTACKS
    from lwe import LearnerAttack

    if as_json:
        print_json(
            [
                {"name": name, "title": attack.title, "learner_of_layers": isinstance(attack, LearnerAttack)}
                for name, attack in ATTACKS.items()
            ]
        )
        return
    rows = [
        (name, attack.title, "learner of layers" if isinstance(attack, LearnerAttack) else "")
        for name, attack in ATTACKS.items()
    ]
    _show([("attack", "title", ""), *rows])


def presets_command(as_json: JsonOption = False) -> None:
    """List the named sets of parameters of learning with errors and with rounding.

    Example: attention-bounds presets
    """
    from lwe import PRESETS

    if as_json:
        print_json([{"name": name, **parameters.to_json()} for name, parameters in PRESETS.items()])
        return
    rows = [(name, str(parameters), str(parameters.m or "")) for name, parameters in PRESETS.items()]
    _show([("name", "parameters", "m"), *rows])


def families_command(
    dim: Annotated[int, typer.Option(help="Number d of coordinates for which targets are counted.")] = 40,
    bits: Annotated[
        int, typer.Option(help="Number l of hidden coordinates, if the family leaves it free; even.")
    ] = 8,
    as_json: JsonOption = False,
) -> None:
    """List the hard families that two heads realise: the number of targets, the lowest degree, and what breaks them.

    Example: attention-bounds families --dim 48
    """
    rows = [
        {
            "family": one.name,
            "title": one.title,
            "formula": one.secrets.formula,
            "targets": one.secrets.size,
            "lowest_degree": one.lowest_degree,
            "broken_by": ", ".join(one.broken_by),
        }
        for one in two_head_families(dim=dim, bits=bits)
    ]
    if as_json:
        print_json({"dim": dim, "bits": bits, "families": rows})
        return
    header = ("family", "of", "targets", f"d = {dim}", "lowest degree", "broken by")
    _show([header, *(tuple(map(_short, row.values())) for row in rows)])


def _show(rows: Sequence[Sequence[str]]) -> None:
    say(aligned(rows, left=len(rows[0])))


def _short(value: Any) -> str:
    return f"{Decimal(value):.2e}" if isinstance(value, int) and value >= 10**12 else str(value)

"""``attention-bounds learners``, ``attacks``, ``presets`` and ``families``: the lists of what exists."""

import shutil
import sys
import textwrap
from decimal import Decimal
from typing import Annotated, Any

import typer

from arena.cli.console import JsonOption, report
from arena.formats import aligned
from sq import two_head_families


def learners_command(as_json: JsonOption = False) -> None:
    """List the learners with their extra packages and what each promises.

    Learners with a star run in a comparison that names no learner. Name your own learner by its file and class:
    --learners own.py:Mine.

    Example: attention-bounds learners
    """
    from arena.learner_table import LEARNERS

    entries = LEARNERS.values()
    labels = [("learner", "needs"), *((f"{one.name}{'*' * one.by_default}", one.extra) for one in entries)]
    indent = "\n" + " " * (max(map(len, aligned(labels, left=2).splitlines())) + 2)
    width = max((shutil.get_terminal_size().columns if sys.stdout.isatty() else 100) - len(indent), 30)
    promises = [
        indent.join(textwrap.wrap(text, width)) for text in ["promise", *(one.guarantee for one in entries)]
    ]
    rows = [(*label, promise) for label, promise in zip(labels, promises, strict=True)]
    values = [
        {"name": one.name, "by_default": one.by_default, "needs": one.extra, "promise": one.guarantee}
        for one in entries
    ]
    report(aligned(rows, left=3), values, as_json)


def attacks_command(as_json: JsonOption = False) -> None:
    """List the attacks on learning with rounding and with errors.

    Example: attention-bounds attacks
    """
    from arena.attacking import ATTACKS
    from lwe import LearnerAttack

    learners = {name: isinstance(attack, LearnerAttack) for name, attack in ATTACKS.items()}
    rows = [(name, attack.title, "learner of layers" * learners[name]) for name, attack in ATTACKS.items()]
    values = [{"name": name, "title": title, "learner_of_layers": learners[name]} for name, title, _ in rows]
    report(aligned([("attack", "title", ""), *rows], left=3), values, as_json)


def presets_command(as_json: JsonOption = False) -> None:
    """List the named sets of parameters of learning with errors and with rounding.

    Example: attention-bounds presets
    """
    from lwe import PRESETS

    rows = [(name, str(parameters), str(parameters.m or "")) for name, parameters in PRESETS.items()]
    values = [{"name": name, **parameters.to_json()} for name, parameters in PRESETS.items()]
    report(aligned([("name", "parameters", "m"), *rows], left=3), values, as_json)


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
    values = [
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
    header = ("family", "of", "targets", f"d = {dim}", "lowest degree", "broken by")
    rows = [header, *(tuple(map(_short, one.values())) for one in values)]
    report(aligned(rows, left=len(header)), {"dim": dim, "bits": bits, "families": values}, as_json)


def _short(value: Any) -> str:
    return f"{Decimal(value):.2e}" if isinstance(value, int) and value >= 10**12 else str(value)

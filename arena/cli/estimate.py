"""``attention-bounds estimate``: the estimated cost of attacks on learning with errors or with rounding."""

from collections.abc import Sequence
from textwrap import fill
from typing import Annotated

import typer

from arena.cli.console import JsonOption, print_json, say, showing_steps
from arena.names import find_name
from lwe import PRESETS, LWEParameters, estimate, parse_distribution
from lwe.costs import Cost
from lwe.costs.reduction import CostModelName

__all__ = ["estimate_command"]

_WIDTH = 80
_LONGEST_MODULUS = 8192  # bits
_COLUMNS = ("beta", "d")


def estimate_command(
    name: Annotated[
        str | None,
        typer.Argument(
            help="A named set of parameters, instead of numbers; `attention-bounds presets` lists them."
        ),
    ] = None,
    n: Annotated[int | None, typer.Option(help="Number of entries of the secret.")] = None,
    q: Annotated[str | None, typer.Option(help="Modulus: a number, or a power such as 2^64.")] = None,
    p: Annotated[str | None, typer.Option(help="Rounding levels: a number, or a power such as 2^10.")] = None,
    Xs: Annotated[
        str,
        typer.Option(
            "--Xs",
            help="Distribution of the secret: uniform, binary, ternary, interval:-2,2, binomial:2, gaussian:3, "
            "sparse-ternary:32,32.",
        ),
    ] = "uniform",
    Xe: Annotated[
        str | None,
        typer.Option(
            "--Xe",
            help="Distribution of the errors: gaussian:3, binomial:2, interval:-2,2, sparse-ternary:127,127.",
        ),
    ] = None,
    m: Annotated[
        int | None,
        typer.Option(help="How many samples there are; by default those of the named set."),
    ] = None,
    model: Annotated[
        CostModelName,
        typer.Option(help="Cost model of lattice reduction: one sieve (core-SVP), or all gates (MATZOV)."),
    ] = "core-SVP",
    as_json: JsonOption = False,
) -> None:
    """Estimate the cost of each known attack on a problem, the cheapest first. This is no claim of security.

    The columns are named as the lattice estimator names them: rop operations, mem words of memory, m samples, beta
    block size, d dimension, eta last sieve, zeta columns left out.

    Example: attention-bounds estimate kyber512
    """
    parameters = _problem(name, n, q, p, Xs, Xe, m)
    with showing_steps("Estimates"):
        costs = estimate(parameters, model=model)
    if as_json:
        print_json([cost.to_json() for cost in costs])
        return
    if not costs:
        say("Labels do not depend on the secret: there is nothing to attack.")
        return
    say(fill(f"{f'{parameters.tag}: ' if parameters.tag else ''}{parameters}", _WIDTH))
    if parameters.m is not None:
        say(f"With at most m = {parameters.m} samples.")
    _show([cost for cost in costs if not cost.failure])
    for cost in costs:
        if cost.failure:
            say(fill(str(cost), _WIDTH))
    units = dict.fromkeys(cost.unit for cost in costs if not cost.failure)
    said = (
        f"Lattice reduction: {model}. One operation is, by attack: {', '.join(units)}. Heuristic estimates: an attack "
        "that is not listed may cost less. They are no claim of security."
    )
    say(fill(said, _WIDTH))


def _show(costs: Sequence[Cost]) -> None:
    """Print a line a cost: the numbers of lattices in columns, those of other attacks at the end."""
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table

    columns = [name for name in _COLUMNS if any(name in cost.details for cost in costs)]
    table = Table(box=SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for name in ("attack", "rop", "mem", "m", *columns):
        table.add_column(name, no_wrap=True)
    table.add_column("other")
    for cost in costs:
        numbers = dict(cost.numbers)
        named = [numbers.pop(name, "") for name in ("mem", "m", *columns)]
        other = " ".join(f"{name}={value}" for name, value in numbers.items())
        table.add_row(cost.attack, cost.rop, *named, other)
    Console(highlight=False, width=_WIDTH).print(table)


def _problem(
    name: str | None, n: int | None, q: str | None, p: str | None, Xs: str, Xe: str | None, m: int | None
) -> LWEParameters:
    if name is not None:
        if not (n is q is p is Xe is None and Xs == "uniform"):
            raise ValueError(f"{name} has numbers of its own: leave --n, --q, --p, --Xs and --Xe out.")
        found = PRESETS[find_name(name, PRESETS, "set of parameters")]
        return found if m is None else found.updated(m=m)
    if n is None or q is None or Xe is p is None:
        raise ValueError(
            "Give the name of a set of parameters, such as kyber512, or --n, --q and one of --Xe and --p: without "
            "errors or rounding there is nothing to estimate."
        )
    levels = 0 if p is None else _whole("p", p)
    secret, errors = parse_distribution(Xs), parse_distribution(Xe or "zero")
    return LWEParameters(n, _whole("q", q), levels, "uniform", secret, errors, m)


def _whole(name: str, text: str) -> int:
    base, _, power = text.partition("^")
    if not base.isdecimal() or (power and not power.isdecimal()) or len(base + power) > 2500:
        raise ValueError(f"{name} is {text[:60]!r}: a whole number, or a power such as 2^64, is needed.")
    if power and int(power) * int(base).bit_length() > _LONGEST_MODULUS:
        raise ValueError(f"{name} is {text[:60]!r}: at most 2^{_LONGEST_MODULUS // 2} is allowed.")
    return int(base) ** int(power or 1)

"""``attention-bounds estimate``: the estimated cost of attacks on learning with errors or with rounding."""

from textwrap import fill
from typing import Annotated

import typer

from arena.cli.console import JsonOption, report, say, showing_progress
from arena.formats import aligned
from arena.names import find_name
from lwe import PRESETS, LWEParameters, estimate, parse_distribution
from lwe.costs.reduction import CostModelName

_WIDTH = 80
_LONGEST_MODULUS = 8192  # bits


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
    block size, d dimension, eta last sieve, zeta guessed entries.

    Example: attention-bounds estimate kyber512
    """
    if name is not None:
        if not (n is q is p is Xe is None and Xs == "uniform"):
            raise ValueError(f"{name} has numbers of its own: leave --n, --q, --p, --Xs and --Xe out.")
        parameters = PRESETS[find_name(name, PRESETS, "set of parameters")]
        parameters = parameters if m is None else parameters.updated(m=m)
    elif n is None or q is None or Xe is p is None:
        raise ValueError(
            "Give the name of a set of parameters, such as kyber512, or --n, --q and one of --Xe and --p: without "
            "errors or rounding there is nothing to estimate."
        )
    else:
        modulus, levels = _whole("q", q), 0 if p is None else _whole("p", p)
        secret, errors = parse_distribution(Xs), parse_distribution(Xe or "zero")
        parameters = LWEParameters(n, modulus, levels, "uniform", secret, errors, m)
    with showing_progress("Estimates"):
        costs = estimate(parameters, model=model)
    if as_json or not costs:
        nothing = "Labels do not depend on the secret: there is nothing to attack."
        report(nothing, [cost.to_json() for cost in costs], as_json)
        return
    say(fill(f"{f'{parameters.tag}: ' if parameters.tag else ''}{parameters}", _WIDTH))
    if parameters.m is not None:
        say(f"With at most m = {parameters.m} samples.")
    possible = [cost for cost in costs if not cost.failure]
    # the numbers of lattices in columns, those of other attacks at the end
    own = [name for name in ("beta", "d") if any(name in cost.details for cost in possible)]
    columns, rows = ["mem", "m", *own], []
    for cost in possible:
        numbers = dict(cost.numbers)
        values = [numbers.pop(column, "") for column in columns]
        rows.append(
            (cost.attack, cost.rop, *values, " ".join(f"{name}={one}" for name, one in numbers.items()))
        )
    say(f"\n{aligned([('attack', 'rop', *columns, 'other'), *rows], left=len(columns) + 3)}\n")
    for cost in costs:
        if cost.failure:
            say(fill(str(cost), _WIDTH))
    units = dict.fromkeys(cost.unit for cost in possible)
    remark = (
        f"Lattice reduction: {model}. One operation is, by attack: {', '.join(units)}. Heuristic estimates: an attack "
        "that is not listed may cost less. They are no claim of security."
    )
    say(fill(remark, _WIDTH))


def _whole(name: str, text: str) -> int:
    base, _, power = text.partition("^")
    if not base.isdecimal() or (power and not power.isdecimal()) or len(base + power) > 2500:
        raise ValueError(f"{name} is {text[:60]!r}: a whole number, or a power such as 2^64, is needed.")
    if power and int(power) * int(base).bit_length() > _LONGEST_MODULUS:
        raise ValueError(f"{name} is {text[:60]!r}: at most 2^{_LONGEST_MODULUS // 2} is allowed.")
    return int(base) ** int(power or 1)

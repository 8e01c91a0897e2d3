"""``attention-bounds estimate``: the estimated cost of attacks on learning with errors or with rounding."""

from typing import Annotated

import typer

from arena.cli.console import JsonOption, print_json, say
from arena.names import find_name
from lwe import PRESETS, LWRParameters, estimate, parse_law
from lwe.costs import PlainLWE
from lwe.costs.reduction import CostModelName
from lwe.parameters import LARGEST_MODULUS

__all__ = ["estimate_command"]

_WIDEST = 1 << 17  # the largest deviation at which errors are listed value by value


def estimate_command(
    name: Annotated[
        str | None, typer.Argument(help=f"A set of parameters, instead of numbers: {', '.join(PRESETS)}.")
    ] = None,
    n: Annotated[int | None, typer.Option("--n", help="Number n of entries of the secret.")] = None,
    q: Annotated[
        str | None, typer.Option("--q", help="Modulus q: a number, or a power such as 2^64.")
    ] = None,
    sigma: Annotated[float | None, typer.Option(help="Standard deviation of Gaussian errors.")] = None,
    noise: Annotated[
        str | None, typer.Option(help="Law of other errors: binomial:2, ternary, flip:0.1.")
    ] = None,
    secret: Annotated[
        str,
        typer.Option(help="Law of the secret: uniform, binary, ternary, binomial:2, gaussian:3, sparse:32."),
    ] = "uniform",
    samples: Annotated[
        int | None, typer.Option(help="How many samples there are; by default no limit.")
    ] = None,
    model: Annotated[
        CostModelName,
        typer.Option(help="Cost model of lattice reduction: one sieve (core-SVP), or all gates (MATZOV)."),
    ] = "core-SVP",
    as_json: JsonOption = False,
) -> None:
    """Estimate the cost of each known attack on a problem, the cheapest first. This is no claim of security.

    Example: attention-bounds estimate kyber512 --samples 512
    """
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table

    costs = estimate(_problem(name, n, q, sigma, noise, secret), samples, model=model)
    if as_json:
        print_json([cost.to_json() for cost in costs])
        return
    if not costs:
        say("Labels do not depend on the secret: there is nothing to attack.")
        return
    say(str(costs[0].parameters))
    table = Table("attack", "cost", "counted in", "model", "numbers", box=SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for cost in costs:
        numbers = ", ".join(f"{what.replace('_', ' ')} {value}" for what, value in cost.details.items())
        table.add_row(cost.attack, cost.operations, cost.unit, cost.model, numbers)
    Console(highlight=False).print(table)
    say("Heuristic estimates: an attack that is not listed may cost less. They are no claim of security.")


def _problem(
    name: str | None, n: int | None, q: str | None, sigma: float | None, noise: str | None, secret: str
) -> LWRParameters | PlainLWE:
    if name is not None:
        if not (n is q is sigma is noise is None and secret == "uniform"):
            raise ValueError(
                f"{name} has numbers of its own: leave --n, --q, --sigma, --noise and --secret out."
            )
        return PRESETS[find_name(name, PRESETS, "set of parameters")]
    if n is None or q is None or (sigma is None) == (noise is None):
        raise ValueError(
            "Give the name of a set of parameters, such as kyber512, or --n, --q and one of --sigma and --noise."
        )
    modulus, law = _modulus(q), parse_law(secret)
    if noise is None:
        assert sigma is not None
        if modulus > LARGEST_MODULUS or sigma > _WIDEST:
            return PlainLWE(n, modulus, law, sigma)
        noise = f"gaussian:{sigma!r}"
    if modulus > LARGEST_MODULUS:
        raise ValueError(f"q is {q[:60]}: with --noise at most 2^52 is allowed; give --sigma.")
    return LWRParameters(n, modulus, modulus, matrix="uniform", secret=law, noise=parse_law(noise))


def _modulus(text: str) -> int:
    base, _, power = text.partition("^")
    if not base.isdecimal() or (power and not power.isdecimal()) or len(base + power) > 400:
        raise ValueError(f"q is {text[:60]!r}: a whole number, or a power such as 2^64, is needed.")
    if power and int(power) * len(base) > 4000:
        raise ValueError(f"q is {text[:60]!r}: at most 2^1000 is allowed.")
    return int(base) ** int(power or 1)

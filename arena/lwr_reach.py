"""The largest size at which attacks and learners break learning with rounding: sizes grow until two stay unbroken."""

import itertools
import math
from collections.abc import Sequence
from typing import Annotated, Any

from arena.attacking import ATTACKS, choose_attacks, longest_seconds
from attention.validation import NonNegativeInt, PositiveFloat, PositiveInt, Whole, checked
from lwe import AttackOutcome, AttackResult, Budget, LWEParameters, make_samples, parse_distribution
from lwe.attacks.attack import run_attack
from lwe.parameters import Matrix
from lwe.residues import Modulus
from studies import Parameters, Row, Study
from studies.line_figure import Panel, line_figure
from studies.rows import chosen, grouped
from studies.study import Table

_BROKEN_FROM = 0.95  # share of the fresh labels; some learners reach it that never predict all of them
_PATIENCE = 2


@checked
def lwr_reach(
    *,
    n: Sequence[PositiveInt] = (4, 8, 12, 16, 24, 32, 48, 64),
    q: Modulus = 64,
    p: Sequence[PositiveInt] = (2, 4, 8, 16, 32),
    matrix: Matrix = "binary",
    Xs: str = "uniform",
    attacks: Sequence[str] = tuple(ATTACKS),
    budget: PositiveFloat = 5.0,
    samples: Annotated[int, Whole(5)] = 20_000,
    seed: NonNegativeInt = 0,
) -> Study:
    """Plot the largest n at which each attack and each learner of layers breaks learning with rounding, against q/p.

    Parameters
    ----------
    n : sequence of int
        Numbers of entries of the secret.
    q : int
        Modulus.
    p : sequence of int
        Numbers of rounding levels, from 2 to q.
    matrix : {"binary", "ternary", "gadget", "uniform"}
        Public matrix: binary, ternary, gadget (q a power of 2) or uniform.
    Xs : str
        Distribution of the secret: uniform, ternary, sparse:8, ...
    attacks : sequence of str
        Names of attacks, learners among them.
    budget : float
        Seconds for each attack on each size; ten seconds later it is ended by force.
    samples : int
        How many samples each attack gets.
    seed : int
        Draws the secret and the samples, the same for all attacks.

    Notes
    -----
    Each attack at each p runs on growing n, until two sizes in a row stay unbroken: `broken` says whether it predicts
    95 % of the fresh labels. What is broken within the seconds depends on the machine, which attacks that run at the
    same time share. Each size has one secret: a lucky or unlucky secret moves a point.
    """
    names = [attack.name for attack in choose_attacks(",".join(attacks))]
    sizes, levels = sorted(set(n)), sorted(set(p))
    for name, values in (("n", sizes), ("p", levels)):
        if not values:
            raise ValueError(f"{name} is empty: at least one is needed.")
    for one, level in itertools.product(sizes, levels):
        LWEParameters(one, q, level, matrix=matrix, Xs=parse_distribution(Xs))  # raises its errors early
    common = {"q": q, "matrix": matrix, "Xs": Xs, "samples": samples, "budget": budget, "seed": seed}
    series = list(itertools.product(names, levels))

    def following(rows: Sequence[Row]) -> list[Parameters]:
        """The sizes up to the second one above the largest that is broken."""
        largest = _largest(rows)
        return [
            {"attack": name, "p": level, "n": one, **common}
            for name, level in series
            for one in _tried(sizes, largest.get((name, level)))
        ]

    return Study(
        name="lwr",
        title="How far attacks on learning with rounding reach",
        question=f"Up to which n does each attack predict {_BROKEN_FROM:.0%} of fresh labels (+ the largest n tried, ? "
        "sizes are missing)? A failed attack is no claim of security.",
        cells=lambda scale: following(()),
        measure=_attacked,
        following=following,
        numbers=lambda rows: {},
        tables=lambda rows: _table(rows, sizes),
        figure=lambda rows: _figure(rows, sizes),
        seconds=longest_seconds(budget),
        timed_out={
            "outcome": AttackOutcome.BUDGET_SPENT.name,
            "accuracy": None,
            "took": None,
            "explanation": "It did not look at its clock and was ended by force.",
            "broken": False,
        },
    )


def _attacked(
    *,
    rng: Any,
    attack: str,
    n: int,
    q: int,
    p: int,
    matrix: Matrix,
    Xs: str,
    samples: int,
    budget: float,
    seed: int,
) -> dict[str, Any]:
    parameters = LWEParameters(n, q, p, matrix=matrix, Xs=parse_distribution(Xs))
    try:
        drawn, _ = make_samples(parameters, samples, rng=[seed, n])
    except ValueError as error:  # not enough memory for this many samples
        result = AttackResult(attack, AttackOutcome.FAILED, str(error))
    else:
        stream = [seed, n, 1]
        result = run_attack(ATTACKS[attack], drawn, parameters, rng=stream, budget=Budget(seconds=budget))
    reached = result.accuracy is not None and result.accuracy >= _BROKEN_FROM
    return {
        "outcome": result.outcome.name,
        "accuracy": result.accuracy,
        "took": result.seconds,
        "explanation": result.explanation,
        "broken": result.outcome.succeeded and reached,
    }


def _largest(rows: Sequence[Row]) -> dict[tuple[str, int], int]:
    """The largest n broken, for each attack and p that break one."""
    broken = grouped(chosen(rows, broken=True), "attack", "p")
    return {series: max(row["n"] for row in those) for series, those in broken.items()}


def _tried(sizes: Sequence[int], largest: int | None) -> Sequence[int]:
    """The sizes up to the second one above the largest that is broken."""
    return sizes[: (0 if largest is None else sizes.index(largest) + 1) + _PATIENCE]


def _table(rows: Sequence[Row], sizes: Sequence[int]) -> dict[str, Table]:
    """The largest n broken, a line for each attack and a column for each p."""
    largest = _largest(rows)

    def reach(name: str, p: int) -> str:
        reached = largest.get((name, p))
        own = chosen(rows, attack=name, p=p)
        if own and all(row["outcome"] == AttackOutcome.MISSING.name for row in own):
            return "not installed"
        whole = {row["n"] for row in own} >= set(_tried(sizes, reached))
        return f"{reached or '-'}{'+' if reached == sizes[-1] else '' if whole else '?'}"

    levels = sorted({row["p"] for row in rows})
    lines = [
        {"largest n broken": ATTACKS[name].title} | {f"p = {p}": reach(name, p) for p in levels}
        for (name,) in grouped(rows, "attack")
    ]
    return {"reach": lines}


def _figure(rows: Sequence[Row], sizes: Sequence[int]) -> Any:
    """The largest n broken against q/p; the attacks that break some stand side by side, so that all are visible.

    The dotted line is the n up to which a table of the samples suffices: there are at most as many rows as samples.
    """
    largest, first = _largest(rows), rows[0]
    levels = sorted({row["p"] for row in rows}, reverse=True)
    breaking = [name for name in ATTACKS if any(attack == name for attack, _ in largest)]
    curves = {
        ATTACKS[name].title: [
            (place + 0.4 * (aside + 0.5) / len(breaking) - 0.2, largest.get((name, p)))
            for place, p in enumerate(levels)
        ]
        for aside, name in enumerate(breaking)
    }
    bits = {"binary": 1.0, "ternary": 1.5}.get(first["matrix"], math.log2(first["q"]))
    known = math.log2(first["samples"]) / bits
    given = f"q = {first['q']}, {first['matrix']} matrix, {first['Xs']} secret, {first['budget']:g} s"
    panel = Panel(
        "q / p (dotted: a table of the samples predicts as well)",
        f"largest n broken, up to {sizes[-1]}; {given}",
        curves,
        log_y=False,
        horizontals=[known] if known < sizes[-1] else (),
        ticks={place: f"{first['q'] / p:g}" for place, p in enumerate(levels)},
    )
    return line_figure([panel])

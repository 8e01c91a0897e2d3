"""The largest size at which attacks and learners break learning with rounding: sizes grow until two stay unbroken."""

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import lwe
import upper
from attention.validation import NonNegativeInt, PositiveFloat, PositiveInt, Whole, checked
from lwe import Attack, AttackOutcome, AttackResult, Budget, LearnerAttack, LWEParameters, make_samples
from lwe.attacks.attack import run_attack
from lwe.residues import Modulus
from studies.line_figure import Panel, line_figure
from studies.rows import chosen, grouped
from studies.study import Parameters, Row, Study, Table

_BROKEN_FROM = 0.95  # share of the fresh labels; some learners reach it that never predict all of them
_PATIENCE = 2  # sizes in a row that stay unbroken
_GRACE = 10.0  # seconds after the budget at which an attack that does not stop itself is ended by force

ATTACKS: Mapping[str, Attack] = {
    **lwe.ATTACKS,
    "newton": LearnerAttack(lambda heads: upper.Newton(heads=heads, examples=4000, work=3000), name="newton"),
    "adam": LearnerAttack(
        lambda heads: upper.GradientDescent(heads=heads, batch=512, work=4000, learning_rate=0.01),
        name="adam",
    ),
    # its theorem assumes uniform tokens
    "six-phase": LearnerAttack(
        lambda heads: upper.SixPhase(heads=heads), on_gate_only=False, name="six-phase"
    ),
}
"""The registry `lwe.ATTACKS` with three learners of attention layers, in the order of tables."""


@checked
def lwr_reach(
    *,
    n: Sequence[PositiveInt] = (4, 8, 12, 16, 24, 32, 48, 64),
    q: Modulus = 64,
    p: Sequence[PositiveInt] = (2, 4, 8, 16, 32),
    attacks: Sequence[str] = tuple(ATTACKS),
    budget: PositiveFloat = 5.0,
    samples: Annotated[int, Whole(5)] = 20_000,
    seed: NonNegativeInt = 0,
) -> Study:
    """Plot the largest n at which each attack and each learner of layers breaks learning with rounding, against q/p.

    Parameters
    ----------
    n : sequence of int
        Numbers of entries of the secret, which is uniform; the public matrix is binary.
    q : int
        Modulus.
    p : sequence of int
        Numbers of rounding levels, from 2 to q.
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
    sizes, levels = sorted(set(n)), sorted(set(p))
    for name, given in (("n", sizes), ("p", levels), ("attacks", attacks)):
        if not given:
            raise ValueError(f"{name} is empty: at least one is needed.")
    if unknown := [name for name in attacks if name not in ATTACKS]:
        raise ValueError(f"{unknown[0]!r} is no attack: choose among {', '.join(ATTACKS)}.")
    for size, level in itertools.product(sizes, levels):
        LWEParameters(size, q, level, matrix="binary")  # raises its errors early
    common = {"q": q, "samples": samples, "budget": budget, "seed": seed}

    def following(rows: Sequence[Row]) -> list[Parameters]:
        largest = _largest(rows)
        return [
            {"attack": name, "p": level, "n": size, **common}
            for name, level in itertools.product(dict.fromkeys(attacks), levels)
            for size in _tried(sizes, largest.get((name, level)))
        ]

    ended = {"outcome": AttackOutcome.BUDGET_SPENT.name, "accuracy": None, "took": None, "broken": False}
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
        timed_out=ended | {"explanation": "It did not look at its clock and was ended by force."},
    )


def longest_seconds(budget: float) -> float:
    """Seconds until an attack that ignores its clock is ended by force: its budget and ten more."""
    return budget + _GRACE


def _attacked(
    *, rng: Any, attack: str, samples: int, budget: float, seed: int, **problem: Any
) -> dict[str, Any]:
    parameters, n = LWEParameters(**problem, matrix="binary"), problem["n"]
    try:
        drawn, _ = make_samples(parameters, samples, rng=[seed, n])
    except ValueError as error:  # not enough memory for this many samples
        result = AttackResult(attack, AttackOutcome.FAILED, str(error))
    else:
        stream = [seed, n, 1]
        result = run_attack(ATTACKS[attack], drawn, parameters, rng=stream, budget=Budget(seconds=budget))
    measured = {"outcome": result.outcome.name, "accuracy": result.accuracy, "took": result.seconds}
    reached = result.accuracy is not None and result.accuracy >= _BROKEN_FROM
    broken = result.outcome.succeeded and reached
    return measured | {"explanation": result.explanation, "broken": broken}


def _largest(rows: Sequence[Row]) -> dict[tuple[str, int], int]:
    """The largest n broken, for each attack and p that break one."""
    broken = grouped(chosen(rows, broken=True), "attack", "p")
    return {series: max(row["n"] for row in those) for series, those in broken.items()}


def _tried(sizes: Sequence[int], largest: int | None) -> Sequence[int]:
    """The sizes up to the second one above the largest that is broken."""
    return sizes[: (0 if largest is None else sizes.index(largest) + 1) + _PATIENCE]


def _table(rows: Sequence[Row], sizes: Sequence[int]) -> dict[str, Table]:
    """The largest n broken, a line for each attack and a column for each p."""
    largest, lines = _largest(rows), []
    for (name,), of_attack in grouped(rows, "attack").items():
        line = {"largest n broken": ATTACKS[name].title}
        for p in sorted({row["p"] for row in rows}):
            reached, own = largest.get((name, p)), chosen(of_attack, p=p)
            whole = {row["n"] for row in own} >= set(_tried(sizes, reached))
            line[f"p = {p}"] = f"{reached or '-'}{'+' if reached == sizes[-1] else '' if whole else '?'}"
            if own and all(row["outcome"] == AttackOutcome.MISSING.name for row in own):
                line[f"p = {p}"] = "not installed"
        lines.append(line)
    return {"reach": lines}


def _figure(rows: Sequence[Row], sizes: Sequence[int]) -> Any:
    """The largest n broken against q/p; the attacks that break some stand side by side, so that all are visible.

    The dotted line is the n up to which a table of the samples suffices: there are at most as many rows as samples.
    """
    largest, q, known = _largest(rows), rows[0]["q"], math.log2(rows[0]["samples"])
    levels = sorted({row["p"] for row in rows}, reverse=True)
    breaking = [name for name in ATTACKS if any(attack == name for attack, _ in largest)]
    curves = {
        ATTACKS[name].title: [
            (place + 0.4 * (aside + 0.5) / len(breaking) - 0.2, largest.get((name, p)))
            for place, p in enumerate(levels)
        ]
        for aside, name in enumerate(breaking)
    }
    panel = Panel(
        "q / p (dotted: a table of the samples predicts as well)",
        f"largest n broken, up to {sizes[-1]}; q = {q}, binary matrix, uniform secret, {rows[0]['budget']:g} s",
        curves,
        log_y=False,
        horizontals=[known] if known < sizes[-1] else (),
        ticks={place: f"{q / p:g}" for place, p in enumerate(levels)},
    )
    return line_figure([panel])

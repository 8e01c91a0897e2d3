"""Attacks by name, and side by side on the same samples: each in a process of its own, with a table of the results."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np

import lwe
from arena.formats import aligned, folded
from arena.names import find_names
from arena.samples import Problem, open_samples
from arena.target import Target
from attention.foreign import printable
from attention.validation import NonNegativeInt, PositiveFloat, PositiveInt, checked
from lwe import (
    Attack,
    AttackOutcome,
    AttackResult,
    Budget,
    LWEParameters,
    LWRSamples,
)
from lwe.attacks.attack import run_attack
from lwe.sample_files import StoredSamples
from lwe.samples import Rounding, require_samples
from runs import Cell, run, versions
from studies.lwr_reach import ATTACKS, longest_seconds

PRELOADED = ("upper", "scipy.linalg", "scipy.special", "scipy.stats")
"""What the processes of attacks import before they compute."""


@checked
def choose_attacks(names: str | None = None) -> list[Attack]:
    """The attacks in a comma-separated list of names; if None, all attacks that are not learners.

    ValueError if a name is not known, or none is given.

    Examples
    --------
    >>> [attack.title for attack in choose_attacks("least-squares, BKW")]
    ['Least squares', 'BKW']
    """
    if names is None:
        return list(lwe.ATTACKS.values())
    return [ATTACKS[name] for name in find_names(names, ATTACKS, "attack")]


@dataclass(frozen=True)
class Attacked:
    """What attacks found in the same samples; prints as a table."""

    title: str  #: what was attacked
    parameters: LWEParameters  #: of the samples
    samples: int  #: how many there were
    seconds: float  #: the budget of each attack
    results: tuple[AttackResult, ...]  #: one per attack; an interrupted run has only those that ended
    secret: tuple[int, ...] | None = None  #: the true secret, centred mod q, where it is known
    not_run: tuple[str, ...] = ()  #: the attacks that an interruption stopped or that never started
    rounding: Rounding = "down"  #: of the labels
    assumed: tuple[str, ...] = ()  #: what is assumed of samples whose file does not say it

    @property
    def broken_by(self) -> tuple[str, ...]:
        """The attacks that predict all labels; if labels have errors, as many as the secret itself predicts."""
        return tuple(one.attack for one in self.results if one.outcome is AttackOutcome.BROKEN)

    @property
    def best_accuracy(self) -> float | None:
        """The share of labels that the secret itself predicts; None if errors have too many values to compute it."""
        try:
            return self.parameters.best_accuracy
        except ValueError:
            return None

    def is_secret(self, result: AttackResult) -> bool | None:
        """Whether a result's secret is the true one; None if either secret is unknown."""
        if self.secret is None or result.secret is None:
            return None
        return tuple(int(one) for one in result.secret) == self.secret

    def __str__(self) -> str:
        head = f"{printable(self.title)}\n  {self.parameters}, {self.samples} samples, {self.seconds:g} s an attack"
        if self.parameters.noisy and (best := self.best_accuracy) is not None:
            head += f"\n  The secret itself predicts {best:.3g} of the labels: errors change the others."
        if self.parameters.p < self.parameters.q and self.rounding != "down":
            head += "\n  Labels are rounded to the nearest."
        head = "\n".join([head, *(f"  {one}" for one in self.assumed)])
        rows = [
            ("attack", "outcome", "labels", "chance", "false", "secret", "time"),
            *map(self._row, self.results),
        ]
        said = folded([f"{one.attack}: {one.explanation}" for one in self.results])
        end = f"Broken by {', '.join(self.broken_by) or 'none'}. A failed attack is no claim of security."
        rest = [f"Not run to their end: {', '.join(self.not_run)}."] if self.not_run else []
        return "\n".join([head, "", aligned(rows, left=2), "", *said, "", end, *rest])

    def _row(self, result: AttackResult) -> tuple[str, ...]:
        compared = {None: "found", True: "is the true secret", False: "is not the true secret"}
        false = result.log10_false
        return (
            result.attack,
            result.outcome.name.lower().replace("_", " "),
            *("-" if share is None else f"{share:.3f}" for share in (result.accuracy, result.chance)),
            "-" if false is None else f"10^{false:.0f}" if false <= -1 else f"{10**false:.1g}",
            "-" if result.secret is None else compared[self.is_secret(result)],
            f"{result.seconds:.2f} s",
        )

    def to_json(self) -> dict[str, Any]:
        """The fields as plain JSON values."""
        return {
            "title": self.title,
            "parameters": self.parameters.to_json(),
            "samples": self.samples,
            "rounding": self.rounding,
            "seconds_allowed": self.seconds,
            "best_accuracy": self.best_accuracy,
            "broken_by": list(self.broken_by),
            "not_run": list(self.not_run),
            "results": [one.to_json() | {"is_the_secret": self.is_secret(one)} for one in self.results],
            "versions": versions(),
        }


@checked
def attack(
    source: Target | str | Path,
    attacks: Sequence[Attack] | str | None = None,
    *,
    seconds: PositiveFloat = 30.0,
    samples: PositiveInt | None = None,
    jobs: PositiveInt = 1,
    seed: NonNegativeInt = 0,
    on_result: Callable[[Attacked], None] | None = None,
    **options: Any,
) -> Attacked:
    """Attack learning with rounding or with errors: an instance, a hidden parity, or samples from files.

    Parameters
    ----------
    source : Target or path
        An instance of learning with rounding or a parity, or its file; samples as .npz or an LWE challenge; the matrix
        A, as .npy or as [[1 2][3 4]]; or the name of a set of parameters.
    attacks : sequence of Attack, or str, optional
        Comma-separated names of `ATTACKS`; by default all before newton, which learn layers.
    seconds : float
        Seconds for each attack; ten seconds after they are spent the attack is ended.
    samples : int, optional
        How many samples each attack gets; by default 20000, or all that a file has.
    jobs : int
        How many attacks run at once. They share the machine, so seconds are most comparable with one job.
    seed : int
        Seed of the samples and of the attacks' own random choices.
    on_result : callable, optional
        Called with the results so far after each attack.
    **options
        Of samples, what their file does not say: labels, q, p, matrix, secret, Xs, Xe, rounding, as of
        `arena.samples.Problem`. As for `runs.run`: isolated, progress; apart, a crash or an endless loop ends nothing
        else.

    Returns
    -------
    Attacked
        The results. A failing attack loses none of the others; after an interruption `not_run` names the rest.

    Raises
    ------
    ValueError
        If the source holds no samples, or an argument is wrong, missing or of no use.
    FileFormatError
        If a file is damaged.

    Examples
    --------
    >>> from arena import lwr_target
    >>> attacked = attack(lwr_target(n=12, q=4, p=2), "linearisation", samples=1000, isolated=False)
    >>> attacked.broken_by
    ('linearisation',)
    """
    chosen = choose_attacks(attacks) if attacks is None or isinstance(attacks, str) else list(attacks)
    names = [part.name for part in fields(Problem) if part.name in options]
    problem = Problem(**{name: options.pop(name) for name in names})
    title, stored = open_samples(source, samples, problem, seed=seed, drawn=20_000)
    given = problem.given.keys() - {"rounding"} or not stored.rounding_known
    attacked = Attacked(
        title,
        stored.parameters,
        len(stored.samples),
        seconds,
        results=(),
        secret=None if stored.secret is None else tuple(map(int, stored.secret)),
        not_run=tuple(attack.name for attack in chosen),
        rounding=stored.samples.rounding,
        assumed=tuple(_assumed(stored)) if given else (),
    )
    roundings: list[Rounding] = [attacked.rounding]
    if not stored.rounding_known:
        roundings.append("nearest")
    options |= {"jobs": min(jobs, len(chosen))}
    results: dict[int, AttackResult] = {}
    try:
        for tried in roundings:
            samples_of = replace(stored.samples, rounding=tried)
            for place, result in _results(samples_of, stored.parameters, chosen, seconds, seed, options):
                if tried != roundings[0] and result.outcome is not AttackOutcome.BROKEN:
                    continue
                results[place] = result
                rest = tuple(attack.name for place, attack in enumerate(chosen) if place not in results)
                ended = tuple(results[place] for place in sorted(results))
                attacked = replace(attacked, results=ended, not_run=rest, rounding=tried)
                if on_result is not None:
                    on_result(attacked)
            if attacked.broken_by:
                break
    except KeyboardInterrupt:
        pass
    return attacked


def _assumed(stored: StoredSamples) -> Iterator[str]:
    """What is assumed of samples, and what the caller may have to say of them."""
    samples, parameters = stored.samples, stored.parameters
    if not stored.rounding_known:
        yield "Labels are taken as rounded down, and if that breaks nothing, to the nearest; rounding says which."
    if parameters.p == parameters.q and not parameters.noisy:
        yield "Labels are taken as exact: where they have errors or are rounded, give Xe or p."
    if len(samples) == samples.n:
        yield "A is square: its rows are taken as samples; where its columns are, save the transpose."
    if parameters.matrix == "uniform" and parameters.q > 2 and np.all(samples.public >> 1 == 0):
        yield "All entries of the matrix are 0 or 1: matrix binary tells the attacks."


def _results(
    samples: LWRSamples,
    parameters: LWEParameters,
    attacks: Sequence[Attack],
    seconds: float,
    seed: int,
    options: dict[str, Any],
) -> Iterator[tuple[int, AttackResult]]:
    """The place and the result of each attack, as it ends: a crash or a time-out is an outcome."""
    require_samples(samples, parameters)
    work = []
    for place, attack in enumerate(attacks):
        arguments = {"attack": attack.name, "stream": [seed, 2, place]}
        objects = {"on": (attack, samples, parameters, Budget(seconds=seconds))}
        work.append(Cell(_attacked, arguments, objects, attack.name))
    longest = longest_seconds(seconds) if options.get("isolated", True) else None
    for result in run(work, timeout=longest, **options):
        name, value, place = result.cell.label, result.value, result.cell.arguments["stream"][-1]
        if result.status == "timed out":
            why = f"It did not look at its clock and was ended by force after {longest:g} seconds."
            yield place, AttackResult(name, AttackOutcome.BUDGET_SPENT, why, seconds=longest or 0.0)
        elif result.status == "failed":
            yield place, AttackResult(name, AttackOutcome.FAILED, result.message)
        else:
            secret = None if value["secret"] is None else np.array(value["secret"])
            outcome = AttackOutcome[value["outcome"]]
            yield place, AttackResult(**value | {"outcome": outcome, "secret": secret})


def _attacked(
    attack: str, stream: list[int], on: tuple[Attack, LWRSamples, LWEParameters, Budget]
) -> dict[str, Any]:
    run, samples, parameters, budget = on
    return run_attack(run, samples, parameters, rng=stream, budget=budget).to_json()

"""Attacks side by side on the same samples: each in a process of its own, and a table of what they found."""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from arena.formats import aligned, folded
from arena.names import find_name
from arena.targets import Target, load_target
from attention.foreign import printable
from attention.validation import checked, count, require_instance
from lower import HardInstance
from lwe import (
    PRESETS,
    Attack,
    AttackOutcome,
    AttackResult,
    Budget,
    Flips,
    LWEParameters,
    LWRFamily,
    LWRSamples,
    SparseSigned,
    make_samples,
    read_samples,
    samples_from_examples,
)
from lwe.attacks.attack import run_attack
from lwe.attacks.evidence import secret_predictor
from lwe.distributions import NO_NOISE
from lwe.heads import kept_range
from lwe.parameters import covariate_form
from lwe.sample_files import StoredSamples, kind_of_file
from lwe.samples import Rounding, require_samples
from lwe.tokens import covariates_of
from runs import Cell, Result, run, versions
from sq import ParityFamily

__all__ = [
    "PRELOADED",
    "Attacked",
    "attack",
    "attack_result",
    "attack_samples",
    "longest_seconds",
    "open_samples",
    "samples_of",
]

PRELOADED = ("arena.attacks", "scipy.linalg", "scipy.special", "scipy.stats")
"""What the processes of attacks import before they compute."""

_COMPARED = 200  # examples of the layer that are checked against its secret
_AT_ONCE = 4096  # examples of a layer that are drawn together
_GRACE = 10.0  # seconds after the budget at which an attack that does not stop itself is ended by force


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


def attack(
    target: Target | str | Path,
    attacks: Sequence[Attack] | str | None = None,
    *,
    samples: int = 20_000,
    seconds: float = 30.0,
    jobs: int = 1,
    seed: int = 0,
    isolated: bool = True,
    progress: bool = False,
    on_result: Callable[[AttackResult], None] | None = None,
) -> Attacked:
    """Attack an instance of learning with rounding, or a hidden parity, that is realised by heads.

    Parameters
    ----------
    target : Target or path
        The instance, or its file.
    attacks : sequence of Attack, or names
        As in `choose_attacks`; by default all attacks that are not learners.
    samples : int
        How many samples each attack gets.
    seconds : float
        The budget of each attack; ten seconds after it is spent the attack is ended.
    jobs : int
        How many run at once. They share the machine, so seconds are most comparable with one job.
    seed : int
        Seeds the samples and the attacks' own random choices.
    isolated : bool
        Whether each runs in its own process, so that a crash or an endless loop ends nothing else.
    progress : bool
        As of `runs.run`.
    on_result : callable, optional
        Called with each result as soon as it exists.

    Raises
    ------
    ValueError
        If the target is not an instance of learning with rounding or a parity, or another argument is wrong.

    Examples
    --------
    >>> from arena import lwr_target
    >>> found = attack(lwr_target(n=12, q=4, p=2), "linearisation", samples=1000, isolated=False)
    >>> found.broken_by
    ('linearisation',)
    """
    from arena.attacks import choose_attacks

    target = target if isinstance(target, Target) else load_target(target)
    drawn, parameters, secret = samples_of(target, samples, seed=seed)
    chosen = choose_attacks(attacks) if attacks is None or isinstance(attacks, str) else list(attacks)
    options: dict[str, Any] = {"jobs": jobs, "seed": seed, "isolated": isolated, "progress": progress}
    results = attack_samples(drawn, parameters, chosen, seconds=seconds, on_result=on_result, **options)
    return Attacked(target.record.title, parameters, len(drawn), float(seconds), results, secret)


def samples_of(
    target: Target, number: int, *, seed: int = 0
) -> tuple[LWRSamples, LWEParameters, tuple[int, ...]]:
    """Samples of an instance: its labels, its parameters, its secret.

    Raises
    ------
    ValueError
        If the target is not an instance of learning with rounding or a parity, or the labels of its layer and of its
        secret differ.

    Notes
    -----
    A parity of l bits gives samples of learning parity with noise with a sparse secret: from each example on the gate
    the bits 1[x_1j != x_2j], and the sign of the hidden part. Its labels come from the layer.

    Samples of rounding are drawn by integer arithmetic with the secret, hundreds of times faster than the layer. As a
    check, 200 examples of the layer itself are also read as samples and compared with the secret's labels. Only
    examples whose inner product lies in the range of the heads count: outside it labels are wrong by design.
    """
    require_instance("target", target, Target, needed="a target, such as lwr_target gives,")
    instance = target.instance
    family = None if instance is None else instance.family
    if instance is not None and isinstance(family, ParityFamily):
        return _parity_samples(instance, count("samples", number), seed)
    if instance is None or not isinstance(family, LWRFamily):
        raise ValueError(
            f"{target.record.title} is no instance of learning with rounding and no parity: attacks are for those only."
        )
    parameters = family.parameters
    drawn, secret = make_samples(parameters, count("samples", number), secret=instance.secret, rng=[seed, 0])
    if not parameters.noisy:
        x, y = family.examples(instance, rng=[seed, 1]).draw(_COMPARED)
        kept = _kept(x, secret, family)
        own = samples_from_examples(
            x[kept],
            y[kept],
            parameters,
            allowed_error=min(0.49, max(1e-6, instance.allowed_error)),
        )
        if np.any(secret_predictor(secret, parameters)(own.public) != own.labels):
            raise ValueError(
                f"{target.record.title}: the layer's labels are not those of its secret; inspect --verify says more."
            )
    return drawn, parameters, tuple(int(one) for one in secret)


@checked
def open_samples(
    source: str | Path, number: int | None = None, *, rounding: Rounding = "down", seed: int = 0
) -> StoredSamples:
    """Samples of a file of them, of an instance, or of a named set of parameters, whose labels are rounded so.

    `number` of them are kept or drawn; by default all that a file has, or 1000. FileFormatError if a file is damaged;
    ValueError if there is no such file and no set of that name, or the file has fewer samples.

    Examples
    --------
    >>> len(open_samples("kyber512", 20).samples)
    20
    """
    if number is not None:
        number = count("number", number)
    if not os.path.exists(source):
        parameters = PRESETS[find_name(str(source), PRESETS, "file and no set of parameters")]
        samples, secret = make_samples(parameters, number or 1000, rounding=rounding, rng=seed)
        return StoredSamples(samples, parameters, secret)
    if rounding != "down":
        raise ValueError(f"rounding is {rounding}: only samples of a named set of parameters are drawn so.")
    if kind_of_file(source) is None:
        samples, parameters, truth = samples_of(load_target(source), number or 1000, seed=seed)
        return StoredSamples(samples, parameters, np.array(truth))
    found = read_samples(source)
    if number is not None and number > len(found.samples):
        raise ValueError(f"number is {number}: {source} has {len(found.samples)} samples.")
    return found if number is None else replace(found, samples=found.samples.take(number))


def _parity_samples(
    instance: HardInstance, number: int, seed: int
) -> tuple[LWRSamples, LWEParameters, tuple[int, ...]]:
    family = instance.family
    assert isinstance(family, ParityFamily)
    noise = Flips(family.noise) if family.noisy else NO_NOISE
    parameters = LWEParameters(family.dim - 1, 2, 2, Xs=SparseSigned(len(instance.secret)), Xe=noise)
    examples, rows, labels, drawn = family.examples(instance, rng=[seed, 0]), [], [], 0
    while drawn < number:
        x, y = examples.draw(_AT_ONCE)
        on = x[:, 0, 0] != x[:, 1, 0]
        x, y, drawn = x[on], y[on], drawn + int(on.sum())
        rows.append(covariates_of(x, parameters))
        labels.append(
            (x[:, 0, 0] * ((y - instance.known(x)) @ instance.direction)[:, 0] < 0).astype(np.int64)
        )
    samples = LWRSamples(np.concatenate(rows)[:number], np.concatenate(labels)[:number])
    secret = np.zeros(family.dim - 1, dtype=np.int64)
    secret[instance.secret - 1] = 1
    return samples, parameters, tuple(secret.tolist())


def _kept(x: np.ndarray, secret: np.ndarray, family: LWRFamily) -> np.ndarray:
    """Which examples have an inner product in the range of the heads."""
    if family.deviations is None:
        return np.ones(len(x), dtype=bool)
    parameters = family.parameters
    form = covariate_form(secret, parameters)
    low, high = kept_range(form, parameters.matrix, family.deviations)
    products = covariates_of(x, parameters) @ form
    return (low <= products) & (products <= high)


def attack_samples(
    samples: LWRSamples,
    parameters: LWEParameters,
    attacks: Sequence[Attack],
    *,
    seconds: float = 30.0,
    jobs: int = 1,
    seed: int = 0,
    isolated: bool = True,
    progress: bool = False,
    on_result: Callable[[AttackResult], None] | None = None,
) -> tuple[AttackResult, ...]:
    """Attack samples; the options are those of `attack`. A failing attack never loses what the others found.

    Raises
    ------
    ValueError
        If the samples do not fit the parameters, or a number is out of its range.
    """
    require_samples(samples, parameters)
    budget = Budget(seconds=seconds)
    work = {
        Cell(
            _attacked,
            {"attack": attack.name, "stream": [seed, 2, place]},
            {"on": (attack, samples, parameters, budget)},
            attack.name,
        ): place
        for place, attack in enumerate(attacks)
    }
    found: dict[int, AttackResult] = {}
    longest = longest_seconds(budget) if isolated else None
    for result in run(work, jobs=jobs, timeout=longest, isolated=isolated, progress=progress):
        place = work[result.cell]
        found[place] = attack_result(attacks[place].name, result)
        if on_result is not None:
            on_result(found[place])
    return tuple(found[place] for place in sorted(found))


def _attacked(
    attack: str, stream: list[int], on: tuple[Attack, LWRSamples, LWEParameters, Budget]
) -> dict[str, Any]:
    run, samples, parameters, budget = on
    return run_attack(run, samples, parameters, rng=stream, budget=budget).to_json()


def attack_result(attack: str, result: Result) -> AttackResult:
    """The named attack's result, from the engine's result: a crash or a time-out is an outcome."""
    if result.status == "timed out":
        said = f"It did not look at its clock and was ended by force after {result.timeout:g} seconds."
        return AttackResult(attack, AttackOutcome.BUDGET_SPENT, said, seconds=result.timeout or 0.0)
    if result.status == "failed":
        return AttackResult(attack, AttackOutcome.FAILED, result.message)
    secret = None if result.value["secret"] is None else np.array(result.value["secret"])
    outcome = AttackOutcome[result.value["outcome"]]
    return AttackResult(**(result.value | {"outcome": outcome, "secret": secret}))


def longest_seconds(budget: Budget) -> float | None:
    """Seconds until an attack that ignores its clock is ended by force: its budget and ten more."""
    return None if budget.seconds is None else budget.seconds + _GRACE

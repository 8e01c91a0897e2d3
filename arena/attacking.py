"""Attacks side by side on the same samples: each in a process of its own, and a table of what they found."""

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from arena.engines import require_engine
from arena.formats import aligned, folded
from arena.names import find_name
from arena.targets import Target, load_target
from attention.foreign import printable
from attention.validation import NonNegativeInt, PositiveFloat, PositiveInt, checked, count, require_instance
from lower import HardInstance
from lwe import (
    PRESETS,
    Attack,
    AttackOutcome,
    AttackResult,
    Budget,
    Distribution,
    Flips,
    LWEParameters,
    LWRFamily,
    LWRSamples,
    SparseSigned,
    make_samples,
    parse_distribution,
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
from upper.engine import EngineName

__all__ = [
    "PRELOADED",
    "Attacked",
    "attack",
    "attack_result",
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
    labels: str | Path | None = None,
    q: PositiveInt | None = None,
    p: PositiveInt | None = None,
    matrix: str | None = None,
    secret: str | Path | None = None,
    Xs: Distribution | str | None = None,
    Xe: Distribution | str | None = None,
    rounding: Rounding | None = None,
    engine: EngineName | None = None,
    device: str | None = None,
    jobs: PositiveInt = 1,
    seed: NonNegativeInt = 0,
    isolated: bool = True,
    progress: bool = False,
    on_result: Callable[["Attacked"], None] | None = None,
) -> "Attacked":
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
    labels : path, optional
        With a matrix: the labels b, as .npy or as [1 2].
    q : int, optional
        With a matrix, or .npz of another program: the modulus, at most 2^52.
    p : int, optional
        With a matrix: the levels, if labels are rounded down to so many values, floor(p x / q).
    matrix : str, optional
        With a matrix: uniform (the default), binary or ternary entries.
    secret : path, optional
        With samples: the true secret, as .npy or as [1 2], for comparison.
    Xs : Distribution or str, optional
        With a matrix: the distribution of the secret: uniform (the default), binary, binomial:2, sparse:8, ...
    Xe : Distribution or str, optional
        With a matrix: the distribution of the errors: zero (the default), gaussian:3, binomial:2, ...
    rounding : {"down", "nearest"}, optional
        With samples and p: down, or nearest: floor(p x / q + 1/2). By default down, and nearest if that breaks nothing.
    engine, device : str, optional
        What Newton computes with (numpy, torch, or auto), and where Newton and Adam compute (cpu, cuda, cuda:1).
    jobs : int
        How many attacks run at once. They share the machine, so seconds are most comparable with one job.
    seed : int
        Seed of the samples and of the attacks' own random choices.
    isolated, progress : bool
        As of `runs.run`. Apart, a crash or an endless loop ends nothing else.
    on_result : callable, optional
        Called with what is found so far after each attack.

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
    >>> found = attack(lwr_target(n=12, q=4, p=2), "linearisation", samples=1000, isolated=False)
    >>> found.broken_by
    ('linearisation',)
    """
    from arena.attacks import choose_attacks, learners_on_engine  # imports all learners

    chosen = choose_attacks(attacks) if attacks is None or isinstance(attacks, str) else list(attacks)
    chosen = learners_on_engine(chosen, engine=engine, device=device)
    require_engine(engine, device)
    problem = {"labels": labels, "q": q, "p": p, "matrix": matrix, "secret": secret, "Xs": Xs, "Xe": Xe}
    stored = open_samples(source, samples, rounding=rounding, seed=seed, drawn=20_000, **problem)
    drawn, parameters = stored.samples, stored.parameters
    given = any(value is not None for value in problem.values())
    found = Attacked(
        _title(source),
        parameters,
        len(drawn),
        seconds,
        results=(),
        secret=None if stored.secret is None else tuple(map(int, stored.secret)),
        not_run=tuple(attack.name for attack in chosen),
        rounding=drawn.rounding,
        assumed=tuple(_assumed(stored)) if given or not stored.rounding_known else (),
    )
    results: dict[int, AttackResult] = {}
    options: dict[str, Any] = {"seconds": seconds, "jobs": min(jobs, len(chosen)), "isolated": isolated}
    options |= {"progress": progress, "seed": seed}

    def keep(place: int, result: AttackResult, rounding: Rounding) -> Attacked:
        results[place] = result
        ended = tuple(results[place] for place in sorted(results))
        rest = tuple(attack.name for place, attack in enumerate(chosen) if place not in results)
        so_far = replace(found, results=ended, not_run=rest, rounding=rounding)
        if on_result is not None:
            on_result(so_far)
        return so_far

    try:
        for place, result in _results(drawn, parameters, chosen, **options):
            found = keep(place, result, drawn.rounding)
        if not stored.rounding_known and not found.broken_by:
            nearest = replace(drawn, rounding="nearest")
            for place, result in _results(nearest, parameters, chosen, **options):
                if result.outcome is AttackOutcome.BROKEN:
                    found = keep(place, result, "nearest")
    except KeyboardInterrupt:
        pass
    return found


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
            f"{target.record.title} is no instance of learning with rounding and no parity: attacks are for those "
            "only; a periodic wave is attacked by learn --learner lattice."
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
    source: Target | str | Path,
    number: PositiveInt | None = None,
    *,
    rounding: Rounding | None = None,
    seed: NonNegativeInt = 0,
    drawn: int = 1000,
    **problem: Any,
) -> StoredSamples:
    """Samples of an instance, of a file, or of a named set of parameters.

    `number` of them are kept or drawn; by default all that a file has, or `drawn`. `problem` says what a file does not
    hold: labels, q, p, matrix, secret, Xs and Xe, as `attack` has them. FileFormatError if a file is damaged;
    ValueError if there is no such file and no set of that name, the file has fewer samples, or an argument is wrong.

    Examples
    --------
    >>> len(open_samples("kyber512", 20).samples)
    20
    """
    given = {name: value for name, value in problem.items() if value is not None}
    named = not isinstance(source, Target) and not os.path.exists(source)
    kind = None if named or isinstance(source, Target) else kind_of_file(source)
    if kind is None:
        if unused := [*given, *(["rounding"] * (rounding is not None and not named))]:
            raise ValueError(
                f"{', '.join(unused)}: such options are for samples, and {source} holds none. An instance "
                "says them itself; save a matrix with numpy.save."
            )
        if named:
            parameters = PRESETS[find_name(str(source), PRESETS, "file and no set of parameters")]
            made, secret = make_samples(parameters, number or drawn, rounding=rounding or "down", rng=seed)
            return StoredSamples(made, parameters, secret)
        target = source if isinstance(source, Target) else load_target(source)
        samples, parameters, truth = samples_of(target, number or drawn, seed=seed)
        return StoredSamples(samples, parameters, np.array(truth))
    for name in ("labels", "q") if kind == "matrix" else ():
        if name not in given:
            raise ValueError(f"{source} holds a matrix: {name} is needed, too.")
    stated: dict[str, Any] = {name: given[name] for name in ("q", "p", "matrix") if name in given}
    stated |= {
        name: parse_distribution(given[name]) if isinstance(given[name], str) else given[name]
        for name in ("Xs", "Xe")
        if name in given
    }
    if stated or "labels" in given:
        stated.setdefault("matrix", "uniform")
    paths = {"labels_path": given.get("labels"), "secret_path": given.get("secret")}
    found = read_samples(source, stated or None, rounding=rounding, **paths)  # type: ignore[arg-type]
    if number is not None and number > len(found.samples):
        raise ValueError(f"The number of samples is {number}: {source} has {len(found.samples)}.")
    return found if number is None else replace(found, samples=found.samples.take(number))


def _title(source: Target | str | Path) -> str:
    if isinstance(source, Target):
        return source.record.title
    instance = os.path.exists(source) and kind_of_file(source) is None
    return load_target(source).record.title if instance else str(source)


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
    parameters = family.parameters
    form = covariate_form(secret, parameters)
    low, high = kept_range(form, parameters.matrix, family.deviations)
    products = covariates_of(x, parameters) @ form
    return (low <= products) & (products <= high)


def _results(
    samples: LWRSamples,
    parameters: LWEParameters,
    attacks: Sequence[Attack],
    *,
    seconds: float,
    seed: int,
    isolated: bool,
    **options: Any,
) -> Iterator[tuple[int, AttackResult]]:
    """The place and the result of each attack, as it ends."""
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
    longest = longest_seconds(budget) if isolated else None
    for result in run(work, timeout=longest, isolated=isolated, **options):
        yield work[result.cell], attack_result(attacks[work[result.cell]].name, result)


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

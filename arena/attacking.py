"""Attacks side by side on the same samples: each in a process of its own, and a table of what they found."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from arena.attacks import AttackKind, choose_attacks
from arena.calls import Answer, Call, run_calls, workers
from arena.cells import single_thread
from arena.made_with import versions
from arena.plain import aligned, folded
from arena.targets import Target, load_target
from attention.validation import count, require_instance
from lwe import (
    AttackOutcome,
    AttackResult,
    Budget,
    LWRParameters,
    LWRSamples,
    PublicDescription,
    covariate_form,
    covariates_of,
    describe_instance,
    kept_range,
    make_samples,
    noisy_examples,
    require_samples,
    samples_from_examples,
    secret_predictor,
)

__all__ = ["Attacked", "attack", "attack_here", "attack_samples", "came_of", "longest_seconds", "samples_of"]

_SAMPLES = 20_000
_COMPARED = 200
_GRACE = 10.0  # an attack that looks at its clock too seldom is ended by force, so much later


@dataclass(frozen=True)
class Attacked:
    """What attacks found in the same samples; prints as a table.

    Attributes
    ----------
    title : str
        What was attacked.
    parameters : LWRParameters
        Of the samples.
    samples : int
        How many there were.
    seconds : float
        What each attack was allowed.
    results : tuple of AttackResult
        One an attack, in the order given; those of an interrupted run that were there by then.
    secret : tuple of int or None
        The true secret, centred mod q, where it is known: only for the table's last column.
    not_run : tuple of str
        Attacks of an interrupted run that were not run to their end.
    """

    title: str
    parameters: LWRParameters
    samples: int
    seconds: float
    results: tuple[AttackResult, ...]
    secret: tuple[int, ...] | None = None
    not_run: tuple[str, ...] = ()

    @property
    def broken_by(self) -> tuple[str, ...]:
        """The attacks that predict all fresh labels; with errors, as well as the secret itself would."""
        return tuple(one.attack for one in self.results if one.outcome is AttackOutcome.BROKEN)

    @property
    def best_accuracy(self) -> float | None:
        """The share of labels that the secret itself predicts; None where the errors have too many values to say."""
        try:
            return self.parameters.best_accuracy
        except ValueError:
            return None

    def is_secret(self, result: AttackResult) -> bool | None:
        """Whether a result's secret is the true one; None where one of them is not known."""
        if self.secret is None or result.secret is None:
            return None
        return tuple(int(one) for one in result.secret) == self.secret

    def __str__(self) -> str:
        rows = [("attack", "outcome", "fresh labels", "chance", "secret", "time")]
        for one in self.results:
            found = _secret_words(one, self.is_secret(one))
            rows.append(
                (
                    one.attack,
                    one.outcome.name.lower().replace("_", " "),
                    "-" if one.accuracy is None else f"{one.accuracy:.3f}",
                    "-" if one.chance is None else f"{one.chance:.3f}",
                    found,
                    f"{one.seconds:.2f} s",
                )
            )
        said = folded([f"{one.attack}: {one.explanation}" for one in self.results])
        head = f"{self.title}\n  {self.parameters}, {self.samples} samples, {self.seconds:g} s an attack"
        if self.parameters.noisy and (best := self.best_accuracy) is not None:
            head += f"\n  The secret itself predicts {best:.3g} of the labels: errors change the others."
        return "\n".join([head, "", aligned(rows, left=2), "", *said, "", *folded([" ".join(self._said())])])

    def _said(self) -> Iterator[str]:
        """What it comes to: sentences."""
        whom = "those that ran" if self.not_run else "these attacks"
        yield f"Broken by {', '.join(self.broken_by) or f'none of {whom}'}."
        for outcome, told in (
            (AttackOutcome.PREDICTS, "Predicted in part by"),
            (AttackOutcome.DISTINGUISHED, "Told from random labels, no more, by"),
        ):
            names = [one.attack for one in self.results if one.outcome is outcome]
            if names:
                yield f"{told} {', '.join(names)}."
        found = [
            one.attack for one in self.results if self.is_secret(one) and one.attack not in self.broken_by
        ]
        if found:
            yield f"The true secret was found by {', '.join(found)}."
        if self.not_run:
            yield f"Interrupted; not run to their end: {', '.join(self.not_run)}."
        yield "That an attack fails, untuned and within seconds, is no claim of security."

    def to_json(self) -> dict[str, Any]:
        """The fields as plain JSON values."""
        return {
            "title": self.title,
            "parameters": self.parameters.to_json(),
            "samples": self.samples,
            "seconds_allowed": self.seconds,
            "best_accuracy": self.best_accuracy,
            "broken_by": list(self.broken_by),
            "not_run": list(self.not_run),
            "results": [one.to_json() | {"is_the_secret": self.is_secret(one)} for one in self.results],
            "versions": versions(),
        }


def attack(
    target: Target | str | Path,
    attacks: Sequence[AttackKind] | str | None = None,
    *,
    samples: int = _SAMPLES,
    seconds: float = 30.0,
    jobs: int = 1,
    seed: int = 0,
    isolated: bool = True,
    on_result: Callable[[AttackResult], None] | None = None,
) -> Attacked:
    """Attack an instance of learning with rounding that heads realise.

    Parameters
    ----------
    target : Target or path
        The instance, or its file.
    attacks : sequence of AttackKind, or names
        As in `choose_attacks`; all that are no learners if left out.
    samples : int
        How many samples they get.
    seconds : float
        What each of them may take; ten seconds later it is ended.
    jobs, isolated, on_result
        As in `attack_samples`.
    seed : int
        Draws the samples, and what the attacks draw.

    Raises
    ------
    ValueError
        If the target is no instance of learning with rounding, or another argument is wrong.

    Examples
    --------
    >>> from arena import lwr_target
    >>> found = attack(lwr_target(secret_dim=12, modulus=4, levels=2), "linearisation", samples=1000, isolated=False)
    >>> found.broken_by
    ('linearisation',)
    """
    target = target if isinstance(target, Target) else load_target(target)
    drawn, parameters, secret = samples_of(target, samples, seed=seed)
    return attack_samples(
        drawn,
        parameters,
        attacks,
        title=target.record.title,
        secret=secret,
        seconds=seconds,
        jobs=jobs,
        seed=seed,
        isolated=isolated,
        on_result=on_result,
    )


def samples_of(
    target: Target, number: int = _SAMPLES, *, seed: int = 0
) -> tuple[LWRSamples, LWRParameters, tuple[int, ...]]:
    """Samples of an instance: its labels, its parameters, its secret.

    Raises
    ------
    ValueError
        If the target is no instance of learning with rounding, or its layer has other labels than its secret.

    Notes
    -----
    Samples are drawn by integer arithmetic with the secret, which is hundreds of times faster than the layer; 200
    examples of the layer itself are read as samples, too, and compared with them, where the inner product is in the
    range that its heads keep: beyond it their labels are wrong by design.
    """
    require_instance("target", target, Target, needed="a target, such as lwr_target gives,")
    if target.instance is None or target.instance.family != "lwr":
        raise ValueError(
            f"{target.record.title} is no instance of learning with rounding: attacks are for those only."
        )
    instance, described = target.instance, describe_instance(target.instance)
    parameters = described.parameters
    drawn, secret = make_samples(parameters, count("samples", number), secret=instance.secret, rng=[seed, 0])
    if not parameters.noisy:
        x, y = noisy_examples(instance, rng=[seed, 1]).draw(_COMPARED)
        kept = _kept(x, secret, described)
        own = samples_from_examples(
            x[kept],
            y[kept],
            parameters,
            gate=described.gate,
            allowed_error=min(0.49, max(1e-6, instance.allowed_error)),
        )
        if np.any(secret_predictor(secret, parameters)(own.public) != own.labels):
            raise ValueError(
                f"{target.record.title}: the layer's labels are not those of its secret; inspect --verify says more."
            )
    return drawn, parameters, tuple(int(one) for one in secret)


def _kept(x: np.ndarray, secret: np.ndarray, described: PublicDescription) -> np.ndarray:
    """Which examples have an inner product in the range of the heads."""
    if described.deviations is None:
        return np.ones(len(x), dtype=bool)
    parameters = described.parameters
    form = covariate_form(secret, parameters)
    low, high = kept_range(form, parameters.matrix, described.deviations)
    products = covariates_of(x, parameters, described.gate) @ form
    return (low <= products) & (products <= high)


def attack_samples(
    samples: LWRSamples,
    parameters: LWRParameters,
    attacks: Sequence[AttackKind] | str | None = None,
    *,
    title: str = "Samples",
    secret: ArrayLike | Sequence[int] | None = None,
    seconds: float = 30.0,
    jobs: int = 1,
    seed: int = 0,
    isolated: bool = True,
    on_result: Callable[[AttackResult], None] | None = None,
) -> Attacked:
    """Attack samples; what one attack does never loses what the others found.

    Parameters
    ----------
    samples, parameters
        What is attacked.
    attacks : sequence of AttackKind, or names
        As in `choose_attacks`.
    title : str
        What the table calls it.
    secret : array of int (n,), optional
        The true secret, which no attack is shown.
    seconds : float
        What each attack may take.
    jobs : int
        How many run at once; they share the machine, so that seconds compare best with one.
    seed : int
        What the attacks draw.
    isolated : bool
        Whether each runs in a process of its own, where a crash or an endless loop ends nothing else.
    on_result : callable, optional
        Called with each result as it is there.

    Raises
    ------
    ValueError
        If the samples do not fit the parameters, or a number is out of its range.
    """
    require_samples(samples, parameters)
    kinds = choose_attacks(attacks) if attacks is None or isinstance(attacks, str) else list(attacks)
    budget, jobs = Budget(seconds=seconds), count("jobs", jobs)
    found: dict[str, AttackResult] = {}

    def keep(kind: AttackKind, result: AttackResult) -> None:
        found[kind.name] = replace(result, attack=kind.name)
        if on_result is not None:
            on_result(found[kind.name])

    if isolated:
        _run_apart(kinds, samples, parameters, budget, jobs, seed, keep)
    else:
        for place, kind in enumerate(kinds):
            keep(kind, attack_here(kind, samples, parameters, budget, [seed, 2, place]))
    return Attacked(
        title,
        parameters,
        len(samples),
        float(seconds),
        tuple(found[kind.name] for kind in kinds),
        None if secret is None else tuple(int(one) for one in np.asarray(secret)),
    )


def _secret_words(result: AttackResult, exact: bool | None) -> str:
    if result.secret is None or not result.outcome.succeeded:
        return "-"
    return "found" if exact is None else "the true one" if exact else "another"


def attack_here(
    kind: AttackKind, samples: LWRSamples, parameters: LWRParameters, budget: Budget, stream: list[int]
) -> AttackResult:
    """Run one attack here, in one thread; an error it raises is in its result.

    Parameters
    ----------
    kind, samples, parameters, budget
        What is run on what, and what it may spend.
    stream : list of int
        The seed of what it draws.
    """
    with single_thread():
        try:
            result = kind.build(parameters)(samples, parameters, rng=stream, budget=budget)
        except Exception as error:  # whatever it is, the other attacks go on
            return AttackResult(
                kind.name, AttackOutcome.FAILED, f"It broke down with {type(error).__name__}: {error}"
            )
    return replace(result, predict=None)  # it may hold what cannot leave the process


def came_of(attack: str, answer: Answer, longest: float | None) -> AttackResult:
    """The result of the attack of a name that was run as a call: whatever happened to it is in there.

    Parameters
    ----------
    attack : str
        The name.
    answer : Answer
        Its value is an `AttackResult`, if it has one.
    longest : float, optional
        The seconds that the call was allowed.
    """
    if answer.timed_out:
        said = f"It did not look at its clock and was ended by force after {longest:g} seconds."
        return AttackResult(attack, AttackOutcome.BUDGET_SPENT, said, seconds=longest or 0.0)
    if answer.failure:
        return AttackResult(attack, AttackOutcome.FAILED, answer.failure)
    result: AttackResult = answer.value
    return replace(result, attack=attack)


def longest_seconds(budget: Budget) -> float | None:
    """When an attack that does not look at its clock is ended by force: ten seconds after its budget is spent."""
    return None if budget.seconds is None else budget.seconds + _GRACE


def _run_apart(
    kinds: Sequence[AttackKind],
    samples: LWRSamples,
    parameters: LWRParameters,
    budget: Budget,
    jobs: int,
    seed: int,
    keep: Callable[[AttackKind, AttackResult], None],
) -> None:
    longest = longest_seconds(budget)
    calls = (
        Call(place, attack_here, (kind, samples, parameters, budget, [seed, 2, place]))
        for place, kind in enumerate(kinds)
    )
    with workers(jobs), closing(run_calls(calls, timeout=longest)) as answers:
        for answer in answers:
            place: Any = answer.name
            kind = kinds[place]
            keep(kind, came_of(kind.name, answer, longest))

"""Attacks on learning with rounding: the base class, the samples of one run, and the judgement of results."""

import math
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np
from jaxtyping import Int

from attention.inputs import Rng
from attention.validation import checked, random_generator
from lwe.attacks.evidence import (
    common_label,
    judged,
    log10_false_secret,
    log_evidence,
    secret_predictor,
)
from lwe.attacks.outcome import (
    AttackEndedError,
    AttackOutcome,
    Budget,
    BudgetSpentError,
    RefusedError,
    TooFewSamplesError,
)
from lwe.parameters import LWEParameters, centred
from lwe.samples import LWRSamples, require_no_signs

__all__ = ["Attack", "AttackResult", "Attempt", "require_samples", "run_attacks"]


@dataclass(frozen=True, eq=False)
class AttackResult:
    """The result of an attack."""

    attack: str  #: its name
    outcome: AttackOutcome  #: how it ended
    explanation: str  #: what it did and found, or what stood in the way: a sentence with numbers
    #: the share of the labels of `tested` samples that it predicts; None if it predicts none
    accuracy: float | None = None
    #: the share of the most frequent label among them, which a constant prediction reaches
    chance: float | None = None
    #: how many samples judge it: all, for a secret; a fifth that it never looked at, for a prediction without a secret
    tested: int = 0
    #: log10 of a bound on the probability that random labels have a secret as convincing as this one
    #: (`log10_false_secret`), or that a prediction is as convincing on random labels; None if it predicts none
    log10_false: float | None = None
    #: The secret it found, centred mod q, if it found one. Others may have the same labels.
    secret: Int[np.ndarray, " n"] | None = None
    samples_used: int = 0  #: how many samples it learned from
    seconds: float = 0.0  #: how long it took
    #: numbers of its own, as JSON values: block sizes, equations, candidates
    details: Mapping[str, Any] = field(default_factory=dict)
    #: maps rows of a public matrix (N, n) to labels (N,)
    predict: Callable[[np.ndarray], np.ndarray] | None = field(default=None, repr=False)

    def __str__(self) -> str:
        share = "" if self.accuracy is None else f", {self.accuracy:.3g} of {self.tested} labels"
        return f"{self.attack}{share}: {self.explanation}"

    def to_json(self) -> dict[str, Any]:
        """The fields as plain JSON values, without `predict`."""
        plain = asdict(replace(self, predict=None))
        del plain["predict"]
        secret = None if self.secret is None else self.secret.tolist()
        return plain | {"outcome": self.outcome.name, "secret": secret}


class Attempt:
    """One run of an attack: the samples it may learn from, its clock, and the construction of its result.

    A secret is judged on all `samples`, which may have found it: `log10_false_secret` charges for the search. A
    prediction without a secret is judged on the last fifth, at most 1000: it may learn from `training`, the others.
    """

    def __init__(
        self, attack: str, samples: LWRSamples, parameters: LWEParameters, budget: Budget | None = None
    ) -> None:
        require_samples(samples, parameters)
        self.attack, self.parameters, self.budget = attack, parameters, budget or Budget()
        self.samples = samples
        self._start = time.perf_counter()
        self.details: dict[str, Any] = {}

    @property
    def training(self) -> LWRSamples:
        """All but the samples that judge a prediction without a secret; TooFewSamplesError below five samples."""
        return self._parts[0]

    @property
    def _parts(self) -> tuple[LWRSamples, LWRSamples]:
        if len(self.samples) < 5:
            raise TooFewSamplesError(
                f"There are {len(self.samples)} samples: at least 5 are needed, one of them held out."
            )
        return self.samples.held_out(min(len(self.samples) // 5, 1000))

    @property
    def seconds(self) -> float:
        """Seconds since it began."""
        return time.perf_counter() - self._start

    @property
    def seconds_left(self) -> float:
        """Seconds left of its budget; infinite without a limit."""
        return math.inf if self.budget.seconds is None else self.budget.seconds - self.seconds

    def check(self) -> None:
        """Raise `BudgetSpentError` if no time is left."""
        if self.seconds_left <= 0:
            raise BudgetSpentError(f"It was stopped after {self.seconds:.1f} seconds.")

    def require_memory(self, needed: int, what: str) -> None:
        """Raise `RefusedError` if a table would be too large."""
        if needed > self.budget.memory:
            raise RefusedError(
                f"{what} would take {needed / 2**30:.3g} GiB of memory; {self.budget.memory / 2**30:.3g} are allowed."
            )

    def found(self, secret: np.ndarray, explanation: str) -> AttackResult:
        """The result for a secret, judged by all samples: see `lwe.attacks.evidence.judged`."""
        secret, samples = centred(secret, self.parameters.q), self.samples
        predict = secret_predictor(secret, self.parameters, samples.rounding)
        sure = log10_false_secret(secret, samples, self.parameters)
        result = self._judged(predict, samples, sure, explanation, secret)
        if result.outcome is AttackOutcome.TOO_FEW_SAMPLES:
            told = f"It fits, but of random labels, too, a secret may fit so well (bound 10^{sure:.1f}): give more."
            result = replace(result, explanation=f"{explanation} {told}")
        return result

    def predicts(self, predict: Callable[[np.ndarray], np.ndarray], explanation: str) -> AttackResult:
        """The result for a prediction that was learned from `training`, judged by the held-out samples."""
        samples = self._parts[1]
        evidence = log_evidence(predict(samples.public), samples, self.parameters)
        return self._judged(predict, samples, min(0.0, -evidence / math.log(10)), explanation)

    def _judged(
        self,
        predict: Callable[[np.ndarray], np.ndarray],
        samples: LWRSamples,
        log10_false: float,
        explanation: str,
        secret: np.ndarray | None = None,
    ) -> AttackResult:
        right = predict(samples.public) == samples.labels
        outcome = judged(right, samples, self.parameters, log10_false, secret)
        return replace(
            self.ended(outcome, explanation),
            accuracy=float(np.mean(right)),
            chance=float(np.mean(samples.labels == common_label(samples))),
            tested=len(samples),
            log10_false=log10_false,
            secret=secret,
            predict=predict,
        )

    def stopped(self, result: AttackResult, told: object) -> AttackResult:
        """The result found before the budget was spent: BUDGET_SPENT, unless it is already a success."""
        outcome = result.outcome if result.outcome.succeeded else AttackOutcome.BUDGET_SPENT
        return replace(result, outcome=outcome, explanation=f"{result.explanation} {told}")

    def ended(self, outcome: AttackOutcome, explanation: str) -> AttackResult:
        """The result without a prediction, and the reason."""
        return AttackResult(
            self.attack,
            outcome,
            explanation,
            samples_used=len(self.samples),
            seconds=self.seconds,
            details=dict(self.details),
        )


class Attack(ABC):
    """An attack: a frozen dataclass of options with a `name` and a method `run`; it is called with samples.

    `run` returns the value of `attempt.found` (a secret), `attempt.predicts` (a function of rows, learned from
    `attempt.training` alone) or `attempt.ended` (neither, with the reason), or raises an `AttackEndedError`. To keep a
    budget, call `attempt.check()` regularly: it ends the attack as BUDGET_SPENT. `run_attacks` does not stop an attack
    that never calls it.

    Examples
    --------
    >>> from lwe import LWEParameters, make_samples
    >>> @dataclass(frozen=True)
    ... class AllOnes(Attack):
    ...     name = "all ones"
    ...     def run(self, attempt, generator):
    ...         attempt.check()
    ...         return attempt.found(np.ones(attempt.parameters.n, dtype=np.int64), "Guessed.")
    >>> parameters = LWEParameters(n=3, q=8, p=2)
    >>> samples, _ = make_samples(parameters, 100, secret=[1, 1, 1], rng=0)
    >>> print(AllOnes()(samples, parameters))
    all ones, 1 of 100 labels: Guessed.
    """

    @property
    @abstractmethod
    def name(self) -> str:
        """Its name, for results; a class attribute is enough."""

    @property
    def title(self) -> str:
        """Its name at the head of a row of a table."""
        return self.name[:1].upper() + self.name[1:]

    @abstractmethod
    def run(self, attempt: Attempt, generator: np.random.Generator) -> AttackResult:
        """Learn from `attempt.samples`; end with one of `attempt.found`, `predicts` and `ended`."""

    @checked
    def __call__(
        self,
        samples: LWRSamples,
        parameters: LWEParameters,
        *,
        rng: Rng = None,
        budget: Budget | None = None,
    ) -> AttackResult:
        """Attack the samples; `rng` is anything `numpy.random.default_rng` accepts. ValueError if they do not fit."""
        attempt = Attempt(self.name, samples, parameters, budget)
        try:
            attempt.check()
            return self.run(attempt, random_generator(rng))
        except AttackEndedError as ended:
            return attempt.ended(ended.outcome, str(ended))


@checked
def require_samples(samples: LWRSamples, parameters: LWEParameters) -> None:
    """Raise ValueError unless the columns, labels and entries of the samples fit the parameters."""
    if samples.n != parameters.n:
        raise ValueError(
            f"The samples have {samples.n} columns and the parameters {parameters.n} secret entries: "
            "they must agree."
        )
    require_no_signs("public", samples.public, parameters.q)
    lowest, highest = int(samples.labels.min()), int(samples.labels.max())
    if lowest < 0 or highest >= parameters.p:
        raise ValueError(
            f"The labels go from {lowest} to {highest}: from 0 to {parameters.p - 1} is allowed for {parameters}."
        )
    if parameters.matrix in ("binary", "ternary"):
        entries = centred(samples.public, parameters.q)
        lowest = 0 if parameters.matrix == "binary" or parameters.q == 2 else -1
        if entries.min() < lowest or entries.max() > 1:
            raise ValueError(
                f"The rows have entries from {entries.min()} to {entries.max()} mod {parameters.q}: from "
                f"{lowest} to 1 is allowed for {parameters}; for residues take matrix='uniform'."
            )


@checked
def run_attacks(
    attacks: Sequence[Attack],
    samples: LWRSamples,
    parameters: LWEParameters,
    *,
    rng: Rng = None,
    budget: Budget | None = None,
) -> list[AttackResult]:
    """Run attacks one after another on the same samples; a failure never loses the results of others.

    Each attack gets the budget and its own random stream from `rng`, which depends only on its place. There is a result
    for each, in order. An attack that raises is FAILED. After a KeyboardInterrupt the running attack and those after it
    are INTERRUPTED; a caller with further work must check for that and stop. ValueError if the samples do not fit the
    parameters.

    Examples
    --------
    >>> from lwe import ExhaustiveAttack, make_samples
    >>> parameters = LWEParameters(n=3, q=4, p=2)
    >>> samples, _ = make_samples(parameters, 300, rng=0)
    >>> attacks = [ExhaustiveAttack(), ExhaustiveAttack(work=10)]
    >>> [result.outcome.name for result in run_attacks(attacks, samples, parameters, rng=0)]
    ['BROKEN', 'REFUSED']
    """
    require_samples(samples, parameters)
    results: list[AttackResult] = []
    interrupted = False
    for attack, stream in zip(attacks, random_generator(rng).spawn(len(attacks)), strict=True):
        outcome, told, start = AttackOutcome.INTERRUPTED, "It was not begun.", time.perf_counter()
        if not interrupted:
            try:
                results.append(attack(samples, parameters, rng=stream, budget=budget))
                continue
            except KeyboardInterrupt:
                interrupted, told = (
                    True,
                    f"It was interrupted after {time.perf_counter() - start:.1f} seconds.",
                )
            except Exception as error:  # the other attacks continue after any error
                outcome = AttackOutcome.FAILED
                told = f"It broke down with {type(error).__name__}: {str(error).removesuffix('.')}."
        results.append(AttackResult(attack.name, outcome, told, seconds=time.perf_counter() - start))
    return results

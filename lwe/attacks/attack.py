"""Attacks on learning with rounding: the base class, what it is given and yields, and the one runner."""

import math
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np
from jaxtyping import Int

from attention.inputs import Rng
from attention.validation import checked, random_generator
from lwe.attacks.evidence import (
    LEVEL,
    common_label,
    errors_listed,
    judged,
    log10_false_secret,
    log_evidence,
    secret_predictor,
    secret_score,
)
from lwe.attacks.outcome import AttackEndedError, AttackOutcome, Budget
from lwe.attacks.refinement import refined_secret
from lwe.parameters import LWEParameters, centred
from lwe.samples import LWRSamples, require_no_signs

__all__ = ["Attack", "AttackResult", "Attempt", "Finding", "require_samples", "run_attack", "run_attacks"]


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


@dataclass(frozen=True, eq=False)
class Attempt:
    """What one run of an attack is given: samples, parameters, a budget, and a record of numbers to fill in."""

    samples: LWRSamples  #: all may be used to find a secret
    parameters: LWEParameters
    budget: Budget = field(default_factory=Budget)
    details: dict[str, Any] = field(default_factory=dict)  #: becomes `AttackResult.details`
    start: float = field(default_factory=lambda: time.perf_counter())

    @property
    def training(self) -> LWRSamples:
        """All but the samples that judge a prediction without a secret."""
        return self._parts[0]

    @property
    def held_out(self) -> LWRSamples:
        """The last fifth, at most 1000: they judge a prediction without a secret."""
        return self._parts[1]

    @property
    def _parts(self) -> tuple[LWRSamples, LWRSamples]:
        if len(self.samples) < 5:
            raise AttackEndedError(
                AttackOutcome.TOO_FEW_SAMPLES,
                f"There are {len(self.samples)} samples: at least 5 are needed, one of them held out.",
            )
        return self.samples.held_out(min(len(self.samples) // 5, 1000))

    @property
    def seconds(self) -> float:
        """Seconds since it began."""
        return time.perf_counter() - self.start

    @property
    def seconds_left(self) -> float:
        """Seconds left of its budget; infinite without a limit."""
        return math.inf if self.budget.seconds is None else self.budget.seconds - self.seconds

    def check(self) -> None:
        """End the attack if no time is left."""
        if self.seconds_left <= 0:
            raise AttackEndedError(
                AttackOutcome.BUDGET_SPENT, f"It was stopped after {self.seconds:.1f} seconds."
            )

    def require_memory(self, needed: int, what: str) -> None:
        """End the attack if a table would be too large."""
        if needed > self.budget.memory:
            raise AttackEndedError(
                AttackOutcome.REFUSED,
                f"{what} would take {needed / 2**30:.3g} GiB of memory; {self.budget.memory / 2**30:.3g} are allowed.",
            )


@dataclass(frozen=True, eq=False)
class Finding:
    """What an attack yields: a secret, or a prediction of labels without one."""

    explanation: str  #: how it was found: a sentence with numbers
    secret: Int[np.ndarray, " n"] | None = None
    #: maps rows to labels; learned from `Attempt.training` alone
    predict: Callable[[np.ndarray], np.ndarray] | None = None
    #: Whether the secret may be off by a little. With rows of bits or trits least squares then make it exact.
    near: bool = False


class Attack(ABC):
    """An attack: a frozen dataclass of options with a `name` and a method `run`; it is called with samples.

    `run` yields what it finds, one `Finding` after the other. Each is judged. The attack ends with the first that
    breaks the labels, when `run` returns, or with an `AttackEndedError`. The result is that of the best finding. To
    keep a budget, call `attempt.check()` regularly. Nothing stops an attack that never does.

    Examples
    --------
    >>> from lwe import LWEParameters, make_samples
    >>> @dataclass(frozen=True)
    ... class AllOnes(Attack):
    ...     name = "all-ones"
    ...     def run(self, attempt, rng):
    ...         attempt.check()
    ...         yield Finding("Guessed.", np.ones(attempt.parameters.n, dtype=np.int64))
    >>> parameters = LWEParameters(n=3, q=8, p=2)
    >>> samples, _ = make_samples(parameters, 100, secret=[1, 1, 1], rng=0)
    >>> print(AllOnes()(samples, parameters))
    all-ones, 1 of 100 labels: Guessed.
    """

    @property
    @abstractmethod
    def name(self) -> str:
        """Its name in results and at the command line; a class attribute is enough."""

    @property
    def title(self) -> str:
        """Its name at the head of a row of a table."""
        return self.name[:1].upper() + self.name[1:]

    @abstractmethod
    def run(self, attempt: Attempt, rng: np.random.Generator) -> Iterator[Finding]:
        """Yield findings; end early with an `AttackEndedError` that says why."""

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
        require_samples(samples, parameters)
        attempt = Attempt(samples, parameters, budget or Budget())
        result = AttackResult(
            self.name, AttackOutcome.NOTHING, "It found nothing.", samples_used=len(samples)
        )
        try:
            attempt.check()
            for finding in _improvements(self.run(attempt, random_generator(rng)), attempt):
                result = _judge(result, finding, attempt)
                if result.outcome is AttackOutcome.BROKEN:
                    break
        except AttackEndedError as ended:
            words = str(ended) if result.accuracy is None else f"{result.explanation} {ended}"
            outcome = result.outcome if result.outcome.succeeded else ended.outcome
            result = replace(result, outcome=outcome, explanation=words)
        return replace(result, seconds=attempt.seconds, details=dict(attempt.details))


def _improvements(findings: Iterator[Finding], attempt: Attempt) -> Iterator[Finding]:
    """The findings that are better than those before, and the secrets that least squares make of near ones."""
    samples, parameters = attempt.samples, attempt.parameters
    score = secret_score(samples, parameters)
    best: float | None = None

    def better(finding: Finding) -> bool:
        nonlocal best
        if finding.secret is not None:
            value = score(finding.secret)
        else:
            assert finding.predict is not None
            value = float(np.mean(finding.predict(attempt.held_out.public) == attempt.held_out.labels))
        if best is not None and value <= best:
            return False
        best = value
        return True

    for finding in findings:
        improved = better(finding)
        if improved:
            yield finding
        if finding.secret is None or not finding.near or parameters.matrix not in ("binary", "ternary"):
            continue
        # the likelihood shows a good secret long before its share of right labels exceeds chance
        if not errors_listed(parameters):
            predicted = secret_predictor(finding.secret, parameters, samples.rounding)(samples.public)
            improved = log_evidence(predicted, samples, parameters) >= -math.log(LEVEL)
        if improved:
            seconds = max(0.0, attempt.seconds_left)
            secret = refined_secret(finding.secret, samples, parameters, seconds=seconds)
            refined = replace(finding, secret=secret)
            if better(refined):
                yield refined


def _judge(result: AttackResult, finding: Finding, attempt: Attempt) -> AttackResult:
    """The result of a finding: a secret is judged by all samples, a prediction by those held out.

    All samples may have found the secret: `log10_false_secret` charges for the search.
    """
    parameters, secret, words = attempt.parameters, finding.secret, finding.explanation
    if secret is not None:
        samples, secret = attempt.samples, centred(secret, parameters.q)
        predict = secret_predictor(secret, parameters, samples.rounding)
        log10_false = log10_false_secret(secret, samples, parameters)
    else:
        assert finding.predict is not None
        samples, predict = attempt.held_out, finding.predict
        log10_false = min(0.0, -log_evidence(predict(samples.public), samples, parameters) / math.log(10))
    right = predict(samples.public) == samples.labels
    outcome = judged(right, samples, parameters, log10_false, secret)
    if outcome is AttackOutcome.TOO_FEW_SAMPLES:
        bound = f"bound 10^{log10_false:.1f}"
        words += f" It fits, but of random labels, too, a secret may fit so well ({bound}): give more."
    return replace(
        result,
        outcome=outcome,
        explanation=words,
        accuracy=float(np.mean(right)),
        chance=float(np.mean(samples.labels == common_label(samples))),
        tested=len(samples),
        log10_false=log10_false,
        secret=secret,
        predict=predict,
    )


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


def run_attack(
    attack: Attack,
    samples: LWRSamples,
    parameters: LWEParameters,
    *,
    rng: Rng = None,
    budget: Budget | None = None,
) -> AttackResult:
    """Run one attack; if it breaks down, the result is FAILED and holds the error."""
    start = time.perf_counter()
    try:
        return attack(samples, parameters, rng=rng, budget=budget)
    except Exception as error:  # the other attacks continue after any error
        words = f"It broke down with {type(error).__name__}: {str(error).removesuffix('.')}."
        return AttackResult(attack.name, AttackOutcome.FAILED, words, seconds=time.perf_counter() - start)


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
    for each, in order: that of `run_attack`. After a KeyboardInterrupt the running attack and those after it are
    INTERRUPTED; a caller with further work must check for that and stop. ValueError if the samples do not fit the
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
    try:
        for attack, stream in zip(attacks, random_generator(rng).spawn(len(attacks)), strict=True):
            results.append(run_attack(attack, samples, parameters, rng=stream, budget=budget))
    except KeyboardInterrupt:
        interrupted = AttackOutcome.INTERRUPTED
        left = attacks[len(results) :]
        results += [AttackResult(attack.name, interrupted, interrupted.value) for attack in left]
    return results

"""Attacks on learning with rounding: the base class, what it is given and yields, and the one runner."""

import math
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from enum import Enum
from typing import Any

import numpy as np
from jaxtyping import Int

from attention.inputs import Rng
from attention.validation import PositiveFloat, PositiveInt, checked, random_generator
from lwe.attacks.evidence import (
    LEVEL,
    accuracy_bar,
    as_likely_as_own,
    errors_listed,
    log10_false_secret,
    log_evidence,
    secret_predictor,
    secret_score,
)
from lwe.attacks.refinement import refined_secret
from lwe.parameters import LWEParameters
from lwe.residues import centred
from lwe.samples import LWRSamples, require_samples


class AttackOutcome(Enum):
    """How an attack ended; each value is a sentence a user can act on."""

    BROKEN = "Broken: all labels are predicted; with errors, as well as the secret itself would."
    PREDICTS = "In part: labels are predicted better than by chance."
    NOTHING = "Nothing found: labels are predicted no better than by chance."
    BUDGET_SPENT = "Out of budget: it was stopped before it had an answer; allow more seconds or memory."
    REFUSED = (
        "Refused: it needs more than it may spend, and was not begun; allow more, or take a smaller problem."
    )
    TOO_FEW_SAMPLES = "Too few samples: it needs more of them to say anything; give more."
    NOT_APPLICABLE = "Not of this kind: the attack is for other parameters."
    MISSING = "Missing: a package it needs is not installed."
    FAILED = "Failed: it broke down; the others are not affected."
    INTERRUPTED = "Interrupted: it was stopped from outside before it had an answer, or not begun any more."

    @property
    def succeeded(self) -> bool:
        """Whether something was learned about the labels."""
        return self in (AttackOutcome.BROKEN, AttackOutcome.PREDICTS)


@dataclass(frozen=True)
@checked
class Budget:
    """What an attack may spend."""

    #: wall-clock seconds, which attacks check from time to time; None for no limit
    seconds: PositiveFloat | None = 30.0
    memory: PositiveInt = 1 << 31  #: bytes that its largest tables may take


class AttackEndedError(RuntimeError):
    """An attack ends, with what it has yielded before; the outcome is that of an attack that had no success."""

    def __init__(self, outcome: AttackOutcome, explanation: str) -> None:
        super().__init__(explanation)
        self.outcome = outcome


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
    score, best = secret_score(samples, parameters), -math.inf
    for finding in findings:
        if finding.secret is not None:
            value = score(finding.secret)
        else:
            assert finding.predict is not None
            value = float(np.mean(finding.predict(attempt.held_out.public) == attempt.held_out.labels))
        promising = value > best
        if promising:
            best = value
            yield finding
        if finding.secret is None or not finding.near or parameters.matrix not in ("binary", "ternary"):
            continue
        # the likelihood shows a good secret long before its share of right labels exceeds chance
        if not errors_listed(parameters):
            predicted = secret_predictor(finding.secret, parameters, samples.rounding)(samples.public)
            promising = log_evidence(predicted, samples, parameters) >= -math.log(LEVEL)
        if promising:
            seconds = max(0.0, attempt.seconds_left)
            secret = refined_secret(finding.secret, samples, parameters, seconds=seconds)
            if (value := score(secret)) > best:
                best = value
                yield replace(finding, secret=secret)


def _judge(result: AttackResult, finding: Finding, attempt: Attempt) -> AttackResult:
    """The result of a finding: a secret is judged by all samples, a prediction by those held out.

    All samples may have found the secret: `log10_false_secret` charges for the search. BROKEN: the bound is at most
    10^-4, and the labels are predicted as well as by the secret itself: all of them, or, with errors, which nobody can
    predict, so many (`accuracy_bar`), and labels as likely as labels made with the secret (`as_likely_as_own`), both up
    to four standard deviations. A prediction without a secret has no likelihood: the bar must be above the share of the
    most frequent label. PREDICTS: the bound is at most 10^-4. TOO_FEW_SAMPLES: a secret fits, but random labels might
    have one as well. Otherwise NOTHING.
    """
    parameters, secret, words = attempt.parameters, finding.secret, finding.explanation
    samples = attempt.held_out if secret is None else attempt.samples
    if secret is not None:
        secret = centred(secret, parameters.q)
        predict = secret_predictor(secret, parameters, samples.rounding)
        log10_false = log10_false_secret(secret, samples, parameters)
    else:
        assert finding.predict is not None
        predict = finding.predict
        log10_false = min(0.0, -log_evidence(predict(samples.public), samples, parameters) / math.log(10))
    accuracy = float(np.mean(predict(samples.public) == samples.labels))
    chance = float(np.unique(samples.labels, return_counts=True)[1].max() / len(samples))
    bar, sure = accuracy_bar(parameters, len(samples)), log10_false <= math.log10(LEVEL)
    fits = accuracy >= bar
    if fits and errors_listed(parameters):
        fits = bar > chance if secret is None else as_likely_as_own(secret, samples, parameters)
    outcome = AttackOutcome.PREDICTS if sure else AttackOutcome.NOTHING
    if fits and sure:
        outcome = AttackOutcome.BROKEN
    elif fits and secret is not None and chance < 1:
        outcome = AttackOutcome.TOO_FEW_SAMPLES
        bound = f"bound 10^{log10_false:.1f}"
        words += f" It fits, but of random labels, too, a secret may fit so well ({bound}): give more."
    return replace(
        result,
        outcome=outcome,
        explanation=words,
        accuracy=accuracy,
        chance=chance,
        tested=len(samples),
        log10_false=log10_false,
        secret=secret,
        predict=predict,
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

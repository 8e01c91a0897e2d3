"""One run of an attack: what it may learn from, its clock, and how what it found is judged."""

import math
import time
from abc import ABC, abstractmethod
from dataclasses import replace
from typing import Any

import numpy as np
from jaxtyping import Int

from attention.inputs import Rng
from attention.validation import random_generator
from lwe.attack import (
    AttackOutcome,
    AttackResult,
    Budget,
    BudgetSpentError,
    LabelPredictor,
    RefusedError,
    require_samples,
)
from lwe.evidence import accuracy_bar, as_likely_as_own, fits_in_order, surpasses
from lwe.parameters import LWRParameters, centred, require_parameters, rounded
from lwe.samples import LWRSamples, inner_products

__all__ = ["LEVEL", "Attempt", "BaseAttack", "secret_predictor", "share_right"]

LEVEL = 1e-4
"""With what probability at most a prediction without anything to it counts as better than chance, by each test."""


class Attempt:
    """One run of an attack: the samples it may learn from, its clock, and the making of its result.

    Parameters
    ----------
    attack : str
        Its name.
    samples : LWRSamples
        What was given. The last fifth, at most 1000 of them, is held out for the result and seen by nobody else.
    parameters : LWRParameters
        What the samples are of.
    budget : Budget, optional
        The default one if left out.

    Raises
    ------
    ValueError
        If the samples do not fit the parameters, or are fewer than five.

    Notes
    -----
    Candidates may be compared on `training`, never on what is held out: so accuracies are not maxima over candidates.
    """

    def __init__(
        self, attack: str, samples: LWRSamples, parameters: LWRParameters, budget: Budget | None = None
    ) -> None:
        require_samples(samples, parameters)
        self.attack, self.parameters, self.budget = attack, parameters, budget or Budget()
        self.training, self._fresh = samples.held_out(min(len(samples) // 5, 1000))
        self._start = time.perf_counter()
        self.details: dict[str, Any] = {}

    @property
    def seconds(self) -> float:
        """Since it began."""
        return time.perf_counter() - self._start

    @property
    def seconds_left(self) -> float:
        """Of its budget; infinite if there is none."""
        return math.inf if self.budget.seconds is None else self.budget.seconds - self.seconds

    def check(self) -> None:
        """Raise if the time is over.

        Raises
        ------
        BudgetSpentError
            If so.
        """
        if self.seconds_left <= 0:
            raise BudgetSpentError(f"It was stopped after {self.seconds:.1f} seconds.")

    def require_memory(self, needed: int, what: str) -> None:
        """Raise if a table would be too large.

        Raises
        ------
        RefusedError
            If so.
        """
        if needed > self.budget.memory:
            raise RefusedError(
                f"{what} would take {needed / 2**30:.3g} GiB of memory; {self.budget.memory / 2**30:.3g} are allowed."
            )

    def found(self, secret: np.ndarray, explanation: str) -> AttackResult:
        """A secret: it predicts the label floor(p (<a, s> mod q) / q).

        With errors it counts as better than chance also where its likelihood says so: see `predicts`.
        """
        secret = centred(secret, self.parameters.modulus)
        return self.predicts(secret_predictor(secret, self.parameters), explanation, secret=secret)

    def predicts(
        self, predict: LabelPredictor, explanation: str, *, secret: np.ndarray | None = None
    ) -> AttackResult:
        """A prediction, judged on the samples held out.

        Broken is: all of them predicted, and better than by chance; with errors, which nobody can predict, as well as
        the secret itself would. In part is: better than by chance, by one of two tests; where there is nothing to it,
        each is passed with probability at most 1e-4.

        Notes
        -----
        A prediction is better than by chance if it is right more often than the best constant, by McNemar's test
        (`surpasses`). The constant is the most frequent label of the training samples, so that both are fixed before
        the fresh ones are seen. Beyond that test the share has to be above `chance`. Fourteen samples on which they
        differ are needed at least.

        Wide errors leave few labels right, whatever the secret. So a secret may also show itself by the likelihood
        of the fresh labels: it has to fit them in their order far better than in others (`fits_in_order`), which
        no law of labels without the rows brings about. A secret that predicts one label alone is left to the first
        test, which it cannot pass. Where errors have too many values to list, labels are judged as if there were none.

        As well as the secret itself is, with errors: as many labels as it could have right, up to four standard
        deviations (`accuracy_bar`), and the fresh labels as likely as labels made with the secret found would be,
        up to about as many (`as_likely_as_own`). A prediction without a secret has no likelihood; its share of right
        labels has to tell, so that the bar is above `chance`.
        """
        labels, predicted = self._fresh.labels, predict(self._fresh.public)
        right = predicted == labels
        accuracy = float(np.mean(right))
        chance = float(np.unique(labels, return_counts=True)[1].max() / len(labels))
        values, counts = np.unique(self.training.labels, return_counts=True)
        constant = labels == values[np.argmax(counts)]
        better = accuracy > chance and surpasses(right, constant, level=LEVEL)
        if not better and secret is not None and self.parameters.noisy:
            better = bool(np.any(predicted != predicted[0])) and self._fits(secret)
        if better and self._as_the_secret(accuracy, chance, secret):
            outcome = AttackOutcome.BROKEN
        else:
            outcome = AttackOutcome.PREDICTS if better else AttackOutcome.NOTHING
        return self._result(
            outcome, explanation, accuracy=accuracy, chance=chance, secret=secret, predict=predict
        )

    def _fits(self, secret: np.ndarray) -> bool:
        try:
            return fits_in_order(secret, self._fresh, self.parameters, level=LEVEL)
        except BudgetSpentError:
            return False

    def _as_the_secret(self, accuracy: float, chance: float, secret: np.ndarray | None) -> bool:
        bar = accuracy_bar(self.parameters, len(self._fresh))
        if accuracy < bar or not self.parameters.noisy:
            return accuracy >= bar
        if secret is None:
            return bar > chance
        # all labels right is all that can be asked where errors cannot be listed
        return bar == 1.0 or as_likely_as_own(secret, self._fresh, self.parameters)

    def stopped(self, result: AttackResult, told: object) -> AttackResult:
        """What was found before the budget was spent: out of budget, unless it is a success as it is."""
        outcome = result.outcome if result.outcome.succeeded else AttackOutcome.BUDGET_SPENT
        return replace(result, outcome=outcome, explanation=f"{result.explanation} {told}")

    def ended(self, outcome: AttackOutcome, explanation: str) -> AttackResult:
        """No prediction, and why."""
        return self._result(outcome, explanation)

    def _result(self, outcome: AttackOutcome, explanation: str, **found: Any) -> AttackResult:
        return AttackResult(
            self.attack,
            outcome,
            explanation,
            fresh=len(self._fresh),
            samples_used=len(self.training),
            seconds=self.seconds,
            details=dict(self.details),
            **found,
        )


class BaseAttack(ABC):
    """What attacks share: a clock, samples held out, and results also where the budget is spent.

    An attack of its own is a frozen dataclass of options that derives from it, with a `name` and a `run`.

    Notes
    -----
    `run` ends with what one of `attempt.found` (a secret), `attempt.predicts` (a function of rows) and `attempt.ended`
    (neither, and why) returns. A budget is kept by asking: call `attempt.check()` now and then, and the attack ends as
    BUDGET_SPENT in time; one that never asks is not stopped by `run_attacks`. What asks for too much memory is REFUSED.

    Examples
    --------
    >>> from dataclasses import dataclass
    >>> from lwe import LWRParameters, make_samples
    >>> @dataclass(frozen=True)
    ... class AllOnes(BaseAttack):
    ...     name = "all ones"
    ...     def run(self, attempt, generator):
    ...         attempt.check()
    ...         return attempt.found(np.ones(attempt.parameters.secret_dim, dtype=np.int64), "Guessed.")
    >>> parameters = LWRParameters(secret_dim=3, modulus=8, levels=2)
    >>> samples, _ = make_samples(parameters, 100, secret=[1, 1, 1], rng=0)
    >>> print(AllOnes()(samples, parameters))
    all ones, 1 of 20 fresh labels: Guessed.
    """

    @property
    @abstractmethod
    def name(self) -> str:
        """Its name, for tables; a class attribute will do."""

    def __call__(
        self,
        samples: LWRSamples,
        parameters: LWRParameters,
        *,
        rng: Rng = None,
        budget: Budget | None = None,
    ) -> AttackResult:
        """Attack the samples.

        Parameters
        ----------
        samples, parameters
            What is attacked, and what is public about it.
        rng : optional
            Anything `numpy.random.default_rng` accepts (SPEC 7).
        budget : Budget, optional
            What may be spent.

        Raises
        ------
        ValueError
            If the samples do not fit the parameters.
        """
        attempt = Attempt(self.name, samples, parameters, budget)
        try:
            attempt.check()
            return self.run(attempt, random_generator(rng))
        except RefusedError as refused:
            return attempt.ended(AttackOutcome.REFUSED, str(refused))
        except BudgetSpentError as spent:
            return attempt.ended(AttackOutcome.BUDGET_SPENT, str(spent))

    @abstractmethod
    def run(self, attempt: Attempt, generator: np.random.Generator) -> AttackResult:
        """Learn from `attempt.training`; end with one of `attempt.found`, `predicts` and `ended`."""


def secret_predictor(secret: np.ndarray, parameters: LWRParameters) -> LabelPredictor:
    """What a secret predicts on rows of a public matrix."""
    require_parameters(parameters)
    q, p = parameters.modulus, parameters.levels
    return lambda public: rounded(inner_products(public, secret, q), q, p)


def share_right(secret: Int[np.ndarray, " n"], samples: LWRSamples, parameters: LWRParameters) -> float:
    """The share of labels that a secret predicts."""
    return float(np.mean(secret_predictor(secret, parameters)(samples.public) == samples.labels))

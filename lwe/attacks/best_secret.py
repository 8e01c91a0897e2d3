"""The best secret that an attack has so far, by the labels of the samples."""

import math

import numpy as np
from jaxtyping import Int

from lwe.attacks.attack import Attempt
from lwe.attacks.evidence import (
    LEVEL,
    errors_listed,
    judged,
    log10_false_secret,
    log_evidence,
    secret_predictor,
    secret_score,
)
from lwe.attacks.least_squares import refined_secret
from lwe.attacks.outcome import AttackOutcome

__all__ = ["BestSecret"]


class BestSecret:
    """The best secret so far. With small rows (bits or trits) a good secret is improved by `refined_secret`.

    Secrets are compared by `secret_score` on all samples.
    """

    def __init__(self, attempt: Attempt) -> None:
        self.attempt = attempt
        self.secret: np.ndarray | None = None
        self.solved = False
        """Whether the best secret predicts the labels as well as the true one would."""
        self._value = -math.inf
        self._by_likelihood = errors_listed(attempt.parameters)
        self._score = secret_score(attempt.samples, attempt.parameters)

    def offer(self, secret: Int[np.ndarray, " n"]) -> None:
        """Compare a secret, and its improvement by least squares, with the best so far."""
        samples, parameters = self.attempt.samples, self.attempt.parameters
        better = self._compare(secret)
        if self.solved or parameters.matrix not in ("binary", "ternary"):
            return
        # the likelihood shows a good secret long before its share of right labels exceeds chance
        if better if self._by_likelihood else self._better_than_chance(secret):
            seconds = max(0.0, self.attempt.seconds_left)
            self._compare(refined_secret(secret, samples, parameters, seconds=seconds))

    def _compare(self, secret: np.ndarray) -> bool:
        """Whether the secret is better than the best so far; if so, keep it."""
        value = self._score(secret)
        if value <= self._value:
            return False
        self.secret, self._value = secret, value
        samples, parameters = self.attempt.samples, self.attempt.parameters
        right = secret_predictor(secret, parameters, samples.rounding)(samples.public) == samples.labels
        false = log10_false_secret(secret, samples, parameters)
        self.solved = judged(right, samples, parameters, false, secret) is AttackOutcome.BROKEN
        return True

    def _better_than_chance(self, secret: np.ndarray) -> bool:
        samples, parameters = self.attempt.samples, self.attempt.parameters
        predicted = secret_predictor(secret, parameters, samples.rounding)(samples.public)
        return log_evidence(predicted, samples, parameters) >= -math.log(LEVEL)

"""The best secret that an attack has so far, by the labels of the training samples."""

import math

import numpy as np
from jaxtyping import Int

from lwe.attacks.attack import Attempt
from lwe.attacks.evidence import common_label, errors_listed, judged, secret_predictor, secret_score
from lwe.attacks.least_squares import refined_secret
from lwe.attacks.outcome import AttackOutcome

__all__ = ["BestSecret"]

_JUDGES = 1000  # the most samples that judge a secret by likelihood; no more are ever held out


class BestSecret:
    """The best secret so far. With small rows (bits or trits) a good secret is improved by `refined_secret`.

    Secrets are compared by `secret_score` on all training samples.
    """

    def __init__(self, attempt: Attempt) -> None:
        self.attempt = attempt
        self.secret: np.ndarray | None = None
        self.solved = False
        """Whether the best secret predicts the labels as well as the true one would."""
        self._value = -math.inf
        self._by_likelihood = errors_listed(attempt.parameters)
        self._score = secret_score(attempt.training, attempt.parameters)

    def offer(self, secret: Int[np.ndarray, " n"]) -> None:
        """Compare a secret, and its improvement by least squares, with the best so far."""
        samples, parameters = self.attempt.training, self.attempt.parameters
        better = self._compare(secret)
        if self.solved or parameters.matrix not in ("binary", "ternary"):
            return
        # the likelihood shows a good secret long before its share of right labels exceeds chance
        if better if self._by_likelihood else self._outcome(secret).succeeded:
            seconds = max(0.0, self.attempt.seconds_left)
            self._compare(refined_secret(secret, samples, parameters, seconds=seconds))

    def _compare(self, secret: np.ndarray) -> bool:
        """Whether the secret is better than the best so far; if so, keep it."""
        value = self._score(secret)
        if value <= self._value:
            return False
        self.secret, self._value = secret, value
        self.solved = self._outcome(secret) is AttackOutcome.BROKEN
        return True

    def _outcome(self, secret: np.ndarray) -> AttackOutcome:
        samples, parameters = self.attempt.training, self.attempt.parameters
        some = samples.take(min(len(samples), _JUDGES)) if self._by_likelihood else samples
        predicted = secret_predictor(secret, parameters)(some.public)
        return judged(predicted, some, parameters, common_label(samples), secret)

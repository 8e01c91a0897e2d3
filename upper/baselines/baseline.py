"""What all baselines share: how a fit begins, and a generator apart from that of the target."""

from typing import Any

import numpy as np

from attention import ExampleOracle, Fit, GroundTruth, Recorder, check_budget
from attention.inputs import Rng
from attention.learning import Progress
from attention.validation import random_generator

__all__ = ["Baseline", "apart"]


class Baseline:
    """A learner whose `fit` begins as all do; `_learn` is its own part."""

    examples: int | None = None

    def minimum_examples(self, k: int, d: int) -> int:
        """One example to fit and one to hold out."""
        return 2

    def fit(
        self,
        oracle: ExampleOracle,
        *,
        rng: Rng = None,
        truth: GroundTruth | None = None,
        progress: Progress | None = None,
    ) -> Fit:
        """Learn from the oracle.

        Raises
        ------
        ValueError
            If the budget is below `minimum_examples`, or the oracle's examples are malformed.
        """
        recorder = Recorder(oracle, truth=truth, progress=progress)
        return self._learn(oracle, recorder, check_budget(self, oracle), random_generator(rng))

    def _learn(
        self, oracle: ExampleOracle, recorder: Recorder, budget: int | None, rng: np.random.Generator
    ) -> Any:
        raise NotImplementedError


def apart(rng: np.random.Generator) -> np.random.Generator:
    """A generator whose numbers are not those of `rng` itself.

    A learner seeded like the maker of its target would otherwise draw the very numbers of the target as its start.
    """
    return np.random.default_rng([int(rng.integers(2**63)), 1])

"""The learner that predicts what is known in advance: the zero of every comparison."""

from dataclasses import dataclass
from typing import Any

from jaxtyping import Shaped

from attention import ExampleOracle, Fit, GroundTruth, Outcome, Recorder
from attention._arrays import namespace
from attention.inputs import Rng
from attention.learning import Predictor, Progress
from attention.validation import checked

__all__ = ["KnownPart"]


@dataclass(frozen=True)
@checked
class KnownPart:
    """Predicts the part of the target that is known in advance, and draws no example.

    Parameters
    ----------
    known : callable, optional
        The known part of a hard instance; None predicts zero, all that is known of a nice layer.

    Notes
    -----
    Its error on the unknown part is 1.0 by definition: a learner above that learned nothing.
    """

    known: Predictor | None = None

    @property
    def examples(self) -> int | None:
        """It needs no budget."""
        return None

    def minimum_examples(self, k: int, d: int) -> int:
        """No example is needed."""
        return 0

    def fit(
        self,
        oracle: ExampleOracle,
        *,
        rng: Rng = None,
        truth: GroundTruth | None = None,
        progress: Progress | None = None,
    ) -> Fit:
        """Return the known part as the fit; neither `oracle` nor `rng` is used."""
        recorder = Recorder(oracle, truth=truth, progress=progress)
        predict = _zero if self.known is None else self.known
        recorder.step("What is known in advance", predict=predict)
        return recorder.fit(Outcome.BEST_OF_CLASS, predict=predict)


def _zero(x: Shaped[Any, "*batch k d"]) -> Shaped[Any, "*batch k d"]:
    return namespace(x).zeros_like(x)

"""The linear baseline: what no attention at all can reach."""

from dataclasses import dataclass

from attention import ExampleOracle, Fit, GroundTruth, Outcome, Recorder, check_budget, draw_examples
from attention.evaluation import ENOUGH, ENOUGH_IN_SPAN, HeldOut, hold_out
from attention.inputs import Rng
from attention.learning import Progress
from attention.validation import NonNegativeInt, checked
from upper.linear import linear_part

__all__ = ["LinearBaseline"]


@dataclass(frozen=True)
@checked
class LinearBaseline:
    """Least squares on the token itself and on the mean token: what no attention at all can reach.

    Parameters
    ----------
    examples : int, optional
        Budget in examples; by default sixteen times the number of unknowns of one output coordinate, and all that are
        given.

    Raises
    ------
    ValueError
        If `examples` is negative, or on `fit` below `minimum_examples`.

    Notes
    -----
    An improper learner: its hypothesis is no attention layer. It contains the layer with all Theta_i = 0 and, for
    hard instances on two tokens, the known part. O(n k d^2).

    References
    ----------
    Derived here; the first phase of Chen and Li (arXiv 2402.04084) is the estimate of a part of it.
    """

    examples: NonNegativeInt | None = None

    def minimum_examples(self, k: int, d: int) -> int:
        """As many equations as unknowns, 2 d an output coordinate and k an example, and an example to hold out."""
        return -(-2 * d // k) + 1

    def fit(
        self,
        oracle: ExampleOracle,
        *,
        rng: Rng = None,
        truth: GroundTruth | None = None,
        progress: Progress | None = None,
    ) -> Fit:
        """Regress the labels on the tokens and their means; `rng` is not needed.

        Raises
        ------
        ValueError
            If the budget is below `minimum_examples`, or the oracle's examples are malformed.
        """
        recorder = Recorder(oracle, truth=truth, progress=progress)
        least, budget = self.minimum_examples(oracle.k, oracle.d), check_budget(self, oracle)
        n = 16 * least if budget is None else budget
        (x, y), held = hold_out(*draw_examples(oracle, n), least=least - 1)
        predictor, rank = linear_part(x, y)
        fitted = HeldOut(x, y, x).error(predictor)
        outcome, error = held.verdict(
            predictor,
            fitted=fitted,
            otherwise=Outcome.BEST_OF_CLASS,
            enough=ENOUGH if rank == min(oracle.k, 2) * oracle.d else ENOUGH_IN_SPAN,
        )
        recorder.step("Least squares", predict=predictor, residual=fitted, held_out_error=error)
        return recorder.fit(outcome, predict=predictor)

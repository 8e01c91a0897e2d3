"""The linear baseline: least squares of each output row on its own token and on the mean token."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float, Shaped
from scipy.linalg import lstsq

from attention import ExampleOracle, Fit, GroundTruth, Outcome, Recorder, check_budget, draw_examples
from attention._arrays import as_floating, namespace, shown
from attention.evaluation import ENOUGH, ENOUGH_IN_SPAN, HeldOut, hold_out
from attention.inputs import Rng
from attention.learning import Progress
from attention.memory import require_memory
from attention.validation import count

__all__ = ["LinearBaseline", "LinearPredictor", "linear_part"]


@dataclass(frozen=True, eq=False)
class LinearPredictor:
    """The predictor Y_a = x_a U + (mean of the tokens) V.

    Parameters
    ----------
    own, mean : array (d, d)
        U and V.
    """

    own: Float[np.ndarray, "d d"]
    mean: Float[np.ndarray, "d d"]

    def __call__(self, x: Shaped[Any, "*batch k d"]) -> Shaped[Any, "*batch k d"]:
        """The predicted labels, in the array type of `x`."""
        xp = namespace(x)
        if x.ndim < 2 or x.shape[-1] != len(self.own) or x.shape[-2] < 1:
            raise ValueError(f"x has shape {tuple(x.shape)}: (..., k, {len(self.own)}) is needed.")
        x = as_floating(x, xp.asarray(0.0).dtype, xp) if not xp.isdtype(x.dtype, "real floating") else x
        own, mean = (xp.asarray(u, dtype=x.dtype) for u in (self.own, self.mean))
        return xp.matmul(x, own) + xp.matmul(xp.mean(x, axis=-2, keepdims=True), mean)


@dataclass(frozen=True)
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

    examples: int | None = None

    def __post_init__(self) -> None:
        if self.examples is not None:
            object.__setattr__(self, "examples", count("examples", self.examples, least=0))

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
        require_memory(
            f"A regression on {shown(n)} examples of {oracle.k} tokens in {oracle.d} dimensions",
            88 * n * oracle.k * oracle.d,
            advice="allow fewer examples",
        )
        (x, y), held = hold_out(*draw_examples(oracle, n), least=least - 1)
        predictor, rank = _least_squares(x, y)
        fitted = HeldOut(x, y, x).error(predictor)
        outcome, error = held.verdict(
            predictor,
            fitted=fitted,
            otherwise=Outcome.BEST_OF_CLASS,
            enough=ENOUGH if rank == min(oracle.k, 2) * oracle.d else ENOUGH_IN_SPAN,
        )
        recorder.step("Least squares", predict=predictor, residual=fitted, held_out_error=error)
        return recorder.fit(outcome, predict=predictor)


def linear_part(x: Float[np.ndarray, "n k d"], y: Float[np.ndarray, "n k d"]) -> LinearPredictor:
    """The least-squares predictor of that form, the one of minimum norm where several are.

    Parameters
    ----------
    x, y : array (n, k, d)
        Tokens and labels.

    Returns
    -------
    LinearPredictor
        With the U and V of least squares.

    Raises
    ------
    ValueError
        If `y` has not as many entries as `x`, or an entry is not finite.

    Notes
    -----
    By a singular value decomposition of the (n k, 2 d) features, O(n k d^2 + d^3).

    References
    ----------
    Linear regression; the form of the predictor is derived here.
    """
    return _least_squares(x, y)[0]


def _least_squares(x: np.ndarray, y: np.ndarray) -> tuple[LinearPredictor, int]:
    """The predictor, and the rank of the features."""
    n, k, d = x.shape
    mean = np.broadcast_to(x.mean(axis=1, keepdims=True), x.shape)
    features = np.concatenate([x, mean], axis=2).reshape(n * k, 2 * d)
    # minimum norm, so that one token (own = mean) needs no case of its own
    solution, _, rank, _ = lstsq(features, y.reshape(n * k, d), lapack_driver="gelsd")
    return LinearPredictor(own=solution[:d], mean=solution[d:]), int(rank)

"""Baselines without a search: the part known in advance, the best linear predictor, one gradient step."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy
from jaxtyping import Float, Shaped

from attention import ExampleOracle, Fit, Outcome, Recorder
from attention._arrays import as_floating, namespace
from attention.evaluation import HeldOut, Predictor
from attention.learning import LearnerBase, draw_and_hold_out
from attention.validation import NonNegativeInt, checked
from upper.baselines.descent import layer_of_stacked, squared_error_gradient


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


def linear_part(x: Float[np.ndarray, "n k d"], y: Float[np.ndarray, "n k d"]) -> LinearPredictor:
    """The least-squares `LinearPredictor` of minimum norm; O(n k d^2 + d^3)."""
    n, k, d = x.shape
    mean = np.broadcast_to(x.mean(axis=1, keepdims=True), x.shape)
    features = np.concatenate([x, mean], axis=2).reshape(n * k, 2 * d)
    # with minimum norm, one token (own = mean) needs no special case
    solution = scipy.linalg.lstsq(features, y.reshape(n * k, d), lapack_driver="gelsd")[0]
    return LinearPredictor(own=solution[:d], mean=solution[d:])


@dataclass(frozen=True)
@checked
class KnownComponentBaseline(LearnerBase):
    """Predicts the component of the target that is known in advance; it draws no example.

    Parameters
    ----------
    known : callable, optional
        The known component of a hard instance; None predicts zero, since nothing is known of a nice layer.

    Notes
    -----
    Its error on the unknown part is 1.0 by definition; a learner with a larger error learned nothing.
    """

    known: Predictor | None = None

    def minimum_examples(self, tokens: int, dim: int) -> int:
        """No example is needed."""
        return 0

    def _learn(
        self, oracle: ExampleOracle, recorder: Recorder, budget: int | None, rng: np.random.Generator
    ) -> Fit:
        predict = _zero if self.known is None else self.known
        recorder.step("What is known in advance", predict=predict)
        return recorder.fit(Outcome.BEST_OF_CLASS, predict=predict)


@dataclass(frozen=True)
@checked
class LinearBaseline(LearnerBase):
    """Least squares on the token itself and on the mean token: the best that is possible without attention.

    Parameters
    ----------
    examples : int, optional
        Budget in examples. The default is sixteen times the number of unknowns of one output coordinate, or all
        examples if they are given.

    Raises
    ------
    ValueError
        If `examples` is negative, or on `fit` below `minimum_examples`.

    Notes
    -----
    It is an improper learner: its hypothesis is not an attention layer. The class contains the layer with all
    Theta_i = 0 and, for hard instances on two tokens, the known component. O(n k d^2).
    """

    examples: NonNegativeInt | None = None

    def minimum_examples(self, tokens: int, dim: int) -> int:
        """As many equations (k per example) as unknowns (2 d per output coordinate), and an example to hold out."""
        return -(-2 * dim // tokens) + 1

    def _learn(
        self, oracle: ExampleOracle, recorder: Recorder, budget: int | None, rng: np.random.Generator
    ) -> Fit:
        least = self.minimum_examples(oracle.tokens, oracle.dim)
        n = 16 * least if budget is None else budget
        (x, y), held = draw_and_hold_out(oracle, n, least=least - 1)
        predictor = linear_part(x, y)
        fitted = HeldOut(x, y, x).error(predictor)
        verdict = held.verdict(predictor, fitted=fitted, otherwise=Outcome.BEST_OF_CLASS)
        recorder.step(
            "Least squares", predict=predictor, residual=fitted, held_out_error=verdict.held_out_error
        )
        return recorder.fit(verdict, predict=predictor)


@dataclass(frozen=True)
@checked
class OneGradientStep(LearnerBase):
    """One step of gradient descent on a single head with Theta = 0 and W = 0: an estimate of the sum of the W_i.

    Parameters
    ----------
    examples : int, optional
        Budget in examples. The default is 64 d, or all examples if they are given. At 64 d the statistical error of the
        sum is about sqrt(2)/8. A twentieth is held out.

    Raises
    ------
    ValueError
        If a parameter is out of range, or on `fit` below two examples.

    Notes
    -----
    With zero attention every pattern is uniform, and with W = 0 the gradient in Theta vanishes. So the step changes
    only W, by the mean of (1/k) X^T J Y. This is phase 1 of the six-phase learner, with the same bias. The outcome is
    ONE_PASS, which promises no error. O(n k d^2).

    References
    ----------
    Chen and Li, arXiv 2402.04084, remark on phase 1.

    Examples
    --------
    >>> from attention import BooleanInputs, make_nice_layer
    >>> oracle = ExampleOracle(make_nice_layer(heads=2, dim=8, rng=0), BooleanInputs(tokens=2, dim=8), rng=1)
    >>> fit = OneGradientStep().fit(oracle)
    >>> fit.layer.heads, bool(np.any(fit.layer.theta)), fit.outcome.name
    (1, False, 'ONE_PASS')
    """

    examples: NonNegativeInt | None = None

    def _learn(
        self, oracle: ExampleOracle, recorder: Recorder, budget: int | None, rng: np.random.Generator
    ) -> Fit:
        (x, y), held = draw_and_hold_out(oracle, 64 * oracle.dim if budget is None else budget)
        zero = np.zeros((oracle.dim, oracle.dim))
        _, *gradients = squared_error_gradient(x, y, zero, zero)
        layer = layer_of_stacked(*(-gradient for gradient in gradients))
        error = held.error(layer)
        recorder.step("One gradient step", layer=layer, held_out_error=error)
        return recorder.fit(Outcome.ONE_PASS if np.isfinite(error) else Outcome.DIVERGED, layer=layer)


def _zero(x: Shaped[Any, "*batch k d"]) -> Shaped[Any, "*batch k d"]:
    return namespace(x).zeros_like(x)

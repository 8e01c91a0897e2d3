"""One gradient step from zero attention: what the first step of training finds."""

from dataclasses import dataclass

import numpy as np

from attention import (
    AttentionLayer,
    ExampleOracle,
    Fit,
    GroundTruth,
    Outcome,
    Recorder,
    check_budget,
    draw_examples,
)
from attention.evaluation import hold_out
from attention.inputs import Rng
from attention.learning import Progress
from attention.validation import NonNegativeInt, checked
from upper._squared_error import layer_of_stacked, squared_error_gradient

__all__ = ["OneGradientStep"]

_AT_ONCE = 1 << 22  # numbers of a batch of tokens, 32 MiB


@dataclass(frozen=True)
@checked
class OneGradientStep:
    """One step of gradient descent on a single head with Theta = 0 and W = 0: an estimate of the sum of the W_i.

    Parameters
    ----------
    examples : int, optional
        Budget in examples; by default 64 d, at which the statistical error of the sum is about sqrt(2)/8, and all
        that are given. A twentieth is held out.

    Raises
    ------
    ValueError
        If a parameter is out of range, or on `fit` below two examples.

    Notes
    -----
    With zero attention every pattern is the mean, and with W = 0 the gradient in Theta vanishes, so the step is that
    of W alone: the mean of (1/k) X^T J Y, which is phase 1 of the six-phase learner. The bias that stays with more
    examples is discussed there. Its outcome is that one pass was made, which promises no error. O(n k d^2).

    References
    ----------
    Chen and Li, arXiv 2402.04084, remark on phase 1.

    Examples
    --------
    >>> from attention import BooleanInputs, make_nice_layer
    >>> oracle = ExampleOracle(make_nice_layer(heads=2, dim=8, rng=0), BooleanInputs(k=2, d=8), rng=1)
    >>> fit = OneGradientStep().fit(oracle)
    >>> fit.layer.heads, bool(np.any(fit.layer.theta)), fit.outcome.name
    (1, False, 'ONE_PASS')
    """

    examples: NonNegativeInt | None = None

    def minimum_examples(self, k: int, d: int) -> int:
        """One example to step on and one to hold out."""
        return 2

    def fit(
        self,
        oracle: ExampleOracle,
        *,
        rng: Rng = None,
        truth: GroundTruth | None = None,
        progress: Progress | None = None,
    ) -> Fit:
        """Take the step; `rng` is not needed.

        Raises
        ------
        ValueError
            If the budget is below `minimum_examples`, or the oracle's examples are malformed.
        """
        recorder = Recorder(oracle, truth=truth, progress=progress)
        budget = check_budget(self, oracle)
        (x, y), held = hold_out(*draw_examples(oracle, 64 * oracle.d if budget is None else budget))
        layer = _step_from_zero(x, y)
        error = held.error(layer)
        recorder.step("One gradient step", layer=layer, held_out_error=error)
        return recorder.fit(Outcome.ONE_PASS if np.isfinite(error) else Outcome.DIVERGED, layer=layer)


def _step_from_zero(x: np.ndarray, y: np.ndarray) -> AttentionLayer:
    """The head after one step at rate 1, for half the squared error of an example summed over its k rows."""
    n, k, d = x.shape
    zero = np.zeros((d, d))
    theta, w = zero.copy(), zero.copy()
    batch = max(1, _AT_ONCE // (k * d))
    for first in range(0, n, batch):
        part = slice(first, first + batch)
        share = len(x[part]) / n
        _, theta_gradient, w_gradient = squared_error_gradient(x[part], y[part], zero, zero)
        theta -= share * theta_gradient
        w -= share * w_gradient
    return layer_of_stacked(theta, w)

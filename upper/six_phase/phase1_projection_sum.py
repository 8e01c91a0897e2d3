"""Phase 1: a crude estimate of the sum of the projections."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float

from attention import AttentionLayer, ExampleOracle, Outcome
from attention.validation import PositiveInt, checked
from upper.six_phase.common import PhaseFailedError, batches, relative_change, remaining

__all__ = ["ProjectionSum", "estimate_projection_sum", "one_gradient_step"]


@dataclass(frozen=True, eq=False)
class ProjectionSum:
    """An estimate `w` of sum_i W_i by phase 1 or 3, from so many `examples`.

    Phase 1 gives the `standard_error` in Frobenius norm, relative to the estimate, without the bias. Phase 3 gives the
    `condition` number of the regression. By margin, it also gives the `margins` of the used rows in logits, the largest
    first, and the number of `rows` checked. By consistency, it also gives the `thresholds` of the relative residual and
    the relative `changes` of the estimate, one for each round.
    """

    w: Float[np.ndarray, "d d"]
    examples: int
    standard_error: float | None = None
    condition: float | None = None
    margins: Float[np.ndarray, " r"] | None = None
    rows: int = 0
    thresholds: Float[np.ndarray, " s"] | None = None
    changes: Float[np.ndarray, " s"] | None = None

    @property
    def measures(self) -> dict[str, Any]:
        """The measures of the step in the trace."""
        measures = {
            "phase_examples": self.examples,
            "standard_error": self.standard_error,
            "condition": self.condition,
        }
        if self.margins is not None:
            used, last, first = len(self.margins), float(self.margins[-1]), float(self.margins[0])
            measures |= {"rows": used, "row_share": used / self.rows}
            measures |= {"least_margin": last, "largest_margin": first}
        if self.thresholds is not None and self.changes is not None:
            measures |= {"threshold": self.thresholds[-1], "last_change": self.changes[-1]}
        return {name: value for name, value in measures.items() if value is not None}

    @property
    def arrays(self) -> dict[str, np.ndarray]:
        """The arrays of one axis by name."""
        arrays = {"margins": self.margins, "thresholds": self.thresholds, "changes": self.changes}
        return {name: array for name, array in arrays.items() if array is not None}

    def error(self, layer: AttentionLayer) -> float:
        """|estimate - sum_i W_i| / |sum_i W_i|."""
        return relative_change(self.w, layer.w.sum(axis=0))

    def errors(self, layer: AttentionLayer) -> dict[str, float]:
        """The error as a measure of the trace."""
        return {"sum_error": self.error(layer)}

    def require_usable(self) -> None:
        """Raise a `PhaseFailedError` if the standard error is more than half of the estimate, as for no signal."""
        share = self.standard_error or 0.0
        if share > 0.5:
            why = "is zero" if math.isinf(share) else f"has a standard error of {share:.2f} of its own size"
            raise PhaseFailedError(
                Outcome.NO_PROJECTION_SUM, f"the estimate from {self.examples} examples {why}."
            )


@checked
def estimate_projection_sum(oracle: ExampleOracle, n: PositiveInt) -> ProjectionSum:
    """Phase 1: the mean of (1/k) X^T J Y over `n` examples, J the all-ones matrix.

    Parameters
    ----------
    oracle : ExampleOracle
        Examples of k tokens in d coordinates.
    n : int
        The number of examples to draw; at most those that are left of given ones.

    Notes
    -----
    A PhaseFailedError if no example is left.
    For tokens of mean zero and identity covariance, the estimate converges to the sum if all Theta_i are zero.
    Otherwise it is biased, because the patterns are correlated with the tokens. At k = 2 and sigma = 2, the bias is
    .12, .087 and .060 for d = 16, 32 and 64. O(n d (k + d)) time; memory of one batch.
    Source: Chen and Li, arXiv 2402.04084, phase 1; the figures are measured here.

    Examples
    --------
    >>> from attention import BooleanInputs, make_nice_layer
    >>> layer = make_nice_layer(heads=2, dim=16, rng=0)
    >>> estimate = estimate_projection_sum(ExampleOracle(layer, BooleanInputs(tokens=2, dim=16), rng=1), 50_000)
    >>> bool(estimate.error(layer) < 0.2)
    True
    """
    n = remaining(oracle, n, "to estimate the sum of the projections from")
    total, length = np.zeros((oracle.dim, oracle.dim)), 0.0
    for x, y in batches(oracle, n):
        part, part_length = _correlate(x, y)
        total += part
        length = math.hypot(length, part_length)
    w = total / n
    # (E|z|^2 - |E z|^2) / n, the variance of the mean of n such matrices z, in units of E|z|^2
    unit, size = length / math.sqrt(n), float(np.linalg.norm(w))
    variance = max(1.0 - float(np.linalg.norm(w / (unit or 1.0))) ** 2, 0.0)
    error = unit * math.sqrt(variance / n) / size if size > 0 else math.inf
    return ProjectionSum(w, n, standard_error=error)


@checked
def one_gradient_step(
    x: Float[np.ndarray, "n k d"], y: Float[np.ndarray, "n k d"]
) -> Float[np.ndarray, "d d"]:
    """Phase 1 by training: one step of size 1 on the projection of a single head with zero attention, (d, d).

    It is -(d/dW) of (1/2n) sum |Y - softmax(X 0 X^T) X W|^2 at W = 0 for examples `x`, `y` of (n, k, d). With zero
    attention every pattern is J/k, so the step is the mean of (J X / k)^T Y, as in `estimate_projection_sum`.
    O(n k d^2). A ValueError if products overflow.
    Source: Chen and Li, arXiv 2402.04084, remark on phase 1.
    """
    n, _, d = x.shape
    head = AttentionLayer(theta=np.zeros((1, d, d)), w=np.zeros((1, d, d)))
    read = np.einsum("nab,nbd->nad", head.patterns(x)[:, 0], x)
    residual = head(x) - y
    with np.errstate(over="ignore", invalid="ignore"):  # refused below
        step = -np.einsum("nai,naj->ij", read, residual) / n
    if not np.isfinite(step).all():
        raise ValueError("The products of x and y overflow: scale the tokens or the labels down.")
    return step


def _correlate(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, float]:
    """The sum of the matrices z of a batch, and (sum |z|^2)^(1/2)."""
    tokens, labels = x.sum(axis=1), y.sum(axis=1) / x.shape[1]
    # |a b^T|^2 = |a|^2 |b|^2, example by example
    square = float(np.sum(np.sum(tokens**2, axis=1) * np.sum(labels**2, axis=1)))
    return tokens.T @ labels, math.sqrt(square)

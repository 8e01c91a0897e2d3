"""Phase 1: a crude estimate of the sum of the projections."""

import math
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from attention import AttentionLayer, ExampleOracle, Outcome
from attention.validation import count, real_array
from upper.six_phase.common import (
    PhaseFailedError,
    exponent_to_square,
    map_batches,
    relative_change,
    remaining,
)

__all__ = ["ProjectionSum", "estimate_projection_sum", "one_gradient_step"]

# A standard error above this share of the estimate leaves nothing to go on with.
_LARGEST_SHARE = 0.5


@dataclass(frozen=True, eq=False)
class ProjectionSum:
    """An estimate of sum_i W_i.

    Attributes
    ----------
    w : array (d, d)
        The estimate.
    standard_error : float
        Its standard error in Frobenius norm, from the spread of the examples it was made of: what more examples
        would lower. The bias is not in it.
    examples : int
        Examples it was made of.
    """

    w: Float[np.ndarray, "d d"]
    standard_error: float
    examples: int

    def error(self, layer: AttentionLayer) -> float:
        """|estimate - sum_i W_i| / |sum_i W_i|, the measure of phases 1 and 3."""
        return relative_change(self.w, layer.w.sum(axis=0))

    @property
    def measures(self) -> dict[str, float | int]:
        """What the trace says of it; the standard error relative to the estimate."""
        size = float(np.linalg.norm(self.w))
        return {
            "phase_examples": self.examples,
            "standard_error": self.standard_error / size if size > 0 else math.inf,
        }

    def require_usable(self) -> None:
        """Raise a `PhaseFailedError` if the estimate does not stand out from its standard error."""
        share = self.measures["standard_error"]
        said = "is zero" if math.isinf(share) else f"has a standard error of {share:.2f} of its own size"
        if share > _LARGEST_SHARE:
            raise PhaseFailedError(
                Outcome.NO_PROJECTION_SUM, f"the estimate from {self.examples} examples {said}."
            )


def estimate_projection_sum(
    oracle: ExampleOracle, n: int, *, batch: int | None = None, jobs: int | None = None
) -> ProjectionSum:
    """Phase 1: the mean of (1/k) X^T J Y over `n` examples, J the all-ones matrix.

    Parameters
    ----------
    oracle : ExampleOracle
        Examples of k tokens in d coordinates.
    n : int
        Examples to draw; of given ones at most those that are left.
    batch : int, optional
        Examples a batch; two estimates with one `batch` agree to the last bit whatever `jobs` is.
    jobs : int, optional
        Threads; by default as `joblib` is configured, which is one.

    Returns
    -------
    ProjectionSum
        The estimate of sum_i W_i.

    Raises
    ------
    PhaseFailedError
        If no example is left.
    ValueError
        If `n` is below 1 or the oracle's examples are malformed.

    Notes
    -----
    Guarantee: for tokens of mean zero and identity covariance the estimate is exact in the limit when all Theta_i are
    zero; otherwise it is biased by about r^(-1/2), r the stable rank of the heads (measured at k = 2, sigma = 2: .12,
    .087, .060 for d = 16, 32, 64), because the patterns are correlated with the tokens. More examples do not help
    beyond that. Nothing here needs Boolean tokens. O(n d (k + d)) time; memory of one batch.

    References
    ----------
    Chen and Li, arXiv 2402.04084, phase 1; the figures are measured here.

    Examples
    --------
    >>> from attention import BooleanInputs, make_nice_layer
    >>> layer = make_nice_layer(heads=2, dim=16, rng=0)
    >>> estimate = estimate_projection_sum(ExampleOracle(layer, BooleanInputs(k=2, d=16), rng=1), 50_000)
    >>> bool(estimate.error(layer) < 0.2)
    True
    """
    n = remaining(oracle, count("n", n), "to estimate the sum of the projections from")
    total, length = np.zeros((oracle.d, oracle.d)), 0.0
    for part, part_length in map_batches(oracle, _correlate, n, batch=batch, jobs=jobs):
        total += part
        length = math.hypot(length, part_length)
    w = total / n
    # E|z|^2 - |E z|^2 over n: how far the mean of n such matrices strays, in units of (E|z|^2)^(1/2)
    unit = length / math.sqrt(n)
    variance = max(1.0 - float(np.linalg.norm(w / (unit or 1.0))) ** 2, 0.0)
    return ProjectionSum(w=w, standard_error=unit * math.sqrt(variance / n), examples=n)


def one_gradient_step(
    x: Float[np.ndarray, "n k d"], y: Float[np.ndarray, "n k d"]
) -> Float[np.ndarray, "d d"]:
    """Phase 1 as training would find it: one step of size 1 on the projection of a single head with zero attention.

    Parameters
    ----------
    x, y : array (n, k, d)
        Examples.

    Returns
    -------
    array (d, d)
        -(d/dW) of (1/2n) sum |Y - softmax(X 0 X^T) X W|^2 at W = 0.

    Raises
    ------
    ValueError
        If the shapes do not fit together, an entry is not finite, or products overflow.

    Notes
    -----
    With zero attention every pattern is J/k, so the step is the mean of (J X / k)^T Y: the same as
    `estimate_projection_sum` on the same examples, to rounding. O(n k d^2).

    References
    ----------
    Chen and Li, arXiv 2402.04084, remark on phase 1.
    """
    x = real_array("x", x, ("n", "k", "d"))
    y = real_array("y", y, x.shape)
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
    # |a b^T|^2 = |a|^2 |b|^2, example by example; in a unit in which |b|^2 does not overflow
    unit = exponent_to_square(labels)
    square = float(np.sum(np.sum(tokens**2, axis=1) * np.sum(np.ldexp(labels, -unit) ** 2, axis=1)))
    return tokens.T @ labels, 2.0**unit * math.sqrt(square)

"""Phases 1 and 3: the sum of the projections, crude, then refined by rows of large margin or by consistency."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import numpy as np
from jaxtyping import Float

from attention import AttentionLayer, ExampleOracle, Outcome
from attention.validation import NonNegativeFloat, PositiveInt, Real, checked
from upper.six_phase.agreement import certify_agreement
from upper.six_phase.common import PhaseFailedError, batches, relative_change, remaining
from upper.six_phase.convex_body import Ellipsoid
from upper.six_phase.phase5_span import AttentionSpan, attention_span

SHARES = (0.1, 0.05, 0.05, 0.05, 0.03, 0.02, 0.01)
"""The shares of rows that are accepted in each round of the refinement by consistency."""


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
def refine_by_margin(
    oracle: ExampleOracle,
    body: Ellipsoid,
    *,
    examples: PositiveInt | None = None,
    margin: NonNegativeFloat | None = None,
    over: Literal["proxy", "body"] = "body",
) -> ProjectionSum:
    """Phase 3: find rows of large margin, where every head's pattern is nearly one-hot, and regress on them.

    Parameters
    ----------
    oracle : ExampleOracle
        Examples.
    body : Ellipsoid
        K, from phase 2.
    examples : int, optional
        The number of examples to draw; by default 6000 d.
    margin : float, optional
        The least margin of a row, in logits; by default 6 over the proxy and 3 over the body. The 8 d rows of largest
        margin are used.
    over : "proxy" or "body"
        "proxy": the margin is that of the proxy, the point of K of least norm (as in the paper, as far as we know).
        "body": it is the least margin of all matrices on K's hull, by K's reach along its wide directions (derived
        here).

    Notes
    -----
    A PhaseFailedError if fewer than 2 d rows have the margin, or their tokens do not span.
    If every head puts weight at least 1 - e on token b, then |Y_a - x_b sum_i W_i| is of order e. A margin over the
    body holds for every matrix of K's hull, up to K's thickness. A margin over the proxy holds for the average head at
    best, and only if the body is thin, since the point of least norm of a thick body is pulled towards zero.
    O(n k d^2 m) time; memory of the rows that have the margin.
    Source: Chen and Li, arXiv 2402.04084, phase 3; the margin over the body is derived here.
    """
    d = oracle.dim
    # at margin 3, every other token has at most a twentieth of the pattern
    least = {"proxy": 6.0, "body": 3.0}[over] if margin is None else margin
    n = remaining(oracle, examples or 6000 * d, "to look for rows of large margin in")
    hull = AttentionSpan.point(body.min_norm_point()) if over == "proxy" else attention_span(body)
    parts = [_rows_of_margin(x, y, hull, least) for x, y in batches(oracle, n)]
    margins, tokens, labels = map(np.concatenate, zip(*parts, strict=True))
    if len(margins) < 2 * d:
        raise PhaseFailedError(
            Outcome.NO_LARGE_MARGIN,
            f"{len(margins)} of {n * oracle.tokens} rows have a margin of {least:g} logits "
            f"{'under the proxy' if over == 'proxy' else 'on all of the hull of the body'}: at least 2 d = {2 * d} are "
            "needed to regress on.",
        )
    best = np.argsort(-margins, kind="stable")[: 8 * d]
    w, condition = _regressed(tokens[best], labels[best], Outcome.NO_LARGE_MARGIN)
    return ProjectionSum(w, n, condition=condition, margins=margins[best], rows=n * oracle.tokens)


@checked
def refine_by_consistency(
    oracle: ExampleOracle,
    projection_sum: Float[np.ndarray, "d d"],
    *,
    examples: PositiveInt = 50_000,
    shares: Sequence[Annotated[float, Real(above=0, most=1)]] = SHARES,
) -> ProjectionSum:
    """Alternate: certify rows with the estimate W^; refit W^ on them by least squares of Y_a on their p X.

    Parameters
    ----------
    oracle : ExampleOracle
        Examples.
    projection_sum : array (d, d)
        The estimate of phase 1.
    examples : int
        Fresh examples per round. If given examples are too few for all rounds, each round gets an equal part.
    shares : sequence of float
        The share of rows to accept in each round; those with the smallest residuals are accepted.

    Notes
    -----
    A PhaseFailedError if no example is left for each round, or a round accepts fewer rows than d, or rows that do
    not span.
    There is no guarantee; the true sum is a fixed point up to the disagreement of the accepted rows. In measurements,
    the error falls from .088 to .0004 at (m,k,d) = (2,2,32), and from .093 to .018 at (3,3,64). O(n k d^2) per round.
    """
    k, d = oracle.tokens, oracle.dim
    if not shares:
        raise ValueError("shares is empty: the share of rows of at least one round is needed.")
    purpose = f"for each of {len(shares)} rounds of refining the sum"
    n = remaining(oracle, examples * len(shares), purpose) // len(shares)
    if n == 0:
        raise PhaseFailedError(Outcome.EXAMPLES_SPENT, f"no example is left {purpose}.")
    w, condition = projection_sum, np.inf
    thresholds, changes = [], []
    for share in shares:
        rows = max(2 * d, int(share * n * k))
        # keep only the best rows of each batch, slightly more than its share, to save memory
        parts = [_best_certified(x, y, w, 2 * rows / (n * k)) for x, y in batches(oracle, n)]
        residual, read, labels = map(np.concatenate, zip(*parts, strict=True))
        best = np.argsort(residual, kind="stable")[:rows]
        best = best[np.isfinite(residual[best])]
        if len(best) < d:
            raise PhaseFailedError(
                Outcome.NO_AGREEMENT, f"{len(best)} of {n * k} rows could be certified: {d} are needed."
            )
        refined, condition = _regressed(read[best], labels[best], Outcome.NO_AGREEMENT)
        thresholds.append(float(residual[best[-1]]))
        changes.append(relative_change(refined, w))
        w = refined
    drawn = n * len(shares)
    return ProjectionSum(
        w, drawn, condition=condition, thresholds=np.array(thresholds), changes=np.array(changes)
    )


_Parts = tuple[np.ndarray, np.ndarray, np.ndarray]


def _rows_of_margin(x: np.ndarray, y: np.ndarray, hull: AttentionSpan, least: float) -> _Parts:
    """The rows of a batch that have the margin: their margins, the tokens they attend to, and their labels."""
    margins, top = hull.margins(x)
    example, row = np.nonzero(margins >= least)
    return margins[example, row], x[example, top[example, row]], y[example, row]


def _best_certified(x: np.ndarray, y: np.ndarray, w: np.ndarray, share: float) -> _Parts:
    """The best certified rows of a batch: their residuals, their p X and their labels."""
    certificates = certify_agreement(x, y, w)
    # exclude weights far outside the simplex, even with a small residual
    inside = certificates.pattern.min(axis=-1) > -0.1
    residual = np.where(inside, certificates.residual, np.inf)
    most = min(residual.size, int(share * residual.size) + 16)
    best = np.argpartition(residual.ravel(), most - 1)[:most]
    example, row = np.divmod(np.sort(best), x.shape[1])
    read = np.matmul(certificates.pattern[example, row][:, None, :], x[example])[:, 0]
    return residual[example, row], read, y[example, row]


def _regressed(read: np.ndarray, labels: np.ndarray, otherwise: Outcome) -> tuple[np.ndarray, float]:
    """The sum that maps `read` to `labels`, and the condition number; it fails with `otherwise` if not unique."""
    w, _, rank, singular = np.linalg.lstsq(read, labels, rcond=None)
    if rank < read.shape[1]:
        raise PhaseFailedError(
            otherwise,
            f"the {len(read)} rows used read tokens of rank {rank} of {read.shape[1]}.",
        )
    return w, float(singular[0] / singular[-1])


def _correlate(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, float]:
    """The sum of the matrices z of a batch, and (sum |z|^2)^(1/2)."""
    tokens, labels = x.sum(axis=1), y.sum(axis=1) / x.shape[1]
    # |a b^T|^2 = |a|^2 |b|^2, example by example
    square = float(np.sum(np.sum(tokens**2, axis=1) * np.sum(labels**2, axis=1)))
    return tokens.T @ labels, math.sqrt(square)

"""Phase 3: refine the sum of the projections, by rows of large margin (as in the paper) or by consistency."""

from collections.abc import Sequence
from typing import Annotated, Literal

import numpy as np
from jaxtyping import Float

from attention import ExampleOracle, Outcome
from attention.validation import NonNegativeFloat, PositiveInt, Real, checked
from upper.six_phase.agreement import certify_agreement
from upper.six_phase.common import PhaseFailedError, batches, relative_change, remaining
from upper.six_phase.convex_body import Ellipsoid
from upper.six_phase.phase1_projection_sum import ProjectionSum
from upper.six_phase.phase5_span import AttentionSpan, attention_span

__all__ = ["SHARES", "refine_by_consistency", "refine_by_margin"]

SHARES = (0.1, 0.05, 0.05, 0.05, 0.03, 0.02, 0.01)
"""The shares of rows that are accepted in each round of the refinement by consistency."""


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

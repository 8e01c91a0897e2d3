"""Phase 3, the paper's way: refine the sum of the projections on rows where every head attends to one token."""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from jaxtyping import Float

from attention import AttentionLayer, ExampleOracle
from attention._arrays import count, non_negative
from attention.learning import require_oracle
from upper.six_phase.attention_span import attention_span
from upper.six_phase.body import ConvexBody, require_body
from upper.six_phase.failure import PhaseFailedError
from upper.six_phase.hull_margin import HullMargin
from upper.six_phase.scale import relative_change
from upper.six_phase.streaming import map_batches, remaining

__all__ = ["LEAST_MARGIN", "LargeMargin", "refine_by_margin"]

LEAST_MARGIN = {"proxy": 6.0, "body": 3.0}
"""Logits; at 3 other tokens get at most a twentieth of the pattern, each."""


@dataclass(frozen=True, eq=False)
class LargeMargin:
    """The refined sum of projections, and the rows it was regressed on.

    Attributes
    ----------
    w : array (d, d)
        The estimate of sum_i W_i.
    margins : array (r,)
        Margins of the rows used, in logits, the largest first.
    condition : float
        Condition number of the attended tokens of those rows.
    rows : int
        Rows looked at.
    examples : int
        Examples drawn.
    """

    w: Float[np.ndarray, "d d"]
    margins: Float[np.ndarray, " r"]
    condition: float
    rows: int
    examples: int

    def error(self, layer: AttentionLayer) -> float:
        """|estimate - sum_i W_i| / |sum_i W_i|, as for phase 1."""
        return relative_change(self.w, layer.w.sum(axis=0))


def refine_by_margin(
    oracle: ExampleOracle,
    body: ConvexBody,
    *,
    wide: int,
    examples: int | None = None,
    rows: int | None = None,
    margin: float | None = None,
    over: Literal["proxy", "body"] = "body",
    jobs: int | None = None,
) -> LargeMargin:
    """Phase 3: find rows of large margin, where every head's pattern is nearly one-hot, and regress on them.

    Parameters
    ----------
    oracle : ExampleOracle
        Examples.
    body : ConvexBody
        K, from phase 2.
    wide : int
        m - 1, the number of wide directions of K.
    examples : int, optional
        Examples to look at; by default 6000 d.
    rows : int, optional
        At most so many rows are used, those of largest margin; by default 8 d.
    margin : float, optional
        The least margin of a row, in logits: by default 6 over the proxy and 3 over the body.
    over : "proxy" or "body"
        Whether a margin is that of the proxy, the point of K of least norm (the paper's way, as we know it), or the
        least margin of any matrix on K's hull, by K's reach along its wide directions (derived here).
    jobs : int, optional
        Threads; by default as `joblib` is configured, which is one.

    Returns
    -------
    LargeMargin
        The refined estimate of sum_i W_i.

    Raises
    ------
    PhaseFailedError
        If fewer than 2 d rows have the margin, or their tokens do not span.
    ValueError
        If a parameter is out of range or the examples are malformed.

    Notes
    -----
    Guarantee over the body: a head on K's hull has the margin on every row used, and its pattern there is one-hot up to
    (k - 1) e^-margin. Over the proxy: none for the heads, but for the average of them if the proxy is it.

    On a row where every head puts weight at least 1 - e on token b, |Y_a - x_b sum_i W_i| is of order e. A margin of
    the average head does not bind the heads themselves: those of independent heads stray from it by the reach of K.
    Over the body the margin binds every matrix of K's hull; see `HullMargin`. K's thickness across the hull is left
    out, so that a head keeps the margin up to what it is off the hull; over the whole of K no row has any (measured at
    (2,2,32)). The proxy needs a thin body: the point of least norm of a thick one is pulled towards zero, where no
    margin is large (`SixPhase` makes K thinner for it). Measured at (m,k,d) = (2,2,32), three targets: the span's error
    after phase 4 falls from .05-.07 to .001-.002 over the body and to .003-.007 over the proxy. O(n k d^2 m) time;
    memory of the rows that have the margin.

    References
    ----------
    Chen and Li, arXiv 2402.04084, phase 3; the margin over the body is derived here.
    """
    require_oracle(oracle)
    if not isinstance(over, str) or over not in ("proxy", "body"):
        raise ValueError(f"over is {over!r}: 'proxy' or 'body' is needed.")
    require_body(body)
    d = oracle.d
    n = remaining(oracle, 6000 * d if examples is None else count("examples", examples))
    most = 8 * d if rows is None else count("rows", rows)
    least = LEAST_MARGIN[over] if margin is None else non_negative("margin", margin)
    proxied = over == "proxy"
    bound = (
        HullMargin.under(body.min_norm_point()) if proxied else HullMargin.over(attention_span(body, wide))
    )
    finder = _MarginFinder(bound, least)
    if n == 0:
        raise PhaseFailedError("budget", "no example is left to look for rows of large margin in.")
    found = list(map_batches(oracle, finder, n, jobs=jobs))
    margins, tokens, labels = (np.concatenate(parts) for parts in zip(*found, strict=True))
    if len(margins) < 2 * d:
        raise PhaseFailedError(
            "margin",
            f"{len(margins)} of {n * oracle.k} rows have a margin of {least:g} logits {_WHERE[over]}: at least "
            f"2 d = {2 * d} are needed to regress on.",
        )
    best = np.argsort(-margins, kind="stable")[:most]
    w, _, rank, singular = np.linalg.lstsq(tokens[best], labels[best], rcond=None)
    if rank < d:
        raise PhaseFailedError(
            "margin", f"the {len(best)} rows of large margin attend to tokens of rank {rank} of {d}."
        )
    return LargeMargin(
        w=w,
        margins=margins[best],
        condition=float(singular[0] / singular[-1]),
        rows=n * oracle.k,
        examples=n,
    )


_WHERE = {"proxy": "under the proxy", "body": "on all of the body's hull"}


@dataclass(frozen=True, eq=False)
class _MarginFinder:
    """Rows of a batch with the margin: their margins, the tokens attended to, their labels."""

    margin: HullMargin
    least: float

    def __call__(self, x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        margin, top = self.margin(x)
        example, row = np.nonzero(margin >= self.least)
        return margin[example, row], x[example, top[example, row]], y[example, row]

"""The six phases as the paper has them: no gradient, no Newton step, the result of the phases alone."""

import math
from dataclasses import replace
from typing import Literal

import numpy as np

from attention import Outcome, draw_examples
from attention.evaluation import HeldOut, verdict
from upper.six_phase.affine_hull import AffineHull, sculpt_affine_hull
from upper.six_phase.failure import PhaseFailedError
from upper.six_phase.large_margin import refine_by_margin
from upper.six_phase.net import held_out_examples, search_net
from upper.six_phase.plan import Wish
from upper.six_phase.projection_sum import estimate_projection_sum
from upper.six_phase.session import Ending, Session

__all__ = ["FIRST_ACCEPT", "paper_wishes", "run_paper"]

FIRST_ACCEPT = 0.05
"""The share of rows that phase 2 accepts: with the crude sum a smaller one agrees no better."""

_NEARLY_LEAST = 1.1  # times the least tolerance at which the body is not empty


def paper_wishes(
    *, heads: int, k: int, d: int, rounds: int, accept: float, work: int, delta: float, margin_over: str
) -> dict[str, Wish]:
    """What each phase would draw; derived here, by what the measured errors need."""
    pairs = k * (k - 1)
    least = 8 + d * d // pairs
    # a margin of 6 under the proxy is rarer than one of 3 under all of the body
    margin = {"body": 6000, "proxy": 30_000}[margin_over]
    regress = -(-2 * heads * d // k)
    return {
        "sum": Wish(4000 * d, 8),
        "hull": Wish(int(9 * d * d / (FIRST_ACCEPT * pairs)), least),
        **{f"margin {r}": Wish(margin * d, 2 * d // k + 1) for r in range(1, rounds + 1)},
        **{f"hull {r}": Wish(int(9 * d * d / (accept * pairs)), least) for r in range(1, rounds + 1)},
        "net": Wish(
            held_out_examples(work, delta) + held_out_examples(1, delta / 2) + 8 * regress, 2 + regress
        ),
    }


def run_paper(
    session: Session,
    *,
    rounds: int,
    accept: float,
    tolerance: float | None,
    work: int,
    delta: float,
    body: Literal["ellipsoid", "polytope"],
    radius: float | None,
    margin_over: Literal["body", "proxy"],
    net_over: Literal["hull", "span"],
    jobs: int | None,
) -> Ending:
    """Phases 1 to 6; a phase that cannot do its work raises `PhaseFailedError`.

    References
    ----------
    Chen and Li, arXiv 2402.04084.
    """
    oracle = session.oracle
    session.found_sum(estimate_projection_sum(oracle, session.allowed("sum"), jobs=jobs))

    def sculpted(name: str, share: float) -> AffineHull:
        return sculpt_affine_hull(
            oracle,
            session.projection_sum,
            wide=session.given_wide,
            accept=share,
            examples=session.allowed(name),
            body=body,
            radius=radius,
            jobs=jobs,
        )

    session.phase = 2
    session.found_hull(sculpted("hull", FIRST_ACCEPT))
    for number in range(1, rounds + 1):
        body_now = session.findings.hulls[-1].body
        if margin_over == "proxy":
            # the point of least norm of a thick body is pulled towards zero, and has no large margins
            body_now = replace(body_now, tolerance=_NEARLY_LEAST * body_now.misfit_at_centre)  # type: ignore[type-var]
        what = f", round {number}" if rounds > 1 else ""
        session.phase = 3
        refined = refine_by_margin(
            oracle,
            body_now,
            wide=session.heads - 1,
            examples=session.allowed(f"margin {number}"),
            over=margin_over,
            jobs=jobs,
        )
        session.found_refinement(refined, what)
        session.phase = 4
        session.found_hull(sculpted(f"hull {number}", accept), what)
    session.phase = 5
    span = session.found_span(gap_needed=True)
    session.phase = 6
    if tolerance is None:
        tolerance = (oracle.k * oracle.d) ** (-session.heads / 2)
    m = session.heads
    x, y = draw_examples(oracle, session.allowed("net"))
    regress = -(-2 * m * oracle.d // oracle.k)
    if len(x) < 2 + regress:
        said = f"{len(x)} examples are left for the net, and {m} heads need {2 + regress}."
        raise PhaseFailedError("budget", said)
    select, judge = _set_aside(len(x), regress, work, delta)
    found = search_net(
        x,
        y,
        span,
        heads=m,
        over=net_over,
        most=work,
        delta=delta,
        held_out=select,
        judged=judge,
    )
    session.findings.net = found
    judging = slice(select, select + judge)
    session.tell(
        "Phase 6: net of the span",
        layer=found.layer,
        measures={
            "phase_examples": len(x),
            "candidates": found.candidates,
            "points": found.points,
            "spacing": found.spacing,
            "held_out_error": math.sqrt(found.error),
            "held_out_squared_error": found.error,
            "kurtosis": found.kurtosis,
            **({} if found.bound is None else {"held_out_bound": found.bound}),
        },
    )
    error = math.sqrt(found.error)
    if error > tolerance:
        raise PhaseFailedError(
            "net",
            f"the best of {found.candidates} candidates has relative error {error:.2g} on held-out "
            f"examples, and {tolerance:.2g} is asked for.",
        )
    return Ending(
        found.layer,
        verdict(
            fitted=error,
            held_out=error,
            evidence=lambda: HeldOut(x[judging], y[judging], np.delete(x, judging, axis=0)).evidence,
            otherwise=Outcome.NET_TOO_COARSE,
            tolerance=tolerance,
        ),
        f"The best of {found.candidates} candidates has relative error {error:.2g} on held-out "
        f"examples, {found.error:.2g} when squared.",
    )


def _set_aside(n: int, regress: int, work: int, delta: float) -> tuple[int, int]:
    """How many examples select and how many judge: what the accounts of both need, as far as `n` allows."""
    select, judge = held_out_examples(work, delta), held_out_examples(1, delta / 2)
    # twice the unit to regress on, or two thirds of the examples, or at least the unit
    spare = max(2, min(n - regress, max(n - 2 * regress, n // 3)))
    judge = max(1, min(judge, spare // 2))
    return max(1, min(select, spare - judge)), judge

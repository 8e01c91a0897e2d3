"""The six phases as one would run them: a consistent sum, descent instead of a net, Newton for the last digits."""

from operator import attrgetter

import numpy as np

from attention import AttentionLayer, Outcome, draw_examples
from attention.evaluation import EXACT_ERROR, hold_out
from upper.floor import counting_floor
from upper.newton.gauss_newton import Iterate, gauss_newton
from upper.newton.span_fit import fit_in_span
from upper.six_phase.affine_hull import sculpt_affine_hull
from upper.six_phase.consistency import refine_by_consistency
from upper.six_phase.plan import Wish
from upper.six_phase.projection_sum import estimate_projection_sum
from upper.six_phase.session import Ending, Session
from upper.verdict import at_noise_level, judge, last_iterate, same_residual

__all__ = ["practical_wishes", "run_practical"]

_ROUNDS = 7  # of the self-consistent refinement
_ROUND_EXAMPLES = 50_000
_AWAY = 0.5  # of the norm of a head: what a second start is perturbed by


def practical_wishes(*, heads: int, k: int, d: int, accept: float) -> dict[str, Wish]:
    """What each phase would draw."""
    pairs = k * (k - 1)
    floor = counting_floor(heads=heads, tokens=k, dim=d)
    return {
        "sum": Wish(1000 * d, 8),
        "refinement": Wish(_ROUNDS * _ROUND_EXAMPLES, _ROUNDS * (2 * d // k + 1)),
        "hull": Wish(int(9 * d * d / (accept * pairs)), 8 + d * d // pairs),
        "fit": Wish(4 * floor + 8, floor + 2),
    }


def run_practical(
    session: Session, *, accept: float, tolerance: float, work: int, radius: float | None, jobs: int | None
) -> Ending:
    """The six steps with the improvements derived here; a phase that cannot do its work raises `PhaseFailedError`."""
    oracle = session.oracle
    session.found_sum(estimate_projection_sum(oracle, session.allowed("sum"), jobs=jobs))
    session.phase = 3
    refined = refine_by_consistency(
        oracle, session.projection_sum, examples=session.allowed("refinement") // _ROUNDS, jobs=jobs
    )
    session.found_refinement(refined)
    session.phase = 4
    hull = sculpt_affine_hull(
        oracle,
        refined.w,
        wide=session.given_wide,
        accept=accept,
        examples=session.allowed("hull"),
        radius=radius,
        jobs=jobs,
    )
    session.found_hull(hull)
    session.phase = 5
    span = session.found_span(gap_needed=False)
    session.phase = 6
    x, y = draw_examples(oracle, session.allowed("fit"))
    unit = float(np.abs(y).max()) or 1.0
    y = y / unit
    floor = counting_floor(heads=session.heads, tokens=oracle.k, dim=oracle.d)
    (x, y), held_out = hold_out(x, y, least=floor)
    start = fit_in_span(x, y, span.scaled_basis, work=work, rng=session.rng)
    session.tell(
        "Phase 6: fit within the span",
        layer=AttentionLayer(theta=start.theta, w=unit * start.w),
        measures={
            "phase_examples": len(x) + len(held_out.x),
            "residual": start.residual,
            "starts": len(start.residuals),
            "passes": start.passes,
        },
    )

    spent = start.passes

    def polished(theta: np.ndarray, what: str) -> Iterate:
        nonlocal spent
        before = spent

        def tell(number: int, iterate: Iterate) -> None:
            session.tell(
                f"Phase 6: {what}, iterate {number}",
                layer=_layer(iterate, unit),
                measures={
                    "residual": iterate.residual,
                    "damping": iterate.damping,
                    "passes": before + iterate.passes,
                },
            )

        iterates = gauss_newton(x, y, theta, rng=session.rng)
        last = last_iterate(iterates, tolerance=tolerance, work=max(1, work - spent), tell=tell)
        spent += last.passes
        return last

    # heads that are nearly equal: Newton's ridge costs more than it gives
    ends = [Iterate(start.theta, start.w, start.residual, damping=0.0, passes=0)]
    ends.append(polished(start.theta, "Newton polish"))
    at_floor = False
    if min(end.residual for end in ends) > max(EXACT_ERROR, tolerance) and spent < work:
        # that two starts end at one residual, which the held-out examples have too, tells noise from a local minimum
        size = np.linalg.norm(start.theta, axis=(1, 2), keepdims=True)
        away = _AWAY * size / x.shape[-1] * session.rng.standard_normal(start.theta.shape)
        again = polished(start.theta + away, "Newton polish from half-way off")
        at_floor = same_residual([again, ends[-1]]) and at_noise_level(again, held_out)
        ends.append(again)
    best = min(ends, key=attrgetter("residual"))
    outcome, held_error = judge(
        best, held_out, tolerance=tolerance, spent_all=spent >= work, at_floor=at_floor
    )
    layer = _layer(best, unit)
    session.tell(
        "Phase 6: held-out examples",
        layer=layer,
        measures={"residual": best.residual, "held_out_error": held_error},
    )
    how = "Phase 6 ended" if outcome.succeeded else "Phase 6 failed: it ended"
    ended = f"{how} with relative error {held_error:.2g} on held-out examples."
    if outcome is Outcome.RESIDUAL_FLOOR:
        ended = f"{ended[:-1]}, from two starts: noise of that size in the labels, or more heads than {session.heads}."
    alone = "Newton" if outcome.succeeded and not session.span_found and best is not ends[0] else ""
    return Ending(layer, outcome, " ".join([ended, *session.doubts]), alone)


def _layer(iterate: Iterate, unit: float) -> AttentionLayer:
    return AttentionLayer(theta=iterate.theta, w=unit * iterate.w)

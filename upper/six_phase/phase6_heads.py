"""Phase 6 of practical mode: a fit within the span in place of the net, then Newton iterates on all parameters."""

from dataclasses import dataclass
from operator import attrgetter

import numpy as np

from attention import AttentionLayer, ExampleOracle, Outcome, Recorder
from attention.evaluation import Verdict
from upper.floor import counting_floor
from upper.newton.loop import Iterate, gauss_newton
from upper.newton.runs import Runner, SplitExamples, draw_split, judge
from upper.newton.span import fit_in_span
from upper.six_phase.common import PhaseFailedError
from upper.six_phase.phase5_span import AttentionSpan

__all__ = ["FittedHeads", "fit_heads"]


@dataclass(frozen=True, eq=False)
class FittedHeads:
    """The best fit, the verdict on it, and whether Newton found it."""

    layer: AttentionLayer
    verdict: Verdict
    by_newton: bool


def fit_heads(
    oracle: ExampleOracle,
    span: AttentionSpan,
    *,
    examples: int,
    work: int,
    tolerance: float,
    rng: np.random.Generator,
    recorder: Recorder,
) -> FittedHeads:
    """Fit heads within the span, then run Newton from the fitted heads, and again from a perturbed start.

    A twentieth of the `examples` drawn is held out. `work` is a budget in passes over them, and `tolerance` the
    relative residual at which to stop.

    A PhaseFailedError if fewer than two examples are left.

    There is no guarantee. If two starts end at the same residual, on held-out examples too, it is noise and not a local
    minimum. The heads within the span stay in the comparison: for nearly equal heads, the loss by Newton's ridge can
    exceed the gain of its steps.
    """
    m, k, d = len(span.basis), oracle.k, oracle.d
    if examples < 2:
        raise PhaseFailedError(Outcome.EXAMPLES_SPENT, "no example is left to fit the heads to.")
    floor = counting_floor(heads=m, tokens=k, dim=d)
    split = draw_split(oracle, examples, least=min(floor, examples - 1))
    within, starts = fit_in_span(split.x, split.y, split.scale**2 * span.scaled_basis, work=work, rng=rng)
    recorder.step(
        "fit within the span",
        layer=split.layer(within),
        phase=6,
        phase_examples=split.drawn,
        residual=within.residual,
        starts=starts,
        passes=within.passes,
    )

    def start(_examples: SplitExamples, _heads: int, number: int) -> np.ndarray:
        if number == 1:
            return within.theta
        size = np.linalg.norm(within.theta, axis=(1, 2), keepdims=True)
        # half the norm of a head away
        return within.theta + 0.5 * size / d * rng.standard_normal(within.theta.shape)

    before = last = within.passes

    def trace_iterate(number: int, place: int, iterate: Iterate) -> None:
        nonlocal before, last
        before = last if place == 0 else before
        last = before + iterate.passes
        where = " from a perturbed start" if number > 1 else ""
        recorder.step(
            f"Newton polish{where}, iterate {place}",
            layer=split.layer(iterate),
            phase=6,
            residual=iterate.residual,
            damping=iterate.damping,
            passes=last,
        )

    runner = Runner(
        # always aim at rounding error, for any tolerance: the last digits cost few passes
        iterates=lambda x, y, theta, *_: gauss_newton(x, y, theta, rng=rng),
        start=start,
        tolerance=tolerance,
    )
    ends = runner.several(
        split,
        m,
        starts=2,
        work=max(1, work - within.passes),
        tell=trace_iterate,
    )
    best = min([within, *ends.iterates], key=attrgetter("residual"))
    verdict = judge(
        best,
        split,
        tolerance=tolerance,
        spent_all=within.passes + ends.passes >= work,
        at_floor=ends.at_floor,
    )
    layer = split.layer(best)
    error = verdict.held_out_error
    recorder.step("held-out examples", layer=layer, phase=6, residual=best.residual, held_out_error=error)
    return FittedHeads(layer, verdict, by_newton=best is not within)

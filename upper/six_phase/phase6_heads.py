"""Phase 6 of practical mode: a fit within the span in place of the net, then Newton iterates on all parameters."""

from collections.abc import Iterator
from dataclasses import dataclass
from operator import attrgetter

import numpy as np

from attention import AttentionLayer, ExampleOracle, Outcome, Recorder
from attention.evaluation import Verdict
from upper.floor import LayerClass, counting_floor
from upper.newton.full_heads import FullHeads
from upper.newton.noise import judge
from upper.newton.problem import Problem, draw_split
from upper.newton.span import fit_in_span
from upper.newton.starts import Start, StartRules, run_starts
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
    relative residual at which to stop. The steps go to the recorder.

    A PhaseFailedError if fewer than two examples are left.

    There is no guarantee. If two starts end at the same residual, on held-out examples too, it is noise and not a local
    minimum. The heads within the span stay in the comparison: for nearly equal heads, the loss by Newton's ridge can
    exceed the gain of its steps.
    """
    m, k, d = len(span.basis), oracle.tokens, oracle.dim
    if examples < 2:
        raise PhaseFailedError(Outcome.EXAMPLES_SPENT, "no example is left to fit the heads to.")
    floor = counting_floor(heads=m, tokens=k, dim=d)
    split = draw_split(oracle, examples, least=min(floor, examples - 1))
    within, tried = fit_in_span(split.x, split.y, split.scale**2 * span.scaled_basis, work=work, rng=rng)
    recorder.step(
        "fit within the span",
        phase=6,
        layer=split.layer(within),
        phase_examples=split.drawn,
        residual=within.residual,
        starts=tried,
        passes=within.passes,
    )

    def starts() -> Iterator[Start]:
        yield Start("Newton polish", FullHeads(within.theta))
        size = np.linalg.norm(within.theta, axis=(1, 2), keepdims=True)
        # half the norm of a head
        away = 0.5 * size / d * rng.standard_normal(within.theta.shape)
        yield Start("Newton polish from a perturbed start", FullHeads(within.theta + away))

    problem = Problem(split, LayerClass(), tolerance, rng, recorder=recorder, phase=6)
    ends = run_starts(problem, starts(), StartRules(2), work=max(1, work - within.passes))
    best, whole = min([within, *ends.iterates], key=attrgetter("residual")), split.together()
    ended = Outcome.WORK_SPENT if within.passes + ends.passes >= work else Outcome.LOCAL_MINIMUM
    verdict = judge(
        best,
        whole.x,
        whole.y,
        split.held_out,
        tolerance=tolerance,
        otherwise=Outcome.RESIDUAL_FLOOR if ends.at_floor else ended,
    )
    layer = split.layer(best)
    recorder.step(
        "held-out examples",
        phase=6,
        layer=layer,
        residual=best.residual,
        held_out_error=verdict.held_out_error,
    )
    return FittedHeads(layer, verdict, by_newton=best is not within)

"""Study: tokens k against dimensions d: what certificates of agreement are worth as k nears d."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from arena.studies._tokens_certificates import draw_rows, judge_certificates, residual_law
from arena.studies._tokens_figure import draw_tokens
from arena.studies._tokens_words import found_in_words, tokens_table
from arena.studies.study import Parameters, Study
from attention import BooleanInputs, ExampleOracle, GroundTruth, make_nice_layer
from paper_checks import Scale
from upper import Newton
from upper.six_phase import SixPhase, estimate_projection_sum

__all__ = ["STUDY"]

_SIGMA = 2.0
_ALLOWED = 1.0  # logits: a certified row whose heads disagree by more is false
_PLANTED = 0.1  # logits: how far the heads of a planted agreement disagree
_PASSES = 3000


def _cells(scale: Scale) -> list[Parameters]:
    quick = scale is Scale.QUICK
    certificates: list[Parameters] = [
        {
            "part": "certificates",
            "dim": dim,
            "tokens": tokens,
            "draw": draw,
            "rows": 12_000 if quick else 40_000,
        }
        for dim in ((16, 24) if quick else (16, 24, 32, 48))
        for tokens in (
            (2, 3, 4, 8, dim - 2, dim - 1, dim)
            if quick
            else sorted({2, 3, 4, 6, 8, 12, dim // 2, 3 * dim // 4, dim - 4, dim - 2, dim - 1, dim})
        )
        for draw in range(2 if quick else 4)
    ]
    wanted = (
        {16: (2, 4, 8, 16)} if quick else {16: (2, 3, 4, 6, 8, 12, 15, 16, 17), 24: (2, 4, 6, 8, 16, 23, 24)}
    )
    ends: list[Parameters] = [
        {"part": "ends", "dim": dim, "tokens": tokens, "draw": draw}
        for dim, several in wanted.items()
        for tokens in several
        for draw in range(1 if quick else (3 if dim == 16 else 2))
    ]
    return certificates + ends


def _measure(
    *, rng: np.random.Generator, part: str, dim: int, tokens: int, draw: int, rows: int = 0
) -> Mapping[str, Any]:
    layer = make_nice_layer(heads=2, dim=dim, sigma=_SIGMA, rng=rng)
    inputs = BooleanInputs(tokens, dim)
    if part == "ends":
        return _ends(layer, inputs, rng)
    if tokens >= dim:
        return {"refused": SixPhase(m=2).fit(ExampleOracle(layer, inputs, rng=rng), rng=rng).outcome.name}
    x = inputs.sample(-(-rows // tokens), rng=rng)
    drawn = draw_rows(layer, x, planted_gap=_PLANTED, rng=rng)
    # as many rows as the learner's 1000 d examples have at k = 2
    crude = estimate_projection_sum(ExampleOracle(layer, inputs, rng=rng), 2000 * dim // tokens)
    return {
        "refused": None,
        "sum_error": crude.error(layer),
        **residual_law(drawn),
        "exact": judge_certificates(drawn, layer.w.sum(axis=0), allowed=_ALLOWED),
        "crude": judge_certificates(drawn, crude.w, allowed=_ALLOWED),
    }


def _ends(layer: Any, inputs: BooleanInputs, rng: np.random.Generator) -> Mapping[str, Any]:
    truth = GroundTruth.draw(layer, inputs, rng=rng)
    examples, learner = (int(one) for one in rng.integers(2**63, size=2))
    phases = SixPhase(m=2, work=_PASSES).fit(
        ExampleOracle(layer, inputs, rng=examples), rng=learner, truth=truth
    )
    newton = Newton(m=2, work=_PASSES).fit(
        ExampleOracle(layer, inputs, rng=examples), rng=learner, truth=truth
    )

    def told(phase: int, name: str) -> float | None:
        steps = [step for step in phases.trace if step.phase == phase and name in step.measures]
        return float(steps[-1].measures[name]) if steps else None

    within = next((step for step in phases.trace if step.phase == 6 and "starts" in step.measures), None)

    return {
        "outcome": phases.outcome.name,
        "error": truth.measure(layer=phases.layer)["relative_error"],
        "sum_error": told(3, "sum_error"),
        "log_ratio_error": told(4, "agreement_error"),
        "span_error": told(5, "span_error"),
        "before_newton": None if within is None else float(within.measures["relative_error"]),
        "examples": phases.examples_used,
        "newton_outcome": newton.outcome.name,
        "newton_error": truth.measure(layer=newton.layer)["relative_error"],
        "newton_examples": newton.examples_used,
    }


STUDY = Study(
    name="tokens",
    title="Tokens against dimensions",
    question="How near to d may the number k of tokens come before certificates of agreement are false, and what "
    "does that do to the learner?",
    expected="The specification of the six phases (after Chen and Li, who take k much smaller than d) says that "
    "there are no false positives because k, m << d, and that k >= d is refused: so certificates should be good at "
    "small k/d and fail as k nears d.",
    limits="Two heads, nice layers of sigma 2 and Boolean tokens only: with weaker attention more rows are usable "
    "at large k; agreement within a logit is too rare at k > 4 to be seen but by planting it; and the share of "
    "accepted rows that is false is that of a fixed accepted share, 1 %: a smaller share of more rows would hold "
    "fewer.",
    how="Certificates: nice layers of two heads, sigma 2, Boolean tokens, 40,000 rows and 4 layers a point (12,000 "
    "and 2 at the quick scale), certified with the exact sum of the projections and with that of phase 1 from 2000 d "
    "/ k examples. The learner accepts the hundredth of all rows with the least residual among the usable ones, "
    "those with every entry of the pattern above .05; an accepted row is false if its heads disagree by more than "
    "one logit, and the column agree is the share of all rows whose heads do not. Because rows that agree are rare as "
    "eps^((m-1)(k-1)), agreement is planted beside them: labels in which the second head attends as the first up to "
    "a tenth of a logit. The false rate is the share of rows that disagree by more than a logit and have a residual "
    "below that of nine of ten planted ones; intervals are 95 % by Student's t over layers. The squared share "
    "that the regression leaves of what disagreement adds to a row is compared with 1 - (k-1)/d, the mean of the law "
    "Beta((d-k+1)/2, (k-1)/2) of a random direction off the affine span of k points (derived here). Ends: the "
    "practical SixPhase and Newton, both of 2 heads with 3000 passes and their own numbers of examples, 3 targets at "
    "d = 16 and 2 at d = 24; before Newton is the fit within the span of the heads, from which Newton's iterates, the "
    "same as those of the learner Newton, end phase 6; errors are relative test errors, "
    "medians over targets; exact is below 1e-9.",
    cells=_cells,
    measure=_measure,
    found=found_in_words,
    table=tokens_table,
    draw=draw_tokens,
)

"""The phases of the six-phase learner as subjects: what each finds holds when it is computed as it is written."""

import numpy as np
from fuzzing import Argument, Subject, anything, array, choice, made, real, seed, whole
from upper_makers import (
    X,
    Y,
    bounded,
    given,
    layer,
    oracle,
)
from upper_phase_laws import (
    body_is_right,
    contrasts_are_right,
    counts_rise,
    hull_is_right,
    logits_differ,
    margins_are_large,
    net_is_searched,
    patterns_explain,
    refined_is_whole,
    repeated_are_told,
    span_is_right,
    step_is_the_mean,
    sum_is_estimated,
)

import upper.six_phase as phases
from attention import BooleanInputs

__all__ = ["PHASE_SUBJECTS", "SUM", "W"]

P_ORACLE = made(lambda: oracle(2, 2, 3), "<oracle of 2 heads>")
SUM = np.asarray(layer(2, 3).w.sum(axis=0))
W = array((3, 3), of=given(SUM), torch=False)
BODIES: dict = {}


def a_body():
    if "small" not in BODIES:
        BODIES["small"] = phases.sculpt_affine_hull(
            oracle(2, 2, 3), SUM, wide=1, accept=0.2, examples=400
        ).body
    return BODIES["small"]


def a_larger_body():
    """In so many coordinates that rows of large margin span them."""
    if "large" not in BODIES:
        own = oracle(2, 2, 8)
        w = np.asarray(layer(2, 8).w.sum(axis=0))
        BODIES["large"] = phases.sculpt_affine_hull(own, w, wide=1, accept=0.2, examples=4000).body
    return BODIES["large"]


def a_span():
    return phases.attention_span(a_body(), wide=1)


def contrasts():
    x, _ = oracle(2, 2, 3).draw(60)
    pattern = layer(2, 3).patterns(x).mean(axis=1)
    return phases.contrasts_of(x, pattern, np.ones(pattern.shape[:2], bool))


DRAWN = oracle(2, 2, 3).draw(60)
PX, PY = (array(one.shape, of=given(one), torch=False) for one in DRAWN)
NET = oracle(2, 2, 3).draw(600)
NX, NY = (array(one.shape, of=given(one), torch=False) for one in NET)
PATTERN = layer(2, 3).patterns(DRAWN[0]).mean(axis=1)


PHASE_SUBJECTS = [
    Subject(
        "upper.six_phase.estimate_projection_sum",
        phases.estimate_projection_sum,
        {"oracle": P_ORACLE, "n": whole(20, 40), "jobs": choice(1)},
        right=sum_is_estimated,
    ),
    Subject(
        "upper.six_phase.one_gradient_step",
        phases.one_gradient_step,
        {"x": X, "y": Y},
        words=("tokens", "labels"),
        right=step_is_the_mean,
    ),
    Subject(
        "upper.six_phase.certify_agreement",
        phases.certify_agreement,
        {"x": X, "y": Y, "projection_sum": W, "method": choice("least-squares")},
        words=("tokens", "labels"),
        right=patterns_explain,
    ),
    Subject(
        "upper.six_phase.has_repeated_tokens", phases.has_repeated_tokens, {"x": X}, right=repeated_are_told
    ),
    Subject(
        "upper.six_phase.contrasts_of",
        phases.contrasts_of,
        {
            "x": PX,
            "pattern": array(PATTERN.shape, of=given(PATTERN), torch=False),
            "accepted": array((60, 2), of=lambda rng, shape: np.ones(shape, bool), torch=False),
        },
        right=contrasts_are_right,
    ),
    Subject(
        "upper.six_phase.disagreement",
        phases.disagreement,
        {"layer": made(lambda: layer(2, 3), "<layer>"), "x": X},
        right=logits_differ,
    ),
    Subject(
        "upper.six_phase.measure_agreement",
        phases.measure_agreement,
        {
            "layer": made(lambda: layer(2, 3), "<layer>"),
            "inputs": made(lambda: BooleanInputs(2, 3), "<inputs>"),
            "rows": Argument(whole(100, 200).sane, bounded({"work": whole()})["work"].hostile),
            "tolerances": anything((0.1, 0.2)),
            "rng": seed(),
        },
        right=counts_rise,
    ),
    Subject(
        "upper.six_phase.sculpt_affine_hull",
        phases.sculpt_affine_hull,
        {
            "oracle": made(lambda: oracle(2, 2, 3), "<oracle>"),
            "projection_sum": W,
            "wide": whole(1, 1),
            "accept": real(0.1, 0.2),
            "examples": whole(300, 400),
            "body": choice("ellipsoid"),
            "jobs": choice(1),
        },
        share=0.4,
        also=(phases.PhaseFailedError,),
        words=("hull", "rows", "equations"),
        right=hull_is_right,
    ),
    Subject(
        "upper.six_phase.sculpt",
        phases.sculpt,
        {
            "contrasts": made(contrasts, "<contrasts>"),
            "body": choice("ellipsoid", "polytope"),
            "tolerance": real(1.0, 2.0),
            "radius": real(10.0, 20.0),
            "wide": whole(1, 1),
        },
        share=0.5,
        also=(phases.PhaseFailedError,),
        refuses=True,
        words=("matrix", "body"),
        right=body_is_right,
    ),
    Subject(
        "upper.six_phase.attention_span",
        phases.attention_span,
        {"body": made(a_body, "<body>"), "wide": whole(1, 1)},
        right=span_is_right,
    ),
    Subject(
        "upper.six_phase.refine_by_consistency",
        phases.refine_by_consistency,
        {
            "oracle": made(lambda: oracle(2, 2, 3), "<oracle>"),
            "projection_sum": W,
            "examples": whole(300, 400),
            "shares": anything((0.1, 0.05)),
            "jobs": choice(1),
        },
        also=(phases.PhaseFailedError,),
        words=("share",),
        right=refined_is_whole,
    ),
    Subject(
        "upper.six_phase.refine_by_margin",
        phases.refine_by_margin,
        {
            "oracle": made(lambda: oracle(2, 2, 8), "<oracle>"),
            "body": made(a_larger_body, "<body>"),
            "wide": whole(1, 1),
            "examples": whole(3000, 4000),
            "margin": real(0.0, 0.01),
            "over": choice("proxy"),
            "jobs": choice(1),
        },
        share=0.4,
        also=(phases.PhaseFailedError,),
        words=("rows",),
        right=margins_are_large,
    ),
    Subject(
        "upper.six_phase.search_net",
        phases.search_net,
        {
            "x": NX,
            "y": NY,
            "span": made(a_span, "<span>"),
            "heads": whole(2, 2),
            "over": choice("hull"),
            "spacing": real(0.3, 0.5),
            "refinements": whole(0, 1),
            "most": whole(1000, 2000),
        },
        share=0.4,
        also=(phases.PhaseFailedError,),
        words=("examples", "net", "tuples", "points"),
        right=net_is_searched,
    ),
]

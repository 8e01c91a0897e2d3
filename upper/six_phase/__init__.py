"""The six-phase learner of Chen and Li (arXiv 2402.04084); the name of a file begins with its phase.

1. `estimate_projection_sum`: a crude estimate of sum_i W_i.
2. `sculpt_affine_hull` (paper mode only): certify the rows on which all heads agree, and use them to enclose the
   affine hull of the Theta_i in a convex body.
3. `refine_by_margin` (the paper's way) or `refine_by_consistency`: a better estimate of the sum.
4. `sculpt_affine_hull` again, with the better estimate.
5. `attention_span`: the span of the Theta_i.
6. `search_net` (the paper's way) or `phase6_heads.fit_heads`, a fit within the span and Newton: the heads.

`SixPhase` calls them in this order, and `SixPhases` has what each found. `six_phase_queries` counts phases 1 to 5 as
statistical queries.
"""

from upper.six_phase.common import PhaseFailedError
from upper.six_phase.learner import SixPhase, SixPhases
from upper.six_phase.phase2_affine_hull import AffineHull, sculpt_affine_hull
from upper.six_phase.phase5_span import AttentionSpan, attention_span
from upper.six_phase.phase6_net import Net, NetSearch, search_net
from upper.six_phase.phases1_3_projection_sum import (
    ProjectionSum,
    estimate_projection_sum,
    refine_by_consistency,
    refine_by_margin,
)
from upper.six_phase.query_count import six_phase_queries

__all__ = [
    "AffineHull",
    "AttentionSpan",
    "Net",
    "NetSearch",
    "PhaseFailedError",
    "ProjectionSum",
    "SixPhase",
    "SixPhases",
    "attention_span",
    "estimate_projection_sum",
    "refine_by_consistency",
    "refine_by_margin",
    "sculpt_affine_hull",
    "search_net",
    "six_phase_queries",
]

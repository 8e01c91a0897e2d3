"""The six-phase learner of Chen and Li (arXiv 2402.04084), one file a phase.

1. `estimate_projection_sum`: a crude estimate of sum_i W_i.
2. `sculpt_affine_hull`: certify the rows on which all heads agree, and sculpt the affine hull of the Theta_i out.
3. `refine_by_margin` (the paper's way) or `refine_by_consistency`: a better estimate of the sum.
4. `sculpt_affine_hull` again, with it.
5. `attention_span`: the span of the Theta_i.
6. `search_net` (the paper's way) or a descent within the span and Newton: the heads themselves.

`SixPhase`, in `learner.py`, calls them one after the other; a file has the number of its phase, and phase 4 is phase 2
once more. `six_phase_queries` counts phases 1 to 5 as statistical queries, and `learn_by_queries` runs them against any
oracle that answers such.
"""

from upper.newton.span import fit_in_span
from upper.six_phase.agreement_law import AgreementLaw, disagreement, measure_agreement
from upper.six_phase.common import PhaseFailedError
from upper.six_phase.convex_body import ConvexBody, SpectralGap, spectral_gap
from upper.six_phase.ellipsoid import Ellipsoid
from upper.six_phase.learner import SixPhase
from upper.six_phase.phase1_projection_sum import ProjectionSum, estimate_projection_sum, one_gradient_step
from upper.six_phase.phase2_affine_hull import AffineHull, sculpt, sculpt_affine_hull
from upper.six_phase.phase2_agreement import (
    Certificates,
    Contrasts,
    certify_agreement,
    contrasts_of,
    has_repeated_tokens,
)
from upper.six_phase.phase3_refine_sum import (
    HullMargin,
    LargeMargin,
    SelfConsistent,
    refine_by_consistency,
    refine_by_margin,
)
from upper.six_phase.phase5_span import AttentionSpan, attention_span
from upper.six_phase.phase6_net import NetSearch, held_out_examples, search_net
from upper.six_phase.polytope import Polytope
from upper.six_phase.query_learner import QueriedSpan, QueryOracle, learn_by_queries
from upper.six_phase.query_plan import QueryCount, QueryPlan, six_phase_queries
from upper.six_phase.run import Phases
from upper.six_phase.statistical_queries import StatisticalQuery

__all__ = [
    "AffineHull",
    "AgreementLaw",
    "AttentionSpan",
    "Certificates",
    "Contrasts",
    "ConvexBody",
    "Ellipsoid",
    "HullMargin",
    "LargeMargin",
    "NetSearch",
    "PhaseFailedError",
    "Phases",
    "Polytope",
    "ProjectionSum",
    "QueriedSpan",
    "QueryCount",
    "QueryOracle",
    "QueryPlan",
    "SelfConsistent",
    "SixPhase",
    "SpectralGap",
    "StatisticalQuery",
    "attention_span",
    "certify_agreement",
    "contrasts_of",
    "disagreement",
    "estimate_projection_sum",
    "fit_in_span",
    "has_repeated_tokens",
    "held_out_examples",
    "learn_by_queries",
    "measure_agreement",
    "one_gradient_step",
    "refine_by_consistency",
    "refine_by_margin",
    "sculpt",
    "sculpt_affine_hull",
    "search_net",
    "six_phase_queries",
    "spectral_gap",
]

"""Statistical queries: hard families, oracles, learners, correlations and dimensions; and what is no statistical query.

* Families: `ParityFamily`, `BumpFamily`, ...; `two_head_families` lists them, and `DEFINITIONS` says to
  `lower.verify_instance` what an instance of each must be.
* Oracles: a model (`CSQ`, `STAT`, `VSTAT`) with a temperament: `ExactOracle`, `HonestOracle`, `ReferenceAdversary`,
  `MostPreservingAdversary`.
* Learners: `ScanLearner`, `GroupLearner`, `SignedGroupLearner`, `LowDegreeLearner`, `DescentLearner`, and any other by
  `run_by_queries`.
* Correlations: `closed_form_gram`, `enumerated_gram`, `sampled_gram`, `overlap_gram`.
* Dimensions: `clique_dimension`, `spectral_cap`, `szorenyi_cap`, `statistical_dimension`, `vstat_calls`.
* Curves: `curve_cells`, `measure_cell`, `visible_below`.
* `ParityElimination`, which asks no such queries and breaks the parities.
"""

from lower import walsh_hadamard
from sq.adversaries import MostPreservingAdversary, ReferenceAdversary
from sq.caps import (
    Bound,
    full_query_cap,
    orthogonal_cap,
    pairwise_cap,
    queries_needed,
    spectral_cap,
    szorenyi_cap,
)
from sq.cliques import (
    Clique,
    correlation_clique,
    correlation_graph,
    maximum_clique,
    overlap_graph,
    packing_bound,
)
from sq.correlation import (
    LargestAverage,
    average_correlation,
    closed_form_gram,
    enumerated_gram,
    largest_average_correlation,
    sampled_gram,
    top_averages,
)
from sq.curve_cells import (
    CURVE_COLUMNS,
    CURVE_LEARNERS,
    CURVE_ORACLES,
    CurveCell,
    CurvePoint,
    curve_cells,
)
from sq.curves import measure_cell, visible_below
from sq.definitions import DEFINITIONS, define_symmetric
from sq.designed_steps import designed_coefficients
from sq.dimension import (
    CliqueBound,
    StatisticalDimension,
    clique_dimension,
    reference_gram,
    statistical_dimension,
    vstat_calls,
)
from sq.elimination import ParityElimination
from sq.families import (
    BumpFamily,
    CentreThresholdFamily,
    DesignedStepsFamily,
    HiddenGateFamily,
    PairFamily,
    ParityFamily,
    TokenParityFamily,
    TwoHeadFamilies,
    TwoHeadFamily,
    TwoSlopeFamily,
    make_parity_instance,
    two_head_families,
)
from sq.gram import GramMatrix
from sq.heads import Construction, ParityHeads, heads_needed, parity_heads
from sq.hidden_gate import GateAndSecretSet
from sq.hidden_part import HiddenPart
from sq.johnson import OverlapGram, eberlein, overlap_gram
from sq.krawtchouk import (
    fourier_coefficient,
    fourier_coefficients,
    fourier_weights,
    krawtchouk,
    overlap_correlations,
    profile_moments,
)
from sq.learners import (
    DescentLearner,
    GroupLearner,
    LowDegreeLearner,
    ScanLearner,
    SignedGroupLearner,
    SQLearner,
    SQResult,
    group_learner_bound,
    run_by_queries,
)
from sq.models import CSQ, STAT, VSTAT, QueryModel
from sq.oracles import ExactOracle, HonestOracle, SQOracle
from sq.queries import BoundedQuery, CorrelationalQueries, CorrelationalQuery, GroupQuery, StatisticalQuery
from sq.secret_set import SecretSet
from sq.symmetric import ProfileHeads, SymmetricFamily
from sq.target_family import TargetFamily
from sq.walsh import FourierSpectrum, fourier_spectrum, hidden_values

__all__ = [
    "CSQ",
    "CURVE_COLUMNS",
    "CURVE_LEARNERS",
    "CURVE_ORACLES",
    "DEFINITIONS",
    "STAT",
    "VSTAT",
    "Bound",
    "BoundedQuery",
    "BumpFamily",
    "CentreThresholdFamily",
    "Clique",
    "CliqueBound",
    "Construction",
    "CorrelationalQueries",
    "CorrelationalQuery",
    "CurveCell",
    "CurvePoint",
    "DescentLearner",
    "DesignedStepsFamily",
    "ExactOracle",
    "FourierSpectrum",
    "GateAndSecretSet",
    "GramMatrix",
    "GroupLearner",
    "GroupQuery",
    "HiddenGateFamily",
    "HiddenPart",
    "HonestOracle",
    "LargestAverage",
    "LowDegreeLearner",
    "MostPreservingAdversary",
    "OverlapGram",
    "PairFamily",
    "ParityElimination",
    "ParityFamily",
    "ParityHeads",
    "ProfileHeads",
    "QueryModel",
    "ReferenceAdversary",
    "SQLearner",
    "SQOracle",
    "SQResult",
    "ScanLearner",
    "SecretSet",
    "SignedGroupLearner",
    "StatisticalDimension",
    "StatisticalQuery",
    "SymmetricFamily",
    "TargetFamily",
    "TokenParityFamily",
    "TwoHeadFamilies",
    "TwoHeadFamily",
    "TwoSlopeFamily",
    "average_correlation",
    "clique_dimension",
    "closed_form_gram",
    "correlation_clique",
    "correlation_graph",
    "curve_cells",
    "define_symmetric",
    "designed_coefficients",
    "eberlein",
    "enumerated_gram",
    "fourier_coefficient",
    "fourier_coefficients",
    "fourier_spectrum",
    "fourier_weights",
    "full_query_cap",
    "group_learner_bound",
    "heads_needed",
    "hidden_values",
    "krawtchouk",
    "largest_average_correlation",
    "make_parity_instance",
    "maximum_clique",
    "measure_cell",
    "orthogonal_cap",
    "overlap_correlations",
    "overlap_gram",
    "overlap_graph",
    "packing_bound",
    "pairwise_cap",
    "parity_heads",
    "profile_moments",
    "queries_needed",
    "reference_gram",
    "run_by_queries",
    "sampled_gram",
    "spectral_cap",
    "statistical_dimension",
    "szorenyi_cap",
    "top_averages",
    "two_head_families",
    "visible_below",
    "vstat_calls",
    "walsh_hadamard",
]

"""Statistical queries: hard families, oracles, learners, correlations, dimensions; and attacks that ask none.

* Families: `ParityFamily`, `BumpFamily`, ...; `two_head_families` lists them, and `lower.FAMILIES` holds them by name.
* Oracles: a model (`CSQ`, `STAT`, `VSTAT`) with a temperament: `ExactOracle`, `HonestOracle`, `ReferenceAdversary`,
  `MostPreservingAdversary`.
* Learners: `ScanLearner`, `GroupLearner`, `SignedGroupLearner`, `LowDegreeLearner`, `DescentLearner`. `run_by_queries`
  runs any other learner.
* Correlations: `closed_form_gram`, `enumerated_gram`, `sq.johnson.OverlapGram`.
* Bounds: `orthogonal_cap`, `full_query_cap`, `spectral_cap`, `szorenyi_cap`, `statistical_dimension`,
  `vstat_calls`, `sq.dimension.clique_dimension`.
* Low degree: `SQFamily.secret_pairs`, or `enumerated_pairs` without a formula.
* Curves: `curve_cells`, `measure_cell`, `visible_below`.
* Gaussian tokens: `PeriodicFamily`, on `sq.single_index.SingleIndexFamily`.
* `ParityElimination`, `PeriodicLattice`: they ask no statistical queries and break parities and periodic neurons.

What has no reference is derived here.
"""

from typing import TYPE_CHECKING

from attention.lazy import lazily
from sq.hidden_gate import HiddenGateFamily
from sq.pairs import PairFamily
from sq.parities import ParityFamily, make_parity_instance, parity_heads
from sq.periodic import PeriodicFamily
from sq.profiles import (
    BumpFamily,
    CentreThresholdFamily,
    DesignedStepsFamily,
    SymmetricFamily,
    TwoSlopeFamily,
)
from sq.token_parity import TokenParityFamily

if TYPE_CHECKING:
    from sq.adversaries import MostPreservingAdversary, ReferenceAdversary
    from sq.caps import full_query_cap, orthogonal_cap, spectral_cap, szorenyi_cap, visible_below
    from sq.cliques import maximum_clique
    from sq.curves import CurveCell, CurvePoint, curve_cells, measure_cell
    from sq.dimension import statistical_dimension, vstat_calls
    from sq.elimination import ParityElimination
    from sq.family import SQFamily, two_head_families
    from sq.fitting import DescentLearner, LowDegreeLearner
    from sq.gram import closed_form_gram, enumerated_gram
    from sq.learners import GroupLearner, ScanLearner, SignedGroupLearner, group_learner_bound, run_by_queries
    from sq.models import CSQ, STAT, VSTAT
    from sq.oracles import ExactOracle, HonestOracle, SQOracle
    from sq.pair_spectra import enumerated_pairs
    from sq.periodic_lattice import PeriodicLattice
    from sq.queries import CorrelationalQueries, CorrelationalQuery, GroupQuery, StatisticalQuery
    from sq.secret_set import SecretSet
    from sq.target_family import TargetFamily

__getattr__ = lazily(__name__, __file__)

__all__ = [
    "CSQ",
    "STAT",
    "VSTAT",
    "BumpFamily",
    "CentreThresholdFamily",
    "CorrelationalQueries",
    "CorrelationalQuery",
    "CurveCell",
    "CurvePoint",
    "DescentLearner",
    "DesignedStepsFamily",
    "ExactOracle",
    "GroupLearner",
    "GroupQuery",
    "HiddenGateFamily",
    "HonestOracle",
    "LowDegreeLearner",
    "MostPreservingAdversary",
    "PairFamily",
    "ParityElimination",
    "ParityFamily",
    "PeriodicFamily",
    "PeriodicLattice",
    "ReferenceAdversary",
    "SQFamily",
    "SQOracle",
    "ScanLearner",
    "SecretSet",
    "SignedGroupLearner",
    "StatisticalQuery",
    "SymmetricFamily",
    "TargetFamily",
    "TokenParityFamily",
    "TwoSlopeFamily",
    "closed_form_gram",
    "curve_cells",
    "enumerated_gram",
    "enumerated_pairs",
    "full_query_cap",
    "group_learner_bound",
    "make_parity_instance",
    "maximum_clique",
    "measure_cell",
    "orthogonal_cap",
    "parity_heads",
    "run_by_queries",
    "spectral_cap",
    "statistical_dimension",
    "szorenyi_cap",
    "two_head_families",
    "visible_below",
    "vstat_calls",
]

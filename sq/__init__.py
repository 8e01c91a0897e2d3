"""Statistical queries: hard families, oracles, learners, correlations, dimensions; and attacks that ask none.

* Families: `ParityFamily`, `ProfileFamily.bump`, ...; `two_head_families` lists them, `lower.FAMILIES` has all.
* Oracles: a model (`CSQ`, `STAT`, `VSTAT`) and who answers: `ExactOracle`, `HonestOracle`, or an adversary,
  `ReferenceAdversary` or `MostPreservingAdversary`.
* Learners: `ExhaustiveSearch`, `GroupLearner`, `SignedGroupLearner`.
* Correlations: `gram_matrix`, `sq.johnson.OverlapGram`.
* Dimensions: `sq_dimension`, `statistical_dimension`, `vstat_calls`; `lower.eliminated_per_query` and
  `lower.query_lower_bound` bound queries.
* Low degree (LDLR): `SQFamily.secret_pairs`.
* Curves: `curve_cells`, `measure_cell`.
* Gaussian tokens: `PeriodicFamily`.
* `ParityElimination`, `PeriodicLattice`: they ask no statistical queries and break parities and periodic neurons.

What has no reference is derived here.
"""

from typing import TYPE_CHECKING

from attention.lazy import lazily
from sq import profiles  # noqa: F401 - registers its families
from sq.hidden_gate import HiddenGateFamily
from sq.pairs import PairFamily
from sq.parities import ParityFamily, make_parity_instance, parity_heads
from sq.periodic import PeriodicFamily
from sq.profile_family import ProfileFamily
from sq.token_parity import TokenParityFamily

if TYPE_CHECKING:
    from sq.adversaries import MostPreservingAdversary, ReferenceAdversary
    from sq.curves import CurveCell, curve_cells, measure_cell
    from sq.dimension import gram_matrix, sq_dimension, statistical_dimension, vstat_calls
    from sq.elimination import ParityElimination
    from sq.family import SQFamily, TargetFamily, two_head_families
    from sq.learners import ExhaustiveSearch, GroupLearner, SignedGroupLearner, group_learner_bound
    from sq.models import CSQ, STAT, VSTAT
    from sq.oracles import ExactOracle, HonestOracle, SQOracle
    from sq.periodic_lattice import PeriodicLattice
    from sq.queries import CorrelationalQuery, GroupQuery, StatisticalQuery
    from sq.secret_set import SecretSet

__getattr__ = lazily(__name__, __file__)

__all__ = [
    "CSQ",
    "STAT",
    "VSTAT",
    "CorrelationalQuery",
    "CurveCell",
    "ExactOracle",
    "ExhaustiveSearch",
    "GroupLearner",
    "GroupQuery",
    "HiddenGateFamily",
    "HonestOracle",
    "MostPreservingAdversary",
    "PairFamily",
    "ParityElimination",
    "ParityFamily",
    "PeriodicFamily",
    "PeriodicLattice",
    "ProfileFamily",
    "ReferenceAdversary",
    "SQFamily",
    "SQOracle",
    "SecretSet",
    "SignedGroupLearner",
    "StatisticalQuery",
    "TargetFamily",
    "TokenParityFamily",
    "curve_cells",
    "gram_matrix",
    "group_learner_bound",
    "make_parity_instance",
    "measure_cell",
    "parity_heads",
    "sq_dimension",
    "statistical_dimension",
    "two_head_families",
    "vstat_calls",
]

"""All learners by statistical queries in one place: those of known families, and any other handed in.

=====================  ================================================================  ==========================
learner                asks                                                              over N orthonormal targets
=====================  ================================================================  ==========================
`ScanLearner`          one character after another                                       (N + 1)/2 on average
`GroupLearner`         M* at once, then bisects; the lower bound's match                 `group_learner_bound`
`SignedGroupLearner`   M* at once, half with a minus: one half falls whatever the reply  (N - 1)/floor(M*/2), about
`LowDegreeLearner`     every monomial of degree up to r                                  k sum_{i <= r} C(k d, i)
`DescentLearner`       gradients, d queries each                                         no bound
`run_by_queries`       whatever the learner that is handed in asks                       what it states
=====================  ================================================================  ==========================
"""

from sq.descent import DescentLearner
from sq.groups import GroupLearner, SignedGroupLearner, group_learner_bound
from sq.handed_in import run_by_queries
from sq.low_degree import LowDegreeLearner
from sq.scan import ScanLearner
from sq.sq_result import SQLearner, SQResult

__all__ = [
    "DescentLearner",
    "GroupLearner",
    "LowDegreeLearner",
    "SQLearner",
    "SQResult",
    "ScanLearner",
    "SignedGroupLearner",
    "group_learner_bound",
    "run_by_queries",
]

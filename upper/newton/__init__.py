"""The Newton learner: damped Gauss-Newton with the projections eliminated.

* `Newton` is the learner; `gauss_newton` is the loop that it runs from each start.
* `FullHeads`, `LowRankHeads` and `SpanHeads` are the parametrisations: the layer, its derivative, a preconditioner.
"""

from upper.newton.learner import Newton
from upper.newton.loop import gauss_newton

__all__ = ["Newton", "gauss_newton"]

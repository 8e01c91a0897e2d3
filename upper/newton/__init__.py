"""The Newton learner: damped Gauss-Newton with the projections eliminated.

* `Newton` is the learner, `gauss_newton` the loop it runs from each start.
* `FullHeads` and `LowRankHeads` are what the loop moves: the layer, its derivative and a preconditioner.
"""

from upper.newton.factors import FactoredHeads, random_factors
from upper.newton.gauss_newton import Iterate, gauss_newton
from upper.newton.learner import Newton

__all__ = ["FactoredHeads", "Iterate", "Newton", "gauss_newton", "random_factors"]

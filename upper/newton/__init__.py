"""The Newton learner: damped Gauss-Newton with the projections eliminated.

* `Newton` is the learner; `gauss_newton` is the loop that it runs from each start.
* `FullHeads`, `LowRankHeads` and `SpanHeads` are the parametrisations: the layer, its derivative, a preconditioner.
* `examples_are_causal` says whether examples come from a causal layer.
* `certify_layer` says which directions of a layer's parameters given tokens determine.
"""

from upper.newton.causal import examples_are_causal
from upper.newton.determined import certify_layer
from upper.newton.learner import Newton
from upper.newton.loop import gauss_newton

__all__ = ["Newton", "certify_layer", "examples_are_causal", "gauss_newton"]

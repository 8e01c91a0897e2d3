"""The Newton learner: damped Gauss-Newton with the projections eliminated.

* `learner`: the settings of `Newton`, and how it searches. `problem`: what it works on, with examples held out.
* `starts`: random and given starts, where a run stops, and when another follows. `noise`: its level, and what a head is
  worth beside it.
* `head_count`: the number of heads, by students that grow and are pruned. `spectral`: a guess from cross-moments.
* `loop`: `gauss_newton` from one start, with its damping and precision. `prior`: the annealed prior. `inner_solve`.
* `full_heads`, `low_rank`: parametrisations, with reads, products with the derivative, and a preconditioner.
* `whitening`: tokens far from isotropic. `certificate`: which directions of a layer given tokens determine, from the
  `derivative`. `other_inputs`: whether others contradict a fit. `causal`: do examples show a mask?
"""

from upper.newton.certificate import certify_layer
from upper.newton.learner import Newton
from upper.newton.loop import gauss_newton

__all__ = ["Newton", "certify_layer", "gauss_newton"]

"""Nice random layers: the benign targets on which the provable learner is meant to succeed."""

import numpy as np

from attention.inputs import Rng
from attention.layer import AttentionLayer, require_layer_memory
from attention.validation import NonNegativeFloat, PositiveInt, checked, random_generator

__all__ = ["make_nice_layer"]


@checked
def make_nice_layer(
    *, heads: PositiveInt, dim: PositiveInt, sigma: NonNegativeFloat = 2.0, rng: Rng = None
) -> AttentionLayer:
    """Draw a nice layer: Theta entries N(0, (sigma/d)^2), W entries N(0, 1/d).

    Parameters
    ----------
    heads, dim : int
        The numbers m of heads and d of coordinates.
    sigma : float
        Standard deviation of an attention logit on Boolean tokens.
    rng : optional
        Anything `numpy.random.default_rng` accepts (SPEC 7).

    Raises
    ------
    ValueError
        If `heads` or `dim` is below 1, or `sigma` is negative or not finite.

    Notes
    -----
    Random Gaussian heads meet the non-degeneracy conditions increasingly well as d grows
    (measured; see `attention.check_conditions`). O(m d^2).

    References
    ----------
    Derived; the distribution of all figures measured here on nice targets.

    Examples
    --------
    >>> make_nice_layer(heads=2, dim=8, rng=0)
    AttentionLayer(heads=2, dim=8, dtype=float64)
    """
    require_layer_memory(heads, dim)
    rng = random_generator(rng)
    shape = (heads, dim, dim)
    return AttentionLayer(
        theta=rng.standard_normal(shape) * (sigma / dim),
        w=rng.standard_normal(shape) / np.sqrt(dim),
    )

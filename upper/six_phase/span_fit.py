"""What a fit within the span gives: apart from the descent that finds it, so that paper mode never meets that."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

__all__ = ["SpanFit"]


@dataclass(frozen=True, eq=False)
class SpanFit:
    """The attention matrices within the span that fit best.

    Attributes
    ----------
    theta, w : array (m, d, d)
        Attention matrices in the span, and their projections by least squares.
    residual : float
        |Y - F(X)| / |Y| on the examples fitted.
    residuals : tuple of float
        The same of every start.
    passes : int
        Passes over the examples: one for an evaluation of the residual, m^2 for one of its derivative.
    """

    theta: Float[np.ndarray, "m d d"]
    w: Float[np.ndarray, "m d d"]
    residual: float
    residuals: tuple[float, ...]
    passes: int

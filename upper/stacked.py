"""The layer with all heads stacked into few large products.

Every function works on the arrays of any array-API library. Layouts: tokens (n, k, d); patterns (n, k, m, k), row by
row with its heads together, so that the reads P_i X of all heads are one (n k, m d) matrix.
"""

from typing import Any

from jaxtyping import Shaped

from attention._arrays import namespace
from attention._kernels import contract, mix, softmax

__all__ = ["read_tokens", "stack_projections"]


def read_tokens(
    x: Shaped[Any, "n k d"], theta: Shaped[Any, "m d d"]
) -> tuple[Shaped[Any, "n k m k"], Shaped[Any, "n*k m*d"]]:
    """Patterns of all heads and what they read, Z = [P_1 X ... P_m X].

    Notes
    -----
    One product of (n k, d) by (d, m d) and two batched ones; O(n k m d (d + 2 k)).
    """
    xp = namespace(x, theta)
    pattern = softmax(contract(x, theta, xp), xp)
    return pattern, mix(pattern, x, xp)


def stack_projections(w: Shaped[Any, "m d d"]) -> Shaped[Any, "m*d d"]:
    """The W_i below one another, so that F(X) is Z times it."""
    xp = namespace(w)
    m, d, _ = w.shape
    return xp.reshape(w, (m * d, d))

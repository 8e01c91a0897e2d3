"""The layer with all heads stacked into few large products.

Every function works on the arrays of any array-API library. Layouts: tokens (n, k, d); patterns (n, k, m, k), row by
row with its heads together, so that the reads P_i X of all heads are one (n k, m d) matrix.
"""

from typing import Any

from jaxtyping import Shaped

from attention._arrays import namespace
from attention._kernels import contract, mix, softmax
from attention.validation import require_shape

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
    if x.ndim != 3 or theta.ndim != 3 or 0 in x.shape or theta.shape[1:] != (x.shape[2], x.shape[2]):
        raise ValueError(
            f"x has shape {tuple(x.shape)} and theta {tuple(theta.shape)}: (n, k, d) and (m, d, d) are needed."
        )
    if not all(xp.isdtype(array.dtype, "real floating") for array in (x, theta)):
        raise ValueError(f"x is of {x.dtype} and theta of {theta.dtype}: floating-point numbers are needed.")
    pattern = softmax(contract(x, theta, xp), xp)
    return pattern, mix(pattern, x, xp)


def stack_projections(w: Shaped[Any, "m d d"]) -> Shaped[Any, "m*d d"]:
    """The W_i below one another, so that F(X) is Z times it."""
    xp = namespace(w)
    require_shape("w", w, ("m", "d", "d"))
    m, d, _ = w.shape
    require_shape("w", w, (m, d, d))
    if not xp.isdtype(w.dtype, ("real floating", "integral", "bool")):
        raise ValueError(f"w is an array of {w.dtype}: real numbers are needed.")
    return xp.reshape(w, (m * d, d))

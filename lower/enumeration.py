"""All Boolean token matrices, in blocks: what checks by full enumeration run over."""

import numpy as np
from jaxtyping import Float

from attention.memory import require_memory
from attention.validation import NonNegativeInt, PositiveInt, checked

__all__ = ["all_sign_matrices"]


@checked
def all_sign_matrices(
    k: PositiveInt, d: PositiveInt, start: NonNegativeInt = 0, stop: NonNegativeInt | None = None
) -> Float[np.ndarray, "n k d"]:
    """The matrices number `start` to `stop` of the 2^(k d) in {-1, 1}^(k x d), in a fixed order.

    Parameters
    ----------
    k, d : int
        The numbers of tokens and of coordinates; k d at most 62.
    start, stop : int
        Which of them, as in a slice; to the end when `stop` is left out.

    Raises
    ------
    ValueError
        If a number is out of range, or the matrices do not fit into memory.

    Notes
    -----
    Bit r d + j of a matrix's number, least significant first, is 1 where entry (r, j) is -1, so a Walsh-Hadamard
    transform over this order has at each index the Fourier coefficient of that index's set of entries.

    Examples
    --------
    >>> all_sign_matrices(1, 2)[:, 0].tolist()
    [[1.0, 1.0], [-1.0, 1.0], [1.0, -1.0], [-1.0, -1.0]]
    """
    if k * d > 62:
        raise ValueError(f"k is {k} and d {d}: enumeration of matrices of more than 62 entries is hopeless.")
    total = 1 << (k * d)
    last = total if stop is None else min(stop, total)
    require_memory(
        f"Enumerating {max(last - start, 0)} matrices of {k} tokens in {d} dimensions",
        24 * k * d * max(last - start, 0),
        advice="take them in blocks by start and stop",
    )
    numbers = np.arange(min(start, last), last, dtype=np.int64)
    bits = (numbers[:, None] >> np.arange(k * d)) & 1
    return (1.0 - 2.0 * bits).reshape(len(numbers), k, d)

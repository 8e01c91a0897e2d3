"""All Boolean token matrices, in blocks: what checks by full enumeration run over."""

import numpy as np
from jaxtyping import Float

from attention.memory import require_memory
from attention.validation import count

__all__ = ["all_sign_matrices"]


def all_sign_matrices(k: int, d: int, start: int = 0, stop: int | None = None) -> Float[np.ndarray, "n k d"]:
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
    k, d = count("k", k), count("d", d)
    if k * d > 62:
        raise ValueError(f"k is {k} and d {d}: enumeration of matrices of more than 62 entries is hopeless.")
    total = 1 << (k * d)
    first = count("start", start, least=0)
    last = total if stop is None else min(count("stop", stop, least=0), total)
    require_memory(
        f"Enumerating {max(last - first, 0)} matrices of {k} tokens in {d} dimensions",
        24 * k * d * max(last - first, 0),
        advice="take them in blocks by start and stop",
    )
    numbers = np.arange(min(first, last), last, dtype=np.int64)
    bits = (numbers[:, None] >> np.arange(k * d)) & 1
    return (1.0 - 2.0 * bits).reshape(len(numbers), k, d)

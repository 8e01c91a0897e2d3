"""All Boolean token matrices in a fixed order, and the fast Walsh-Hadamard transform over it."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike

from attention.memory import require_memory
from attention.validation import PositiveInt, checked, real_array, require_array

# Passes multiply by Hadamard matrices of this many bits: wide enough for BLAS, narrow enough to save operations.
_PASS_BITS = 6


def walsh_hadamard(values: ArrayLike | Sequence[Any]) -> Float[np.ndarray, "*batch n"]:
    """The Walsh-Hadamard coefficients E_x f(x) chi_A(x) (..., 2^b) of functions given by their values (..., 2^b).

    Bit j of an input's number is 1 where its coordinate j is -1; this is the order of `lower.all_sign_matrices`. chi_A
    is the product of the coordinates whose bits are 1 in A. The transform of the coefficients, times 2^b, gives the
    values back. Whole numbers are converted to float64. ValueError if the number of values is not a power of two.

    Notes
    -----
    Each pass multiplies by a Hadamard matrix of 64 rows. All passes take O(64 b 2^b / 6) operations of matrix products,
    which is faster than the b 2^b operations of textbook butterflies. Memory: one more array of the size of `values`.

    Examples
    --------
    >>> walsh_hadamard(np.array([1.0, -1.0, -1.0, 1.0])).tolist()  # the product of two coordinates
    [0.0, 0.0, 0.0, 1.0]
    """
    from scipy.linalg import hadamard

    if isinstance(values, np.ndarray) and values.dtype.kind == "f":  # a float array keeps its precision
        require_array("values", values)
    else:
        values = real_array("values", values)
    size = values.shape[-1] if values.ndim else 0
    if size.bit_count() != 1:
        raise ValueError(f"There are {size} values: a power of two is needed.")
    bits, result = size.bit_length() - 1, values.copy()
    for done in range(0, bits, _PASS_BITS):
        width = 1 << min(_PASS_BITS, bits - done)
        # scale in each pass: powers of two lose no digits, and a float16 does not overflow
        signs = hadamard(width).astype(values.dtype) / width
        # the first pass is one product of two matrices
        result = signs @ result.reshape(-1, width, 1 << done) if done else result.reshape(-1, width) @ signs
    return result.reshape(values.shape)


@checked
def all_sign_matrices(tokens: PositiveInt, dim: PositiveInt) -> Float[np.ndarray, "n k d"]:
    """All 2^(k d) matrices of {-1, 1}^(k x d), in a fixed order, for `tokens` k and `dim` d.

    Bit r d + j of a matrix's number, least significant first, is 1 where entry (r, j) is -1. So a Walsh-Hadamard
    transform over this order puts at each index the Fourier coefficient of the set of entries that the index encodes.

    Examples
    --------
    >>> all_sign_matrices(1, 2)[:, 0].tolist()
    [[1.0, 1.0], [-1.0, 1.0], [1.0, -1.0], [-1.0, -1.0]]
    """
    what = f"Enumerating all matrices of {tokens} tokens in {dim} dimensions"
    require_memory(what, 24 * tokens * dim << tokens * dim, advice="take fewer tokens or dimensions")
    bits = (np.arange(1 << tokens * dim)[:, None] >> np.arange(tokens * dim)) & 1
    return (1.0 - 2.0 * bits).reshape(-1, tokens, dim)

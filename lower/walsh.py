"""The fast Walsh-Hadamard transform."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike

from attention.validation import real_array, require_finite

__all__ = ["walsh_hadamard"]

# Passes multiply by Hadamard matrices of this many bits: wide enough for BLAS, narrow enough to save operations.
_PASS_BITS = 6


def walsh_hadamard(values: ArrayLike | Sequence[Any]) -> Float[np.ndarray, "*batch n"]:
    """The Walsh-Hadamard coefficients E_x f(x) chi_A(x) of functions given by their 2^b values.

    Parameters
    ----------
    values : array or nested sequence (..., 2^b) of real numbers
        The values at inputs 0 to 2^b - 1: bit j of an input's number is 1 where its coordinate j is -1, the order
        of `lower.all_sign_matrices`. Whole numbers are taken as float64.

    Returns
    -------
    array (..., 2^b)
        Coefficient A, chi_A the product of the coordinates whose bits are 1 in A. Applied to coefficients and
        multiplied by 2^b it gives the values back.

    Raises
    ------
    ValueError
        If they are no array of finite real numbers, or their number is not a power of two.

    Notes
    -----
    Hadamard matrices of 64 rows are multiplied in at a time: O(64 b 2^b / 6) operations of a matrix product, which
    takes less time than the b 2^b of the textbook's butterflies. Memory: one more array of the size of `values`.

    Examples
    --------
    >>> walsh_hadamard(np.array([1.0, -1.0, -1.0, 1.0])).tolist()  # the product of two coordinates
    [0.0, 0.0, 0.0, 1.0]
    """
    from scipy.linalg import hadamard

    if isinstance(values, np.ndarray) and values.dtype.kind == "f":  # of any precision, which it keeps
        require_finite("values", values)
    else:
        values = real_array("values", values)
    if not values.ndim:
        raise ValueError(f"values is the one number {values}: a sequence of 2^b of them is needed.")
    size = values.shape[-1]
    if size.bit_count() != 1:
        raise ValueError(f"There are {size} values: a power of two is needed.")
    bits = size.bit_length() - 1
    done, result = 0, values
    while done < bits:
        taken = min(_PASS_BITS, bits - done)
        signs = hadamard(1 << taken).astype(values.dtype)
        # scaled pass by pass: powers of two lose nothing, and a float16 would not overflow
        signs /= 1 << taken
        if done == 0:
            result = result.reshape(-1, 1 << taken) @ signs
        else:
            result = signs @ result.reshape(-1, 1 << taken, 1 << done)
        done += taken
    return result.reshape(values.shape) if bits else values.copy()

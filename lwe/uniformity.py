"""How close the inner product <v, a> mod q comes to uniform: exact counts, exact distance."""

from fractions import Fraction

import numpy as np
from jaxtyping import Int, Shaped

from attention._arrays import count

__all__ = ["residue_counts", "total_variation_from_uniform", "wrap_ratio"]


def residue_counts(form: Int[np.ndarray, " n"], modulus: int) -> Shaped[np.ndarray, " modulus"]:
    """How many of the 2^n vectors a in {0, 1}^n have <v, a> = r mod q, for every residue r; exact integers.

    Raises
    ------
    ValueError
        If n q is above 2^28, which would take hours.

    Notes
    -----
    Dynamic programming over the coordinates, O(n q) additions of integers of up to n bits.

    Examples
    --------
    >>> residue_counts(np.array([1, 1, 2]), 4)
    array([2, 2, 2, 2])
    """
    q = count("modulus", modulus)
    if len(form) * q > 1 << 28:
        raise ValueError(
            f"There are {len(form)} covariates and the modulus is {q}: exact counting needs their product to be at "
            "most 2^28; take a smaller modulus."
        )
    # Python's own integers where int64 could overflow: an exact answer of 2^-n and below needs them
    counts = np.zeros(q, dtype=np.int64 if len(form) <= 62 else object)
    counts[0] = 1
    for step in form:
        counts = counts + np.roll(counts, int(step) % q)
    return counts


def total_variation_from_uniform(form: Int[np.ndarray, " n"], modulus: int) -> Fraction:
    """The total variation distance between <v, a> mod q, a uniform in {0, 1}^n, and the uniform distribution.

    Parameters
    ----------
    form : array of int (n,)
        v.
    modulus : int
        q.

    Returns
    -------
    Fraction
        The exact distance, in [0, 1); it can be far below 1e-16, or 0.

    Examples
    --------
    >>> total_variation_from_uniform(np.array([1, 2]), 4), total_variation_from_uniform(np.array([1]), 4)
    (Fraction(0, 1), Fraction(1, 2))
    """
    total = 1 << len(form)
    off = sum(abs(modulus * int(one) - total) for one in residue_counts(form, modulus))
    return Fraction(off, 2 * modulus * total)


def wrap_ratio(form: Int[np.ndarray, " n"], modulus: int) -> float:
    """Rho = |v|_2 / (2 q): the standard deviation of <v, a> in units of the modulus.

    The distance from uniform falls like e^(-2 pi^2 rho^2); below about 1/2 the sum hardly wraps around.
    """
    return float(np.linalg.norm(form.astype(np.float64))) / (2 * modulus)

"""How close the inner product <v, a> mod q comes to uniform: exact counts and the exact distance."""

from fractions import Fraction
from math import gcd

import numpy as np
from jaxtyping import Int, Shaped

from attention.validation import count
from lwe.parameters import Matrix, centred, require_form, require_matrix
from lwe.residues import LARGEST_MODULUS

__all__ = [
    "require_residues",
    "require_small",
    "residue_counts",
    "total_variation_from_uniform",
    "wrap_ratio",
]

_MOST_COUNTS = 1 << 28
_MOST_RESIDUES = 1 << 22


def residue_counts(
    form: Int[np.ndarray, " n"], modulus: int, matrix: Matrix = "binary"
) -> Shaped[np.ndarray, " modulus"]:
    """How many of the equally likely a have <v, a> = r mod q, for every residue r; exact integers.

    Parameters
    ----------
    form : array of int (n,)
        v.
    modulus : int
        q.
    matrix : {"binary", "ternary", "gadget"}
        Binary and gadget: of the 2^n vectors of bits. Ternary: of the 4^n differences of two vectors of bits.

    Raises
    ------
    ValueError
        If q is above 2^22 or n q above 2^28, the matrix is uniform, or the form holds no whole numbers.

    Notes
    -----
    Dynamic programming over the coordinates, O(n q) additions of integers of up to n (or 2n) bits: seconds for
    n = 1024 and q = 4096, minutes at the limit. Three arrays of q integers at a time: 24 bytes a residue up to n = 62
    (ternary 31), then about 90 + n/4 (ternary n/2), at most half a gigabyte.
    `lwe.distance_from_uniform` is the same in floating point, for larger sizes.

    Examples
    --------
    >>> residue_counts(np.array([1, 1, 2]), 4), residue_counts(np.array([1]), 4, "ternary")
    (array([2, 2, 2, 2]), array([2, 1, 0, 1]))
    """
    modulus = count("modulus", modulus, least=2, most=LARGEST_MODULUS)
    require_matrix(matrix)
    form, q = require_small(form, modulus, matrix)
    # Python's own integers where int64 could overflow: an exact answer of 2^-n and below needs them
    bits = len(form) * (2 if matrix == "ternary" else 1)
    counts = np.zeros(q, dtype=np.int64 if bits <= 62 else object)
    counts[0] = 1
    for step in form:
        counts = counts + np.roll(counts, int(step) % q)
        if matrix == "ternary":  # (1 + z^v)(1 + z^-v) = z^-v + 2 + z^v
            counts = counts + np.roll(counts, -int(step) % q)
    return counts


def total_variation_from_uniform(
    form: Int[np.ndarray, " n"], modulus: int, matrix: Matrix = "binary"
) -> Fraction:
    """The total variation distance between <v, a> mod q and the uniform distribution, exactly.

    Parameters
    ----------
    form : array of int (n,)
        v.
    modulus : int
        q.
    matrix : {"binary", "ternary", "gadget", "uniform"}
        What a is; see `LWRParameters`.

    Returns
    -------
    Fraction
        The exact distance, in [0, 1); it can be far below 1e-16, or 0.

    Raises
    ------
    ValueError
        As of `residue_counts`, but for the uniform matrix.

    Notes
    -----
    O(n q) additions of big integers. With a uniform matrix <v, a> is uniform on the multiples of g = gcd(v, q), so
    the distance is 1 - 1/g.

    Examples
    --------
    >>> total_variation_from_uniform(np.array([1, 2]), 4), total_variation_from_uniform(np.array([1]), 4)
    (Fraction(0, 1), Fraction(1, 2))
    >>> total_variation_from_uniform(np.array([2, 4]), 8, "uniform")
    Fraction(1, 2)
    """
    modulus = count("modulus", modulus, least=2, most=LARGEST_MODULUS)
    require_matrix(matrix)
    form = require_form(form, matrix=matrix)
    if matrix == "uniform":
        return 1 - Fraction(1, gcd(modulus, *(int(one) for one in form)))
    total = 1 << (len(form) * (2 if matrix == "ternary" else 1))
    off = sum(abs(modulus * int(one) - total) for one in residue_counts(form, modulus, matrix))
    return Fraction(off, 2 * modulus * total)


def wrap_ratio(form: Int[np.ndarray, " n"], modulus: int, matrix: Matrix = "binary") -> float:
    """Rho: the standard deviation of <v, a> in units of the modulus; |v|_2 / (2 q) with binary covariates.

    With ternary covariates it is |v|_2 / (sqrt 2 q). The distance from uniform falls like e^(-2 pi^2 rho^2); below
    about 1/2 the sum hardly wraps around.

    Raises
    ------
    ValueError
        If the matrix is uniform, where the sum has no deviation apart from the modulus, or the form holds no whole
        numbers.
    """
    modulus = count("modulus", modulus, least=2, most=LARGEST_MODULUS)
    require_matrix(matrix)
    form, q = require_form(form, matrix=matrix), modulus
    if matrix == "uniform":
        raise ValueError(
            "The matrix is uniform mod q: the inner product wraps around whatever the secret is."
        )
    share = np.sqrt(0.5) if matrix == "ternary" else 0.5
    return float(np.linalg.norm(form.astype(np.float64)) * share / q)


def require_small(
    form: Int[np.ndarray, " n"], modulus: int, matrix: Matrix
) -> tuple[Int[np.ndarray, " n"], int]:
    """The form mod q and the modulus, if there is a sum of n terms mod q that can be followed value by value.

    Raises
    ------
    ValueError
        If q is above 2^22 or n q above 2^28, the matrix is uniform, or the form holds no whole numbers.
    """
    form, q = require_form(form, matrix=matrix), require_residues(modulus)
    if matrix == "uniform":
        raise ValueError(
            "The matrix is uniform mod q: the inner product is uniform on the multiples of gcd(v, q), with nothing to "
            "count."
        )
    if len(form) * q > _MOST_COUNTS:
        raise ValueError(
            f"There are {len(form)} covariates and the modulus is {q}: their product must be at most 2^28 for the "
            "distribution of the inner product; take a smaller modulus."
        )
    return centred(form, q), q


def require_residues(modulus: int) -> int:
    """The modulus, if its residues can be listed one by one.

    Raises
    ------
    ValueError
        If it is below 2 or above 2^22.
    """
    q = count("modulus", modulus, least=2)
    if q > _MOST_RESIDUES:
        raise ValueError(
            f"modulus is {q}: what is computed residue by residue allows at most 2^22; take a smaller modulus."
        )
    return q

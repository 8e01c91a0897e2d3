"""Whole numbers mod q: their centred representatives, and their rounding to labels."""

import numpy as np
from jaxtyping import Int, Shaped
from numpy.typing import ArrayLike

__all__ = ["LARGEST_MODULUS", "centred", "is_prime", "rounded"]

LARGEST_MODULUS = 1 << 31
"""The largest modulus q: products p (T mod q) with p at most q then fit into 64-bit integers."""


def centred(values: ArrayLike, modulus: int) -> Int[np.ndarray, "..."]:
    """The representatives in (-q/2, q/2] of integers mod q; q/2 stands for itself, not for -q/2.

    Examples
    --------
    >>> centred([0, 3, 4, 5, 7], 8)
    array([ 0,  3,  4, -3, -1])
    """
    residues = np.mod(np.asarray(values, dtype=np.int64), modulus)
    return np.where(2 * residues > modulus, residues - modulus, residues)


def rounded(t: Shaped[np.ndarray, "*n"], modulus: int, levels: int) -> Int[np.ndarray, "*n"]:
    """f(T) = floor(p (T mod q) / q), the label of the inner product T."""
    return levels * np.mod(np.asarray(t, dtype=np.int64), modulus) // modulus


def is_prime(number: int) -> bool:
    """Whether a number is prime.

    Examples
    --------
    >>> is_prime(3329), is_prime(4096)
    (True, False)
    """
    from sympy import isprime

    return bool(isprime(number))

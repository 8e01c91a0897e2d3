"""Whole numbers mod q: their centred representatives, and their rounding to labels."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Int, Shaped
from numpy.typing import ArrayLike

from attention._arrays import shown
from attention.validation import count

__all__ = ["LARGEST_MODULUS", "centred", "is_prime", "rounded", "whole_array"]

LARGEST_MODULUS = 1 << 31
"""The largest modulus q: products p (T mod q) with p at most q then fit into 64-bit integers."""


def centred(values: ArrayLike, modulus: int) -> Int[np.ndarray, "..."]:
    """The representatives in (-q/2, q/2] of integers mod q; q/2 stands for itself, not for -q/2.

    Examples
    --------
    >>> centred([0, 3, 4, 5, 7], 8)
    array([ 0,  3,  4, -3, -1])
    """
    modulus = count("modulus", modulus, least=2, most=LARGEST_MODULUS)
    residues = np.mod(whole_array("values", values), modulus)
    return np.where(2 * residues > modulus, residues - modulus, residues)


def rounded(t: Shaped[np.ndarray, "*n"], modulus: int, levels: int) -> Int[np.ndarray, "*n"]:
    """f(T) = floor(p (T mod q) / q), the label of the inner product T."""
    modulus = count("modulus", modulus, least=2, most=LARGEST_MODULUS)
    levels = count("levels", levels, most=modulus)
    return levels * np.mod(whole_array("t", t), modulus) // modulus


def whole_array(name: str, values: ArrayLike | Sequence[int]) -> Int[np.ndarray, "..."]:
    """Whole numbers as an array of 64-bit integers.

    Raises
    ------
    ValueError
        If one is no whole number, or takes more than 64 bits.
    """
    try:
        array = np.asarray(values)
        if array.dtype.kind not in "iuf" and array.size:
            raise ValueError
        with np.errstate(invalid="ignore"):
            found = array.astype(np.int64)
    except (TypeError, ValueError, OverflowError):
        raise ValueError(f"{name} is {shown(values)}: whole numbers of at most 64 bits are needed.") from None
    if array.dtype.kind in "uf" and not np.array_equal(found, array):
        raise ValueError(f"{name} is {shown(values)}: whole numbers of at most 64 bits are needed.")
    return found


def is_prime(number: int) -> bool:
    """Whether a number is prime.

    Examples
    --------
    >>> is_prime(3329), is_prime(4096)
    (True, False)
    """
    from sympy import isprime

    return bool(isprime(number))

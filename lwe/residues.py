"""Whole numbers mod q: their centred representatives, inner products, and their rounding to labels."""

from typing import Annotated, Any

import numpy as np
from jaxtyping import Int
from numpy.typing import ArrayLike

from attention._arrays import shown
from attention.validation import Whole, count

__all__ = ["LARGEST_MODULUS", "Modulus", "centred", "inner_products", "is_prime", "rounded", "whole_array"]

LARGEST_MODULUS = 1 << 31
"""The largest modulus q: products p (T mod q) with p at most q then fit into 64-bit integers."""

Modulus = Annotated[int, Whole(2, LARGEST_MODULUS)]


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


def rounded(t: ArrayLike, modulus: int, levels: int) -> Int[np.ndarray, "..."]:
    """f(T) = floor(p (T mod q) / q), the label of the inner product T."""
    modulus = count("modulus", modulus, least=2, most=LARGEST_MODULUS)
    levels = count("levels", levels, most=modulus)
    return levels * np.mod(whole_array("t", t), modulus) // modulus


def inner_products(public: ArrayLike, secret: ArrayLike, modulus: int) -> Int[np.ndarray, " N"]:
    """<a, s> mod q for every row a of (N, n) and a secret (n,), without overflow for q up to 2^31."""
    rows, entries = whole_array("public", public), whole_array("secret", secret)
    if rows.ndim != 2 or entries.shape != rows.shape[1:]:
        raise ValueError(
            f"public has shape {rows.shape} and secret {entries.shape}: (N, n) and (n,) are needed."
        )
    modulus = count("modulus", modulus, least=2, most=LARGEST_MODULUS)
    rows, entries = np.mod(rows, modulus), np.mod(entries, modulus)
    if rows.shape[1] * modulus**2 < 2**62:
        return np.mod(rows @ entries, modulus)
    total = np.zeros(len(rows), dtype=np.int64)
    for column, entry in zip(rows.T, entries, strict=True):
        total = (total + column * entry) % modulus
    return total


def whole_array(name: str, values: Any) -> Int[np.ndarray, "..."]:
    """Whole numbers, perhaps in floating point, as an array of 64-bit integers; a ValueError if they are none."""
    try:
        array = np.asarray(values)
        if array.dtype.kind == "c":
            raise TypeError
        with np.errstate(invalid="ignore"):
            found = array.astype(np.int64)
    except (TypeError, ValueError, OverflowError):
        array = found = np.array(False)
    whole = array.dtype.kind == "i" or (array.dtype.kind in "uf" and np.array_equal(found, array))
    if array.size and not whole:
        raise ValueError(f"{name} is {shown(values)}: whole numbers of at most 64 bits are needed.")
    return found


def is_prime(number: int) -> bool:
    """Whether a number is prime."""
    from sympy import isprime

    return bool(isprime(number))

"""Whole numbers mod q: their centred representatives, inner products, and their rounding to labels."""

from typing import Annotated, Any

import numpy as np
from jaxtyping import Int
from numpy.typing import ArrayLike

from attention._arrays import shown
from attention.validation import Whole, count

__all__ = [
    "LARGEST_MODULUS",
    "Modulus",
    "centred",
    "divided_product",
    "inner_products",
    "is_prime",
    "rounded",
    "whole_array",
]

LARGEST_MODULUS = 1 << 52
"""The largest modulus q: twice a residue is then exact in floating point, which `divided_product` needs."""

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
    return divided_product(np.mod(whole_array("t", t), modulus), levels, modulus)[0]


def divided_product(
    one: Int[np.ndarray, "..."], other: int | Int[np.ndarray, "..."], divisor: int
) -> tuple[Int[np.ndarray, "..."], Int[np.ndarray, "..."]]:
    """The quotient and the remainder of a b by a divisor, for arrays that broadcast, without overflow.

    The factors, the divisor and the quotient are at most 2^53 in size.

    Notes
    -----
    The quotient in floating point is off by a few units. So a b minus its multiple of the divisor is a few divisors
    in size, and integers that wrap around at 2^64 give it exactly.

    Examples
    --------
    >>> quotient, remainder = divided_product(np.array([2**50 + 1]), 2**51 - 1, 2**52)
    >>> int(quotient[0]), int(remainder[0])
    (562949953421312, 1125899906842623)
    >>> divmod((2**50 + 1) * (2**51 - 1), 2**52)
    (562949953421312, 1125899906842623)
    """
    a, b = one.astype(np.int64), np.asarray(other, dtype=np.int64)
    if int(np.abs(a).max(initial=0)) * int(np.abs(b).max(initial=0)) < 1 << 62:
        return np.divmod(a * b, divisor)
    near = np.floor(a.astype(np.float64) * b.astype(np.float64) / divisor).astype(np.int64)
    with np.errstate(over="ignore"):
        more, remainder = np.divmod(a * b - near * divisor, divisor)
    return near + more, remainder


def inner_products(public: ArrayLike, secret: ArrayLike, modulus: int) -> Int[np.ndarray, " N"]:
    """<a, s> mod q for every row a of (N, n) and a secret (n,), without overflow."""
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
        total = (total + divided_product(column, int(entry), modulus)[1]) % modulus
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

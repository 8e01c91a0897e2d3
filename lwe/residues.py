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
    "congruent_product",
    "inner_products",
    "product_quotient",
    "rounded",
    "whole_array",
]

LARGEST_MODULUS = 1 << 52
"""The largest modulus q: twice a residue is then exact in floating point, which `product_quotient` needs."""

Modulus = Annotated[int, Whole(2, LARGEST_MODULUS)]


def centred(values: ArrayLike, modulus: int) -> Int[np.ndarray, "..."]:
    """The representatives in (-q/2, q/2] of integers mod q; q/2 stands for itself, not for -q/2.

    Examples
    --------
    >>> centred([0, 3, 4, 5, 7], 8)
    array([ 0,  3,  4, -3, -1])
    """
    modulus = count("modulus", modulus, least=2, most=LARGEST_MODULUS)
    residues = whole_array("values", values)
    if residues.size and -modulus < 2 * int(residues.min()) and 2 * int(residues.max()) <= modulus:
        return residues.copy()  # bits, trits and what is centred already: remainders take far longer
    residues = np.mod(residues, modulus)
    return np.where(2 * residues > modulus, residues - modulus, residues)


def rounded(t: ArrayLike, modulus: int, levels: int) -> Int[np.ndarray, "..."]:
    """f(T) = floor(p (T mod q) / q), the label of the inner product T."""
    modulus = count("modulus", modulus, least=2, most=LARGEST_MODULUS)
    levels = count("levels", levels, most=modulus)
    return product_quotient(np.mod(whole_array("t", t), modulus), levels, modulus, levels * modulus)


_Whole = Int[np.ndarray, "..."]


def product_quotient(one: _Whole, other: int | _Whole, divisor: int, largest: int) -> _Whole:
    """floor(a b / d) for arrays that broadcast, without overflow; `largest` is a bound on the size of a b.

    The factors, the divisor and the quotient are at most 2^53 in size.

    Examples
    --------
    >>> int(product_quotient(np.array([2**50 + 1]), 2**51 - 1, 2**52, 2**102)[0]) == (2**50 + 1) * (2**51 - 1) // 2**52
    True
    """
    return one * other // divisor if largest < 1 << 63 else _divided(one, other, divisor)[0]


def congruent_product(one: _Whole, other: int | _Whole, divisor: int, largest: int) -> _Whole:
    """A number of at most 2^62 in size that is a b mod d, of the arguments of `product_quotient`."""
    return one * other if largest <= 1 << 62 else _divided(one, other, divisor)[1]


def _divided(one: _Whole, other: int | _Whole, divisor: int) -> tuple[_Whole, _Whole]:
    # The quotient in floating point is off by a few units. So a b minus its multiple of the divisor is a few divisors
    # in size, and integers that wrap around at 2^64 give it exactly.
    a, b = one.astype(np.int64), np.asarray(other, dtype=np.int64)
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
        total = (total + congruent_product(column, int(entry), modulus, modulus**2)) % modulus
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

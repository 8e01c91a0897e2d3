"""Whole numbers mod q: their centred representatives, inner products, and their rounding to labels."""

from typing import Annotated, Any

import numpy as np
from jaxtyping import Int
from numpy.typing import ArrayLike

from attention._arrays import shown
from attention.validation import Whole, count

LARGEST_MODULUS = 1 << 52
"""The largest modulus q of samples: twice a residue is then exact in floating point."""

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
    """floor(a b / d) for arrays that broadcast; `largest` is a bound on the size of a b.

    Examples
    --------
    >>> int(product_quotient(np.array([2**50 + 1]), 2**51 - 1, 2**52, 2**102)[0]) == (2**50 + 1) * (2**51 - 1) // 2**52
    True
    """
    return (_exact(one, largest) * other // divisor).astype(np.int64)


def product_residue(one: _Whole, other: int | _Whole, divisor: int, largest: int) -> _Whole:
    """The residue a b mod d, of the arguments of `product_quotient`."""
    return (_exact(one, largest) * other % divisor).astype(np.int64)


def _exact(array: _Whole, largest: int) -> np.ndarray:
    """The array, in Python's integers where products may need more than 64 bits."""
    return array if largest < 1 << 63 else array.astype(object)


def inner_products(public: ArrayLike, secret: ArrayLike, modulus: int) -> Int[np.ndarray, " N"]:
    """<a, s> mod q for every row a of (N, n) and a secret (n,), without overflow."""
    rows, entries = whole_array("public", public), whole_array("secret", secret)
    if rows.ndim != 2 or entries.shape != rows.shape[1:]:
        raise ValueError(
            f"public has shape {rows.shape} and secret {entries.shape}: (N, n) and (n,) are needed."
        )
    modulus = count("modulus", modulus, least=2, most=LARGEST_MODULUS)
    rows, entries = np.mod(rows, modulus), np.mod(entries, modulus)
    products = _exact(rows, 2 * rows.shape[1] * modulus**2) @ entries
    return np.mod(products, modulus).astype(np.int64)


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

"""Packed monomials whose sum over GF(2) is a bit of <a, s> mod 2^kappa."""

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Int, UInt64

from lower.gf2 import pack_gf2, unpack_gf2
from lwe.costs.combinatorial import monomials, monomials_by_degree

__all__ = ["BinomialMonomials"]

_BLOCK_SAMPLES = 4096


@dataclass(frozen=True)
class BinomialMonomials:
    """All products of C(a_j, k_j) mod 2, binomial coefficients of the entries of a row, by their degree sum k_j.

    Each k_j is at most `largest`: 1 for entries 0 and 1, 2 for -1, 0 and 1, and q - 1 for residues mod q. The first
    product is the constant, the next n are the entries in order.

    Notes
    -----
    Bit i of T = <a, s> mod q, q a power of two and i < log2 q, is a sum over GF(2) of such products of degree at most
    2^i. Proof. T may be any integer that is <a, s> mod q: its bit i, in two's complement, is the same. By Lucas's
    theorem the bit is C(T, 2^i) mod 2. By Vandermonde's identity C(T, 2^i) is the sum over
    m_1 + ... + m_n = 2^i of the products of C(s_j a_j, m_j). As a polynomial in a_j, C(s_j a_j, m_j) has degree m_j and
    integer values at integers, so it is an integer combination of C(a_j, 0), ..., C(a_j, m_j) (Polya). That leaves
    products of degree at most 2^i.
    For entries 0 and 1, C(a, k) = 0 for k > 1: products of distinct entries remain, multilinear polynomials of degree
    at most 2^i. For -1, 0 and 1, C(a, k) and C(a, 2) agree mod 2 for k >= 2, so k_j <= 2 suffices: C(a, 1) is the
    parity of a and C(a, 2) whether it is -1. For residues, C(a, k) mod 2 is the product of the bits of a that are set
    in k (Lucas): a bit of weight 2^l counts for 2^l in the degree, and there are C(n + degree, n) products for degree
    below q.

    The degree is attained: a product of 2^i distinct entries, all k_j = 1, has the product of their s_j mod 2 as its
    coefficient.
    """

    columns: int
    degree: int
    largest: int

    @property
    def size(self) -> int:
        """How many there are, of any size: see `lwe.costs.combinatorial.monomials`."""
        return monomials(self.columns, self.degree, largest=self.largest)

    def table(self) -> Int[np.ndarray, "monomials columns"]:
        """Their exponents, one product a row."""
        table = np.zeros((self.size, self.columns), dtype=np.min_scalar_type(self.degree))
        for column, power, source, target in self.steps():
            table[target] = table[source]
            table[target, column] = power
        return table.astype(np.int64)

    def steps(self) -> Iterator[tuple[int, int, slice, slice]]:
        """How to build them: (column, k, from, to); monomials at `from` with exponent k added go to `to`."""
        sizes = monomials_by_degree(self.columns, self.degree, min(self.largest, self.degree))
        starts = [0, *itertools.accumulate(sizes)]
        filled = [1] + [0] * (len(sizes) - 1)
        for column in range(self.columns):
            before = list(filled)
            for weight in range(1, len(sizes)):
                for power in range(1, min(weight, self.largest) + 1):
                    size = before[weight - power]
                    if size:
                        source, target = starts[weight - power], starts[weight] + filled[weight]
                        yield column, power, slice(source, source + size), slice(target, target + size)
                        filled[weight] += size

    def packed(
        self, public: Int[np.ndarray, "samples columns"], *, check: Callable[[], None] = lambda: None
    ) -> UInt64[np.ndarray, "monomials words"]:
        """The values on rows of a public matrix, one AND each: sample i is bit i mod 64 of word i // 64.

        `check` is called for each column; what it raises ends the work.
        """
        samples = len(public)
        values = np.zeros((self.size, -(-samples // 64)), dtype=np.uint64)
        values[0] = pack_gf2(np.ones((1, samples), dtype=bool))[0]
        powers = np.arange(1, min(self.largest, self.degree) + 1)
        factors, own = np.empty((0, 0), dtype=np.uint64), -1
        for column, power, source, target in self.steps():
            if column != own:
                check()
                # C(a, k) is odd exactly if a has all the bits that k has, also in two's complement
                odd = (public[:, column] & powers[:, None]) == powers[:, None]
                factors, own = pack_gf2(odd), column
            np.bitwise_and(values[source], factors[power - 1], out=values[target])
        return values

    def rows(
        self,
        public: Int[np.ndarray, "samples columns"],
        bits: Bool[np.ndarray, " samples"],
        *,
        check: Callable[[], None] = lambda: None,
    ) -> UInt64[np.ndarray, "samples words"]:
        """One packed equation a sample: the values of all products, then a bit, as `lower.gf2` solves them."""
        values = self.packed(public, check=check)
        samples, size = len(public), self.size
        system = np.zeros((samples, size // 64 + 1), dtype=np.uint64)
        for start in range(0, size, _BLOCK_SAMPLES):
            check()
            part = unpack_gf2(values[start : start + _BLOCK_SAMPLES], samples)
            words = pack_gf2(part.T)
            system[:, start // 64 : start // 64 + words.shape[1]] = words
        system[:, size // 64] |= bits.astype(np.uint64) << np.uint64(size % 64)
        return system

    def evaluate(
        self, coefficients: Bool[np.ndarray, " monomials"], public: Int[np.ndarray, "samples columns"]
    ) -> Bool[np.ndarray, " samples"]:
        """The sums over GF(2) of the products with coefficient 1, one a row."""
        values = np.zeros(len(public), dtype=bool)
        for start in range(0, len(public), _BLOCK_SAMPLES):
            block = public[start : start + _BLOCK_SAMPLES]
            total = np.bitwise_xor.reduce(self.packed(block)[coefficients], axis=0)
            values[start : start + len(block)] = unpack_gf2(total[None], len(block))[0]
        return values

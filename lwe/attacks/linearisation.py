"""Linearisation over GF(2): for powers of two q and p, a bit of the label is a polynomial of degree q/p."""

import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from jaxtyping import Bool, Int, UInt64

from attention.validation import PositiveInt, checked
from lower.gf2 import pack_gf2, solve_gf2, solve_packed_gf2, unpack_gf2
from lwe.attacks.attack import Attack, AttackEndedError, AttackOutcome, Attempt, Finding
from lwe.attacks.evidence import share_right
from lwe.costs import combinatorial
from lwe.costs.cost import size_in_words
from lwe.parameters import LWEParameters
from lwe.samples import LWRSamples, inner_products

_BLOCK_SAMPLES = 4096
_QUERIES = 256
_QUERY_BLOCK = 32
_SURPLUS = 0.02  # the share of equations beyond the unknowns
_CANDIDATES = 2048  # candidates followed at a time in the search for the secret


@dataclass(frozen=True)
@checked
class LinearisationAttack(Attack):
    """Solve for the coefficients of the lowest bit of the label, a polynomial over GF(2), and read the secret off it.

    Notes
    -----
    It applies if q and p are powers of two and there is no noise. The lowest bit of the label is bit i = log2(q/p) of T
    = <a, s> mod q, and `BinomialMonomials` proves that it is a polynomial of degree at most 2^i = q/p in the bits of a.
    D is the number of its monomials. For a binary matrix these are all products of at most q/p entries, sum_{j <= q/p}
    C(n, j). For the gadget's and a uniform matrix they are products of bits of a in which the bit of weight 2^l counts
    for 2^l, C(n + q/p, n). For a ternary matrix each entry has two bits, and one of them counts twice. Slightly more
    than D equations are solved in O(D^3 / 1536) word operations and D^2 / 4 bytes; for fixed n/(q/p) that is
    exponential in q/p. Labels that are not rounded (p = q) are of degree 1: Gaussian elimination.

    The polynomial can be evaluated on any row, which gives the secret mod 2q/p. The search goes entry by entry and
    keeps all values that agree with the polynomial on 256 random rows of the entries so far. With a uniform matrix one
    value remains at once: bit i of 2^l s_j is bit i - l of s_j. With a binary matrix a few prefixes remain; this is
    observed, not proved.
    Labels of p > 2 values then give the higher bits of the secret by one linear system over GF(2) each: bit i + l of T
    is that of <a, s mod 2^(i+l)>, known by then, plus the parity of <a, floor(s / 2^(i+l))>.
    If no secret is found, the polynomial itself predicts labels for p = 2, and their lowest bit for p > 2.

    Examples
    --------
    >>> from lwe import LWEParameters, make_samples
    >>> parameters = LWEParameters(n=32, q=4, p=2)
    >>> samples, secret = make_samples(parameters, 800, rng=0)
    >>> result = LinearisationAttack()(samples, parameters)
    >>> result.accuracy, result.details["unknowns"], bool((result.secret == secret).all())
    (1.0, 529, True)
    """

    #: The degree of the polynomial, at most `label_degree`, which always suffices and is the default. At a lower
    #: degree the equations contradict each other unless few entries of the secret are odd.
    degree: PositiveInt | None = None

    name: ClassVar[str] = "linearisation"

    def run(self, attempt: Attempt, rng: np.random.Generator) -> Iterator[Finding]:
        """Solve, and read the secret off; random rows are where the polynomial is evaluated."""
        parameters, training = attempt.parameters, attempt.training
        enough = label_degree(parameters)
        down = training.rounding == "down" or parameters.p == parameters.q
        if enough is None or parameters.noisy or not down:
            raise AttackEndedError(
                AttackOutcome.NOT_APPLICABLE,
                "It needs powers of two q and p and labels without noise that are rounded down; these are "
                f"{parameters}{'' if down else ', rounded to the nearest'}.",
            )
        monomials = label_monomials(parameters, min(self.degree or enough, enough))
        unknowns = monomials.size
        attempt.details.update(degree=monomials.degree, unknowns=size_in_words(unknowns))
        words = f"{size_in_words(unknowns)} unknowns, the monomials of degree at most {monomials.degree},"
        if len(training) < unknowns:
            raise AttackEndedError(
                AttackOutcome.TOO_FEW_SAMPLES,
                f"{words} need as many equations and a few more; there are {len(training)} to learn from.",
            )
        equations = unknowns + max(64, math.ceil(_SURPLUS * unknowns))
        while True:
            equations = min(equations, len(training))
            # the products, the equations, and some of both at a time as bytes
            attempt.require_memory(
                16 * unknowns * -(-equations // 64) + 3 * 4096 * equations,
                f"{equations} equations in {words}",
            )
            part = training.take(equations)
            system = monomials.rows(part.public, (part.labels & 1).astype(bool), check=attempt.check)
            solved = solve_packed_gf2(system, unknowns, on_panel=attempt.check)
            if solved.rank == unknowns or not solved.consistent or equations == len(training):
                break
            equations *= 2  # repeated rows add no information, and few bits allow only few rows
        attempt.details.update(equations=equations, rank=solved.rank, consistent=solved.consistent)
        words = f"{equations} equations over GF(2) in {words} of rank {solved.rank}"
        secret = self._secret(monomials, solved.solution, attempt, rng) if solved.consistent else None
        if secret is not None:
            yield Finding(f"{words} gave the polynomial, and that the secret.", secret)
            return
        why = "gave the lowest bit's polynomial; no secret was read off it."
        if not solved.consistent:
            why = "contradict one another: the label is no polynomial of that degree."
        yield Finding(
            f"{words} {why}",
            predict=lambda public: monomials.evaluate(solved.solution, public).astype(np.int64),
        )
        if solved.consistent and solved.rank < unknowns:
            raise AttackEndedError(AttackOutcome.TOO_FEW_SAMPLES, "They leave it open: give more samples.")

    def _secret(
        self,
        monomials: "BinomialMonomials",
        polynomial: np.ndarray,
        attempt: Attempt,
        generator: np.random.Generator,
    ) -> Int[np.ndarray, " n"] | None:
        parameters, training = attempt.parameters, attempt.samples
        low = _low_parts(monomials, polynomial, attempt, generator)
        attempt.details["low_parts"] = len(low)
        for part in low:
            attempt.check()
            secret = _lifted(part, parameters, training)
            if secret is not None and share_right(secret, training, parameters) == 1:
                return secret
        return None


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
        return combinatorial.monomials(self.columns, self.degree, largest=self.largest)

    def table(self) -> Int[np.ndarray, "monomials columns"]:
        """Their exponents, one product a row."""
        table = np.zeros((self.size, self.columns), dtype=np.min_scalar_type(self.degree))
        for column, power, source, target in self.steps():
            table[target] = table[source]
            table[target, column] = power
        return table.astype(np.int64)

    def steps(self) -> Iterator[tuple[int, int, slice, slice]]:
        """How to build them: (column, k, from, to); monomials at `from` with exponent k added go to `to`."""
        sizes = combinatorial.monomials_by_degree(self.columns, self.degree, min(self.largest, self.degree))
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


def label_degree(parameters: LWEParameters) -> int | None:
    """The degree q/p of the lowest bit of the label over GF(2); None unless q and p are powers of two."""
    q, p = parameters.q, parameters.p
    return None if q & (q - 1) or p & (p - 1) else q // p


def label_monomials(parameters: LWEParameters, degree: int) -> BinomialMonomials:
    """The monomials up to a degree in the bits of what the parameters' public matrix holds."""
    largest = {"binary": 1, "ternary": 2}.get(parameters.matrix, parameters.q - 1)
    return BinomialMonomials(parameters.n, degree, min(largest, parameters.q - 1))


def _low_parts(
    monomials: BinomialMonomials,
    polynomial: Bool[np.ndarray, " monomials"],
    attempt: Attempt,
    generator: np.random.Generator,
) -> Int[np.ndarray, "candidates n"]:
    """Vectors s mod 2q/p whose bit log2(q/p) of <a, s> is the polynomial's value on random rows a.

    None if the remaining prefixes with all values of the next entry do not fit into memory.
    """
    parameters = attempt.parameters
    n, step = parameters.n, parameters.q // parameters.p
    if step == 1:
        return polynomial[None, 1 : n + 1].astype(np.int64)
    # odd entries reveal the most about the others: they occur in the products of the most factors
    involved = monomials.table()[polynomial]
    highest = involved[involved.sum(axis=1) == step]
    order = np.argsort(-np.count_nonzero(highest, axis=0), kind="stable")
    low, high = {"binary": (0, 2), "ternary": (-1, 2)}.get(parameters.matrix, (0, parameters.q))
    rows = generator.integers(low, high, size=(n, _QUERIES, n))
    for place in range(n):  # rows of stage `place` have the entries up to it in that order
        rows[place][:, order[place + 1 :]] = 0
    values = monomials.evaluate(polynomial, rows.reshape(-1, n)).reshape(n, _QUERIES)
    known = np.zeros((1, n), dtype=np.int64)
    choices = range(2 * step)
    for place, column in enumerate(order):
        attempt.check()
        # each candidate with each value: two numbers, and four arrays of a number for each row of a block
        if len(known) * len(choices) * 8 * (4 + 4 * _QUERY_BLOCK) > attempt.budget.memory:
            return known[:0]
        pairs = np.stack(
            np.meshgrid(np.arange(len(known)), np.array(choices), indexing="ij"), axis=-1
        ).reshape(-1, 2)
        for start in range(0, _QUERIES, _QUERY_BLOCK):
            block = rows[place, start : start + _QUERY_BLOCK]
            totals = (block @ known.T)[:, pairs[:, 0]] + np.multiply.outer(block[:, column], pairs[:, 1])
            wanted = values[place, start : start + _QUERY_BLOCK, None]
            pairs = pairs[np.all(((totals & step) != 0) == wanted, axis=0)]
        known = known[pairs[:_CANDIDATES, 0]]
        known[:, column] = pairs[:_CANDIDATES, 1]
    return known


def _lifted(
    low: Int[np.ndarray, " n"], parameters: LWEParameters, training: LWRSamples
) -> Int[np.ndarray, " n"] | None:
    """The secret mod q of which `low` is the part mod 2q/p; None if the higher bits of the labels contradict it."""
    step, secret = parameters.q // parameters.p, low.copy()
    part = training.take(min(len(training), parameters.n + 64))
    for bit in range(1, parameters.p.bit_length() - 1):
        weight = step << bit
        carried = inner_products(part.public, secret, parameters.q) & weight != 0
        parity = (part.labels >> bit & 1).astype(bool) ^ carried
        solved = solve_gf2(part.public & 1, parity)
        if not solved.consistent:
            return None
        secret += weight * solved.solution
    return secret

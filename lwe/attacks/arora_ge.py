"""Arora and Ge's linearisation: if <a, s> has few possible values, it satisfies a polynomial equation in the secret."""

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from jaxtyping import Int

from lwe.attacks.attack import Attack, Attempt, Finding
from lwe.attacks.evidence import label_residues
from lwe.attacks.monomials import Exponents
from lwe.attacks.outcome import AttackEndedError, AttackOutcome
from lwe.attacks.prime_field import LARGEST_PRIME, PrimeFieldSolution, solve_prime_field
from lwe.costs.cost import size_in_words
from lwe.distributions import BINARY, TERNARY, FixedWeight
from lwe.parameters import LWEParameters, centred
from lwe.residues import is_prime
from lwe.samples import LWRSamples, Rounding

__all__ = ["AroraGeAttack"]

_BLOCK_SAMPLES = 512
_MOST_CANDIDATES = 1 << 12
_LARGEST_DEGREE = 64
_SURPLUS = 0.05  # the share of equations beyond the unknowns
_TRIES = 4  # sets of equations, in case a set contains an error that is not allowed for


@dataclass(frozen=True)
class AroraGeAttack(Attack):
    """Linearise, over GF(q), the product of <a, s> - t over all t that a label allows; solve for the monomials of s.

    Notes
    -----
    For prime q up to 2^24, any public matrix. A label b allows the t with floor(p ((t + e) mod q)/q) = b for an error e
    in a set E. E is the smallest set of most likely errors that contains the errors of all needed equations with
    probability at least 1/2. For learning with errors the allowed t are b - e, for learning with rounding an interval
    of about q/p residues. The product over them vanishes. Its degree delta is the largest number of values that a label
    allows. Its monomials in s except the constant are the unknowns: D = C(n + delta, delta) - 1; fewer for secrets with
    entries 0 and 1 (s^2 = s) or -1, 0 and 1 (s^3 = s).
    O(D^3) operations and 8 D^2 bytes, and as many samples as unknowns. Monomials of degree 1 are eliminated last. So
    the secret is found even if products of its entries are not determined, which can happen with a binary matrix and
    few levels. If at most 4096 secrets remain, the samples decide. Up to four sets of equations are tried.

    References
    ----------
    Arora and Ge 2011, who prove for errors and large q that about D random equations determine the monomials; Albrecht,
    Cid, Faugere and Perret 2014 for small secrets. Intervals of rounding in place of errors: derived here.

    Examples
    --------
    >>> from lwe import CentredBinomial, LWEParameters, make_samples
    >>> parameters = LWEParameters(8, q=97, p=97, matrix="uniform", Xe=CentredBinomial(1))
    >>> samples, secret = make_samples(parameters, 300, rng=0)
    >>> result = AroraGeAttack()(samples, parameters, rng=1)
    >>> result.details["unknowns"], bool((result.secret == secret).all())
    (164, True)
    """

    name: ClassVar[str] = "arora-ge"
    title: ClassVar[str] = "Arora-Ge"

    def run(self, attempt: Attempt, rng: np.random.Generator) -> Iterator[Finding]:
        """Linearise, solve, check; later tries choose other equations at random."""
        parameters, samples = attempt.parameters, attempt.samples
        q = parameters.q
        if q > LARGEST_PRIME or not is_prime(q):
            raise AttackEndedError(
                AttackOutcome.NOT_APPLICABLE,
                f"It needs a prime q of at most 2^24, for equations over GF(q); q is {q}.",
            )
        plan = _plan(parameters)
        if plan is None:
            raise AttackEndedError(
                AttackOutcome.NOT_APPLICABLE,
                f"A label of {parameters} allows too many of the {q} residues: the polynomial's degree would exceed "
                f"{min(q - 1, _LARGEST_DEGREE)}.",
            )
        unknowns = plan.reduced.size - 1
        attempt.details.update(
            degree=plan.degree,
            unknowns=size_in_words(unknowns),
            errors=[int(error) for error in centred(plan.errors, q)],
        )
        words = f"{size_in_words(unknowns)} unknowns, the monomials of degree at most {plan.degree} in the secret,"
        if len(samples) < unknowns:
            raise AttackEndedError(
                AttackOutcome.TOO_FEW_SAMPLES,
                f"{words} need as many equations and a few more; there are {len(samples)} to learn from.",
            )
        equations = min(len(samples), plan.equations)
        attempt.require_memory(
            8 * equations * (unknowns + 1)
            + 8 * plan.monomials.size * (3 * _BLOCK_SAMPLES + 2 * parameters.n),
            f"{equations} equations in {words}",
        )
        for turn in range(_TRIES):
            rows = np.arange(equations) if turn == 0 else rng.permutation(len(samples))[:equations]
            solved = _solve(plan, samples.at(rows), attempt)
            free = len(solved.kernel)
            attempt.details.update(equations=equations, rank=solved.rank, free=free, tries=turn + 1)
            if solved.consistent or equations == len(samples):
                break
        words = f"{equations} equations over GF({q}) in {words} of rank {solved.rank}"
        if not solved.consistent:
            raise AttackEndedError(
                AttackOutcome.NOTHING,
                f"{words} contradict one another: an error is outside the {len(plan.errors)} allowed for.",
            )
        if q**free > _MOST_CANDIDATES:
            words = f"{words} leave {q}^{free} secrets, more than can be tried"
            if solved.rank == equations:
                raise AttackEndedError(AttackOutcome.TOO_FEW_SAMPLES, f"{words}: give more samples.")
            raise AttackEndedError(
                AttackOutcome.NOTHING, f"{words}; further equations of this kind follow from these."
            )
        for steps in itertools.product(range(q), repeat=free):
            attempt.check()
            secret = solved.solution + np.array(steps, dtype=np.int64) @ solved.kernel
            yield Finding(f"{words} leave {q**free} secrets.", secret)


@dataclass(frozen=True)
class _Plan:
    """Which equations: the errors they allow for, their monomials, and how many of them."""

    parameters: LWEParameters
    errors: Int[np.ndarray, " errors"]
    monomials: Exponents
    reduced: Exponents
    equations: int

    @property
    def degree(self) -> int:
        return self.monomials.degree


def _plan(parameters: LWEParameters) -> _Plan | None:
    q, p, n = parameters.q, parameters.p, parameters.n
    longest = -(-q // p)
    if longest > _LARGEST_DEGREE:
        return None
    possible, weights = parameters.error_support()
    possible = np.mod(possible, q)
    likely = possible[np.argsort(-weights, kind="stable")]
    # s^v = s for entries of v values that hold 0, 1 and perhaps -1, and for all q residues
    small = isinstance(parameters.Xs, FixedWeight) or parameters.Xs in (BINARY, TERNARY)
    values = (parameters.Xs.statistics(parameters.n, q).nonzero or 0) + 1 if small else q
    for size in range(1, len(likely) + 1):
        degree = len(_offsets(longest, likely[:size], q))
        if degree >= q or degree > _LARGEST_DEGREE:
            return None
        reduced = Exponents(n, degree, max(1, min(q, values, degree + 1) - 1))
        equations = reduced.size + max(16, math.ceil(_SURPLUS * reduced.size))
        chance = min(1.0, float(weights[np.isin(possible, likely[:size])].sum()))
        if size == len(likely) or equations * math.log(chance) >= math.log(0.5):
            return _Plan(parameters, likely[:size], Exponents(n, degree, degree), reduced, equations)
    return None


def _offsets(length: int, errors: np.ndarray, modulus: int) -> Int[np.ndarray, " offsets"]:
    """The residues that a label allows, relative to the first residue of its interval of `length`."""
    return np.unique((np.arange(length)[:, None] - errors) % modulus)


def _polynomials(labels: np.ndarray, plan: _Plan, rounding: Rounding) -> Int[np.ndarray, "labels degrees"]:
    """The coefficients, constant first, of the product of X - t over the t that each label allows."""
    q = plan.parameters.q
    first, end = label_residues(labels, plan.parameters, rounding)
    coefficients = np.zeros((len(labels), plan.degree + 1), dtype=np.int64)
    coefficients[:, 0] = 1
    for length in np.unique(end - first):
        own = np.flatnonzero(end - first == length)
        for offset in _offsets(int(length), plan.errors, q):
            roots = (first[own] + offset) % q
            product = -coefficients[own] * roots[:, None]
            product[:, 1:] += coefficients[own, :-1]
            coefficients[own] = product % q
    return coefficients


def _solve(plan: _Plan, samples: LWRSamples, attempt: Attempt) -> PrimeFieldSolution:
    parameters, size = plan.parameters, plan.reduced.size
    n, q = parameters.n, parameters.q
    exponents, largest = plan.monomials.table(), plan.reduced.largest
    degrees = exponents.sum(axis=1)
    if largest < plan.degree:
        exponents = np.where(exponents > largest, (exponents - 1) % largest + 1, exponents)
    place = {row.tobytes(): index for index, row in enumerate(plan.reduced.table())}
    # the constant comes last, as the right side; before it come the entries of the secret in reverse order
    targets = np.array([size - 1 - place[row.tobytes()] for row in exponents])
    order = np.argsort(targets, kind="stable")
    starts = np.searchsorted(targets[order], np.arange(size))
    multinomials = np.ones(len(exponents), dtype=np.int64)
    for _, power, source, target in plan.monomials.steps():
        after = degrees[target.start]
        multinomials[target] = multinomials[source] * (math.comb(int(after), power) % q) % q
    labels, of_label = np.unique(samples.labels, return_inverse=True)
    coefficients = _polynomials(labels, plan, samples.rounding)
    system = np.empty((len(samples), size))
    for start in range(0, len(samples), _BLOCK_SAMPLES):
        attempt.check()
        block = slice(start, min(start + _BLOCK_SAMPLES, len(samples)))
        public = np.mod(samples.public[block], q)
        powers = np.ones((plan.degree + 1, *public.T.shape), dtype=np.int64)
        for power in range(1, plan.degree + 1):
            powers[power] = powers[power - 1] * public.T % q
        products = np.ones((len(exponents), public.shape[0]), dtype=np.int64)
        for column, power, source, target in plan.monomials.steps():
            np.multiply(products[source], powers[power, column], out=products[target])
            products[target] %= q
        products *= multinomials[:, None]
        products %= q
        products *= coefficients[of_label[block]].T[degrees]
        products %= q
        system[block] = np.add.reduceat(products[order], starts, axis=0).T
    np.negative(system[:, -1], out=system[:, -1])
    solved = solve_prime_field(system, q, n, check=attempt.check)
    return PrimeFieldSolution(solved.solution[::-1], solved.kernel[:, ::-1], solved.rank, solved.consistent)

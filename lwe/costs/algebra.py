"""Costs of algebraic attacks: monomials as unknowns over GF(2), and Groebner bases."""

import math
from collections.abc import Iterator
from operator import mul

from lwe.costs.cost import MOST, Cost, log2_comb
from lwe.costs.deviations import normal_form
from lwe.distributions import DiscreteGaussian
from lwe.parameters import LWEParameters

__all__ = ["groebner_cost", "linearisation_cost", "monomials", "monomials_by_degree"]

_DENSE = 3.0
"""The exponent of dense elimination as implemented here."""

_MISSES = 5  # stop after this many cuts of Gaussian errors without improvement: the cost is convex in the cut

_MOST_EQUATIONS = 500.0  # log2: more equations do not lower a degree of regularity that is computed

_WORD = 64
"""Bits that one operation on packed words processes."""


def monomials(variables: int, degree: int, *, largest: int | None = 1) -> int:
    """The number of monomials of at most that degree, if no variable has an exponent above `largest`."""
    if largest is None or largest >= degree:
        return math.comb(variables + degree, variables)
    return sum(monomials_by_degree(variables, degree, largest))


def monomials_by_degree(variables: int, degree: int, largest: int) -> list[int]:
    """The number of monomials of each degree, from 0 to the given one or the last that has any.

    These are the coefficients of Q = (1 + X + ... + X^L)^n, where L is the largest exponent. The identity
    Q' (1 - X) (1 - X^(L+1)) = n Q (1 - (L+1) X^L + L X^(L+1)) gives each from three earlier ones.
    """
    n, most = variables, largest
    found = [1]
    for one in range(1, min(degree, n * most) + 1):
        total = (n + one - 1) * found[one - 1]
        if one > most:
            total += (one - most - 1 - n * (most + 1)) * found[one - most - 1]
        if one > most + 1:
            total += (n * most - one + most + 2) * found[one - most - 2]
        found.append(total // one)
    return found


def linearisation_cost(parameters: LWEParameters) -> Cost | None:
    """The cost of elimination over GF(2) of all monomials up to degree q/p in the bits.

    None unless q and p are powers of 2. None also with noise, or with fewer samples than the D monomials. The cost is
    D^3/64 operations on words and D^2/8 bytes. `lwe.attacks.linearisation` explains why the degree is q/p, and what a
    monomial is for each matrix.

    Examples
    --------
    >>> print(linearisation_cost(LWEParameters(n=64, q=4, p=2)))
    linearisation: about 2^27.1 (LWR n=64 q=4 p=2 (d=65); mem 2^16.0, m 2081, degree 2, monomials 2081)
    """
    q, p = parameters.q, parameters.p
    if q & (q - 1) or p & (p - 1) or parameters.noisy:
        return None
    n, degree, largest = parameters.n, q // p, {"binary": 1, "ternary": 2}.get(parameters.matrix)
    least = n + degree if largest is None else n  # of which C(least, degree) are some of the monomials
    if _DENSE * log2_comb(least, min(degree, n if largest is None else n // 2)) > MOST:
        return None
    found = monomials(n, degree, largest=largest)
    log2_found = math.log2(found)
    if _DENSE * log2_found > MOST or (parameters.m is not None and parameters.m < found):
        return None
    return Cost(
        "linearisation",
        _DENSE * log2_found - math.log2(_WORD),
        parameters,
        "operation on 64-bit words",
        "dense elimination over GF(2)",
        log2_mem=2 * log2_found - math.log2(_WORD),
        log2_m=log2_found,
        details={"degree": degree, "monomials": found},
    )


def _possible_errors(parameters: LWEParameters) -> int | None:
    """How many values an error may take, rounding included; None if they are all residues or too many to list."""
    if parameters.Xe.is_uniform(parameters.q) or not parameters.Xe.listed:
        return None
    return -(-parameters.q // parameters.p) + len(parameters.error_support()[0]) - 1


def groebner_cost(parameters: LWEParameters) -> Cost | None:
    """The cost of solving Arora and Ge's equations by a Groebner basis, with equations for a small secret.

    None unless the matrix is uniform and `lengths_tell`, or if the degree of regularity is 2n or more, or the cost
    above 2^1000.

    There are m equations of degree t, the number of values of an error. For secrets of s values there are n more, of
    degree s. Let r be the degree of regularity. If the equations have no relations, r is the degree of the first
    coefficient below 0 of (1 - z^t)^m (1 - z^s)^n / (1 - z)^n. The cost is C(n + r, r)^2. Gaussian errors are cut at T,
    and m is such that all m errors are within T with probability .99. The T of least cost is taken. The model is that
    of the lattice-estimator's `LWE.arora_gb`, after Albrecht, Cid, Faugere and Perret 2014.

    Examples
    --------
    >>> from lwe.distributions import CentredBinomial, DiscreteGaussian
    >>> size = {"n": 64, "q": 7681, "m": 2**50, "matrix": "uniform"}
    >>> groebner_cost(LWEParameters(**size, Xs=DiscreteGaussian(3.0), Xe=CentredBinomial(8))).rop
    '2^122.3'
    """
    form = normal_form(parameters)
    if form is None:
        return None
    n, known = form.n, form.samples
    secrets: list[tuple[int, int]] = []
    if form.log2_secret <= form.log2_error and form.log2_secret < math.log2(n):
        values = 2 * math.ceil(3 * 2.0**form.log2_secret) + 1 if form.nonzero is None else form.nonzero + 1
        secrets = [(int(values), n)]
    if isinstance(parameters.Xe, DiscreteGaussian):
        tries = _cut_gaussian(2.0**form.log2_error, known, n) if form.log2_error < math.log2(n) else iter(())
    else:
        errors = _possible_errors(parameters)
        if errors is None:
            return None
        # where there is no limit, so many that linearisation has about an equation for each monomial
        log2_most = min(errors * math.log2(n), _MOST_EQUATIONS)
        tries = iter([(errors, min(known, 2.0**log2_most))])
    bound = next(r for r in range(1, 2 * n + 1) if r == 2 * n or 2 * log2_comb(n + r, r) > MOST)
    best: tuple[int, int, float] | None = None
    misses = 0
    for values, equations in tries:
        if math.isinf(equations):
            continue
        degree = _regularity(n, [(values, int(equations)), *secrets], below=best[0] if best else bound)
        if degree is not None:
            best, misses = (degree, values, equations), 0
        elif best is not None:
            misses += 1
        if misses >= _MISSES:
            break
    if best is None:
        return None
    degree, values, equations = best
    return Cost(
        "arora-gb",
        2 * log2_comb(n + degree, degree),
        parameters,
        "multiplication mod q",
        "equations without relations",
        log2_mem=log2_comb(n + degree, degree),
        log2_m=math.log2(equations),
        details={"t": values, "dreg": degree},
    )


def _cut_gaussian(error: float, known: float, n: int) -> Iterator[tuple[int, float]]:
    """For each cut T: the values of an error within T, and the number of errors all within T with probability .99."""
    for cut in range(math.ceil(error), n):
        beyond = 2 / (cut / error * math.sqrt(2 * math.pi)) * math.exp(-((cut / error) ** 2) / 2)
        if beyond >= 1:
            continue
        equations = math.log(0.99) / math.log1p(-beyond) if beyond > 0 else math.inf
        if equations > known:
            return
        yield 2 * cut + 1, equations


def _regularity(n: int, equations: list[tuple[int, int]], *, below: int) -> int | None:
    """The first degree below `below` at which the series of the equations (degree, number) has a coefficient below 0.

    The logarithmic derivative gives k f_k = sum_j g_j f_(k-j). Here g_j is n minus the sum of d m over the equations
    whose degree d divides j, m of each.
    """
    series = [1]
    slopes = [n - sum(d * m for d, m in equations if j % d == 0) for j in range(below)]
    for k in range(1, below):
        total = sum(map(mul, slopes[1 : k + 1], reversed(series)))
        series.append(total // k)
        if total < 0:
            return k
    return None

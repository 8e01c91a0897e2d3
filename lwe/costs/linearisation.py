"""Linearisation's cost: monomials as unknowns, over GF(2) for powers of two, over GF(q) for small errors."""

import math

from attention.validation import count
from lwe.costs.cost import Cost, require_number, size_in_words
from lwe.parameters import LWRParameters, require_parameters
from lwe.residues import is_prime

__all__ = ["arora_ge_cost", "linearisation_cost", "monomials", "monomials_by_degree"]

_DENSE = 3.0
"""Exponent of dense elimination, as it is done here."""

_WORD = 64
"""Bits that one operation on packed words treats."""


def monomials(variables: int, degree: int, *, largest: int | None = 1) -> int:
    """How many monomials of at most that degree there are, if no variable has an exponent above `largest`.

    Parameters
    ----------
    variables, degree : int
        Their numbers, at least 1 and 0.
    largest : int, optional
        1 for multilinear monomials; None for no limit.

    Notes
    -----
    C(n + degree, n) where nothing limits the exponents; otherwise the sum of at most n L numbers. So a degree of 2^30
    takes no longer than one of n L.

    Examples
    --------
    >>> monomials(32, 2), monomials(20, 4), monomials(3, 2, largest=None)
    (529, 6196, 10)
    """
    variables = count("variables", variables, least=1)
    degree = count("degree", degree, least=0)
    if largest is not None:
        largest = count("largest", largest, least=1)
    if largest is None or largest >= degree:
        return math.comb(variables + degree, variables)
    return sum(monomials_by_degree(variables, degree, largest))


def monomials_by_degree(variables: int, degree: int, largest: int) -> list[int]:
    """How many monomials there are of each degree, from 0 to the given one or the last that has any.

    Notes
    -----
    The coefficients of Q = (1 + X + ... + X^L)^n, L the largest exponent. Comparing coefficients in
    Q' (1 - X) (1 - X^(L+1)) = n Q (1 - (L+1) X^L + L X^(L+1)) gives each from three earlier ones. Derived here.

    Examples
    --------
    >>> monomials_by_degree(3, 2, 1), monomials_by_degree(3, 9, 2)
    ([1, 3, 3], [1, 3, 6, 7, 6, 3, 1])
    """
    variables = count("variables", variables, least=1)
    degree = count("degree", degree, least=0)
    largest = count("largest", largest, least=1)
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


def linearisation_cost(parameters: LWRParameters, samples: int | None = None) -> Cost | None:
    """Elimination over GF(2) of all monomials up to degree q/p in the bits; None unless q and p are powers of 2.

    Also None if there are fewer `samples` than monomials; without limit if they are left out.

    Raises
    ------
    ValueError
        If `samples` is below 1.

    Notes
    -----
    The lowest bit of the label is bit log2(q/p) of <v, a>, a polynomial of degree q/p over GF(2) in the bits a (Lucas):
    D monomials, about D samples, D^3/64 operations on words, D^2/8 bytes. In the bits of residues, gadget or uniform,
    bit l counts 2^l towards the degree, so D = C(n' + q/p, n'). A ternary entry has two bits, whether it is odd and
    whether it is -1, which count 1 and 2 and of which a product has one: exponents up to 2. Labels without noise.

    References
    ----------
    Derived here; the degree of a bit of a sum is Lucas's theorem.

    Examples
    --------
    >>> print(linearisation_cost(LWRParameters(secret_dim=64, modulus=4, levels=2)))
    linearisation over GF(2): about 2^27.1 (LWR n=64 q=4 p=2 (d=65); degree 2, monomials 2081, samples 2081)
    """
    require_parameters(parameters)
    if samples is not None:
        samples = count("samples", samples, least=0)
    samples = require_number(samples)
    q, p = parameters.modulus, parameters.levels
    if q & (q - 1) or p & (p - 1) or parameters.noisy:
        return None
    degree, largest = q // p, {"binary": 1, "ternary": 2}.get(parameters.matrix)
    found = monomials(parameters.secret_dim, degree, largest=largest)
    if samples is not None and samples < found:
        return None
    return Cost(
        "linearisation over GF(2)",
        _DENSE * math.log2(found) - math.log2(_WORD),
        parameters,
        "one operation on 64-bit words",
        "dense elimination; all monomials independent",
        {"degree": degree, "monomials": size_in_words(found), "samples": size_in_words(found)},
    )


def arora_ge_cost(parameters: LWRParameters, samples: int | None = None) -> Cost | None:
    """Elimination over GF(q) of all monomials in the secret; None unless q is prime and has room for the errors.

    Also None if there are fewer `samples` than monomials; without limit if they are left out.

    Raises
    ------
    ValueError
        If `samples` is below 1.

    Notes
    -----
    With t possible errors, prod_e (b' - <a, s> - e) = 0 mod q has degree t in the secret: D = C(n + t, t) monomials,
    about D samples, D^3 operations. Where the secret's entries take fewer values than t, powers are reduced: not
    modelled.

    References
    ----------
    Arora and Ge 2011, "New algorithms for learning in presence of errors".

    Examples
    --------
    >>> print(arora_ge_cost(LWRParameters(secret_dim=16, modulus=251, levels=126, matrix="uniform")))
    Arora-Ge linearisation: about 2^21.8 (LWR n=16 q=251 p=126 uniform; degree 2, monomials 153, samples 153)
    """
    require_parameters(parameters)
    if samples is not None:
        samples = count("samples", samples, least=0)
    samples = require_number(samples)
    q, p = parameters.modulus, parameters.levels
    if not is_prime(q) or parameters.noise.is_uniform(q):
        return None
    # the law counts its values where they are too many to list
    errors = -(-q // p) + round(2 ** parameters.noise.secrets(1, q)) - 1
    if errors >= q:
        return None
    found = monomials(parameters.secret_dim, errors, largest=None)
    if samples is not None and samples < found:
        return None
    return Cost(
        "Arora-Ge linearisation",
        _DENSE * math.log2(found),
        parameters,
        "one multiplication mod q",
        "dense elimination; all monomials independent",
        {"degree": errors, "monomials": size_in_words(found), "samples": size_in_words(found)},
    )

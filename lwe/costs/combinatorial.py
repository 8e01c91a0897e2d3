"""Costs of the attacks without lattices: BKW, meeting in the middle, and linearisation over GF(2)."""

import math

import numpy as np
from jaxtyping import Float

from lwe.costs.cost import MOST, Cost, log2_comb
from lwe.costs.deviations import deviations, error_character
from lwe.parameters import LWEParameters

_MOST_STEPS = 64
_LONGEST_LIST = 1 << 12

_DENSE = 3.0
"""The exponent of dense elimination as implemented here."""

_WORD = 64
"""Bits that one operation on packed words processes."""


def bkw_cost(parameters: LWEParameters) -> Cost | None:
    """The cost for the cheapest number of steps; None if it is above 2^1000, or errors are uniform mod q.

    Notes
    -----
    Each of t steps subtracts samples that agree in a block of entries and squares the mean. Blocks are chosen so that
    two samples agree in each with the same chance 2^-B, and a step costs 2^B n operations (`agreement_chances`). A
    Fourier transform over q^k points finds the last k entries from M = 2 ln(q^k) / phi^2 sums of 2^t samples. Here
    phi = |E exp(2 pi i e / q)|^(2^t), and rounding counts as an independent error. Signs halve the tables for q > 2.

    References
    ----------
    Blum, Kalai and Wasserman 2003; Albrecht, Cid, Faugere, Fitzpatrick and Perret 2015, "On the complexity of the BKW
    algorithm on LWE"; Duc, Tramer and Vaudenay 2015 (the Fourier transform).

    Examples
    --------
    >>> from lwe.distributions import Flips
    >>> print(bkw_cost(LWEParameters(n=32, q=2, p=2, Xe=Flips(0.05))))
    plain-bkw: about 2^16.0 (LPN n=32 q=2 p=2 noise=flip(0.05) (d=33); mem 2^14.1, m 559, steps 3, last 10)
    """
    n, q = parameters.n, parameters.q
    log_q = math.log2(q)
    phi = error_character(parameters) if log_q <= MOST else 0.0
    if phi == 0:
        return None
    log_phi = math.log2(phi)
    entries = -np.log2(agreement_chances(parameters, min(n, _MOST_STEPS)))
    signs = 1 if q > 2 and parameters.matrix != "binary" else 0
    tail = np.arange(1, n + 1)
    bits = tail * log_q
    best: tuple[float, int, int, float] | None = None
    for steps in range(min(n, _MOST_STEPS)):
        table = (n - tail) / np.sum(1 / entries[:steps]) if steps else np.where(tail == n, 0, math.inf)
        sums = np.log2(2 * np.maximum(math.log(2) * bits, 1)) - 2 * 2**steps * log_phi
        table = np.maximum(table - signs, 0)
        needed = np.logaddexp2(sums, table + math.log2(steps)) if steps else sums + table
        reduce = needed + math.log2(n) + math.log2(max(steps, 1))
        exponent = np.logaddexp2(
            np.logaddexp2(reduce, sums + math.log2(n)), bits + np.log2(np.maximum(bits, 1))
        )
        if parameters.m is not None:
            exponent[needed > math.log2(parameters.m)] = math.inf
        place = int(np.argmin(exponent))
        if best is None or exponent[place] < best[0]:
            best = exponent[place], steps, int(tail[place]), needed[place]
        if sums[0] > MOST:
            break
    if best is None or best[0] > MOST:
        return None
    exponent, steps, last, needed = best
    return Cost(
        "plain-bkw",
        float(exponent),
        parameters,
        "addition mod q",
        "independent errors",
        log2_mem=float(max(needed + math.log2(n), last * log_q)),
        log2_m=float(needed),
        details={"steps": steps, "last": last},
    )


def agreement_chances(parameters: LWEParameters, steps: int) -> Float[np.ndarray, " steps"]:
    """The chance that two rows agree in a coordinate, before each of so many steps.

    Each step replaces rows by differences. Two bits agree with chance 1/2 and two of their differences with 3/8, until
    they are spread over all residues; residues agree with chance 1/q.
    """
    q, chances = parameters.q, np.full(steps, 1 / parameters.q)
    weights = {"binary": np.full(2, 0.5), "ternary": np.array([0.25, 0.5, 0.25])}.get(parameters.matrix)
    if weights is None:
        return chances
    for step in range(steps):
        if len(weights) < _LONGEST_LIST:
            chances[step] = weights @ weights
            weights = np.convolve(weights, weights[::-1])
            weights = np.bincount(np.arange(len(weights)) % q, weights)
        else:  # nearly normal: the variance doubles
            chances[step] = max(chances[step - 1] / math.sqrt(2), 1 / q)
    return chances


def meet_in_the_middle_cost(parameters: LWEParameters) -> Cost | None:
    """The cost of meeting in the middle: the square root of the number of secrets, times the additions of a key.

    The halves are matched in k labels: A_1 s_1 is near b' - A_2 s_2 mod q, up to an error. Cells have half the modulus.
    So k = log2 sqrt(secrets) cells leave about one candidate for each half. An error moves at least one of the k keys
    into another cell with probability 1 - (1 - 2 E|e|/q)^k; the attack must then be repeated. Both halves are made
    entry by entry, with k additions each. The memory is sqrt(secrets) keys. None if that probability is within 2^-40 of
    1, or if errors are uniform. After Odlyzko's attack on NTRU (Howgrave-Graham, Silverman and Whyte 2003).

    Examples
    --------
    >>> from lwe.distributions import TERNARY
    >>> parameters = LWEParameters(n=20, q=17, p=8, Xs=TERNARY)
    >>> print(meet_in_the_middle_cost(parameters))  # doctest: +ELLIPSIS
    mitm: about 2^2... (LWR n=20 q=17 p=8 secret=ternary (d=21); mem 2^15.8, m 16)
    """
    q = parameters.q
    half = parameters.Xs.secrets(parameters.n, q) / 2
    keys = max(math.ceil(half), 1)
    missed = (
        2 * math.sqrt(3 / 4) * 2.0 ** (deviations(parameters).log2_error - math.log2(q))
    )  # E|e| of a uniform error
    if parameters.Xe.is_uniform(q) or missed >= 1 or -keys * math.log2(1 - missed) > 40:
        return None
    exponent = half + math.log2(2 * keys) - keys * math.log2(1 - missed)
    # a search uses all samples again where there are fewer than it would take
    samples = keys if parameters.m is None else min(keys, parameters.m)
    return Cost(
        "mitm",
        exponent,
        parameters,
        "addition mod q",
        "keys of cells",
        log2_mem=half,
        log2_m=math.log2(samples),
    )


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

"""Query lower bounds in exact arithmetic: how much one query can rule out, and how many queries are needed."""

import math
import re
from decimal import Decimal
from fractions import Fraction

import numpy as np

from attention.validation import PositiveInt, checked

# A number that stays exact. The order matters: a check of an argument must not turn a fraction or a text into a float.
Number = Fraction | str | int | float


def exact_fraction(name: str, value: Number) -> Fraction:
    """`value` as a fraction; a float stands for the shortest decimal that prints it, so 0.1 is one tenth.

    ValueError if `value` is not a finite number, or has an exponent of more than three digits.
    """
    if isinstance(value, bool | np.bool_):
        raise ValueError(f"{name} is {value!r}: a finite number, a fraction or a decimal text is needed.")
    # the repr of a Python float: numpy scalars also print their type
    text = repr(float(value)) if isinstance(value, float | np.floating) else value
    text = int(text) if isinstance(text, np.integer) else text
    written = str(text).replace("_", "") if isinstance(text, str | Decimal) else ""
    if power := re.search(r"[eE][+-]?0*(\d{4,})\s*$", written):
        # an exact fraction of a billion digits would take hours to write out
        raise ValueError(f"{name} is {value!r}: exponents of up to 999 are read, not {power[1]}.")
    try:
        return Fraction(text)
    except (TypeError, ValueError, ZeroDivisionError, OverflowError):
        raise ValueError(
            f"{name} is {value!r}: a finite number, a fraction or a decimal text is needed."
        ) from None


def exact_tolerance(tolerance: Number) -> Fraction:
    """The tolerance, in (0, 1), as a fraction; a float is the decimal that it prints."""
    tau = exact_fraction("tolerance", tolerance)
    if not 0 < tau < 1:
        raise ValueError(f"tolerance is {tolerance}: a number above 0 and below 1 is needed.")
    return tau


def eliminated_per_query(tolerance: Number, *, eigenvalue: Number = 1, correlation: Number = 0) -> int:
    """M*: the most candidates that one correlational query of tolerance tau in (0, 1) can rule out.

    For orthonormal candidates M* = ceil(1/tau^2) - 1. Where no query rules out any candidate, M* is 0.

    Parameters
    ----------
    tolerance : float, Fraction or str
        tau.
    eigenvalue : float, Fraction or str
        The largest eigenvalue lambda of the candidates' Gram matrix, at least 0: M < lambda/tau^2. Labels with flips at
        the rate eta multiply it by (1 - 2 eta)^2. For queries of STAT(tau) about parities it is 1/4.
    correlation : float, Fraction or str
        A bound gamma < tau^2 on all |correlations| of unit candidates: M < (1 - gamma)/(tau^2 - gamma).

    Notes
    -----
    The candidates f_S have norm 1, after the known part is subtracted and the rest is scaled. A query h has norm at
    most 1. Suppose that the oracle replies with the answer of the known part alone. On candidate S this reply is off by
    <h, f_S>, so it is valid unless |<h, f_S>| > tau. Bessel's inequality sum_S <h, f_S>^2 <= lambda |h|^2 allows fewer
    than lambda/tau^2 such candidates. The argument is that of Blum et al. 1994.

    With correlations of at most gamma let e_S be the sign of <h, f_S> on s such candidates. Then
    s tau < <h, sum e_S f_S> <= |sum e_S f_S| <= sqrt(s + s (s-1) gamma), so s < (1 - gamma)/(tau^2 - gamma). Szörényi
    2009 has the argument; the constants were not compared with those of the paper.

    A query q(X, Y) in [-1, 1] of STAT(tau) has the bound lambda = 1/4 on parities of two tokens if, given X, labels on
    the gate G take exactly two values. The reference replaces the parity by a fair sign. A query differs from the
    reference by E[1_G r(X) chi_S(y) s(X)], where r is half the difference of its values at the two labels, so |r| <= 1.
    The functions 1_G s chi_S are orthogonal with squared norm P(G) = 1/2. So by Bessel's inequality the squares of
    these differences add up to at most E[1_G r^2] / 2 <= 1/4, with equality if r is one character.

    Examples
    --------
    >>> [eliminated_per_query(tau) for tau in (0.9, 0.5, 0.3, 0.1, 0.05)]
    [1, 3, 11, 99, 399]
    >>> eliminated_per_query("1/5", correlation="1/100"), eliminated_per_query(0.1, eigenvalue="1/4")
    (32, 24)
    """
    largest, gamma = exact_fraction("eigenvalue", eigenvalue), exact_fraction("correlation", correlation)
    square = exact_tolerance(tolerance) ** 2
    if largest < 0:
        raise ValueError(
            f"eigenvalue is {eigenvalue}: a Gram matrix has none below 0, so at least 0 is needed."
        )
    if not 0 <= gamma < square or (gamma and largest != 1):
        raise ValueError(
            f"correlation is {correlation} at tolerance {tolerance} and eigenvalue {eigenvalue}: at least 0 and below "
            f"tolerance^2 = {float(square):.6g} is needed, and no eigenvalue beside it."
        )
    return max(0, math.ceil((largest - gamma) / (square - gamma)) - 1)


@checked
def query_lower_bound(
    targets: PositiveInt,
    tolerance: Number,
    *,
    success: Number = 1,
    eigenvalue: Number = 1,
    error: Number = 0,
) -> int | float:
    """ceil((success N - s) / M*): the fewest correlational queries of a learner of N candidates.

    It is infinite if no query rules out a candidate and a guess succeeds too rarely. s is the number of candidates
    that one hypothesis serves: 1 where the candidate has to be found, floor(1 / (1 - error)) for weaker hypotheses.

    Parameters
    ----------
    targets : int
        N.
    tolerance : float, Fraction or str
        The tolerance tau of the queries, in (0, 1).
    success : float, Fraction or str
        The least success probability of a randomised learner; 1 for a deterministic learner.
    eigenvalue : float, Fraction or str
        The largest eigenvalue of the candidates' Gram matrix; 1 where they are orthonormal.
    error : float, Fraction or str
        The squared error with which the learner may end, relative to the candidates' energy, below 1. Above 1/2 the
        candidates must be orthonormal.

    Notes
    -----
    Derived here. The reply of the known part rules out at most M* candidates per query (`eliminated_per_query`). The
    learner ends with one hypothesis H for all that are left. Let |H - f|^2 <= 1 - eps for a candidate f of norm 1. Then
    2 <H, f> >= |H|^2 + eps >= 2 |H| sqrt(eps), so the squared correlation of H with f is at least eps. By Bessel's
    inequality this holds for at most 1 / eps orthonormal candidates; their mean attains it. So N - Q M* <= 1 / eps for
    Q queries. A randomised learner serves Q M* + 1 / eps candidates at most for each value of its random numbers.

    Examples
    --------
    >>> query_lower_bound(9139, 0.1, error=0.9)  # a tenth of the energy is enough: ten candidates have one answer
    93
    >>> query_lower_bound(9139, 0.1)  # three hidden bits among 39
    93
    >>> query_lower_bound(100, 0.9, eigenvalue=0.5)  # every answer is within the tolerance of the known part's
    inf
    """
    share = exact_fraction("success", success)
    if not 0 < share <= 1:
        raise ValueError(f"success is {success}: a probability above 0 and at most 1 is needed.")
    squared = exact_fraction("error", error)
    if not 0 <= squared < 1:
        raise ValueError(f"error is {error}: a share of the energy of at least 0 and below 1 is needed.")
    if squared > Fraction(1, 2) and exact_fraction("eigenvalue", eigenvalue) != 1:
        raise ValueError(
            f"error is {error} and eigenvalue {eigenvalue}: above 1/2 orthonormal candidates are needed."
        )
    left = max(Fraction(0), share * targets - math.floor(1 / (1 - squared)))
    most = min(targets, eliminated_per_query(tolerance, eigenvalue=eigenvalue))
    if most == 0:
        return math.inf if left else 0
    return math.ceil(left / most)

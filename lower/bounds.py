"""Query lower bounds in exact arithmetic: how much one query can rule out, and how many queries are needed."""

import math
import re
from decimal import Decimal
from fractions import Fraction

import numpy as np

from attention.validation import PositiveInt, checked

__all__ = [
    "Number",
    "eliminated_per_query",
    "exact_fraction",
    "exact_tolerance",
    "query_lower_bound",
]

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


def eliminated_per_query(tolerance: Number, *, eigenvalue: Number = 1) -> int:
    """M* = ceil(1/tau^2) - 1: the most candidates that one correlational query of tolerance tau in (0, 1) can rule out.

    `eigenvalue` is the largest eigenvalue of the candidates' Gram matrix, at least 0; labels with flips at the rate eta
    multiply it by (1 - 2 eta)^2. It multiplies 1/tau^2. Where it is at most tau^2, no query rules out any candidate.

    Notes
    -----
    The candidates f_S have norm 1, after the known part is subtracted and the rest is scaled. A query h has norm at
    most 1. Suppose that the oracle replies with the answer of the known part alone. On candidate S this reply is off by
    <h, f_S>, so it is valid unless |<h, f_S>| > tau. Bessel's inequality sum_S <h, f_S>^2 <= lambda_max allows fewer
    than lambda_max/tau^2 such candidates. The argument is that of Blum et al. 1994.

    Examples
    --------
    >>> [eliminated_per_query(tau) for tau in (0.9, 0.5, 0.3, 0.1, 0.05)]
    [1, 3, 11, 99, 399]
    """
    largest = exact_fraction("eigenvalue", eigenvalue)
    if largest < 0:
        raise ValueError(
            f"eigenvalue is {eigenvalue}: a Gram matrix has none below 0, so at least 0 is needed."
        )
    return max(0, math.ceil(largest / exact_tolerance(tolerance) ** 2) - 1)


@checked
def query_lower_bound(
    targets: PositiveInt, tolerance: Number, *, success: Number = 1, eigenvalue: Number = 1
) -> int | float:
    """ceil((success N - 1) / M*): the fewest correlational queries with which a learner can tell N candidates apart.

    It is infinite if no query rules out a candidate and a guess succeeds too rarely.

    While more than one candidate is consistent with all replies, a learner that stops is wrong on one of them. The
    reply of the known part rules out at most M* candidates per query (`eliminated_per_query`).

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

    Examples
    --------
    >>> query_lower_bound(9139, 0.1)  # three hidden bits among 39
    93
    >>> query_lower_bound(100, 0.9, eigenvalue=0.5)  # every answer is within the tolerance of the known part's
    inf
    """
    share = exact_fraction("success", success)
    if not 0 < share <= 1:
        raise ValueError(f"success is {success}: a probability above 0 and at most 1 is needed.")
    left = max(Fraction(0), share * targets - 1)
    most = min(targets, eliminated_per_query(tolerance, eigenvalue=eigenvalue))
    if most == 0:
        return math.inf if left else 0
    return math.ceil(left / most)

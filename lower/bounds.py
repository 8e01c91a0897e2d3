"""Query lower bounds in exact arithmetic: what one query can rule out, and how many queries that makes."""

import math
import re
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Annotated

import numpy as np

from attention.validation import PositiveInt, Whole, checked

if TYPE_CHECKING:
    import sympy

__all__ = [
    "Number",
    "eliminated_per_query",
    "exact_fraction",
    "exact_tolerance",
    "parity_targets",
    "query_lower_bound",
]

# A number that stays exact: in this order, so that checking an argument makes no float of a fraction or a text.
Number = Fraction | str | int | float


def exact_fraction(name: str, value: Number) -> Fraction:
    """`value` as a fraction; a float stands for the shortest decimal that prints it, so 0.1 is one tenth.

    ValueError if `value` is not a finite number, or has an exponent of more than three digits.
    """
    if isinstance(value, bool | np.bool_):
        raise ValueError(f"{name} is {value!r}: a finite number, a fraction or a decimal text is needed.")
    # by its own repr: numpy scalars print their type as well
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

    `eigenvalue` is the largest of the candidates' Gram matrix, by which 1/tau^2 is multiplied.

    Notes
    -----
    The candidates f_S have norm 1 (the known part taken off, scaled) and a query h has norm at most 1. An oracle that
    replies with what the known part alone gives is wrong by <h, f_S> on candidate S, a valid reply unless
    |<h, f_S>| > tau. Bessel's inequality sum_S <h, f_S>^2 <= lambda_max allows fewer than lambda_max/tau^2 of those.
    The argument is that of Blum et al. 1994.

    Examples
    --------
    >>> [eliminated_per_query(tau) for tau in (0.9, 0.5, 0.3, 0.1, 0.05)]
    [1, 3, 11, 99, 399]
    """
    return math.ceil(exact_fraction("eigenvalue", eigenvalue) / exact_tolerance(tolerance) ** 2) - 1


@checked
def query_lower_bound(
    targets: PositiveInt, tolerance: Number, *, success: Number = 1, eigenvalue: Number = 1
) -> int:
    """ceil((success N - 1) / M*): the fewest correlational queries with which a learner can tell N candidates apart.

    While more than one candidate is consistent with all replies, a learner that stops is wrong on one of
    them, and the reply of the known part rules out at most M* candidates a query (`eliminated_per_query`).

    Parameters
    ----------
    targets : int
        N.
    tolerance : float, Fraction or str
        The tolerance tau of the queries, in (0, 1).
    success : float, Fraction or str
        The probability with which a randomised learner must succeed; 1 for a deterministic learner.
    eigenvalue : float, Fraction or str
        The largest eigenvalue of the candidates' Gram matrix; 1 where they are orthonormal.

    Examples
    --------
    >>> query_lower_bound(9139, 0.1)  # three hidden bits among 39
    93
    """
    share = exact_fraction("success", success)
    if not 0 < share <= 1:
        raise ValueError(f"success is {success}: a probability above 0 and at most 1 is needed.")
    most = min(targets, eliminated_per_query(tolerance, eigenvalue=eigenvalue))
    return max(0, math.ceil((share * targets - 1) / most))


@checked
def parity_targets(heads: Annotated[int, Whole(1, 60)]) -> "sympy.Poly":
    """The number C(d - 1, 2m - 1) of parities that m heads hide, as a polynomial in d of degree 2m - 1.

    Examples
    --------
    >>> parity_targets(2).as_expr().factor()
    (d - 3)*(d - 2)*(d - 1)/6
    """
    import sympy  # half a second to import, and nothing else here needs it

    d = sympy.Symbol("d", integer=True, positive=True)
    bits = 2 * heads - 1
    falling = sympy.prod([d - 1 - step for step in range(bits)])
    return sympy.Poly(sympy.expand(falling / sympy.factorial(bits)), d)

"""Query lower bounds in exact arithmetic: what one query can rule out, and how many queries that makes."""

import math
import re
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Annotated

import numpy as np

from attention._arrays import shown
from attention.validation import NonNegativeInt, PositiveInt, Whole, checked
from lower.certificate import Hardness, Statement

if TYPE_CHECKING:
    import sympy

__all__ = [
    "Number",
    "eliminated_per_query",
    "exact_fraction",
    "number_of_parities",
    "parity_exponent",
    "parity_targets",
    "query_lower_bound",
    "query_verdict",
]

Number = float | Fraction | str

# bits of the largest number that is computed exactly: one of some million digits
_MOST_BITS = 1 << 24


def exact_fraction(name: str, value: Number | int) -> Fraction:
    """`value` as a fraction; a float stands for the shortest decimal that prints it, so 0.1 is one tenth.

    Raises
    ------
    ValueError
        If `value` is not a finite number, or has an exponent of more than three digits.
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


def eliminated_per_query(tolerance: Number) -> int:
    """M* = ceil(1/tau^2) - 1: the most candidates that one correlational query of tolerance tau can rule out.

    Parameters
    ----------
    tolerance : float, Fraction or str
        The tolerance tau, in (0, 1).

    Raises
    ------
    ValueError
        If `tolerance` is not in (0, 1).

    Notes
    -----
    The candidates f_S are orthonormal (the known part taken off, scaled to norm 1) and a query h has norm at
    most 1. An oracle that replies with what the known part alone gives is wrong by <h, f_S> on candidate S, a
    valid reply unless |<h, f_S>| > tau. Bessel's inequality sum_S <h, f_S>^2 <= 1 allows fewer than 1/tau^2
    of those.

    References
    ----------
    The argument is that of Blum et al. 1994; this form is derived here.

    Examples
    --------
    >>> [eliminated_per_query(tau) for tau in (0.9, 0.5, 0.3, 0.1, 0.05)]
    [1, 3, 11, 99, 399]
    """
    tau = exact_fraction("tolerance", tolerance)
    if not 0 < tau < 1:
        raise ValueError(f"tolerance is {tolerance}: a number above 0 and below 1 is needed.")
    return math.ceil(1 / tau**2) - 1


@checked
def query_lower_bound(targets: PositiveInt, tolerance: Number, *, success: Number | int = 1) -> int:
    """The fewest correlational queries with which a learner can tell `targets` orthogonal candidates apart.

    Parameters
    ----------
    targets : int
        The number N of pairwise orthogonal candidates.
    tolerance : float, Fraction or str
        The tolerance tau of the queries, in (0, 1).
    success : float, Fraction or str
        The probability with which a randomised learner must succeed; 1 for a deterministic learner.

    Returns
    -------
    int
        ceil((success N - 1) / M*) with M* from `eliminated_per_query`; never below 0.

    Notes
    -----
    While more than one candidate is consistent with all replies, a learner that stops is wrong on one of
    them, and the reply of the known part rules out at most M* candidates a query.

    Examples
    --------
    >>> query_lower_bound(9139, 0.1)  # three hidden bits among 39
    93
    """
    share = exact_fraction("success", success)
    if not 0 < share <= 1:
        raise ValueError(f"success is {success}: a probability above 0 and at most 1 is needed.")
    return max(0, math.ceil((share * targets - 1) / eliminated_per_query(tolerance)))


@checked
def query_verdict(targets: PositiveInt, dim: PositiveInt, *, shortcut: str = "") -> Statement:
    """The statement "verdict" of a family of orthogonal targets; see `Hardness`.

    Parameters
    ----------
    targets : int
        The number N of targets.
    dim : int
        The number d of coordinates of a token.
    shortcut : str
        A sentence: which statistical queries find the secret sooner than the bound says, where there are such.

    Raises
    ------
    ValueError
        If a number is below 1, or the shortcut no text.

    Notes
    -----
    That more queries than d count as hard is a convention of this project. O(1).

    Examples
    --------
    >>> [query_verdict(targets, 48).value for targets in (16215, 47)]
    ['proved', 'looks easy']
    """
    needed, source = query_lower_bound(targets, "0.1"), "lower.query_lower_bound"
    bound = f"At least {needed} correlational queries of tolerance 0.1 are proved to be needed"
    if shortcut:
        return Statement("verdict", Hardness.NEITHER.value, shortcut, "derived", "Derived here")
    if needed > dim:
        said = f"{bound}, more than a token has coordinates. Other algorithms may be fast."
        return Statement("verdict", Hardness.PROVED.value, said, "proved", source)
    said = f"{bound}, and a token has {dim} coordinates: a scan of all {targets} targets is short."
    return Statement("verdict", Hardness.NEITHER.value, said, "derived", source)


@checked
def number_of_parities(dim: PositiveInt, bits: NonNegativeInt) -> int:
    """C(d - 1, l): the parities of `bits` coordinates that leave one of `dim` out for the gate."""
    _require_writable(dim - 1, bits)
    return math.comb(dim - 1, bits)


@checked
def parity_exponent(heads: PositiveInt) -> int:
    """2m - 1: the power of d with which the number of parities hidden by m heads grows.

    Examples
    --------
    >>> parity_exponent(2)
    3
    """
    return 2 * heads - 1


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
    bits = parity_exponent(heads)
    falling = sympy.prod([d - 1 - step for step in range(bits)])
    return sympy.Poly(sympy.expand(falling / sympy.factorial(bits)), d)


def _require_writable(among: int, chosen: int) -> None:
    """Refuse binomial coefficients that would take minutes to write out."""
    chosen = min(chosen, among - chosen)
    if chosen > 0 and chosen * (among // chosen).bit_length() > _MOST_BITS:
        raise ValueError(
            f"C(dim - 1, bits) with dim {shown(among + 1)} is a number of more than {_MOST_BITS} bits: fewer bits or "
            "dimensions are needed."
        )

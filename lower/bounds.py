"""Query lower bounds in exact arithmetic: what one query can rule out, and how many queries that makes."""

import math
import re
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from attention._arrays import shown
from attention.validation import count, require_instance
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
    "query_bound_growth",
    "query_lower_bound",
    "query_verdict",
    "symbolic_query_bound",
]

Number = float | Fraction | str

# bits of the largest number that is computed exactly: one of some million digits
_MOST_BITS = 1 << 24
# heads whose polynomial is expanded, and whose factorial can still be printed
_MOST_EXPANDED, _MOST_PRINTED = 60, 700


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


def query_lower_bound(targets: int, tolerance: Number, *, success: Number | int = 1) -> int:
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
    targets = count("targets", targets)
    share = exact_fraction("success", success)
    if not 0 < share <= 1:
        raise ValueError(f"success is {success}: a probability above 0 and at most 1 is needed.")
    return max(0, math.ceil((share * targets - 1) / eliminated_per_query(tolerance)))


def query_verdict(targets: int, dim: int, *, shortcut: str = "") -> Statement:
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
    dim = count("dim", dim)
    require_instance("shortcut", shortcut, str, needed="a text")
    needed, source = query_lower_bound(targets, "0.1"), "lower.query_lower_bound"
    bound = f"At least {needed} correlational queries of tolerance 0.1 are proved to be needed"
    if shortcut:
        return Statement("verdict", Hardness.NEITHER.value, shortcut, "derived", "Derived here")
    if needed > dim:
        said = f"{bound}, more than a token has coordinates. Other algorithms may be fast."
        return Statement("verdict", Hardness.PROVED.value, said, "proved", source)
    said = f"{bound}, and a token has {dim} coordinates: a scan of all {targets} targets is short."
    return Statement("verdict", Hardness.NEITHER.value, said, "derived", source)


def number_of_parities(dim: int, bits: int) -> int:
    """C(d - 1, l): the parities of `bits` coordinates that leave one of `dim` out for the gate."""
    among, chosen = count("dim", dim) - 1, count("bits", bits, least=0)
    _require_writable(among, chosen)
    return math.comb(among, chosen)


def parity_exponent(heads: int) -> int:
    """2m - 1: the power of d with which the number of parities hidden by m heads grows.

    Examples
    --------
    >>> parity_exponent(2)
    3
    """
    return 2 * count("heads", heads) - 1


def parity_targets(heads: int, *, symbol: Any = None) -> "sympy.Poly":
    """The number C(d - 1, 2m - 1) of parities that m heads hide, as a polynomial in d.

    Parameters
    ----------
    heads : int
        The number m of heads.
    symbol : sympy.Symbol, optional
        What stands for d; ``Symbol("d", integer=True, positive=True)`` when left out.

    Returns
    -------
    sympy.Poly
        A polynomial of degree 2m - 1 with rational coefficients.

    References
    ----------
    Derived here; the paper states the d^Omega(m) form without the constant in the exponent.

    Examples
    --------
    >>> parity_targets(2).as_expr().factor()
    (d - 3)*(d - 2)*(d - 1)/6
    """
    import sympy  # half a second to import, and nothing else here needs it

    count("heads", heads, most=_MOST_EXPANDED)
    if symbol is not None and not isinstance(symbol, sympy.Symbol):
        raise ValueError(f"symbol is {shown(symbol)}: a sympy.Symbol is needed.")
    d = sympy.Symbol("d", integer=True, positive=True) if symbol is None else symbol
    bits = parity_exponent(heads)
    falling = sympy.prod([d - 1 - step for step in range(bits)])
    return sympy.Poly(sympy.expand(falling / sympy.factorial(bits)), d)


def symbolic_query_bound(
    *, heads: Any = None, dim: Any = None, tolerance: Any = None, targets: Any = None
) -> "sympy.Expr":
    """ceil((C(d - 1, 2m - 1) - 1) / M*): the queries that parities of m heads take, with what is left out as symbols.

    Parameters
    ----------
    heads, dim : int or sympy.Expr, optional
        m and d; ``Symbol("m")`` and ``Symbol("d")``, positive integers, when left out.
    tolerance : float, Fraction, str or sympy.Expr, optional
        tau; ``Symbol("tau")``, positive, when left out. A float stands for the decimal that it prints.
    targets : int or sympy.Expr, optional
        The number of targets, C(d - 1, 2m - 1) when left out.

    Raises
    ------
    ValueError
        If a tolerance that is a number is not in (0, 1), or another number is no positive integer.

    Notes
    -----
    For d < 2m there is no target and the expression with symbols means nothing; with numbers the bound is 0 then.

    References
    ----------
    Derived here: `query_lower_bound` over the family that `parity_targets` counts.

    Examples
    --------
    >>> symbolic_query_bound()
    ceiling((binomial(d - 1, 2*m - 1) - 1)/(ceiling(tau**(-2)) - 1))
    >>> symbolic_query_bound(heads=2, dim=40, tolerance=0.1)
    93
    """
    import sympy

    m, d = _symbol_or("heads", "m", heads), _symbol_or("dim", "d", dim)
    if targets is None and m.is_number and d.is_number:
        _require_writable(int(d) - 1, 2 * int(m) - 1)
    number = sympy.binomial(d - 1, 2 * m - 1) if targets is None else _symbol_or("targets", "N", targets)
    if tolerance is None:
        tolerance = sympy.Symbol("tau", positive=True)
    if isinstance(tolerance, sympy.Expr) and not tolerance.is_Float and not tolerance.is_Rational:
        if tolerance.is_number and not 0 < tolerance < 1:
            raise ValueError(f"tolerance is {tolerance}: a number above 0 and below 1 is needed.")
        eliminated = sympy.ceiling(1 / tolerance**2) - 1
    else:
        if isinstance(tolerance, sympy.Expr):
            tolerance = Fraction(str(tolerance)) if tolerance.is_Rational else float(tolerance)
        eliminated = sympy.Integer(eliminated_per_query(tolerance))
    bound = sympy.ceiling((number - 1) / eliminated)
    return sympy.Integer(0) if bound.is_number and bound < 0 else bound


def _symbol_or(name: str, letter: str, value: Any) -> "sympy.Expr":
    import sympy

    if value is None:
        return sympy.Symbol(letter, integer=True, positive=True)
    # a text would be evaluated
    if isinstance(value, bool) or not isinstance(value, int | np.integer | sympy.Expr):
        raise ValueError(f"{name} is {shown(value)}: a whole number or a sympy expression is needed.")
    given = sympy.sympify(value)
    if given.is_number and not (given.is_integer and given >= 1):
        raise ValueError(f"{name} is {value}: a whole number of at least 1 is needed.")
    return given


def _require_writable(among: int, chosen: int) -> None:
    """Refuse binomial coefficients that would take minutes to write out."""
    chosen = min(chosen, among - chosen)
    if chosen > 0 and chosen * (among // chosen).bit_length() > _MOST_BITS:
        raise ValueError(
            f"C(dim - 1, bits) with dim {shown(among + 1)} is a number of more than {_MOST_BITS} bits: fewer bits or "
            "dimensions are needed."
        )


def query_bound_growth(heads: int) -> "sympy.Expr":
    """tau^2 d^(2m - 1) / (2m - 1)!: the query bound for large d and small tau, up to a factor that tends to 1.

    Parameters
    ----------
    heads : int
        The number m of heads.

    References
    ----------
    Derived here.

    Examples
    --------
    >>> query_bound_growth(2)
    d**3*tau**2/6
    """
    import sympy

    d, tau = sympy.Symbol("d", integer=True, positive=True), sympy.Symbol("tau", positive=True)
    degree = parity_exponent(count("heads", heads, most=_MOST_PRINTED))
    return d**degree * tau**2 / sympy.factorial(degree)

"""How much one query can rule out, and how many queries are needed: each inequality with its numbers and its source."""

import math
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from math import ceil

from attention.validation import PositiveInt, checked
from lower.bounds import Number, exact_fraction, exact_tolerance
from sq.johnson import Gram

__all__ = [
    "Bound",
    "full_query_cap",
    "orthogonal_cap",
    "shown",
    "spectral_cap",
    "szorenyi_cap",
    "visible_below",
]

_RULED_OUT = "Candidates a query rules out"


@dataclass(frozen=True)
class Bound:
    """A bound: its value, the inequality with its numbers, and the source.

    `value` is the value of the inequality. `whole` is the whole number that follows from it: for a strict upper bound
    the largest whole number below it.
    """

    name: str
    value: Fraction | int
    whole: int
    inequality: str
    source: str

    def __float__(self) -> float:
        return float(self.value)

    def __str__(self) -> str:
        return f"{self.name}: {self.inequality} [{self.source}]"


def _cap(value: Fraction, formula: str, source: str, *, name: str = _RULED_OUT) -> Bound:
    """The bound "fewer than `value`", with the formula and its numbers."""
    whole = ceil(value) - 1
    return Bound(name, value, whole, f"M < {formula} = {shown(value)}, so M <= {whole}", source)


def orthogonal_cap(tolerance: Number) -> Bound:
    """What one correlational query can rule out of orthonormal hidden parts: M* = ceil(1/tau^2) - 1.

    Proved in the notes of `lower.eliminated_per_query`. The tolerance tau is a number, a fraction or a text in (0, 1).

    Examples
    --------
    >>> print(orthogonal_cap(0.3))
    Candidates a query rules out: M < 1/tau^2 = 1/0.3^2 = 11.1111, so M <= 11 [Bessel's inequality; derived here]
    """
    tau = exact_tolerance(tolerance)
    return _cap(1 / tau**2, f"1/tau^2 = 1/{shown(tau)}^2", "Bessel's inequality; derived here")


def full_query_cap(tolerance: Number) -> Bound:
    """What one query of STAT(tau), q(X, Y) in [-1, 1], can rule out of parities: ceil(1/(4 tau^2)) - 1.

    Notes
    -----
    This holds for two tokens if, given X, labels on the gate G take exactly two values: the known part plus or minus
    one pattern. The reference replaces the parity by a fair sign. A query differs from the reference by
    E[1_G r(X) chi_S(y) s(X)], where r is half the difference of its values at the two labels, so |r| <= 1. The
    functions 1_G s chi_S are orthogonal with squared norm P(G) = 1/2. So by Bessel's inequality the squares of these
    differences add up to at most E[1_G r^2] / 2 <= 1/4, with equality if r is one character.

    Examples
    --------
    >>> [full_query_cap(tau).whole for tau in (0.3, 0.1, 0.05)]
    [2, 24, 99]
    """
    tau = exact_tolerance(tolerance)
    formula = f"1/(4 tau^2) = 1/(4 {shown(tau)}^2)"
    return _cap(1 / (4 * tau**2), formula, "derived here", name="Candidates a query of STAT rules out")


def szorenyi_cap(correlation: Number, tolerance: Number) -> Bound:
    """What one query rules out of unit hidden parts with |correlations| <= gamma < tau^2: (1-gamma)/(tau^2-gamma).

    Notes
    -----
    Let s candidates have |<h, f_S>| > tau, and let e_S be the sign of <h, f_S>. The e_S f_S have the same
    |correlations|. So s tau < <h, sum e_S f_S> <= |sum e_S f_S| <= sqrt(s + s (s-1) gamma), that is
    s < (1 - gamma)/(tau^2 - gamma). At gamma = 0 this is `orthogonal_cap`.

    References
    ----------
    Szörényi 2009, "Characterizing statistical query learning: simplified notions and proofs", has the argument of the
    lower bound. The constants are proved in the notes; they were not compared with those of the paper.

    Examples
    --------
    >>> print(szorenyi_cap("1/100", "1/5").inequality)
    M < (1-gamma)/(tau^2-gamma) = (1-0.01)/(0.04-0.01) = 33, so M <= 32
    """
    gamma, tau = exact_fraction("correlation", correlation), exact_tolerance(tolerance)
    if not 0 <= gamma < tau**2:
        raise ValueError(
            f"correlation is {correlation} at tolerance {tolerance}: at least 0 and below tolerance^2 = "
            f"{shown(tau**2)} is needed."
        )
    return _cap(
        (1 - gamma) / (tau**2 - gamma),
        f"(1-gamma)/(tau^2-gamma) = (1-{shown(gamma)})/({shown(tau**2)}-{shown(gamma)})",
        "Szörényi 2009, the argument; constants derived here",
    )


@checked
def spectral_cap(gram: Gram, tolerance: Number) -> Bound:
    """What one correlational query rules out, whatever the Gram matrix: lambda_max/tau^2.

    sum_S <h, f_S>^2 <= lambda_max |h|^2, and each candidate ruled out has a term above tau^2. If lambda_max comes from
    floating point, it is raised by N times the rounding error of an entry.
    """
    tau, largest = exact_tolerance(tolerance), gram.largest_eigenvalue()
    value = largest / tau**2
    formula = f"lambda_max/tau^2 = {shown(largest)}/{shown(tau)}^2"
    whole = min(ceil(value) - 1, gram.size)  # no query rules out more candidates than exist
    return Bound(
        _RULED_OUT,
        value,
        whole,
        f"M < {formula} = {shown(value)} of {gram.size}, so M <= {whole}",
        "derived here",
    )


@checked
def visible_below(targets: PositiveInt, queries: PositiveInt, *, full: bool = False) -> float:
    """The least tolerance at which so many queries cannot tell the targets apart; below it the bounds allow it.

    1/sqrt(ceil((N - 1)/Q)), about sqrt(Q/N), and half of it for STAT.

    Parameters
    ----------
    targets : int
        The number N of orthonormal targets.
    queries : int
        The number Q of queries, at least 1.
    full : bool
        Whether queries are those of STAT rather than correlational ones. A query of STAT sees the labels and rules out
        at most ceil(1/(4 tau^2)) - 1 targets (`full_query_cap`, for two-valued labels); a correlational query rules out
        at most M* = ceil(1/tau^2) - 1.

    Notes
    -----
    Q < ceil((N-1)/M) is M < (N-1)/Q, that is M + 1 <= ceil((N-1)/Q), and M + 1 = ceil(1/tau^2).

    Examples
    --------
    >>> visible_below(401, 4), visible_below(401, 4, full=True), visible_below(455, 454)
    (0.1, 0.05, 1.0)
    """
    share = ceil(Fraction(targets - 1, queries))
    # 1/share underflows long before its root does: divide out a power of 4 first
    shift = max(0, share.bit_length() - 1000) // 2
    root = math.sqrt(Fraction(4**shift, max(share, 1)))
    return math.ldexp(root, -shift - (1 if full else 0))


def shown(value: Fraction | int) -> str:
    """A number of an inequality, to six digits."""
    try:
        return f"{float(value):.6g}"
    except OverflowError:
        exact = Fraction(value)
        return f"{Decimal(exact.numerator) / Decimal(exact.denominator):.6g}"

"""What one query can rule out, and how many queries that makes: each inequality with its numbers and its source."""

from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from math import ceil

from attention.validation import count, require_instance
from lower import eliminated_per_query, exact_fraction
from lower.bounds import Number
from sq.gram import GramMatrix
from sq.johnson import OverlapGram, require_gram

__all__ = [
    "Bound",
    "full_query_cap",
    "orthogonal_cap",
    "pairwise_cap",
    "queries_needed",
    "shown",
    "spectral_cap",
    "szorenyi_cap",
]


@dataclass(frozen=True)
class Bound:
    """A bound that says which inequality it is, with its numbers, and where that comes from.

    Attributes
    ----------
    name : str
        What is bounded.
    value : Fraction or int
        The bound as the inequality gives it.
    whole : int
        The whole number it comes to: of a strict upper bound the largest whole number below it.
    inequality : str
        The inequality with its numbers.
    source : str
        The source of the statement, or "derived here".
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


def orthogonal_cap(tolerance: Number | int) -> Bound:
    """What one correlational query can rule out of orthonormal hidden parts: M* = ceil(1/tau^2) - 1.

    Raises
    ------
    ValueError
        If `tolerance` is not in (0, 1).

    References
    ----------
    As in `lower.eliminated_per_query`.

    Examples
    --------
    >>> print(orthogonal_cap(0.3))
    Candidates a query rules out: M < 1/tau^2 = 1/0.3^2 = 11.1111, so M <= 11 [Bessel's inequality; derived here]
    """
    tau = _tolerance(tolerance)
    whole = eliminated_per_query(tau)
    return Bound(
        "Candidates a query rules out",
        1 / tau**2,
        whole,
        f"M < 1/tau^2 = 1/{shown(tau)}^2 = {shown(1 / tau**2)}, so M <= {whole}",
        "Bessel's inequality; derived here",
    )


def full_query_cap(tolerance: Number | int) -> Bound:
    """What one query of STAT(tau), q(X, Y) in [-1, 1], can rule out of parities: ceil(1/(4 tau^2)) - 1.

    Parameters
    ----------
    tolerance : float, Fraction or str
        tau, in (0, 1).

    Raises
    ------
    ValueError
        If `tolerance` is not in (0, 1).

    Notes
    -----
    For two tokens and labels that are exactly two-valued on the gate, G, given X: the known part plus or minus one
    pattern. Against the reference that replaces the parity by a fair sign, a query is wrong by
    E[1_G r(X) chi_S(y) s(X)] with r half the difference of its values at the two labels, so |r| <= 1. The functions
    1_G s chi_S are orthogonal of squared norm P(G) = 1/2: by Bessel's inequality the squares of these add up to at
    most E[1_G r^2] / 2 <= 1/4, and to just that where r is one character.

    References
    ----------
    Derived here.

    Examples
    --------
    >>> [full_query_cap(tau).whole for tau in (0.3, 0.1, 0.05)]
    [2, 24, 99]
    """
    tau = _tolerance(tolerance)
    value = 1 / (4 * tau**2)
    whole = ceil(value) - 1
    return Bound(
        "Candidates a query of STAT rules out",
        value,
        whole,
        f"M < 1/(4 tau^2) = 1/(4 {shown(tau)}^2) = {shown(value)}, so M <= {whole}",
        "derived here",
    )


def szorenyi_cap(correlation: Number | int, tolerance: Number | int) -> Bound:
    """What one correlational query rules out of unit hidden parts with |correlations| <= gamma < tau^2.

    Parameters
    ----------
    correlation, tolerance : float, Fraction or str
        gamma and tau, 0 <= gamma < tau^2 < 1.

    Returns
    -------
    Bound
        2(1-gamma)/(tau^2-gamma).

    Raises
    ------
    ValueError
        If they are not so.

    Notes
    -----
    Let s candidates have <h, f_S> > tau. Then s tau < <h, sum f_S> <= |sum f_S| <= sqrt(s + s (s-1) gamma), which is
    s < (1 - gamma)/(tau^2 - gamma); the same for those below -tau. `pairwise_cap` does without the factor 2.

    References
    ----------
    Szörényi 2009, "Characterizing statistical query learning: simplified notions and proofs", the lower bound's
    argument; the constants are proved in the notes, his were not compared.

    Examples
    --------
    >>> print(szorenyi_cap("1/100", "1/5").inequality)
    M < 2(1-gamma)/(tau^2-gamma) = 2(1-0.01)/(0.04-0.01) = 66, so M <= 64
    """
    gamma, tau = _pair(correlation, tolerance)
    one_sign = (1 - gamma) / (tau**2 - gamma)
    whole = 2 * (ceil(one_sign) - 1)
    return Bound(
        "Candidates a query rules out",
        2 * one_sign,
        whole,
        f"M < 2(1-gamma)/(tau^2-gamma) = 2(1-{shown(gamma)})/({shown(tau**2)}-{shown(gamma)}) = "
        f"{shown(2 * one_sign)}, so M <= {whole}",
        "Szörényi 2009, the argument; constants derived here",
    )


def pairwise_cap(correlation: Number | int, tolerance: Number | int) -> Bound:
    """Half of `szorenyi_cap`: (1 - gamma)/(tau^2 - gamma), both signs at once.

    Notes
    -----
    Flip the f_S with <h, f_S> < -tau: |correlations| are what they were, and one sum holds all that are ruled
    out. At gamma = 0 this is `orthogonal_cap`.

    Raises
    ------
    ValueError
        Unless 0 <= gamma < tau^2 < 1.

    References
    ----------
    Derived here.
    """
    gamma, tau = _pair(correlation, tolerance)
    value = (1 - gamma) / (tau**2 - gamma)
    whole = ceil(value) - 1
    return Bound(
        "Candidates a query rules out",
        value,
        whole,
        f"M < (1-gamma)/(tau^2-gamma) = (1-{shown(gamma)})/({shown(tau**2)}-{shown(gamma)}) = {shown(value)}, "
        f"so M <= {whole}",
        "derived here",
    )


def spectral_cap(gram: GramMatrix | OverlapGram, tolerance: Number | int) -> Bound:
    """What one correlational query rules out, whatever the Gram matrix: lambda_max/tau^2.

    Parameters
    ----------
    gram : GramMatrix or OverlapGram
        The correlations; exact eigenvalues in the second case. Those of an estimate bound an estimate.
    tolerance : float, Fraction or str
        tau, in (0, 1).

    Raises
    ------
    ValueError
        If `tolerance` is not in (0, 1).

    Notes
    -----
    sum_S <h, f_S>^2 <= lambda_max |h|^2, and each candidate ruled out has a term above tau^2. Where it was computed
    in floating point, lambda_max is raised by N times the rounding of an entry.

    References
    ----------
    Derived here.
    """
    require_gram(gram)
    tau = _tolerance(tolerance)
    if isinstance(gram, OverlapGram):
        largest = gram.largest_eigenvalue()
    else:
        largest = Fraction(gram.largest_eigenvalue() + gram.size * gram.rounding)
    value = largest / tau**2
    # no query rules out more than there are
    whole = min(ceil(value) - 1, gram.size)
    return Bound(
        "Candidates a query rules out",
        value,
        whole,
        f"M < lambda_max/tau^2 = {shown(largest)}/{shown(tau)}^2 = {shown(value)} of {gram.size}, so M <= {whole}",
        "derived here",
    )


def queries_needed(targets: int, cap: Bound, *, success: Number | int = 1) -> Bound:
    """The fewest queries that tell `targets` candidates apart if none rules out more than `cap`.

    Parameters
    ----------
    targets : int
        N.
    cap : Bound
        What a query can rule out; its `whole` is what counts.
    success : float, Fraction or str
        The probability with which a randomised learner must succeed; 1 for a deterministic one.

    Raises
    ------
    ValueError
        If `targets` is below 1, `success` not a probability above 0, or a query rules out nothing at all.

    Examples
    --------
    >>> print(queries_needed(9139, orthogonal_cap(0.1)).inequality)
    at least (N-1)/M = (9139-1)/99 = 92.303, so at least 93
    """
    require_instance("cap", cap, Bound, needed="what orthogonal_cap or spectral_cap gives")
    targets = count("targets", targets)
    share = exact_fraction("success", success)
    if not 0 < share <= 1:
        raise ValueError(f"success is {success}: a probability above 0 and at most 1 is needed.")
    if cap.whole < 1:
        raise ValueError("By that cap a query rules out nothing: no number of queries is enough.")
    value = (share * targets - 1) / cap.whole
    whole = max(0, ceil(value))
    left = "N-1" if share == 1 else "delta N - 1"
    numbers = f"{targets}-1" if share == 1 else f"{shown(share)} {targets} - 1"
    return Bound(
        "Queries",
        value,
        whole,
        f"at least ({left})/M = ({numbers})/{cap.whole} = {shown(value)}, so at least {whole}",
        "an adversary that answers as the reference does; derived here",
    )


def shown(value: Fraction | int) -> str:
    """A number of an inequality, to six digits."""
    try:
        return f"{float(value):.6g}"
    except OverflowError:
        exact = Fraction(value)
        return f"{Decimal(exact.numerator) / Decimal(exact.denominator):.6g}"


def _tolerance(tolerance: Number | int) -> Fraction:
    tau = exact_fraction("tolerance", tolerance)
    if not 0 < tau < 1:
        raise ValueError(f"tolerance is {tolerance}: a number above 0 and below 1 is needed.")
    return tau


def _pair(correlation: Number | int, tolerance: Number | int) -> tuple[Fraction, Fraction]:
    gamma, tau = exact_fraction("correlation", correlation), _tolerance(tolerance)
    if not 0 <= gamma < tau**2:
        raise ValueError(
            f"correlation is {correlation} at tolerance {tolerance}: at least 0 and below tolerance^2 = "
            f"{shown(tau**2)} is needed."
        )
    return gamma, tau

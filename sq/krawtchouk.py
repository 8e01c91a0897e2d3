"""Krawtchouk polynomials: the Fourier weights of a function of N = #{j in S: y_j = -1}, in exact rationals."""

from collections.abc import Iterable
from fractions import Fraction
from itertools import accumulate, pairwise
from math import comb, lcm
from typing import Any, Literal, overload

import numpy as np
from jaxtyping import Float

from attention.validation import count, one_of

__all__ = [
    "fourier_coefficient",
    "fourier_coefficients",
    "fourier_weights",
    "krawtchouk",
    "overlap_correlations",
    "profile_moments",
]

Profile = Iterable[Any]  # ints, floats, fractions, rationals of sympy


def krawtchouk(bits: int, degree: int, number: int) -> int:
    """K_r(N): the sum of chi_R(y) over all R of r of l coordinates, for any y with N entries -1.

    Parameters
    ----------
    bits, degree, number : int
        l, r and N, the latter two from 0 to l.

    Raises
    ------
    ValueError
        If r or N is not from 0 to l.

    Notes
    -----
    K_r(N) = sum_i (-1)^i C(N, i) C(l - N, r - i), exact; O(r).

    References
    ----------
    MacWilliams and Sloane, The Theory of Error-Correcting Codes, Chapter 5.

    Examples
    --------
    >>> [krawtchouk(4, 2, n) for n in range(5)]
    [6, 0, -2, 0, 6]
    """
    bits = count("bits", bits)
    for name, value in (("degree", degree), ("number", number)):
        if count(name, value, least=0) > bits:
            raise ValueError(f"{name} is {value}: 0 to {bits}, the number of bits, is needed.")
    return sum((-1) ** i * comb(number, i) * comb(bits - number, degree - i) for i in range(degree + 1))


@overload
def fourier_coefficients(
    profile: Profile, *, exact: Literal[False] = False
) -> Float[np.ndarray, " degrees"]: ...
@overload
def fourier_coefficients(profile: Profile, *, exact: Literal[True]) -> tuple[Fraction, ...]: ...
def fourier_coefficients(
    profile: Profile, *, exact: bool = False
) -> Float[np.ndarray, " degrees"] | tuple[Fraction, ...]:
    """The Fourier coefficients ghat_r, r = 0, ..., l, of g(N) over uniform signs y.

    Parameters
    ----------
    profile : iterable of int, float, Fraction or sympy.Rational
        g(0), ..., g(l); floats stand for the rationals they are.
    exact : bool
        Whether to return fractions rather than float64 numbers.

    Raises
    ------
    ValueError
        If `profile` has fewer than two entries, or one that is not a finite number.

    Notes
    -----
    All sets R of r coordinates have the one coefficient ghat_r = 2^-l sum_N C(l, N) g(N) K_r(N) / C(l, r), as g is
    symmetric. Computed in whole numbers over one denominator and rounded at the end. As sum_r K_r(N) z^r is
    (1 - z)^N (1 + z)^(l - N), all of them together are the polynomial sum_N C(l, N) g(N) (1 - z)^N (1 + z)^(l - N),
    and that takes two shifts of a polynomial's variable: O(l^2) additions.

    References
    ----------
    MacWilliams and Sloane, The Theory of Error-Correcting Codes, Chapter 5, for the generating function.

    Examples
    --------
    >>> [str(one) for one in fourier_coefficients([0, 0, 1, 0, 0], exact=True)]
    ['3/8', '0', '-1/8', '0', '3/8']
    """
    one_of("exact", exact, (True, False))
    whole, denominator = _over_one_denominator(profile)
    sums, bits = _character_sums(whole), len(whole) - 1
    shares = [(one, comb(bits, r) * denominator << bits) for r, one in enumerate(sums)]
    return _exactly(shares) if exact else _rounded(shares)


def fourier_coefficient(profile: Profile, degree: int) -> float:
    """One of the `fourier_coefficients`, ghat_r for the degree r: exact, then rounded.

    Parameters
    ----------
    profile : iterable of int, float, Fraction or sympy.Rational
        g(0), ..., g(l).
    degree : int
        r, from 0 to l.

    Raises
    ------
    ValueError
        If r is not from 0 to l, or as in `fourier_coefficients`.

    Notes
    -----
    O(l r).

    Examples
    --------
    >>> fourier_coefficient([0, 0, 1, 0, 0], 2)
    -0.125
    """
    whole, denominator = _over_one_denominator(profile)
    bits = len(whole) - 1
    total = sum(
        many * one * krawtchouk(bits, degree, n)
        for n, (many, one) in enumerate(zip(_binomials(bits), whole, strict=True))
    )
    return _rounded([(total, comb(bits, degree) * denominator << bits)]).item()


def profile_moments(profile: Profile) -> tuple[Fraction, Fraction]:
    """The mean and the variance of g(N), N binomial (l, 1/2), exactly.

    Examples
    --------
    >>> profile_moments([0, 0, 1, 0, 0])
    (Fraction(3, 8), Fraction(15, 64))
    """
    whole, denominator = _over_one_denominator(profile)
    bits = len(whole) - 1
    return (
        Fraction(
            sum(many * one for many, one in zip(_binomials(bits), whole, strict=True)), denominator << bits
        ),
        Fraction(_spread(whole), denominator**2 << 2 * bits),
    )


@overload
def fourier_weights(profile: Profile, *, exact: Literal[False] = False) -> Float[np.ndarray, " degrees"]: ...
@overload
def fourier_weights(profile: Profile, *, exact: Literal[True]) -> tuple[Fraction, ...]: ...
def fourier_weights(
    profile: Profile, *, exact: bool = False
) -> Float[np.ndarray, " degrees"] | tuple[Fraction, ...]:
    """W_r, the share of the variance of g at degree r = 0, ..., l; W_0 = 0 and the rest add up to 1.

    Parameters
    ----------
    profile, exact : as in `fourier_coefficients`

    Raises
    ------
    ValueError
        If g is constant, or as in `fourier_coefficients`.

    Notes
    -----
    W_r = C(l, r) ghat_r^2 / variance for r >= 1, and the variance is the sum of the numerators (Parseval). O(l^2), as
    `fourier_coefficients`.

    Examples
    --------
    >>> [str(one) for one in fourier_weights([0, 0, 1, 0, 0], exact=True)]
    ['0', '0', '2/5', '0', '3/5']
    """
    one_of("exact", exact, (True, False))
    sums, spread = _varying(profile)
    many = _binomials(len(sums) - 1)
    shares = [(0, 1), *((one**2, c * spread) for one, c in zip(sums[1:], many[1:], strict=True))]
    return _exactly(shares) if exact else _rounded(shares)


@overload
def overlap_correlations(
    profile: Profile, *, exact: Literal[False] = False
) -> Float[np.ndarray, " overlaps"]: ...
@overload
def overlap_correlations(profile: Profile, *, exact: Literal[True]) -> tuple[Fraction, ...]: ...
def overlap_correlations(
    profile: Profile, *, exact: bool = False
) -> Float[np.ndarray, " overlaps"] | tuple[Fraction, ...]:
    """The correlation rho(o) of g(N_S) and g(N_T), |S| = |T| = l, for each overlap o = |S cap T| = 0, ..., l.

    Parameters
    ----------
    profile, exact : as in `fourier_coefficients`

    Raises
    ------
    ValueError
        If g is constant, or as in `fourier_coefficients`.

    Notes
    -----
    Of the characters of S and of T only those of the C(o, r) common subsets of r coordinates meet, so
    rho(o) = sum_{r >= 1} C(o, r) ghat_r^2 / variance: rho(0) = 0, rho(l) = 1, never negative and never falling.
    The ghat_r^2 are the differences of rho at 0: O(l^2) additions.

    Examples
    --------
    >>> [str(one) for one in overlap_correlations([0, 0, 1, 0, 0], exact=True)]
    ['0', '0', '1/15', '1/5', '1']
    """
    one_of("exact", exact, (True, False))
    sums, spread = _varying(profile)
    many = _binomials(len(sums) - 1)
    common = lcm(*many)
    differences = [0, *((one * (common // c)) ** 2 for one, c in zip(sums[1:], many[1:], strict=True))]
    shares = [(one, common**2 * spread) for one in _from_differences(differences)]
    return _exactly(shares) if exact else _rounded(shares)


def _varying(profile: Profile) -> tuple[list[int], int]:
    # the sums of characters and the spread of a function that is not constant
    whole, _ = _over_one_denominator(profile)
    spread = _spread(whole)
    if not spread:
        raise ValueError("profile is constant: a function that takes two values or more is needed.")
    return _character_sums(whole), spread


def _spread(whole: list[int]) -> int:
    # 4^l times the variance
    many = _binomials(len(whole) - 1)
    first, second = (sum(c * one**power for c, one in zip(many, whole, strict=True)) for power in (1, 2))
    return (second << len(whole) - 1) - first**2


def _character_sums(whole: list[int]) -> list[int]:
    # 2^l C(l, r) ghat_r = sum_N C(l, N) g(N) K_r(N) for r = 0, ..., l: the coefficients of (1 + z)^l A((1 - z)/(1 + z))
    # with A(t) = sum_N C(l, N) g(N) t^N. With u = 1 + z that is u^l A(2/u - 1): shift A, reverse, shift back.
    many = _binomials(len(whole) - 1)
    shifted = _shifted([c * one * (-1) ** n for n, (c, one) in enumerate(zip(many, whole, strict=True))])
    return _shifted([(-2) ** k * one for k, one in enumerate(shifted)][::-1])


def _shifted(coefficients: list[int]) -> list[int]:
    # the coefficients of p(t + 1) from those of p(t), from the constant up: remainders of divisions by t - 1
    quotient, shifted = coefficients[::-1], []
    while quotient:
        quotient = list(accumulate(quotient))
        shifted.append(quotient.pop())
    return shifted


def _from_differences(differences: list[int]) -> list[int]:
    # f(o) = sum_r C(o, r) differences[r] for o = 0, 1, ...
    column, values = list(differences), []
    while column:
        values.append(column[0])
        column = [low + high for low, high in pairwise(column)]
    return values


def _binomials(bits: int) -> list[int]:
    # C(l, 0), ..., C(l, l), each from the one before
    return list(accumulate(range(1, bits + 1), lambda c, n: c * (bits - n + 1) // n, initial=1))


def _over_one_denominator(profile: Profile) -> tuple[list[int], int]:
    values = _fractions(profile)
    denominator = lcm(*(one.denominator for one in values))
    return [one.numerator * (denominator // one.denominator) for one in values], denominator


def _fractions(profile: Profile) -> tuple[Fraction, ...]:
    try:
        # a numpy scalar is no Fraction's argument, but its Python value is
        values = tuple(Fraction(one.item() if isinstance(one, np.generic) else one) for one in profile)
    except (TypeError, ValueError, OverflowError):
        raise ValueError(
            "profile holds an entry that is no finite number: g(0), ..., g(l) are needed."
        ) from None
    if len(values) < 2:
        raise ValueError(f"profile has {len(values)} entries: g(0), ..., g(l), at least 2, are needed.")
    return values


def _exactly(shares: list[tuple[int, int]]) -> tuple[Fraction, ...]:
    return tuple(Fraction(one, of) for one, of in shares)


def _rounded(shares: list[tuple[int, int]]) -> np.ndarray:
    # a quotient of whole numbers is rounded once, and takes no greatest common divisor
    try:
        return np.array([one / of for one, of in shares])
    except OverflowError:
        raise ValueError("profile has values beyond float64: take exact=True, or smaller ones.") from None

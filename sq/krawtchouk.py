"""Krawtchouk polynomials: the Fourier weights of a function of N = #{j in S: y_j = -1}, in exact rationals."""

from collections.abc import Iterable, Sequence
from fractions import Fraction
from itertools import accumulate, pairwise
from math import comb, lcm
from typing import Any

import numpy as np

from attention.validation import NonNegativeInt, checked

Profile = Iterable[Any]  # ints, floats, fractions, rationals of sympy


@checked
def krawtchouk(bits: NonNegativeInt, degree: NonNegativeInt, number: NonNegativeInt) -> int:
    """K_r(N): the sum of chi_R(y) over all sets R of r of l coordinates, for any y with N entries -1; 0 <= r, N <= l.

    sum_i (-1)^i C(N, i) C(l - N, r - i), exact; O(r) (MacWilliams and Sloane, chapter 5).

    Examples
    --------
    >>> [krawtchouk(4, 2, n) for n in range(5)]
    [6, 0, -2, 0, 6]
    """
    for name, value in (("degree", degree), ("number", number)):
        if value > bits:
            raise ValueError(f"{name} is {value}: 0 to {bits}, the number of bits, is needed.")
    return sum((-1) ** i * comb(number, i) * comb(bits - number, degree - i) for i in range(degree + 1))


@checked
def fourier_coefficients(profile: Profile) -> tuple[Fraction, ...]:
    """The Fourier coefficients ghat_r, r = 0, ..., l, of g(N) over uniform signs y.

    `profile` is g(0), ..., g(l); a float counts as its exact binary value. ValueError if it has fewer than two entries,
    or an entry that is not a finite number.

    Notes
    -----
    Since g is symmetric, all sets R of r coordinates have the same coefficient
    ghat_r = 2^-l sum_N C(l, N) g(N) K_r(N) / C(l, r). The arithmetic uses whole numbers over one denominator. Since
    sum_r K_r(N) z^r is (1 - z)^N (1 + z)^(l - N), the sums for all r are the coefficients of the polynomial
    sum_N C(l, N) g(N) (1 - z)^N (1 + z)^(l - N). Two shifts of a polynomial's variable compute it: O(l^2) additions.
    """
    return tuple(_coefficients(profile))


@checked
def profile_moments(profile: Profile) -> tuple[Fraction, Fraction]:
    """The mean and the variance of g(N), N binomial (l, 1/2), exactly."""
    mean, *others = _coefficients(profile)
    return mean, sum(_spread(others), Fraction(0))


@checked
def fourier_weights(profile: Profile) -> tuple[Fraction, ...]:
    """W_r, the share of the variance of g at degree r = 0, ..., l; W_0 = 0 and the rest add up to 1.

    W_r = C(l, r) ghat_r^2 / variance for r >= 1, and the variance is the sum of the numerators (Parseval). ValueError
    if g is constant. O(l^2), as `fourier_coefficients`.
    """
    return (Fraction(0), *_shares(_spread(_coefficients(profile)[1:])))


@checked
def overlap_correlations(profile: Profile) -> tuple[Fraction, ...]:
    """The correlation rho(o) of g(N_S) and g(N_T), |S| = |T| = l, for each overlap o = |S cap T| = 0, ..., l.

    S and T have C(o, r) common subsets of r coordinates, and only the characters of common subsets contribute. So
    rho(o) = sum_{r >= 1} C(o, r) ghat_r^2 / variance. It has rho(0) = 0 and rho(l) = 1, and is nonnegative and
    nondecreasing. The ghat_r^2 are the differences of rho at 0: O(l^2) additions. ValueError if g is constant.

    Examples
    --------
    >>> [str(one) for one in overlap_correlations([0, 0, 1, 0, 0])]
    ['0', '0', '1/15', '1/5', '1']
    """
    shares = _shares(_spread(_coefficients(profile)[1:]))
    bits = len(shares)
    squares = [Fraction(0), *(one / comb(bits, r) for r, one in enumerate(shares, start=1))]
    common = lcm(*(one.denominator for one in squares))
    values = _from_differences([one.numerator * (common // one.denominator) for one in squares])
    return tuple(Fraction(one, common) for one in values)


def _coefficients(profile: Profile) -> list[Fraction]:
    # ghat_0, ..., ghat_l
    try:
        # Fraction accepts no numpy scalars, but their Python values
        values = [Fraction(one.item() if isinstance(one, np.generic) else one) for one in profile]
    except (TypeError, ValueError, OverflowError):
        raise ValueError(
            "profile holds an entry that is no finite number: g(0), ..., g(l) are needed."
        ) from None
    if len(values) < 2:
        raise ValueError(f"profile has {len(values)} entries: g(0), ..., g(l), at least 2, are needed.")
    bits, common = len(values) - 1, lcm(*(one.denominator for one in values))
    sums = _character_sums([one.numerator * (common // one.denominator) for one in values])
    return [Fraction(one, comb(bits, r) * common << bits) for r, one in enumerate(sums)]


def _spread(coefficients: Sequence[Fraction]) -> list[Fraction]:
    # C(l, r) ghat_r^2 for r = 1, ..., l: they add up to the variance
    bits = len(coefficients)
    return [comb(bits, r) * one**2 for r, one in enumerate(coefficients, start=1)]


def _shares(spread: Sequence[Fraction]) -> list[Fraction]:
    variance = sum(spread, Fraction(0))
    if not variance:
        raise ValueError("profile is constant: a function that takes two values or more is needed.")
    return [one / variance for one in spread]


def _character_sums(whole: list[int]) -> list[int]:
    # 2^l C(l, r) ghat_r = sum_N C(l, N) g(N) K_r(N) for r = 0, ..., l: the coefficients of (1 + z)^l A((1 - z)/(1 + z))
    # with A(t) = sum_N C(l, N) g(N) t^N. With u = 1 + z that is u^l A(2/u - 1): shift A, reverse, shift back.
    bits = len(whole) - 1
    shifted = _shifted([comb(bits, n) * one * (-1) ** n for n, one in enumerate(whole)])
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

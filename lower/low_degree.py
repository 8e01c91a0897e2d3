"""Low-degree hardness: how much a polynomial of degree D in n labelled samples can see of a random secret."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Annotated

from attention.validation import PositiveInt, Real, Whole, checked
from lower.bounds import exact_fraction

Degree = Annotated[int, Whole(1, 512)]  # powers of polynomials take cubic time in the degree
FlipRate = Annotated[float, Real(least=0, below=0.5)]  # of labels that show something
_Rate = Annotated[float, Real(least=0, most=0.5)]
_MOST_POWER = 10_000  # digits of exact powers


@dataclass(frozen=True)
@checked
class SecretPairs:
    """Two independent random secrets S and T of a family: how their labels correlate, degree by degree.

    Low-degree advantages and statistical dimensions depend on a family only through these numbers. Kinds of pairs with
    the same correlations, such as pairs of sets with the same overlap, are listed once.

    Parameters
    ----------
    chances : sequence of number
        The probability of each kind of pair; they add up to 1.
    correlations : sequence of sequence of number
        For each kind, the correlation of the labels' means by degree r = 0, 1, ... in the inputs: entry r is the part
        of E m_S(X) m_T(X) at degree r, and entry 0 is 0. A float counts as its exact binary value.

    Notes
    -----
    Planted model: S is drawn once; each of n samples is an input X and a label b of -1 or 1 with mean m_S(X), where
    |m_S| <= 1 and E m_S = 0. Null model: the same X, and b a fair coin that does not depend on X. The likelihood ratio
    of one sample is 1 + b m_S(X). So with characters chi_A of the inputs (or other orthonormal polynomials graded by
    degree) the coefficient of prod_{i in I} b_i chi_{A_i}(X_i) in the likelihood ratio of n samples is
    E_S prod_i m_S^(A_i). The sum of squares up to total degree D, labels included, is

        sum_{t >= 1} C(n, t) E_{S,T} [z^{<= D}] (sum_r rho_r(S, T) z^(r + 1))^t

    with rho_r the correlation at degree r. This is the square of the low-degree advantage: the largest mean under the
    planted model of a polynomial of degree D with mean 0 and variance 1 under the null (Hopkins 2018). For a continuum
    of kinds, such as hidden vectors with a real overlap, take the nodes and weights of a quadrature.

    A real label that is known exactly says more than b. Nothing here speaks of tests that square it.

    Brennan et al. bound advantage and dimension each by the other.

    References
    ----------
    Hopkins 2018 for the advantage. Brennan, Bresler, Hopkins, Li, Schramm 2021 for the dimension, as later
    papers restate it; the theorems of the original were not compared. That a vanishing
    advantage means hardness is a conjecture, and its strongest forms are false (Buhai, Hsieh, Jain, Kothari 2025).

    Examples
    --------
    Ten orthogonal targets of degree 3 whose label means have the mean square 1/2:

    >>> pairs = SecretPairs.orthogonal(10, (0, 0, 0, Fraction(1, 2)))
    >>> pairs.squared_advantage(samples=40, degree=3), pairs.squared_advantage(samples=40, degree=4)
    (Fraction(0, 1), Fraction(2, 1))
    """

    chances: Sequence[Fraction | int | float]
    correlations: Sequence[Sequence[Fraction | int | float]]

    def __post_init__(self) -> None:
        if not 0 < len(self.chances) == len(self.correlations):
            raise ValueError(
                f"chances has {len(self.chances)} entries and correlations {len(self.correlations)}: one for each kind "
                "of pair is needed, and at least one kind."
            )
        if min(self.chances) < 0 or abs(float(sum(self.chances)) - 1) > 1e-9:
            raise ValueError(
                f"chances add up to {float(sum(self.chances)):.6g}: probabilities that add up to 1 are needed."
            )
        if any(one and one[0] for one in self.correlations):
            raise ValueError(
                "correlations has an entry at degree 0 that is not 0: label means without a constant part are needed."
            )

    @classmethod
    @checked
    def orthogonal(
        cls, targets: PositiveInt, correlations: Sequence[Fraction | int | float]
    ) -> "SecretPairs":
        """The pairs of N equally likely secrets: correlations by degree if both are the same, none otherwise."""
        same = Fraction(1, targets)
        return cls((same, 1 - same), (correlations, (0,)))

    @cached_property
    def totals(self) -> tuple[Fraction, ...]:
        """The whole correlation of each kind of pair, E m_S(X) m_T(X)."""
        return tuple(sum((Fraction(value) for value in one), Fraction(0)) for one in self.correlations)

    @property
    def lowest_degree(self) -> int | None:
        """The least degree, label included, at which any polynomial sees anything; None if none ever does."""
        seen = [degree for one in self.correlations for degree, value in enumerate(one) if value]
        return min(seen) + 1 if seen else None

    @checked
    def flipped(self, rate: _Rate) -> "SecretPairs":
        """The pairs if every label is flipped with this probability eta: correlations times (1 - 2 eta)^2."""
        factor = flip_factor(rate) ** 2
        return SecretPairs(self.chances, [[factor * value for value in one] for one in self.correlations])

    @checked
    def squared_advantage(self, *, samples: PositiveInt, degree: Degree | None = None) -> Fraction:
        """The square of the low-degree advantage: the squared norm of the likelihood ratio's part, without the 1.

        Parameters
        ----------
        samples : int
            The number n of samples; without a degree at most 10,000.
        degree : int, optional
            The largest total degree D in inputs and labels. When left out, any degree.

        Notes
        -----
        It is a sum of squares, so it grows with n and with D. O(D^2) products for each number of samples that a
        monomial of degree D can touch, and for each kind of pair.
        """
        if degree is not None:
            parts = [_series(one, samples, degree) for one in self.correlations]
        elif samples <= _MOST_POWER:
            parts = [(1 + total) ** samples - 1 for total in self.totals]
        else:
            raise ValueError(f"samples is {samples}: without a degree at most {_MOST_POWER} are allowed.")
        return sum(
            (Fraction(chance) * one for chance, one in zip(self.chances, parts, strict=True)), Fraction(0)
        )

    @checked
    def statistical_dimension(self, *, samples: PositiveInt) -> float:
        """SDA(m), m = `samples`: the largest q with average |correlation| <= 1/m on every likely event.

        `sq.statistical_dimension` is its other form, with sets of targets in place of events.

        Likely are the events of pairs (S, T) of probability at least 1/q^2. 0 if the average over all pairs is above
        1/m, infinite if no correlation is. An event may here take any part of a kind of pair; whole pairs allow fewer
        events, so their dimension is at least this. O(s log s) for s kinds.
        """
        level = Fraction(1, samples)
        ranked = sorted(
            ((abs(t), Fraction(c)) for t, c in zip(self.totals, self.chances, strict=True)), reverse=True
        )
        if ranked[0][0] <= level:
            return math.inf
        mass, excess = Fraction(0), Fraction(0)  # the integral of |correlation| - 1/m over the pairs so far
        for height, chance in ranked:
            slope = height - level
            if slope < 0 and excess + slope * chance <= 0:
                return 1 / math.sqrt(mass - excess / slope)
            mass, excess = mass + chance, excess + slope * chance
        return 0.0


@checked
def flip_factor(rate: _Rate) -> Fraction:
    """1 - 2 eta: what is left of the mean of a sign that is flipped with probability eta; eta the decimal it prints.

    Examples
    --------
    >>> flip_factor(0.1)
    Fraction(4, 5)
    """
    return 1 - 2 * exact_fraction("rate", rate)


def _series(row: Sequence[Fraction | int | float], samples: int, degree: int) -> Fraction:
    """The sum over t >= 1 of C(n, t) times the part of (sum_r rho_r z^(r + 1))^t up to degree D, at z = 1."""
    steps = [(r + 1, Fraction(one)) for r, one in enumerate(row) if one]
    power: dict[int, Fraction] = {0: Fraction(1)}
    total: Fraction = Fraction(0)
    for t in range(1, samples + 1):
        raised: dict[int, Fraction] = {}
        for low, one in power.items():
            for more, other in steps:
                if low + more <= degree:
                    raised[low + more] = raised.get(low + more, 0) + one * other
        if not any((power := raised).values()):
            break
        total += math.comb(samples, t) * sum(power.values())
    return total

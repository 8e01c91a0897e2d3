"""The family of periodic neurons: heads that make a periodic wave along a hidden direction of Gaussian tokens."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import combinations_with_replacement
from typing import Annotated, Any

import numpy as np
from jaxtyping import Float

from attention.validation import Real
from lower import Fact, Key, Status, Word, option, register
from sq.single_index import SingleIndexFamily

__all__ = ["PeriodicFamily"]

_MARGIN = 19.0  # heads beyond the range make the cut at most 4 e^-38
_DIGITS = 42.0  # harmonics below e^-42 are left out
_VANISHING = 800.0  # e^-800 is 0 in float64
_BITS = 160  # of numbers that are rounded to float64 at the end


@register
@dataclass(frozen=True, kw_only=True)
class PeriodicFamily(SingleIndexFamily):
    """A hidden direction u whose heads make a periodic wave: y = phi(<u, x>) with frequency gamma.

    Notes
    -----
    Let h = 1/(2 gamma), sigma the sharpness and beta = sigma/h. The heads have thresholds j h for |j| <= J and
    coefficients (-1)^j. With all j their sum is

    phi(s) = sum_j (-1)^j tanh(beta (s - j h)) = sum_{n>=0} b_n sin(omega_n s),
    b_n = (2 pi/sigma) / sinh((2n + 1) pi^2/(2 sigma)), omega_n = (2n + 1) pi/h.

    Proof: the derivative is a sum of shifted sech^2 of alternating sign, whose Fourier series follows from the
    transform (pi omega/beta) / sinh(pi omega/(2 beta)) of beta sech^2(beta s). So phi is odd, has period 2h = 1/gamma,
    and is Jacobi's elliptic sine up to scales. For large sigma it is a square wave.

    *Error.* Proved: for |s| <= R <= J h the heads left out contribute two alternating series of decreasing terms, as
    the constants 1 and -1 cancel in pairs. The first terms are at most 2 e^(-2 beta ((J + 1) h - R)), so the sum of the
    heads is within 4 e^(-2 sigma (J + 1 - R/h)) of phi. Beyond the range R the target is defined as the sum of these
    heads. A token is beyond it with probability P = erfc(R/sqrt 2). Both functions stay within [-1, 1], as alternating
    sums of decreasing terms do. So they differ by a mean square of at most 4 P, and norms by a share of at most
    P/E phi^2, which is below 4e-11.

    *Correlations.* E sin(a s) sin(b t) = (e^(-(a^2 + b^2)/2 + a b rho) - e^(-(a^2 + b^2)/2 - a b rho))/2 for normals s,
    t of correlation rho, so correlations have a closed form. sin(omega s) has the Hermite coefficient
    (-1)^((k-1)/2) omega^k e^(-omega^2/2) / sqrt(k!) at odd k: the shares follow a Poisson law of mean omega^2, and low
    degrees see e^(-omega^2), omega = 2 pi gamma.

    *Size.* About 4 gamma R heads.

    References
    ----------
    Song, Zadik and Bruna 2021, "On the cryptographic hardness of learning single periodic neurons": with label noise
    of inverse polynomial size and gamma >= 2 sqrt(n) a polynomial-time learner implies a quantum one for worst-case
    lattice problems; without noise lattice reduction learns such functions. Bruna, Regev, Song and Tang 2021,
    "Continuous LWE" (arXiv 2005.09595). Later work needs gamma of about sqrt(log n), under a stronger assumption. So
    nothing is claimed for a fixed gamma as d grows. Only the abstracts were at hand.

    Examples
    --------
    >>> family = PeriodicFamily(dim=8, gamma=1.0)
    >>> instance = family.instance(rng=0)
    >>> instance.layer, instance.realisation_error < 1e-12
    (AttentionLayer(heads=51, dim=8, dtype=float64), True)
    """

    name = "sq-periodic"
    called = "Periodic wave of frequency {gamma:g}"
    gamma: Annotated[float, Real(least=0.01, most=100)] = option("Frequency of the wave.", default=2.0)
    sharpness: Annotated[float, Real(least=0.5, most=40)] = option(
        "Slope times half a period: near 3 a sine, 40 a square wave.", default=3.0
    )
    reach: Annotated[float, Real(least=9, most=40)] = option(
        "Half the range on which the wave is periodic, in standard deviations; more raises small bounds.",
        default=9.0,
    )

    @classmethod
    def with_growing_frequency(cls, dim: int, **parameters: Any) -> "PeriodicFamily":
        """The family with gamma = 2 sqrt(n), n = dim - 1: the least frequency that the reduction from lattices covers.

        Examples
        --------
        >>> PeriodicFamily.with_growing_frequency(dim=17).gamma
        8.0
        """
        return cls(dim=dim, gamma=2 * math.sqrt(dim - 1), **parameters)

    @property
    def beta(self) -> float:
        """sigma/h."""
        return 2 * self.gamma * self.sharpness

    @property
    def half_period(self) -> float:
        """h, the distance of thresholds."""
        return self.sharpness / self.beta

    @cached_property
    def _places(self) -> np.ndarray:
        last = math.ceil(self.reach / self.half_period) + math.ceil(_MARGIN / self.sharpness)
        return np.arange(-last, last + 1)

    @cached_property
    def thresholds(self) -> Float[np.ndarray, " m"]:
        """J h for |j| <= J."""
        return self._places * self.half_period

    @property
    def logits(self) -> Sequence[Fraction]:
        """J sigma."""
        return [Fraction(self.sharpness) * j for j in self._places.tolist()]

    @property
    def coefficients(self) -> Float[np.ndarray, " m"]:
        """(-1)^j."""
        return (-1.0) ** self._places

    @property
    def cut(self) -> float:
        """4 e^(-2 sigma (J + 1 - R/h)), rounded up."""
        import mpmath

        left = int(self._places[-1]) + 1 - self.reach / self.half_period
        with mpmath.workprec(_BITS):
            return float(4 * mpmath.exp(-2 * mpmath.mpf(self.sharpness) * left)) * (1 + 1e-9)

    @property
    def outside(self) -> float:
        """The probability P that a token is beyond the range."""
        import mpmath

        with mpmath.workprec(_BITS):
            return float(mpmath.erfc(self.reach / mpmath.sqrt(2)))

    @property
    def beyond(self) -> float:
        """4 P/E phi^2."""
        return 4 * self.outside / self.variance

    def link(self, s: Float[np.ndarray, "*n"]) -> Float[np.ndarray, "*n"]:
        """Phi, by its heads within one period and their neighbours."""
        near = np.arange(-2 - math.ceil(_MARGIN / self.sharpness), 3 + math.ceil(_MARGIN / self.sharpness))
        h = self.half_period
        s = np.asarray(s, dtype=np.float64)
        s = s - 2 * h * np.rint(s / (2 * h))
        return np.asarray(np.tanh(self.beta * (s[..., None] - near * h)) @ (-1.0) ** near)

    @cached_property
    def harmonics(self) -> tuple[Float[np.ndarray, " n"], Float[np.ndarray, " n"]]:
        """b_n and omega_n."""
        import mpmath

        n = 2 * np.arange(math.ceil(_DIGITS * self.sharpness / math.pi**2) + 1) + 1
        with mpmath.workprec(_BITS):
            sigma = mpmath.mpf(self.sharpness)
            sizes = [
                2 * mpmath.pi / sigma / mpmath.sinh(one * mpmath.pi**2 / (2 * sigma)) for one in n.tolist()
            ]
            return np.array([float(one) for one in sizes]), n * math.pi / self.half_period

    def _mean(self, rho: float) -> float:
        """E phi(s) phi(t) for normals of correlation rho, by arithmetic that is the same on every machine."""
        import mpmath

        b, omega = ([mpmath.mpf(one) for one in part.tolist()] for part in self.harmonics)
        with mpmath.workprec(_BITS):
            total, rho = mpmath.mpf(0), mpmath.mpf(rho)
            for i, j in combinations_with_replacement(range(len(b)), 2):
                square, crossed = -(omega[i] ** 2 + omega[j] ** 2) / 2, rho * omega[i] * omega[j]
                for sign in (1, -1):
                    if (exponent := square + sign * crossed) > -_VANISHING:
                        total += sign * (1 if i == j else 2) * b[i] * b[j] * mpmath.exp(exponent) / 2
            return float(total)

    @cached_property
    def variance(self) -> float:
        """E phi^2."""
        return self._mean(1.0)

    def correlation(self, rho: Float[np.ndarray, "*n"]) -> Float[np.ndarray, "*n"]:
        """The correlation of two targets, in closed form."""
        b, omega = self.harmonics
        squares = -np.add.outer(omega**2, omega**2) / 2
        crossed = np.multiply.outer(np.asarray(rho, dtype=np.float64), np.multiply.outer(omega, omega))
        terms = (np.exp(squares + crossed) - np.exp(squares - crossed)) / 2
        return np.asarray(np.einsum("...ij,i,j", terms, b, b) / self.variance)

    @cached_property
    def overlap_correlations(self) -> Float[np.ndarray, " overlaps"]:
        """`correlation` at rho = overlap/l, the same on every machine."""
        bits = self.secrets.bits
        return np.array([self._mean(overlap / bits) / self.variance for overlap in range(bits + 1)])

    @cached_property
    def hermite(self) -> Float[np.ndarray, " degrees"]:
        """The coefficients up to degree (omega_0 + 9)^2, where the first harmonic ends."""
        b, omega = self.harmonics
        k = np.arange(math.ceil((omega[0] + 9) ** 2))
        total = np.zeros(len(k))
        for size, one in zip(b.tolist(), omega.tolist(), strict=True):
            total += size * _poisson_roots(one, len(k))
        return np.where(k % 2, (-1.0) ** (k // 2), 0.0) * total

    @property
    def broken_by(self) -> tuple[Word, ...]:
        """Lattice reduction: a label gives <u, x> modulo a period, up to a reflection (`sq.PeriodicLattice`)."""
        return (Word.LATTICE,)

    def further_facts(self) -> Sequence[Fact]:
        """The range of the wave."""
        return [Fact(Key.BEYOND_RANGE, self.outside, Status.DERIVED, "the docstring of sq.PeriodicFamily")]


def _poisson_roots(omega: float, size: int) -> Float[np.ndarray, " size"]:
    """omega^k e^(-omega^2/2) / sqrt(k!) for k = 0, 1, ...: from the largest on, by products in a fixed order."""
    import mpmath

    peak = min(size - 1, int(omega * omega))
    with mpmath.workprec(_BITS):
        w = mpmath.mpf(omega)
        largest = float(mpmath.exp(peak * mpmath.log(w) - w * w / 2 - mpmath.loggamma(peak + 1) / 2))
    after, before = np.arange(peak + 1, size), np.arange(peak, 0, -1)
    up = np.cumprod(np.append(largest, omega / np.sqrt(after)))
    down = np.cumprod(np.append(largest, np.sqrt(before) / omega))
    return np.concatenate([down[:0:-1], up])

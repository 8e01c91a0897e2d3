"""The family of periodic neurons: heads that make a periodic wave along a hidden direction of Gaussian tokens."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Annotated, Any

import numpy as np
from jaxtyping import Float
from scipy.special import gammaln

from attention.validation import Real
from lower import Statement, option, register
from sq.single_index import SingleIndexFamily

__all__ = ["PeriodicFamily"]

_MARGIN = 19.0  # heads beyond the range make the cut at most 4 e^-38
_DIGITS = 42.0  # harmonics below e^-42 are left out


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
        left = int(self._places[-1]) + 1 - self.reach / self.half_period
        return 4 * math.exp(-2 * self.sharpness * left) * (1 + 1e-9)

    @property
    def outside(self) -> float:
        """The probability P that a token is beyond the range."""
        return math.erfc(self.reach / math.sqrt(2))

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
        n = 2 * np.arange(math.ceil(_DIGITS * self.sharpness / math.pi**2) + 1) + 1
        sizes = 2 * math.pi / self.sharpness / np.sinh(n * math.pi**2 / (2 * self.sharpness))
        return sizes, n * math.pi / self.half_period

    def _mean(self, rho: np.ndarray) -> np.ndarray:
        """E phi(s) phi(t) for normals of correlation rho."""
        b, omega = self.harmonics
        squares = -np.add.outer(omega**2, omega**2) / 2
        crossed = np.multiply.outer(rho, np.multiply.outer(omega, omega))
        terms = (np.exp(squares + crossed) - np.exp(squares - crossed)) / 2
        return np.asarray(np.einsum("...ij,i,j", terms, b, b))

    @cached_property
    def variance(self) -> float:
        """E phi^2."""
        return float(self._mean(np.ones(())))

    def correlation(self, rho: Float[np.ndarray, "*n"]) -> Float[np.ndarray, "*n"]:
        """The correlation of two targets, in closed form."""
        return np.asarray(self._mean(np.asarray(rho, dtype=np.float64)) / self.variance)

    @cached_property
    def hermite(self) -> Float[np.ndarray, " degrees"]:
        """The coefficients up to degree (omega_0 + 9)^2, where the first harmonic ends."""
        b, omega = self.harmonics
        k = np.arange(math.ceil((omega[0] + 9) ** 2))
        sizes = np.exp(np.multiply.outer(k, np.log(omega)) - omega**2 / 2 - gammaln(k + 1)[:, None] / 2)
        return np.where(k % 2, (-1.0) ** (k // 2), 0.0) * (sizes @ b)

    shortcut = ""

    @property
    def broken_by(self) -> tuple[str, str]:
        """Lattice reduction."""
        return (
            "lattice reduction (LLL), without label noise",
            "A label gives <u, x> modulo a period, up to a reflection. With 44 bits of each label the right multiples "
            "of the period are the shortest vector of a lattice (sq.PeriodicLattice). With noise of inverse polynomial "
            "size on the labels a polynomial-time learner would solve worst-case lattice problems on a quantum "
            "computer (Song, Zadik and Bruna 2021; for which frequencies is not checked here).",
        )

    def further_statements(self) -> Sequence[Statement]:
        """The range of the wave."""
        return [
            Statement.derived(
                "probability beyond the range",
                self.outside,
                f"The wave is periodic for |<u, x>| <= {self.reach:g}; beyond, the target is the sum of the heads.",
            )
        ]

"""The family of staircases of a chosen information exponent: heads along one direction of Gaussian tokens."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Annotated, Any

import numpy as np
from jaxtyping import Float

from attention.validation import Real, Whole
from lower import Statement, option, register
from sq.single_index import SingleIndexFamily

__all__ = ["HermiteStaircaseFamily"]

_DEGREES = 400
_FURTHEST = 8  # no threshold is further out
_CANCELLED = 1e-8  # below this share of the heads' sizes, rounding spoils the degrees of their sum
_EDGE = 14  # the normal density times Hermite functions vanishes beyond it


@register
@dataclass(frozen=True, kw_only=True)
class HermiteStaircaseFamily(SingleIndexFamily):
    """p heads along a hidden direction whose sum is orthogonal to all polynomials of degree 1 to p - 1.

    ValueError if the numbers are out of range.

    Notes
    -----
    g(s) = sum_i c_i tanh(beta (s - t_i)) with p thresholds, `spacing` apart and symmetric about 0. The c_i are equal at
    t and -t for odd p and opposite for even p, which removes one half of the Hermite coefficients. The other conditions
    are ceil(p/2) - 1 linear equations, solved with 40 digits and rounded, so the coefficients below p vanish up to
    rounding: p is the information exponent.

    In the limit of large beta g is a staircase with E sign(s - t) h_k(s) = 2 phi(t) He_{k-1}(t)/sqrt(k!), where phi is
    the normal density. Proved for that limit: c_i = 1/(phi(t_i) prod_{j != i} (t_i - t_j)) makes the sum over heads a
    divided difference over p points of a polynomial of degree k - 1. It is 0 for k < p and not 0 for k = p. At finite
    beta this is measured: the certificate has the numbers.

    Integrals are sums over equidistant points. The integrand is analytic in a strip of half-width pi/(2 beta), so
    distances of 0.24/beta have errors below 1e-16 (0.13/beta: 1e-30).

    References
    ----------
    Damian, Pillaud-Vivien, Lee and Bruna 2024, "Computational-statistical gaps in Gaussian single-index models"
    (abstract read); Ben Arous, Gheissari and Jagannath 2021 for the information exponent (not checked).

    Examples
    --------
    >>> family = HermiteStaircaseFamily(dim=12, exponent=3)
    >>> family.coefficients, family.lowest_degree
    (array([ 0.8048911, -1.       ,  0.8048911]), 3)
    """

    name = "sq-hermite-staircase"
    called = "Staircase of exponent {exponent}"
    exponent: Annotated[int, Whole(1, 12)] = option("Information exponent p, and number of heads.", default=3)
    spacing: Annotated[float, Real(least=0.01, most=10)] = option("Distance of thresholds.", default=1.0)
    slope: Annotated[float, Real(least=0.01, most=40)] = option("Slope of all heads.", default=4.0)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.spacing * (self.exponent - 1) > 2 * _FURTHEST:
            raise ValueError(
                f"spacing is {self.spacing:g}: with {self.exponent} heads at most "
                f"{2 * _FURTHEST / (self.exponent - 1):.4g} is allowed, as no token is near the outer thresholds."
            )

    @property
    def beta(self) -> float:
        """The slope."""
        return self.slope

    @property
    def thresholds(self) -> Float[np.ndarray, " m"]:
        """(i - (p - 1)/2) times the spacing."""
        return self.spacing * (np.arange(self.exponent) - (self.exponent - 1) / 2)

    @property
    def logits(self) -> Sequence[Fraction]:
        """Beta t_i."""
        return [Fraction(self.slope) * Fraction(t) for t in self.thresholds.tolist()]

    @cached_property
    def coefficients(self) -> Float[np.ndarray, " m"]:
        """The solution of the linear equations whose largest entry is 1."""
        from mpmath import mp

        half = (self.exponent + 1) // 2
        with mp.workdps(40):
            solved = [mp.mpf(1)]
            if self._moments:
                equations = mp.matrix([one[1:] for one in self._moments])
                solved.extend(mp.lu_solve(equations, mp.matrix([-one[0] for one in self._moments])))
            largest = max(map(abs, solved))
            outer = [float(one / largest) for one in solved]  # from the lowest threshold to the middle
        sign = 1.0 if self.exponent % 2 else -1.0
        mirrored = [sign * one for one in reversed(outer[: self.exponent - half])]
        return np.array([*outer, *mirrored])

    @cached_property
    def _moments(self) -> list[list[Any]]:
        """E B_i(s) h_k(s) with 40 digits, for every k from 1 to p - 1 that has the parity of p.

        B_i is the sum of the heads at t_i and -t_i with coefficients 1 and +-1. Read it with 40 digits set.
        """
        from mpmath import mp

        degrees = range(2 - self.exponent % 2, self.exponent, 2)
        beta, sign = mp.mpf(self.slope), (1 if self.exponent % 2 else -1)
        outer = [mp.mpf(t) for t in self.thresholds.tolist()[: (self.exponent + 1) // 2]]
        step = mp.mpf(min(0.13 / self.slope, 0.3))
        found = [[mp.mpf(0) for _ in outer] for _ in degrees]
        for place in range(int(_EDGE / step) + 1):
            s = place * step
            weight = step * mp.npdf(s) * (2 if place else 1)
            heads = [mp.tanh(beta * (s - t)) + sign * mp.tanh(beta * (s + t)) * (t != 0) for t in outer]
            values = _hermite_values(s, max(degrees, default=0), mp.sqrt)
            for row, k in zip(found, degrees, strict=True):
                for i, one in enumerate(heads):
                    row[i] += weight * one * values[k]
        return found

    def link(self, s: Float[np.ndarray, "*n"]) -> Float[np.ndarray, "*n"]:
        """G, the sum of the heads."""
        s = np.asarray(s, dtype=np.float64)[..., None]
        return np.asarray(np.tanh(self.slope * (s - self.thresholds)) @ self.coefficients)

    @cached_property
    def _grid(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        step = min(0.24 / self.slope, 0.04)
        s = step * np.arange(-int(_EDGE / step), int(_EDGE / step) + 1)
        return s, step * np.exp(-(s**2) / 2) / math.sqrt(2 * math.pi), self.link(s)

    @cached_property
    def variance(self) -> float:
        """E (g - c0)^2. ValueError if the heads cancel up to rounding."""
        _, weights, g = self._grid
        found = float(weights @ (g - self.c0) ** 2)
        if math.sqrt(found) < _CANCELLED * np.abs(self.coefficients).sum():
            raise ValueError(
                f"spacing is {self.spacing:g} and slope {self.slope:g}: {self.exponent} such heads cancel up to "
                "rounding; raise one of the two, or lower exponent."
            )
        return found

    @cached_property
    def hermite(self) -> Float[np.ndarray, " degrees"]:
        """The coefficients up to degree 400."""
        s, weights, g = self._grid
        return np.array([float(weights @ (g * one)) for one in _hermite_values(s, _DEGREES, math.sqrt)])

    @cached_property
    def share_below(self) -> float:
        """What the rounding of the c_i leaves below degree p, with 40 digits."""
        from mpmath import mp

        with mp.workdps(40):
            outer = self.coefficients.tolist()[: (self.exponent + 1) // 2]
            sums = [mp.fdot(row, map(mp.mpf, outer)) for row in self._moments]
            return float(2 * sum((one**2 for one in sums), mp.mpf(0)) / self.scale**2)

    @cached_property
    def leak(self) -> tuple[int, float]:
        """The power q of labels from 2 to 5 that shows most at degree 1 (odd g) or 2 (even g), and its correlation.

        E (g - c0)^q h / sqrt(E (g - c0)^(2q)), with the Hermite polynomial h of that degree.
        """
        s, weights, g = self._grid
        g = g - self.c0
        h = s if self.odd else (s**2 - 1) / math.sqrt(2)
        powers = (3, 5) if self.odd else (2, 3, 4, 5)
        seen = {q: float(weights @ (g**q * h) / math.sqrt(weights @ g ** (2 * q))) for q in powers}
        return max(seen.items(), key=lambda one: abs(one[1]))

    @property
    def shortcut(self) -> str:
        """Powers of labels."""
        return f"Labels to the power {self.leak[0]} show it to other queries, whatever the exponent."

    @property
    def broken_by(self) -> tuple[str, str]:
        """Powers of labels, and polynomials of degree p."""
        return (
            f"labels to the power {self.leak[0]}",
            f"Without the known part, they have correlation {self.leak[1]:.4g} with the Hermite polynomial of degree "
            f"{1 if self.odd else 2} along the direction, so means of products show it. Correlational queries need "
            f"degree {self.exponent}. For all statistical queries the generative exponent counts (Damian and others "
            "2024, arXiv 2403.05529).",
        )

    def further_statements(self) -> Sequence[Statement]:
        """The shares at degree p and of powers of labels."""
        said = f"The share of the variance at degree {self.exponent}, the information exponent."
        return [Statement.derived("share at degree p", float(self.weights[self.exponent]), said)]


def _hermite_values(s: Any, most: int, root: Any) -> list[Any]:
    """h_0(s), ..., h_most(s), normalised: h_{k+1} = (s h_k - sqrt(k) h_{k-1}) / sqrt(k + 1)."""
    values = [0 * s + 1, s]
    for k in range(1, most):
        values.append((s * values[k] - root(k) * values[k - 1]) / root(k + 1))
    return values[: most + 1]

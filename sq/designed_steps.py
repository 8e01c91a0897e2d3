"""Staircases designed so that all low degrees vanish: m steps, none of the degrees 1, ..., m - 1."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np
from jaxtyping import Float

from attention._arrays import shown
from attention.validation import count, non_negative, real_array
from lower import SATURATED_SLOPE
from sq.realisation import require_realisable
from sq.symmetric import ProfileHeads, SymmetricFamily, staircase_profile

__all__ = ["DesignedStepsFamily", "designed_coefficients"]


@dataclass(frozen=True, kw_only=True)
class DesignedStepsFamily(SymmetricFamily):
    """A staircase of m steps whose degrees 1, ..., m - 1 all vanish, at any m thresholds.

    Parameters
    ----------
    dim : int
        The number d of coordinates of a token, more than `bits`.
    bits : int
        The number l of hidden coordinates.
    heads_count : int, optional
        The number m of heads, from 1 to l; as many as there are thresholds, or two, when left out.
    thresholds : tuple of float, optional
        The m distinct half-integers between 0 and l; spread evenly when left out.
    beta : float
        The slope of all heads.

    Raises
    ------
    ValueError
        If there are more heads than bits, or the thresholds are not distinct half-integers between 0 and l.

    Notes
    -----
    Proved: the degree-r coefficient of sign(N - n - 1/2) is a constant of r times C(l - 1, n) K_{r-1}(n), the
    Krawtchouk polynomial of l - 1 bits, of degree r - 1 in n. With c_i = 1 / (C(l - 1, n_i) prod_{j != i} (n_i - n_j))
    the sum over heads is a divided difference of that polynomial over m points: 0 for r < m, and its leading
    coefficient, not 0, for r = m. So the lowest degree is exactly m (2m + 1 in X), and up to scale no other
    coefficients do as much.

    What breaks it: C(d - 1, m) products of m differences, since degree m holds much of the variance (.7895 at l = 6,
    m = 4). Labels take several values, so the bounds for correlational queries say nothing of other queries.

    References
    ----------
    Derived here.

    Examples
    --------
    >>> family = DesignedStepsFamily(dim=20, bits=6, heads_count=4)
    >>> family.heads.thresholds, family.heads.coefficients
    (array([0.5, 2.5, 3.5, 5.5]), array([-1. ,  0.5, -0.5,  1. ]))
    >>> round(float(family.weights[4]), 4), round(float(family.overlap_correlations[4]), 4)
    (0.7895, 0.0526)
    """

    heads_count: int | None = None
    thresholds: tuple[float, ...] | None = None
    beta: float = SATURATED_SLOPE

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "beta", non_negative("beta", self.beta, strictly=True))
        if self.thresholds is not None:
            given = real_array("thresholds", self.thresholds)
            if given.ndim != 1:
                raise ValueError(
                    f"thresholds is {shown(self.thresholds)}: a sequence of half-integers is needed."
                )
            object.__setattr__(self, "thresholds", tuple(map(float, given)))
        m = self.heads_count
        if m is None:
            m = 2 if self.thresholds is None else len(self.thresholds)
        m = count("heads_count", m)
        if m > self.bits:
            raise ValueError(f"heads_count is {m}: 1 to {self.bits}, the number of bits, is needed.")
        own = _even_thresholds(self.bits, m) if self.thresholds is None else tuple(sorted(self.thresholds))
        if len(own) != m:
            raise ValueError(f"heads_count is {m} with {len(own)} thresholds: one a head is needed.")
        object.__setattr__(self, "heads_count", m)
        object.__setattr__(self, "thresholds", own)
        designed_coefficients(self.bits, own)

    @property
    def name(self) -> str:
        """The family's name."""
        return "designed-steps"

    @cached_property
    def profile(self) -> Float[np.ndarray, " values"]:
        """The steps' sum: 2 c_i gained at t_i, from minus the sum of all c_i on."""
        return staircase_profile(self.bits, self.heads)

    @cached_property
    def heads(self) -> ProfileHeads:
        """The thresholds with their designed coefficients."""
        own = self.thresholds or ()
        coefficients = np.array([float(one) for one in designed_coefficients(self.bits, own)])
        return ProfileHeads(np.array(own), coefficients, np.full(len(own), float(self.beta)))

    @property
    def lowest_degree(self) -> int:
        """2m + 1, as proved: at many bits the weight there is below what rounding leaves of the lower ones."""
        return 2 * len(self.thresholds or ()) + 1


def designed_coefficients(
    bits: int, thresholds: Sequence[float] | Float[np.ndarray, " m"]
) -> tuple[Fraction, ...]:
    """The coefficients, largest size 1 and the last one positive, whose steps have no degrees 1, ..., m - 1.

    Parameters
    ----------
    bits : int
        The number l of coordinates.
    thresholds : sequence of float (m,)
        Distinct half-integers between 0 and l.

    Raises
    ------
    ValueError
        If the thresholds are not distinct half-integers between 0 and l.

    Notes
    -----
    c_i = 1 / (C(l - 1, n_i) prod_{j != i} (n_i - n_j)) with n_i = t_i - 1/2, up to scale; proved in
    `DesignedStepsFamily`. O(m^2).

    Examples
    --------
    >>> [str(one) for one in designed_coefficients(6, [0.5, 2.5, 3.5, 5.5])]
    ['-1', '1/2', '-1/2', '1']
    """
    bits = count("bits", bits)
    require_realisable(bits)
    own = real_array("thresholds", thresholds)
    fits = (
        own.ndim == 1 and len(own) > 0 and np.all(np.mod(own, 1) == 0.5) and len(np.unique(own)) == len(own)
    )
    if not fits or own.min() < 0 or own.max() > bits:
        raise ValueError(
            f"thresholds is {thresholds}: distinct half-integers between 0 and {bits}, such as 0.5, are needed."
        )
    below = [int(one - 0.5) for one in own]
    found = [
        Fraction(1, math.comb(bits - 1, n) * math.prod(n - other for other in below if other != n))
        for n in below
    ]
    largest = max(abs(one) for one in found)
    return tuple(one / (largest if found[-1] > 0 else -largest) for one in found)


def _even_thresholds(bits: int, heads: int) -> tuple[float, ...]:
    if heads == 1:
        return ((bits - 1) // 2 + 0.5,)
    # rounded towards the centre on one side and mirrored on the other: symmetric, and never two alike
    steps = heads - 1
    lower = [(2 * i * (bits - 1) + steps) // (2 * steps) for i in range((heads + 1) // 2)]
    upper = [bits - 1 - one for one in lower[: heads // 2]]
    return tuple(one + 0.5 for one in sorted(lower + upper))

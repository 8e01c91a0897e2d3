"""Gram matrices of hidden parts: the matrix, which way it was found, and how far it may be off."""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from jaxtyping import Float, Int

__all__ = ["MOST_DENSE", "GramMatrix", "Way"]

Way = Literal["closed form", "full enumeration", "Monte Carlo"]

MOST_DENSE = 4096
"""Beyond this many targets no matrix is made: 4096^2 numbers are 128 MiB, 82251^2 would be 50 GiB."""

# float64 sums of at most 2^25 products of numbers about 1
_ROUNDING = 1e-11


@dataclass(frozen=True, eq=False)
class GramMatrix:
    """The matrix of E sum_a f_S(X)_a f_T(X)_a over some targets of a family.

    Attributes
    ----------
    matrix : array (N, N)
        The correlations; symmetric.
    numbers : array of int (N,)
        Which targets.
    way : "closed form", "full enumeration" or "Monte Carlo"
        How it was found. The first is a formula, the second exact up to `rounding`, the third an estimate.
    rounding : float
        What every entry may be off for rounding.
    confidence : float, optional
        The level of the intervals; None where the matrix is no estimate.
    half_widths : array (N, N), optional
        Half the width of each entry's own interval: one entry lies in its interval with probability `confidence`.
    simultaneous : array (N, N), optional
        The same for all entries at once: with probability `confidence` none lies outside.
    proved : bool
        Whether the intervals hold at every sample size (or there are none), not only in the limit of many samples.
    samples : int
        How many inputs were looked at; 0 for a formula.
    """

    matrix: Float[np.ndarray, "N N"]
    numbers: Int[np.ndarray, " N"]
    way: Way
    rounding: float = _ROUNDING
    confidence: float | None = None
    half_widths: Float[np.ndarray, "N N"] | None = None
    simultaneous: Float[np.ndarray, "N N"] | None = None
    proved: bool = True
    samples: int = 0

    @property
    def size(self) -> int:
        """N, the number of targets."""
        return len(self.numbers)

    def __len__(self) -> int:
        return self.size

    def __str__(self) -> str:
        level = ""
        if self.simultaneous is not None:
            kind = "proved" if self.proved else "asymptotic"
            level = (
                f", within {self.simultaneous.max():.3g} of the truth on all entries at {self.confidence:.4g} "
                f"confidence ({kind}, {self.samples} inputs)"
            )
        return (
            f"Gram matrix of {len(self)} targets by {self.way}{level}: diagonal from {np.diag(self.matrix).min():.6g} "
            f"to {np.diag(self.matrix).max():.6g}, largest |off-diagonal| {self.largest_off_diagonal():.6g}."
        )

    def largest_off_diagonal(self) -> float:
        """The largest |correlation| of two different targets; 0 where there is but one."""
        off = np.abs(self.matrix)
        np.fill_diagonal(off, 0.0)
        return float(off.max())

    def largest_eigenvalue(self) -> float:
        """lambda_max, to float64 accuracy; O(N^3)."""
        from scipy.linalg import eigvalsh

        last = len(self) - 1
        return float(eigvalsh(self.matrix, subset_by_index=[last, last])[0])

    def disagreement(self, other: "GramMatrix") -> float:
        """By how much entries of two matrices differ beyond what both may be off: 0 when they agree.

        For estimates that is the simultaneous interval, so matrices of the same targets agree with probability
        at least `confidence` (to the extent that the intervals are proved).

        Raises
        ------
        ValueError
            If they are not of the same targets.
        """
        if not np.array_equal(self.numbers, other.numbers):
            raise ValueError(
                "The Gram matrices are of different targets: only those of the same compare, in the same order."
            )
        allowed = np.full(self.matrix.shape, self.rounding + other.rounding)
        for one in (self, other):
            if one.simultaneous is not None:
                allowed = allowed + one.simultaneous
        return float(np.maximum(np.abs(self.matrix - other.matrix) - allowed, 0.0).max())

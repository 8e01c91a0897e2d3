"""Gram matrices that depend on overlaps only: kernels of the Johnson scheme, never formed for large families."""

import numbers
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import comb
from typing import Any

import numpy as np
from jaxtyping import Float

from attention._arrays import shown
from attention.validation import checked
from sq.secret_set import SecretSet

MOST_DENSE = 4096
"""The most targets of a matrix: 4096^2 numbers are 128 MiB, 82251^2 would be 50 GiB."""


@dataclass(frozen=True)
@checked
class OverlapGram:
    """The Gram matrix whose entry (S, T) is `values[|S cap T|]`, with exact eigenvalues.

    Parameters
    ----------
    secrets : SecretSet
        The secrets S: l-subsets of n = dim - first coordinates.
    values : sequence of l + 1 numbers
        The correlation at overlap 0 to l; rationals stay exact, a float counts as its exact binary value.

    Notes
    -----
    The kernel commutes with all permutations of the coordinates. Its eigenspaces are those of the Johnson scheme
    J(n, l). Its eigenvalue on space j is sum_i values[l - i] E_i(j) with the Eberlein polynomials
    E_i(j) = sum_t (-1)^t C(j, t) C(l - j, i - t) C(n - l - j, i - t). All arithmetic is in exact rationals.

    References
    ----------
    Delsarte 1973, "An algebraic approach to the association schemes of coding theory", section 4.2.

    Examples
    --------
    >>> kernel = OverlapGram(SecretSet(dim=6, bits=2), (0, Fraction(1, 4), 1))
    >>> [str(value) for value in kernel.eigenvalues]
    ['5/2', '5/4', '1/2']
    """

    secrets: SecretSet
    values: Sequence[Any]

    def __post_init__(self) -> None:
        secrets = self.secrets
        if not isinstance(self.values, Sequence) or len(self.values) != secrets.bits + 1:
            raise ValueError(
                f"values is {shown(self.values)}: one for each overlap 0 to l = {secrets.bits} is needed."
            )
        if secrets.size != comb(secrets.dim - secrets.first, secrets.bits):
            raise ValueError(
                f"There are {secrets.size} secrets: all {secrets.bits}-subsets of the coordinates from {secrets.first} "
                f"to {secrets.dim - 1}, and nothing else, are needed; use a dense Gram matrix."
            )
        object.__setattr__(self, "values", tuple(_exact(value) for value in self.values))

    @property
    def size(self) -> int:
        """N, the number of targets, however large."""
        return self.secrets.size

    def __len__(self) -> int:
        return len(self.secrets)

    @property
    def points(self) -> int:
        """The number n of coordinates that secrets choose from."""
        return self.secrets.dim - self.secrets.first

    @cached_property
    def eigenvalues(self) -> tuple[Fraction, ...]:
        """The exact eigenvalues on spaces j = 0 to min(l, n - l); a value may occur twice."""
        n, bits = self.points, self.secrets.bits
        terms = [(bits - overlap, value) for overlap, value in enumerate(self.values) if value]
        return tuple(
            sum((value * _eberlein(n, bits, distance, j) for distance, value in terms), Fraction(0))
            for j in range(min(bits, n - bits) + 1)
        )

    def largest_eigenvalue(self) -> Fraction:
        """lambda_max, exactly; O(l^3) whatever the number of targets."""
        return max(self.eigenvalues)

    def top_sums(self) -> Iterator[tuple[int, Fraction]]:
        """The sum of the s largest |entries| of a row, at those s between which the sum is linear."""
        n, bits = self.points, self.secrets.bits
        counts = [comb(bits, overlap) * comb(n - bits, bits - overlap) for overlap in range(bits + 1)]
        size, total = 0, Fraction(0)
        for height, many in sorted(zip(map(abs, self.values), counts, strict=True), reverse=True):
            if many:
                size, total = size + many, total + many * height
                yield size, total

    def dense(self) -> Float[np.ndarray, "N N"]:
        """The matrix written out, for at most 4096 targets."""
        if self.size > MOST_DENSE:
            raise ValueError(
                f"There are {self.size} targets: matrices are written out for at most {MOST_DENSE}."
            )
        members = self.secrets.members.astype(np.float32)
        overlaps = np.rint(members @ members.T).astype(np.uint16)
        return np.array([float(value) for value in self.values])[overlaps]


def _eberlein(points: int, bits: int, distance: int, space: int) -> int:
    """The eigenvalue on space `space` of the graph that joins l-subsets of n points if they share l - distance."""
    return sum(
        (-1) ** t
        * comb(space, t)
        * comb(bits - space, distance - t)
        * comb(points - bits - space, distance - t)
        for t in range(min(space, distance) + 1)
    )


def _exact(value: Any) -> Fraction:
    try:
        return Fraction(value if isinstance(value, numbers.Rational) else float(value))
    except (TypeError, ValueError, OverflowError):
        raise ValueError(f"A value of the kernel is {value!r}: finite numbers are needed.") from None

"""Gram matrices that know only overlaps: kernels of the Johnson scheme, never written out for large families."""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import combinations
from math import comb
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float, Int

from attention._arrays import shown
from attention.validation import count, real_array, require_instance
from sq.gram import MOST_DENSE, GramMatrix
from sq.krawtchouk import overlap_correlations
from sq.secret_set import SecretSet
from sq.target_family import TargetFamily, require_family

if TYPE_CHECKING:
    import scipy.sparse.linalg
    import sympy

__all__ = ["OverlapGram", "eberlein", "overlap_gram"]

# What closed forms may differ by at equal overlap and still count as functions of it.
_SAME = 1e-12


@dataclass(frozen=True)
class OverlapGram:
    """The Gram matrix whose entry (S, T) is `values[|S cap T|]`, as an operator with exact eigenvalues.

    Parameters
    ----------
    secrets : SecretSet
        The secrets S: l-subsets of n = dim - first coordinates.
    values : sequence of l + 1 numbers
        The correlation at overlap 0 to l; Fractions and sympy rationals stay exact, a float stands for itself.

    Raises
    ------
    ValueError
        If there are not l + 1 finite values, or the secrets hold more than a set (a hidden gate, say).

    Notes
    -----
    The kernel commutes with all permutations of the coordinates. Its eigenspaces are those of the Johnson scheme
    J(n, l), and its eigenvalue on space j is sum_i values[l - i] E_i(j) with the Eberlein polynomials E_i, the
    Johnson scheme's form of dual Hahn polynomials; all of it is done in exact rationals. As an operator it is
    sum_r a_r W_r^T W_r, with W_r the inclusion matrix of r-subsets in secrets and
    values[o] = sum_r a_r C(o, r): O(N 2^l) operations and numbers in place of N^2.

    References
    ----------
    Delsarte 1973, "An algebraic approach to the association schemes of coding theory", section 4.2, for the
    scheme and its eigenvalues; the form as a sum of inclusion matrices is derived here.

    Examples
    --------
    >>> kernel = OverlapGram(SecretSet(dim=6, bits=2), (0, Fraction(1, 4), 1))
    >>> [str(value) for value in kernel.eigenvalues], kernel.multiplicities
    (['5/2', '5/4', '1/2'], (1, 4, 5))
    """

    secrets: SecretSet
    values: tuple[Fraction, ...]

    def __init__(self, secrets: SecretSet, values: Sequence[Any]) -> None:
        require_instance("secrets", secrets, SecretSet, needed="a SecretSet, such as a family's `secrets`,")
        if not isinstance(values, Sequence | np.ndarray) or np.ndim(values) != 1:
            raise ValueError(f"values is {shown(values)}: one number for each overlap is needed.")
        if len(values) != secrets.bits + 1:
            raise ValueError(
                f"There are {len(values)} values: one for each overlap 0 to l = {secrets.bits} is needed."
            )
        if secrets.size != comb(secrets.dim - secrets.first, secrets.bits):
            raise ValueError(
                f"There are {secrets.size} secrets: all {secrets.bits}-subsets of the coordinates from {secrets.first} "
                f"to {secrets.dim - 1}, and nothing else, are needed; use a dense Gram matrix."
            )
        object.__setattr__(self, "secrets", secrets)
        object.__setattr__(self, "values", tuple(_exact(value) for value in values))

    @classmethod
    def of_profile(cls, secrets: SecretSet, profile: Sequence[int | float | Fraction]) -> "OverlapGram":
        """The correlations of the targets u_g g(N_S), exactly, from the values g(0), ..., g(l).

        Raises
        ------
        ValueError
            If the profile has not l + 1 values, or is constant.

        Examples
        --------
        >>> print(OverlapGram.of_profile(SecretSet(dim=9, bits=4), [0, 0, 1, 0, 0]))
        Overlap kernel on 70 targets, 0, 0, 0.0666667, 0.2, 1 at overlap 0 to 4: lambda_max = 6.6.
        """
        return cls(secrets, overlap_correlations(profile, exact=True))

    @property
    def size(self) -> int:
        """N, the number of targets, however large."""
        return self.secrets.size

    def __len__(self) -> int:
        return len(self.secrets)

    def __str__(self) -> str:
        shown = ", ".join(f"{float(value):.6g}" for value in self.values)
        return (
            f"Overlap kernel on {self.size} targets, {shown} at overlap 0 to {self.secrets.bits}: "
            f"lambda_max = {float(self.largest_eigenvalue()):.6g}."
        )

    def polynomial(self, *, symbol: Any = None) -> "sympy.Poly":
        """The correlation as a polynomial in the overlap, with exact rational coefficients.

        Parameters
        ----------
        symbol : sympy.Symbol, optional
            What stands for the overlap; ``Symbol("o")`` when left out.

        Examples
        --------
        >>> OverlapGram(SecretSet(dim=6, bits=2), (0, Fraction(1, 4), 1)).polynomial().as_expr()
        o**2/4
        """
        import sympy

        overlap = sympy.Symbol("o") if symbol is None else symbol
        terms = [
            sympy.Rational(increment.numerator, increment.denominator)
            * sympy.ff(overlap, size)
            / sympy.factorial(size)
            for size, increment in enumerate(self._increments)
        ]
        return sympy.Poly(sympy.expand(sum(terms), func=True), overlap)

    @property
    def points(self) -> int:
        """The number n of coordinates that secrets choose from."""
        return self.secrets.dim - self.secrets.first

    @property
    def overlap_counts(self) -> tuple[int, ...]:
        """How many secrets share 0 to l coordinates with a given one."""
        n, bits = self.points, self.secrets.bits
        return tuple(comb(bits, overlap) * comb(n - bits, bits - overlap) for overlap in range(bits + 1))

    @cached_property
    def eigenvalues(self) -> tuple[Fraction, ...]:
        """The exact eigenvalues on spaces j = 0 to min(l, n - l); a value may occur twice."""
        n, bits = self.points, self.secrets.bits
        return tuple(
            sum(
                (
                    self.values[bits - distance] * eberlein(n, bits, distance, j)
                    for distance in range(bits + 1)
                    if self.values[bits - distance]
                ),
                Fraction(0),
            )
            for j in range(min(bits, n - bits) + 1)
        )

    @property
    def multiplicities(self) -> tuple[int, ...]:
        """The dimensions C(n, j) - C(n, j - 1) of the spaces."""
        return tuple(
            comb(self.points, j) - (comb(self.points, j - 1) if j else 0)
            for j in range(len(self.eigenvalues))
        )

    def largest_eigenvalue(self) -> Fraction:
        """lambda_max, exactly; O(l^3) whatever the number of targets."""
        return max(self.eigenvalues)

    def largest_off_diagonal(self) -> Fraction:
        """The largest |correlation| of two different secrets; 0 where there is but one."""
        occurring = [
            abs(value) for value, many in zip(self.values[:-1], self.overlap_counts[:-1], strict=True) if many
        ]
        return max(occurring, default=Fraction(0))

    def row(self, number: int) -> Float[np.ndarray, " N"]:
        """The correlations of one target with all."""
        heights = np.array([float(value) for value in self.values])
        return heights[self.secrets.overlaps(self.secrets.unrank(number))]

    def matvec(self, vector: Float[np.ndarray, " N"]) -> Float[np.ndarray, " N"]:
        """The matrix times a vector; O(N 2^l) and no N^2 numbers.

        Raises
        ------
        ValueError
            If the vector has not N entries.
        """
        vector = real_array("vector", vector)
        if vector.shape != (self.size,):
            raise ValueError(f"The vector has shape {vector.shape}: ({self.size},) is needed.")
        product = np.zeros(len(self))
        for size, increment in enumerate(self._increments):
            if increment:
                held = self._inclusions(size)
                sums = np.bincount(
                    held.ravel(),
                    weights=np.repeat(vector, held.shape[1]),
                    minlength=comb(self.points, size),
                )
                product += float(increment) * sums[held].sum(axis=1)
        return product

    def operator(self) -> "scipy.sparse.linalg.LinearOperator":
        """The matrix as a scipy operator."""
        from scipy.sparse.linalg import LinearOperator

        return LinearOperator(
            (self.size, self.size),
            matvec=lambda v: self.matvec(np.asarray(v, float).ravel()),
            dtype=np.float64,
        )

    def dense(self) -> GramMatrix:
        """The matrix written out.

        Raises
        ------
        ValueError
            If there are more than 4096 targets.
        """
        if self.size > MOST_DENSE:
            raise ValueError(
                f"There are {self.size} targets: matrices are written out for at most {MOST_DENSE}; use the operator."
            )
        members = self.secrets.members.astype(np.float64)
        overlaps = np.rint(members @ members.T).astype(np.int64)
        heights = np.array([float(value) for value in self.values])
        return GramMatrix(heights[overlaps], np.arange(len(self)), "closed form")

    @cached_property
    def _increments(self) -> tuple[Fraction, ...]:
        # binomial inversion of values[o] = sum_r a_r C(o, r)
        return tuple(
            sum((Fraction((-1) ** (r - o) * comb(r, o)) * self.values[o] for o in range(r + 1)), Fraction(0))
            for r in range(self.secrets.bits + 1)
        )

    def _inclusions(self, size: int) -> Int[np.ndarray, "N subsets"]:
        # the number of each r-subset of each secret, by the combinatorial number system
        places = self.secrets.table.astype(np.int64) - self.secrets.first
        binomials = np.array([[comb(place, r + 1) for r in range(size)] for place in range(self.points)])
        columns = [
            sum(
                (binomials[places[:, column], r] for r, column in enumerate(chosen)), np.zeros(len(self), int)
            )
            for chosen in combinations(range(self.secrets.bits), size)
        ]
        return np.stack(columns, axis=1)


def eberlein(points: int, bits: int, distance: int, space: int) -> int:
    """E_i(j) = sum_t (-1)^t C(j, t) C(l - j, i - t) C(n - l - j, i - t).

    The eigenvalue on space j of the graph that joins l-subsets of n points that share l - i of them.

    Parameters
    ----------
    points, bits : int
        n and l.
    distance, space : int
        i, from 0 to l, and j, from 0 to min(l, n - l).

    Raises
    ------
    ValueError
        If they are not so, or l is above n.

    References
    ----------
    Delsarte 1973, section 4.2.

    Examples
    --------
    >>> [eberlein(5, 2, 2, j) for j in range(3)]  # the Petersen graph
    [3, -2, 1]
    """
    points, bits = count("points", points), count("bits", bits)
    distance, space = count("distance", distance, least=0), count("space", space, least=0)
    if bits > points:
        raise ValueError(f"bits is {bits}: at most {points}, the number of points, can be in a set.")
    if distance > bits:
        raise ValueError(f"distance is {distance}: 0 to {bits}, the number of bits, is needed.")
    if space > min(bits, points - bits):
        raise ValueError(
            f"space is {space}: 0 to {min(bits, points - bits)}, the least of {bits} bits and {points - bits} other "
            "points, is needed."
        )
    return sum(
        (-1) ** t
        * comb(space, t)
        * comb(bits - space, distance - t)
        * comb(points - bits - space, distance - t)
        for t in range(min(space, distance) + 1)
    )


def overlap_gram(family: TargetFamily, *, rows: int = 4) -> OverlapGram:
    """The Gram matrix of a family whose closed form depends on overlaps only, as an operator.

    Parameters
    ----------
    family : TargetFamily
        The family; its `correlations` are asked.
    rows : int
        In how many rows, evenly spread, the closed form is looked at.

    Raises
    ------
    ValueError
        If two entries of the rows looked at differ at equal overlap, or there are more than twenty million targets:
        take `OverlapGram.of_profile` for those.

    Notes
    -----
    The rows that were not looked at are not checked: that is the family's word.
    """
    require_family(family)
    secrets, size, rows = family.secrets, family.secrets.size, count("rows", rows)
    low, high = np.full(secrets.bits + 1, np.inf), np.full(secrets.bits + 1, -np.inf)
    steps = max(min(rows, size) - 1, 1)
    for number in sorted({step * (size - 1) // steps for step in range(min(rows, size))}):
        overlaps, values = secrets.overlaps(secrets.unrank(number)), family.correlations(number)
        np.minimum.at(low, overlaps, values)
        np.maximum.at(high, overlaps, values)
        apart = high - low
        if np.any(apart > _SAME):
            overlap = int(np.argmax(apart))
            raise ValueError(
                f"The correlations of {family.name} run from {low[overlap]:.6g} to {high[overlap]:.6g} at overlap "
                f"{overlap}: they are no function of the overlap; use a dense Gram matrix."
            )
    # overlaps that cannot occur, as secrets are too large to be disjoint
    return OverlapGram(secrets, tuple(0.0 if np.isinf(value) else float(value) for value in low))


def _exact(value: Any) -> Fraction:
    if hasattr(value, "p") and hasattr(value, "q"):  # sympy's rationals
        return Fraction(int(value.p), int(value.q))
    try:
        return Fraction(value)
    except (TypeError, ValueError, OverflowError):
        pass
    try:
        return Fraction(float(value))
    except (TypeError, ValueError, OverflowError):
        raise ValueError(f"A value of the kernel is {value!r}: finite numbers are needed.") from None


def require_gram(gram: object) -> None:
    """Raise where something else than correlations is given.

    Raises
    ------
    ValueError
        If it is neither a matrix nor a kernel of overlaps.
    """
    require_instance(
        "gram", gram, GramMatrix | OverlapGram, needed="what closed_form_gram or overlap_gram gives"
    )

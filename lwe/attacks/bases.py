"""Bases of the lattices behind samples: Hermite form modulo any q, Kannan's embedding, the dual lattice."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Int

from lwe.costs import PrimalShape, deviations
from lwe.evidence import label_residues
from lwe.parameters import LWRParameters
from lwe.samples import LWRSamples, inner_products

__all__ = [
    "Embedding",
    "dual_basis",
    "label_intervals",
    "left_inverse",
    "modular_hermite_form",
    "primal_embedding",
]


def modular_hermite_form(rows: Int[np.ndarray, "k m"], modulus: int) -> Int[np.ndarray, "m m"]:
    """The basis in Hermite form of the lattice that some rows and q Z^m span: upper triangular, for any q.

    Parameters
    ----------
    rows : array of int (k, m)
        The rows; they may depend on one another.
    modulus : int
        q. Pivots need not be units: where a column has only common divisors with q, its pivot is their divisor.

    Returns
    -------
    array of int (m, m)
        Rows with positive divisors of q on the diagonal, and above each pivot residues below it.

    Notes
    -----
    Elimination modulo q, column by column: the row whose entry has the least common divisor g with q is scaled to have
    g there, and q/g times it stays among the rows. O(k m^2) where pivots are units, times log q at worst.

    References
    ----------
    Cohen 1993, "A course in computational algebraic number theory", section 2.4.2 (Hermite form modulo D).

    Examples
    --------
    >>> modular_hermite_form(np.array([[2, 1], [4, 6]]), 8)
    array([[2, 1],
           [0, 4]])
    """
    width = rows.shape[1]
    form = modulus * np.eye(width, dtype=np.int64)
    for j, pivot in _pivots(rows, modulus, width):
        form[j] = pivot
    for j in range(width):
        form[:j] -= np.outer(form[:j, j] // form[j, j], form[j])
        form[:j, j + 1 :] %= modulus  # what is not reduced yet would grow beyond 64 bits
    return form


def left_inverse(public: Int[np.ndarray, "m n"], modulus: int) -> Int[np.ndarray, "n m"] | None:
    """A matrix T with T A = 1 mod q; None if there is none: then A s mod q does not determine s.

    Notes
    -----
    Elimination of the first n columns of (A | 1), O(n m^2).

    Examples
    --------
    >>> public = np.array([[2, 1], [1, 1], [3, 5]])
    >>> np.mod(left_inverse(public, 8) @ public, 8)
    array([[1, 0],
           [0, 1]])
    """
    m, n = public.shape
    found = np.zeros((n, n + m), dtype=np.int64)
    for j, pivot in _pivots(np.column_stack([public, np.eye(m, dtype=np.int64)]), modulus, n):
        found[j] = pivot
    if np.any(np.diagonal(found) != 1):
        return None
    for j in range(n):
        found[:j] = (found[:j] - np.outer(found[:j, j], found[j])) % modulus
    inverse: np.ndarray = found[:, n:]
    return inverse


def label_intervals(
    labels: Int[np.ndarray, "*N"], parameters: LWRParameters
) -> tuple[Int[np.ndarray, "*N"], Int[np.ndarray, "*N"]]:
    """The least and the largest residue with each label: what <v, a> + e mod q lies between.

    Examples
    --------
    >>> label_intervals(np.array([0, 1]), LWRParameters(secret_dim=4, modulus=8, levels=2))
    (array([0, 4]), array([3, 7]))
    """
    first, after = label_residues(labels, parameters)
    return first, after - 1


@dataclass(frozen=True, eq=False)
class Embedding:
    """Kannan's embedding of samples: a lattice in which the errors are a short vector.

    Attributes
    ----------
    basis : array of int (D, D)
        The rows of the basis. The last coordinate marks how often the target is in a vector.
    factor : int
        The last entry of the target's row.
    own : array of int (own, D)
        Short vectors that the lattice has of itself: the columns of a matrix of bits or trits; none for others.
    inverse : array of int (n, m) or None
        What gives the secret from its products with the rows of the public matrix; None if they do not determine it, or
        the secret is a part of the vectors.
    target, shift, scale, weight, modulus
        The target times `scale`, what was taken off the secret, the factors of errors and secret (0 where it is no
        part of the vectors), and q.
    """

    basis: Int[np.ndarray, "D D"]
    factor: int
    own: Int[np.ndarray, "own D"] = field(repr=False)
    inverse: Int[np.ndarray, "n m"] | None = field(repr=False)
    target: Int[np.ndarray, " m"] = field(repr=False)
    shift: int
    scale: int
    weight: int
    modulus: int

    def leads(self, rows: Int[np.ndarray, "own D"]) -> bool:
        """Whether as many rows span what its own short vectors span."""
        both = np.vstack([self.own, rows]).astype(np.float64)
        return int(np.linalg.matrix_rank(both)) <= len(self.own)

    def secret(self, vector: Int[np.ndarray, " D"]) -> Int[np.ndarray, " n"] | None:
        """The secret that a vector of the lattice stands for: one with the target once; None for others."""
        if abs(int(vector[-1])) != self.factor:
            return None
        signed, m = vector * (1 if vector[-1] > 0 else -1), len(self.target)
        if self.weight:
            return self.shift - signed[m:-1] // self.weight
        if self.inverse is None:
            return None
        errors = signed[:m]
        return inner_products(self.inverse, (self.target - errors) // self.scale, self.modulus) + self.shift


def primal_embedding(samples: LWRSamples, parameters: LWRParameters, shape: PrimalShape) -> Embedding:
    """The embedding of the first m samples, m and the weights as in `shape`.

    Parameters
    ----------
    samples : LWRSamples
        At least `shape.samples` of them.
    parameters : LWRParameters
        What they are of.
    shape : PrimalShape
        Which lattice.

    Notes
    -----
    A label says that <v, a> + e is in an interval of residues; its middle is the target, doubled where it is no
    integer, and rounding is an error uniform in the interval. Without weights the lattice is {y: y = A s mod q}, of
    dimension m, from its Hermite form. With weights the secret, less its mean, is a part of the vectors:
    (A s + q k, w s), w near sigma_e / sigma_s, as a ratio of small integers. The target's row ends in the size of one
    error.

    References
    ----------
    Kannan 1987, "Minkowski's convex body theorem and integer programming"; Bai and Galbraith 2014, "Lattice decoding
    attacks on binary LWE".
    """
    q, m, sizes = parameters.modulus, shape.samples, deviations(parameters)
    public = samples.public[:m]
    low, high = label_intervals(samples.labels[:m], parameters)
    doubled = low + high - round(2 * sizes.error_mean)
    shift = round(sizes.secret_mean) if shape.weighted else 0
    doubled = doubled - 2 * shift * np.sum(public, axis=1)
    scale = 2 if np.any(doubled % 2) else 1
    target = doubled if scale == 2 else doubled // 2
    weight = 0
    if shape.weighted:
        ratio = sizes.error / max(sizes.secret, 1e-3)
        if ratio * scale < 4:  # the weight is rounded to an integer: not too coarsely
            more = math.ceil(4 / max(ratio * scale, 0.05))
            scale, target = scale * more, target * more
        weight = max(round(ratio * scale), 1)
    lattice = _primal_lattice(public, q, scale, weight)
    factor = max(round(scale * sizes.error), 1)
    size = len(lattice) + 1
    basis = np.zeros((size, size), dtype=np.int64)
    basis[:-1, :-1] = lattice
    half = scale * q
    basis[-1, :m] = np.mod(target + half // 2, half) - half // 2
    basis[-1, -1] = factor
    own = np.zeros((parameters.secret_dim if sizes.column > 0 else 0, size), dtype=np.int64)
    if len(own):
        own[:, :m] = scale * public.T
        if weight:
            own[:, m:-1] = weight * np.eye(len(own), dtype=np.int64)
    inverse = None if weight else left_inverse(public, q)
    return Embedding(basis, factor, own, inverse, target, shift, scale, weight, q)


def dual_basis(
    samples: LWRSamples, parameters: LWRParameters, number: int, *, weighted: bool
) -> tuple[Int[np.ndarray, "D D"], int]:
    """A basis of the dual lattice of the first `number` samples, and what its first m coordinates are multiplied by.

    Parameters
    ----------
    samples : LWRSamples
        At least `number` of them.
    parameters : LWRParameters
        What they are of.
    number : int
        m.
    weighted : bool
        False: {x in Z^m: x A = 0 mod q}. True: (x, y) with x A = y mod q, both scaled to integers so that y counts
        as sigma_s / sigma_e times x.

    Returns
    -------
    basis : array of int (m, m) or (m + n, m + n)
        Its rows.
    scale : int
        What x was multiplied by.

    Notes
    -----
    The unweighted one is q times the inverse transpose of the Hermite form H of {A s mod q}: q H^-1 is an integer
    matrix, since q Z^m is in the lattice; back substitution in Python's integers, O(m^3).
    """
    q, sizes = parameters.modulus, deviations(parameters)
    public = np.mod(samples.public[:number], q)
    if not weighted:
        form = modular_hermite_form(public.T, q).astype(object)
        inverse = np.zeros_like(form)
        for i in range(number - 1, -1, -1):
            row = -(form[i, i + 1 :] @ inverse[i + 1 :]) if i + 1 < number else np.zeros(number, dtype=object)
            row[i] += q
            inverse[i] = row // form[i, i]
        return np.asarray(inverse.T, dtype=np.int64), 1
    ratio = sizes.secret / max(sizes.error, 1e-3)
    scale = max(math.ceil(4 / ratio), 1) if ratio < 4 else 1
    weight = min(max(round(ratio * scale), 1), 2**30)  # times q it has to fit into 64 bits
    n = parameters.secret_dim
    basis = np.zeros((number + n, number + n), dtype=np.int64)
    basis[:number, :number] = scale * np.eye(number, dtype=np.int64)
    basis[:number, number:] = weight * public
    basis[number:, number:] = weight * q * np.eye(n, dtype=np.int64)
    return basis, scale


def _pivots(rows: np.ndarray, modulus: int, columns: int) -> Iterator[tuple[int, np.ndarray]]:
    """The pivot rows of the first columns, those that have one, by elimination modulo q; entries below are 0."""
    left = np.mod(np.asarray(rows, dtype=np.int64), modulus)
    for j in range(columns):
        while True:
            places = np.flatnonzero(left[:, j])
            if not len(places):
                break
            divisors = np.gcd(left[places, j], modulus)
            place, divisor = int(places[np.argmin(divisors)]), int(divisors.min())
            pivot = left[place] * _unit(int(left[place, j]) // divisor, modulus // divisor, modulus) % modulus
            quotients = left[:, j] // divisor
            quotients[place] = 0
            # entries that divisor does not divide keep a remainder below it: fewer common factors the next time
            left[:, j:] = (left[:, j:] - np.outer(quotients, pivot[j:])) % modulus
            left[place] = pivot
            if np.count_nonzero(left[:, j]) == 1:
                yield j, pivot
                left[place] = pivot * (modulus // divisor) % modulus
                break


def _primal_lattice(public: np.ndarray, modulus: int, scale: int, weight: int) -> np.ndarray:
    m, n = public.shape
    if weight == 0:
        return scale * modular_hermite_form(public.T, modulus)
    lattice = np.zeros((m + n, m + n), dtype=np.int64)
    residues = np.mod(public.T, modulus)
    lattice[:n, :m] = scale * np.where(2 * residues > modulus, residues - modulus, residues)
    lattice[:n, m:] = weight * np.eye(n, dtype=np.int64)
    lattice[n:, :m] = scale * modulus * np.eye(m, dtype=np.int64)
    return lattice


def _unit(value: int, cofactor: int, modulus: int) -> int:
    """A unit u mod q with u value = 1 mod the cofactor."""
    unit = pow(value, -1, cofactor) if cofactor > 1 else 1
    while math.gcd(unit, modulus) != 1:
        unit += cofactor
    return unit

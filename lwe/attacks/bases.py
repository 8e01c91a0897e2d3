"""Bases of the lattices behind samples: Hermite form modulo any q, Kannan's embedding, the dual lattice."""

import math
from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Int

from lwe.attacks.evidence import label_residues
from lwe.costs.deviations import deviations
from lwe.costs.primal import PrimalShape
from lwe.parameters import LWEParameters, centred
from lwe.residues import congruent_product
from lwe.samples import LWRSamples, inner_products

__all__ = ["Embedding", "dual_basis", "left_inverse", "modular_hermite_form", "primal_embedding"]


def modular_hermite_form(
    rows: Int[np.ndarray, "k m"], modulus: int, columns: int | None = None
) -> Int[np.ndarray, "columns m"]:
    """The basis in Hermite form of the lattice that some rows and q Z^m span: upper triangular, for any q.

    The diagonal has positive divisors of q; the entries above each divisor are residues smaller than it. Rows may be
    dependent, and pivots need not be units. `columns` is the number of columns that are eliminated and of rows that are
    returned; all by default.

    Elimination modulo q, column by column. The pivot is the row whose entry has the smallest common divisor g with q.
    It is scaled so that the entry becomes g, and q/g times it stays among the rows. O(k m^2) if pivots are units; at
    worst log q times as much.

    References
    ----------
    Cohen 1993, "A course in computational algebraic number theory", section 2.4.2 (Hermite form modulo D).
    """
    width = rows.shape[1]
    columns = width if columns is None else columns
    form = modulus * np.eye(columns, width, dtype=np.int64)
    left = np.mod(rows, modulus)
    for j in range(columns):
        while len(places := np.flatnonzero(left[:, j])):
            divisors = np.gcd(left[places, j], modulus)
            place, divisor = int(places[np.argmin(divisors)]), int(divisors.min())
            unit = _unit(int(left[place, j]) // divisor, modulus // divisor, modulus)
            pivot = congruent_product(left[place], unit, modulus, modulus**2) % modulus
            quotients = left[:, j] // divisor
            quotients[place] = 0
            # entries not divisible by the divisor keep a smaller remainder: the next divisor has fewer factors
            products = congruent_product(quotients[:, None], pivot[j:], modulus, modulus**2)
            left[:, j:] = (left[:, j:] - products) % modulus
            left[place] = pivot
            if np.count_nonzero(left[:, j]) == 1:
                form[j] = pivot
                left[place] = congruent_product(pivot, modulus // divisor, modulus, modulus**2) % modulus
                break
    for j in range(columns):
        quotients = form[:j, j] // form[j, j]
        form[:j, j] -= quotients * form[j, j]
        # entries that are not reduced would grow beyond 64 bits
        form[:j, j + 1 :] -= congruent_product(quotients[:, None], form[j, j + 1 :], modulus, modulus**2)
        form[:j, j + 1 :] %= modulus
    return form


def left_inverse(public: Int[np.ndarray, "m n"], modulus: int) -> Int[np.ndarray, "n m"] | None:
    """A matrix T with T A = 1 mod q, in O(n m^2). None if none exists: then A s mod q does not determine s."""
    m, n = public.shape
    form = modular_hermite_form(np.column_stack([public, np.eye(m, dtype=np.int64)]), modulus, n)
    return form[:, n:] if np.all(np.diagonal(form) == 1) else None


@dataclass(frozen=True, eq=False)
class Embedding:
    """Kannan's embedding of samples: a lattice in which the errors are a short vector."""

    #: the rows of the basis, and the last entry of the target's: it marks how often the target is in a vector
    basis: Int[np.ndarray, "D D"]
    factor: int
    #: short vectors that the lattice has of itself: the columns of a matrix of bits or trits; none for others
    own: Int[np.ndarray, "own D"] = field(repr=False)
    #: gives the secret from its products with the rows; None if they do not determine it, or it is in the vectors
    inverse: Int[np.ndarray, "n m"] | None = field(repr=False)
    #: the target times `scale`, the mean of an entry of the secret times `weight`, the factors of errors and secret (0
    #: where it is no part of the vectors), and q
    target: Int[np.ndarray, " m"] = field(repr=False)
    middle: int
    scale: int
    weight: int
    modulus: int

    def secret(self, vector: Int[np.ndarray, " D"]) -> Int[np.ndarray, " n"] | None:
        """The secret of a lattice vector that contains the target once; None for other vectors."""
        if abs(int(vector[-1])) != self.factor:
            return None
        signed, m = vector * (1 if vector[-1] > 0 else -1), len(self.target)
        if self.weight:
            return (self.middle - signed[m:-1]) // self.weight
        if self.inverse is None:
            return None
        errors = signed[:m]
        return inner_products(self.inverse, (self.target - errors) // self.scale, self.modulus)


def primal_embedding(samples: LWRSamples, parameters: LWEParameters, shape: PrimalShape) -> Embedding:
    """The embedding of the first m samples, m and the weights as in `shape`.

    Notes
    -----
    A label means that <v, a> + e is in an interval of residues. The target is the middle of the interval, doubled if it
    is not an integer, and rounding is an error uniform in the interval. Without weights the lattice is
    {y: y = A s mod q}, of dimension m, from its Hermite form. With weights the secret minus its mean is a part of the
    vectors: (A s + q k, w s), where w is near sigma_e / sigma_s and a ratio of small integers. The last entry of the
    target's row is the size of one error.

    References
    ----------
    Kannan 1987, "Minkowski's convex body theorem and integer programming"; Bai and Galbraith 2014, "Lattice decoding
    attacks on binary LWE".
    """
    q, m, sizes = parameters.q, shape.samples, deviations(parameters)
    public = samples.public[:m]
    first, after = label_residues(samples.labels[:m], parameters, samples.rounding)
    doubled = first + after - 1 - round(2 * sizes.error_mean)
    scale = 2 if np.any(doubled % 2) else 1
    target = doubled if scale == 2 else doubled // 2
    weight = 0
    if shape.weighted:
        ratio = sizes.error / max(sizes.secret, 1e-3)
        if ratio * scale < 4:  # rounding the weight to an integer must not be too coarse
            more = math.ceil(4 / max(ratio * scale, 0.05))
            scale, target = scale * more, target * more
        weight = max(round(ratio * scale), 1)
    factor = max(round(scale * sizes.error), 1)
    n, half = parameters.n, scale * q
    size = m + 1 + (n if weight else 0)
    basis = np.zeros((size, size), dtype=np.int64)
    if weight:
        basis[:n, :m] = scale * centred(public.T, q)
        basis[:n, m:-1] = weight * np.eye(n, dtype=np.int64)
        basis[n:-1, :m] = half * np.eye(m, dtype=np.int64)
    else:
        basis[:-1, :-1] = scale * modular_hermite_form(public.T, q)
    basis[-1, :m] = np.mod(target + half // 2, half) - half // 2
    middle = round(weight * sizes.secret_mean)
    if weight:
        basis[-1, m:-1] = middle
    basis[-1, -1] = factor
    own = np.zeros((n if sizes.column > 0 else 0, size), dtype=np.int64)
    if len(own):
        own[:, :m] = scale * public.T
        if weight:
            own[:, m:-1] = weight * np.eye(len(own), dtype=np.int64)
    inverse = None if weight else left_inverse(public, q)
    return Embedding(basis, factor, own, inverse, target, middle, scale, weight, q)


def dual_basis(
    public: Int[np.ndarray, "m n"], parameters: LWEParameters, *, weighted: bool
) -> tuple[Int[np.ndarray, "D D"], int]:
    """A basis of the dual lattice of some rows, and the factor of its first m coordinates.

    The unweighted lattice is {x in Z^m: x A = 0 mod q}, with m rows. The weighted lattice is that of (x, y) with
    x A = y mod q, with m + n rows; both parts are scaled to integers, so that y counts as sigma_s / sigma_e times x.

    Notes
    -----
    The unweighted basis is q times the inverse transpose of the Hermite form H of {A s mod q}. q H^-1 is an integer
    matrix, because q Z^m is in the lattice. Back substitution uses Python's integers, O(m^3).
    """
    q, sizes = parameters.q, deviations(parameters)
    m, n = public.shape
    if not weighted:
        form = modular_hermite_form(public.T, q).astype(object)
        inverse = q * np.eye(m, dtype=object)
        for i in range(m - 1, -1, -1):
            inverse[i] = (inverse[i] - form[i, i + 1 :] @ inverse[i + 1 :]) // form[i, i]
        return np.asarray(inverse.T, dtype=np.int64), 1
    ratio = sizes.secret / max(sizes.error, 1e-3)
    scale = max(math.ceil(4 / ratio), 1) if ratio < 4 else 1
    weight = min(max(round(ratio * scale), 1), 2**62 // q)  # times q it has to fit into 64 bits
    basis = np.zeros((m + n, m + n), dtype=np.int64)
    basis[:m, :m] = scale * np.eye(m, dtype=np.int64)
    basis[:m, m:] = weight * np.mod(public, q)
    basis[m:, m:] = weight * q * np.eye(n, dtype=np.int64)
    return basis, scale


def _unit(value: int, cofactor: int, modulus: int) -> int:
    """A unit u mod q with u value = 1 mod the cofactor."""
    unit = pow(value, -1, cofactor) if cofactor > 1 else 1
    while math.gcd(unit, modulus) != 1:
        unit += cofactor
    return unit

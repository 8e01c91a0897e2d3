"""What lattice reduction achieves and costs: root-Hermite factors, block sizes, core-SVP exponents."""

import math
from functools import lru_cache

import numpy as np
from jaxtyping import Float, Int

from attention._arrays import shown
from attention.memory import require_memory
from attention.validation import count, finite_number, non_negative, one_of

__all__ = [
    "CLASSICAL_EXPONENT",
    "QUANTUM_EXPONENT",
    "SIEVE_VECTORS",
    "block_size_for",
    "block_sizes",
    "core_svp_exponent",
    "gaussian_gap",
    "gram_schmidt_profile",
    "reduction_floor",
    "root_hermite_factor",
]

CLASSICAL_EXPONENT = 0.292
"""log2 of the time of a classical sieve, per dimension: Becker, Ducas, Gama and Laarhoven 2016, log2 sqrt(3/2)."""

QUANTUM_EXPONENT = 0.265
"""log2 of the time of a quantum sieve, per dimension: Laarhoven 2015, as in Alkim et al. 2016."""

SIEVE_VECTORS = 0.2075
"""log2 of how many short vectors a sieve leaves, per dimension: log2 sqrt(4/3)."""

_LARGEST_BLOCK = 1 << 16  # a sieve in it is beyond 2^17000, and dimensions have no bound

# measured by the authors of the lattice-estimator with BKZ in dimension 320 (estimator/reduction.py, _delta)
_SMALL_BLOCKS = (2, 5, 10, 15, 20, 25, 28, 40)
_SMALL_FACTORS = (1.02190, 1.01862, 1.01616, 1.01485, 1.01420, 1.01342, 1.01331, 1.01295)


def root_hermite_factor(block_size: float | int) -> float:
    """delta(beta): BKZ with blocks of size beta finds vectors of length delta^d vol^(1/d) in dimension d.

    Parameters
    ----------
    block_size : float
        beta, at least 2.

    Raises
    ------
    ValueError
        If it is below 2.

    Notes
    -----
    ((pi beta)^(1/beta) beta / (2 pi e))^(1/(2 (beta - 1))) above 40, where it was found to hold; up to 40 measured
    values, between which it is interpolated linearly.

    References
    ----------
    Chen 2013, "Reduction de reseau et securite concrete du chiffrement completement homomorphe" (the formula);
    lattice-estimator, `estimator/reduction.py`, `ReductionCost._delta` (the measured values, not interpolated there).

    Examples
    --------
    >>> round(root_hermite_factor(406), 6), round(root_hermite_factor(2), 4)
    (1.003941, 1.0219)
    """
    block_size = finite_number("block_size", block_size)
    if block_size < 2:
        raise ValueError(f"block_size is {block_size}: at least 2 is needed.")
    if block_size <= _SMALL_BLOCKS[-1]:
        return float(np.interp(block_size, _SMALL_BLOCKS, _SMALL_FACTORS))
    body = (math.pi * block_size) ** (1 / block_size) * block_size / (2 * math.pi * math.e)
    return float(body ** (1 / (2 * (block_size - 1))))


def gram_schmidt_profile(
    dim: int, log_volume: float | int, block_size: float | int
) -> Float[np.ndarray, " dim"]:
    """The natural logarithms of the Gram-Schmidt lengths |b_i*| of a reduced basis: a line, by the GSA.

    Parameters
    ----------
    dim : int
        d.
    log_volume : float
        The natural logarithm of the volume of the lattice.
    block_size : float
        beta.

    References
    ----------
    Schnorr 2003 (the geometric series assumption): |b_i*| = delta^(d - 1 - 2 i) vol^(1/d), i from 0.

    Examples
    --------
    >>> profile = gram_schmidt_profile(100, 50.0, 60)
    >>> round(float(profile.sum()), 9), bool(profile[0] > profile[-1])
    (50.0, True)
    """
    dim = count("dim", dim)
    require_memory(f"dim is {shown(dim)}: the profile", 32 * dim, advice="take a smaller one")
    dim = count("dim", dim, least=1)
    log_volume = finite_number("log_volume", log_volume)
    block_size = finite_number("block_size", block_size)
    places = np.arange(count("dim", dim))
    return (dim - 1 - 2 * places) * math.log(root_hermite_factor(block_size)) + log_volume / dim


def gaussian_gap(dim: int, log_volume: float | int, deviation: float | int) -> float:
    """How much longer the shortest vector expected, sqrt(d/(2 pi e)) vol^(1/d), is than deviation sqrt(d): its log.

    Negative: a planted vector of such entries is not expected to be the shortest.
    """
    dim = count("dim", dim, least=1)
    log_volume = finite_number("log_volume", log_volume)
    deviation = non_negative("deviation", deviation, strictly=True)
    return log_volume / dim - math.log(deviation) - 0.5 * math.log(2 * math.pi * math.e)


def block_size_for(dim: int, log_volume: float | int, deviation: float | int) -> int | None:
    """The least block size that finds a planted vector with entries of a standard deviation; None if none to 2^16 does.

    Parameters
    ----------
    dim : int
        d, of the embedding.
    log_volume : float
        The natural logarithm of its volume.
    deviation : float
        sigma of the entries of the planted vector.

    Notes
    -----
    The least beta with sigma sqrt(beta) <= delta^(2 beta - d - 1) vol^(1/d): the projection of the planted vector on
    the last block is then shorter than what is expected there, so that the last call in dimension beta finds it.

    References
    ----------
    Alkim, Ducas, Poppelmann and Schwabe 2016, "Post-quantum key exchange: a new hope", section 6.3.

    Examples
    --------
    Kyber-512 with 486 samples:

    >>> block_size_for(999, 486 * math.log(3329), math.sqrt(1.5))
    406
    """
    dim = count("dim", dim, least=1, most=1 << 1000)  # floats end a little above
    log_volume = finite_number("log_volume", log_volume)
    deviation = non_negative("deviation", deviation, strictly=True)
    blocks, factors = block_sizes(dim)
    short = math.log(deviation) + 0.5 * np.log(blocks)
    enough = np.flatnonzero(short <= (2.0 * blocks - dim - 1) * factors + log_volume / dim)
    return int(blocks[enough[0]]) if len(enough) else None


def core_svp_exponent(block_size: float | int, *, quantum: bool = False) -> float:
    """log2 of the cost of one call of a sieve in dimension beta, and nothing else: the core-SVP measure.

    References
    ----------
    Alkim et al. 2016, section 6.1. Below the cost of an attack on purpose: calls before and after, and all factors
    below exponential, are left out.

    Examples
    --------
    >>> round(core_svp_exponent(406), 1), round(core_svp_exponent(406, quantum=True), 1)
    (118.6, 107.6)
    """
    block_size = finite_number("block_size", block_size)
    one_of("quantum", quantum, (True, False))
    return block_size * (QUANTUM_EXPONENT if quantum else CLASSICAL_EXPONENT)


def reduction_floor(dim: int) -> float:
    """log2 of dim^3, less than which no lattice attack is said to cost: what a pass over a basis takes.

    Notes
    -----
    A convention of this project, no theorem: core-SVP says 2^0.6 where LLL is enough, which is no number of
    operations. It is below 2^31 up to dimension 1290, so that it changes no exponent of a scheme.

    Examples
    --------
    >>> reduction_floor(64)
    18.0
    """
    dim = count("dim", dim, least=1)
    return 3 * math.log2(count("dim", dim))


def block_sizes(most: int) -> tuple[Int[np.ndarray, " blocks"], Float[np.ndarray, " blocks"]]:
    """The block sizes 2, ..., `most`, at most 2^16, and the natural logarithms of their root-Hermite factors."""
    most = count("most", most, least=1)
    largest = min(max(int(most), 2), _LARGEST_BLOCK)
    blocks, factors = _block_tables(1 << (largest - 1).bit_length())
    return blocks[: largest - 1], factors[: largest - 1]


@lru_cache(maxsize=32)
def _block_tables(size: int) -> tuple[np.ndarray, np.ndarray]:
    blocks = np.arange(2, size + 1)
    return blocks, np.log([root_hermite_factor(int(one)) for one in blocks])

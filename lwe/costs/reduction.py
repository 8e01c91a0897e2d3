"""Quality and cost of lattice reduction: root-Hermite factors, block sizes, and cost models."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Literal

import numpy as np
from jaxtyping import Float, Int

from lwe.costs.cost import Cost
from lwe.parameters import LWEParameters

CostModelName = Literal["core-SVP", "quantum core-SVP", "MATZOV"]

# a sieve in dimension b leaves 2^(0.2075 b) short vectors; log2 sqrt(4/3) = 0.2075
_SIEVE_VECTORS = 0.2075

_LARGEST_BLOCK = 1 << 16  # a sieve in it costs more than 2^17000; dimensions have no bound

_FIRST_BLOCKS = 512

BLOCKS = range(40, 1755)
"""The blocks that decoding and the dual hybrid attack try; a classical sieve in the largest is beyond 2^512."""

# below this dimension the fit of MATZOV does not hold, and enumeration is counted
_LEAST_SIEVE = 20

# measured with BKZ in dimension 320 (estimator/reduction.py, _delta)
_SMALL_BLOCKS = (2, 5, 10, 15, 20, 25, 28, 40)
_SMALL_FACTORS = (1.02190, 1.01862, 1.01616, 1.01485, 1.01420, 1.01342, 1.01331, 1.01295)


def root_hermite_factor(block_size: float | int) -> float:
    """delta(beta): BKZ with blocks of size beta finds vectors of length delta^d vol^(1/d) in dimension d.

    Above beta = 40 it is ((pi beta)^(1/beta) beta / (2 pi e))^(1/(2 (beta - 1))) (Chen 2013). Up to 40 it is
    interpolated linearly between values that the authors of the lattice-estimator measured.
    """
    return math.exp(float(_log_factors(np.asarray(block_size))))


def gaussian_gap(dim: int, log_volume: float, log_deviation: float) -> float:
    """The log of the ratio of the expected shortest length, sqrt(d/(2 pi e)) vol^(1/d), to exp(log_deviation) sqrt(d).

    If it is negative, a planted vector with entries of that deviation is not expected to be the shortest.
    """
    return log_volume / dim - log_deviation - 0.5 * math.log(2 * math.pi * math.e)


def block_size_for(dim: int, log_volume: float, log_deviation: float) -> int | None:
    """The least block size that finds a planted vector with entries of that deviation; None if no size to 2^16 does.

    Notes
    -----
    This is the least beta with sigma sqrt(beta) <= delta^(2 beta - d - 1) vol^(1/d). The projection of the planted
    vector on the last block is then shorter than the shortest vector expected there. So the last call in dimension beta
    finds it.

    References
    ----------
    Alkim, Ducas, Poppelmann and Schwabe 2016, "Post-quantum key exchange: a new hope", section 6.3.

    Examples
    --------
    Kyber-512 with 486 samples:

    >>> block_size_for(999, 486 * math.log(3329), math.log(math.sqrt(1.5)))
    406
    """
    for blocks, factors in chunks_of_blocks(dim):
        short = log_deviation + 0.5 * np.log(blocks)
        enough = short <= (2.0 * blocks - dim - 1) * factors + log_volume / dim
        if enough.any():
            return int(blocks[enough.argmax()])
    return None


def reduction_floor(dim: int) -> float:
    """log2 of dim^3, the cost of a pass over a basis and the least cost of any lattice attack here.

    This is a convention of this project: without it, core-SVP gives 2^0.6 if LLL suffices. It changes no exponent of a
    scheme.
    """
    return 3 * math.log2(dim)


def chunks_of_blocks(
    most: int, *, least: int = 2
) -> Iterator[tuple[Int[np.ndarray, " blocks"], Float[np.ndarray, " blocks"]]]:
    """Block sizes up to `most` or 2^16, and the logarithms of their root-Hermite factors, in parts.

    Often the first part is enough.
    """
    blocks, factors = (column[: max(most, 2) - 1] for column in _block_table())
    start, end = least - 2, _FIRST_BLOCKS
    while start < len(blocks):
        yield blocks[start:end], factors[start:end]
        start, end = end, 2 * end


@dataclass(frozen=True)
class CostModel:
    """The cost of BKZ, and the number of short vectors that its sieves leave.

    Notes
    -----
    Let C = 1/(1 - 2^-slope). Progressive BKZ with blocks of beta costs dim^3 plus C^2 (dim - beta) sieves in dimension
    beta - f. Here f = beta ln(4/3) / ln(beta/(2 pi e)) are the dimensions for free. Blocks below 20 are enumerated, in
    8 dim calls. Other models count one sieve in dimension beta, without subexponential factors, and at least
    `reduction_floor`.

    References
    ----------
    Alkim et al. 2016, section 6.1 (core-SVP); Becker, Ducas, Gama and Laarhoven 2016 (classical sieves); Laarhoven
    2015 (quantum sieves); Albrecht, Gheorghiu, Postlethwaite and Schanck 2020 and MATZOV 2022 (gates of a sieve, in
    the fit of the lattice-estimator); Ducas 2018 (dimensions for free); Chen and Nguyen 2012 (enumeration).

    Examples
    --------
    >>> [round(model.cost(406, 998), 1) for model in COST_MODELS.values()]
    [118.6, 107.6, 143.8]
    """

    name: CostModelName  #: its name in results
    unit: str  #: what one operation is
    #: log2 of the operations of one sieve in dimension b is slope b + offset
    slope: float
    offset: float
    #: True: all calls count, and sieves grow to the block less the dimensions for free; False: one call counts
    progressive: bool

    def cost(self, block_size: int, dim: int) -> float:
        """log2 of the cost of reducing a basis of `dim` vectors with that block size."""
        return float(self.exponent(np.array([block_size]), dim)[0])

    def least(self, block_size: int) -> float:
        """A lower bound of log2 of the cost with blocks of that size, which is at least 20, or larger ones."""
        return float(self._calls(np.array([block_size]), block_size)[0])

    def log2_memory(self, block_size: int, dim: int) -> float:
        """log2 of the numbers that the largest sieve holds: 2^(0.2075 b) vectors of `dim` entries."""
        sieve = int(self.sieve(np.array([block_size]), dim)[0])
        return _SIEVE_VECTORS * sieve + math.log2(dim)

    def exponent(self, blocks: Int[np.ndarray, " n"], dim: int) -> Float[np.ndarray, " n"]:
        """log2 of the cost of reducing a basis of `dim` vectors with each of these block sizes."""
        floor, calls = reduction_floor(dim), self._calls(blocks, dim)
        return np.logaddexp2(floor, calls) if self.progressive else np.maximum(floor, calls)

    def short_vectors(
        self,
        blocks: Int[np.ndarray, " n"],
        dim: int,
        wanted: Float[np.ndarray, "*many n"],
    ) -> Float[np.ndarray, "*many n"]:
        """log2 of the cost of 2^wanted short vectors; each reduction is followed by a sieve if all calls count."""
        calls, sieve = self._calls(blocks, dim), self.sieve(blocks, dim)
        more = np.maximum(wanted - _SIEVE_VECTORS * sieve, 0.0)
        if not self.progressive:
            return np.maximum(calls + more, reduction_floor(dim))
        once = np.logaddexp2(calls, self._overhead + self.slope * sieve + self.offset)
        return np.logaddexp2(once, reduction_floor(dim)) + more

    def stretch(self, blocks: Int[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
        """The natural logarithm of the ratio of these vectors' length to the shortest of the reduced basis.

        It is 0 for core-SVP, which takes all of them to be as short. Otherwise it is that of a basis twice as large as
        a block.
        """
        if not self.progressive:
            return np.zeros(len(blocks))
        sieve = self.sieve(blocks, 2 * blocks)
        return 0.5 * math.log(4 / 3) + (sieve - 1) * (_log_factors(sieve) - _log_factors(blocks))

    def sieve(self, blocks: Int[np.ndarray, " n"], dim: int | Int[np.ndarray, " n"]) -> Int[np.ndarray, " n"]:
        """The dimension of the sieve that gives short vectors. It costs as much as the reduction before it."""
        if not self.progressive:
            return blocks
        reduced = blocks - np.floor(_dimensions_for_free(blocks))
        calls = np.log2(np.maximum(dim - blocks, 1)) + self._overhead
        longer = np.floor(reduced + calls / self.slope)
        return np.maximum(np.where(blocks < dim, np.minimum(dim, longer), reduced), 2).astype(int)

    @property
    def _overhead(self) -> float:
        """log2 of C, the factor for the smaller sieves before the last one."""
        return -math.log2(1 - 2**-self.slope)

    def _calls(self, blocks: Int[np.ndarray, " n"], dim: int) -> Float[np.ndarray, " n"]:
        if not self.progressive:
            return self.slope * blocks
        sieve = self.slope * (blocks - _dimensions_for_free(blocks)) + self.offset
        sieves = 2 * self._overhead + np.log2(np.maximum(dim - blocks, 1)) + sieve
        nodes = (0.27018877635019 * np.log(blocks) - 1.0192050451318417) * blocks + 16.10253135200765
        calls = np.where(np.less(blocks, dim), math.log2(8 * dim), 0.0)
        return np.where(np.less(blocks, _LEAST_SIEVE), calls + nodes + math.log2(100), sieves)


_SVP_CALL = "call of a sieve"

COST_MODELS: dict[CostModelName, CostModel] = {
    "core-SVP": CostModel("core-SVP", _SVP_CALL, 0.292, 0.0, progressive=False),
    "quantum core-SVP": CostModel("quantum core-SVP", _SVP_CALL, 0.265, 0.0, progressive=False),
    "MATZOV": CostModel("MATZOV", "gate", 0.29613500308205365, 20.387885985467914, progressive=True),
}
"""Models of the cost of lattice reduction, by name."""


def lattice_cost(
    attack: str,
    parameters: LWEParameters,
    model: CostModelName,
    exponent: float,
    block: int,
    dim: int,
    samples: int,
    **details: int | float,
) -> Cost:
    """The cost of an attack by a lattice of that dimension, reduced with that block size."""
    reduction = COST_MODELS[model]
    return Cost(
        attack,
        exponent,
        parameters,
        reduction.unit,
        model,
        log2_mem=reduction.log2_memory(block, dim),
        log2_m=math.log2(samples),
        details={"beta": block, "d": dim, **details},
    )


def _dimensions_for_free(blocks: Int[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
    wide = np.maximum(blocks, _LEAST_SIEVE)
    free = wide * math.log(4 / 3) / np.log(wide / (2 * math.pi * math.e))
    return np.where(blocks < _LEAST_SIEVE, 0.0, free)


def _log_factors(blocks: np.ndarray) -> np.ndarray:
    """The natural logarithms of root-Hermite factors."""
    wide = np.maximum(blocks, _SMALL_BLOCKS[-1] + 1)
    body = (math.pi * wide) ** (1 / wide) * wide / (2 * math.pi * math.e)
    small = np.log(np.interp(blocks, _SMALL_BLOCKS, _SMALL_FACTORS))
    return np.where(blocks <= _SMALL_BLOCKS[-1], small, np.log(body) / (2 * (wide - 1)))


@cache
def _block_table() -> tuple[np.ndarray, np.ndarray]:
    blocks = np.arange(2, _LARGEST_BLOCK + 1)
    return blocks, _log_factors(blocks)

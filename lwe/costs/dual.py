"""The dual lattice distinguisher's cost: short vectors of the dual lattice, and what they tell of the labels."""

import math
from dataclasses import dataclass

import numpy as np

from attention.validation import count, one_of
from lwe.costs.cost import Cost, require_number
from lwe.costs.deviations import deviations
from lwe.costs.primal import fewest_samples, lengths_tell
from lwe.costs.reduction import (
    CLASSICAL_EXPONENT,
    QUANTUM_EXPONENT,
    SIEVE_VECTORS,
    block_sizes,
    reduction_floor,
)
from lwe.parameters import LWRParameters, require_parameters

__all__ = ["DualLattice", "best_dual_lattice", "dual_cost", "dual_lattices"]

_MOST_STEPS = 64


def dual_lattices(parameters: LWRParameters, samples: int) -> list[tuple[int, float]]:
    """Dimensions and log volumes of the lattices among whose short vectors a distinguisher may choose.

    Parameters
    ----------
    parameters : LWRParameters
        The problem.
    samples : int
        m.

    Notes
    -----
    Uniform secrets: {x in Z^m: x A = 0 mod q}, dimension m, volume q^n. Smaller ones: {(x, y): x A = y mod q} with y
    weighted by sigma_s / sigma_e, dimension m + n. A matrix of bits or trits has integer relations x A = 0 besides:
    dimension m - n, volume (m c)^(n/2), c the variance of an entry (derived here).

    Examples
    --------
    >>> dual_lattices(LWRParameters(secret_dim=16, modulus=4, levels=2, matrix="uniform"), 32)
    [(32, 22.18070977791825)]
    """
    require_parameters(parameters)
    samples = count("samples", samples, least=0)
    sizes, n, log_q = deviations(parameters), parameters.secret_dim, math.log(parameters.modulus)
    found = []
    if samples > n:
        found.append((samples, n * log_q))
        if sizes.column > 0:
            found.append((samples - n, n / 2 * math.log(samples * sizes.column)))
    if sizes.small_secret:
        weight = max(sizes.secret, 1e-3) / max(sizes.error, 1e-3)
        found.append((samples + n, n * log_q + n * math.log(weight)))
    return found


def dual_cost(parameters: LWRParameters, samples: int | None = None, *, quantum: bool = False) -> Cost | None:
    """The core-SVP cost of telling labels from random ones by dual vectors; None where lengths say nothing.

    Parameters
    ----------
    parameters : LWRParameters
        The problem.
    samples : int, optional
        How many there are; as many as wanted if left out.
    quantum : bool
        Whether the sieve is a quantum one.

    Raises
    ------
    ValueError
        If `samples` is below 1.

    Notes
    -----
    A vector of length l = delta^d vol^(1/d) has advantage epsilon = exp(-2 pi^2 (l sigma / q)^2); 1/epsilon^2 vectors
    are needed, and one sieve gives 2^(0.2075 beta) of them, all taken as long as the shortest. The samples,
    the lattice and beta are those of the least cost, and LLL's part of it is weighed with the sieve's.

    References
    ----------
    Alkim et al. 2016, section 6.4. Later work gives faster variants, and doubts about them: not modelled.

    Examples
    --------
    >>> print(dual_cost(LWRParameters(secret_dim=256, modulus=4096, levels=512, matrix="uniform")))
    dual lattice: about 2^57.9 (LWR n=256 q=4096 p=512 uniform; block size 198, dimension 581, samples 581)
    """
    one_of("quantum", quantum, (True, False))
    found = best_dual_lattice(parameters, samples, quantum=quantum, floor=True)
    if found is None:
        return None
    return Cost(
        "dual lattice",
        found.exponent,
        parameters,
        "one call of a sieve, factors below exponential left out",
        f"core-SVP, {'quantum' if quantum else 'classical'}, and no less than LLL; only distinguishes",
        {"block_size": found.block_size, "dimension": found.dimension, "samples": found.samples},
    )


@dataclass(frozen=True, order=True)
class DualLattice:
    """A lattice whose short vectors tell labels from random ones: the exponent of its cost, and its numbers."""

    exponent: float
    block_size: int
    dimension: int
    samples: int


def best_dual_lattice(
    parameters: LWRParameters, samples: int | None = None, *, quantum: bool = False, floor: bool
) -> DualLattice | None:
    """The lattice of least cost; None where lengths say nothing.

    Parameters
    ----------
    parameters, samples, quantum
        As those of `dual_cost`.
    floor : bool
        Whether LLL's cost is part of what is weighed. An attack leaves it out: where LLL is all it takes, the lattice
        that is cheapest for a sieve has the shortest vectors, and tells the most.

    Raises
    ------
    ValueError
        If `samples` is below 1.
    """
    require_parameters(parameters)
    if samples is not None:
        samples = count("samples", samples, least=0)
    samples = require_number(samples)
    sizes, n, q = deviations(parameters), parameters.secret_dim, parameters.modulus
    if not lengths_tell(parameters):
        return None
    rate = QUANTUM_EXPONENT if quantum else CLASSICAL_EXPONENT
    scale = math.log(max(sizes.error, 1e-3)) - math.log(q)
    least = fewest_samples(parameters, determined=False)
    most = max(8 * n + 200, 2 * least)
    most = most if samples is None else min(samples, most)
    # of each kind of lattice, told apart by what it has besides samples
    best: dict[int, DualLattice] = {}
    step = max((most - least) // _MOST_STEPS, 1)
    tried = set(range(least, most + 1, step))
    while tried:  # in steps, and then in ever smaller ones near the best
        for m in sorted(tried):
            for dim, log_volume in dual_lattices(parameters, m):
                blocks, factors = block_sizes(dim)
                log_tau = np.minimum(dim * factors + log_volume / dim + scale, 20.0)
                log_advantage = 2 * math.pi**2 * np.exp(2 * log_tau) / math.log(2)
                exponents = rate * blocks + np.maximum(2 * log_advantage - SIEVE_VECTORS * blocks, 0.0)
                if floor:  # with many samples it is the dimension that costs
                    exponents = np.maximum(exponents, reduction_floor(dim))
                place = int(np.argmin(exponents))
                if dim - m not in best or exponents[place] < best[dim - m].exponent:
                    best[dim - m] = DualLattice(float(exponents[place]), int(blocks[place]), dim, m)
        if step == 1:
            break
        wide, step = step, max(2 * step // _MOST_STEPS, 1)
        tried = {
            m
            for one in best.values()
            for m in range(max(one.samples - wide, least), min(one.samples + wide, most) + 1, step)
        }
    return min(best.values()) if best else None

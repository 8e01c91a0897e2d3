"""Dual lattice attacks: short vectors of the dual lattice tell labels from random ones."""

import math

import numpy as np

from lwe.costs.cost import TELLING_SUMS, Cost
from lwe.costs.deviations import deviations, lengths_tell
from lwe.costs.primal import fewest_samples
from lwe.costs.reduction import COST_MODELS, CostModel, CostModelName, chunks_of_blocks, lattice_cost
from lwe.parameters import LWEParameters

__all__ = ["dual_cost"]

_MOST_STEPS = 64


def _dual_lattices(parameters: LWEParameters, samples: int) -> list[tuple[int, float]]:
    """Dimensions and log volumes of the lattices whose short vectors a distinguisher may use.

    Notes
    -----
    * Any secret: {x in Z^m: x A = 0 mod q}, of dimension m and volume q^n.
    * Secrets smaller than uniform ones: {(x, y): x A = y mod q} with y weighted by sigma_s / sigma_e, of dimension
      m + n.
    * A matrix of bits or trits: the integer relations x A = 0, of dimension m - n and volume (m c)^(n/2). Here c is the
      variance of an entry (derived here).
    """
    sizes = deviations(parameters)
    n, log_q = sizes.n, math.log(sizes.q)
    found = []
    if samples > n:
        found.append((samples, n * log_q))
        if sizes.column > 0:
            found.append((samples - n, n / 2 * math.log(samples * sizes.column)))
    if sizes.small_secret:
        log_weight = sizes.log_secret - sizes.log_error
        found.append((samples + n, n * log_q + n * log_weight))
    return found


def dual_cost(
    parameters: LWEParameters,
    *,
    model: CostModelName = "core-SVP",
) -> Cost | None:
    """The cost of telling labels from random ones by dual vectors; None unless `lengths_tell`.

    Notes
    -----
    A vector of length l = delta^d vol^(1/d) has advantage epsilon = exp(-2 pi^2 (l sigma / q)^2), and 1/epsilon^2
    vectors are needed. A sieve gives 2^(0.2075 beta) vectors. Core-SVP takes all of them to be as short as the
    shortest. The samples, the lattice and beta are those of the least cost.

    References
    ----------
    Micciancio and Regev 2009; Alkim et al. 2016, section 6.4.

    Examples
    --------
    >>> print(dual_cost(LWEParameters(n=256, q=4096, p=512, matrix="uniform")))
    dual: about 2^57.9 (LWR n=256 q=4096 p=512 uniform; mem 2^50.3, m 581, beta 198, d 581)
    """
    if not lengths_tell(parameters):
        return None
    sizes, reduction = deviations(parameters), COST_MODELS[model]
    scale = sizes.log_error - math.log(sizes.q)
    least = fewest_samples(parameters, determined=False)
    most = int(min(max(8 * sizes.n + 200, 2 * least), sizes.samples))
    # exponent, block size, dimension and samples of the best lattice of each kind: dimension minus samples
    best: dict[int, tuple[float, int, int, int]] = {}
    step = max((most - least) // _MOST_STEPS, 1)
    tried = set(range(least, most + 1, step))
    while tried:  # in steps, then in smaller and smaller ones near the best
        for m in sorted(tried):
            for dim, log_volume in _dual_lattices(parameters, m):
                exponent, block = _best_block(dim, log_volume + dim * scale, reduction)
                if dim - m not in best or exponent < best[dim - m][0]:
                    best[dim - m] = (exponent, block, dim, m)
        if step == 1:
            break
        wide, step = step, max(2 * step // _MOST_STEPS, 1)
        tried = {
            m
            for *_, middle in best.values()
            for m in range(max(middle - wide, least), min(middle + wide, most) + 1, step)
        }
    return lattice_cost("dual", parameters, model, *min(best.values())) if best else None


def _best_block(dim: int, log_volume: float, model: CostModel) -> tuple[float, int]:
    """The least exponent and its block size, for a lattice in units of q / sigma."""
    best = math.inf, 0
    for blocks, factors in chunks_of_blocks(dim):
        if blocks[0] > 2 and model.least(int(blocks[0])) >= best[0]:
            break
        log_tau = dim * factors + log_volume / dim + model.stretch(blocks)
        wanted = 4 * math.pi**2 * np.exp(2 * np.minimum(log_tau, 20.0)) / math.log(2)
        if model.progressive:  # constants count: the labels are told with probability .99
            wanted += math.log2(TELLING_SUMS)
        exponents = model.short_vectors(blocks, dim, wanted)
        place = int(np.argmin(exponents))
        best = min(best, (float(exponents[place]), int(blocks[place])))
    return best

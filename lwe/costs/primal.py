"""The primal lattice attack: its lattice, samples, block size and cost."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np

from lwe.costs.cost import Cost, log2_comb, refine
from lwe.costs.deviations import deviations, lengths_tell
from lwe.costs.reduction import COST_MODELS, CostModelName, block_size_for, gaussian_gap, lattice_cost
from lwe.distributions import FixedWeight
from lwe.parameters import LWEParameters

_MOST_STEPS = 200


@dataclass(frozen=True)
class PrimalShape:
    """The lattice that contains the error of a problem as a planted vector."""

    samples: int  #: m, the number of rows of the public matrix
    #: whether the secret is part of the planted vector, weighted to the size of the errors (Bai and Galbraith)
    weighted: bool
    #: of the lattice to reduce, with the target's row; without the short vectors of a matrix of bits or trits
    dimension: int
    gap: float  #: log of the ratio of the shortest other vector's expected length to the planted vector's
    block_size: int | None  #: the block size that finds the planted vector, by the model; None if none does


def primal_shape(parameters: LWEParameters, samples: int, *, weighted: bool | None = None) -> PrimalShape:
    """The lattice for m samples; by default `weighted` if the secret is smaller than a uniform one.

    Notes
    -----
    For a uniform matrix the lattice without the secret has dimension m + 1 and volume q^(m-n). With the secret,
    weighted by w = sigma_e / sigma_s, it has dimension m + n + 1 and volume q^m w^n. If the matrix has bits or trits,
    its n columns are short vectors of the lattice. Then the projection orthogonal to them is reduced, with n dimensions
    less. Its volume is that of the lattice divided by (m c + w^2)^(n/2), where c is the variance of an entry (derived
    here).

    References
    ----------
    Kannan 1987 (embedding); Bai and Galbraith 2014 (weights); Alkim et al. 2016, section 6.3.
    """
    sizes = deviations(parameters)
    n, log_q = sizes.n, math.log(sizes.q)
    if weighted is None:
        weighted = sizes.small_secret
    log_sigma = sizes.log_error
    log_weight = log_sigma - sizes.log_secret if weighted else -math.inf
    if weighted:
        lattice, log_volume = samples + n, samples * log_q + n * log_weight
    else:
        lattice, log_volume = samples, max(samples - n, 0) * log_q
    if sizes.column > 0:
        own = min(n, lattice - 1)
        lattice -= own
        log_volume -= own / 2 * float(np.logaddexp(math.log(samples * sizes.column), 2 * log_weight))
    gap = gaussian_gap(lattice, log_volume, log_sigma)
    # the embedding's own row has the length of one entry
    block_size = block_size_for(lattice + 1, log_volume + log_sigma, log_sigma) if gap > 0 else None
    return PrimalShape(samples, weighted, lattice + 1, gap, block_size)


def _order(shape: PrimalShape) -> tuple[int, int]:
    return (shape.block_size or 0, shape.dimension)


def best_primal_shape(
    parameters: LWEParameters,
    samples: int | None = None,
    *,
    least_gap: float = 0.0,
    most_rows: int | None = None,
    determined: bool = True,
    order: Callable[[PrimalShape], Any] = _order,
) -> PrimalShape | None:
    """The first lattice in an order, by default of block sizes, whose planted vector is expected to be the shortest.

    The logarithm of its gap is at least `least_gap`. It has at most `most_rows` rows and at least `fewest_samples`
    samples. None if there is no such lattice. The numbers of samples are tried in steps of 1/200 of their range, then
    in smaller and smaller steps near the best. The best is near sqrt(n log q / log delta), as in Micciancio and Regev
    2009.
    """
    sizes = deviations(parameters)
    if sizes.label_bits == 0:
        return None
    n = sizes.n
    fewest = fewest_samples(parameters, determined=determined)
    most = max(8 * n + 200, 2 * fewest)
    most = most if samples is None else min(samples, most)
    shapes: list[PrimalShape] = []
    for weighted in (False, True) if sizes.small_secret else (False,):
        rows = n + 1 if weighted else 1
        top = most if most_rows is None else min(most, most_rows - rows)
        least = max(fewest, 1 if weighted else n + 1)
        step = max((top - least) // _MOST_STEPS, 1)
        tried = range(least, top + 1, step)
        while True:
            near = [primal_shape(parameters, m, weighted=weighted) for m in tried]
            near = [shape for shape in near if shape.block_size is not None and shape.gap >= least_gap]
            shapes += near
            if step == 1 or not near:
                break
            middle, around = min(near, key=order).samples, step
            step = max(2 * around // _MOST_STEPS, 1)
            tried = range(max(middle - around, least), min(middle + around, top) + 1, step)
    return min(shapes, key=order) if shapes else None


def fewest_samples(parameters: LWEParameters, *, determined: bool = True) -> int:
    """The fewest samples that a lattice needs: their labels carry as many bits as the secret has.

    If the secret need not be `determined`, it is enough to predict labels or to tell them from random ones. With a
    matrix of bits or trits the secret is then needed only up to small changes. So n + 1 samples suffice for n entries
    of the secret: from there on the lattice contains more than the matrix's own short vectors.

    A ValueError if errors are uniform mod q. Labels then carry no information on the secret, and no number is enough.

    Notes
    -----
    The secret has H(s) bits, its entropy. A label b of T = <v, a> carries at most I(T; b) bits. This is at most log2 p,
    and at most log2 q - H(e) if errors are added. By Fano's inequality (Cover and Thomas 2006, section 2.10), with
    fewer than H(s)/I(T; b) samples no method finds the secret with a probability near 1.

    Examples
    --------
    >>> bits = LWEParameters(n=24, q=64, p=2)
    >>> fewest_samples(bits), fewest_samples(bits, determined=False)
    (144, 25)
    """
    sizes = deviations(parameters)
    if sizes.label_bits == 0:
        raise ValueError(
            f"Labels of {parameters} do not depend on the secret: errors are uniform mod q, and no number of samples "
            "is enough; take a narrower distribution of errors."
        )
    if not determined and sizes.column > 0:
        return sizes.n + 1
    return max(math.ceil(sizes.secret_bits / sizes.label_bits - 1e-9), 1)


def primal_cost(
    parameters: LWEParameters,
    *,
    model: CostModelName = "core-SVP",
) -> Cost | None:
    """The cost of the primal attack; None if by the model no lattice reveals the secret.

    The profile of a reduced basis is taken to be a line (the geometric series assumption).

    References
    ----------
    Alkim et al. 2016, section 6.3; Albrecht, Player and Scott 2015 and its lattice-estimator.

    Examples
    --------
    >>> from lwe.distributions import CentredBinomial
    >>> eta = CentredBinomial(3)
    >>> kyber = LWEParameters(512, 3329, matrix="uniform", Xs=eta, Xe=eta, m=512)
    >>> print(primal_cost(kyber))  # doctest: +ELLIPSIS
    usvp: about 2^118.6 (LWE n=512 ...; mem 2^94.2, m 485, beta 406, d 998)
    """
    if not lengths_tell(parameters):
        return None
    reduction = COST_MODELS[model]

    def exponent(shape: PrimalShape) -> float:
        assert shape.block_size is not None
        return reduction.cost(shape.block_size, shape.dimension)

    # ordered by cost: if LLL is nearly enough, a smaller dimension may be cheaper than a smaller block
    shape = best_primal_shape(parameters, parameters.m, order=lambda shape: (exponent(shape), *_order(shape)))
    if shape is None:
        return None
    block, dim = shape.block_size or 0, shape.dimension
    return lattice_cost("usvp", parameters, model, exponent(shape), block, dim, shape.samples)


def drop_and_solve_cost(
    parameters: LWEParameters,
    *,
    model: CostModelName = "core-SVP",
) -> Cost | None:
    """The cost of leaving out columns until a sparse secret is zero there, and of the primal attack on the others.

    None unless the weight of the secret is fixed, or if leaving out nothing is best. Trials are repeated until their
    success has probability .99; zeta, the number of columns that are left out, is that of least cost.

    References
    ----------
    Albrecht 2017, "On dual lattice attacks against small-secret LWE and parameter choices in HElib and SEAL".

    Examples
    --------
    >>> from lwe.distributions import SparseSigned
    >>> from lwe.presets import PRESETS
    >>> print(drop_and_solve_cost(PRESETS["kyber512"].updated(Xs=SparseSigned(32))))  # doctest: +ELLIPSIS
    drop-and-solve: about 2^73.4 (LWE n=512 ...; mem 2^35.2, m 201, beta 127, d 455, zeta 259)
    """
    n, distribution = parameters.n, parameters.Xs
    if not isinstance(distribution, FixedWeight):
        return None
    weight = distribution.total

    @cache
    def attempt(dropped: int) -> Cost | None:
        cost = primal_cost(parameters.updated(n=n - dropped), model=model)
        if cost is None:
            return None
        trials = log2_comb(n, weight) - log2_comb(n - dropped, weight) + math.log2(math.log(100))
        details = {**cost.details, "zeta": dropped}
        exponent = cost.log2_rop + trials
        return replace(
            cost, attack="drop-and-solve", log2_rop=exponent, parameters=parameters, details=details
        )

    def exponent(dropped: int) -> float:
        cost = attempt(dropped)
        return math.inf if cost is None else cost.log2_rop

    most = n - max(weight, 1)
    best = refine(exponent, range(0, most + 1, max(most // 16, 1)), 0, most)
    return attempt(best) if best else None

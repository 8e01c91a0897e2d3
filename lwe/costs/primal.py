"""The primal lattice attack: which lattice, how many samples, which block size, at which cost."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any

from attention.validation import NonNegativeInt, PositiveInt, Real, checked
from lwe.costs.cost import Cost
from lwe.costs.deviations import PlainLWE, deviations
from lwe.costs.reduction import COST_MODELS, CostModelName, block_size_for, gaussian_gap
from lwe.parameters import LWRParameters

__all__ = [
    "PrimalShape",
    "best_primal_shape",
    "fewest_samples",
    "lengths_tell",
    "primal_cost",
    "primal_shape",
]

_MOST_STEPS = 200


@dataclass(frozen=True)
class PrimalShape:
    """The lattice in which the error of a problem is sought."""

    samples: int  #: m, how many rows of the public matrix
    #: whether the secret is part of the planted vector, weighted to the size of the errors (Bai and Galbraith)
    weighted: bool
    #: of the lattice that has to be reduced, with the target's row: of what is left beside the short vectors that a
    #: matrix of bits or trits has of itself
    dimension: int
    log_volume: float  #: natural logarithm of its volume
    deviation: float  #: of the entries of the planted vector
    gap: float  #: log of how much longer the shortest other vector is expected to be
    block_size: int | None  #: what finds it, by the model; None if nothing does


@checked
def primal_shape(
    parameters: LWRParameters | PlainLWE, samples: NonNegativeInt, *, weighted: bool | None = None
) -> PrimalShape:
    """The lattice for so many samples; `weighted` by default where the secret is smaller than a uniform one.

    Notes
    -----
    Uniform matrices: dimension m + 1 and volume q^(m-n) without the secret, dimension m + n + 1 and volume
    q^m w^n with the secret weighted by w = sigma_e / sigma_s. A matrix of bits or trits has its own n columns as
    short vectors of the lattice; what is reduced is the projection orthogonal to them, of n dimensions less, and their
    volume (m c + w^2)^(n/2), c the variance of an entry, is divided out (derived here).

    References
    ----------
    Kannan 1987 (embedding); Bai and Galbraith 2014 (weights); Alkim et al. 2016, section 6.3.
    """
    sizes = deviations(parameters)
    n, log_q = sizes.n, math.log(sizes.q)
    if weighted is None:
        weighted = sizes.small_secret
    sigma = max(sizes.error, 1e-3)
    weight = sigma / max(sizes.secret, 1e-3) if weighted else 0.0
    if weighted:
        lattice, log_volume = samples + n, samples * log_q + n * math.log(weight)
    else:
        lattice, log_volume = samples, max(samples - n, 0) * log_q
    if sizes.column > 0:
        own = min(n, lattice - 1)
        lattice -= own
        log_volume -= own / 2 * math.log(samples * sizes.column + weight**2)
    gap = gaussian_gap(lattice, log_volume, sigma)
    # the embedding's own row has the length of one entry
    block_size = block_size_for(lattice + 1, log_volume + math.log(sigma), sigma) if gap > 0 else None
    return PrimalShape(samples, weighted, lattice + 1, log_volume, sigma, gap, block_size)


@checked
def lengths_tell(parameters: LWRParameters | PlainLWE) -> bool:
    """Whether lengths carry information: not for q = 2, errors as wide as q or uniform mod q, or a single secret."""
    sizes = deviations(parameters)
    return (
        sizes.q > 2 and sizes.secret > 0 and sizes.error < 0.95 * sizes.q / math.sqrt(12) and sizes.told > 0
    )


@checked
def best_primal_shape(
    parameters: LWRParameters | PlainLWE,
    samples: PositiveInt | None = None,
    *,
    least_gap: Annotated[float, Real()] = 0.0,
    most_rows: NonNegativeInt | None = None,
    determined: bool = True,
) -> PrimalShape | None:
    """The lattice with the least block size, of those whose planted vector is expected to be the shortest.

    None if there is none of a gap of at least `least_gap` (its logarithm), at most `most_rows`, and as many samples as
    `fewest_samples` says. Numbers of samples are tried in steps of 1/200 of them, then in ever smaller ones near the
    best; that is near sqrt(n log q / log delta), as in Micciancio and Regev 2009.
    """
    return _best_shape(parameters, samples, _order, least_gap, most_rows, determined)


def _best_shape(
    parameters: LWRParameters | PlainLWE,
    samples: int | None,
    order: Callable[[PrimalShape], Any],
    least_gap: float = 0.0,
    most_rows: int | None = None,
    determined: bool = True,
) -> PrimalShape | None:
    """The first in an order of the lattices whose planted vector is expected to be the shortest."""
    sizes = deviations(parameters)
    if sizes.told == 0:
        return None
    n = sizes.n
    fewest = fewest_samples(parameters, determined=determined)
    most = max(8 * n + 200, 2 * fewest)
    most = most if samples is None else min(samples, most)
    found: list[PrimalShape] = []
    for weighted in (False, True) if sizes.small_secret else (False,):
        rows = n + 1 if weighted else 1
        top = most if most_rows is None else min(most, most_rows - rows)
        least = max(fewest, 1 if weighted else n + 1)

        def shapes(range_: range, weighted: bool = weighted) -> list[PrimalShape]:
            tried = (primal_shape(parameters, m, weighted=weighted) for m in range_)
            return [one for one in tried if one.block_size is not None and one.gap >= least_gap]

        step = max((top - least) // _MOST_STEPS, 1)
        tried = shapes(range(least, top + 1, step))
        while tried:
            found += tried
            if step == 1:
                break
            middle, around = min(tried, key=order).samples, step
            step = max(2 * around // _MOST_STEPS, 1)
            tried = shapes(range(max(middle - around, least), min(middle + around, top) + 1, step))
    return min(found, key=order) if found else None


@checked
def fewest_samples(parameters: LWRParameters | PlainLWE, *, determined: bool = True) -> int:
    """The fewest samples that a lattice needs: their labels carry as many bits as the secret has.

    If the secret need not be `determined`, it is enough to predict labels or to tell them from random ones. With a
    matrix of bits or trits the secret is then needed only up to small changes. The number is one more than the entries
    of the secret: only then does the lattice contain more than its own short vectors.

    ValueError if errors are uniform mod q: then labels carry no information on the secret, and no number is enough.

    Notes
    -----
    The secret has H(s) bits, its entropy. A label b of T = <v, a> carries at most I(T; b) bits: log2 p, and
    log2 q - H(e) if errors are added. By Fano's inequality (Cover and Thomas 2006, section 2.10), with fewer than
    H(s)/I(T; b) samples no method finds the secret with a probability near 1.

    Examples
    --------
    >>> bits = LWRParameters(secret_dim=24, modulus=64, levels=2)
    >>> fewest_samples(bits), fewest_samples(bits, determined=False)
    (144, 25)
    """
    sizes = deviations(parameters)
    if sizes.told == 0:
        raise ValueError(
            f"Labels of {parameters} do not depend on the secret: errors are uniform mod q, and no number of samples "
            "is enough; take a narrower law of errors."
        )
    if not determined and sizes.column > 0:
        return sizes.n + 1
    return max(math.ceil(sizes.secret_bits / sizes.told - 1e-9), 1)


@checked
def primal_cost(
    parameters: LWRParameters | PlainLWE,
    samples: PositiveInt | None = None,
    *,
    model: CostModelName = "core-SVP",
) -> Cost | None:
    """The cost of the primal attack; None where the model finds no lattice with the secret in it.

    The profile of a reduced basis is taken to be a line (the geometric series assumption).

    References
    ----------
    Alkim et al. 2016, section 6.3; Albrecht, Player and Scott 2015 and its lattice-estimator.

    Examples
    --------
    >>> from lwe.laws import BinomialLaw
    >>> eta = BinomialLaw(3)
    >>> kyber = LWRParameters(512, 3329, 3329, matrix="uniform", secret=eta, noise=eta)
    >>> print(primal_cost(kyber, 512))  # doctest: +ELLIPSIS
    primal lattice: about 2^118.6 (LWE n=512 ...; block size 406, dimension 998, samples 485)
    """
    if not lengths_tell(parameters):
        return None
    reduction = COST_MODELS[model]

    def exponent(shape: PrimalShape) -> float:
        assert shape.block_size is not None
        return reduction.cost(shape.block_size, shape.dimension)

    # by what they cost: where LLL is nearly enough, a smaller dimension may be cheaper than a smaller block
    shape = _best_shape(parameters, samples, lambda one: (exponent(one), *_order(one)))
    if shape is None:
        return None
    return Cost(
        "primal lattice",
        exponent(shape),
        parameters,
        reduction.unit,
        model,
        {"block_size": shape.block_size, "dimension": shape.dimension, "samples": shape.samples},
    )


def _order(shape: PrimalShape) -> tuple[int, int]:
    return (shape.block_size or 0, shape.dimension)

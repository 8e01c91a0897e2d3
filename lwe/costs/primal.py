"""The primal lattice attack: which lattice, how many samples, which block size, at which cost."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from attention.validation import count, finite_number, one_of
from lwe.costs.cost import Cost, require_number
from lwe.costs.deviations import deviations, law_on_grid
from lwe.costs.reduction import block_size_for, core_svp_exponent, gaussian_gap, reduction_floor
from lwe.laws import GaussianLaw, IntegerLaw, SparseLaw
from lwe.parameters import LWRParameters, require_parameters

__all__ = [
    "PrimalShape",
    "best_primal_shape",
    "fewest_samples",
    "lengths_tell",
    "primal_cost",
    "primal_shape",
]

_LEAST_BITS = 1e-12  # below it, what a label is said to tell is rounding

_MOST_STEPS = 200


@dataclass(frozen=True)
class PrimalShape:
    """The lattice in which the error of a problem is sought.

    Attributes
    ----------
    samples : int
        m, how many rows of the public matrix.
    weighted : bool
        Whether the secret is part of the planted vector, weighted to the size of the errors (Bai and Galbraith).
    dimension : int
        Of the lattice that has to be reduced, with the target's row: of what is left beside the short vectors that a
        matrix of bits or trits has of itself.
    log_volume : float
        Natural logarithm of its volume.
    deviation : float
        Of the entries of the planted vector.
    gap : float
        log of how much longer the shortest other vector is expected to be.
    block_size : int or None
        What finds it, by the model; None if nothing does.
    """

    samples: int
    weighted: bool
    dimension: int
    log_volume: float
    deviation: float
    gap: float
    block_size: int | None


def primal_shape(parameters: LWRParameters, samples: int, *, weighted: bool | None = None) -> PrimalShape:
    """The lattice for so many samples.

    Parameters
    ----------
    parameters : LWRParameters
        The problem.
    samples : int
        m.
    weighted : bool, optional
        Whether the secret is part of the planted vector; by default where it is smaller than a uniform one.

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
    require_parameters(parameters)
    samples = count("samples", samples, least=0)
    one_of("weighted", weighted, (True, False, None))
    sizes, n, log_q = deviations(parameters), parameters.secret_dim, math.log(parameters.modulus)
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


def lengths_tell(parameters: LWRParameters) -> bool:
    """Whether lengths say anything: not for q = 2, errors as wide as q or uniform mod q, or a secret without choice."""
    require_parameters(parameters)
    sizes, q = deviations(parameters), parameters.modulus
    narrow = sizes.error < 0.95 * q / math.sqrt(12)
    return q > 2 and sizes.secret > 0 and narrow and _bits_told(parameters) > 0


def best_primal_shape(
    parameters: LWRParameters,
    samples: int | None = None,
    *,
    least_gap: float = 0.0,
    most_rows: int | None = None,
    determined: bool = True,
) -> PrimalShape | None:
    """The lattice with the least block size, of those whose planted vector is expected to be the shortest.

    Parameters
    ----------
    parameters : LWRParameters
        The problem.
    samples : int, optional
        How many there are; as many as wanted if left out.
    least_gap : float
        The least logarithm of the gap; larger is surer, and takes more samples.
    most_rows : int, optional
        The largest basis allowed.
    determined : bool
        Whether the samples have to determine the secret, as in `fewest_samples`.

    Returns
    -------
    PrimalShape or None
        None if no number of samples will do, or there are too few to determine a secret at all.

    Raises
    ------
    ValueError
        If `samples` is below 1.

    Notes
    -----
    All numbers of samples up to `samples` are tried, in steps of 1/200 of them, then those near the best in ever
    smaller steps; the best is near sqrt(n log q / log delta), as in the analysis of Micciancio and Regev 2009.
    """
    require_parameters(parameters)
    least_gap = finite_number("least_gap", least_gap)
    if most_rows is not None:
        most_rows = count("most_rows", most_rows, least=0)
    one_of("determined", determined, (True, False))
    return _best_shape(parameters, require_number(samples), _order, least_gap, most_rows, determined)


def _best_shape(
    parameters: LWRParameters,
    samples: int | None,
    order: Callable[[PrimalShape], Any],
    least_gap: float = 0.0,
    most_rows: int | None = None,
    determined: bool = True,
) -> PrimalShape | None:
    """The first in an order of the lattices whose planted vector is expected to be the shortest."""
    if _bits_told(parameters) == 0:
        return None
    n, sizes = parameters.secret_dim, deviations(parameters)
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


def fewest_samples(parameters: LWRParameters, *, determined: bool = True) -> int:
    """How many samples a lattice needs at the least: labels that tell as many bits as a secret has.

    Parameters
    ----------
    parameters : LWRParameters
        The problem.
    determined : bool
        Whether the secret itself is wanted. If not, labels are only to be predicted or told from random ones: with
        bits or trits as entries a secret need be known only up to small changes, and one sample more than it has
        entries is where a lattice with anything but its own short vectors begins.

    Raises
    ------
    ValueError
        If labels tell nothing of the secret, the errors being uniform mod q: no number is enough.

    Notes
    -----
    H(s) bits are needed, the entropy of the secret, and a label b of T = <v, a> tells at most I(T; b): log2 p, and
    log2 q - H(e) where errors are added. By Fano's inequality, with fewer than H(s)/I(T; b)
    samples no method finds the secret with a probability near 1. Whether the rows are bits or residues does not
    matter for that: 24 uniform entries mod 64 with two levels take 144 samples. More than this bound may be needed.

    References
    ----------
    Cover and Thomas 2006, "Elements of information theory", sections 2.10 and 7.9.

    Examples
    --------
    >>> bits = LWRParameters(secret_dim=24, modulus=64, levels=2)
    >>> fewest_samples(bits), fewest_samples(bits, determined=False)
    (144, 25)
    """
    require_parameters(parameters)
    one_of("determined", determined, (True, False))
    n, told = parameters.secret_dim, _bits_told(parameters)
    if told == 0:
        raise ValueError(
            f"Labels of {parameters} do not depend on the secret: errors are uniform mod q, and no number of samples "
            "is enough; take a narrower law of errors."
        )
    if not determined and deviations(parameters).column > 0:
        return n + 1
    return max(math.ceil(_entropy(parameters.secret, n, parameters.modulus) / told - 1e-9), 1)


def primal_cost(
    parameters: LWRParameters, samples: int | None = None, *, quantum: bool = False
) -> Cost | None:
    """The core-SVP cost of the primal attack; None where the model finds no lattice with the secret in it.

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
    Where LLL is enough, or nearly, the sieve costs less than that: see `lwe.costs.reduction_floor`.

    References
    ----------
    Alkim et al. 2016, section 6.3; Albrecht, Player and Scott 2015 and its lattice-estimator, whose
    `LWE.estimate.rough` uses the same measure.

    Examples
    --------
    >>> from lwe.laws import BinomialLaw
    >>> eta = BinomialLaw(3)
    >>> kyber = LWRParameters(512, 3329, 3329, matrix="uniform", secret=eta, noise=eta)
    >>> print(primal_cost(kyber, 512))  # doctest: +ELLIPSIS
    primal lattice: about 2^118.6 (LWE n=512 ...; block size 406, dimension 998, samples 485)
    """
    require_parameters(parameters)
    if samples is not None:
        samples = count("samples", samples, least=0)
    one_of("quantum", quantum, (True, False))
    samples = require_number(samples)

    def exponent(shape: PrimalShape) -> float:
        assert shape.block_size is not None
        return max(core_svp_exponent(shape.block_size, quantum=quantum), reduction_floor(shape.dimension))

    if not lengths_tell(parameters):
        return None
    # by what they cost: where LLL is nearly enough, a smaller dimension may be cheaper than a smaller block
    shape = _best_shape(parameters, samples, lambda one: (exponent(one), *_order(one)))
    if shape is None:
        return None
    return Cost(
        "primal lattice",
        exponent(shape),
        parameters,
        "one call of a sieve, factors below exponential left out",
        f"core-SVP, {'quantum' if quantum else 'classical'}, and no less than LLL; geometric series assumption",
        {"block_size": shape.block_size, "dimension": shape.dimension, "samples": shape.samples},
    )


def _order(shape: PrimalShape) -> tuple[int, int]:
    return (shape.block_size or 0, shape.dimension)


def _bits_told(parameters: LWRParameters) -> float:
    """What a label tells of the inner product, at the most; 0 where that is nothing but rounding."""
    q, noise = parameters.modulus, parameters.noise
    if noise.is_uniform(q):
        return 0.0
    told = min(math.log2(parameters.levels), math.log2(q) - _entropy(noise, 1, q))
    return told if told > _LEAST_BITS else 0.0


def _entropy(law: IntegerLaw, size: int, modulus: int) -> float:
    """In bits, of that many numbers."""
    if law.is_uniform(modulus):
        return size * math.log2(modulus)
    if isinstance(law, SparseLaw):
        return law.secrets(size, modulus)
    if isinstance(law, GaussianLaw) and 1 < law.sigma < modulus / 40:  # it may be too wide to list
        return size * math.log2(math.sqrt(2 * math.pi * math.e * (law.sigma**2 + 1 / 12)))
    _, weights, width = law_on_grid(law, modulus)
    return size * (float(-np.sum(weights * np.log2(weights))) + math.log2(width))

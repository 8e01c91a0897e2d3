"""Dual lattice attacks: short vectors of the dual lattice tell labels from random ones."""

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache, lru_cache, partial

import numpy as np

from lwe.costs.cost import TELLING_SUMS, Cost
from lwe.costs.deviations import Deviations, deviations, lengths_tell, normal_form
from lwe.costs.primal import fewest_samples
from lwe.costs.reduction import BLOCKS, COST_MODELS, CostModel, CostModelName, chunks_of_blocks, lattice_cost
from lwe.parameters import LWEParameters

_MOST_STEPS = 64
# One multiplication of 32 bits in gates, and one addition (MATZOV 2022, page 37, and a guess after it).
_MULTIPLY, _ADD = 32**2, 5 * 32
_LARGEST_FFT_MODULUS = 8
# log2 of deviations of secrets: a narrower Gaussian is always zero, and no entry of a wider one can be guessed
_NARROWEST, _WIDEST = math.log2(1e-2), 60.0


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


@lru_cache(maxsize=8)  # the dual hybrid attack asks for it, too
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


def dual_hybrid_cost(
    parameters: LWEParameters,
    *,
    model: CostModelName = "core-SVP",
) -> Cost | None:
    """The cost of the dual attack that guesses some entries and finds others, mod p, by a Fourier transform.

    None unless the matrix is uniform and `lengths_tell`. The attack uses at most as many samples as the secret has
    entries.

    Notes
    -----
    The cost is that of Theorem 7.6 of MATZOV 2022. It may be too low, because it is disputed whether its heuristics
    hold at these sizes (Ducas and Pulles 2023). Guesses follow a Gaussian with the secret's deviation.

    References
    ----------
    Guo and Johansson 2021; MATZOV 2022; the model is that of the lattice-estimator's `LWE.dual_hybrid`.

    Examples
    --------
    >>> from lwe.presets import PRESETS
    >>> [dual_hybrid_cost(PRESETS["kyber512"], model=model).rop for model in ("core-SVP", "MATZOV")]
    ['2^115.3', '2^139.1']
    """
    form = normal_form(parameters)
    if form is None:
        return None
    plain = dual_cost(parameters, model=model)  # the case where nothing is guessed or transformed
    if plain is not None:
        plain = replace(plain, attack="dual_hybrid", details={**plain.details, "zeta": 0, "t": 0})
    if not _NARROWEST <= form.log2_secret <= _WIDEST:
        return plain
    at = cache(partial(_split, form, COST_MODELS[model]))
    found = min(_best_split(form, p, at) for p in range(2, _LARGEST_FFT_MODULUS + 1))
    exponent, block, guessed, transformed, p = found
    if math.isinf(exponent) or (plain is not None and plain.log2_rop <= exponent):
        return plain
    samples = int(min(form.n, form.samples))
    dim = samples + form.n - guessed - transformed
    details = {"zeta": guessed, "t": transformed, "p": p}
    return lattice_cost("dual_hybrid", parameters, model, exponent, block, dim, samples, **details)


_Splits = Callable[[int, int], Mapping[int, tuple[float, int]]]


def _best_split(form: Deviations, p: int, at: _Splits) -> tuple[float, int, int, int, int]:
    """The least exponent, its block size, the numbers of guessed and of transformed entries, and p."""
    most = form.n // 2
    step = max(form.n // 16, 1)
    grid = [(i, j) for i in range(0, most, step) for j in range(0, most, step)]
    best = min(grid, key=lambda one: at(*one)[p])
    while step > 1:
        step = (step + 1) // 2
        moves = [(best[0] + i * step, best[1] + j * step) for i in (-1, 0, 1) for j in (-1, 0, 1)]
        best = min((one for one in moves if min(one) >= 0 and sum(one) < form.n), key=lambda one: at(*one)[p])
    return (*at(*best)[p], *best, p)


def _split(
    form: Deviations, model: CostModel, guessed: int, transformed: int
) -> Mapping[int, tuple[float, int]]:
    """For each modulus of the transform: the least exponent and its block size."""
    s, m = 2.0**form.log2_secret, min(form.n, form.samples)
    log_q = math.log(form.q)
    lattice = form.n - guessed - transformed
    dim = int(m + lattice)
    p = np.arange(2, _LARGEST_FFT_MODULUS + 1)[:, None]
    bits = 0.5 + math.log(math.sqrt(2 * math.pi) * s) - math.log(math.tanh((math.pi * s) ** 2))
    bits = bits / math.log(2)  # of an entry that is guessed
    hypotheses = transformed / 3 * (s * math.pi / p) ** 2 + np.log(
        guessed * bits + transformed * np.log(p) + math.log(2)
    )
    with np.errstate(divide="ignore"):
        transform = np.log2(_MULTIPLY * transformed) + (transformed + 1) * np.log2(p)
    alpha = (math.pi * s) ** 2
    wasted = 1 + (math.log2(math.e) * (8 * alpha * math.exp(-2 * alpha) * math.tanh(alpha) - 0.5))
    guess = guessed * (bits + wasted) - math.log2(-math.expm1(-0.5 / s**2))
    least, best = np.full(len(p), math.inf), np.zeros(len(p), dtype=int)
    for blocks, factors in chunks_of_blocks(min(BLOCKS[-1], dim), least=BLOCKS[0]):
        if model.least(int(blocks[0])) >= least.max():
            break
        log_length = m / dim * form.log_error + lattice / dim * (math.log(s) + log_q)
        log_length = (
            log_length + 0.5 * np.log(4 / 3 * blocks / (2 * math.pi * math.e)) + (dim - blocks) * factors
        )
        advantage = 4 * math.pi**2 * np.exp(2 * np.minimum(log_length - log_q, 20.0))
        wanted = (advantage + hypotheses) / math.log(2)
        searched = guess + np.logaddexp2(transform, math.log2(4 * _ADD) + wanted)
        exponents = np.logaddexp2(model.short_vectors(blocks, dim, wanted), searched)
        places = exponents.argmin(axis=1)
        lower = exponents.min(axis=1) < least
        best = np.where(lower, blocks[places], best)
        least = np.minimum(least, exponents.min(axis=1))
    return {
        int(one): (float(exponent), int(block))
        for one, exponent, block in zip(p[:, 0], least, best, strict=True)
    }

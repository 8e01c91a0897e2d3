"""The cost of decoding: reduce a basis, and find the error by one larger sieve in its last block."""

import math
from dataclasses import replace
from functools import cache, partial
from typing import NamedTuple

import numpy as np
import scipy
from jaxtyping import Float

from lwe.costs.cost import Cost, refine
from lwe.costs.deviations import Deviations, normal_form
from lwe.costs.reduction import (
    BLOCKS,
    COST_MODELS,
    CostModel,
    CostModelName,
    lattice_cost,
    root_hermite_factor,
)
from lwe.parameters import LWEParameters

_SUCCESS = 0.99
_LONGEST = 4096  # lattices of larger dimensions have a last block below it


class _Plan(NamedTuple):
    exponent: float  #: log2 of the operations
    block: int  #: the block size of the reduction
    sieve: int  #: the dimension of the last sieve
    dim: int  #: that of the lattice


def decoding_cost(
    parameters: LWEParameters,
    *,
    model: CostModelName = "core-SVP",
) -> Cost | None:
    """The cost of reducing a basis and then finding the error by one larger sieve.

    None if no block up to 1754 is enough, or unless the matrix is uniform and `lengths_tell`.

    Notes
    -----
    The sieve finds the error's projection on the last block, and Babai's nearest planes the rest of it. Both are
    repeated until their success has probability .99. The block and the dimension are those of least cost.

    References
    ----------
    Liu and Nguyen 2013, "Solving BDD by enumeration"; Wunderer 2019 (Babai's probability); the model is that of the
    lattice-estimator's `primal_bdd`.

    Examples
    --------
    >>> from lwe.presets import PRESETS
    >>> print(decoding_cost(PRESETS["kyber512"], model="MATZOV"))  # doctest: +ELLIPSIS
    bdd: about 2^140.2 (LWE n=512 ...; mem 2^98.0, m 493, beta 389, d 1005, eta 422)
    """
    form = normal_form(parameters)
    if form is None:
        return None
    plan = cache(partial(_plan, form, COST_MODELS[model]))
    bound = cache(COST_MODELS[model].least)
    least, most = BLOCKS[0], BLOCKS[-1]
    block = refine(lambda block: plan(block).exponent, range(least, most, 120), least, most, bound)
    # a basis smaller than the one with the shortest vectors may suffice
    fewest, most = max(block, form.n + 1), plan(block).dim
    best = plan(block)
    if most > fewest:
        grid = range(fewest, most + 1, max((most - fewest) // 8, 1))
        best = plan(block, refine(lambda dim: plan(block, dim).exponent, grid, fewest, most))
    if math.isinf(best.exponent):
        return None
    samples = max(best.dim - (form.n if form.log2_secret <= form.log2_error else 0), 1)
    details = {"eta": best.sieve} if best.sieve > 2 else {}
    cost = lattice_cost("bdd", parameters, model, best.exponent, best.block, best.dim, samples, **details)
    return replace(cost, log2_mem=COST_MODELS[model].log2_memory(max(best.block, best.sieve), best.dim))


def _plan(form: Deviations, model: CostModel, block: int, dim: int | None = None) -> _Plan:
    """The cost with that block size, in the dimension that makes the shortest vectors unless another is given."""
    n, small = form.n, form.log2_secret <= form.log2_error
    most = form.samples + n if small else form.samples
    if most < block:
        return _Plan(math.inf, block, 0, 0)
    log_weight = max(form.log_error - form.log_secret, 0.0)
    log_q, log_delta = math.log(form.q), math.log(root_hermite_factor(block))
    if dim is None:
        dim = max(block, int(min(math.ceil(math.sqrt(n * (log_q - log_weight) / log_delta)), most)))
    log_volume = (dim - n) * log_q + n * log_weight
    sieve = _final_sieve(dim, log_volume, log_delta, form.log_error)
    if sieve > dim:
        return _Plan(math.inf, block, 0, 0)
    # the logs of the lengths of Gram and Schmidt before the last block lie on a line
    lengths = (dim - 1) * log_delta + log_volume / dim - 2 * log_delta * np.arange(dim - sieve)
    lift = 2 * math.log2(max(dim - sieve, 1))
    decode = np.logaddexp2(model.cost(sieve + 1, sieve + 1), lift)
    exponent = np.logaddexp2(model.cost(block, dim), decode) + _log2_trials(_babai(lengths, form.log_error))
    return _Plan(float(exponent), block, sieve, dim)


def _final_sieve(dim: int, log_volume: float, log_delta: float, log_error: float) -> int:
    """The dimension of the last block in which the projected error is the shortest vector; at least 1."""
    size, of_size = (one[: BLOCKS[-1] if dim > _LONGEST else dim] for one in _shortest())  # of the last block
    volume = size / dim * log_volume - (dim - size) * size * log_delta + log_error
    short = np.flatnonzero(volume - of_size < (size + 1) * log_error)
    return int(size[short[-1]]) + 1 if len(short) else 1


@cache
def _shortest() -> tuple[Float[np.ndarray, " n"], Float[np.ndarray, " n"]]:
    """Dimensions b, and the log volumes of lattices of dimension b + 1 whose shortest vectors have length sqrt(b + 1).

    A lattice of that volume times s^(b + 1) has shortest vectors as long as errors of deviation s.
    """
    size = np.arange(1.0, _LONGEST + 1)
    ball = (size + 1) / 2 * math.log(math.pi) - scipy.special.gammaln((size + 1) / 2 + 1)
    return size, ball + (size + 1) / 2 * np.log(size + 1)


def _babai(log_lengths: Float[np.ndarray, " n"], log_error: float) -> float:
    """log2 of the probability that Babai's planes contain a vector of the error's length."""
    number = len(log_lengths)
    if number < 2:
        return 0.0
    own = math.log(2) + log_error + 0.5 * math.log(number)
    # planes so far apart contain the vector but for a chance of e^-40
    near = log_lengths[log_lengths < own + 0.5 * math.log(min(80 / (number - 1), 1.0))]
    share = np.exp(2 * np.clip(near - own, -300.0, 0.0))
    return float(np.log2(scipy.special.betainc(0.5, (number - 1) / 2, share)).sum())


def _log2_trials(log2_chance: float) -> float:
    """log2 of the trials after which one has succeeded with probability .99; `log2_chance` is that of a trial."""
    chance = 2.0**log2_chance
    if chance >= _SUCCESS:
        return 0.0
    if chance < 1e-9:
        return math.log2(-math.log1p(-_SUCCESS)) - log2_chance
    return math.log2(math.ceil(math.log1p(-_SUCCESS) / math.log1p(-chance)))

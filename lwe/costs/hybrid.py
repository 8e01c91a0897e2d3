"""The hybrid attacks: guess a part of the secret, and decode each guess on a reduced basis."""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Any

import numpy as np
import scipy
from jaxtyping import Float

from lwe.costs.cost import MOST, Cost
from lwe.costs.deviations import Deviations, normal_form
from lwe.costs.reduction import COST_MODELS, CostModel, CostModelName, lattice_cost, root_hermite_factor
from lwe.parameters import LWEParameters

__all__ = ["BLOCKS", "decoding_cost", "hybrid_cost", "refine"]

BLOCKS = range(40, 1755)
"""The blocks that hybrid attacks try; a classical sieve in the largest is beyond 2^512."""

_SUCCESS = 0.99
_LONGEST = 4096  # lattices of larger dimensions have a last block below it
_NODES = 48  # of the rule of integration: sums are right to 1e-6


def decoding_cost(
    parameters: LWEParameters,
    *,
    model: CostModelName = "core-SVP",
) -> Cost | None:
    """The cost of reducing a basis and then finding the error by one larger sieve.

    None if no block up to 1754 is enough, or unless the matrix is uniform and `lengths_tell`.

    References
    ----------
    Liu and Nguyen 2013, "Solving BDD by enumeration"; the model is that of the lattice-estimator's `primal_bdd`.

    Examples
    --------
    >>> from lwe.presets import PRESETS
    >>> print(decoding_cost(PRESETS["kyber512"], model="MATZOV"))  # doctest: +ELLIPSIS
    bdd: about 2^140.2 (LWE n=512 ...; mem 2^98.0, m 493, beta 389, d 1005, eta 422)
    """
    form = normal_form(parameters)
    if form is None:
        return None
    return _cost("bdd", parameters, _best_block(form, COST_MODELS[model], False, 0), model)


def hybrid_cost(
    parameters: LWEParameters,
    *,
    model: CostModelName = "core-SVP",
    meet: bool = False,
) -> Cost | None:
    """The cost of guessing a part of the secret and decoding each guess on one reduced basis.

    If guesses `meet` in the middle, the square root of their number suffices, and Babai's nearest plane decodes each.
    Otherwise a sieve decodes each. None if an entry may take too many values, or if guessing nothing is best.

    Notes
    -----
    The attack guesses all vectors of at most w nonzero entries among zeta entries. It succeeds if the guesses contain
    the secret and Babai's planes contain the error. When meeting in the middle, the halves must also meet. The attack
    is repeated until its success has probability .99. zeta, w and the block are those of least cost. The search for
    them is refined near the best point, so a slightly lower cost may be possible.

    References
    ----------
    Howgrave-Graham 2007; Albrecht, Curtis and Wunderer 2019; Wunderer 2019 (Babai's probability); Son and Cheon 2019
    (the probability of meeting). The model is that of the lattice-estimator's `primal_hybrid`.

    Examples
    --------
    >>> from lwe.distributions import SparseSigned
    >>> from lwe.presets import PRESETS
    >>> sparse = PRESETS["kyber512"].updated(Xs=SparseSigned(32))
    >>> hybrid_cost(sparse, model="MATZOV", meet=True).rop
    '2^85.3'
    """
    form = normal_form(parameters)
    if form is None or form.nonzero is None or form.weight == 0:
        return None
    at = cache(partial(_best_block, form, COST_MODELS[model], meet))
    best = refine(lambda guessed: at(guessed).exponent, range(0, form.n, max(form.n // 16, 1)), 0, form.n - 1)
    if best == 0:
        return None
    name = "bdd_mitm_hybrid" if meet else "bdd_hybrid"
    return _cost(name, parameters, at(best), model)


def refine(
    cost: Callable[[int], float],
    grid: range,
    least: int,
    most: int,
    bound: Callable[[int], float] = lambda place: -math.inf,
) -> int:
    """The place of least cost on a grid, then on finer and finer grids around the best so far.

    A place is left out where a lower `bound` of its cost is no better than the best.
    """

    def cheapest(places: Iterable[int]) -> int:
        best, value = least, math.inf
        for number, place in enumerate(places):
            if number == 0 or (bound(place) < value and cost(place) < value):
                best, value = place, cost(place)
        return best

    best, step = cheapest(grid), grid.step
    while step > 1:
        step = (step + 1) // 2
        best = cheapest((max(best - step, least), best, min(best + step, most)))
    return best


def _log2_trials(log2_chance: Float[np.ndarray, " n"] | float) -> Float[np.ndarray, " n"]:
    """log2 of the trials after which one has succeeded with probability .99; 0 if one trial suffices.

    `log2_chance` is log2 of the probability that a trial succeeds.
    """
    chance = np.exp2(np.minimum(log2_chance, 0.0))
    few = np.log2(-math.log1p(-_SUCCESS)) - log2_chance
    if np.max(chance) < 1e-9:
        return few
    with np.errstate(divide="ignore"):
        exact = np.log2(np.ceil(math.log1p(-_SUCCESS) / np.log1p(-np.clip(chance, 1e-12, _SUCCESS))))
    return np.where(chance >= _SUCCESS, 0.0, np.where(chance < 1e-9, few, exact))


@dataclass(frozen=True)
class _Attack:
    exponent: float
    block_size: int
    sieve: int
    dimension: int
    guessed: int
    guesses: float


def _cost(name: str, parameters: LWEParameters, found: _Attack, model: CostModelName) -> Cost | None:
    if math.isinf(found.exponent):
        return None
    block, dim, sieve = found.block_size, found.dimension, found.sieve
    details: dict[str, int | float] = {"eta": sieve} if sieve > 2 else {}
    if found.guessed:
        details |= {"zeta": found.guessed, "|S|": found.guesses}
    form = normal_form(parameters)
    assert form is not None
    secret = form.n - found.guessed if form.log2_secret <= form.log2_error else 0
    cost = lattice_cost(name, parameters, model, found.exponent, block, dim, max(dim - secret, 1), **details)
    memory = COST_MODELS[model].log2_memory(max(block, sieve), dim)
    if found.guessed and sieve <= 2:
        memory = max(memory, found.guesses / 2 + math.log2(dim))
    return replace(cost, log2_mem=memory)


def _best_block(form: Deviations, model: CostModel, meet: bool, guessed: int) -> _Attack:
    guesses, chances = _guesses(form, guessed)
    at = cache(partial(_attack, form, guessed, model, meet, guesses, chances))
    least, most = BLOCKS[0], BLOCKS[-1]
    block = refine(
        lambda block: at(block).exponent, range(least, most, 120), least, most, bound=cache(model.least)
    )
    # a basis smaller than the one with the shortest vectors may suffice
    fewest, most = max(block, form.n - guessed + 1), at(block).dimension
    if most <= fewest:
        return at(block)
    grid = range(fewest, most + 1, max((most - fewest) // 8, 1))
    return at(block, refine(lambda dim: at(block, dim).exponent, grid, fewest, most))


def _guesses(form: Deviations, guessed: int) -> tuple[np.ndarray, np.ndarray]:
    """For each w: log2 of the guesses of at most w nonzero entries, and the probability that they hold the secret."""
    if guessed == 0 or form.nonzero is None:
        return np.zeros(1), np.ones(1)
    w = np.arange(max(0, guessed - form.n + form.weight), min(guessed, form.weight) + 1)
    chosen = _log_choose(guessed, w)
    chances = chosen + _log_choose(form.n - guessed, form.weight - w) - _log_choose(form.n, form.weight)
    guesses = np.logaddexp.accumulate(chosen + w * math.log(form.nonzero)) / math.log(2)
    few = max(int(np.searchsorted(guesses, MOST)), 1)  # more of them cost more than is reported
    return guesses[:few], np.cumsum(np.exp(chances))[:few]


def _log_choose(many: int, chosen: Any) -> Any:
    return (
        scipy.special.gammaln(many + 1)
        - scipy.special.gammaln(chosen + 1)
        - scipy.special.gammaln(many - chosen + 1)
    )


def _attack(
    form: Deviations,
    guessed: int,
    model: CostModel,
    meet: bool,
    guesses: np.ndarray,
    chances: np.ndarray,
    block: int,
    dim: int | None = None,
) -> _Attack:
    none = _Attack(math.inf, block, 0, 0, guessed, 0.0)
    n, small = form.n - guessed, form.log2_secret <= form.log2_error
    most = form.samples + n if small else form.samples - guessed
    if most < block:
        return none
    log_weight = max(form.log_error - form.log_secret, 0.0)
    log_q, log_delta = math.log(form.q), math.log(root_hermite_factor(block))
    if dim is None:
        dim = max(block, int(min(math.ceil(math.sqrt(n * (log_q - log_weight) / log_delta)), most)))
    log_volume = (dim - n) * log_q + n * log_weight
    # the lengths of Gram and Schmidt lie on a line
    lengths = _Line(dim, (dim - 1) * log_delta + log_volume / dim, -2 * log_delta)
    if meet:
        sieve, decode, planes = 2, 2 * math.log2(dim), lengths
    else:
        sieve = _final_sieve(dim, log_volume, log_delta, form.log_error)
        if sieve > dim:
            return none
        lift = 2 * math.log2(max(dim - sieve, 1))
        decode = float(np.logaddexp2(model.cost(sieve + 1, sieve + 1), lift))
        planes = replace(lengths, number=dim - sieve)
    log2_chance = _babai(planes, form.log_error)
    if meet and guessed:
        log2_chance += _meeting(lengths, form.log_error)
    searched = decode + (guesses / 2 if meet else guesses)
    with np.errstate(divide="ignore"):
        trials = _log2_trials(log2_chance + np.log2(chances))
    totals = np.logaddexp2(model.cost(block, dim), searched) + trials
    place = int(np.argmin(totals))
    return _Attack(float(totals[place]), block, sieve, dim, guessed, float(guesses[place]))


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


def _babai(lengths: "_Line", log_error: float) -> float:
    """log2 of the probability that Babai's planes contain a vector of the error's length."""
    number = lengths.number
    if number < 2:
        return 0.0
    own = math.log(2) + log_error + 0.5 * math.log(number)
    # planes so far apart contain the vector but for a chance of e^-40
    near = own + 0.5 * math.log(min(80 / (number - 1), 1.0))
    return lengths.below(near).sum(lambda length: _log2_contained(length - own, number))


def _log2_contained(log_ratio: Float[np.ndarray, " n"], number: int) -> Float[np.ndarray, " n"]:
    share = np.exp(2 * np.clip(log_ratio, -300.0, 0.0))
    return np.log2(scipy.special.betainc(0.5, (number - 1) / 2, share))


def _meeting(lengths: "_Line", log_error: float) -> float:
    """log2 of the probability that two halves of a guess round to the same lattice point."""
    own = 0.5 * math.log(2) + log_error
    # beyond, halves always meet
    return lengths.below(own + 40).sum(lambda length: _log2_meeting(length - own))


def _log2_meeting(log_x: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
    x = np.exp(np.clip(log_x, -300.0, 40.0))
    holds = scipy.special.erf(x) - (1 - np.exp(-(x**2))) / (x * math.sqrt(math.pi))
    return np.log2(np.maximum(holds, 1e-300))


@dataclass(frozen=True)
class _Line:
    """Numbers at equal steps; `number` of them from `first` on."""

    number: int
    first: float
    step: float  #: below 0

    def below(self, most: float) -> "_Line":
        """Those of at most that size."""
        left = min(max(math.ceil((most - self.first) / self.step), 0), self.number)
        return _Line(self.number - left, self.first + left * self.step, self.step)

    def sum(self, term: Callable[[Float[np.ndarray, " n"]], Float[np.ndarray, " n"]]) -> float:
        """The sum of a smooth function of them: many are integrated by Gauss's rule, with the ends corrected.

        By Euler and Maclaurin, the sum is the integral from half a step before the first to half a step after the last,
        less 1/24 of the difference of the steps there.
        """
        places, weights = np.arange(self.number), np.ones(self.number)
        if self.number > 2 * _NODES:
            nodes, of_nodes = _gauss()
            ends = np.array([-1, 0, self.number - 1, self.number])
            places = np.append(((nodes + 1) * self.number - 1) / 2, ends)
            weights = np.append(of_nodes * self.number / 2, np.array([-1, 1, 1, -1]) / 24)
        return float(weights @ term(self.first + places * self.step)) if self.number else 0.0


@cache
def _gauss() -> tuple[Float[np.ndarray, " n"], Float[np.ndarray, " n"]]:
    return np.polynomial.legendre.leggauss(_NODES)

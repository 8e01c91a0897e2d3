"""The cost of BKW, plain and coded: sums of samples cancel parts of the secret while errors grow."""

import math
from bisect import bisect_left
from functools import cache, lru_cache, partial

import numpy as np
import scipy
from jaxtyping import Float

from lwe.costs.cost import MOST, TELLING_SUMS, Cost
from lwe.costs.deviations import Deviations, error_character, normal_form
from lwe.costs.hybrid import refine
from lwe.parameters import LWEParameters

__all__ = ["agreement_chances", "bkw_cost", "coded_bkw_cost"]

_MOST_STEPS = 64
_LONGEST_LIST = 1 << 12
_MOST_COMBINED = 64  # samples whose signed sums are new samples


def bkw_cost(parameters: LWEParameters) -> Cost | None:
    """The cost for the cheapest number of steps; None if it is above 2^1000, or errors are uniform mod q.

    Notes
    -----
    Each of t steps subtracts samples that agree in a block of entries and squares the mean. Blocks are chosen so that
    two samples agree in each with the same chance 2^-B, and a step costs 2^B n operations (`agreement_chances`). A
    Fourier transform over q^k points finds the last k entries from M = 2 ln(q^k) / phi^2 sums of 2^t samples. Here
    phi = |E exp(2 pi i e / q)|^(2^t), and rounding counts as an independent error. Signs halve the tables for q > 2.

    References
    ----------
    Blum, Kalai and Wasserman 2003; Albrecht, Cid, Faugere, Fitzpatrick and Perret 2015, "On the complexity of the BKW
    algorithm on LWE"; Duc, Tramer and Vaudenay 2015 (the Fourier transform).

    Examples
    --------
    >>> from lwe.distributions import Flips
    >>> print(bkw_cost(LWEParameters(n=32, q=2, p=2, Xe=Flips(0.05))))
    plain-bkw: about 2^16.0 (LPN n=32 q=2 p=2 noise=flip(0.05) (d=33); mem 2^14.1, m 559, steps 3, last 10)
    """
    n, q = parameters.n, parameters.q
    log_q = math.log2(q)
    phi = error_character(parameters) if log_q <= MOST else 0.0
    if phi == 0:
        return None
    log_phi = math.log2(phi)
    entries = -np.log2(agreement_chances(parameters, min(n, _MOST_STEPS)))
    signs = 1 if q > 2 and parameters.matrix != "binary" else 0
    tail = np.arange(1, n + 1)
    bits = tail * log_q
    best: tuple[float, int, int, float] | None = None
    for steps in range(min(n, _MOST_STEPS)):
        table = (n - tail) / np.sum(1 / entries[:steps]) if steps else np.where(tail == n, 0, math.inf)
        sums = np.log2(2 * np.maximum(math.log(2) * bits, 1)) - 2 * 2**steps * log_phi
        table = np.maximum(table - signs, 0)
        needed = np.logaddexp2(sums, table + math.log2(steps)) if steps else sums + table
        reduce = needed + math.log2(n) + math.log2(max(steps, 1))
        exponent = np.logaddexp2(
            np.logaddexp2(reduce, sums + math.log2(n)), bits + np.log2(np.maximum(bits, 1))
        )
        if parameters.m is not None:
            exponent[needed > math.log2(parameters.m)] = math.inf
        place = int(np.argmin(exponent))
        if best is None or exponent[place] < best[0]:
            best = exponent[place], steps, int(tail[place]), needed[place]
        if sums[0] > MOST:
            break
    if best is None or best[0] > MOST:
        return None
    exponent, steps, last, needed = best
    return Cost(
        "plain-bkw",
        float(exponent),
        parameters,
        "addition mod q",
        "independent errors",
        log2_mem=float(max(needed + math.log2(n), last * log_q)),
        log2_m=float(needed),
        details={"steps": steps, "last": last},
    )


def agreement_chances(parameters: LWEParameters, steps: int) -> Float[np.ndarray, " steps"]:
    """The chance that two rows agree in a coordinate, before each of so many steps.

    Each step replaces rows by differences. Two bits agree with chance 1/2 and two of their differences with 3/8, until
    they are spread over all residues; residues agree with chance 1/q.
    """
    q, chances = parameters.q, np.full(steps, 1 / parameters.q)
    weights = {"binary": np.full(2, 0.5), "ternary": np.array([0.25, 0.5, 0.25])}.get(parameters.matrix)
    if weights is None:
        return chances
    for step in range(steps):
        if len(weights) < _LONGEST_LIST:
            chances[step] = weights @ weights
            weights = np.convolve(weights, weights[::-1])
            weights = np.bincount(np.arange(len(weights)) % q, weights)
        else:  # nearly normal: the variance doubles
            chances[step] = max(chances[step - 1] / math.sqrt(2), 1 / q)
    return chances


def coded_bkw_cost(parameters: LWEParameters) -> Cost | None:
    """The cost of BKW with lattice codes in its later steps; None unless the matrix is uniform and lengths tell.

    If there are too few samples, signed sums of k samples are used as samples with sqrt(k) times the error.

    References
    ----------
    Guo, Johansson and Stankovski 2015, equations (7) to (11); the model is that of the lattice-estimator's
    `LWE.coded_bkw`.

    Examples
    --------
    >>> from lwe.presets import PRESETS
    >>> print(coded_bkw_cost(PRESETS["kyber512"]))  # doctest: +ELLIPSIS
    bkw: about 2^178.8 (LWE n=512 ...; mem 2^175.8, m 512, b 14, steps 16, combined 26)
    """
    form = normal_form(parameters)
    if form is None or 2 * math.log2(form.q) > MOST:  # a block has two entries at least
        return None
    reach = 6 * 2.0**form.log2_secret
    values = reach + 1 if form.nonzero is None else min(reach, form.nonzero) + 1.0
    if math.isinf(form.samples):
        combined, found = 1, _best_tables(form, values, form.log2_error, math.inf)
    else:
        at = cache(partial(_with_combined, form, values))
        low, high = 1, min(_MOST_COMBINED, int(form.samples))
        while low < high:  # the smallest k that gives enough samples: a larger one adds errors
            middle = (low + high) // 2
            low, high = (low, middle) if math.isfinite(at(middle)[0]) else (middle + 1, high)
        combined, found = low, at(low)
    exponent, needed, width, steps = found
    if exponent > MOST:
        return None
    details = {"b": width, "steps": steps}
    if combined > 1:
        details["combined"] = combined
    return Cost(
        "bkw",
        exponent,
        parameters,
        "operation mod q",
        "independent Gaussian errors",
        log2_mem=needed + math.log2(form.n),
        log2_m=needed if combined == 1 else math.log2(form.samples),
        details=details,
    )


def _with_combined(form: Deviations, values: float, combined: int) -> tuple[float, float, int, int]:
    """The result of `_best_tables` if the samples are signed sums of `combined` samples."""
    sums = (
        scipy.special.gammaln(form.samples + 1)
        - scipy.special.gammaln(combined + 1)
        - scipy.special.gammaln(form.samples - combined + 1)
    )
    most = float(sums) / math.log(2) + combined
    return _best_tables(form, values, form.log2_error + 0.5 * math.log2(combined), most)


def _best_tables(
    form: Deviations, values: float, log2_error: float, most_samples: float
) -> tuple[float, float, int, int]:
    """The least exponent, log2 of its samples, entries of a block and steps."""
    at = cache(partial(_best_steps, form, values, log2_error, most_samples))
    log_q = math.log2(form.q)
    widest = max(min(3 * math.ceil(log_q), math.ceil(MOST / log_q)), 2)
    width = refine(lambda width: at(width)[0], range(2, widest + 1, max(widest // 12, 1)), 2, widest)
    exponent, samples, steps = at(width)
    return exponent, samples, width, steps


def _best_steps(
    form: Deviations, values: float, log2_error: float, most_samples: float, width: int
) -> tuple[float, float, int]:
    at = cache(partial(_tables, form, values, log2_error, most_samples, width))
    # t steps multiply the variance of the errors by 2^t, and beyond q^2 nothing is left to tell
    most = max(3, min(form.n // width, math.ceil(2 * (math.log2(form.q) - log2_error)) + 2))
    steps = refine(lambda steps: at(steps)[0], range(2, most + 1, max(most // 16, 1)), 2, most)
    return (*at(steps), steps)


@lru_cache(maxsize=1 << 14)  # it depends neither on the errors nor on how many samples are combined
def _layout(n: int, b: int, log_q: float, coded: int) -> tuple[int, np.ndarray, float]:
    """Of n entries: how many the last step tests, how many each coded step covers, and log2 of the codes' variance."""
    if n < 1:
        return 0, np.zeros(coded), -math.inf

    def covered(tested: int) -> np.ndarray:
        rate = 2 * (1 - (b - 1) / tested)  # log_q of twelve times the variance
        with np.errstate(divide="ignore"):
            return np.floor(b / (1 - (rate - np.arange(1, coded + 1) / log_q) / 2))

    # the more entries are tested, the more does each step cover: the first number at which all are covered
    tested = bisect_left(range(1, n), n, key=lambda tested: tested + covered(tested).sum()) + 1
    if tested > 1 and n - (tested - 1) - covered(tested - 1).sum() <= tested + covered(tested).sum() - n:
        tested -= 1
    return tested, covered(tested), 2 * (1 - (b - 1) / tested) * log_q - math.log2(12)


def _tables(
    form: Deviations, values: float, log2_error: float, most_samples: float, width: int, steps: int
) -> tuple[float, float]:
    """log2 of the operations and of the samples: b entries a block, plain steps first and coded ones after.

    Infinite operations where more samples are needed than there are.
    """
    n, log_q, b = form.n, math.log2(form.q), width
    _, covered, _ = _layout(n, b, log_q, steps)
    plain = min(int(np.sum(covered <= b)), n // b)  # a code no longer than a block gains nothing
    coded = steps - plain
    tested, covered, variance = _layout(n - plain * b, b, log_q, coded)
    guessed = max(n - int(covered.sum()) - tested - plain * b, 0)
    with np.errstate(divide="ignore"):
        of_codes = 2 * form.log2_secret + variance + float(np.log2(covered.sum() + tested))
    log2_noise = float(np.logaddexp2(steps + 2 * log2_error, of_codes)) - 2 * log_q
    # of the advantage of one sum, natural
    log_square = -4 * math.pi**2 * 2.0 ** min(log2_noise, 20.0)
    if log_square < -MOST:
        return math.inf, math.inf
    log_advantage = (
        log_square if log_square < -40 else math.log(-math.log1p(-min(math.exp(log_square), 1 - 1e-12)))
    )
    sums = math.log2(TELLING_SUMS) - log_advantage / math.log(2)
    half = b * log_q - 1
    samples = _log2_sum(math.log2(steps) + half, sums)
    parts = [math.log2(n + 1 - i * b) + samples for i in range(1, plain + 1)]
    if form.log2_secret > form.log2_error:
        parts.append(samples + math.log2((n + 1) * math.ceil((n - plain * b) / (b - 1))))
    with np.errstate(divide="ignore"):
        i = np.arange(1, coded + 1)
        parts += list(2 + np.log2(covered) + np.logaddexp2(sums, np.log2(i) + half))
        moved = np.log2(guessed + tested + np.cumsum(covered))
        parts += list(moved + np.logaddexp2(sums, np.log2(i - 1) + half))
    guesses = guessed * math.log2(2 * values + 1)
    if guessed:
        parts.append(sums + math.log2(guessed) + guesses)
    parts += [sums + 2 + math.log2(max(tested, 1)), guesses + b * log_q + math.log2(b * log_q + 1)]
    right = guessed * math.log2(math.erf(values / math.sqrt(2 * 2.0**log2_error)))
    exponent = _log2_sum(*parts) - right if samples <= most_samples else math.inf
    return exponent, samples


def _log2_sum(*exponents: float | int) -> float:
    return float(np.logaddexp2.reduce(exponents))

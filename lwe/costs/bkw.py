"""The cost of BKW, plain and coded: sums of samples cancel parts of the secret while errors grow."""

import math
from functools import cache, partial
from typing import Any

import numpy as np
import scipy
from jaxtyping import Float

from attention.validation import PositiveInt, checked
from lwe.costs.cost import TELLING_SUMS, Cost
from lwe.costs.deviations import PlainLWE, error_character
from lwe.costs.hybrid import NormalForm, normal_form, refine
from lwe.parameters import LWRParameters

__all__ = ["agreement_chances", "bkw_cost", "coded_bkw_cost"]

_MOST = 1000  # costs above 2^1000 are not reported
_MOST_STEPS = 64
_LONG_LAW = 1 << 12
_MOST_COMBINED = 64  # samples whose signed sums are new samples


@checked
def bkw_cost(parameters: LWRParameters, samples: PositiveInt | None = None) -> Cost | None:
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
    >>> from lwe.laws import FlipLaw
    >>> print(bkw_cost(LWRParameters(secret_dim=32, modulus=2, levels=2, noise=FlipLaw(0.05))))
    BKW: about 2^16.0 (LPN n=32 q=2 p=2 noise=flip(0.05) (d=33); steps 3, table 2^7.3, last entries 10, samples 2^9.1)
    """
    n, q = parameters.secret_dim, parameters.modulus
    log_q, phi = math.log2(q), error_character(parameters)
    if phi == 0:
        return None
    log_phi = math.log2(phi)
    entries = -np.log2(agreement_chances(parameters, min(n, _MOST_STEPS)))
    signs = 1 if q > 2 and parameters.matrix != "binary" else 0
    tail = np.arange(1, n + 1)
    bits = tail * log_q
    best: tuple[float, int, int, float, float] | None = None
    for steps in range(min(n, _MOST_STEPS)):
        table = (n - tail) / np.sum(1 / entries[:steps]) if steps else np.where(tail == n, 0, math.inf)
        sums = np.log2(2 * np.maximum(math.log(2) * bits, 1)) - 2 * 2**steps * log_phi
        table = np.maximum(table - signs, 0)
        needed = np.logaddexp2(sums, table + math.log2(steps)) if steps else sums + table
        reduce = needed + math.log2(n) + math.log2(max(steps, 1))
        exponent = np.logaddexp2(
            np.logaddexp2(reduce, sums + math.log2(n)), bits + np.log2(np.maximum(bits, 1))
        )
        if samples is not None:
            exponent[needed > math.log2(samples)] = math.inf
        place = int(np.argmin(exponent))
        if best is None or exponent[place] < best[0]:
            best = exponent[place], steps, int(tail[place]), table[place], needed[place]
        if sums[0] > _MOST:
            break
    if best is None or best[0] > _MOST:
        return None
    exponent, steps, last, table, needed = best
    return Cost(
        "BKW",
        float(exponent),
        parameters,
        "addition mod q",
        "independent errors",
        {"steps": steps, "table": f"2^{table:.1f}", "last_entries": last, "samples": f"2^{needed:.1f}"},
    )


def agreement_chances(parameters: LWRParameters, steps: int) -> Float[np.ndarray, " steps"]:
    """The chance that two rows agree in a coordinate, before each of so many steps.

    Each step replaces rows by differences. Two bits agree with chance 1/2 and two of their differences with 3/8, until
    they are spread over all residues; residues agree with chance 1/q.
    """
    q, chances = parameters.modulus, np.full(steps, 1 / parameters.modulus)
    law = {"binary": np.full(2, 0.5), "ternary": np.array([0.25, 0.5, 0.25])}.get(parameters.matrix)
    if law is None:
        return chances
    for step in range(steps):
        if len(law) < _LONG_LAW:
            chances[step] = law @ law
            law = np.convolve(law, law[::-1])
            law = np.bincount(np.arange(len(law)) % q, law)
        else:  # nearly normal: the variance doubles
            chances[step] = max(chances[step - 1] / math.sqrt(2), 1 / q)
    return chances


@checked
def coded_bkw_cost(parameters: LWRParameters | PlainLWE, samples: PositiveInt | None = None) -> Cost | None:
    """The cost of BKW with lattice codes in its later steps; None unless the matrix is uniform and lengths tell.

    If there are too few samples, signed sums of k samples are used as samples with sqrt(k) times the error.

    References
    ----------
    Guo, Johansson and Stankovski 2015, equations (7) to (11); the model is that of the lattice-estimator's
    `LWE.coded_bkw`.

    Examples
    --------
    >>> from lwe.presets import PRESETS
    >>> print(coded_bkw_cost(PRESETS["kyber512"], 512))  # doctest: +ELLIPSIS
    coded BKW: about 2^178.8 (LWE n=512 ...; block entries 14, steps 16, samples 2^166.8, combined 26)
    """
    form = normal_form(parameters, samples)
    if form is None:
        return None
    values = 6 * form.secret + 1 if form.nonzero is None else min(6 * form.secret, form.nonzero) + 1.0
    if math.isinf(form.samples):
        combined, found = 1, _best_tables(form, values, form.error, math.inf)
    else:
        at = cache(partial(_with_combined, form, values))
        low, high = 1, min(_MOST_COMBINED, int(form.samples))
        while low < high:  # the smallest k that gives enough samples: a larger one adds errors
            middle = (low + high) // 2
            low, high = (low, middle) if math.isfinite(at(middle)[0]) else (middle + 1, high)
        combined, found = low, at(low)
    exponent, needed, width, steps = found
    if exponent > _MOST:
        return None
    details: dict[str, Any] = {"block_entries": width, "steps": steps, "samples": f"2^{needed:.1f}"}
    if combined > 1:
        details["combined"] = combined
    return Cost("coded BKW", exponent, parameters, "operation mod q", "independent Gaussian errors", details)


def _with_combined(form: NormalForm, values: float, combined: int) -> tuple[float, float, int, int]:
    """The result of `_best_tables` if the samples are signed sums of `combined` samples."""
    sums = (
        scipy.special.gammaln(form.samples + 1)
        - scipy.special.gammaln(combined + 1)
        - scipy.special.gammaln(form.samples - combined + 1)
    )
    most = float(sums) / math.log(2) + combined
    return _best_tables(form, values, form.error * math.sqrt(combined), most)


def _best_tables(
    form: NormalForm, values: float, error: float, most_samples: float
) -> tuple[float, float, int, int]:
    """The least exponent, log2 of its samples, entries of a block and steps."""
    at = cache(partial(_best_steps, form, values, error, most_samples))
    widest = 3 * math.ceil(math.log2(form.q))
    width = refine(lambda width: at(width)[0], range(2, widest + 1, max(widest // 12, 1)), 2, widest)
    exponent, samples, steps = at(width)
    return exponent, samples, width, steps


def _best_steps(
    form: NormalForm, values: float, error: float, most_samples: float, width: int
) -> tuple[float, float, int]:
    at = cache(partial(_tables, form, values, error, most_samples, width))
    most = max(3, form.n // width)
    steps = refine(lambda steps: at(steps)[0], range(2, most + 1, max(most // 16, 1)), 2, most)
    return (*at(steps), steps)


def _layout(n: int, b: int, log_q: float, coded: int) -> tuple[int, np.ndarray, float]:
    """Of n entries: how many the last step tests, how many each coded step covers, and the codes' variance."""
    if n < 1:
        return 0, np.zeros(coded), 0.0
    tested = np.arange(1, n + 1)
    rate = 2 * (1 - (b - 1) / tested)  # log_q of twelve times the variance
    with np.errstate(divide="ignore", invalid="ignore"):
        covered = np.floor(b / (1 - (rate[:, None] - np.arange(1, coded + 1) / log_q) / 2))
    place = int(np.argmin(np.abs(n - tested - covered.sum(axis=1))))
    return int(tested[place]), covered[place], float(2.0 ** (rate[place] * log_q - math.log2(12)))


def _tables(
    form: NormalForm, values: float, error: float, most_samples: float, width: int, steps: int
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
    noise = 2.0**steps * error**2 + form.secret**2 * variance * (covered.sum() + tested)
    log_square = -4 * math.pi**2 * noise / form.q**2  # of the advantage of one sum, natural
    if log_square < -_MOST:
        return math.inf, math.inf
    told = log_square if log_square < -40 else math.log(-math.log1p(-min(math.exp(log_square), 1 - 1e-12)))
    sums = math.log2(TELLING_SUMS) - told / math.log(2)
    half = b * log_q - 1
    samples = _log2_sum(math.log2(steps) + half, sums)
    parts = [math.log2(n + 1 - i * b) + samples for i in range(1, plain + 1)]
    if form.secret > form.error:
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
    right = guessed * math.log2(math.erf(values / math.sqrt(2 * error)))
    exponent = _log2_sum(*parts) - right if samples <= most_samples else math.inf
    return exponent, samples


def _log2_sum(*exponents: float | int) -> float:
    return float(np.logaddexp2.reduce(exponents))

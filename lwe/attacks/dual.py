"""The dual lattice distinguisher: short combinations of samples cancel the secret and tell labels from random ones."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
from jaxtyping import Float, Int

from attention.validation import Whole, checked
from lwe.attacks.attack import Attack, AttackResult, Attempt
from lwe.attacks.bases import dual_basis
from lwe.attacks.blocks import Reduction, larger_block, most_rows, require_fpylll
from lwe.attacks.evidence import label_residues
from lwe.attacks.outcome import (
    AttackOutcome,
    BudgetSpentError,
    NotApplicableError,
    RefusedError,
    TooFewSamplesError,
)
from lwe.costs.deviations import deviations
from lwe.costs.dual import best_dual_lattice
from lwe.costs.primal import fewest_samples, lengths_tell
from lwe.parameters import LWEParameters
from lwe.samples import LWRSamples, Rounding

__all__ = ["DualAttack", "dual_statistic", "permutation_p_value", "sequential_p_value"]

_LEVEL = 1e-4  # the chance, over all blocks, that labels independent of the rows are called distinguished
_MOST_VECTORS = 500  # vectors of largest weight in one statistic: more would add little evidence
_MOST_ORDERS = 25_000
_ENOUGH_ORDERS = 20
_AT_ONCE = 500
_COLUMNS = 128


@dataclass(frozen=True)
@checked
class DualAttack(Attack):
    """Tell labels from labels independent of the public matrix, by short vectors of the dual lattice.

    Notes
    -----
    An integer vector x with x A = 0 mod q (or x A = y with short y, for a small secret) cancels the secret. Let b' be
    the middles of the intervals that the labels stand for. Then <x, b'> mod q is <x, e>, which is near 0 if x is short.
    The statistic is the sum of exp(-2 pi^2 l^2 sigma^2/q^2) cos(2 pi <x, b'>/q) over the rows of a reduced basis and
    the sums and differences of the shortest rows, where l is the length. It is compared with the statistic of the same
    labels in random order (`permutation_p_value`). The attack tries block after block of fresh samples and combines
    their p-values (`sequential_p_value`).

    If labels are independent of rows, whatever their law, DISTINGUISHED has a probability of at most 1e-4. The reason:
    samples are first put into a random order, so given the rows of a block all orders of its labels are equally likely,
    independently of the other blocks.

    It predicts nothing: the outcome is DISTINGUISHED, or NOTHING with the p-value reached. Time as for the primal
    attack with the block size of `lwe.costs.dual_cost`. LLL cannot be stopped, so the attack refuses bases that LLL
    might not reduce in half of the budget.

    References
    ----------
    Micciancio and Regev 2009; Albrecht 2017 (small secrets); Alkim et al. 2016, section 6.4. The test is derived here.

    Examples
    --------
    >>> from lwe import LWEParameters, make_samples
    >>> parameters = LWEParameters(n=8, q=128, p=32, matrix="uniform")
    >>> samples, secret = make_samples(parameters, 200, rng=0)
    >>> result = DualAttack()(samples, parameters, rng=0)
    >>> result.outcome.name in ("DISTINGUISHED", "MISSING")  # missing without fpylll
    True
    """

    largest_block: Annotated[int, Whole(2)] = 50  #: the largest block size of BKZ, from 2
    name: ClassVar[str] = "dual lattice"

    def run(self, attempt: Attempt, generator: np.random.Generator) -> AttackResult:
        """Test block after block of samples until labels are distinguished, or samples or time run out."""
        require_fpylll()
        parameters, training = attempt.parameters, attempt.samples
        if not lengths_tell(parameters):
            raise NotApplicableError(
                "Lengths of errors say nothing here: the modulus is 2, errors are as wide as the modulus or uniform, "
                "or the law of the secret allows one only."
            )
        fewest = max(fewest_samples(parameters, determined=False), parameters.n + 1)
        lattice = best_dual_lattice(parameters, max(len(training), fewest), floor=False)
        if lattice is None:
            raise NotApplicableError("No lattice has short vectors that tell of labels.")
        m = max(lattice.samples, fewest)
        if m > len(training):
            raise TooFewSamplesError(f"{m} samples are needed for a lattice; there are {len(training)}.")
        weighted = lattice.dimension > m
        largest = min(max(lattice.block_size, 2), self.largest_block)
        p_values: list[float] = []
        order = generator.permutation(len(training))
        try:
            for start in range(0, len(training) - m + 1, m):
                chosen = order[start : start + m]
                block = training.at(chosen)
                if np.all(block.labels == block.labels[0]):
                    continue
                short = _short_vectors(attempt, block, weighted, largest, generator)
                p_values.append(_p_value(short, block, parameters, generator, attempt.check))
                if sequential_p_value(p_values) <= _LEVEL:
                    break
        except BudgetSpentError as spent:
            if not p_values:
                raise
            return attempt.stopped(_told(attempt, p_values, m), spent)
        return _told(attempt, p_values, m)


def dual_statistic(
    vectors: Int[np.ndarray, "N m"],
    weights: Float[np.ndarray, " N"],
    labels: Int[np.ndarray, "*shuffles m"],
    parameters: LWEParameters,
    offsets: Float[np.ndarray, " N"] | float = 0.0,
    rounding: Rounding = "down",
) -> Float[np.ndarray, "*shuffles"]:
    """The sum of w_x cos(2 pi (<x, b'> - offset)/q) over vectors x; b' are the middles of the labels' intervals."""
    q = parameters.q
    first, after = label_residues(labels, parameters, rounding)
    doubled, wrap = first + after - 1, 2 * q  # twice a middle is an integer: sums are exact mod 2 q
    if int(np.abs(vectors).sum(axis=1).max(initial=0)) * wrap < 2**53:  # far faster than whole numbers
        sums = doubled.astype(np.float64) @ vectors.T.astype(np.float64)
    else:
        # digits of the vectors, of so few bits that sums of as many products stay below 2^62
        bits = 62 - (wrap * _COLUMNS).bit_length()
        sizes, sums = np.abs(vectors), np.zeros((), dtype=np.int64)
        for shift in reversed(range(0, int(sizes.max()).bit_length(), bits)):
            digits = np.sign(vectors) * (sizes >> shift & (1 << bits) - 1)
            sums = sums << bits
            for start in range(0, vectors.shape[1], _COLUMNS):
                part = slice(start, start + _COLUMNS)
                sums = (sums + doubled[..., part] @ digits[:, part].T) % wrap
    return np.asarray(np.cos(np.pi * (sums - 2 * offsets) / q) @ weights)


def permutation_p_value(
    statistic: Callable[[np.ndarray], np.ndarray],
    labels: Int[np.ndarray, " m"],
    generator: np.random.Generator,
    *,
    most: int = _MOST_ORDERS,
    enough: int = _ENOUGH_ORDERS,
    check: Callable[[], None] = lambda: None,
) -> float:
    """The p-value of a statistic of labels against the same labels in random order: exact, not asymptotic.

    `statistic` maps labels (..., m) to values (...,); large values are evidence. Orders are drawn until `enough` = h of
    them have a value at least as large as the labels have. If that is at the l-th order, the p-value is h/l. If only g
    of `most` orders have such a value, it is (g + 1)/(`most` + 1) (Besag and Clifford 1991, "Sequential Monte Carlo
    p-values"). `check` is called from time to time, and may raise.

    Notes
    -----
    If all orders of the labels are equally likely given the statistic, P(p-value <= x) <= x for every x: the first of l
    exchangeable values is among the h largest with probability at most h/l, where ties count against it.
    `scipy.stats.permutation_test` draws all orders; here about h/p are drawn for a p-value p.
    """
    own = float(statistic(labels))
    reached = own - 1e-9 * max(abs(own), 1.0)
    drawn = larger = 0
    while drawn < most:
        check()
        number = min(max(2 * enough, drawn), _AT_ONCE, most - drawn)
        orders = generator.permuted(np.tile(labels, (number, 1)), axis=1)
        places = np.flatnonzero(statistic(orders) >= reached)
        if larger + len(places) >= enough:
            return enough / (drawn + int(places[enough - larger - 1]) + 1)
        drawn, larger = drawn + number, larger + len(places)
    return (larger + 1) / (most + 1)


def sequential_p_value(p_values: Sequence[float]) -> float:
    """One p-value from the p-values of independent blocks that are tested in sequence, for any stopping rule.

    Fisher's combination (1932) after k blocks is P(Gamma(k) >= -log(p_1 ... p_k)). The result is the least of k (k + 1)
    times this value over all k so far. Fisher's combination is a p-value for each k. So the probability that it falls
    below x/(k (k + 1)) for some k is at most the sum of these numbers, which is x. So the test may stop as soon as the
    result is small.
    """
    from scipy.special import gammaincc

    logs = -np.cumsum(np.log(np.asarray(p_values, dtype=np.float64)))
    looks = np.arange(1, len(logs) + 1)
    found = gammaincc(looks, logs) * looks * (looks + 1)
    return float(min(found.min(initial=1.0), 1.0))


def _short_vectors(
    attempt: Attempt, block: LWRSamples, weighted: bool, largest: int, generator: np.random.Generator
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Short dual vectors: their sample parts, their squared lengths in units of one sample, and their offsets."""
    parameters, m = attempt.parameters, len(block)
    size = m + (parameters.n if weighted else 0)
    most = most_rows(attempt.seconds_left, parameters.q)
    if size > most:
        raise RefusedError(
            f"A basis of {size} rows is needed, and {most} are the most: LLL cannot be stopped, and more might outlast "
            "half of the time left."
        )
    basis, scale = dual_basis(block.public, parameters, weighted=weighted)
    attempt.details["samples"] = m
    reduction = Reduction(basis, attempt, generator)
    block_size = min(10, size)
    while block_size <= min(largest, size):
        attempt.check()
        if reduction.tour_seconds(block_size) > attempt.seconds_left:
            break
        for _ in reduction.tour(block_size):
            pass
        attempt.details["block_size"] = block_size
        block_size = larger_block(block_size)
    rows = reduction.rows(range(size))
    shortest = rows[np.argsort(np.sum(rows.astype(np.float64) ** 2, axis=1))[:40]]
    first, second = np.triu_indices(len(shortest), 1)
    rows = np.concatenate([rows, shortest[first] + shortest[second], shortest[first] - shortest[second]])
    lengths = np.sum(rows.astype(np.float64) ** 2, axis=1) / scale**2
    vectors = rows[:, :m] // scale
    sizes = deviations(parameters)
    offsets = sizes.error_mean * vectors.sum(axis=1)
    if weighted:
        weight = int(basis[-1, -1]) // parameters.q
        offsets = offsets + sizes.secret_mean * (rows[:, m:] // weight).sum(axis=1)
    parts = np.any(vectors != 0, axis=1)
    return vectors[parts], lengths[parts], offsets[parts]


def _p_value(
    short: tuple[np.ndarray, np.ndarray, np.ndarray],
    block: LWRSamples,
    parameters: LWEParameters,
    generator: np.random.Generator,
    check: Callable[[], None],
) -> float:
    """The p-value of a block's statistic, against its labels in random order."""
    vectors, lengths, offsets = short
    exponents = -2 * (np.pi * deviations(parameters).error / parameters.q) ** 2 * lengths
    weights = np.exp(exponents - exponents.max(initial=-np.inf))
    kept = np.argsort(-weights, kind="stable")[:_MOST_VECTORS]
    vectors, weights, offsets = vectors[kept], weights[kept], offsets[kept]
    return permutation_p_value(
        lambda labels: dual_statistic(vectors, weights, labels, parameters, offsets, block.rounding),
        block.labels,
        generator,
        check=check,
    )


def _told(attempt: Attempt, p_values: list[float], m: int) -> AttackResult:
    if not p_values:
        return attempt.ended(
            AttackOutcome.NOTHING,
            f"All blocks of {m} samples have one label alone: there is nothing to tell from random labels.",
        )
    p_value, blocks = sequential_p_value(p_values), len(p_values)
    attempt.details.update(p_value=p_value, blocks=blocks)
    words = (
        f"{blocks} block{'s' if blocks > 1 else ''} of {m} samples, BKZ with blocks up to "
        f"{attempt.details['block_size']}: p = {p_value:.1e} against labels in random order, where "
        f"{_LEVEL:.0e} is needed."
    )
    return attempt.ended(AttackOutcome.DISTINGUISHED if p_value <= _LEVEL else AttackOutcome.NOTHING, words)

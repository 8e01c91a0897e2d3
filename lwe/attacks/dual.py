"""The dual lattice distinguisher: short combinations of samples whose secret part vanishes, against random labels."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from jaxtyping import Float, Int

from attention.validation import count, real_array
from lwe.attack import AttackOutcome, AttackResult, BudgetSpentError, RefusedError
from lwe.attacks.bases import dual_basis, label_intervals
from lwe.attacks.blocks import FPYLLL_MISSING, Reduction, fpylll_installed, most_rows
from lwe.attacks.permutation import permutation_p_value, sequential_p_value
from lwe.attempt import Attempt, BaseAttack
from lwe.costs import deviations, fewest_samples, lengths_tell
from lwe.costs.dual import best_dual_lattice
from lwe.parameters import LWRParameters, require_parameters
from lwe.residues import whole_array
from lwe.samples import LWRSamples

__all__ = ["DualAttack", "dual_statistic"]

_LEVEL = 1e-4
"""The chance, at most, that labels independent of the rows are called distinguished, over all blocks together."""

_MOST_VECTORS = 500
"""Of the largest weights in one statistic: others would add more time than evidence."""


@dataclass(frozen=True)
class DualAttack(BaseAttack):
    """Tell labels from labels independent of the public matrix, by short vectors of the dual lattice.

    Parameters
    ----------
    largest_block : int
        The largest block size of BKZ, from 2.
    samples : int, optional
        m, the samples of one lattice; by default what the estimate of the cost is least for.

    Notes
    -----
    An integer vector x with x A = 0 mod q (or = y, short, for a small secret) takes the secret out: <x, b'> mod q is
    <x, e>, near 0 if x is short, b' the middles of the intervals that the labels stand for. The statistic is the
    sum of exp(-2 pi^2 l^2 sigma^2/q^2) cos(2 pi <x, b'>/q) over the rows of a reduced basis and the sums and
    differences of the shortest, l their lengths. It is set against the same labels in random order
    (`permutation_p_value`). Block after block of fresh samples is tried, and their p-values are combined
    (`sequential_p_value`). Blocks with one label alone carry nothing and are passed over.

    If labels are independent of rows, whatever their law, DISTINGUISHED has a probability of at most 1e-4. The samples
    are put into a random order first, rows with their labels. So, given the rows in that order, each order of the
    labels of a block is alike, independently of the other blocks, as long as rows or labels are independent of one
    another and of one law. The vectors and which blocks are passed over do not depend on that order. So the p-values
    are exact, and independent; the rest is proved where they are made.

    It predicts nothing: the outcome is DISTINGUISHED, or NOTHING with the p-value reached. With two levels, vectors
    whose entries have an odd sum say nothing. Time as for the primal attack with the block size of
    `lwe.costs.dual_cost`. LLL cannot be stopped: bases that it might not reduce in half of the budget are refused.

    References
    ----------
    Micciancio and Regev 2009, "Lattice-based cryptography"; Albrecht 2017, "On dual lattice attacks against
    small-secret LWE"; Alkim et al. 2016, section 6.4. The test against random orders is derived here.

    Examples
    --------
    >>> from lwe import LWRParameters
    >>> from lwe.samples import make_samples
    >>> parameters = LWRParameters(secret_dim=8, modulus=128, levels=32, matrix="uniform")
    >>> samples, secret = make_samples(parameters, 200, rng=0)
    >>> result = DualAttack()(samples, parameters, rng=0)
    >>> result.outcome.name in ("DISTINGUISHED", "MISSING")  # missing without fpylll
    True
    """

    largest_block: int = 50
    samples: int | None = None
    name: ClassVar[str] = "dual lattice"

    def __post_init__(self) -> None:
        object.__setattr__(self, "largest_block", count("largest_block", self.largest_block, least=2))
        if self.samples is not None:
            object.__setattr__(self, "samples", count("samples", self.samples, least=2))

    def run(self, attempt: Attempt, generator: np.random.Generator) -> AttackResult:
        """Block after block of samples, until the labels are told from random ones or samples or time run out."""
        if not fpylll_installed():
            return attempt.ended(AttackOutcome.MISSING, FPYLLL_MISSING)
        parameters, training = attempt.parameters, attempt.training
        if not lengths_tell(parameters):
            return attempt.ended(
                AttackOutcome.NOT_APPLICABLE,
                "Lengths of errors say nothing here: the modulus is 2, errors are as wide as the modulus or uniform, "
                "or the law of the secret allows one only.",
            )
        fewest = max(fewest_samples(parameters, determined=False), parameters.secret_dim + 1)
        lattice = best_dual_lattice(parameters, max(len(training), fewest), floor=False)
        if lattice is None:
            return attempt.ended(
                AttackOutcome.NOT_APPLICABLE, "No lattice has short vectors that tell of labels."
            )
        m = self.samples or max(lattice.samples, fewest)
        if m > len(training):
            return attempt.ended(
                AttackOutcome.TOO_FEW_SAMPLES,
                f"{m} samples are needed for a lattice; there are {len(training)}.",
            )
        weighted = lattice.dimension > m
        wanted = min(max(lattice.block_size, 2), self.largest_block)
        p_values: list[float] = []
        order = generator.permutation(len(training))
        try:
            for start in range(0, len(training) - m + 1, m):
                chosen = order[start : start + m]
                block = LWRSamples(training.public[chosen], training.labels[chosen])
                if np.all(block.labels == block.labels[0]):
                    continue
                vectors = _short_vectors(attempt, block, m, weighted, wanted, generator)
                p_values.append(_p_value(vectors, block, parameters, generator, attempt.check))
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
    parameters: LWRParameters,
    offsets: Float[np.ndarray, " N"] | None = None,
) -> Float[np.ndarray, "*shuffles"]:
    """The sum of w_x cos(2 pi <x, b'>/q) over vectors x, b' the middles of the intervals of labels.

    Parameters
    ----------
    vectors : array of int (N, m)
        The vectors x.
    weights : array (N,)
        w_x.
    labels : array of int (..., m)
        The labels, once or in several orders.
    parameters : LWRParameters
        What they are of.
    offsets : array (N,), optional
        What <x, b'> is without the secret's and the errors' deviations from their means, taken off.

    Examples
    --------
    >>> parameters = LWRParameters(secret_dim=1, modulus=8, levels=8)
    >>> float(dual_statistic(np.array([[1, -1]]), np.array([1.0]), np.array([3, 3]), parameters))
    1.0
    """
    require_parameters(parameters)
    q = parameters.modulus
    vectors, labels = whole_array("vectors", vectors), whole_array("labels", labels)
    weights = real_array("weights", weights, ("N",))
    if vectors.ndim != 2 or labels.ndim < 1 or vectors.shape != (len(weights), labels.shape[-1]):
        raise ValueError(
            f"vectors has shape {vectors.shape}, weights {weights.shape} and labels {labels.shape}: (N, m), (N,) and "
            "(..., m) are needed."
        )
    low, high = label_intervals(labels, parameters)
    # twice the middles are integers: sums are exact mod 2 q
    sums = _products(low + high, vectors, 2 * q)
    if offsets is not None:
        sums = sums - 2 * offsets
    return np.asarray(np.cos(np.pi * sums / q) @ weights)


def _products(values: np.ndarray, vectors: np.ndarray, modulus: int) -> np.ndarray:
    """<values, x> for every vector x, up to multiples of the modulus, without rounding."""
    largest = int(np.abs(vectors).sum(axis=1).max(initial=0))
    if largest * modulus < 2**53:  # far faster than whole numbers
        return np.asarray(values.astype(np.float64) @ vectors.T.astype(np.float64))
    upper, lower = np.divmod(np.mod(vectors, modulus), 2**16)
    return np.asarray((values @ lower.T + 2**16 * (values @ upper.T % modulus)) % modulus)


def _short_vectors(
    attempt: Attempt, block: LWRSamples, m: int, weighted: bool, wanted: int, generator: np.random.Generator
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Short dual vectors: their sample parts, the squares of their lengths in units of one sample, their offsets."""
    parameters = attempt.parameters
    size = m + (parameters.secret_dim if weighted else 0)
    most = most_rows(attempt.seconds_left, parameters.modulus)
    if size > most:
        raise RefusedError(
            f"A basis of {size} rows is needed, and {most} are the most: LLL cannot be stopped, and more might outlast "
            "half of the time left."
        )
    attempt.require_memory(64 * size**2, f"A basis of {size} rows")
    basis, scale = dual_basis(block, parameters, m, weighted=weighted)
    reduction = Reduction(basis, attempt.check, int(generator.integers(2**31)))
    attempt.details.update(samples=m, dimension=size, block_size=2)
    attempt.check()
    reduction.lll()
    block_size = min(10, size)
    while block_size <= min(wanted, size):
        attempt.check()
        if reduction.tour_seconds(block_size) > attempt.seconds_left:
            break
        for _ in reduction.tour(block_size):
            pass
        attempt.details["block_size"] = block_size
        block_size += 4 if block_size < 46 else 2
    rows = reduction.rows()
    lengths = np.sum(rows.astype(np.float64) ** 2, axis=1) / scale**2
    shortest = rows[np.argsort(lengths)[:40]]
    first, second = np.triu_indices(len(shortest), 1)
    rows = np.concatenate([rows, shortest[first] + shortest[second], shortest[first] - shortest[second]])
    lengths = np.sum(rows.astype(np.float64) ** 2, axis=1) / scale**2
    vectors = rows[:, :m] // scale
    sizes = deviations(parameters)
    offsets = sizes.error_mean * vectors.sum(axis=1)
    if weighted:
        weight = int(basis[-1, -1]) // parameters.modulus
        offsets = offsets + sizes.secret_mean * (rows[:, m:] // weight).sum(axis=1)
    parts = np.any(vectors != 0, axis=1)
    return vectors[parts], lengths[parts], offsets[parts]


def _p_value(
    short: tuple[np.ndarray, np.ndarray, np.ndarray],
    block: LWRSamples,
    parameters: LWRParameters,
    generator: np.random.Generator,
    check: Callable[[], None] | None = None,
) -> float:
    """Of the statistic of a block, against its labels in random order."""
    vectors, lengths, offsets = short
    sizes = deviations(parameters)
    exponents = -2 * (np.pi * sizes.error / parameters.modulus) ** 2 * lengths
    weights = np.exp(exponents - exponents.max(initial=-np.inf))
    kept = np.argsort(-weights, kind="stable")[:_MOST_VECTORS]
    vectors, weights, offsets = vectors[kept], weights[kept], offsets[kept]

    def statistic(labels: np.ndarray) -> np.ndarray:
        return dual_statistic(vectors, weights, labels, parameters, offsets)

    return permutation_p_value(statistic, block.labels, rng=generator, check=check)


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

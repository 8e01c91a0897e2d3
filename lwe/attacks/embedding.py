"""The primal attack: the errors as a short vector of Kannan's embedding, found by LLL and BKZ (uSVP)."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Annotated, ClassVar

import numpy as np
from jaxtyping import Int

from attention.validation import PositiveInt, Whole, checked
from lwe.attacks.attack import Attack, AttackEndedError, AttackOutcome, Attempt, Finding
from lwe.attacks.evidence import label_residues
from lwe.attacks.reduction import (
    Reduction,
    larger_block,
    left_inverse,
    modular_hermite_form,
    most_rows,
    require_lattices,
)
from lwe.costs.deviations import deviations
from lwe.costs.primal import PrimalShape, best_primal_shape, fewest_samples, primal_shape
from lwe.parameters import LWEParameters
from lwe.residues import centred
from lwe.samples import LWRSamples, inner_products

# Logs of the ratio of other vectors' length to that of the errors: first those for which LLL should suffice, largest
# first, then the least otherwise. A larger ratio is safer, but needs more samples, larger blocks and more time.
WIDE_GAPS, _LEAST_GAP = (0.4, 0.12), 0.03
_ROUNDS = 3  # how many bases are reduced if neither seconds nor rounds are given
_ROWS_OF_ROUNDS = 260  # the largest size of a basis if rounds, not seconds, limit the work


@dataclass(frozen=True)
@checked
class EmbeddingAttack(Attack):
    """Reduce Kannan's embedding of m samples until a row consists of the errors; compute the secret from it.

    Notes
    -----
    A label counts as the middle of its interval, and rounding as an error uniform in it. If it helps, a secret smaller
    than uniform becomes a weighted part of the short vector. LLL runs first, then tours of BKZ with blocks growing from
    10. Rows that contain the target once are read as secrets. A matrix of bits has short vectors of its own, so several
    secrets have nearly the same labels; such a secret is improved by least squares. If the tours end first, the attack
    takes other and more samples.

    Time 2^(0.18 beta log2 beta) per tour with block size beta as in `lwe.costs.primal_cost`, and O(m^5) for LLL. The
    budget is checked between blocks. LLL cannot be stopped, so a rule of thumb limits bases to a size that LLL reduces
    in half of the budget.

    References
    ----------
    Kannan 1987; Schnorr and Euchner 1994; Chen and Nguyen 2011, "BKZ 2.0"; Bai and Galbraith 2014; fpylll.

    Examples
    --------
    >>> from lwe import LWEParameters, make_samples
    >>> parameters = LWEParameters(n=8, q=128, p=32, matrix="uniform")
    >>> samples, secret = make_samples(parameters, 200, rng=0)
    >>> result = EmbeddingAttack()(samples, parameters, rng=0)
    >>> result.outcome.name in ("BROKEN", "MISSING")  # missing without fpylll
    True
    """

    largest_block: Annotated[int, Whole(2)] = 74  #: the largest block size of BKZ, from 2
    #: The most embeddings that are reduced. If left out, they are reduced while there is time, or 3 without a limit.
    #: Without a time limit neither the work nor the result depends on the machine.
    rounds: PositiveInt | None = None
    name: ClassVar[str] = "usvp"

    def run(self, attempt: Attempt, rng: np.random.Generator) -> Iterator[Finding]:
        """Reduce, read secrets, and repeat with other samples while there is time."""
        parameters, samples = attempt.parameters, attempt.samples
        require_lattices(parameters)
        most = self.rounds or (_ROUNDS if attempt.budget.seconds is None else None)
        shape = _first_shape(attempt, _most_rows(attempt, most))
        rounds, vectors = 0, set[bytes]()
        while rounds != most:
            rounds += 1
            order = np.arange(len(samples)) if rounds == 1 else rng.permutation(len(samples))
            attempt.details.update(samples=shape.samples, rounds=rounds)
            embedding = primal_embedding(samples.at(order[: shape.samples]), parameters, shape)
            reduction = Reduction(embedding.basis, attempt, rng)
            for rows in self._rows(reduction, embedding, attempt):
                for secret in embedding.secrets(reduction, rows, vectors):
                    yield Finding(
                        f"{shape.samples} samples in a lattice of dimension {reduction.dim}, LLL and BKZ with blocks "
                        f"up to {attempt.details['block_size']}.",
                        secret,
                        near=True,
                    )
            if rounds > 1 and shape.samples == len(samples):
                break
            within = _most_rows(attempt, most) - 1 - (parameters.n if shape.weighted else 0)
            more = min(math.ceil(1.15 * shape.samples), len(samples), max(within, shape.samples))
            shape = primal_shape(parameters, more, weighted=shape.weighted)
        if not vectors:
            raise AttackEndedError(
                AttackOutcome.NOTHING,
                f"No vector of the lattice was as short as the errors are, of {attempt.details['samples']} samples in "
                f"dimension {attempt.details['dimension']}, after LLL and BKZ with blocks up to "
                f"{attempt.details['block_size']}.",
            )

    def _rows(self, reduction: Reduction, embedding: "Embedding", attempt: Attempt) -> Iterator[range]:
        """Reduce step by step; after each, the rows that may have become the errors."""
        size = reduction.dim
        yield range(size)
        # once the lattice's own short vectors are the first rows, blocks among them find nothing
        own = len(embedding.own)
        both = np.vstack([embedding.own, reduction.rows(range(own))]).astype(np.float64)
        first = own if own and np.linalg.matrix_rank(both) <= own else 0
        largest = min(self.largest_block, size - first)
        block_size, still = min(10, largest), 0
        while still < 3:
            attempt.check()
            attempt.details["block_size"] = block_size
            for place in reduction.tour(block_size, first):
                # secrets near the right one may be in any row; the errors are only in the block just reduced
                yield range(size) if own else range(place, min(place + block_size, size))
            yield range(size)
            if block_size >= largest:
                still += 1
            block_size = min(larger_block(block_size), max(largest, 2))


@dataclass(frozen=True, eq=False)
class Embedding:
    """Kannan's embedding of samples: a lattice in which the errors are a short vector."""

    #: the rows of the basis, and the last entry of the target's: it marks how often the target is in a vector
    basis: Int[np.ndarray, "D D"]
    factor: int
    #: short vectors that the lattice has of itself: the columns of a matrix of bits or trits; none for others
    own: Int[np.ndarray, "own D"] = field(repr=False)
    #: gives the secret from its products with the rows; None if they do not determine it, or it is in the vectors
    inverse: Int[np.ndarray, "n m"] | None = field(repr=False)
    #: the target times `scale`, the mean of an entry of the secret times `weight`, the factors of errors and secret (0
    #: where it is no part of the vectors), and q
    target: Int[np.ndarray, " m"] = field(repr=False)
    middle: int
    scale: int
    weight: int
    modulus: int

    def secrets(
        self, reduction: Reduction, places: range, vectors: set[bytes]
    ) -> Iterator[Int[np.ndarray, " n"]]:
        """The secrets of rows that contain the target once and may be the errors, but for `vectors` read before."""
        # with uniform vectors only the errors themselves are useful
        longest = math.inf if len(self.own) else self.factor * math.sqrt(2 * reduction.dim)
        for row in reduction.rows(reduction.marked(self.factor, places, longest=longest)):
            if row.tobytes() not in vectors:
                vectors.add(row.tobytes())
                secret = self.secret(row)
                if secret is not None:
                    yield secret

    def secret(self, vector: Int[np.ndarray, " D"]) -> Int[np.ndarray, " n"] | None:
        """The secret of a lattice vector that contains the target once; None for other vectors."""
        if abs(int(vector[-1])) != self.factor:
            return None
        signed, m = vector * (1 if vector[-1] > 0 else -1), len(self.target)
        if self.weight:
            return (self.middle - signed[m:-1]) // self.weight
        if self.inverse is None:
            return None
        errors = signed[:m]
        return inner_products(self.inverse, (self.target - errors) // self.scale, self.modulus)


def primal_embedding(samples: LWRSamples, parameters: LWEParameters, shape: PrimalShape) -> Embedding:
    """The embedding of the first m samples, m and the weights as in `shape`.

    Notes
    -----
    A label means that <v, a> + e is in an interval of residues. The target is the middle of the interval, doubled if it
    is not an integer, and rounding is an error uniform in the interval. Without weights the lattice is
    {y: y = A s mod q}, of dimension m, from its Hermite form. With weights the secret minus its mean is a part of the
    vectors: (A s + q k, w s), where w is near sigma_e / sigma_s and a ratio of small integers. The last entry of the
    target's row is the size of one error.

    References
    ----------
    Kannan 1987, "Minkowski's convex body theorem and integer programming"; Bai and Galbraith 2014, "Lattice decoding
    attacks on binary LWE".
    """
    q, m, sizes = parameters.q, shape.samples, deviations(parameters)
    public = samples.public[:m]
    first, after = label_residues(samples.labels[:m], parameters, samples.rounding)
    doubled = first + after - 1 - round(2 * sizes.error_mean)
    scale = 2 if np.any(doubled % 2) else 1
    target = doubled if scale == 2 else doubled // 2
    weight = 0
    if shape.weighted:
        ratio = sizes.error / max(sizes.secret, 1e-3)
        if ratio * scale < 4:  # rounding the weight to an integer must not be too coarse
            more = math.ceil(4 / max(ratio * scale, 0.05))
            scale, target = scale * more, target * more
        weight = max(round(ratio * scale), 1)
    factor = max(round(scale * sizes.error), 1)
    n, half = parameters.n, scale * q
    size = m + 1 + (n if weight else 0)
    basis = np.zeros((size, size), dtype=np.int64)
    if weight:
        basis[:n, :m] = scale * centred(public.T, q)
        basis[:n, m:-1] = weight * np.eye(n, dtype=np.int64)
        basis[n:-1, :m] = half * np.eye(m, dtype=np.int64)
    else:
        basis[:-1, :-1] = scale * modular_hermite_form(public.T, q)
    basis[-1, :m] = np.mod(target + half // 2, half) - half // 2
    middle = round(weight * sizes.secret_mean)
    if weight:
        basis[-1, m:-1] = middle
    basis[-1, -1] = factor
    own = np.zeros((n if sizes.column > 0 else 0, size), dtype=np.int64)
    if len(own):
        own[:, :m] = scale * public.T
        if weight:
            own[:, m:-1] = weight * np.eye(len(own), dtype=np.int64)
    inverse = None if weight else left_inverse(public, q)
    return Embedding(basis, factor, own, inverse, target, middle, scale, weight, q)


def _most_rows(attempt: Attempt, rounds: int | None) -> int:
    """The rows that LLL can reduce in half of the time left, or the fixed number if rounds limit the work."""
    rows = most_rows(attempt.seconds_left, attempt.parameters.q)
    return rows if rounds is None else min(rows, _ROWS_OF_ROUNDS)


def _first_shape(attempt: Attempt, rows: int) -> PrimalShape:
    """The first lattice to reduce, with at most `rows` rows."""
    parameters, given = attempt.parameters, len(attempt.samples)
    for gap in (*WIDE_GAPS, _LEAST_GAP, 0.0):
        shape = best_primal_shape(parameters, given, least_gap=gap, most_rows=rows, determined=False)
        # if LLL should suffice, a few more samples cost little and make success safer
        if shape is not None and (gap not in WIDE_GAPS or (shape.block_size or 0) <= 10):
            return shape
    n, small = parameters.n, deviations(parameters).small_secret
    fewest, others = fewest_samples(parameters, determined=False), 1 + (n if small else 0)
    fewest = fewest if small else max(fewest, n + 1)
    if given < fewest:
        raise AttackEndedError(
            AttackOutcome.TOO_FEW_SAMPLES,
            f"{given} samples to learn from are too few for a lattice with the secret in it: {fewest} are needed.",
        )
    if fewest + others > rows:
        raise AttackEndedError(
            AttackOutcome.REFUSED,
            f"A basis of at least {fewest + others} rows is needed, and {rows} are the most: LLL cannot be "
            "stopped, and more might outlast half of the budget.",
        )
    return primal_shape(parameters, min(given, rows - others))

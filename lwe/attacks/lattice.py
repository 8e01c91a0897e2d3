"""Lattice attacks in turn: decoding for rows of bits and trits, drop and solve for sparse secrets, then embeddings."""

import math
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Annotated, ClassVar

import numpy as np
from jaxtyping import Int

from attention.validation import PositiveInt, Whole, checked
from lwe.attacks.attack import Attack, AttackEndedError, AttackOutcome, Attempt, Finding
from lwe.attacks.decoding import DecodingAttack
from lwe.attacks.embedding import WIDE_GAPS, EmbeddingAttack, primal_embedding
from lwe.attacks.reduction import Reduction, TrialAttack, TrialPlan
from lwe.costs.primal import PrimalShape, best_primal_shape
from lwe.distributions import FixedWeight
from lwe.parameters import LWEParameters

_EASY = 20  # the largest predicted block of a lattice whose columns are guessed; blocks of 40 are used


@dataclass(frozen=True)
@checked
class LatticeAttack(Attack):
    """Find the secret by lattice reduction: the attacks of this kind that apply, one after the other.

    They are `DecodingAttack` for a public matrix of bits or trits, `DropAndSolveAttack` for sparse secrets, and
    `EmbeddingAttack`, which has the options, for all.

    Examples
    --------
    >>> from lwe import LWEParameters, make_samples
    >>> parameters = LWEParameters(n=8, q=128, p=32, matrix="uniform")
    >>> samples, secret = make_samples(parameters, 200, rng=0)
    >>> result = LatticeAttack()(samples, parameters, rng=0)
    >>> result.outcome.name in ("BROKEN", "MISSING")  # missing without fpylll
    True
    """

    largest_block: Annotated[int, Whole(2)] = 74  #: the largest block size of BKZ, from 2
    rounds: PositiveInt | None = None  #: the most embeddings that are reduced, as of `EmbeddingAttack`
    name: ClassVar[str] = "lattice"
    title: ClassVar[str] = "Primal lattice"

    def run(self, attempt: Attempt, rng: np.random.Generator) -> Iterator[Finding]:
        """Run the three; one that does not apply leaves the work to the next."""
        for attack in (DecodingAttack(), DropAndSolveAttack()):
            try:
                yield from attack.run(attempt, rng)
            except AttackEndedError as ended:
                if ended.outcome not in (AttackOutcome.NOT_APPLICABLE, AttackOutcome.NOTHING):
                    raise
            attempt.details.clear()
        yield from EmbeddingAttack(self.largest_block, self.rounds).run(attempt, rng)


@dataclass(frozen=True)
class DropAndSolveAttack(TrialAttack):
    """Leave columns out at random, in the hope that a sparse secret is zero there; reduce the embedding of the others.

    References
    ----------
    Albrecht 2017, "On dual lattice attacks against small-secret LWE and parameter choices in HElib and SEAL".

    Examples
    --------
    >>> from lwe import DiscreteGaussian, SparseSigned, make_samples
    >>> toy = LWEParameters(40, q=113, matrix="uniform", Xs=SparseSigned(2), Xe=DiscreteGaussian(3.0))
    >>> samples, secret = make_samples(toy, 500, rng=0)
    >>> result = DropAndSolveAttack()(samples, toy, rng=0)
    >>> result.outcome.name in ("BROKEN", "MISSING")  # missing without fpylll
    True
    """

    name: ClassVar[str] = "drop-and-solve"

    def plan(self, attempt: Attempt, seconds: float, rng: np.random.Generator) -> "DropPlan | None":
        """The smaller problem of the fewest expected seconds, and its lattice."""
        parameters, distribution = attempt.parameters, attempt.parameters.Xs
        if not isinstance(distribution, FixedWeight):
            raise AttackEndedError(
                AttackOutcome.NOT_APPLICABLE, "It guesses zeros of secrets of a fixed weight."
            )
        n, weight = parameters.n, distribution.total
        best, least = None, seconds
        for size in range(n - 5, max(weight, n // 4), -5):
            few = parameters.updated(n=size)
            shape = best_primal_shape(few, len(attempt.samples), least_gap=WIDE_GAPS[1])
            success = math.comb(size, weight) / math.comb(n, weight)
            if shape is None or (shape.block_size or 0) > _EASY:
                continue
            cost = 0.07 * (shape.dimension / 58) ** 5  # as measured on one core
            if cost / success < least:
                best, least = DropPlan(n - size, shape.samples, success, cost, few, shape), cost / success
        return best

    def trial(
        self, attempt: Attempt, plan: "DropPlan", rng: np.random.Generator
    ) -> Iterator[Int[np.ndarray, " n"]]:
        """Guess zeros, and reduce the embedding of the other columns."""
        n, vectors = attempt.parameters.n, set[bytes]()
        columns = np.sort(rng.permutation(n)[: plan.few.n])
        part = attempt.samples.at(rng.permutation(len(attempt.samples))[: plan.samples])
        embedding = primal_embedding(replace(part, public=part.public[:, columns]), plan.few, plan.shape)
        reduction = Reduction(embedding.basis, attempt, rng)
        for block_size in (2, 10, 20, 30, 40):
            deque(reduction.tour(block_size), maxlen=0)
            for entries in embedding.secrets(reduction, range(reduction.dim), vectors):
                secret = np.zeros(n, dtype=np.int64)
                secret[columns] = entries
                yield secret


@dataclass(frozen=True)
class DropPlan(TrialPlan):
    """Which smaller problem a trial attacks."""

    few: LWEParameters  #: the problem without the columns
    shape: PrimalShape  #: its lattice

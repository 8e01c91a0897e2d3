"""Lattice attacks in turn: decoding for rows of bits and trits, drop and solve for sparse secrets, then embeddings."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np

from attention.validation import PositiveInt, Whole, checked
from lwe.attacks.attack import Attack, AttackEndedError, AttackOutcome, Attempt, Finding
from lwe.attacks.decoding import DecodingAttack
from lwe.attacks.drop_and_solve import DropAndSolveAttack
from lwe.attacks.embedding import EmbeddingAttack

__all__ = ["LatticeAttack"]


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

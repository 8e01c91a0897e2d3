"""Gaussian elimination over GF(2): noise-free parity, q = p = 2, is easy at any size."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from lower.gf2 import solve_gf2
from lwe.attacks.attack import Attack, Attempt, Finding
from lwe.attacks.outcome import AttackEndedError, AttackOutcome

__all__ = ["EliminationAttack"]

_SURPLUS = 64  # equations beyond the unknowns: labels that are not a parity pass each with probability 1/2


@dataclass(frozen=True)
class EliminationAttack(Attack):
    """Solve the linear equations <a, s> = b over GF(2) that noise-free labels give for q = p = 2.

    It applies to any public matrix. n + r random equations have rank n with probability above 1 - 2^-r. The attack
    takes 64 more equations than unknowns: O(n^3 / 1536) word operations; n = 10^4 takes seconds. One flipped label
    makes the equations contradict each other; for flips see `BKWAttack`. This is the noise-free case of Blum, Kalai and
    Wasserman 2003.

    Examples
    --------
    >>> from lwe import LWEParameters, make_samples
    >>> parameters = LWEParameters(n=40, q=2, p=2)
    >>> samples, secret = make_samples(parameters, 200, rng=0)
    >>> result = EliminationAttack()(samples, parameters)
    >>> result.outcome.name, bool((result.secret == secret).all())
    ('BROKEN', True)
    """

    name: ClassVar[str] = "elimination"

    def run(self, attempt: Attempt, rng: np.random.Generator) -> Iterator[Finding]:
        """Solve; there is no randomness."""
        parameters, samples = attempt.parameters, attempt.samples
        n = parameters.n
        if parameters.q != 2 or parameters.noisy:
            raise AttackEndedError(
                AttackOutcome.NOT_APPLICABLE,
                f"It solves noise-free labels for q = p = 2; these are {parameters}.",
            )
        if len(samples) < n:
            raise AttackEndedError(
                AttackOutcome.TOO_FEW_SAMPLES,
                f"There are {len(samples)} equations: the {n} unknowns need {n} and a few more.",
            )
        part = samples.take(min(len(samples), n + _SURPLUS))
        attempt.require_memory(2 * part.public.size, "The equations")
        solved = solve_gf2(np.mod(part.public, 2), part.labels)
        attempt.details.update(equations=len(part), rank=solved.rank, consistent=solved.consistent)
        words = f"{len(part)} equations in {n} unknowns of rank {solved.rank}"
        if not solved.consistent:
            raise AttackEndedError(
                AttackOutcome.NOTHING, f"{words} contradict one another: no parity, or one with errors."
            )
        yield Finding(f"{words}, solved over GF(2).", solved.solution.astype(np.int64))
        if solved.rank < n:
            raise AttackEndedError(AttackOutcome.TOO_FEW_SAMPLES, "They leave it open: give more samples.")

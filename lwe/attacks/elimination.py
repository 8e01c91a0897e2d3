"""Gaussian elimination over GF(2): noise-free parity, the one case q = p = 2 that is easy at any size."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from attention.validation import count
from lower.gf2 import solve_gf2
from lwe.attack import AttackOutcome, AttackResult
from lwe.attempt import Attempt, BaseAttack

__all__ = ["EliminationAttack"]


@dataclass(frozen=True)
class EliminationAttack(BaseAttack):
    """Solve the linear equations <a, s> = b over GF(2) that noise-free labels are for q = p = 2.

    Parameters
    ----------
    surplus : int
        How many equations beyond the number n of unknowns are solved with them; a system that is no parity passes
        each of them with probability 1/2.

    Notes
    -----
    For q = p = 2 without noise, any public matrix. n + r random equations have rank n with probability above 1 - 2^-r.
    O((n + r) n^2 / 1536) word operations: n = 10^4 takes seconds. One flipped label among the equations makes them
    contradict one another; for flips see `BKWAttack`.

    References
    ----------
    Derived here; the problem is the noise-free case of Blum, Kalai and Wasserman 2003.

    Examples
    --------
    >>> from lwe.parameters import LWRParameters
    >>> from lwe.samples import make_samples
    >>> parameters = LWRParameters(secret_dim=40, modulus=2, levels=2)
    >>> samples, secret = make_samples(parameters, 200, rng=0)
    >>> result = EliminationAttack()(samples, parameters)
    >>> result.outcome.name, bool((result.secret == secret).all())
    ('BROKEN', True)
    """

    surplus: int = 64

    name: ClassVar[str] = "elimination"

    def __post_init__(self) -> None:
        object.__setattr__(self, "surplus", count("surplus", self.surplus))

    def run(self, attempt: Attempt, generator: np.random.Generator) -> AttackResult:
        """Solve; the generator is not used."""
        parameters, training = attempt.parameters, attempt.training
        n = parameters.secret_dim
        if parameters.modulus != 2 or parameters.noisy:
            return attempt.ended(
                AttackOutcome.NOT_APPLICABLE,
                f"It solves noise-free labels for q = p = 2; these are {parameters}.",
            )
        if len(training) < n:
            return attempt.ended(
                AttackOutcome.TOO_FEW_SAMPLES,
                f"There are {len(training)} equations beside those held out: the {n} unknowns need {n} and a few more.",
            )
        part = training.take(min(len(training), n + self.surplus))
        attempt.require_memory(2 * part.public.size, "The equations")
        found = solve_gf2(np.mod(part.public, 2), part.labels)
        attempt.details.update(equations=len(part), rank=found.rank, consistent=found.consistent)
        if not found.consistent:
            return attempt.ended(
                AttackOutcome.NOTHING,
                f"{len(part)} equations in {n} unknowns contradict one another: no parity, or one with errors.",
            )
        result = attempt.found(
            found.solution.astype(np.int64),
            f"{len(part)} equations in {n} unknowns of rank {found.rank}, solved over GF(2).",
        )
        if found.rank < n and not result.outcome.succeeded:
            return attempt.ended(
                AttackOutcome.TOO_FEW_SAMPLES,
                f"{len(part)} equations have rank {found.rank}, and there are {n} unknowns: give more samples.",
            )
        return result

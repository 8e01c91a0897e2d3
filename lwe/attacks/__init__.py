"""Attacks on learning with rounding and with errors, one per file; a failed attack is no claim of security."""

from typing import TYPE_CHECKING

from attention.lazy import lazily

if TYPE_CHECKING:
    from lwe.attacks.arora_ge import AroraGeAttack
    from lwe.attacks.bkw import BKWAttack
    from lwe.attacks.decoding import DecodingAttack
    from lwe.attacks.drop_and_solve import DropAndSolveAttack
    from lwe.attacks.elimination import EliminationAttack
    from lwe.attacks.embedding import EmbeddingAttack
    from lwe.attacks.exhaustive import ExhaustiveAttack
    from lwe.attacks.lattice import LatticeAttack
    from lwe.attacks.learner import AttackLearner, LearnerAttack
    from lwe.attacks.least_squares import LeastSquaresAttack
    from lwe.attacks.linearisation import LinearisationAttack
    from lwe.attacks.meet_in_the_middle import MeetInTheMiddleAttack
    from lwe.attacks.table import ATTACKS

__getattr__ = lazily(__name__, __file__)

__all__ = [
    "ATTACKS",
    "AroraGeAttack",
    "AttackLearner",
    "BKWAttack",
    "DecodingAttack",
    "DropAndSolveAttack",
    "EliminationAttack",
    "EmbeddingAttack",
    "ExhaustiveAttack",
    "LatticeAttack",
    "LearnerAttack",
    "LeastSquaresAttack",
    "LinearisationAttack",
    "MeetInTheMiddleAttack",
]

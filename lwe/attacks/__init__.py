"""Attacks on learning with rounding and with errors, one a file; none that fails is a claim of security."""

from lwe.attacks.arora_ge import AroraGeAttack
from lwe.attacks.as_learner import AttackLearner
from lwe.attacks.bkw import BKWAttack
from lwe.attacks.dual import DualAttack, dual_statistic
from lwe.attacks.elimination import EliminationAttack
from lwe.attacks.exhaustive import ExhaustiveAttack
from lwe.attacks.lattice import LatticeAttack, refined_secret
from lwe.attacks.learner import LearnerAttack
from lwe.attacks.least_squares import LeastSquaresAttack
from lwe.attacks.linearisation import LinearisationAttack, label_degree
from lwe.attacks.meet_in_the_middle import MeetInTheMiddleAttack
from lwe.attacks.sample_oracle import SampleOracle

__all__ = [
    "AroraGeAttack",
    "AttackLearner",
    "BKWAttack",
    "DualAttack",
    "EliminationAttack",
    "ExhaustiveAttack",
    "LatticeAttack",
    "LearnerAttack",
    "LeastSquaresAttack",
    "LinearisationAttack",
    "MeetInTheMiddleAttack",
    "SampleOracle",
    "dual_statistic",
    "label_degree",
    "refined_secret",
]

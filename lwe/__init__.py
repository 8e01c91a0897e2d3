"""Learning with rounding realised by heads: families, certificates, attacks, the reduction, and cost estimates.

* Problems: `LWEParameters` with distributions of secrets and errors; `PRESETS` has named ones. `make_samples` draws
  samples; `read_samples` and `save_samples` are for files.
* Families: `LWRFamily` realises problems by attention heads; `samples_from_examples` reads samples off examples.
* Attacks: `LeastSquaresAttack`, `LatticeAttack` and others; `ATTACKS` has them by name.
  `LearnerAttack` turns any learner into an attack, `AttackLearner` any attack into a learner.
* Reductions: `known_reductions` names the assumption and what each loses; `rounded_samples` and
  `small_row_samples` carry two of them out; `distinguish` runs a learner as a distinguisher.
* `estimate` gives the estimated costs of attacks.

No instance here comes with a claim of security, and a failed attack is no such claim either.
"""

from typing import TYPE_CHECKING

from attention.lazy import lazily
from lwe.families import LWRFamily

if TYPE_CHECKING:
    from lwe.attacks.attack import (
        Attack,
        AttackEndedError,
        AttackOutcome,
        AttackResult,
        Attempt,
        Budget,
        Finding,
    )
    from lwe.attacks.bkw import BKWAttack
    from lwe.attacks.decoding import DecodingAttack
    from lwe.attacks.distinguishing import distinguish
    from lwe.attacks.embedding import EmbeddingAttack
    from lwe.attacks.exhaustive import ExhaustiveAttack
    from lwe.attacks.lattice import DropAndSolveAttack, LatticeAttack
    from lwe.attacks.learner import AttackLearner, LearnerAttack
    from lwe.attacks.least_squares import LeastSquaresAttack
    from lwe.attacks.linearisation import LinearisationAttack
    from lwe.attacks.meet_in_the_middle import MeetInTheMiddleAttack
    from lwe.attacks.table import ATTACKS
    from lwe.costs import Cost, estimate
    from lwe.distributions import (
        BINARY,
        TERNARY,
        CentredBinomial,
        DiscreteGaussian,
        Distribution,
        Flips,
        Interval,
        SparseBinary,
        SparseSigned,
        SparseTernary,
        Uniform,
        parse_distribution,
    )
    from lwe.parameters import LWEParameters
    from lwe.presets import PRESETS
    from lwe.reductions import known_reductions, rejected_samples, rounded_samples, small_row_samples
    from lwe.sample_files import read_samples, save_samples
    from lwe.samples import LWRSamples, make_samples
    from lwe.tokens import samples_from_examples

__getattr__ = lazily(__name__, __file__)

__all__ = [
    "ATTACKS",
    "BINARY",
    "PRESETS",
    "TERNARY",
    "Attack",
    "AttackEndedError",
    "AttackLearner",
    "AttackOutcome",
    "AttackResult",
    "Attempt",
    "BKWAttack",
    "Budget",
    "CentredBinomial",
    "Cost",
    "DecodingAttack",
    "DiscreteGaussian",
    "Distribution",
    "DropAndSolveAttack",
    "EmbeddingAttack",
    "ExhaustiveAttack",
    "Finding",
    "Flips",
    "Interval",
    "LWEParameters",
    "LWRFamily",
    "LWRSamples",
    "LatticeAttack",
    "LearnerAttack",
    "LeastSquaresAttack",
    "LinearisationAttack",
    "MeetInTheMiddleAttack",
    "SparseBinary",
    "SparseSigned",
    "SparseTernary",
    "Uniform",
    "distinguish",
    "estimate",
    "known_reductions",
    "make_samples",
    "parse_distribution",
    "read_samples",
    "rejected_samples",
    "rounded_samples",
    "samples_from_examples",
    "save_samples",
    "small_row_samples",
]

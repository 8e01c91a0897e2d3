"""Learning with rounding realised by heads: families, certificates, attacks, the reduction, and cost estimates.

* Problems: `LWEParameters` with laws of secrets and errors; `PRESETS` has named ones. `make_samples` draws samples;
  `read_samples` and `save_samples` are for files.
* Families: `LWRFamily` realises problems by attention heads; `noisy_examples` and `samples_from_examples` convert
  between examples and samples.
* Certificates: `judge_secret`, `total_variation_from_uniform`, `low_degree_weights`.
* Attacks: `LeastSquaresAttack`, `LatticeAttack` and others; `run_attacks` runs several on the same samples.
  `LearnerAttack` turns any learner into an attack, `AttackLearner` any attack into a learner.
* Reductions: `card_of` names the assumption and what known reductions lose; `rounded_samples` and
  `small_row_samples` carry two of them out; `distinguish` runs a learner as a distinguisher.
* `estimate` gives the estimated costs of attacks.

No instance here comes with a claim of security, and a failed attack is no such claim either.
"""

from typing import TYPE_CHECKING

from attention.lazy import lazily
from lwe.families import LWRFamily, describe_instance, make_lwr_instance

if TYPE_CHECKING:
    from lwe.attacks.arora_ge import AroraGeAttack
    from lwe.attacks.attack import Attack, AttackResult, Attempt, Finding, run_attacks
    from lwe.attacks.bkw import BKWAttack
    from lwe.attacks.decoding import DecodingAttack
    from lwe.attacks.distinguishing import distinguish, sufficient_examples
    from lwe.attacks.drop_and_solve import DropAndSolveAttack
    from lwe.attacks.elimination import EliminationAttack
    from lwe.attacks.embedding import EmbeddingAttack
    from lwe.attacks.evidence import secret_predictor
    from lwe.attacks.exhaustive import ExhaustiveAttack
    from lwe.attacks.lattice import LatticeAttack
    from lwe.attacks.learner import AttackLearner, LearnerAttack
    from lwe.attacks.least_squares import LeastSquaresAttack
    from lwe.attacks.linearisation import LinearisationAttack
    from lwe.attacks.meet_in_the_middle import MeetInTheMiddleAttack
    from lwe.attacks.outcome import AttackEndedError, AttackOutcome, Budget
    from lwe.attacks.table import ATTACKS
    from lwe.costs import Cost, estimate
    from lwe.distributions import (
        BINARY,
        NO_NOISE,
        TERNARY,
        UNIFORM,
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
    from lwe.examples import noisy_examples, samples_from_examples
    from lwe.labels import low_degree_weights, root_mean_square_correlation
    from lwe.parameters import LWEParameters
    from lwe.presets import PRESETS
    from lwe.reductions import Card, Reduction, card_of, rounded_samples, small_row_samples
    from lwe.sample_files import StoredSamples, read_matrix, read_samples, save_samples, write_matrix
    from lwe.samples import LWRSamples, make_samples
    from lwe.uniformity import log2_distance_from_uniform, total_variation_from_uniform, wrap_ratio
    from lwe.verdict import judge_secret

__getattr__ = lazily(__name__, __file__)

__all__ = [
    "ATTACKS",
    "BINARY",
    "NO_NOISE",
    "PRESETS",
    "TERNARY",
    "UNIFORM",
    "AroraGeAttack",
    "Attack",
    "AttackEndedError",
    "AttackLearner",
    "AttackOutcome",
    "AttackResult",
    "Attempt",
    "BKWAttack",
    "Budget",
    "Card",
    "CentredBinomial",
    "Cost",
    "DecodingAttack",
    "DiscreteGaussian",
    "Distribution",
    "DropAndSolveAttack",
    "EliminationAttack",
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
    "Reduction",
    "SparseBinary",
    "SparseSigned",
    "SparseTernary",
    "StoredSamples",
    "Uniform",
    "card_of",
    "describe_instance",
    "distinguish",
    "estimate",
    "judge_secret",
    "log2_distance_from_uniform",
    "low_degree_weights",
    "make_lwr_instance",
    "make_samples",
    "noisy_examples",
    "parse_distribution",
    "read_matrix",
    "read_samples",
    "root_mean_square_correlation",
    "rounded_samples",
    "run_attacks",
    "samples_from_examples",
    "save_samples",
    "secret_predictor",
    "small_row_samples",
    "sufficient_examples",
    "total_variation_from_uniform",
    "wrap_ratio",
    "write_matrix",
]

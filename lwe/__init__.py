"""Learning with rounding realised by heads: families, certificates, attacks, the reduction, and cost estimates.

* Problems: `LWRParameters` with laws of secrets and errors, named ones in `PRESETS`; `make_samples`, `read_samples`.
* Families: `lwr_instance` and `make_lwr_instance` realise them by attention heads, `DEFINITIONS` says to
  `lower.verify_instance` what an instance must be, `noisy_examples` and `samples_from_examples` go between examples
  and samples.
* Certificates: `judge_secret`, `total_variation_from_uniform`, `low_degree_weights`, `label_correlation`.
* Attacks: `LeastSquaresAttack`, `LatticeAttack` and others, side by side by `run_attacks`; `LearnerAttack` makes an
  attack of any learner, `AttackLearner` a learner of any attack.
* `distinguish` is the reduction as an experiment; `estimate` says what attacks are estimated to cost.

No instance here comes with a claim of security, and no failed attack is one.
"""

from lwe.attack import (
    Attack,
    AttackOutcome,
    AttackResult,
    Budget,
    BudgetSpentError,
    LabelPredictor,
    require_samples,
    run_attacks,
)
from lwe.attacks import (
    AroraGeAttack,
    AttackLearner,
    BKWAttack,
    DualAttack,
    EliminationAttack,
    ExhaustiveAttack,
    LatticeAttack,
    LearnerAttack,
    LeastSquaresAttack,
    LinearisationAttack,
    MeetInTheMiddleAttack,
)
from lwe.attempt import Attempt, BaseAttack, secret_predictor
from lwe.certificate import lwr_certificate
from lwe.characters import (
    Characters,
    characters,
    distance_from_uniform,
    label_coefficients,
    log2_distance_from_uniform,
    residue_deviations,
)
from lwe.correlation import label_correlation, root_mean_square_correlation, sampled_correlations
from lwe.costs import Cost, estimate
from lwe.definition import DEFINITIONS
from lwe.description import FAMILY, PublicDescription, describe_instance
from lwe.examples import covariates_of, noisy_examples, samples_from_examples
from lwe.families import lwr_instance, make_lwr_instance
from lwe.heads import kept_range, lwr_layer, lwr_staircase, truncation_failure, value_range
from lwe.integer_law import BaseLaw
from lwe.laws import (
    NO_NOISE,
    UNIFORM,
    BinaryLaw,
    BinomialLaw,
    FlipLaw,
    GaussianLaw,
    IntegerLaw,
    SparseLaw,
    TernaryLaw,
    UniformLaw,
    ZeroLaw,
    law_from_json,
)
from lwe.low_degree import LowDegreeWeights, low_degree_weights
from lwe.parameters import LARGEST_MODULUS, LWRParameters, Matrix, centred, covariate_form, rounded
from lwe.presets import PRESETS, preset
from lwe.reduction import Distinguishing, distinguish, sufficient_examples
from lwe.sample_files import read_samples, write_samples
from lwe.samples import LWRSamples, inner_products, make_samples
from lwe.uniformity import residue_counts, total_variation_from_uniform, wrap_ratio
from lwe.verdict import LEAST_WRAP, Verdict, judge_secret

__all__ = [
    "DEFINITIONS",
    "FAMILY",
    "LARGEST_MODULUS",
    "LEAST_WRAP",
    "NO_NOISE",
    "PRESETS",
    "UNIFORM",
    "AroraGeAttack",
    "Attack",
    "AttackLearner",
    "AttackOutcome",
    "AttackResult",
    "Attempt",
    "BKWAttack",
    "BaseAttack",
    "BaseLaw",
    "BinaryLaw",
    "BinomialLaw",
    "Budget",
    "BudgetSpentError",
    "Characters",
    "Cost",
    "Distinguishing",
    "DualAttack",
    "EliminationAttack",
    "ExhaustiveAttack",
    "FlipLaw",
    "GaussianLaw",
    "IntegerLaw",
    "LWRParameters",
    "LWRSamples",
    "LabelPredictor",
    "LatticeAttack",
    "LearnerAttack",
    "LeastSquaresAttack",
    "LinearisationAttack",
    "LowDegreeWeights",
    "Matrix",
    "MeetInTheMiddleAttack",
    "PublicDescription",
    "SparseLaw",
    "TernaryLaw",
    "UniformLaw",
    "Verdict",
    "ZeroLaw",
    "centred",
    "characters",
    "covariate_form",
    "covariates_of",
    "describe_instance",
    "distance_from_uniform",
    "distinguish",
    "estimate",
    "inner_products",
    "judge_secret",
    "kept_range",
    "label_coefficients",
    "label_correlation",
    "law_from_json",
    "log2_distance_from_uniform",
    "low_degree_weights",
    "lwr_certificate",
    "lwr_instance",
    "lwr_layer",
    "lwr_staircase",
    "make_lwr_instance",
    "make_samples",
    "noisy_examples",
    "preset",
    "read_samples",
    "require_samples",
    "residue_counts",
    "residue_deviations",
    "root_mean_square_correlation",
    "rounded",
    "run_attacks",
    "sampled_correlations",
    "samples_from_examples",
    "secret_predictor",
    "sufficient_examples",
    "total_variation_from_uniform",
    "truncation_failure",
    "value_range",
    "wrap_ratio",
    "write_samples",
]

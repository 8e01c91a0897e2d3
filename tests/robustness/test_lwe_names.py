"""Every public name of `lwe`, `lwe.attacks` and `lwe.costs` is tried, or there is a reason not to."""

import test_lwe_attacks
import test_lwe_costs
import test_lwe_instances
import test_lwe_laws
from fuzzing import missing_subjects

import lwe
import lwe.attacks
import lwe.costs

RECORD = "a record of what was computed"
EXCEPTIONS = {
    **dict.fromkeys(
        [
            f"lwe.{one}"
            for one in (
                "DEFINITIONS",
                "FAMILY",
                "LARGEST_MODULUS",
                "LEAST_WRAP",
                "NO_NOISE",
                "PRESETS",
                "UNIFORM",
            )
        ],
        "a constant",
    ),
    **dict.fromkeys(
        [f"lwe.costs.{one}" for one in ("CLASSICAL_EXPONENT", "QUANTUM_EXPONENT", "SIEVE_VECTORS")],
        "a constant",
    ),
    **dict.fromkeys(
        [
            *(
                f"lwe.{one}"
                for one in (
                    "AttackResult",
                    "Characters",
                    "Cost",
                    "Distinguishing",
                    "LowDegreeWeights",
                    "PublicDescription",
                    "Verdict",
                )
            ),
            "lwe.costs.Cost",
            "lwe.costs.Deviations",
            "lwe.costs.PrimalShape",
        ],
        RECORD,
    ),
    **dict.fromkeys(
        [f"lwe.{one}" for one in ("Attack", "LabelPredictor", "Matrix")], "a protocol or the name of a type"
    ),
    **dict.fromkeys(
        [f"lwe.{one}" for one in ("Attempt", "BaseAttack", "BaseLaw")],
        "for those who write attacks and laws: the toolkit's own are built on it, and are tried",
    ),
    "lwe.AttackOutcome": "an enumeration",
    "lwe.BudgetSpentError": "an error",
    "lwe.lwr_certificate": "put together by lwr_instance of what it has made, which is tried",
}


def test_every_public_name_is_tried_or_excepted():
    packages = {"lwe": lwe, "lwe.attacks": lwe.attacks, "lwe.costs": lwe.costs}
    parts = (test_lwe_laws, test_lwe_instances, test_lwe_attacks, test_lwe_costs)
    missing, idle = missing_subjects(packages, [one for part in parts for one in part.SUBJECTS], EXCEPTIONS)
    assert not missing
    assert not idle

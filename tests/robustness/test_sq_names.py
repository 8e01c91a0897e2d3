"""Every public name of `sq` is tried in one of the files beside this one, or there is a reason not to."""

import test_sq_bounds
import test_sq_correlations
import test_sq_families
import test_sq_instances
import test_sq_profiles
import test_sq_queries
from fuzzing import missing_subjects

import sq

SUBJECTS = [
    *test_sq_bounds.SUBJECTS,
    *test_sq_correlations.SUBJECTS,
    *test_sq_families.SUBJECTS,
    *test_sq_instances.SUBJECTS,
    *test_sq_profiles.SUBJECTS,
    *test_sq_queries.SUBJECTS,
]
RECORD = "a record of what was computed"
EXCEPTIONS = {
    **dict.fromkeys(
        ("sq.CURVE_COLUMNS", "sq.CURVE_LEARNERS", "sq.CURVE_ORACLES", "sq.DEFINITIONS"), "a constant"
    ),
    **dict.fromkeys(
        [
            f"sq.{name}"
            for name in (
                "Bound",
                "Clique",
                "CliqueBound",
                "CurvePoint",
                "FourierSpectrum",
                "GramMatrix",
                "LargestAverage",
                "ParityHeads",
                "SQResult",
                "StatisticalDimension",
                "TwoHeadFamilies",
            )
        ],
        RECORD,
    ),
    **dict.fromkeys(
        [f"sq.{name}" for name in ("BoundedQuery", "QueryModel", "SQLearner", "Construction")],
        "a protocol or the name of a type",
    ),
    "sq.walsh_hadamard": "lower.walsh_hadamard, which is tried there",
    "sq.SymmetricFamily": "abstract: its subclasses are tried",
    "sq.CurveCell": "a cell that curve_cells makes; sq.measure_cell is tried on it",
}


def test_every_public_name_is_tried_or_excepted():
    missing, idle = missing_subjects({"sq": sq}, SUBJECTS, EXCEPTIONS)
    assert not missing
    assert not idle

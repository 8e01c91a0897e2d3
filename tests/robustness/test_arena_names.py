"""Every public name of `arena` and `paper_checks` is tried, or there is a reason not to."""

import test_arena_checks
import test_arena_stores
import test_arena_targets
from fuzzing import missing_subjects

import arena
import paper_checks
import paper_checks.linear_attention as experiments

RECORD = "a record of what was computed"
EXCEPTIONS = {
    **dict.fromkeys(
        [
            f"arena.{one}"
            for one in (
                "Attacked",
                "Cell",
                "Drawing",
                "Inspection",
                "LWRPoint",
                "Learned",
                "LearnedPhases",
                "LearnerRecord",
                "LearnerSide",
                "PaperFigure",
                "QueriedPhases",
                "Results",
                "StoredCell",
                "TargetRecord",
                "TracePoint",
            )
        ],
        RECORD,
    ),
    **dict.fromkeys(
        [
            f"arena.{one}"
            for one in ("DoesNotApplyError", "StoreError", "UnusedSettingError", "WorkersLostError")
        ],
        "an error",
    ),
    **dict.fromkeys([f"arena.{one}" for one in ("ATTACKS", "PRESETS", "STUDENTS")], "a constant"),
    **dict.fromkeys(
        [f"arena.{one}" for one in ("AttackKind", "Effort", "Student", "Target")],
        "put together by the toolkit: choose_attacks, choose_students and the makers of targets are tried",
    ),
    **dict.fromkeys(
        [f"arena.{one}" for one in ("attack", "attack_samples", "lwr_curve", "LWRCell", "queried_phases")],
        "minutes of work: their options are tried by test_command_line",
    ),
    "arena.learn_phases": "seconds of work: the options of explain and learn are tried by test_command_line",
    "arena.cluster": "needs a scheduler: --dask is tried by test_command_line",
    "arena.draw_learner_side": "draws what learner_side and queried_phases give, which takes minutes",
    **dict.fromkeys(
        [f"arena.{one}" for one in ("samples_of", "run_curves", "largest_broken")],
        "between the commands and the workers: reached through the command line, whose options are tried",
    ),
    "arena.versions": "takes no arguments",
    **dict.fromkeys(
        [f"paper_checks.{one}" for one in ("Basis", "Kind", "Scale", "Verdict")], "an enumeration"
    ),
    **dict.fromkeys([f"paper_checks.{one}" for one in ("Constants", "Run")], "the name of a type"),
    **dict.fromkeys([f"paper_checks.{one}" for one in ("CheckResult", "Comparison")], RECORD),
    "paper_checks.GROUPS": "a constant",
    "paper_checks.all_checks": "takes no arguments",
    "paper_checks.check": "a decorator that makes a Check, which is tried",
    **dict.fromkeys(
        [f"paper_checks.linear_attention.{one}" for one in ("Cell", "Report")], "the name of a type"
    ),
    **dict.fromkeys(
        [
            f"paper_checks.linear_attention.{one}"
            for one in ("Curve", "Experiment", "HeldFigure", "Plot", "Table")
        ],
        RECORD,
    ),
    "paper_checks.linear_attention.EXPERIMENTS": "a constant",
}


def test_every_public_name_is_tried_or_excepted():
    packages = {"arena": arena, "paper_checks": paper_checks, "paper_checks.linear_attention": experiments}
    parts = (test_arena_targets, test_arena_stores, test_arena_checks)
    missing, idle = missing_subjects(packages, [one for part in parts for one in part.SUBJECTS], EXCEPTIONS)
    assert not missing
    assert not idle

"""Parts of the learners of `upper`, and that every public name of the package is tried by one of these files."""

import pytest
from fuzzing import Subject, missing_subjects
from upper_exceptions import EXCEPTIONS
from upper_learners import LEARNER_SUBJECTS
from upper_linear import LINEAR_SUBJECTS
from upper_linear_fits import LINEAR_FIT_SUBJECTS
from upper_parts import PART_SUBJECTS
from upper_phases import PHASE_SUBJECTS
from upper_queries import QUERY_SUBJECTS
from upper_tasks import TASK_SUBJECTS

import upper
import upper.baselines
import upper.linear_attention as linear
import upper.linear_attention.tasks as tasks
import upper.six_phase as phases

SUBJECTS = [
    *LEARNER_SUBJECTS,
    *PART_SUBJECTS,
    *LINEAR_SUBJECTS,
    *LINEAR_FIT_SUBJECTS,
    *TASK_SUBJECTS,
    *PHASE_SUBJECTS,
    *QUERY_SUBJECTS,
]


@pytest.mark.bad_input
@pytest.mark.parametrize("subject", PART_SUBJECTS, ids=repr)
def test_every_call_is_answered_rightly_or_refused_in_a_sentence(subject, fuzz):
    fuzz(subject)


def test_every_public_name_is_tried_or_excepted():
    without_torch = [Subject(f"upper.{name}", getattr(upper, name), {}) for name in ("Adam", "TunedAdam")]
    packages = {
        "upper": upper,
        "upper.baselines": upper.baselines,
        "upper.linear_attention": linear,
        "upper.linear_attention.tasks": tasks,
        "upper.six_phase": phases,
    }
    assert missing_subjects(packages, SUBJECTS + without_torch, EXCEPTIONS) == ([], [])


def test_no_two_subjects_have_one_name():
    names = [subject.name for subject in SUBJECTS]
    assert len(set(names)) == len(names)

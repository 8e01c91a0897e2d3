"""Every learner of `upper`, made with and fitted by what a user may give it by mistake."""

import pytest
from upper_learners import LEARNER_SUBJECTS


@pytest.mark.bad_input
@pytest.mark.parametrize("subject", LEARNER_SUBJECTS, ids=repr)
def test_every_call_is_answered_rightly_or_refused_in_a_sentence(subject, fuzz):
    fuzz(subject)

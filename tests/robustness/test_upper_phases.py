"""The phases of the six-phase learner, called with what a user may give by mistake."""

import pytest
from upper_phases import PHASE_SUBJECTS


@pytest.mark.bad_input
@pytest.mark.parametrize("subject", PHASE_SUBJECTS, ids=repr)
def test_every_call_is_answered_rightly_or_refused_in_a_sentence(subject, fuzz):
    fuzz(subject)

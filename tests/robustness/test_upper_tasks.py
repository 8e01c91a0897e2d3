"""Tasks of linear attention: automata, memories and machines, called with what a user may give by mistake."""

import pytest
from upper_tasks import TASK_SUBJECTS


@pytest.mark.bad_input
@pytest.mark.parametrize("subject", TASK_SUBJECTS, ids=repr)
def test_every_call_is_answered_rightly_or_refused_in_a_sentence(subject, fuzz):
    fuzz(subject)

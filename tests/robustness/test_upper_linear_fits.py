"""What is learned of linear attention: regressions, certificates, heads and training, called with mistakes."""

import pytest
from upper_linear_fits import LINEAR_FIT_SUBJECTS


@pytest.mark.bad_input
@pytest.mark.parametrize("subject", LINEAR_FIT_SUBJECTS, ids=repr)
def test_every_call_is_answered_rightly_or_refused_in_a_sentence(subject, fuzz):
    fuzz(subject)

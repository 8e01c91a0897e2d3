"""The six phases as statistical queries, called with what a user may give by mistake."""

import pytest
from upper_queries import QUERY_SUBJECTS


@pytest.mark.bad_input
@pytest.mark.parametrize("subject", QUERY_SUBJECTS, ids=repr)
def test_every_call_is_answered_rightly_or_refused_in_a_sentence(subject, fuzz):
    fuzz(subject)

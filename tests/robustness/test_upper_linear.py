"""Linear attention: models, features, tensors, exact moments and files, called with what a user may give by mistake."""

import pytest
from upper_linear import LINEAR_SUBJECTS, store


@pytest.fixture(scope="module", autouse=True)
def stored(tmp_path_factory):
    """A file that is read, and the folder that is written to."""
    store(tmp_path_factory.mktemp("stored"))


@pytest.mark.bad_input
@pytest.mark.parametrize("subject", LINEAR_SUBJECTS, ids=repr)
def test_every_call_is_answered_rightly_or_refused_in_a_sentence(subject, fuzz):
    fuzz(subject)

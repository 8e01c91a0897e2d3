"""The whole learner, and Newton: every check holds, and is seen to fail on its injected error."""

from paper_checks import Verdict

GROUP = "learners"
SLOW = {
    "learners/adam",
    "learners/hard-for-newton",
    "learners/newton-exact",
    "learners/noise",
    "learners/paper-mode",
    "learners/practical-mode",
}


def test_holds(result):
    assert result.verdict is Verdict.HOLDS, result


def test_fails_on_its_injected_error(result, injected, expectations):
    assert injected.verdict is Verdict.FAILS, injected
    assert expectations(injected) == expectations(result), "the error is to be in what is measured"

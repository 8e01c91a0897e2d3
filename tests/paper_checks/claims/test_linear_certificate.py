"""Linear attention: regression, heads and certificate: every check holds, and is seen to fail on its injected error."""

from paper_checks import Verdict

GROUP = "linear-certificate"


def test_holds(result):
    assert result.verdict is Verdict.HOLDS, result


def test_fails_on_its_injected_error(result, injected, expectations):
    assert injected.verdict is Verdict.FAILS, injected
    assert expectations(injected) == expectations(result), "the error is to be in what is measured"

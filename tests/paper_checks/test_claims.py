"""Every claim: its check holds, and fails with its injected error on the figures that it held against the claim."""

import pytest

from paper_checks import Kind, Verdict, all_checks, run_check

SLOW = {
    "agreement/exponent",
    "agreement/false-certificates",
    "attacks/distinguisher",
    "attacks/lattice",
    "attacks/lattice-bits",
    "crude-sum/figures",
    "crude-sum/rank-alone",
    "learners/adam",
    "learners/hard-for-newton",
    "learners/newton-exact",
    "learners/noise",
    "learners/paper-mode",
    "learners/practical-mode",
    "linear-certificate/adam",
    "linear-certificate/heads-under-noise",
    "linear-certificate/newton",
    "linear-machines/automaton-runs",
    "linear-machines/turing-learned",
    "outside-queries/adam-fewer-coordinates",
    "outside-queries/adam-one-bit",
    "outside-queries/adam-three-bits",
    "outside-queries/elimination",
    "outside-queries/label-flips",
    "outside-queries/raw-examples",
    "queries/honest-scan",
    "queries/sandwich",
    "queries/table",
    "refinement/one-round",
    "refinement/self-consistent",
    "refinement/too-small",
    "secrets/medians",
    "span-and-net/wide-directions",
}


def expectations(result):
    """What each figure is held against; the rule of an interval tells what was measured, and is left out."""
    return [(one.expected, "" if one.kind is Kind.STATISTICAL else one.rule) for one in result.comparisons]


@pytest.mark.parametrize(
    "check",
    [
        pytest.param(one, id=one.id, marks=[pytest.mark.slow] if one.id in SLOW else [])
        for one in all_checks()
    ],
)
def test_a_claim_holds_and_its_check_fails_on_the_injected_error(check):
    result = run_check(check)
    if result.verdict is Verdict.SKIPPED:
        pytest.skip(result.reason)
    assert result.verdict is Verdict.HOLDS, result
    injected = run_check(check, inject=True)
    assert injected.verdict is Verdict.FAILS, injected
    assert expectations(injected) == expectations(result), "the error is to be in what is measured"

"""Every claim: it holds, and fails with its injected error on the figures that it held against the claim."""

from pathlib import Path

import pytest

from paper_checks import Verdict, all_claims, find_claims, run_claim
from paper_checks.claims_folder import read_results


def expectations(result):
    """What each figure is held against; the rule of an interval says what was measured, and is left out."""
    return [(one.expected, "" if one.false_alarm else one.rule) for one in result.comparisons]


@pytest.mark.parametrize(
    "claim",
    [pytest.param(one, id=one.id, marks=[pytest.mark.slow] if one.slow else []) for one in all_claims()],
)
def test_a_claim_holds_and_its_check_fails_on_the_injected_error(claim):
    result = run_claim(claim)
    if result.verdict is Verdict.SKIPPED:
        pytest.skip(result.reason)
    assert result.verdict is Verdict.HOLDS, result
    injected = run_claim(claim, inject=True)
    assert injected.verdict is Verdict.FAILS, injected
    assert expectations(injected) == expectations(result), "the error is to be in what is measured"


def test_one_and_two_heads_have_the_most_zeros_that_the_bound_allows():
    (claim,) = find_claims(["parities/heads-against-bits"])
    assert [float(one.measured) for one in run_claim(claim).comparisons[:2]] == [1, 3]


def test_the_committed_results_are_those_of_all_claims_and_each_passed():
    """`attention-bounds check NAMES --scale full --inject --out docs/claims` makes those that are not."""
    results = read_results(Path(__file__).parents[2] / "docs" / "claims")
    assert {one.id for one in all_claims()} == {*results}
    for result in results.values():
        assert (result.verdict, result.injected) == (Verdict.HOLDS, Verdict.FAILS), result.id

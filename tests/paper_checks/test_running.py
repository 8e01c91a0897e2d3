"""Claims run: verdicts, faults, registry, and files that outlive an interruption."""

import json
import os
from dataclasses import replace
from fractions import Fraction

import msgspec
import numpy as np
import pytest

import attention
from attention import FileFormatError
from paper_checks import (
    GROUPS,
    Basis,
    Fault,
    Scale,
    Verdict,
    all_claims,
    at_least,
    at_most,
    claim,
    close,
    covers,
    equal,
    find_claims,
    given,
    may_be_at_most,
    run_claim,
    run_claims,
    surely_above,
    surely_below,
)
from paper_checks.claims_folder import keep_result, read_results
from paper_checks.reports import write_pages
from studies.intervals import Interval, mean_interval

BOOK = {"source": "a book", "basis": Basis.PROVED}
HALVED = Fault("attention.layer:attention_pattern", given(lambda logits: logits / 2), "half of the logits")


@claim("sums/two", fault={"sum": 3}, **BOOK)
def two(scale, rng, *, sum=2):
    """One and one is two."""
    return [equal("one and one", 1 + 1, sum)]


@claim("sums/mean", fault={"mean": 1.0}, false_alarm=1e-3, **BOOK)
def mean(scale, rng, *, mean=0.0):
    """The mean is 0.

    It draws 400 numbers.
    """
    return [covers("the mean", mean_interval(rng.normal(size=400), confidence=0.999), mean)]


@claim("sums/pattern", fault=HALVED, **BOOK)
def pattern(scale, rng):
    """Twice the odds have twice the weight."""
    odds = attention.attention_pattern(np.array([np.log(2.0), 0.0]))
    return [equal("twice as much weight", round(odds[0] / odds[1], 9) == 2, True)]


@claim("sums/crash", fault={"sum": 3}, **BOOK)
def crash(scale, rng, *, sum=2):
    """It crashes."""
    raise RuntimeError("no sums today")


@claim("sums/blind", fault={"sum": 3}, **BOOK)
def blind(scale, rng, *, sum=2):
    """It looks at nothing."""
    return [equal("two", 2, 2)]


def test_a_claim_holds_and_fails_on_its_injected_error():
    for one in (two, mean, pattern):
        assert [run_claim(one, inject=inject).verdict.value for inject in (False, True, False)] == [
            "holds",
            "fails",
            "holds",
        ]


def test_a_docstring_is_the_claim_and_then_how_it_is_checked():
    assert (mean.text, mean.how, mean.numbers) == ("The mean is 0.", "It draws 400 numbers.", {"mean": 0.0})
    assert mean.injected == "mean = 1.0 in place of 0.0"


def test_a_crash_is_a_verdict_and_loses_nothing():
    results = list(run_claims([crash, two]))
    assert [one.verdict for one in results] == [Verdict.BROKEN, Verdict.HOLDS]
    assert results[0].reason == "RuntimeError: no sums today"


def test_what_is_not_installed_is_skipped_with_its_reason():
    result = run_claim(replace(crash, needs=("no_such_module",)))
    assert (result.verdict, result.reason) == (Verdict.SKIPPED, "no_such_module is not installed")
    assert result.passed


def test_a_check_that_does_not_see_its_injected_error_does_not_pass():
    (result,) = run_claims([blind], inject=True)
    assert (result.verdict, result.injected, result.passed) == (Verdict.HOLDS, Verdict.HOLDS, False)


def test_several_processes_give_the_same_results_and_faults_reach_them():
    claims = [two, mean, pattern]
    first, second = (
        {
            one.id: msgspec.structs.replace(one, seconds=0.0)
            for one in run_claims(claims, inject=True, jobs=jobs)
        }
        for jobs in (1, 2)
    )
    assert first == second
    assert all(one.passed and one.injected is Verdict.FAILS for one in first.values())
    assert run_claim(mean, seed=4).comparisons != first["sums/mean"].comparisons


def test_a_check_compares_something_and_intervals_if_and_only_if_it_states_a_false_alarm():
    def nothing(scale, rng, *, sum=2, mean=0.0):
        """It checks nothing."""
        return []

    def both(scale, rng, *, sum=2, mean=0.0):
        """It checks a number and an interval."""
        return [*two.run(scale, rng, sum=sum), *globals()["mean"].run(scale, rng, mean=mean)]

    def number(scale, rng, *, sum=2, mean=0.0):
        """It checks a number."""
        return two.run(scale, rng, sum=sum)

    for one, run, why in [(two, nothing, "nothing was compared"), (two, both, "it states 0")]:
        assert why in run_claim(replace(one, run=run)).reason
    assert "it states 0.001" in run_claim(replace(mean, run=number)).reason


def test_claims_that_say_nothing_or_could_not_fail_are_refused():
    faults = [{"fault": fault} for fault in ({}, {"sum": 2}, {"other": 2})]
    for change in ({"id": "Sums"}, *faults, {"run": lambda scale, rng: []}):
        with pytest.raises(ValueError, match=r"sums|called"):
            replace(two, **change)


def test_a_fault_is_taken_out_again_after_a_crash():
    def crash_late(scale, rng):
        """It crashes late."""
        pattern.run(scale, rng)
        raise RuntimeError

    assert run_claim(replace(pattern, run=crash_late), inject=True).verdict is Verdict.BROKEN
    assert attention.attention_pattern(np.zeros(2)).tolist() == [0.5, 0.5]
    assert run_claim(pattern).verdict is Verdict.HOLDS


def test_a_fault_in_a_class_reaches_what_inherits_it():
    from sq import CSQ, ExactOracle, ParityFamily, SQOracle

    oracle = ExactOracle(CSQ(0.5), ParityFamily(dim=5, bits=1), 0)
    right = vars(SQOracle)["asked"]
    fault = Fault("sq.oracles:SQOracle.asked", lambda right: property(lambda self: 7), "always seven")
    with fault.injected():
        assert oracle.asked == 7
    assert oracle.asked == 0
    assert vars(SQOracle)["asked"] is right


def test_a_fault_outside_the_project_is_refused():
    for target in ("attention_pattern", "numpy:sum", "attention.layer", ":attention", ""):
        with pytest.raises(ValueError, match="module:name"):
            Fault(target, given(np.negative), "nothing")


def test_a_process_that_dies_breaks_its_claim_and_loses_no_other():
    def die(scale, rng, *, sum=2):
        """It dies."""
        os._exit(1)

    results = {one.id: one for one in run_claims([replace(crash, run=die), two, mean], jobs=2)}
    assert len(results) == 3
    assert results["sums/crash"].verdict is Verdict.BROKEN
    assert "Run it alone" in results["sums/crash"].reason


class TestRegistry:
    def test_every_group_has_claims_and_every_module_is_a_group(self):
        from pathlib import Path

        from paper_checks import claims

        assert {one.group for one in all_claims()} == {*GROUPS}
        modules = {path.stem for path in Path(claims.__path__[0]).glob("[a-z]*.py")}
        assert {name.replace("_", "-") for name in modules} == {*GROUPS}

    def test_names_groups_and_patterns_find_claims_and_a_misspelled_name_the_nearest(self):
        (one,) = find_claims(["layer/row-form"])
        assert one.id == "layer/row-form"
        assert find_claims(["layer"]) == find_claims(["layer/*"])
        assert find_claims([]) == all_claims()
        with pytest.raises(ValueError, match="nearest is 'layer/row-form'"):
            find_claims(["layer/row-from"])


class TestFolder:
    def test_results_are_kept_as_they_come_beside_those_of_other_runs(self, tmp_path):
        for one in run_claims([two, mean, crash], inject=True):
            keep_result(tmp_path, one)
            assert read_results(tmp_path)[one.id] == one
        write_pages(tmp_path, [two, mean])
        assert "The mean is 0." in (tmp_path / "sums.rst").read_text()

    def test_a_newer_failure_replaces_a_full_run_and_a_newer_success_does_not(self, tmp_path):
        full, quick = run_claim(two, scale=Scale.FULL), run_claim(two)
        for result in (full, quick):
            keep_result(tmp_path, result)
        assert read_results(tmp_path)["sums/two"] == full
        keep_result(tmp_path, msgspec.structs.replace(quick, verdict=Verdict.FAILS))
        assert read_results(tmp_path)["sums/two"].verdict is Verdict.FAILS

    def test_an_injected_error_that_was_seen_stays_seen(self, tmp_path):
        for inject in (True, False):
            keep_result(tmp_path, *run_claims([two], inject=inject))
        assert read_results(tmp_path)["sums/two"].injected is Verdict.FAILS

    def test_results_of_the_first_version_are_read(self, tmp_path):
        data = msgspec.to_builtins(run_claim(two))
        data["comparisons"] = [one | {"kind": "exact", "false_alarm": 0.0} for one in data["comparisons"]]
        (tmp_path / "claims.json").write_text(json.dumps({"version": 1, "results": [data]}))
        (comparison,) = read_results(tmp_path)["sums/two"].comparisons
        assert (comparison.measured, comparison.holds) == ("2", True)

    @pytest.mark.parametrize(
        "text", ["", "[]", '{"version": 7, "results": []}', '{"version": 1, "results": [{}]}']
    )
    def test_another_programs_file_is_refused(self, tmp_path, text):
        (tmp_path / "claims.json").write_text(text)
        with pytest.raises(FileFormatError, match="give another folder"):
            read_results(tmp_path)


INTERVAL = Interval(0.9, 1.0, 1.2, 0.999, "made up")


def test_equal_holds_exact_values_only_if_they_are_equal_and_refuses_other_numbers():
    pairs = [(3, 3), (np.int64(3), 3), (3.0, 3), (Fraction(1, 3), Fraction(2, 6)), (np.array([1, 2]), [1, 2])]
    for measured, expected in [*pairs, (True, True)]:
        comparison = equal("a number", measured, expected)
        assert (comparison.holds, comparison.false_alarm) == (True, 0)
    for measured, expected in [(3, 4), ((1, 2), [1, 3])]:
        assert not equal("a number", measured, expected).holds
    for value in (0.5, [1, 0.5], float("nan")):
        with pytest.raises(TypeError, match="compare it by close"):
            equal("a number", value, 1)


NAN, INF = float("nan"), float("inf")


@pytest.mark.parametrize(
    ("comparison", "holds"),
    [
        (close("x", 1.1, 1.0, absolute=0.05, relative=0.06), True),
        (close("x", 1.12, 1.0, absolute=0.05, relative=0.06), False),
        (at_most("x", 1.0, 1.0), True),
        (at_most("x", 1.0, 0.99), False),
        (at_least("x", 1.0, 1.0), True),
        (at_least("x", 1.0, 1.01), False),
        # what is not finite never holds
        *((close("x", bad, 1.0, absolute=1.0), False) for bad in (NAN, INF)),
        *((close("x", 1.0, bad, absolute=1.0), False) for bad in (NAN, INF)),
        (at_most("x", NAN, 1.0), False),
        (at_least("x", NAN, 1.0), False),
        # from 0.9 to 1.2
        (covers("x", INTERVAL, 0.9), True),
        (covers("x", INTERVAL, 0.89), False),
        (covers("x", INTERVAL, 0.89, margin=0.02), True),
        (may_be_at_most("x", INTERVAL, 0.95), True),
        (may_be_at_most("x", INTERVAL, 0.85), False),
        (surely_below("x", INTERVAL, 1.3), True),
        (surely_below("x", INTERVAL, 1.1), False),
        (surely_above("x", INTERVAL, 0.8), True),
        (surely_above("x", INTERVAL, 1.0), False),
    ],
)
def test_a_number_is_held_to_a_bound_with_it_and_an_interval_to_what_it_leaves_open(comparison, holds):
    assert comparison.holds is holds

"""Checks run: verdicts, kept words, and files that outlive an interruption."""

import json
from dataclasses import replace

import numpy as np
import pytest

import attention
from attention import FileFormatError
from paper_checks import (
    GROUPS,
    Basis,
    Fault,
    Kind,
    Scale,
    Verdict,
    all_checks,
    check,
    close,
    covers,
    equal,
    find_checks,
    given,
    result_from_json,
    run_check,
    run_checks,
)
from paper_checks.claims_folder import ClaimsFolder
from studies.intervals import mean_interval

WORDS = {"claim": "One and one is two.", "source": "a book", "basis": Basis.PROVED}


@check("sums/two", kind=Kind.EXACT, constants={"sum": 2}, wrong={"sum": 3}, **WORDS)
def two(claim, scale, rng):
    return [equal("one and one", 1 + 1, claim.sum)]


@check(
    "sums/mean",
    kind=Kind.STATISTICAL,
    constants={"mean": 0.0},
    wrong={"mean": 1.0},
    false_alarm=1e-3,
    **WORDS,
)
def mean(claim, scale, rng):
    return [covers("the mean", mean_interval(rng.normal(size=400), confidence=0.999), claim.mean)]


HALVED = Fault("attention.layer:attention_pattern", given(lambda logits: logits / 2), "half of the logits")


def reads_a_pattern(claim, scale, rng):
    odds = attention.attention_pattern(np.array([np.log(2.0), 0.0]))
    return [equal("twice as much weight", round(odds[0] / odds[1], 9) == claim.sum, True)]


@check("sums/crash", kind=Kind.EXACT, constants={"sum": 2}, wrong={"sum": 3}, **WORDS)
def crash(claim, scale, rng):
    raise RuntimeError("no sums today")


@check("sums/blind", kind=Kind.EXACT, constants={"sum": 2}, wrong={"sum": 3}, **WORDS)
def blind(claim, scale, rng):
    return [equal("two", 2, 2)]


@check(
    "sums/absent", kind=Kind.EXACT, constants={"sum": 2}, wrong={"sum": 3}, needs=("no_such_module",), **WORDS
)
def absent(claim, scale, rng):
    raise AssertionError


def test_a_check_holds_and_fails_on_its_injected_error():
    assert run_check(two).verdict is Verdict.HOLDS
    assert run_check(two, inject=True).verdict is Verdict.FAILS
    assert run_check(mean).verdict is Verdict.HOLDS
    assert run_check(mean, inject=True).verdict is Verdict.FAILS


def test_a_crash_is_a_verdict_and_loses_nothing():
    results = list(run_checks([crash, two]))
    assert [one.verdict for one in results] == [Verdict.BROKEN, Verdict.HOLDS]
    assert results[0].reason == "RuntimeError: no sums today"


def test_what_is_not_installed_is_skipped_with_its_reason():
    result = run_check(absent)
    assert (result.verdict, result.reason) == (Verdict.SKIPPED, "no_such_module is not installed")
    assert result.as_it_must


def test_a_check_that_does_not_see_its_injected_error_is_not_as_it_must():
    (result,) = run_checks([blind], inject=True)
    assert result.verdict is Verdict.HOLDS
    assert result.injected is Verdict.HOLDS
    assert not result.as_it_must


def test_several_processes_give_the_same_figures():
    checks = [two, mean]
    here = {one.id: one.comparisons for one in run_checks(checks)}
    there = {one.id: one.comparisons for one in run_checks(checks, jobs=2)}
    assert here == there
    assert run_check(mean, seed=4).comparisons != here["sums/mean"]


@pytest.mark.parametrize(
    ("one", "compared", "why"),
    [
        (two, [close("x", 1.0, 1.0, absolute=0.1)], "is numeric, the check says exact"),
        (two, [], "nothing was compared"),
        (mean, [covers("x", mean_interval([1.0, 2.0], confidence=0.9), 1.5)], "it states 0.001"),
        (mean, [equal("x", 1, 1)], "has no interval"),
    ],
    ids=["kind", "nothing", "alarm", "interval"],
)
def test_a_check_that_does_not_keep_its_word_is_refused(one, compared, why):
    assert why in run_check(replace(one, run=lambda claim, scale, rng: compared)).reason


@pytest.mark.parametrize(
    "change",
    [
        {"id": "Sums"},
        {"wrong": {}},
        {"wrong": {"sum": 2}},
        {"wrong": {"other": 2}},
        {"false_alarm": 0.1},
        {"kind": Kind.STATISTICAL},
    ],
)
def test_checks_that_could_not_fail_are_refused(change):
    with pytest.raises(ValueError, match=r"sums|called"):
        replace(two, **change)


def test_a_fault_in_the_library_is_there_while_the_check_runs_and_not_after():
    one = replace(two, run=reads_a_pattern, wrong=HALVED)
    assert run_check(one).verdict is Verdict.HOLDS
    assert run_check(one, inject=True).verdict is Verdict.FAILS
    assert run_check(one).verdict is Verdict.HOLDS


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_fault_reaches_other_processes(jobs):
    one = replace(two, id="sums/pattern", run=reads_a_pattern, wrong=HALVED)
    results = list(run_checks([one, two], inject=True, jobs=jobs))
    assert {(one.verdict, one.injected) for one in results} == {(Verdict.HOLDS, Verdict.FAILS)}


def test_a_fault_is_taken_out_again_after_a_crash():
    def crash_late(claim, scale, rng):
        reads_a_pattern(claim, scale, rng)
        raise RuntimeError

    assert run_check(replace(two, run=crash_late, wrong=HALVED), inject=True).verdict is Verdict.BROKEN
    assert attention.attention_pattern(np.zeros(2)).tolist() == [0.5, 0.5]
    assert run_check(replace(two, run=reads_a_pattern, wrong=HALVED)).verdict is Verdict.HOLDS


def test_a_fault_in_a_class_reaches_what_inherits_it():
    from sq import CSQ, ExactOracle, ParityFamily, SQOracle

    oracle = ExactOracle(CSQ(0.5), ParityFamily(dim=5, bits=1), 0)
    right = vars(SQOracle)["asked"]
    fault = Fault("sq.oracles:SQOracle.asked", lambda right: property(lambda self: 7), "always seven")
    with fault.injected():
        assert oracle.asked == 7
    assert oracle.asked == 0
    assert vars(SQOracle)["asked"] is right


@pytest.mark.parametrize("target", ["attention_pattern", "numpy:sum", "attention.layer", ":attention", ""])
def test_a_fault_outside_the_project_is_refused(target):
    with pytest.raises(ValueError, match="module:name"):
        Fault(target, given(np.negative), "nothing")


def test_results_survive_json():
    for result in run_checks([two, mean, crash, absent], inject=True):
        assert result_from_json(json.loads(json.dumps(result.to_json()))) == replace(
            result, seconds=round(result.seconds, 2)
        )


class TestRegistry:
    def test_there_are_forty_checks_or_more_and_every_group_has_some(self):
        checks = all_checks()
        assert len(checks) >= 40
        assert [group for group in GROUPS if not any(one.group == group for one in checks)] == []

    def test_names_groups_and_patterns_find_checks_and_a_misspelled_name_the_nearest(self):
        (one,) = find_checks(["layer/row-form"])
        assert one.id == "layer/row-form"
        assert find_checks(["layer"]) == find_checks(["layer/*"])
        assert find_checks([]) == all_checks()
        with pytest.raises(ValueError, match="nearest is 'layer/row-form'"):
            find_checks(["layer/row-from"])


class TestFolder:
    def test_results_are_kept_as_they_come_and_those_of_other_runs_stay(self, tmp_path):
        first, second = ClaimsFolder(tmp_path), ClaimsFolder(tmp_path)
        first.keep(run_check(two))
        second.keep(run_check(mean))
        assert set(ClaimsFolder(tmp_path).shown([two, mean])) == {"sums/two", "sums/mean"}
        second.write_pages([two, mean])
        assert (tmp_path / "index.rst").is_file()

    def test_a_newer_failure_is_not_hidden_by_an_older_full_run(self, tmp_path):
        folder = ClaimsFolder(tmp_path)
        folder.keep(run_check(two, scale=Scale.FULL))
        folder.keep(replace(run_check(two), verdict=Verdict.FAILS))
        assert folder.shown([two])["sums/two"].verdict is Verdict.FAILS
        folder.keep(run_check(two, scale=Scale.FULL))
        folder.keep(run_check(two))
        shown = folder.shown([two])["sums/two"]
        assert (shown.verdict, shown.scale) == (Verdict.HOLDS, Scale.FULL)

    def test_an_injected_error_that_was_seen_stays_seen(self, tmp_path):
        folder = ClaimsFolder(tmp_path)
        for inject in (True, False):
            folder.keep(*run_checks([two], inject=inject))
        assert folder.shown([two])["sums/two"].injected is Verdict.FAILS

    @pytest.mark.parametrize("text", ["", "[]", '{"version": 7}', '{"version": 1, "results": [{}]}'])
    def test_another_programs_file_is_refused(self, tmp_path, text):
        (tmp_path / "claims.json").write_text(text)
        with pytest.raises(FileFormatError, match="give another folder"):
            ClaimsFolder(tmp_path)


def test_a_process_that_dies_breaks_its_check_and_loses_no_other():
    def die(claim, scale, rng):
        import os

        os._exit(1)

    results = {one.id: one for one in run_checks([replace(crash, run=die), two, mean], jobs=2)}
    assert len(results) == 3
    assert results["sums/crash"].verdict is Verdict.BROKEN
    assert "Run it alone" in results["sums/crash"].reason

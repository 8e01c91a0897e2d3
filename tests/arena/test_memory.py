"""What comparisons that share a store take from one another, and what they compute again."""

from contextlib import contextmanager
from dataclasses import replace

import pytest

from arena import Cell, RunStore, compare, nice_target
from arena.execution import Job
from arena.memory import Memory
from arena.store import StoreError
from arena.students import PRESETS, STUDENTS
from upper import KnownPart

# what is kept does not depend on processes
HERE = {"isolated": False, "jobs": 1}
STUDENT, EFFORT = STUDENTS["known-part"], PRESETS["quick"]


@pytest.fixture(scope="module")
def target():
    return nice_target(heads=1, tokens=2, dim=4)


@pytest.fixture
def store(tmp_path):
    with RunStore(tmp_path / "runs.sqlite") as opened:
        yield opened


@pytest.fixture
def second(store):
    with RunStore(store.path) as opened:
        yield opened


def memory(store, target, *, timeout=None, seeds=1):
    jobs = [Job(target, STUDENT, seed) for seed in range(seeds)]
    return Memory(store, jobs, EFFORT, {"python": "3"}, timeout), jobs


def cell(job, status="done", **given):
    return Cell(*job.id, status, **given)


@pytest.mark.parametrize(("allowed", "computed"), [(4.0, False), (3.0, False), (5.0, True), (None, True)])
def test_who_allows_more_time_does_not_take_a_time_out_from_another(store, second, target, allowed, computed):
    hasty, jobs = memory(store, target, timeout=4.0)
    patient, _ = memory(second, target, timeout=allowed)
    assert list(hasty.claimed(jobs)) == jobs
    assert list(patient.claimed(jobs)) == []
    hasty.keep(cell(jobs[0], "timed out", message="Stopped after 4 seconds."))
    assert bool(patient.recall()) is not computed
    assert list(patient.claimed(jobs)) == (jobs if computed else [])
    if computed:
        patient.keep(cell(jobs[0], seconds=9.0))
        assert hasty.recall()[jobs[0].id].status == "done"


def test_a_retried_failure_is_retried_once(store, second, target):
    one, jobs = memory(store, target)
    list(one.claimed(jobs))
    one.keep(cell(jobs[0], "failed", message="first"))
    for each in (one, memory(second, target)[0]):
        each.disregard(everything=False, failed=True)
        assert each.recall() == {}
        assert list(each.claimed(jobs)) == jobs
        each.keep(cell(jobs[0], "failed", message="again"))
        assert each.recall()[jobs[0].id].message == "again"
        assert list(each.claimed(jobs)) == []


def test_what_is_disregarded_stays_until_its_successor_is_there(store, target):
    one, jobs = memory(store, target, seeds=2)
    for job in one.claimed(jobs):
        one.keep(cell(job, seconds=1.0))
    one.disregard(everything=True, failed=False)
    assert one.recall() == {}
    assert len(store.cells()) == 2
    first = next(one.claimed(jobs))
    one.keep(cell(first, seconds=2.0))
    assert set(one.recall()) == {first.id}
    assert sorted(stored.cell.seconds for stored in store.cells()) == [1.0, 2.0]


def test_a_time_out_does_not_take_the_place_of_a_fit(store, target):
    one, jobs = memory(store, target)
    list(one.claimed(jobs))
    one.keep(cell(jobs[0], seconds=1.0))
    one.disregard(everything=True, failed=False)
    assert list(one.claimed(jobs)) == jobs
    one.keep(cell(jobs[0], "timed out", message="Stopped after 1 second."))
    assert [stored.cell.status for stored in store.cells()] == ["done"]
    assert list(memory(store, target)[0].claimed(jobs)) == []


def test_claims_that_could_not_be_given_back_are_free_for_their_owner(store, target, monkeypatch):
    one, jobs = memory(store, target)
    assert list(one.claimed(jobs)) == jobs

    @contextmanager
    def full():
        raise StoreError("the disk is full")
        yield

    with monkeypatch.context() as patch:
        patch.setattr(store, "_writing", full)
        one.give_back()
    assert list(memory(store, target)[0].claimed(jobs)) == jobs


def test_one_content_under_two_names_is_computed_once(store, target):
    other = replace(target, record=replace(target.record, name="another name"))
    first = compare([target], KnownPart(), store=store, **HERE)
    again = compare([other], KnownPart(), store=store, **HERE)
    assert again.made["reused"] == 1
    assert again.cells == (replace(first.cells[0], target="another name"),)
    both = compare([target, other], KnownPart(), store=store, fresh=True, **HERE)
    assert both.cells[1] == replace(both.cells[0], target="another name")


def test_an_interruption_of_a_fresh_run_loses_nothing(store, target):
    compare([target], "known-part,linear", seeds=3, store=store, **HERE)
    before = {stored.key: stored.finished for stored in store.cells()}

    def stop(cell):
        raise KeyboardInterrupt

    cut = compare([target], "known-part,linear", seeds=3, store=store, fresh=True, on_cell=stop, **HERE)
    assert cut.made["interrupted"] == "by hand"
    assert len(cut.cells) < 6
    after = {stored.key: stored.finished for stored in store.cells()}
    assert set(after) == set(before)
    assert compare([target], "known-part,linear", seeds=3, store=store, **HERE).made["reused"] == 6

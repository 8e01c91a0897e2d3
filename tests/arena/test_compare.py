"""The main job: every learner on every target, the same bits whatever runs them."""

import dataclasses
import warnings
from dataclasses import dataclass
from importlib.util import find_spec

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from arena import Results, choose_students, compare, nice_target, parity_target
from arena.students import PRESETS, STUDENTS, DoesNotApplyError, Student
from upper import KnownPart

HAS_TORCH = find_spec("torch") is not None
SMALL = "newton,linear,known-part,elimination" + (",adam" if HAS_TORCH else "")


@pytest.fixture(scope="module", autouse=True)
def short_effort():
    """A preset of few steps: what is tested here is the bookkeeping, not the learning."""
    effort = dataclasses.replace(PRESETS["quick"], adam_steps=60, adam_steps_hard=60, newton_passes_hard=300)
    patch = pytest.MonkeyPatch()
    patch.setitem(PRESETS, "quick", effort)
    yield
    patch.undo()


@pytest.fixture(scope="module")
def targets():
    return [nice_target(heads=2, tokens=2, dim=8, seed=1), parity_target(heads=2, dim=10, seed=2)]


@pytest.fixture(scope="module")
def one_job(targets):
    return compare(targets, choose_students(SMALL), seeds=2, jobs=1)


def test_every_pair_has_a_cell_per_seed(one_job, targets):
    assert len(one_job.cells) == len(targets) * len(SMALL.split(",")) * 2
    assert not [cell for cell in one_job.cells if cell.status == "failed"]


def test_one_and_two_jobs_give_the_same_bits(one_job, targets):
    two_jobs = compare(targets, choose_students(SMALL), seeds=2, jobs=2)
    assert two_jobs.without_seconds().to_json() == one_job.without_seconds().to_json()


def test_the_record_comes_back_from_json(one_job):
    assert Results.from_json(one_job.to_json()) == one_job


def test_nice_is_learned_and_hard_is_not(one_job, targets):
    nice, hard = (target.name for target in targets)
    for cell in one_job.cell(nice, "newton"):
        assert cell.outcome == "EXACT"
        assert cell.unknown_part_error < 1e-12
        assert cell.theta_error < 1e-11
    for cell in one_job.cell(hard, "elimination"):
        assert cell.outcome == "EXACT"
        assert cell.unknown_part_error < 1e-12
    for cell in one_job.cell(hard, "known-part"):
        assert cell.unknown_part_error == 1.0
    for cell in one_job.cell(nice, "elimination"):
        assert cell.status == "not applicable"


def test_traces_end_at_the_final_error(one_job):
    for cell in one_job.cells:
        if cell.status == "done":
            assert cell.trace[-1].measures["unknown_part_error"] == cell.unknown_part_error
            assert cell.trace[-1].examples == cell.examples_used


@dataclass(frozen=True)
class _Failing(KnownPart):
    result: str = "raise"

    def fit(self, oracle, *, rng=None, truth=None, progress=None):
        if self.result == "raise":
            raise RuntimeError("the learner broke")
        fit = super().fit(oracle, rng=rng, truth=truth, progress=progress)
        return dataclasses.replace(fit, predict=lambda x: np.full_like(x, np.nan), trace=())


@pytest.mark.parametrize("result", ["raise", "nan"])
def test_a_broken_learner_loses_only_its_own_cell(targets, result):
    broken = Student("broken", "Broken", "None.", lambda target, effort: _Failing(result=result))
    results = compare(targets[:1], [broken, STUDENTS["known-part"]])
    (cell,), (other,) = (results.cell(targets[0].name, name) for name in ("broken", "known-part"))
    if result == "raise":
        assert (cell.status, cell.message) == ("failed", "RuntimeError: the learner broke")
    else:
        assert (cell.status, cell.unknown_part_error) == ("done", None)
    assert other.unknown_part_error == 1.0
    assert Results.from_json(results.to_json()) == results


def test_a_killed_worker_loses_only_what_it_had(targets):
    @dataclass(frozen=True)
    class Deadly(KnownPart):
        def fit(self, oracle, *, rng=None, truth=None, progress=None):
            import os
            import signal

            os.kill(os.getpid(), signal.SIGKILL)

    deadly = Student("deadly", "Deadly", "None.", lambda target, effort: Deadly())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # joblib's, about the worker
        results = compare(targets[:1], [STUDENTS["known-part"], deadly], jobs=2)
    (cell,) = results.cell(targets[0].name, "deadly")
    assert cell.status == "failed"
    assert "worker process was killed" in cell.message
    assert Results.from_json(results.to_json()) == results


def test_a_target_that_breaks_a_set_up_loses_only_its_own_cell(targets):
    def refuse(target, effort):
        raise ValueError("The instance does not say which heads realise it.")

    results = compare(targets[:1], [Student("picky", "Picky", "None.", refuse), STUDENTS["known-part"]])
    (cell,), (other,) = (results.cell(targets[0].name, name) for name in ("picky", "known-part"))
    assert (cell.status, other.status) == ("failed", "done")
    assert "which heads" in cell.message


def test_an_absent_extra_is_no_failure(targets, monkeypatch):
    monkeypatch.setattr("upper.adam.find_spec", lambda name: None)
    (cell,) = compare(targets[:1], [STUDENTS["adam"]]).cells
    assert cell.status == "not applicable"
    assert "attention-bounds[torch]" in cell.message


@dataclass(frozen=True)
class _Counting(KnownPart):
    threads: list = dataclasses.field(default_factory=list)

    def fit(self, oracle, *, rng=None, truth=None, progress=None):
        np.ones((64, 64)) @ np.ones((64, 64))
        self.threads.extend(pool["num_threads"] for pool in threadpool_info())
        return super().fit(oracle, rng=rng, truth=truth, progress=progress)


def test_every_cell_runs_under_one_thread(targets):
    learner = _Counting()
    student = Student("counting", "Counting", "None.", lambda target, effort: learner)
    with threadpool_limits(limits=2):
        compare(targets[:1], [student])
    assert set(learner.threads) == {1}


def test_an_interruption_keeps_the_cells_done(targets):
    seen = []

    def interrupt(cell):
        seen.append(cell)
        if len(seen) == 2:
            raise KeyboardInterrupt

    results = compare(targets, choose_students("linear,known-part"), on_cell=interrupt)
    assert results.made["interrupted"] is True
    assert sorted(results.cells, key=str) == sorted(seen, key=str)


def test_students_on_hard_targets_have_at_most_eight_heads():
    hard = parity_target(bits=9, construction="B", dim=12, seed=0)
    assert hard.layer.heads == 9
    assert STUDENTS["newton"].build(hard, PRESETS["full"]).m == 8
    nice = nice_target(heads=9, tokens=2, dim=4)
    assert STUDENTS["newton"].build(nice, PRESETS["full"]).m == 9
    with pytest.raises(DoesNotApplyError):
        STUDENTS["elimination"].build(nice, PRESETS["full"])


@pytest.mark.parametrize(
    ("names", "complaint"), [("newton,nobody", "'nobody' is no learner"), (" , ", "No learner")]
)
def test_unknown_learners_are_named(names, complaint):
    with pytest.raises(ValueError, match=complaint):
        choose_students(names)


def test_two_targets_of_one_name_are_refused(targets):
    with pytest.raises(ValueError, match="Two targets are named"):
        compare([targets[0], targets[0]], choose_students("known-part"))

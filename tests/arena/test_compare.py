"""The main job: every learner on every target, the same bits whatever runs them."""

import os
import signal
import sys
import time
from dataclasses import dataclass, replace

import cloudpickle
import numpy as np
import pytest
from lines import without_seconds

from arena import Results, compare, lwr_target, nice_target, parity_target
from arena.learner_table import LEARNERS, PRESETS, DoesNotApplyError, LearnerEntry
from arena.learners import choose_learners
from runs import Store, StoreError
from upper import KnownComponentBaseline

# learners of this file go to other processes as they are: those cannot import it
cloudpickle.register_pickle_by_value(sys.modules[__name__])
# for the bookkeeping, which is the same without processes of their own
HERE = {"isolated": False, "jobs": 1}
SMALL = "newton,linear,known-component,elimination"


@pytest.fixture(scope="module", autouse=True)
def short_effort():
    """A preset of few steps: what is tested here is the bookkeeping, not the learning."""
    budgets = replace(PRESETS["quick"], steps=(60, 60), passes=(20_000, 300))
    patch = pytest.MonkeyPatch()
    patch.setitem(PRESETS, "quick", budgets)
    yield
    patch.undo()


@pytest.fixture(scope="module")
def targets():
    return [nice_target(heads=2, tokens=2, dim=8, seed=1), parity_target(heads=2, dim=10, seed=2)]


@pytest.fixture(scope="module")
def one_job(targets):
    return compare(targets, choose_learners(SMALL), seeds=2, **HERE)


@pytest.mark.usefixtures("processes")
def test_one_process_and_two_give_the_same_bits(one_job, targets):
    two_jobs = compare(targets, choose_learners(SMALL), seeds=2, jobs=2)
    assert without_seconds(two_jobs).to_json() == without_seconds(one_job).to_json()


def test_nice_is_learned_and_hard_is_not(one_job, targets):
    nice, hard = (target.name for target in targets)
    for target, learner, errors in (
        (nice, "newton", (0, 1e-12)),
        (hard, "elimination", (0, 1e-12)),
        (hard, "known-component", (1, 1)),
    ):
        for cell in one_job.cell(target, learner):
            assert errors[0] <= cell.unknown_part_error <= errors[1]
            assert (cell.outcome == "EXACT") == (errors[0] == 0)
            # the trace ends at the final error
            assert (cell.trace[-1].error, cell.trace[-1].examples) == (
                cell.unknown_part_error,
                cell.examples_used,
            )
    assert [cell.status for cell in one_job.cell(nice, "elimination")] == ["does not apply"] * 2


class _Unprintable(Exception):
    def __str__(self):
        raise RuntimeError("not even this")


def _raises(error):
    raise error


# what a learner does in place of its work
_ENDS = {
    "SIGKILL": lambda: os.kill(os.getpid(), signal.SIGKILL),
    "KeyboardInterrupt": lambda: _raises(KeyboardInterrupt()),
    "never": lambda: time.sleep(1e6),
    "unprintable": lambda: _raises(_Unprintable()),
    "surrogate": lambda: _raises(ValueError("\ud800")),
    "long": lambda: _raises(ValueError("x" * 10**6)),
}


@dataclass(frozen=True)
class _Odd(KnownComponentBaseline):
    """Ends as it says, or returns what is no fit."""

    end: str = ""

    def fit(self, oracle, *, rng=None, truth=None, progress=None):
        _ENDS.get(self.end, lambda: None)()
        fit = super().fit(oracle, rng=rng, truth=truth, progress=progress)
        if self.end == "many":
            return replace(fit, examples_used="many")
        if self.end == "nan":
            return replace(fit, predict=lambda x: np.full_like(x, np.nan), trace=())
        return replace(fit, outcome=None)


@pytest.mark.usefixtures("processes")
def test_crashes_and_an_endless_learner_leave_the_others_intact(one_job, targets, tmp_path):
    ends = {"SIGKILL": "process ended", "never": "more than 2 s", "many": "examples_used"}
    odd = [
        LearnerEntry(end, end, "None.", lambda target, budgets, end=end: _Odd(end=end))
        for end in (*ends, "nan")
    ]
    options = {"seeds": 1, "jobs": 2, "timeout": 2.0, "store": tmp_path / "runs.sqlite"}
    results = compare(targets[:1], [*odd, "linear", "known-component"], **options)
    for end, words in ends.items():
        (cell,) = results.cell(targets[0].name, end)
        assert cell.status == ("timed out" if end == "never" else "failed")
        assert words in cell.message
    (cell,) = results.cell(targets[0].name, "nan")
    assert (cell.status, cell.unknown_part_error) == ("done", None)
    others = without_seconds(results.only(learners=["linear", "known-component"])).cells
    alone = without_seconds(one_job.only(targets[0].name, ["linear", "known-component"], seeds=0)).cells
    assert sorted(others, key=str) == sorted(alone, key=str)
    assert Results.from_json(results.to_json()) == results
    # failures are kept like the rest
    assert compare(targets[:1], [*odd, "linear", "known-component"], **options).cells == results.cells


def test_a_target_that_breaks_a_set_up_loses_only_its_own_cell(targets):
    def refuse(target, budgets):
        raise ValueError("The instance does not say which heads realise it.")

    results = compare(
        targets[:1], [LearnerEntry("picky", "Picky", "None.", refuse), LEARNERS["known-component"]], **HERE
    )
    (cell,), (other,) = (results.cell(targets[0].name, name) for name in ("picky", "known-component"))
    assert (cell.status, other.status) == ("failed", "done")
    assert "which heads" in cell.message


def test_where_a_learner_does_not_apply_that_is_the_reason_whatever_is_installed(monkeypatch):
    monkeypatch.setattr("lwe.attacks.reduction.importlib.util.find_spec", lambda name: None)
    monkeypatch.setattr("arena.comparison.find_spec", lambda name: None)
    targets = [
        nice_target(heads=1, tokens=2, dim=4),
        lwr_target(n=6, q=16, p=2, matrix="gadget"),
    ]
    results = compare(targets, ["known-component", "lattice"], isolated=False)
    verdicts = [results.summary(target.name, "lattice").verdict for target in targets]
    assert verdicts == ["does not apply", "not installed"]
    assert Results.from_json(results.to_json()) == results


def test_a_learner_beyond_words_takes_no_other_down(targets):
    strange = [_Odd(end=end) for end in ("unprintable", "surrogate", "long", "no outcome")]
    results = compare(targets[:1], [*strange, "known-component"], isolated=False)
    assert [cell.status for cell in results.cells] == ["failed"] * 4 + ["done"]
    messages = [cell.message for cell in results.cells]
    assert messages[0] == "_Unprintable, which cannot be printed"
    assert messages[1] == "ValueError: ?"
    assert len(messages[2]) < 3000


def test_cells_of_milliseconds_come_first_and_then_the_costliest(targets, log):
    costs = {"short": (2.0, 3.0), "quick": (0.0, 0.0), "long": (5.0, 4.0)}
    entries = [
        LearnerEntry(
            name,
            name,
            "None.",
            lambda target, budgets, name=name: _Logging(log=str(log), line=f"{name} {target.kind}"),
            costs=cost,
        )
        for name, cost in costs.items()
    ]
    results = compare(targets, entries, seeds=1, **HERE)
    assert lines(log) == [
        "quick nice",
        "quick parity",
        "long nice",
        "long parity",
        "short parity",
        "short nice",
    ]
    # the table has targets, learners and seeds as they were given
    given = [(learner, target.name) for target in targets for learner in costs]
    assert [(cell.learner, cell.target) for cell in results.cells] == given


def test_a_cell_that_is_stored_while_the_run_is_interrupted_is_in_the_table(targets, tmp_path, monkeypatch):
    put = Store.put

    def interrupted(store, key, value):
        put(store, key, value)
        raise KeyboardInterrupt

    monkeypatch.setattr(Store, "put", interrupted)
    results = compare(targets[:1], "linear", store=tmp_path / "runs.sqlite", isolated=False, seeds=2)
    assert len(results.cells) == 1
    assert results.made["reused"] == 0
    assert results.made["interrupted"] is True


def test_an_interruption_keeps_the_cells_done(targets):
    learners = ["linear", _Odd(end="KeyboardInterrupt")]
    results = compare(targets[:1], learners, seeds=1, **HERE)
    assert results.made["interrupted"] is True
    assert [cell.learner for cell in results.cells] == ["linear"]
    assert "1 of 2 fits" in results.interruption


def test_students_on_hard_targets_have_at_most_eight_heads():
    hard = parity_target(bits=9, construction="B", dim=12, seed=0)
    assert hard.layer.heads == 9
    assert LEARNERS["newton"].build(hard, PRESETS["full"]).heads == 8
    nice = nice_target(heads=9, tokens=2, dim=4)
    assert LEARNERS["newton"].build(nice, PRESETS["full"]).heads == 9
    with pytest.raises(DoesNotApplyError):
        LEARNERS["elimination"].build(nice, PRESETS["full"])


@dataclass(frozen=True)
class _Logging(KnownComponentBaseline):
    """Leaves a line in a file for each fit."""

    log: str = ""
    line: str = "fit"

    def fit(self, oracle, *, rng=None, truth=None, progress=None):
        with open(self.log, "a", encoding="utf-8") as file:
            file.write(f"{self.line}\n")
        return super().fit(oracle, rng=rng, truth=truth, progress=progress)


@pytest.fixture
def log(tmp_path):
    file = tmp_path / "log"
    file.touch()
    return file


def lines(log):
    return log.read_text(encoding="utf-8").splitlines()


def test_what_the_store_holds_is_not_computed_again(targets, log, tmp_path):
    learner, store = _Logging(log=str(log)), tmp_path / "runs.sqlite"
    first = compare(targets, [learner], seeds=2, store=store, **HERE)
    assert (first.made["reused"], len(lines(log))) == (0, 4)
    again = compare(targets, [learner], seeds=2, store=store, **HERE)
    assert (again.made["reused"], len(lines(log))) == (4, 4)
    assert again.cells == first.cells  # their seconds too
    more = compare(targets, [learner], seeds=3, store=store, **HERE)
    assert (more.made["reused"], len(lines(log))) == (4, 6)


def test_a_store_that_fails_ends_the_run_and_loses_nothing(targets, tmp_path, monkeypatch):
    store, put = Store(tmp_path / "runs.sqlite"), Store.put

    def full(self, key, value):
        if len(self.values()) == 3:
            raise StoreError("The disk is full.")
        put(self, key, value)

    with monkeypatch.context() as patched:
        patched.setattr(Store, "put", full)
        with pytest.warns(RuntimeWarning, match="disk is full"):
            cut = compare(targets, "linear,known-component", seeds=2, store=store, **HERE)
    assert "disk is full" in cut.made["interrupted"]
    assert len(cut.cells) == 3
    whole = compare(targets, "linear,known-component", seeds=2, store=store, **HERE)
    assert whole.made["reused"] == 3
    assert without_seconds(whole) == without_seconds(
        compare(targets, "linear,known-component", seeds=2, **HERE)
    )

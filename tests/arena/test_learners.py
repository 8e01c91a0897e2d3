"""Entries for what a caller gives: names, learners that are set up, entries."""

from dataclasses import replace

import pytest

from arena import LEARNERS, PRESETS, LearnerEntry, compare, lwr_target, nice_target, parity_target
from arena.comparison import run_cell
from arena.learners import as_learners, choose_learners
from upper import KnownComponentBaseline, Newton

BASELINES = ["sgd", "muon", "soap", "l-bfgs", "one-step", "linear-attention"]


def test_all_but_the_baselines_by_default():
    assert as_learners() == as_learners(None) == choose_learners()
    assert [name for name in LEARNERS if LEARNERS[name] not in as_learners()] == [
        "bkw",
        *BASELINES,
        "block",
        "rotary",
    ]
    assert choose_learners("all") == choose_learners("newton, all") == list(LEARNERS.values())


@pytest.mark.parametrize("name", BASELINES)
def test_baselines_run_by_name(name):
    if LEARNERS[name].extra:
        pytest.importorskip(LEARNERS[name].extra, reason=f"{LEARNERS[name].extra} is not installed")
    few = replace(PRESETS["quick"], steps=(60, 60), passes=(20_000, 300))
    for target in (nice_target(heads=1, tokens=2, dim=4, seed=1), parity_target(heads=2, dim=8)):
        cell = run_cell(target, LEARNERS[name], 0, few)
        assert cell.status == "done", cell.message
        assert cell.engine.startswith("torch") == bool(LEARNERS[name].extra)
        if name == "l-bfgs" and target.instance is None:
            assert cell.unknown_part_error < 1e-9


@pytest.mark.parametrize(
    ("given", "names"),
    [
        ("newton", ["newton"]),
        ("newton,adam", ["newton", "adam"]),
        (" adam , newton,, adam ", ["adam", "newton"]),
        (["newton", "adam"], ["newton", "adam"]),
        (("newton,linear", "adam"), ["newton", "linear", "adam"]),
    ],
)
def test_names(given, names):
    entries = as_learners(given)
    assert entries == [LEARNERS[name] for name in names]


@pytest.mark.bad_input
@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ("nobody", "^'nobody' is no learner: choose among newton, adam"),
        (" , ", "^No learner is named"),
        ([], "^No learner is given: name some of newton, adam"),
        (Newton, "is no learner: a name, or an object with a fit"),
        ([3], "^3 is no learner"),
    ],
    ids=repr,
)
def test_what_is_no_learner_is_a_sentence(given, complaint):
    with pytest.raises(ValueError, match=complaint):
        as_learners(given)


@pytest.mark.parametrize(
    "given",
    [["known-component", "known-component"], [LEARNERS["known-component"], "linear,known-component"]],
    ids=["names", "entry"],
)
def test_two_of_one_name_are_found_before_the_work(given, tmp_path):
    with pytest.raises(ValueError, match=r"^Two learners are named 'known-component'"):
        compare(
            [nice_target(heads=1, tokens=2, dim=4)], given, store=tmp_path / "runs.sqlite", isolated=False
        )
    assert not (tmp_path / "runs.sqlite").exists()


@pytest.mark.bad_input
@pytest.mark.parametrize(
    "returned", [None, KnownComponentBaseline, 3, object()], ids=["none", "a-class", "a-number", "an-object"]
)
def test_a_build_function_that_returns_no_learner_is_a_sentence(returned):
    entry = LearnerEntry("mine", "Mine", "None.", lambda target, budgets: returned)
    with pytest.raises(ValueError, match=r"^The build function of 'mine' returned .*: a learner is needed"):
        compare([nice_target(heads=1, tokens=2, dim=4)], [entry], isolated=False)


@pytest.mark.parametrize("name", ["linearisation", "bkw", pytest.param("lattice", marks=pytest.mark.slow)])
def test_attacks_stand_beside_learners_on_rounding_and_on_nothing_else(name):
    if LEARNERS[name].extra:
        pytest.importorskip(LEARNERS[name].extra, reason=f"{LEARNERS[name].extra} is not installed")
    gadget = lwr_target(n=6, q=16, p=2, matrix="gadget")
    found = compare([gadget, nice_target(heads=1, tokens=2, dim=4)], [name], isolated=False)
    solved, refused = found.cells
    assert solved.unknown_part_error <= 1e-9
    assert refused.unknown_part_error is None
    assert refused.status == "does not apply"

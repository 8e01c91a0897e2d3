"""Students of what a caller gives: names, learners that are set up, students."""

from dataclasses import dataclass, replace

import pytest

from arena import PRESETS, STUDENTS, Student, compare, lwr_target, nice_target, parity_target, run_cell
from arena.students import as_students, choose_students
from upper import KnownPart, LinearBaseline, Newton


def _names(learners):
    return [student.name for student in as_students(learners)]


BASELINES = [
    "tuned-adam",
    "sgd",
    "muon",
    "soap",
    "l-bfgs",
    "frozen-attention",
    "one-step",
    "linear-attention",
]


def test_all_but_the_baselines_by_default():
    assert as_students() == as_students(None) == choose_students()
    assert [name for name in STUDENTS if STUDENTS[name] not in as_students()] == BASELINES
    assert choose_students("all") == choose_students("newton, all") == list(STUDENTS.values())


@pytest.mark.parametrize("name", BASELINES)
def test_baselines_run_by_name(name):
    if STUDENTS[name].extra:
        pytest.importorskip(STUDENTS[name].extra, reason=f"{STUDENTS[name].extra} is not installed")
    few = replace(PRESETS["quick"], adam_steps=60, adam_steps_hard=60, newton_passes_hard=300)
    for target in (nice_target(heads=1, tokens=2, dim=4, seed=1), parity_target(heads=2, dim=8)):
        cell = run_cell(target, STUDENTS[name], 0, few)
        assert cell.status == "done", cell.message
        assert cell.engine.split()[0] == (STUDENTS[name].extra or "numpy")
        if name == "l-bfgs" and target.record.hardness is None:
            assert cell.unknown_part_error < 1e-9


def test_the_tuned_adam_has_the_steps_for_all_its_settings():
    for effort in PRESETS.values():
        for target in (nice_target(heads=1, tokens=2, dim=4), parity_target(heads=2, dim=8)):
            tuned = STUDENTS["tuned-adam"].build(target, effort)
            assert tuned.work == sum(setting.work for setting in tuned.settings())
            longest = effort.adam_steps_hard if target.record.hardness is not None else effort.adam_steps
            assert max(setting.work for setting in tuned.settings()) == longest


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
    students = as_students(given)
    assert students == [STUDENTS[name] for name in names]


def test_learners_of_one_kind_are_numbered():
    given = [Newton(m=2), Newton(m=3), KnownPart(), Newton(m=2)]
    assert _names(given) == ["newton", "newton-2", "knownpart", "newton-3"]
    assert [student.title for student in as_students(given)] == [
        "Newton",
        "Newton 2",
        "KnownPart",
        "Newton 3",
    ]


def test_a_learner_does_not_take_a_name_that_is_taken():
    own = Student("newton", "Mine", "None.", lambda target, effort: Newton(m=1))
    assert _names(["newton", Newton(m=2)]) == ["newton", "newton-2"]
    assert _names([own, Newton(m=2), LinearBaseline(), "linear"]) == [
        "newton",
        "newton-2",
        "linearbaseline",
        "linear",
    ]


def test_a_learner_is_the_same_for_every_target_and_effort():
    learner = Newton(m=2, starts=3)
    (student,) = as_students([learner])
    for dim in (4, 5):
        for effort in PRESETS.values():
            assert student.build(nice_target(heads=1, tokens=2, dim=dim), effort) is learner
    assert student.record([learner, learner]).parameters["starts"] == 3


def test_a_guarantee_is_said_to_be_the_callers():
    @dataclass(frozen=True)
    class Own(KnownPart):
        """Guesses
        well.

        More words.
        """

    (student,) = as_students([Own()])
    assert student.guarantee == "Set up by the caller. Guesses well."
    assert (student.name, student.title) == ("own", "Own")


@pytest.mark.bad_input
@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ("nobody", "^'nobody' is no learner: choose among newton, adam"),
        (["newton", "nobody"], "^'nobody' is no learner"),
        ("", "^No learner is named"),
        (" , ", "^No learner is named"),
        ([], "^No learner is given: name some of newton, adam"),
        ((), "^No learner is given"),
        (Newton, "is no learner: a name, or an object with a fit"),
        ([Newton], "is no learner: a name, or an object with a fit"),
        ([3], "^3 is no learner"),
        (3, "^3 is no learner"),
        ([None], "^None is no learner"),
        ([["newton"]], r"^\['newton'\] is no learner"),
    ],
    ids=repr,
)
def test_what_is_no_learner_is_a_sentence(given, complaint):
    with pytest.raises(ValueError, match=complaint):
        as_students(given)


@pytest.mark.parametrize(
    "given",
    [["known-part", "known-part"], [STUDENTS["known-part"], "linear,known-part"]],
    ids=["names", "student"],
)
def test_two_of_one_name_are_found_before_the_work(given):
    seen = []
    with pytest.raises(ValueError, match=r"^Two learners are named 'known-part'"):
        compare([nice_target(heads=1, tokens=2, dim=4)], given, isolated=False, on_cell=seen.append)
    assert not seen


@pytest.mark.bad_input
def test_a_learner_that_is_no_dataclass_is_a_sentence():
    class Plain:
        def fit(self, oracle, *, rng=None, truth=None, progress=None):
            raise NotImplementedError

    for given in (Plain(), [Plain()]):
        with pytest.raises(ValueError, match=r"^A Plain is no dataclass: a learner is a frozen"):
            as_students(given)


@pytest.mark.bad_input
@pytest.mark.parametrize(
    "returned", [None, KnownPart, 3, object()], ids=["none", "a-class", "a-number", "an-object"]
)
def test_a_build_function_that_returns_no_learner_is_a_sentence(returned):
    student = Student("mine", "Mine", "None.", lambda target, effort: returned)
    with pytest.raises(ValueError, match=r"^The build function of 'mine' returned .*: a learner is needed"):
        compare([nice_target(heads=1, tokens=2, dim=4)], [student], isolated=False)


def test_the_six_phase_learners_spare_the_effort_on_hard_targets_only():
    nice, hard = nice_target(heads=3, tokens=2, dim=8), parity_target(heads=2, dim=8)
    quick, full = PRESETS["quick"], PRESETS["full"]
    built = {
        (name, target.record.hardness is not None, effort.seeds): STUDENTS[name].build(target, effort)
        for name in ("six-phase", "six-phase-paper")
        for target in (nice, hard)
        for effort in (quick, full)
    }
    assert {learner.mode for (name, *_), learner in built.items() if name == "six-phase"} == {"practical"}
    assert {learner.mode for (name, *_), learner in built.items() if name != "six-phase"} == {"paper"}
    assert {learner.accept for (_, hard, seeds), learner in built.items() if hard and seeds == 1} == {0.05}
    assert {learner.accept for (_, hard, seeds), learner in built.items() if not hard or seeds > 1} == {None}
    assert {learner.m for (_, hard, _), learner in built.items() if not hard} == {3}
    assert built["six-phase", True, 1].work == quick.newton_passes_hard
    assert built["six-phase-paper", False, 1].work == quick.six_phase_tuples
    assert built["six-phase-paper", False, 3].work is None


@pytest.mark.parametrize("name", ["linearisation", pytest.param("lattice", marks=pytest.mark.slow)])
def test_attacks_stand_beside_learners_on_rounding_and_on_nothing_else(name):
    if STUDENTS[name].extra:
        pytest.importorskip(STUDENTS[name].extra, reason=f"{STUDENTS[name].extra} is not installed")
    gadget = lwr_target(secret_dim=6, modulus=16, levels=2, matrix="gadget")
    found = compare([gadget, nice_target(heads=1, tokens=2, dim=4)], [name], isolated=False)
    solved, refused = found.cells
    assert solved.unknown_part_error <= 1e-9
    assert refused.unknown_part_error is None
    assert refused.status == "does not apply"

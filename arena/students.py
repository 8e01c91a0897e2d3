"""Students of a comparison: named learners, what each guarantees, and how each is set up for a target."""

import dataclasses
import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import count
from typing import Any

from arena.results import LearnerRecord
from arena.targets import Target
from attention import Learner
from lwe import Attack, AttackLearner, LatticeAttack, LinearisationAttack, describe_instance
from sq import ParityElimination
from upper import Adam, KnownPart, LinearBaseline, Newton
from upper.six_phase import SixPhase

__all__ = [
    "PRESETS",
    "STUDENTS",
    "DoesNotApplyError",
    "Effort",
    "Student",
    "as_students",
    "choose_effort",
    "choose_students",
    "set_up_for",
]

_MOST_HEADS_ON_HARD_TARGETS = 8
_LATTICE = partial(LatticeAttack, largest_block=40, rounds=3)  # some twenty seconds at most at n = 24


class DoesNotApplyError(ValueError):
    """A specialised learner was asked for on a target it is not for."""


@dataclass(frozen=True)
class Effort:
    """How hard the students try, in steps and passes, so that results do not depend on the machine.

    Attributes
    ----------
    adam_steps, adam_steps_hard : int
        Steps of Adam on nice and on hard targets.
    adam_tolerance : float
        The error at which Adam stops.
    newton_passes, newton_passes_hard : int
        Passes over the data for Newton on nice and on hard targets.
    seeds : int
        How many seeds unless the caller says.
    six_phase_accept, six_phase_accept_hard : float or None
        The share of rows the six-phase learners certify on nice and on hard targets: they look at so many the more rows
        the smaller it is. None as the learner has it.
    six_phase_tuples : int or None
        Tuples of the net in paper mode; None as the learner has it.
    """

    adam_steps: int
    adam_steps_hard: int
    adam_tolerance: float
    newton_passes: int
    newton_passes_hard: int
    seeds: int
    six_phase_accept: float | None = None
    six_phase_accept_hard: float | None = None
    six_phase_tuples: int | None = None


PRESETS: Mapping[str, Effort] = {
    "quick": Effort(
        adam_steps=1500,
        adam_steps_hard=4000,
        adam_tolerance=1e-4,
        newton_passes=20_000,
        newton_passes_hard=3000,
        seeds=1,
        six_phase_accept_hard=0.05,
        six_phase_tuples=50_000,
    ),
    "full": Effort(
        adam_steps=8000,
        adam_steps_hard=12_000,
        adam_tolerance=0.0,
        newton_passes=50_000,
        newton_passes_hard=20_000,
        seeds=3,
    ),
}
"""Effort by name: quick shows the picture within a minute or two, full lets Adam reach its floor."""


@dataclass(frozen=True)
class Student:
    """A learner by name.

    Attributes
    ----------
    name, title : str
        What the command line calls it, and what the page does.
    guarantee : str
        What is promised, and by whom.
    build : callable
        Sets the learner up for a target with an effort; raises `DoesNotApplyError` where it is not for the target.
    proper : bool
        Whether its fit is an attention layer, which can be saved.
    extra : str
        The optional dependency it needs, if any.
    """

    name: str
    title: str
    guarantee: str
    build: Callable[[Target, Effort], Learner]
    proper: bool = True
    extra: str = ""

    def record(self, learners: Sequence[Learner]) -> LearnerRecord:
        """What the results remember: the parameters all its set-ups share, and the range of the others."""
        values: dict[str, list[Any]] = {}
        for learner in learners:
            for field in dataclasses.fields(learner):  # type: ignore[arg-type]
                value = getattr(learner, field.name)
                if value is None or isinstance(value, bool | int | float | str):
                    values.setdefault(field.name, []).append(value)
        parameters = {
            name: seen[0]
            if all(one == seen[0] for one in seen)
            else ", ".join(map(str, seen)) + " (target by target)"
            for name, seen in values.items()
        }
        return LearnerRecord(self.name, self.title, self.guarantee, parameters)


def choose_effort(preset: str) -> Effort:
    """The effort of a preset.

    Raises
    ------
    ValueError
        If the preset is not known.
    """
    if preset not in PRESETS:
        raise ValueError(f"The preset is {preset!r}: {' or '.join(PRESETS)} is needed.")
    return PRESETS[preset]


def choose_students(names: str | None = None) -> list[Student]:
    """The students in a comma-separated list of names; all of them if None.

    Raises
    ------
    ValueError
        If a name is not known, or none is given.
    """
    if names is None:
        return list(STUDENTS.values())
    wanted = list(dict.fromkeys(part.strip() for part in names.split(",") if part.strip()))
    unknown = [name for name in wanted if name not in STUDENTS]
    if unknown or not wanted:
        given = f"{unknown[0]!r} is no learner" if unknown else "No learner is named"
        raise ValueError(f"{given}: choose among {', '.join(STUDENTS)}.")
    return [STUDENTS[name] for name in wanted]


def as_students(
    learners: "Sequence[Student | Learner | str] | Student | Learner | str | None" = None,
) -> list[Student]:
    """Students of what a caller gives: names, learners that are set up, students; all of `STUDENTS` if None.

    Raises
    ------
    ValueError
        If a name is not known, nothing is given, or something is no learner.

    Examples
    --------
    >>> from upper import KnownPart, Newton
    >>> [student.name for student in as_students([Newton(m=2), Newton(m=3), "adam", KnownPart()])]
    ['newton', 'newton-2', 'adam', 'knownpart']
    """
    if learners is None or isinstance(learners, str):
        return choose_students(learners)
    one = isinstance(learners, Student) or hasattr(learners, "fit") or not isinstance(learners, Iterable)
    given: list[Any] = [learners] if one else list(learners)  # type: ignore[arg-type]
    given = [each for item in given for each in (choose_students(item) if isinstance(item, str) else [item])]
    taken = {item.name for item in given if isinstance(item, Student)}  # who has a name keeps it
    students: list[Student] = []
    for item in given:
        students.append(item if isinstance(item, Student) else _student_of(item, taken=taken))
        taken.add(students[-1].name)
    if not students:
        raise ValueError(f"No learner is given: name some of {', '.join(STUDENTS)}, or give learners.")
    return students


def set_up_for(student: Student, targets: Iterable[Target], effort: Effort) -> list[Learner]:
    """The student set up for each target that it can be set up for; of the others, the cell says why."""
    learners = []
    for target in targets:
        try:
            learners.append(student.build(target, effort))
        except Exception:  # a caller's own may raise anything
            continue
    return learners


def _student_of(learner: Learner, *, taken: set[str]) -> Student:
    """A learner that the caller has set up, the same for every target."""
    kind = type(learner)
    if isinstance(learner, type) or not callable(getattr(learner, "fit", None)):
        raise ValueError(
            f"{learner!r:.80} is no learner: a name, or an object with a fit as attention.Learner says, is needed."
        )
    if not dataclasses.is_dataclass(learner):
        raise ValueError(
            f"A {kind.__name__} is no dataclass: a learner is a frozen dataclass of its parameters."
        )
    number = next(n for n in count(1) if _numbered(kind.__name__.lower(), n, "-") not in taken)
    said = inspect.cleandoc(kind.__doc__ or "").split("\n\n")[0].replace("\n", " ")
    return Student(
        name=_numbered(kind.__name__.lower(), number, "-"),
        title=_numbered(kind.__name__, number, " "),
        guarantee=f"Set up by the caller. {said}".strip(),
        build=_Always(learner),
        extra="torch" if isinstance(learner, Adam) else "",
    )


def _numbered(name: str, number: int, mark: str) -> str:
    return name if number == 1 else f"{name}{mark}{number}"


@dataclass(frozen=True)
class _Always:
    """The same learner whatever the target."""

    learner: Learner

    def __call__(self, target: Target, effort: Effort) -> Learner:
        return self.learner


def _heads(target: Target) -> int:
    # on hard targets a student of as many heads as the target would only be slower
    return min(target.layer.heads, _MOST_HEADS_ON_HARD_TARGETS) if target.record.hard else target.layer.heads


def _newton(target: Target, effort: Effort) -> Learner:
    work = effort.newton_passes_hard if target.record.hard else effort.newton_passes
    return Newton(m=_heads(target), work=work)


def _adam(target: Target, effort: Effort) -> Learner:
    work = effort.adam_steps_hard if target.record.hard else effort.adam_steps
    return Adam(m=_heads(target), work=work, tolerance=effort.adam_tolerance)


def _six_phase(target: Target, effort: Effort) -> Learner:
    work = effort.newton_passes_hard if target.record.hard else effort.newton_passes
    return SixPhase(m=_heads(target), accept=_accept(target, effort), work=work)


def _six_phase_paper(target: Target, effort: Effort) -> Learner:
    return SixPhase(
        m=_heads(target), mode="paper", accept=_accept(target, effort), work=effort.six_phase_tuples
    )


def _accept(target: Target, effort: Effort) -> float | None:
    return effort.six_phase_accept_hard if target.record.hard else effort.six_phase_accept


def _linear(target: Target, effort: Effort) -> Learner:
    return LinearBaseline()


def _known_part(target: Target, effort: Effort) -> Learner:
    return KnownPart(None if target.instance is None else target.instance.known)


def _elimination(target: Target, effort: Effort) -> Learner:
    if target.instance is None or target.record.kind != "parity":
        raise DoesNotApplyError(
            "Gaussian elimination is an attack on hidden parities only: of two tokens, behind a gate that is known."
        )
    return ParityElimination.for_instance(target.instance)


def _attack(make: Callable[[], Attack], target: Target, effort: Effort) -> Learner:
    if target.instance is None or target.instance.family != "lwr":
        raise DoesNotApplyError("This is an attack on learning with rounding only.")
    return AttackLearner(make(), describe_instance(target.instance).parameters)


STUDENTS: Mapping[str, Student] = {
    student.name: student
    for student in (
        Student(
            "newton",
            "Newton",
            "No theorem. Measured: on nice random layers one random start at four times the counting floor of "
            "examples "
            "ends at rounding error.",
            _newton,
        ),
        Student(
            "adam",
            "Adam",
            "No theorem. Measured: it solves nice layers too, with hundreds of times the examples, and float32 stops "
            "it near 2e-7.",
            _adam,
            extra="torch",
        ),
        Student(
            "six-phase",
            "Six-phase",
            "Phases 1 to 5 after Chen and Li, with improvements derived here, and Newton at the end: no theorem "
            "for the "
            "whole. Measured: it ends at rounding error on nice layers of up to four heads.",
            _six_phase,
        ),
        Student(
            "six-phase-paper",
            "Six-phase (paper)",
            "Proved by Chen and Li under non-degeneracy conditions: time (dk)^O(m^3), squared error "
            "(kd)^-Omega(m), for "
            "constants of theirs. With ours it is measured only; a phase that cannot do its work says so.",
            _six_phase_paper,
        ),
        Student(
            "linear",
            "Linear baseline",
            "Exact least squares: no predictor linear in the token and the mean token does better on the examples.",
            _linear,
            proper=False,
        ),
        Student(
            "known-part",
            "Known part",
            "By definition at 1.0: it predicts what is known in advance and nothing else.",
            _known_part,
            proper=False,
        ),
        Student(
            "elimination",
            "Elimination",
            "Proved: noise-free hidden parities fall to Gaussian elimination over GF(2) from about 2 (d + 9) "
            "examples, "
            "with probability above .998. It is no statistical-query algorithm and knows the family.",
            _elimination,
        ),
        Student(
            "linearisation",
            "Linearisation",
            "Proved for q and p powers of two: the lowest bit of a rounded label is a polynomial of degree q/p over "
            "GF(2), and falls to elimination once there are as many examples as monomials. It knows the family.",
            partial(_attack, LinearisationAttack),
        ),
        Student(
            "lattice",
            "Lattice",
            "No theorem. Measured: LLL and BKZ find secrets of moderate size where rounding is fine. It knows the "
            "family; that it fails is no claim of security.",
            partial(_attack, _LATTICE),
            extra="fpylll",
        ),
    )
}
"""Every student by name, in the order of the table."""

"""Students of a comparison: choose them by name or take the caller's own, and set them up for targets."""

import dataclasses
import inspect
from collections.abc import Iterable, Sequence
from itertools import count
from typing import Any

import upper
from arena.names import find_name
from arena.own_files import object_of_file
from arena.student_table import PRESETS, STUDENTS, DoesNotApplyError, Effort, Student, choose_effort
from arena.targets import Target
from attention import Learner
from attention.validation import require_instance

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
    "student_of_file",
]


def choose_students(names: str | None = None) -> list[Student]:
    """The students in a comma-separated list of names, in upper or lower case; the default students if None.

    "all" names every student, and FILE.py:CLASS the caller's own learner.

    Raises
    ------
    ValueError
        If a name is not known, or none is given.

    Examples
    --------
    >>> [student.title for student in choose_students("Newton, l-bfgs")]
    ['Newton', 'L-BFGS']
    """
    if names is not None:
        require_instance("names", names, str, needed="a text with commas")
    if names is None:
        return [student for student in STUDENTS.values() if student.by_default]
    chosen: dict[str, Student] = {}
    for part in [part.strip() for part in names.split(",") if part.strip()] or [""]:
        if ".py:" in part:
            chosen[part] = student_of_file(part)
        elif part.casefold() == "all":
            chosen |= STUDENTS
        else:
            name = find_name(part, STUDENTS, "learner", other=", all, or FILE.py:CLASS for your own")
            chosen[name] = STUDENTS[name]
    return list(chosen.values())


def student_of_file(place: str) -> Student:
    """The caller's own learner in FILE.py:CLASS, a frozen dataclass; a field `heads` gets the target's number of heads.

    Raises
    ------
    ValueError
        If the file or the class is missing, the file does not run, or the class is not a learner.
    """
    kind, (path, _, name) = object_of_file(place, "a learner of your own"), place.rpartition(":")
    if not (
        isinstance(kind, type) and dataclasses.is_dataclass(kind) and callable(getattr(kind, "fit", None))
    ):
        raise ValueError(
            f"{path} has no learner {name!r}: a frozen dataclass with a fit as attention.Learner says is needed."
        )
    make: Any = kind
    has_heads = any(field.name == "heads" for field in dataclasses.fields(kind))
    build = (
        (lambda target, effort: make(heads=target.layer.heads))
        if has_heads
        else lambda target, effort: make()
    )
    return Student(name.lower(), name, _own_guarantee(kind), build)


def as_students(
    learners: "Sequence[Student | Learner | str] | Student | Learner | str | None" = None,
) -> list[Student]:
    """Convert names of learners, learners and students to students; None gives the default students.

    Raises
    ------
    ValueError
        If a name is not known, nothing is given, or an item is not a learner.

    Examples
    --------
    >>> from upper import KnownPart, Newton
    >>> [student.name for student in as_students([Newton(heads=2), Newton(heads=3), "adam", KnownPart()])]
    ['newton', 'newton-2', 'adam', 'knownpart']
    """
    if learners is None or isinstance(learners, str):
        return choose_students(learners)
    one = (
        isinstance(learners, Student)
        or hasattr(learners, "fit")
        or not getattr(learners, "ndim", 1)
        or not isinstance(learners, Iterable)
    )
    given: list[Any] = [learners] if one else list(learners)  # type: ignore[arg-type]
    given = [each for item in given for each in (choose_students(item) if isinstance(item, str) else [item])]
    taken = {item.name for item in given if isinstance(item, Student)}  # students keep their names
    students: list[Student] = []
    for item in given:
        students.append(item if isinstance(item, Student) else _student_of(item, taken=taken))
        taken.add(students[-1].name)
    if not students:
        raise ValueError(f"No learner is given: name some of {', '.join(STUDENTS)}, or give learners.")
    return students


def set_up_for(student: Student, targets: Iterable[Target], effort: Effort) -> list[Learner]:
    """The student set up for each target to which it applies; for other targets, the cell says why not.

    Raises
    ------
    ValueError
        If its build function returns something that is not a learner.
    """
    learners: list[Learner] = []
    for target in targets:
        try:
            learner = student.build(target, effort)
        except (Exception, GeneratorExit, SystemExit):  # a caller's own build function may raise anything
            continue
        if not _is_learner(learner) or not dataclasses.is_dataclass(learner):
            raise ValueError(
                f"The build function of {student.name!r} returned {learner!r:.80} for {target.name!r}: a learner is "
                "needed, a frozen dataclass with a fit as attention.Learner says."
            )
        learners.append(learner)
    return learners


def _student_of(learner: Learner, *, taken: set[str]) -> Student:
    """A student for a learner that the caller has set up, the same for every target."""
    kind = type(learner)
    if not _is_learner(learner):
        raise ValueError(
            f"{learner!r:.80} is no learner: a name, or an object with a fit as attention.Learner says, is needed."
        )
    if not dataclasses.is_dataclass(learner):
        raise ValueError(
            f"A {kind.__name__} is no dataclass: a learner is a frozen dataclass of its parameters."
        )
    number = next(n for n in count(1) if _numbered(kind.__name__.lower(), n, "-") not in taken)
    return Student(
        name=_numbered(kind.__name__.lower(), number, "-"),
        title=_numbered(kind.__name__, number, " "),
        guarantee=_own_guarantee(kind),
        build=lambda target, effort: learner,
        extra="torch" if isinstance(learner, upper.GradientDescent) else "",
    )


def _own_guarantee(kind: type) -> str:
    said = inspect.cleandoc(kind.__doc__ or "").split("\n\n")[0].replace("\n", " ")
    return f"Set up by the caller. {said}".strip()


def _is_learner(given: Any) -> bool:
    return not isinstance(given, type) and callable(getattr(given, "fit", None))


def _numbered(name: str, number: int, mark: str) -> str:
    return name if number == 1 else f"{name}{mark}{number}"

"""The learners of a comparison: choose them by name or take the caller's own, and set them up for targets."""

import dataclasses
import inspect
from collections.abc import Iterable, Sequence
from itertools import count
from typing import Any

import upper
from arena.learner_table import LEARNERS, PRESETS, Budgets, DoesNotApplyError, LearnerEntry, choose_budgets
from arena.names import find_name
from arena.own_files import object_of_file
from arena.targets import Target
from attention import Learner
from attention.validation import require_instance

__all__ = [
    "LEARNERS",
    "PRESETS",
    "Budgets",
    "DoesNotApplyError",
    "LearnerEntry",
    "as_learners",
    "choose_budgets",
    "choose_learners",
    "learner_of_file",
    "set_up_for",
]


def choose_learners(names: str | None = None) -> list[LearnerEntry]:
    """The learners in a comma-separated list of names, in upper or lower case; the default ones if None.

    "all" names every learner, and FILE.py:CLASS the caller's own learner.

    Raises
    ------
    ValueError
        If a name is not known, or none is given.

    Examples
    --------
    >>> [entry.title for entry in choose_learners("Newton, l-bfgs")]
    ['Newton', 'L-BFGS']
    """
    if names is not None:
        require_instance("names", names, str, needed="a text with commas")
    if names is None:
        return [entry for entry in LEARNERS.values() if entry.by_default]
    chosen: dict[str, LearnerEntry] = {}
    for part in [part.strip() for part in names.split(",") if part.strip()] or [""]:
        if ".py:" in part:
            chosen[part] = learner_of_file(part)
        elif part.casefold() == "all":
            chosen |= LEARNERS
        else:
            name = find_name(part, LEARNERS, "learner", other=", all, or FILE.py:CLASS for your own")
            chosen[name] = LEARNERS[name]
    return list(chosen.values())


def learner_of_file(place: str) -> LearnerEntry:
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
        (lambda target, budgets: make(heads=target.layer.heads))
        if has_heads
        else lambda target, budgets: make()
    )
    return LearnerEntry(name.lower(), name, _own_guarantee(kind), build)


def as_learners(
    learners: "Sequence[LearnerEntry | Learner | str] | LearnerEntry | Learner | str | None" = None,
) -> list[LearnerEntry]:
    """Entries for names of learners, learners and entries; None gives the default ones.

    Raises
    ------
    ValueError
        If a name is not known, nothing is given, or an item is not a learner.

    Examples
    --------
    >>> from upper import KnownPart, Newton
    >>> [entry.name for entry in as_learners([Newton(heads=2), Newton(heads=3), "adam", KnownPart()])]
    ['newton', 'newton-2', 'adam', 'knownpart']
    """
    if learners is None or isinstance(learners, str):
        return choose_learners(learners)
    one = (
        isinstance(learners, LearnerEntry)
        or hasattr(learners, "fit")
        or not getattr(learners, "ndim", 1)
        or not isinstance(learners, Iterable)
    )
    given: list[Any] = [learners] if one else list(learners)  # type: ignore[arg-type]
    given = [each for item in given for each in (choose_learners(item) if isinstance(item, str) else [item])]
    taken = {item.name for item in given if isinstance(item, LearnerEntry)}  # entries keep their names
    entries: list[LearnerEntry] = []
    for item in given:
        entries.append(item if isinstance(item, LearnerEntry) else _entry_of(item, taken=taken))
        taken.add(entries[-1].name)
    if not entries:
        raise ValueError(f"No learner is given: name some of {', '.join(LEARNERS)}, or give learners.")
    return entries


def set_up_for(entry: LearnerEntry, targets: Iterable[Target], budgets: Budgets) -> list[Learner]:
    """The learner set up for each target to which it applies; for other targets, the cell says why not.

    Raises
    ------
    ValueError
        If its build function returns something that is not a learner.
    """
    learners: list[Learner] = []
    for target in targets:
        try:
            learner = entry.build(target, budgets)
        except (Exception, GeneratorExit, SystemExit):  # a caller's own build function may raise anything
            continue
        if not _is_learner(learner) or not dataclasses.is_dataclass(learner):
            raise ValueError(
                f"The build function of {entry.name!r} returned {learner!r:.80} for {target.name!r}: a learner is "
                "needed, a frozen dataclass with a fit as attention.Learner says."
            )
        learners.append(learner)
    return learners


def _entry_of(learner: Learner, *, taken: set[str]) -> LearnerEntry:
    """An entry for a learner that the caller has set up, the same for every target."""
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
    return LearnerEntry(
        name=_numbered(kind.__name__.lower(), number, "-"),
        title=_numbered(kind.__name__, number, " "),
        guarantee=_own_guarantee(kind),
        build=lambda target, budgets: learner,
        extra="torch" if isinstance(learner, upper.GradientDescent) else "",
    )


def _own_guarantee(kind: type) -> str:
    said = inspect.cleandoc(kind.__doc__ or "").split("\n\n")[0].replace("\n", " ")
    return f"Set up by the caller. {said}".strip()


def _is_learner(given: Any) -> bool:
    return not isinstance(given, type) and callable(getattr(given, "fit", None))


def _numbered(name: str, number: int, mark: str) -> str:
    return name if number == 1 else f"{name}{mark}{number}"

"""The learners of a comparison: chosen by name or the caller's own, set up for targets, engines and devices."""

import dataclasses
import inspect
import re
from collections.abc import Iterable
from itertools import count
from typing import Any

import upper
from arena.learner_table import LEARNERS, Budgets, LearnerEntry
from arena.names import find_name, object_of_file
from arena.target import Target
from attention import Learner
from attention.validation import check


def choose_learners(names: str | None = None) -> list[LearnerEntry]:
    """The learners in a comma-separated list of names, in upper or lower case; the default ones if None.

    "all" names every learner, and FILE.py:CLASS the caller's own learner.

    ValueError if a name is not known, or none is given.

    Examples
    --------
    >>> [entry.title for entry in choose_learners("Newton, l-bfgs")]
    ['Newton', 'L-BFGS']
    """
    if names is None:
        return [entry for entry in LEARNERS.values() if entry.by_default]
    check("names", names, str)
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

    ValueError if the file or the class is missing, the file does not run, or the class is not a learner.
    """
    make: Any = object_of_file(place, "a learner of your own")
    path, _, name = place.rpartition(":")
    if not (isinstance(make, type) and hasattr(make, "__dataclass_fields__") and hasattr(make, "fit")):
        raise ValueError(
            f"{path} has no learner {name!r}: a frozen dataclass with a fit as attention.Learner says is needed."
        )
    shaped = any(field.name == "heads" for field in dataclasses.fields(make))

    def build(target: Target, budgets: Budgets) -> Any:
        return make(heads=target.layer.heads) if shaped else make()

    return _own_entry(make, name, build)


def as_learners(learners: Any = None) -> list[LearnerEntry]:
    """Entries for names of learners, learners and entries, or several of these; None gives the default ones.

    ValueError if a name is not known, nothing is given, or an item is not a learner.

    Examples
    --------
    >>> from upper import KnownComponentBaseline, Newton
    >>> [entry.name for entry in as_learners([Newton(heads=2), Newton(heads=3), "adam", KnownComponentBaseline()])]
    ['newton', 'newton-2', 'adam', 'knowncomponentbaseline']
    """
    several = (
        isinstance(learners, Iterable) and not isinstance(learners, str) and not hasattr(learners, "fit")
    )
    given: list[Any] = []
    for item in learners if several else [learners]:
        given += choose_learners(item) if isinstance(item, str) or learners is None else [item]
    taken = {item.name for item in given if isinstance(item, LearnerEntry)}  # entries keep their names
    entries: list[LearnerEntry] = []
    for item in given:
        entries.append(item if isinstance(item, LearnerEntry) else _entry_of(item, taken))
        taken.add(entries[-1].name)
    if not entries:
        raise ValueError(f"No learner is given: name some of {', '.join(LEARNERS)}, or give learners.")
    return entries


def one_learner(learner: str | LearnerEntry | Learner) -> LearnerEntry:
    """The entry of a learner. ValueError if it is not known, or several are named."""
    entries = as_learners(learner)
    if len(entries) > 1:
        raise ValueError(f"{len(entries)} learners are named: learn runs one; compare runs several.")
    return entries[0]


def set_up_for(entry: LearnerEntry, targets: Iterable[Target], budgets: Budgets) -> list[Learner]:
    """The learner set up for each target to which it applies; for other targets, the cell says why not.

    ValueError if its build function returns something that is not a learner.
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


def require_engine(engine: str | None = None, device: str | None = None, *, here: bool = True) -> None:
    """Raise if an engine or a device is not known or, unless `here` is False, is missing on this machine.

    ValueError if the two do not go together, the device is not known, or torch finds no such device. ImportError if
    torch is needed and not installed.
    """
    if device is not None and not re.fullmatch(r"cpu|cuda(:\d+)?", device):
        raise ValueError(f"The device is {device!r}: cpu, cuda, or cuda:1 for the second GPU, is needed.")
    if engine == "numpy" and device not in (None, "cpu"):
        raise ValueError(f"The device is {device}, and NumPy computes on the CPU: leave out the engine.")
    if not here or (device is None and engine != "torch"):
        return
    try:
        upper.choose_engine(engine or "auto", device)  # type: ignore[arg-type]
    except ValueError:
        raise ValueError(
            f"The device is {device}, which PyTorch does not find here: cpu always is there, and cuda where PyTorch "
            "was installed for it and sees a GPU."
        ) from None


def _entry_of(learner: Learner, taken: set[str]) -> LearnerEntry:
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
    titles = (f"{kind.__name__} {number}" if number > 1 else kind.__name__ for number in count(1))
    title = next(title for title in titles if title.lower().replace(" ", "-") not in taken)
    return _own_entry(kind, title, lambda target, budgets: learner)


def _own_entry(kind: type, title: str, build: Any) -> LearnerEntry:
    summary = inspect.cleandoc(kind.__doc__ or "").split("\n\n")[0].replace("\n", " ")
    guarantee = f"Set up by the caller. {summary}".strip()
    extra = "torch" if issubclass(kind, upper.GradientDescent) else ""
    return LearnerEntry(title.lower().replace(" ", "-"), title, guarantee, build, extra=extra)


def _is_learner(given: Any) -> bool:
    return not isinstance(given, type) and callable(getattr(given, "fit", None))

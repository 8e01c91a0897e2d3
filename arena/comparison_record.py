"""The record of a comparison: exact as JSON, with parts of it, and summaries over seeds and kinds of targets."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, TypeVar

import msgspec

from arena.records import Cell, LearnerRecord, TargetRecord, make_printable
from arena.summary import Summary, Tally, summarise
from attention.foreign import json_text, strict_json

__all__ = ["ComparisonRecord"]

Record = TypeVar("Record", bound="ComparisonRecord")

_FORMAT = "attention-bounds results 2"
_HOW_STARTED = ("seconds", "command", "jobs", "timeout", "fresh", "reused", "store")


@dataclass(frozen=True)
class ComparisonRecord:
    """A whole comparison.

    Attributes
    ----------
    made : dict
        How it was made: command, preset, versions, seconds, seeds, jobs.
    targets, learners : tuple of TargetRecord, tuple of LearnerRecord
        In the order they were given.
    cells : tuple of Cell
        One per target, learner and seed.

    Examples
    --------
    >>> from arena.records import Status
    >>> target = TargetRecord("toy", "A toy", "nice", 1, 2, 4, {"name": "boolean"}, "Drawn at random.")
    >>> learner = LearnerRecord("Newton", "Newton", "None proved.", {"heads": 1})
    >>> cell = Cell("toy", "Newton", 0, Status.DONE, outcome="EXACT", unknown_part_error=1e-15, examples_used=64)
    >>> record = ComparisonRecord({"preset": "quick"}, (target,), (learner,), (cell,))
    >>> record
    <ComparisonRecord: 1 targets, 1 learners, 1 cells>
    >>> record.summary("toy", "Newton").verdict
    'learned'
    >>> ComparisonRecord.from_json(record.to_json()) == record
    True
    """

    made: dict[str, Any]
    targets: tuple[TargetRecord, ...]
    learners: tuple[LearnerRecord, ...]
    cells: tuple[Cell, ...]

    def __post_init__(self) -> None:
        """Check that names are unique, and that every cell names a target and a learner."""
        make_printable(self)
        for name in ("targets", "learners", "cells"):
            object.__setattr__(self, name, tuple(getattr(self, name)))
        for what, records in (("target", self.targets), ("learner", self.learners)):
            names = Counter(record.name for record in records)
            if twice := [name for name, times in names.items() if times > 1]:
                raise ValueError(f"Two {what}s are named {twice[0]!r}: every {what} needs a name of its own.")
            if strangers := [name for cell in self.cells if (name := getattr(cell, what)) not in names]:
                raise ValueError(f"A cell names the {what} {strangers[0]!r}, which is not among the {what}s.")
        keys = Counter((cell.target, cell.learner, cell.seed) for cell in self.cells)
        if repeated := [key for key, times in keys.items() if times > 1]:
            raise ValueError(f"Two cells are for target, learner and seed {repeated[0]}: one is allowed.")

    def __repr__(self) -> str:
        sizes = f"{len(self.targets)} targets, {len(self.learners)} learners, {len(self.cells)} cells"
        return f"<{type(self).__name__}: {sizes}>"

    @property
    def shown(self) -> list[TargetRecord]:
        """The targets in the order of display: those with a secret come last, otherwise in their own order."""
        return sorted(self.targets, key=lambda target: target.certificate is not None)

    @property
    def seeds(self) -> int:
        """How many seeds each pair of target and learner has when the comparison is complete."""
        most = max(Counter((cell.target, cell.learner) for cell in self.cells).values(), default=0)
        return max(int(self.made.get("seeds", 0)), most)

    def to_json(self) -> str:
        """As JSON text; `from_json` gives back equal records, every float to its last bit."""
        return json_text({"format": _FORMAT, **asdict(self)})

    @classmethod
    def from_json(cls: type[Record], text: str) -> Record:
        """Records from the text `to_json` wrote.

        Raises
        ------
        ValueError
            If the text is not JSON, is of another kind, lacks a field, or holds a wrong value.
        """
        try:
            data = strict_json(text)
        except ValueError as error:
            raise ValueError(f"The results are not JSON ({error}): give a whole results.json.") from None
        try:
            if not isinstance(data, dict) or data.get("format") != _FORMAT:
                raise ValueError(f"This is not a comparison of the format {_FORMAT!r}: compare again.")
            return msgspec.convert(data, cls)
        except msgspec.ValidationError as error:
            raise ValueError(f"The results hold a wrong value. {error}") from None

    def target(self, name: str) -> TargetRecord:
        """The target of that name."""
        return _named("target", self.targets, name)

    def learner(self, name: str) -> LearnerRecord:
        """The learner of that name."""
        return _named("learner", self.learners, name)

    def cell(self, target: str, learner: str) -> list[Cell]:
        """The cells of a target and a learner, one per seed, in order of seeds."""
        found = [cell for cell in self.cells if (cell.target, cell.learner) == (target, learner)]
        return sorted(found, key=lambda cell: cell.seed)

    def summary(self, target: str, learner: str) -> Summary:
        """One learner on one target over all seeds."""
        return summarise(self.cell(target, learner))

    @property
    def tallies(self) -> list[list[Tally]]:
        """A row for each learner, with an entry for each kind of target in the order of display."""
        families: dict[str, list[str]] = {}
        for target in self.shown:
            families.setdefault(target.group, []).append(target.name)
        return [
            [
                Tally(
                    learner.title,
                    family,
                    len(names),
                    dict(Counter(self.summary(name, learner.name).verdict for name in names).most_common()),
                )
                for family, names in families.items()
            ]
            for learner in self.learners
        ]

    @property
    def interruption(self) -> str:
        """Why the comparison stopped early and how far it got; empty if it is complete."""
        why = self.made.get("interrupted")
        whole = len(self.targets) * len(self.learners) * self.seeds
        return f"Stopped before the end ({why}): {len(self.cells)} of {whole} fits are here." if why else ""

    def only(
        self: Record,
        targets: str | Sequence[str] | None = None,
        learners: str | Sequence[str] | None = None,
        seeds: int | Sequence[int] | None = None,
    ) -> Record:
        """The part of the comparison that is named, in the comparison's order; an argument left out keeps everything.

        Parameters
        ----------
        targets, learners : str or sequence of str, optional
            Names; by default all.
        seeds : int or sequence of int, optional
            Seeds; by default all.

        Raises
        ------
        ValueError
            If a target, a learner or a seed is not in the comparison.
        """
        kept_targets = _chosen("target", [record.name for record in self.targets], targets)
        kept_learners = _chosen("learner", [record.name for record in self.learners], learners)
        kept_seeds = _chosen("seed", sorted({cell.seed for cell in self.cells}), seeds)
        cells = tuple(
            cell
            for cell in self.cells
            if cell.target in kept_targets and cell.learner in kept_learners and cell.seed in kept_seeds
        )
        return replace(
            self,
            made=self.made if seeds is None else {**self.made, "seeds": len(kept_seeds)},
            targets=tuple(record for record in self.targets if record.name in kept_targets),
            learners=tuple(record for record in self.learners if record.name in kept_learners),
            cells=cells,
        )

    def without_seconds(self: Record) -> Record:
        """The same without times and without how the run was started, so that two runs can be compared bit for bit."""
        made = {key: value for key, value in self.made.items() if key not in _HOW_STARTED}
        cells = [
            replace(cell, seconds=None, trace=tuple(replace(one, seconds=None) for one in cell.trace))
            for cell in self.cells
        ]
        return replace(self, made=made, cells=tuple(cells))


def _chosen(what: str, there: Sequence[Any], wanted: Any) -> set[Any]:
    """The wanted items among those present: all for None; a single item stands for a list of one."""
    if wanted is None:
        return set(there)
    wanted = [wanted] if isinstance(wanted, str | int) else list(wanted)
    if strangers := [one for one in wanted if one not in there]:
        raise _absent(what, strangers[0], there)
    return set(wanted)


def _absent(what: str, name: Any, there: Sequence[Any]) -> ValueError:
    return ValueError(f"There is no {what} {name!r}: there are {', '.join(map(str, there)) or 'none'}.")


def _named(what: str, records: Sequence[Any], name: str) -> Any:
    for record in records:
        if record.name == name:
            return record
    raise _absent(what, name, [one.name for one in records])

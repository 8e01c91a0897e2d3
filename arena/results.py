"""The record of a comparison, kept exactly as JSON, and the ways to look at it: table, figures, page, data frames."""

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from arena.drawing import Drawing
from arena.records import Cell, LearnerRecord, TargetRecord
from arena.summary import Summary, summarise
from attention import FileFormatError
from attention.files import FilePath, write_whole

if TYPE_CHECKING:
    import pandas

__all__ = ["Results"]

_FORMAT = "attention-bounds results 2"
_DATA = "results.json"
_HOW_STARTED = ("seconds", "command", "jobs", "timeout", "fresh", "reused", "store")


@dataclass(frozen=True)
class Results:
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
    >>> from arena import Status
    >>> target = TargetRecord("toy", "A toy", "nice", 1, 2, 4, {"name": "boolean"}, "Drawn at random.")
    >>> learner = LearnerRecord("Newton", "Newton", "None proved.", {"m": 1})
    >>> cell = Cell("toy", "Newton", 0, Status.DONE, outcome="EXACT", unknown_part_error=1e-15, examples_used=64)
    >>> results = Results({"preset": "quick"}, (target,), (learner,), (cell,))
    >>> results
    <Results: 1 targets, 1 learners, 1 cells>
    >>> results.summary("toy", "Newton").verdict
    'learned'
    >>> Results.from_json(results.to_json()) == results
    True
    """

    made: dict[str, Any]
    targets: tuple[TargetRecord, ...]
    learners: tuple[LearnerRecord, ...]
    cells: tuple[Cell, ...]

    def __post_init__(self) -> None:
        """Hold names to be unique and every cell to name a target and a learner."""
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
        return (
            f"<Results: {len(self.targets)} targets, {len(self.learners)} learners, {len(self.cells)} cells>"
        )

    def __str__(self) -> str:
        """The table, what it shows and its legend, as `attention-bounds compare` prints them."""
        from arena.table import table_text

        return table_text(self).rstrip("\n")

    def _repr_html_(self) -> str:
        from arena.page import render_map

        return render_map(self)

    @property
    def shown(self) -> list[TargetRecord]:
        """The targets as they are shown: those with a secret below the others, otherwise in their own order."""
        return sorted(self.targets, key=lambda target: target.hardness is not None)

    @property
    def seeds(self) -> int:
        """How many seeds a pair of target and learner is to have."""
        most = max(Counter((cell.target, cell.learner) for cell in self.cells).values(), default=0)
        return max(int(self.made.get("seeds", 0)), most)

    def plot(
        self, target: str | None = None, against: Literal["examples", "seconds"] | None = None
    ) -> Drawing:
        """The heat map of errors or, where a target is named, its curves of error against what they cost.

        Parameters
        ----------
        target : str, optional
            The name of a target, for its curves; by default the heat map of all.
        against : {"examples", "seconds"}, optional
            What is on the horizontal axis of the curves; by default the examples drawn.

        Returns
        -------
        Drawing
            What a notebook shows as a picture, and `Drawing.save` writes as SVG or PDF.

        Raises
        ------
        ValueError
            If there is no such target or axis, or an axis is given without a target.
        """
        from arena.figures import heat_map, learning_curves

        if target is not None:
            return learning_curves(self, target, "examples" if against is None else against)
        if against is not None:
            raise ValueError(f"against is {against!r} without a target: a heat map has no such axis.")
        return heat_map(self)

    def to_pandas(self) -> "pandas.DataFrame":
        """The cells as a data frame, one row each, with what is known of target and learner."""
        from arena.frames import cell_frame

        return cell_frame(self)

    def page(self) -> str:
        """The page of the comparison: one HTML document that needs no network."""
        from arena.page import render_page

        return render_page(self)

    def save(self, folder: FilePath) -> tuple[Path, Path]:
        """Write results.json and index.html into a folder, which is made where it is missing.

        Returns
        -------
        tuple of Path
            Where the two files are; `load` reads the first one.

        Raises
        ------
        OSError
            If they cannot be written; a file that is there is replaced only when the new one is complete.
        """
        folder = Path(folder)
        if folder.exists() and not folder.is_dir():
            raise NotADirectoryError(f"{folder} is a file: give the path of a folder.")
        folder.mkdir(parents=True, exist_ok=True)
        data, page = folder / _DATA, folder / "index.html"
        write_whole(data, self.to_json().encode())
        write_whole(page, self.page().encode())
        return data, page

    @classmethod
    def load(cls, path: FilePath) -> "Results":
        """Read what `save` wrote: a results.json, or the folder that holds one.

        Raises
        ------
        FileFormatError
            If there is no such file, it cannot be read, or it holds no comparison.
        """
        path = Path(path)
        path = path / _DATA if path.is_dir() else path
        try:
            return cls.from_json(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise FileFormatError(
                f"There is no file {path}: give a results.json, or a folder that holds one."
            ) from None
        except OSError as error:
            raise FileFormatError(f"{path} cannot be read: {error.strerror}.") from None
        except UnicodeDecodeError:
            raise FileFormatError(f"{path} is not UTF-8 text: give a whole results.json.") from None
        except ValueError as error:
            raise FileFormatError(f"{path}: {error}") from None

    def to_json(self) -> str:
        """As JSON text; `from_json` gives back equal records, every float to its last bit."""
        return json.dumps({"format": _FORMAT, **asdict(self)}, allow_nan=False, ensure_ascii=False, indent=1)

    @classmethod
    def from_json(cls, text: str) -> "Results":
        """Records from the text `to_json` wrote.

        Raises
        ------
        ValueError
            If the text is not JSON, is of another kind, lacks a field, or holds a wrong value.
        """
        try:
            data = json.loads(text, parse_constant=_refuse_constant)
            if not isinstance(data, dict) or data.get("format") != _FORMAT:
                raise ValueError(f"This is not a comparison of the format {_FORMAT!r}: compare again.")
            return msgspec.convert(data, cls)
        except RecursionError:
            raise ValueError("The results are nested too deeply to be a comparison.") from None
        except json.JSONDecodeError as error:
            raise ValueError(f"The results are not JSON ({error}): give a whole results.json.") from None
        except msgspec.ValidationError as error:
            raise ValueError(f"The results hold a wrong value. {error}") from None

    def to_csv(self) -> str:
        """The cells as CSV, one line each, traces left out; text a spreadsheet would run is disarmed."""
        from arena.frames import csv_of

        return csv_of(self.to_pandas())

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

    def only(
        self,
        targets: str | Sequence[str] | None = None,
        learners: str | Sequence[str] | None = None,
        seeds: int | Sequence[int] | None = None,
    ) -> "Results":
        """A part of the comparison: what is named, in the order it has here; of what is left out, everything.

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

    def without_seconds(self) -> "Results":
        """The same without times and without how the run was started, to compare two runs bit for bit."""
        made = {key: value for key, value in self.made.items() if key not in _HOW_STARTED}
        cells = [
            replace(cell, seconds=None, trace=tuple(replace(one, seconds=None) for one in cell.trace))
            for cell in self.cells
        ]
        return replace(self, made=made, cells=tuple(cells))


def _chosen(what: str, there: Sequence[Any], wanted: Any) -> set[Any]:
    """What is wanted of what is there: all of it for None; one thing may stand for a list of one."""
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


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON: null stands for a number that is not finite.")

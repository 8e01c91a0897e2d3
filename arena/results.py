"""A comparison: exact as JSON and as rows, cut down, and summed up over seeds and over kinds of targets."""

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from arena.formats import csv_text
from arena.records import TARGET_COLUMNS, Cell, LearnerRecord, Record, Status, TargetRecord
from attention import FileFormatError
from attention.evaluation import percent
from attention.files import FilePath, write_whole
from attention.foreign import json_text, strict_json

if TYPE_CHECKING:
    import pandas

    from arena.views.figures import Drawing

FORMAT = "attention-bounds results 2"
"""What the JSON of a comparison says it is."""

LEARNED, NOTHING = 1e-3, 0.9
"""The verdict is "learned" up to the first error on the unknown part, and "nothing" from the second one."""


@dataclass(frozen=True)
class Summary:
    """One learner on one target over all seeds."""

    #: DONE if any fit applies to this target, otherwise the gravest status; None without a cell
    status: Status | None = None
    error: float = math.nan  #: median error on the unknown part; infinite if not finite, NaN without a fit
    error_min: float = math.nan
    error_max: float = math.nan
    examples: float = math.nan  #: median; NaN if there are no values
    seconds: float = math.nan  #: likewise
    outcome: str = ""  #: the most frequent outcome; empty without a fit
    outcome_text: str = ""
    #: the largest one of the fits with this outcome, as in `attention.Fit`; None if it is no success
    error_rate_bound: float | None = None
    alone: str = ""  #: the part of the learner that did all the work in most of these fits; else empty
    seeds: int = 0  #: how many cells there are
    done: int = 0  #: how many of them have a fit
    message: str = ""  #: why the first of the other cells has no fit

    @property
    def lost(self) -> bool:
        """Whether no fit returned, and the gravest of them failed or timed out."""
        return self.status is not None and self.status.lost

    @property
    def vouched(self) -> str:
        """The bound on the error rate as text, such as "<=7%"; empty without one."""
        return "" if self.error_rate_bound is None else f"<={percent(self.error_rate_bound)}"

    @property
    def verdict(self) -> str:
        """A short word: "learned", "partly", "nothing", or the reason why there is no number."""
        if self.status is not Status.DONE:
            return "not run" if self.status is None else self.status.value
        return "learned" if self.error <= LEARNED else "partly" if self.error < NOTHING else "nothing"


def summarise(cells: Sequence[Cell]) -> Summary:
    """The summary of the cells of one target and one learner, one per seed."""
    if not cells:
        return Summary()
    done = [cell for cell in cells if cell.fitted]
    gravity = list(Status).index
    others = sorted((cell for cell in cells if not cell.fitted), key=lambda cell: -gravity(cell.status))
    outcomes = Counter((cell.outcome, cell.outcome_text) for cell in cells if cell.outcome)
    outcome, text = outcomes.most_common(1)[0][0] if outcomes else ("", "")
    message = next((why for cell in others if (why := cell.message or cell.outcome_text)), "")
    gravest = others[0].status if others else Status.DONE
    status = Status.DONE if done else Status.NOT_APPLICABLE if gravest is Status.DONE else gravest
    summary = Summary(status, outcome=outcome, outcome_text=text, seeds=len(cells), message=message)
    if not done:
        return summary
    errors = [math.inf if cell.unknown_part_error is None else cell.unknown_part_error for cell in done]
    alike = [cell for cell in done if cell.outcome == outcome]
    return replace(
        summary,
        error=median(errors),
        error_min=min(errors),
        error_max=max(errors),
        examples=_median(cell.examples_used for cell in done),
        seconds=_median(cell.seconds for cell in done),
        error_rate_bound=max((cell.error_rate_bound or 0 for cell in alike), default=0) or None,
        alone=Counter(cell.alone for cell in alike).most_common(1)[0][0],
        done=len(done),
    )


def _median(values: Iterable[float | int | None]) -> float:
    present = [value for value in values if value is not None]
    return float(median(present)) if present else math.nan


@dataclass(frozen=True, repr=False)
class Results(Record):
    """A whole comparison: its records, found by name and summed up; as JSON, rows, table, figures and page.

    A notebook shows its map of errors.

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
    >>> from arena.records import Cell, LearnerRecord, Status, TargetRecord
    >>> target = TargetRecord("toy", "A toy", "nice", 1, 2, 4, {"name": "boolean"}, "Drawn at random.")
    >>> learner = LearnerRecord("Newton", "Newton", "None proved.", {"heads": 1})
    >>> cell = Cell("toy", "Newton", 0, Status.DONE, outcome="EXACT", unknown_part_error=1e-15, examples_used=64)
    >>> results = Results({"preset": "quick"}, (target,), (learner,), (cell,))
    >>> results, results.summary("toy", "Newton").verdict
    (<Results: 1 targets, 1 learners, 1 cells>, 'learned')
    >>> Results.from_json(results.to_json()) == results
    True
    >>> results.plot()
    <Drawing: Error on the unknown part: 1 targets down, 1 learners across>
    """

    made: dict[str, Any]
    targets: tuple[TargetRecord, ...]
    learners: tuple[LearnerRecord, ...]
    cells: tuple[Cell, ...]

    def __post_init__(self) -> None:
        """Check that names are unique, and that every cell names a target and a learner."""
        super().__post_init__()
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
        return f"<Results: {sizes}>"

    @property
    def shown(self) -> list[TargetRecord]:
        """The targets in the order of display: those with a secret come last, otherwise in their own order."""
        return sorted(self.targets, key=lambda target: target.certificate is not None)

    @property
    def seeds(self) -> int:
        """How many seeds each pair of target and learner has when the comparison is complete."""
        most = max(Counter((cell.target, cell.learner) for cell in self.cells).values(), default=0)
        return max(int(self.made.get("seeds", 0)), most)

    @property
    def interruption(self) -> str:
        """Why the comparison stopped early and how far it got; empty if it is complete."""
        if not (why := self.made.get("interrupted")):
            return ""
        whole = len(self.targets) * len(self.learners) * self.seeds
        reason = "interactively" if why is True else why
        return f"Stopped before the end ({reason}): {len(self.cells)} of {whole} fits are here."

    def target(self, name: str) -> TargetRecord:
        """The target of that name."""
        return _named("target", self.targets, name)[0]

    def learner(self, name: str) -> LearnerRecord:
        """The learner of that name."""
        return _named("learner", self.learners, name)[0]

    def cell(self, target: str, learner: str) -> list[Cell]:
        """The cells of a target and a learner, one per seed, in order of seeds."""
        cells = [cell for cell in self.cells if (cell.target, cell.learner) == (target, learner)]
        return sorted(cells, key=lambda cell: cell.seed)

    def summary(self, target: str, learner: str) -> Summary:
        """One learner on one target over all seeds."""
        return summarise(self.cell(target, learner))

    def tally(self, learner: str) -> dict[str, Counter[str]]:
        """How often a learner got each verdict on the targets of each group, in the order of display."""
        verdicts: dict[str, Counter[str]] = {}
        for target in self.shown:
            verdict = self.summary(target.name, learner).verdict
            verdicts.setdefault(target.group, Counter())[verdict] += 1
        return verdicts

    def only(
        self,
        targets: str | Sequence[str] | None = None,
        learners: str | Sequence[str] | None = None,
        seeds: int | Sequence[int] | None = None,
    ) -> "Results":
        """The part of the comparison that is named, in the comparison's order; an argument left out keeps everything.

        ValueError if a target, a learner or a seed is not in the comparison.
        """
        chosen = _named("target", self.targets, targets)
        asked = _named("learner", self.learners, learners)
        drawn = {cell.seed for cell in self.cells}
        if seeds is not None:
            wanted = {seeds} if isinstance(seeds, int) else set(seeds)
            if strangers := sorted(wanted - drawn):
                raise ValueError(
                    f"There is no seed {strangers[0]}: there are {', '.join(map(str, sorted(drawn)))}."
                )
            drawn = wanted
        names = {record.name for record in chosen}, {record.name for record in asked}
        return Results(
            self.made if seeds is None else {**self.made, "seeds": len(drawn)},
            tuple(chosen),
            tuple(asked),
            tuple(
                cell
                for cell in self.cells
                if cell.target in names[0] and cell.learner in names[1] and cell.seed in drawn
            ),
        )

    def rows(self) -> list[dict[str, Any]]:
        """One row per cell, without its trace, with what is known of target and learner."""
        rows = []
        for cell in self.cells:
            target = self.target(cell.target)
            row = {part.name: getattr(cell, part.name) for part in fields(Cell) if part.name != "trace"}
            row |= {f"target_{name}": getattr(target, name) for name in TARGET_COLUMNS}
            rows.append(row | {"learner_title": self.learner(cell.learner).title})
        return rows

    def to_csv(self) -> str:
        """The cells as CSV, one line each, without traces; text that a spreadsheet would run is made harmless."""
        return csv_text(self.rows())

    def to_pandas(self) -> "pandas.DataFrame":
        """The same as a data frame, by pandas, of the extra ``tables``; `to_csv` does without."""
        import pandas

        return pandas.DataFrame(self.rows())

    def to_json(self) -> str:
        """As JSON text; `from_json` gives back equal records, every float to its last bit."""
        return json_text({"format": FORMAT, **asdict(self)})

    @classmethod
    def from_json(cls, text: str) -> "Results":
        """Records from the text `to_json` wrote. ValueError if it is another text."""
        try:
            data = strict_json(text)
        except ValueError as error:
            raise ValueError(f"The results are not JSON ({error}): give a whole results.json.") from None
        if not isinstance(data, dict) or data.get("format") != FORMAT:
            raise ValueError(f"This is not a comparison of the format {FORMAT!r}: compare again.")
        try:
            return msgspec.convert(data, cls)
        except msgspec.ValidationError as error:
            raise ValueError(f"The results hold a wrong value. {error}") from None

    @classmethod
    def load(cls, path: FilePath) -> "Results":
        """Read what `save` wrote: a results.json, or the folder that holds one. FileFormatError if that fails."""
        path = Path(path)
        path = path / "results.json" if path.is_dir() else path
        try:
            return cls.from_json(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            why = f"There is no file {path}: give a results.json, or a folder that holds one."
        except OSError as error:
            why = f"{path} cannot be read: {error.strerror}."
        except UnicodeDecodeError:
            why = f"{path} is not UTF-8 text: give a whole results.json."
        except ValueError as error:
            why = f"{path}: {error}"
        raise FileFormatError(why)

    # The methods that show a comparison import their view when they are called: it loads matplotlib or jinja2.

    def save(self, folder: FilePath) -> tuple[Path, Path]:
        """Write results.json, which `load` reads, and index.html into a folder; a missing folder is made.

        OSError if they cannot be written. An existing file is replaced only when the new one is complete.
        """
        from arena.views.page import render_page

        folder = Path(folder)
        if folder.exists() and not folder.is_dir():
            raise NotADirectoryError(f"{folder} is a file: give the path of a folder.")
        folder.mkdir(parents=True, exist_ok=True)
        data, page = folder / "results.json", folder / "index.html"
        write_whole(data, self.to_json().encode())
        write_whole(page, render_page(self).encode())
        return data, page

    def plot(
        self, target: str | None = None, against: Literal["examples", "seconds"] | None = None
    ) -> "Drawing":
        """The heat map of errors or, for a named target, its curves of error against cost, by default in examples.

        A notebook shows it as a picture; `Drawing.save` writes it as SVG or PDF. ValueError if there is no such target
        or axis, or an axis is given without a target.
        """
        from arena.views.figures import heat_map, learning_curves

        if target is not None:
            return learning_curves(self, target, "examples" if against is None else against)
        if against is not None:
            raise ValueError(f"against is {against!r} without a target: a heat map has no such axis.")
        return heat_map(self)

    def __str__(self) -> str:
        """The table with its caption and legend, as `attention-bounds compare` prints it."""
        from arena.views.table import table_text

        return table_text(self).rstrip("\n")

    def _repr_html_(self) -> str:
        from arena.views.page import render_map

        return render_map(self)


def _named(what: str, records: Sequence[Any], wanted: str | Sequence[str] | None) -> list[Any]:
    """The records with these names, in their own order; all for None. ValueError if a name is not there."""
    if wanted is None:
        return list(records)
    names = {wanted} if isinstance(wanted, str) else set(wanted)
    present = [record.name for record in records]
    if strangers := sorted(names.difference(present)):
        raise ValueError(f"There is no {what} {strangers[0]!r}: there are {', '.join(present) or 'none'}.")
    return [record for record in records if record.name in names]

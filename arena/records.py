"""The records of a comparison: of each target, of each learner, of the fit of every pair, and their summary."""

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from enum import StrEnum
from statistics import median
from typing import Any

from arena.formats import csv_text
from attention.evaluation import percent
from attention.foreign import escaped, json_text
from lower import Certificate


class Status(StrEnum):
    """Whether a fit was returned and, if not, why."""

    DONE = "done"
    NOT_APPLICABLE = "does not apply"
    NOT_INSTALLED = "not installed"
    TIMED_OUT = "timed out"
    FAILED = "failed"

    @property
    def lost(self) -> bool:
        """Whether the fit started and returned nothing."""
        return self in (Status.FAILED, Status.TIMED_OUT)


def make_printable(record: Any) -> None:
    """Escape control characters in the texts of a new record, and replace NaN and infinities by None.

    Names of files, learners and errors may hold any character; JSON has no number that is not finite.
    """
    for part in fields(record):
        value = getattr(record, part.name)
        if type(value) in (str, dict, list, tuple):
            object.__setattr__(record, part.name, escaped(value))
        elif isinstance(value, float):
            object.__setattr__(record, part.name, float(value) if math.isfinite(value) else None)


@dataclass(frozen=True)
class Record:
    """A record whose texts are printable and whose numbers are finite."""

    def __post_init__(self) -> None:
        make_printable(self)


@dataclass(frozen=True)
class TargetRecord(Record):
    """The record of a target."""

    name: str  #: short and unique
    title: str
    kind: str  #: "nice", the `lower.Family.kind` of a hard family, or "file" for a target from the caller
    heads: int  #: m
    tokens: int  #: k
    dim: int  #: d
    inputs: dict[str, Any]  #: the distribution of the tokens, as `attention.inputs.inputs_to_json` writes it
    how: str  #: one sentence: how it was made
    seed: int | None = None  #: the seed it was made with; None if it was not made here
    known: str = ""  #: one sentence about the part known in advance
    certificate: Certificate | None = None  #: of a hard instance; None for a layer without a secret
    #: the non-degeneracy conditions of a layer without a secret: the rows of `attention.ConditionReport.rows`
    conditions: tuple[dict[str, str], ...] = ()

    @property
    def group(self) -> str:
        """The targets that are counted together: "nice", "given" (the caller's own), or the kind of a hard family."""
        return "given" if self.kind == "file" else self.kind

    @property
    def label(self) -> str:
        """A few words on its hardness, from its certificate; of a layer without a secret, its group."""
        return self.group if self.certificate is None else self.certificate.label


@dataclass(frozen=True)
class LearnerRecord(Record):
    """The record of a learner."""

    name: str  #: short and unique
    title: str
    guarantee: str  #: one sentence: the guarantee and its source
    parameters: dict[str, Any] = field(default_factory=dict)  #: the hyper-parameters it ran with
    access: str = "random examples"  #: how it sees a target, as of `attention.Learner`

    @property
    def asks(self) -> bool:
        """Whether its cost is counted in value queries, not in examples."""
        return self.access == "value queries"


@dataclass(frozen=True)
class TracePoint(Record):
    """One step of a fit: the cost so far, and the error on the unknown part (None if not finite)."""

    name: str
    examples: int
    seconds: float | None
    error: float | None = None


@dataclass(frozen=True)
class Cell(Record):
    """The fit of one learner on one target with one seed; errors and seconds that are not finite are None."""

    target: str  #: its name
    learner: str  #: its name
    seed: int  #: of the fit
    status: Status
    message: str = ""  #: why no fit was returned
    outcome: str = ""  #: the name of the outcome; empty without a fit
    outcome_text: str = ""  #: its sentence
    succeeded: bool = False  #: whether the learner met its guarantee
    relative_error: float | None = None  #: this and the next three: on fresh inputs
    unknown_part_error: float | None = None
    theta_error: float | None = None
    w_error: float | None = None
    #: of a success, the share of inputs on which the fit may be wrong, with confidence .95, as in `attention.Fit`
    error_rate_bound: float | None = None
    examples_used: int | None = None  #: examples drawn, or value queries asked
    seconds: float | None = None  #: wall-clock, without measuring
    engine: str = ""  #: as in `attention.Fit`; empty for a learner without a choice
    alone: str = ""  #: the part of the learner that did all the work, as in `attention.Fit`; else empty
    trace: tuple[TracePoint, ...] = ()  #: one point per phase or step

    @property
    def fitted(self) -> bool:
        """Whether there is a fit that applies to this target."""
        return self.status is Status.DONE and self.outcome != "NOT_APPLICABLE"

    def points(self, against: str) -> list[tuple[float, float]]:
        """The points (cost, error) of its curve: its trace and its final error, where both are finite."""
        if not self.fitted:
            return []
        pairs = [(getattr(point, against), point.error) for point in self.trace]
        end = self.examples_used if against == "examples" else self.seconds
        pairs.append((end, self.unknown_part_error))
        return [(float(cost), error) for cost, error in pairs if cost is not None and error is not None]


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


TARGET_COLUMNS = ("title", "kind", "label", "heads", "tokens", "dim", "seed")
"""What a row about a fit says of its target; the names of these columns begin with ``target_``."""

FORMAT = "attention-bounds results 2"
"""What the JSON of a comparison says it is."""


@dataclass(frozen=True, repr=False)
class Comparison:
    """A whole comparison: its targets, learners and cells, found by name and summed up.

    Attributes
    ----------
    made : dict
        How it was made: command, preset, versions, seconds, seeds, jobs.
    targets, learners : tuple of TargetRecord, tuple of LearnerRecord
        In the order they were given.
    cells : tuple of Cell
        One per target, learner and seed.
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
        return _named("target", self.targets, name)

    def learner(self, name: str) -> LearnerRecord:
        """The learner of that name."""
        return _named("learner", self.learners, name)

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

    def to_json(self) -> str:
        """As JSON text; `from_json` gives back equal records, every float to its last bit."""
        return json_text({"format": FORMAT, **asdict(self)})


def _named(what: str, records: Sequence[Any], name: str) -> Any:
    for record in records:
        if record.name == name:
            return record
    raise absent(what, name, [record.name for record in records])


def absent(what: str, name: Any, present: Sequence[Any]) -> ValueError:
    """The error that says what there is in place of a name."""
    return ValueError(f"There is no {what} {name!r}: there are {', '.join(map(str, present)) or 'none'}.")

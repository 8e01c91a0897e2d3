"""The record of a comparison: targets, learners and what became of every pair, kept exactly as JSON."""

import csv
import io
import json
import operator
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any

from arena._fields import (
    as_number,
    encodes,
    require_mapping,
    require_one_of,
    require_real,
    require_texts,
    require_truth,
    require_whole,
    wrong,
)
from arena.summary import LEARNED, NOTHING, Summary, summarise

__all__ = [
    "LEARNED",
    "NOTHING",
    "Cell",
    "LearnerRecord",
    "Results",
    "Summary",
    "TargetRecord",
    "TracePoint",
]

_KINDS = ("nice", "parity", "lwr", "file")
_STATUSES = ("done", "not applicable", "failed")
_FORMAT = "attention-bounds results 1"


@dataclass(frozen=True)
class TargetRecord:
    """What is remembered of a target.

    Attributes
    ----------
    name, title : str
        A short unique name, and how a person would call it.
    kind : {"nice", "parity", "lwr", "file"}
        The family.
    heads, tokens, dim : int
        The numbers m of heads, k of tokens and d of coordinates.
    inputs : dict
        The distribution of the tokens, as `attention.inputs_to_json` writes it.
    how : str
        One sentence: how it was made.
    seed : int or None
        The seed it was made with, where it was made here.
    known : str
        One sentence about the part known in advance.
    certificate : tuple of str
        Lines of the certificate of hardness, or of the conditions measured.
    hard : bool
        Whether it is meant to resist general learners.
    """

    name: str
    title: str
    kind: str
    heads: int
    tokens: int
    dim: int
    inputs: dict[str, Any]
    how: str
    seed: int | None = None
    known: str = ""
    certificate: tuple[str, ...] = ()
    hard: bool = False

    def __post_init__(self) -> None:
        """Hold every field to its kind."""
        require_texts(self, "name", "title", "how", "known")
        require_one_of(self, "kind", _KINDS)
        for name in ("heads", "tokens", "dim"):
            require_whole(self, name, least=1)
        require_whole(self, "seed", least=None, optional=True)
        require_mapping(self, "inputs")
        require_truth(self, "hard")
        lines = self.certificate
        is_list = isinstance(lines, list | tuple)
        if not is_list or not all(isinstance(line, str) and encodes(line) for line in lines):
            raise wrong(self, "certificate", "a list of lines of text")
        object.__setattr__(self, "certificate", tuple(lines))


@dataclass(frozen=True)
class LearnerRecord:
    """What is remembered of a learner.

    Attributes
    ----------
    name, title : str
        A short unique name, and how a person would call it.
    guarantee : str
        One sentence: what is promised, and by whom.
    parameters : dict
        The hyper-parameters it ran with.
    """

    name: str
    title: str
    guarantee: str
    parameters: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Hold every field to its kind."""
        require_texts(self, "name", "title", "guarantee")
        require_mapping(self, "parameters")


@dataclass(frozen=True)
class TracePoint:
    """One step of a fit: its name, what it had cost until then, and its measures (null where not finite)."""

    name: str
    examples: int
    seconds: float | None
    measures: dict[str, float | None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Hold every field to its kind."""
        require_texts(self, "name")
        require_whole(self, "examples", least=0)
        require_real(self, "seconds")
        require_mapping(self, "measures")
        try:
            measures = {key: as_number(value) for key, value in self.measures.items()}
        except TypeError:
            raise wrong(self, "measures", "a mapping to numbers or null") from None
        object.__setattr__(self, "measures", measures)


@dataclass(frozen=True)
class Cell:
    """What became of one learner on one target with one seed.

    Attributes
    ----------
    target, learner : str
        The names of the two.
    seed : int
        The seed of the fit.
    status : {"done", "not applicable", "failed"}
        Whether a fit came back.
    message : str
        Why it failed or does not apply.
    outcome, outcome_text : str
        The name of the outcome and its sentence; empty when no fit came back.
    succeeded : bool
        Whether the learner did what it promises.
    relative_error, unknown_part_error, theta_error, w_error : float or None
        Errors on fresh inputs; None where there is none or it is not finite.
    examples_used : int or None
        Examples drawn.
    seconds : float or None
        Wall-clock seconds, measuring left out.
    trace : tuple of TracePoint
        One point per phase or step.
    """

    target: str
    learner: str
    seed: int
    status: str
    message: str = ""
    outcome: str = ""
    outcome_text: str = ""
    succeeded: bool = False
    relative_error: float | None = None
    unknown_part_error: float | None = None
    theta_error: float | None = None
    w_error: float | None = None
    examples_used: int | None = None
    seconds: float | None = None
    trace: tuple[TracePoint, ...] = ()

    def __post_init__(self) -> None:
        """Hold every field to its kind; NaN and infinities become None."""
        require_texts(self, "target", "learner", "message", "outcome", "outcome_text")
        require_whole(self, "seed", least=None)
        require_one_of(self, "status", _STATUSES)
        require_truth(self, "succeeded")
        for name in ("relative_error", "unknown_part_error", "theta_error", "w_error", "seconds"):
            require_real(self, name)
        require_whole(self, "examples_used", least=0, optional=True)
        is_list = isinstance(self.trace, list | tuple)
        if not is_list or not all(isinstance(point, TracePoint) for point in self.trace):
            raise wrong(self, "trace", "a tuple of TracePoint")
        object.__setattr__(self, "trace", tuple(self.trace))


@dataclass(frozen=True)
class Results:
    """A whole comparison.

    Attributes
    ----------
    made : dict
        How it was made: command, preset, versions, seconds, seeds, jobs.
    targets, learners : tuple of TargetRecord, tuple of LearnerRecord
        In the order they are shown.
    cells : tuple of Cell
        One per target, learner and seed.

    Examples
    --------
    >>> target = TargetRecord("toy", "A toy", "nice", 1, 2, 4, {"kind": "boolean"}, "Drawn at random.")
    >>> learner = LearnerRecord("Newton", "Newton", "None proved.", {"m": 1})
    >>> cell = Cell("toy", "Newton", 0, "done", outcome="EXACT", unknown_part_error=1e-15, examples_used=64)
    >>> results = Results({"preset": "quick"}, (target,), (learner,), (cell,))
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
        require_mapping(self, "made")
        for name, kind in (("targets", TargetRecord), ("learners", LearnerRecord), ("cells", Cell)):
            records = tuple(getattr(self, name))
            if not all(isinstance(record, kind) for record in records):
                raise wrong(self, name, f"{kind.__name__} only")
            object.__setattr__(self, name, records)
        for what, records in (("target", self.targets), ("learner", self.learners)):
            names = Counter(record.name for record in records)
            twice = [name for name, times in names.items() if times > 1]
            if twice:
                raise ValueError(f"Two {what}s are named {twice[0]!r}: every {what} needs a name of its own.")
            strangers = [name for cell in self.cells if (name := getattr(cell, what)) not in names]
            if strangers:
                raise ValueError(f"A cell names the {what} {strangers[0]!r}, which is not among the {what}s.")
        keys = Counter((cell.target, cell.learner, cell.seed) for cell in self.cells)
        repeated = [key for key, times in keys.items() if times > 1]
        if repeated:
            raise ValueError(f"Two cells are for target, learner and seed {repeated[0]}: one is allowed.")

    def to_json(self) -> str:
        """As JSON text; `from_json` gives back equal records, every float to its last bit."""
        return json.dumps({"format": _FORMAT, **asdict(self)}, allow_nan=False, ensure_ascii=False, indent=1)

    @classmethod
    def from_json(cls, text: str) -> "Results":
        """Records from the text `to_json` wrote.

        Raises
        ------
        ValueError
            If the text is not JSON, is of another kind, lacks or adds a field, or holds a wrong value.
        """
        try:
            data = json.loads(text, parse_constant=_refuse_constant)
        except (ValueError, RecursionError) as error:
            raise ValueError(f"The results are not JSON ({error}): give a whole results.json.") from None
        if not isinstance(data, dict) or data.get("format") != _FORMAT:
            raise ValueError(f"This JSON is not a comparison: its format field must be {_FORMAT!r}.")
        data.pop("format")
        try:
            _check_fields(cls, data)
            return cls(
                made=data["made"],
                targets=tuple(_target(item) for item in _list("targets", data["targets"])),
                learners=tuple(_record(LearnerRecord, item) for item in _list("learners", data["learners"])),
                cells=tuple(_cell(item) for item in _list("cells", data["cells"])),
            )
        except RecursionError:
            raise ValueError("The results are nested too deeply to be a comparison.") from None

    def to_csv(self) -> str:
        """The cells as CSV, one line each, traces left out; text a spreadsheet would run is disarmed."""
        names = [item.name for item in fields(Cell) if item.name != "trace"]
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(names)
        for cell in self.cells:
            writer.writerow([_csv_value(getattr(cell, name)) for name in names])
        return out.getvalue()

    def target(self, name: str) -> TargetRecord:
        """The target of that name."""
        return _named("target", self.targets, name)

    def learner(self, name: str) -> LearnerRecord:
        """The learner of that name."""
        return _named("learner", self.learners, name)

    def cell(self, target: str, learner: str) -> list[Cell]:
        """The cells of a target and a learner, one per seed, in order of seeds."""
        found = [cell for cell in self.cells if (cell.target, cell.learner) == (target, learner)]
        return sorted(found, key=operator.attrgetter("seed"))

    def summary(self, target: str, learner: str) -> Summary:
        """One learner on one target over all seeds."""
        return summarise(self.cell(target, learner))

    def without_seconds(self) -> "Results":
        """The same without times and without how the run was started, to compare two runs bit for bit.

        Left out are every number of seconds and, of `made`, the command and the number of jobs.
        """
        made = {key: value for key, value in self.made.items() if key not in ("seconds", "command", "jobs")}
        return replace(self, made=made, cells=tuple(_timeless(cell) for cell in self.cells))


def _timeless(cell: Cell) -> Cell:
    trace = tuple(
        replace(
            point,
            seconds=None,
            measures={key: value for key, value in point.measures.items() if not key.endswith("seconds")},
        )
        for point in cell.trace
    )
    return replace(cell, seconds=None, trace=trace)


def _named(what: str, records: Sequence[Any], name: str) -> Any:
    for record in records:
        if record.name == name:
            return record
    raise ValueError(
        f"There is no {what} named {name!r}: there are {', '.join(one.name for one in records) or 'none'}."
    )


def _csv_value(value: Any) -> Any:
    # a spreadsheet takes text that starts like this for a formula
    if isinstance(value, str) and value[:1] in ("=", "+", "-", "@", "\t", "\r"):
        return "'" + value
    return repr(value) if isinstance(value, float) else value


def _target(data: Any) -> TargetRecord:
    if isinstance(data, dict) and isinstance(data.get("certificate"), list):
        data = {**data, "certificate": tuple(data["certificate"])}
    return _record(TargetRecord, data)


def _cell(data: Any) -> Cell:
    if isinstance(data, dict) and "trace" in data:
        data = {**data, "trace": tuple(_record(TracePoint, point) for point in _list("trace", data["trace"]))}
    return _record(Cell, data)


def _record(kind: Any, data: Any) -> Any:
    _check_fields(kind, data)
    return kind(**data)


def _check_fields(kind: Any, data: Any) -> None:
    name = kind.__name__
    if not isinstance(data, dict):
        raise ValueError(
            f"A {name} in the results is a {type(data).__name__}: an object with named fields is needed."
        )
    wanted = {item.name for item in fields(kind)}
    if missing := sorted(wanted - set(data)):
        raise ValueError(f"A {name} in the results lacks {', '.join(missing)}.")
    if extra := sorted(set(data) - wanted):
        raise ValueError(f"A {name} in the results has the unknown fields {', '.join(extra)}.")


def _list(name: str, data: Any) -> list[Any]:
    if not isinstance(data, list):
        raise ValueError(f"The {name} of the results are a {type(data).__name__}: a list is needed.")
    return data


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON: null stands for a number that is not finite")

"""The records of a comparison: of each target, of each learner, and of the fit of every pair."""

import math
from dataclasses import dataclass, field, fields
from enum import StrEnum
from typing import Any

from attention.foreign import escaped
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


@dataclass(frozen=True)
class Record:
    """A record whose texts are printable and whose numbers are finite.

    Names of files, learners and errors may hold any character: control characters are escaped. JSON has no number that
    is not finite: NaN and infinities become None.
    """

    def __post_init__(self) -> None:
        for part in fields(self):
            value = getattr(self, part.name)
            if type(value) in (str, dict, list, tuple):
                object.__setattr__(self, part.name, escaped(value))
            elif isinstance(value, float):
                object.__setattr__(self, part.name, float(value) if math.isfinite(value) else None)


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


TARGET_COLUMNS = ("title", "kind", "label", "heads", "tokens", "dim", "seed")
"""What a row about a fit says of its target; the names of these columns begin with ``target_``."""

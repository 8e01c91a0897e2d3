"""What a comparison remembers: of each target, of each learner, and of the fit of every pair."""

import math
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from lower import Certificate, Hardness

__all__ = ["Cell", "LearnerRecord", "Status", "TargetRecord", "TracePoint"]


class Status(StrEnum):
    """Whether a fit came back, and what stood in its way."""

    DONE = "done"
    NOT_APPLICABLE = "does not apply"
    NOT_INSTALLED = "not installed"
    TIMED_OUT = "timed out"
    FAILED = "failed"

    @property
    def lost(self) -> bool:
        """Whether the fit was begun and did not come back."""
        return self in (Status.FAILED, Status.TIMED_OUT)


@dataclass(frozen=True)
class TargetRecord:
    """What is remembered of a target.

    Attributes
    ----------
    name, title : str
        A short unique name, and how a person would call it.
    kind : str
        "nice", what `lower.Family.kind` calls a hard family, or "file" for what was given.
    heads, tokens, dim : int
        The numbers m of heads, k of tokens and d of coordinates.
    inputs : dict
        The distribution of the tokens, as `attention.inputs.inputs_to_json` writes it.
    how : str
        One sentence: how it was made.
    seed : int or None
        The seed it was made with, where it was made here.
    known : str
        One sentence about the part known in advance.
    certificate : Certificate or None
        The certificate of a hard instance; None for a layer that hides no secret.
    conditions : tuple of dict of str to str
        The non-degeneracy conditions of another layer, a row each, as `attention.ConditionReport.rows` gives them.
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
    certificate: Certificate | None = None
    conditions: tuple[dict[str, str], ...] = ()

    @property
    def hardness(self) -> Hardness | None:
        """How hard its certificate says it is; None for a layer that hides no secret."""
        return None if self.certificate is None else self.certificate.hardness

    @property
    def family(self) -> str:
        """What kind of target it is: how hard, nice (drawn at random), or given (the caller's own)."""
        if self.hardness is not None:
            return self.hardness.label
        return "nice" if self.kind == "nice" else "given"


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
    access : str
        How it sees a target: "random examples" or "value queries".
    """

    name: str
    title: str
    guarantee: str
    parameters: dict[str, Any] = field(default_factory=dict)
    access: str = "random examples"


@dataclass(frozen=True)
class TracePoint:
    """One step of a fit: what it had cost until then, and the error on the unknown part (None where not finite)."""

    name: str
    examples: int
    seconds: float | None
    error: float | None = None

    def __post_init__(self) -> None:
        _make_finite(self, "seconds", "error")


@dataclass(frozen=True)
class Cell:
    """The fit of one learner on one target with one seed.

    Attributes
    ----------
    target, learner : str
        The names of the two.
    seed : int
        The seed of the fit.
    status : Status
        Whether a fit came back.
    message : str
        Why none did.
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
    engine : str
        What computed it, as `arena.engines.engine_used` says; empty where that is not known.
    alone : str
        What did all the work where the learner's other parts found nothing, as `attention.Fit` says; else empty.
    trace : tuple of TracePoint
        One point per phase or step.
    """

    target: str
    learner: str
    seed: int
    status: Status
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
    engine: str = ""
    alone: str = ""
    trace: tuple[TracePoint, ...] = ()

    def __post_init__(self) -> None:
        _make_finite(self, "relative_error", "unknown_part_error", "theta_error", "w_error", "seconds")

    @property
    def fitted(self) -> bool:
        """Whether a fit came back that speaks of this target."""
        return self.status is Status.DONE and self.outcome != "NOT_APPLICABLE"


def _make_finite(record: Any, *names: str) -> None:
    """Make NaN and the infinities of fields None, which JSON has."""
    for name in names:
        value = getattr(record, name)
        if value is not None:
            object.__setattr__(record, name, float(value) if math.isfinite(value) else None)

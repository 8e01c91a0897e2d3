"""What a comparison remembers: of each target, of each learner, and of what became of every pair."""

from dataclasses import dataclass, field
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
from lower import Hardness

__all__ = ["STATUSES", "Cell", "LearnerRecord", "TargetRecord", "TracePoint"]

_HARD = (
    "parity",
    "pair",
    "bump",
    "two-slope",
    "designed-steps",
    "centre-threshold",
    "token-parity",
    "hidden-gate",
    "lwr",
)
_KINDS = ("nice", *_HARD, "file")
STATUSES = ("done", "not applicable", "failed", "timed out")


@dataclass(frozen=True)
class TargetRecord:
    """What is remembered of a target.

    Attributes
    ----------
    name, title : str
        A short unique name, and how a person would call it.
    kind : str
        The family: "nice", "parity" or another of the hard ones, "lwr", or "file" for what was given.
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
    certificate : tuple of str
        Lines of the certificate of hardness, or of the conditions measured.
    hardness : Hardness or None
        How hard its certificate says it is; None for a layer that hides no secret.
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
    hardness: Hardness | None = None

    def __post_init__(self) -> None:
        """Hold every field to its kind."""
        require_texts(self, "name", "title", "how", "known")
        require_one_of(self, "kind", _KINDS)
        for name in ("heads", "tokens", "dim"):
            require_whole(self, name, least=1)
        require_whole(self, "seed", least=None, optional=True)
        require_mapping(self, "inputs")
        if self.hardness is not None:
            require_one_of(self, "hardness", tuple(Hardness))
        lines = self.certificate
        is_list = isinstance(lines, list | tuple)
        if not is_list or not all(isinstance(line, str) and encodes(line) for line in lines):
            raise wrong(self, "certificate", "a list of lines of text")
        object.__setattr__(self, "certificate", tuple(lines))

    @property
    def has_secret(self) -> bool:
        """Whether it is an instance that hides a secret, hard or not."""
        return self.hardness is not None


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
    status : {"done", "not applicable", "failed", "timed out"}
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
    engine: str = ""
    alone: str = ""
    trace: tuple[TracePoint, ...] = ()

    def __post_init__(self) -> None:
        """Hold every field to its kind; NaN and infinities become None."""
        require_texts(self, "target", "learner", "message", "outcome", "outcome_text", "engine", "alone")
        require_whole(self, "seed", least=None)
        require_one_of(self, "status", STATUSES)
        require_truth(self, "succeeded")
        for name in ("relative_error", "unknown_part_error", "theta_error", "w_error", "seconds"):
            require_real(self, name)
        require_whole(self, "examples_used", least=0, optional=True)
        is_list = isinstance(self.trace, list | tuple)
        if not is_list or not all(isinstance(point, TracePoint) for point in self.trace):
            raise wrong(self, "trace", "a tuple of TracePoint")
        object.__setattr__(self, "trace", tuple(self.trace))

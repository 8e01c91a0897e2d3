"""What the six phases found in a fit."""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from upper.six_phase.phase1_projection_sum import ProjectionSum
from upper.six_phase.phase2_affine_hull import AffineHull
from upper.six_phase.phase5_span import AttentionSpan
from upper.six_phase.phase6_net import NetSearch

__all__ = ["SixPhases"]


@dataclass(frozen=True, eq=False)
class SixPhases:
    """What the six phases found, `Fit.details` of a fit by `SixPhase`: the result of every phase that was reached.

    `refined_sums` and `hulls` have one result for each round of phases 3 and 4. `net` is of paper mode; in practical
    mode the layer of the fit is the result of phase 6. `heads` is m, given or estimated. `failed` is the number of the
    phase that failed; None if none did or the phases do not apply. `reason` says why a phase failed, or what phase 6
    reached. `doubts` lists other evidence against the result, such as an unclear gap or too few examples.
    """

    mode: Literal["practical", "paper"]
    heads: int
    crude_sum: ProjectionSum | None = None  #: phase 1
    crude_hull: AffineHull | None = None  #: phase 2, in paper mode
    refined_sums: tuple[ProjectionSum, ...] = ()  #: phase 3
    hulls: tuple[AffineHull, ...] = ()  #: phase 4
    span: AttentionSpan | None = None  #: phase 5
    net: NetSearch | None = None  #: phase 6, in paper mode
    failed: int | None = None
    reason: str = ""
    doubts: tuple[str, ...] = ()

    @property
    def last_sum(self) -> ProjectionSum | None:
        """The latest estimate of the sum of the projections."""
        return self.refined_sums[-1] if self.refined_sums else self.crude_sum

    @property
    def last_hull(self) -> AffineHull | None:
        """The latest body."""
        return self.hulls[-1] if self.hulls else self.crude_hull

    @property
    def explanation(self) -> str:
        """The result in sentences: which phase failed and why, or what phase 6 reached; and the doubts."""
        reason = f"Phase {self.failed} failed: {self.reason}" if self.failed else self.reason
        return " ".join([reason[:1].upper() + reason[1:], *self.doubts])

    def __repr__(self) -> str:
        return f"<SixPhases: {self.heads} heads. {self.explanation}>"

    def to_json(self) -> dict[str, Any]:
        """The measures and arrays of every phase as JSON values, without matrices and examples."""

        def plain(result: Any) -> Any:
            if isinstance(result, tuple):
                return [*map(plain, result)]
            values = {} if result is None else {**result.measures, **result.arrays}
            return {name: np.asarray(value).tolist() for name, value in values.items()} or None

        own = {name: getattr(self, name) for name in ("mode", "heads", "failed", "explanation")}
        phases = ("crude_sum", "crude_hull", "refined_sums", "hulls", "span", "net")
        return own | {name: plain(getattr(self, name)) for name in phases}

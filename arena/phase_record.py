"""The record of one of the six phases in a run: its outcome, its measures, and its arrays."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np

from attention import Step
from upper.six_phase import Phases

__all__ = ["PHASES", "PhaseRecord", "phase_records"]

PHASES = (
    "Estimate the sum of the projections",
    "Sculpt the affine hull of the attention matrices",
    "Refine the sum of the projections",
    "Sculpt again with the refined sum",
    "Extract the span of the attention matrices",
    "Search the span for the heads",
)
"""The titles of the phases, in order."""

_FOUND = {
    "standard_error": "statistical error of the sum",
    "accepted": "rows accepted",
    "acceptance": "share of the rows",
    "threshold": "largest residual accepted",
    "equations": "equations",
    "explained": "share explained by one matrix",
    "tolerance_in_logits": "tolerance of the body (logits)",
    "rows": "rows of large margin",
    "row_share": "share of the rows",
    "least_margin": "least margin (logits)",
    "largest_margin": "largest margin (logits)",
    "last_change": "change in the last round",
    "condition": "condition number",
    "heads": "heads",
    "gap": "gap of the spectrum (factor)",
    "reach_1": "reach along the first direction",
    "candidates": "tuples tried",
    "points": "points for each head",
    "spacing": "distance of the points",
    "starts": "starts",
    "passes": "passes over the examples",
    "residual": "residual on the examples",
    "held_out_error": "error on held-out examples",
    "held_out_bound": "upper limit of its square, 99%",
}
_ERRORS = {
    "sum_error": "error of the sum",
    "agreement_error": "error of the equations (logits)",
    "share_inside": "share of true heads in the body",
    "span_error": "worst head off the span",
    "hull_error": "worst head off the hull",
    "span_angle": "largest angle of the spans (rad)",
}
_LAYER_ERRORS = {
    "unknown_part_error": "error on fresh inputs",
    "theta_error": "worst head's error in Theta",
    "w_error": "worst head's error in W",
}


@dataclass(frozen=True)
class PhaseRecord:
    """One phase of one run.

    Attributes
    ----------
    number : int
        1 to 6.
    title : str
        The title of the phase.
    state : {"done", "failed", "not reached", "not run"}
        How it ended; "not run" if other phases do its work in this mode.
    reason : str
        Why it failed; empty where it did not.
    examples : int
        Examples it drew.
    measures : dict of str to float
        Its measures in the last round; those of earlier rounds are in the trace.
    arrays : dict of str to list
        Its arrays in the last round. Phases 2 and 4: ``histogram``, how many rows had a residual in each of the
        ``bins``, and, if the body has one, ``spectrum``, the smallest eigenvalues of the body's moment matrix.
        Phase 3: ``margins`` in logits (paper mode), or ``thresholds`` and ``changes`` (practical mode).
        Phase 5: ``reach``. Phase 6: ``grid``, the net along the hull of two heads (paper mode).
    earlier_arrays : list of dict
        The arrays of earlier rounds.
    """

    number: int
    title: str
    state: Literal["done", "failed", "not reached", "not run"]
    reason: str
    examples: int
    measures: dict[str, float]
    arrays: dict[str, list[Any]]
    earlier_arrays: list[dict[str, list[Any]]]

    @property
    def found(self) -> dict[str, float]:
        """The learner's own measures, by label."""
        return self._labelled(_FOUND)

    @property
    def errors(self) -> dict[str, float]:
        """Distances from the truth, by label."""
        return self._labelled(_LAYER_ERRORS if self.number == 6 else _ERRORS)

    def to_json(self) -> dict[str, Any]:
        """As JSON values."""
        return asdict(self)

    def _labelled(self, labels: Mapping[str, str]) -> dict[str, float]:
        return {label: self.measures[name] for name, label in labels.items() if name in self.measures}


def phase_records(phases: Phases, mode: str) -> tuple[PhaseRecord, ...]:
    """The six phases of a run in practical or paper mode."""
    return tuple(_record(number, phases, mode) for number in range(1, 7))


def _record(number: int, phases: Phases, mode: str) -> PhaseRecord:
    steps = [step for step in phases.fit.trace if step.phase == number]
    state: Literal["done", "failed", "not reached", "not run"]
    if number == phases.failed:
        state = "failed"
    elif number == 2 and mode == "practical":
        state = "not run"
    else:
        reached = steps and (phases.failed is None or number < phases.failed)
        state = "done" if reached else "not reached"
    examples = _examples(steps)
    if state == "failed" and not steps:  # it drew the examples that no other phase counts
        examples = phases.fit.examples_used - _examples(phases.fit.trace)
    *earlier, arrays = _arrays(number, phases) or [{}]
    return PhaseRecord(
        number=number,
        title=PHASES[number - 1],
        state=state,
        reason=phases.reason if state == "failed" else "",
        examples=examples,
        measures={name: value for step in steps for name, value in step.measures.items()},
        arrays=arrays,
        earlier_arrays=earlier,
    )


def _examples(steps: Sequence[Step]) -> int:
    return int(sum(step.measures.get("phase_examples", 0) for step in steps))


def _arrays(number: int, phases: Phases) -> list[dict[str, list[Any]]]:
    """The arrays of a phase, round by round."""
    found: list[Mapping[str, Any]] = []
    if number in (2, 4):
        sculpted = [step.phase for step in phases.fit.trace if step.phase in (2, 4)]
        hulls = [hull for hull, phase in zip(phases.hulls, sculpted, strict=False) if phase == number]
        found = [
            {"histogram": one.histogram, "bins": one.bins, "spectrum": one.body.spectrum} for one in hulls
        ]
    elif number == 3:
        found = [one.series for one in phases.sums[1:]]
    elif number == 5 and phases.span is not None:
        found = [{"reach": phases.span.reach}]
    elif number == 6 and phases.net is not None and phases.net.grid is not None:
        found = [{"grid": phases.net.grid}]
    return [{name: np.asarray(one).tolist() for name, one in arrays.items() if len(one)} for arrays in found]

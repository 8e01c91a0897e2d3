"""One learner on one target over all seeds, summed up."""

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from statistics import median

from arena.records import Cell, Status
from attention.evaluation import percent

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

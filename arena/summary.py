"""Summaries of one learner on one target over all seeds, or on all targets of a kind."""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from arena.records import Cell, Status
from attention.evaluation import percent

__all__ = ["LEARNED", "NOTHING", "Summary", "Tally", "summarise"]

LEARNED = 1e-3
"""At or below this error on the unknown part the verdict is "learned"."""
NOTHING = 0.9
"""At or above this error on the unknown part the verdict is "nothing"."""


@dataclass(frozen=True)
class Summary:
    """One learner on one target over all seeds.

    Attributes
    ----------
    status : Status or None
        DONE if any fit applies to this target, otherwise the gravest status; None without a cell.
    error, error_min, error_max : float
        Median, least and largest error on the unknown part; infinite if not finite, NaN without a fit.
    examples, seconds : float
        Medians; NaN if there are no values.
    outcome : str
        The name of the most frequent outcome; empty without a fit.
    outcome_text : str
        Its sentence.
    error_rate_bound : float or None
        The largest one of the fits with this outcome, as in `attention.Fit`; None if it is no success.
    alone : str
        The part of the learner that did all the work in most fits, as in `attention.Fit`; else empty.
    seeds, done : int
        The number of cells, and the number of cells with a fit.
        message : str
        Why the first of the other cells has no fit.
    """

    status: Status | None = None
    error: float = math.nan
    error_min: float = math.nan
    error_max: float = math.nan
    examples: float = math.nan
    seconds: float = math.nan
    outcome: str = ""
    outcome_text: str = ""
    error_rate_bound: float | None = None
    alone: str = ""
    seeds: int = 0
    done: int = 0
    message: str = ""

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
    others = sorted((cell for cell in cells if not cell.fitted), key=_gravity)
    outcomes = Counter((cell.outcome, cell.outcome_text) for cell in cells if cell.outcome)
    outcome, text = outcomes.most_common(1)[0][0] if outcomes else ("", "")
    message = next((said for cell in others if (said := cell.message or cell.outcome_text)), "")
    if not done:
        status = others[0].status if others[0].status is not Status.DONE else Status.NOT_APPLICABLE
        return Summary(status, outcome=outcome, outcome_text=text, seeds=len(cells), message=message)
    alike = [cell for cell in done if cell.outcome == outcome]
    errors = [math.inf if cell.unknown_part_error is None else cell.unknown_part_error for cell in done]
    return Summary(
        Status.DONE,
        error=median(errors),
        error_min=min(errors),
        error_max=max(errors),
        examples=_median([cell.examples_used for cell in done]),
        seconds=_median([cell.seconds for cell in done]),
        outcome=outcome,
        outcome_text=text,
        error_rate_bound=max(
            (cell.error_rate_bound for cell in alike if cell.error_rate_bound is not None), default=None
        ),
        alone=Counter(cell.alone for cell in alike).most_common(1)[0][0],
        seeds=len(cells),
        done=len(done),
        message=message,
    )


def _gravity(cell: Cell) -> int:
    return -list(Status).index(cell.status)


def _median(values: Sequence[float | int | None]) -> float:
    there = [value for value in values if value is not None]
    return float(median(there)) if there else math.nan


@dataclass(frozen=True)
class Tally:
    """The verdicts on a learner over the targets of one kind."""

    learner: str  #: its title
    family: str  #: the kind, as `TargetRecord.group` names it
    targets: int  #: how many there are
    verdicts: dict[str, int]  #: how often each verdict was given, the most frequent first

    @property
    def text(self) -> str:
        """A text such as "3 of 5 learned", or the reason why no target has a number.

        Examples
        --------
        >>> Tally("Newton", "nice", 5, {"learned": 3, "partly": 2}).text, Tally("Adam", "nice", 5, {"failed": 5}).text
        ('3 of 5 learned', 'failed')
        """
        ran = [word for word in ("learned", "partly", "nothing") if word in self.verdicts]
        return (
            f"{self.verdicts.get('learned', 0)} of {self.targets} learned"
            if ran
            else next(iter(self.verdicts))
        )

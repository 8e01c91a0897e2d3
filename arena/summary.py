"""One learner on one target over all seeds, in a few numbers and one word."""

import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any

from arena._fields import finite_or_none

__all__ = ["BROKEN", "LEARNED", "NOTHING", "NOT_INSTALLED", "Summary", "package_missing", "summarise"]

LEARNED = 1e-3
"""At or below this error on the unknown part the short word is "learned"."""
NOTHING = 0.9
"""At or above this error on the unknown part the short word is "nothing"."""

BROKEN = ("failed", "timed out")
"""What becomes of a cell that did not come back, the graver first."""

NOT_INSTALLED = "not installed"
"""The short word where nothing but an optional package stands in the way."""

# the stored reason is all there is to tell by, so that results written earlier are told rightly too
_INSTALL = re.compile(r"pip install \S*attention-bounds\[")


@dataclass(frozen=True)
class Summary:
    """One learner on one target over all seeds.

    Attributes
    ----------
    status : {"done", "failed", "timed out", "not applicable", "missing"}
        "done" when any fit came back that speaks of this target, and "missing" when there is no cell. Otherwise
        "failed" when any cell failed, "timed out" when none failed and any ran out of time, else "not applicable".
    error, error_min, error_max : float or None
        Median, least and largest error on the unknown part. A fit whose error is not finite counts as
        infinite; None stands for infinite, and for no fit at all.
    examples, seconds : float or None
        Medians.
    outcomes : dict of str to int
        How often each outcome was seen, most frequent first.
    alone : str
        What did all the work in most fits of the most frequent outcome, as `attention.Fit` says; else empty.
    seeds, done : int
        How many cells there are, and how many of them are done.
    message : str
        The first message of a cell that failed or timed out; if none did, of one that does not apply.
    """

    status: str
    error: float | None = None
    error_min: float | None = None
    error_max: float | None = None
    examples: float | None = None
    seconds: float | None = None
    outcomes: dict[str, int] = field(default_factory=dict)
    alone: str = ""
    seeds: int = 0
    done: int = 0
    message: str = ""

    @property
    def verdict(self) -> str:
        """A short word: "learned", "partly", "nothing", or else what stands in the way of a number."""
        if self.status != "done":
            if self.status == "not applicable":
                return NOT_INSTALLED if package_missing(self.message) else "does not apply"
            return "not run" if self.status == "missing" else self.status
        if self.error is None or self.error >= NOTHING:
            return "nothing"
        return "learned" if self.error <= LEARNED else "partly"

    @property
    def outcome(self) -> str:
        """The most frequent outcome; empty when no fit came back."""
        return next(iter(self.outcomes), "")


def package_missing(reason: str) -> bool:
    """Whether the reason of a cell that does not apply is that an optional package is not installed.

    Examples
    --------
    >>> package_missing("Adam needs PyTorch: install the extra, pip install 'attention-bounds[torch]'.")
    True
    >>> package_missing("This is an attack on learning with rounding only.")
    False
    """
    return _INSTALL.search(reason) is not None


def summarise(cells: Sequence[Any]) -> Summary:
    """The summary of the cells (`arena.results.Cell`) of one target and one learner, one per seed."""
    if not cells:
        return Summary("missing")
    done = [cell for cell in cells if cell.status == "done" and cell.outcome != "NOT_APPLICABLE"]
    others = sorted((cell for cell in cells if cell not in done), key=_weight)
    message = next((text for cell in others if (text := cell.message or cell.outcome_text)), "")
    outcomes = Counter(cell.outcome for cell in cells if cell.outcome)
    if not done:
        status = others[0].status
        return Summary(
            status if status in BROKEN else "not applicable",
            outcomes=dict(outcomes.most_common()),
            seeds=len(cells),
            message=message,
        )
    errors = [math.inf if cell.unknown_part_error is None else cell.unknown_part_error for cell in done]
    examples = [cell.examples_used for cell in done if cell.examples_used is not None]
    seconds = [cell.seconds for cell in done if cell.seconds is not None]
    alone = Counter(cell.alone for cell in done if cell.outcome == outcomes.most_common(1)[0][0])
    return Summary(
        "done",
        error=finite_or_none(median(errors)),
        error_min=finite_or_none(min(errors)),
        error_max=finite_or_none(max(errors)),
        examples=float(median(examples)) if examples else None,
        seconds=float(median(seconds)) if seconds else None,
        outcomes=dict(outcomes.most_common()),
        alone=alone.most_common(1)[0][0] if alone else "",
        seeds=len(cells),
        done=len(done),
        message=message,
    )


def _weight(cell: Any) -> int:
    return BROKEN.index(cell.status) if cell.status in BROKEN else len(BROKEN)

"""How an attack ends, what it may spend, and the errors that end it without a prediction."""

from dataclasses import dataclass
from enum import Enum
from typing import ClassVar

from attention.validation import PositiveFloat, PositiveInt, checked

__all__ = [
    "AttackEndedError",
    "AttackOutcome",
    "Budget",
    "BudgetSpentError",
    "MissingError",
    "NotApplicableError",
    "RefusedError",
    "TooFewSamplesError",
]


class AttackOutcome(Enum):
    """How an attack ended; each value is a sentence a user can act on."""

    BROKEN = "Broken: all labels are predicted; with errors, as well as the secret itself would."
    PREDICTS = "In part: labels are predicted better than by chance."
    NOTHING = "Nothing found: labels are predicted no better than by chance."
    DISTINGUISHED = "Distinguished: the labels are told from random ones, but none is predicted."
    BUDGET_SPENT = "Out of budget: it was stopped before it had an answer; allow more seconds or memory."
    REFUSED = (
        "Refused: it needs more than it may spend, and was not begun; allow more, or take a smaller problem."
    )
    TOO_FEW_SAMPLES = "Too few samples: it needs more of them to say anything; give more."
    NOT_APPLICABLE = "Not of this kind: the attack is for other parameters."
    MISSING = "Missing: a package it needs is not installed."
    FAILED = "Failed: it broke down; the others are not affected."
    INTERRUPTED = "Interrupted: it was stopped from outside before it had an answer, or not begun any more."

    @property
    def succeeded(self) -> bool:
        """Whether something was learned about the labels."""
        return self in (AttackOutcome.BROKEN, AttackOutcome.PREDICTS, AttackOutcome.DISTINGUISHED)


@dataclass(frozen=True)
@checked
class Budget:
    """What an attack may spend."""

    #: wall-clock seconds, which attacks check from time to time; None for no limit
    seconds: PositiveFloat | None = 30.0
    memory: PositiveInt = 1 << 31  #: bytes that its largest tables may take


class AttackEndedError(RuntimeError):
    """An attack ends without a prediction; the error has the outcome, and its text is the explanation."""

    outcome: ClassVar[AttackOutcome]


class BudgetSpentError(AttackEndedError):
    """No time is left."""

    outcome = AttackOutcome.BUDGET_SPENT


class RefusedError(BudgetSpentError):
    """The attack needs more than its budget: it does not start, or stops as soon as this is known."""

    outcome = AttackOutcome.REFUSED


class NotApplicableError(AttackEndedError):
    """The attack does not apply to these parameters."""

    outcome = AttackOutcome.NOT_APPLICABLE


class TooFewSamplesError(AttackEndedError):
    """The attack needs more samples."""

    outcome = AttackOutcome.TOO_FEW_SAMPLES


class MissingError(AttackEndedError):
    """A package is not installed."""

    outcome = AttackOutcome.MISSING

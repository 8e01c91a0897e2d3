"""How an attack ends, and what it may spend."""

from dataclasses import dataclass
from enum import Enum

from attention.validation import PositiveFloat, PositiveInt, checked

__all__ = ["AttackEndedError", "AttackOutcome", "Budget"]


class AttackOutcome(Enum):
    """How an attack ended; each value is a sentence a user can act on."""

    BROKEN = "Broken: all labels are predicted; with errors, as well as the secret itself would."
    PREDICTS = "In part: labels are predicted better than by chance."
    NOTHING = "Nothing found: labels are predicted no better than by chance."
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
        return self in (AttackOutcome.BROKEN, AttackOutcome.PREDICTS)


@dataclass(frozen=True)
@checked
class Budget:
    """What an attack may spend."""

    #: wall-clock seconds, which attacks check from time to time; None for no limit
    seconds: PositiveFloat | None = 30.0
    memory: PositiveInt = 1 << 31  #: bytes that its largest tables may take


class AttackEndedError(RuntimeError):
    """An attack ends, with what it has yielded before; the outcome is that of an attack that had no success."""

    def __init__(self, outcome: AttackOutcome, explanation: str) -> None:
        super().__init__(explanation)
        self.outcome = outcome

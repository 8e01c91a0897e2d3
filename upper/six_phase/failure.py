"""How a phase says that it failed, and why."""

from typing import Literal

from attention import Outcome

__all__ = ["Cause", "PhaseFailedError"]

Cause = Literal["sum", "agreement", "contradiction", "margin", "refinement", "gap", "net", "budget"]
_OUTCOMES = {
    "sum": Outcome.NO_PROJECTION_SUM,
    "agreement": Outcome.NO_AGREEMENT,
    "contradiction": Outcome.CONTRADICTION,
    "margin": Outcome.NO_LARGE_MARGIN,
    "refinement": Outcome.NOT_REFINED,
    "gap": Outcome.NO_SPECTRAL_GAP,
    "net": Outcome.NET_TOO_COARSE,
    "budget": Outcome.EXAMPLES_SPENT,
}


class PhaseFailedError(ArithmeticError):
    """A phase found that it cannot do its work on these examples; `SixPhase` makes an outcome of it.

    Attributes
    ----------
    cause : str
        "sum", "agreement", "contradiction", "margin", "refinement", "gap", "net" or "budget".
    explanation : str
        What was found, with figures.
    """

    def __init__(self, cause: Cause, explanation: str) -> None:
        super().__init__(explanation)
        self.cause, self.explanation = cause, explanation

    @property
    def outcome(self) -> Outcome:
        """The outcome of a fit that ends so."""
        return _OUTCOMES[self.cause]

"""How hard the students of a comparison try, by name of a preset."""

from collections.abc import Mapping
from dataclasses import dataclass

from attention.validation import one_of

__all__ = ["PRESETS", "Effort", "choose_effort"]


@dataclass(frozen=True)
class Effort:
    """How hard the students try, in steps and passes, so that results do not depend on the machine.

    Attributes
    ----------
    adam_steps, adam_steps_hard : int
        Steps of Adam on nice and on hard targets; of gradient descent, and of each setting of the tuned Adam, too.
    adam_tolerance : float
        The error at which those stop.
    newton_passes, newton_passes_hard : int
        Passes over the data for Newton, and for L-BFGS, on nice and on hard targets.
    seeds : int
        How many seeds unless the caller says.
    six_phase_accept, six_phase_accept_hard : float or None
        The share of rows the six-phase learners certify on nice and on hard targets: they look at so many the more rows
        the smaller it is. None as the learner has it.
    six_phase_tuples : int or None
        Tuples of the net in paper mode; None as the learner has it.
    """

    adam_steps: int
    adam_steps_hard: int
    adam_tolerance: float
    newton_passes: int
    newton_passes_hard: int
    seeds: int
    six_phase_accept: float | None = None
    six_phase_accept_hard: float | None = None
    six_phase_tuples: int | None = None


PRESETS: Mapping[str, Effort] = {
    "quick": Effort(
        adam_steps=1500,
        adam_steps_hard=4000,
        adam_tolerance=1e-4,
        newton_passes=20_000,
        newton_passes_hard=3000,
        seeds=1,
        six_phase_accept_hard=0.05,
        six_phase_tuples=50_000,
    ),
    "full": Effort(
        adam_steps=8000,
        adam_steps_hard=12_000,
        adam_tolerance=0.0,
        newton_passes=50_000,
        newton_passes_hard=20_000,
        seeds=3,
    ),
}
"""Effort by name: quick shows the picture within a minute or two, full lets Adam reach its floor."""


def choose_effort(preset: str) -> Effort:
    """The effort of a preset.

    Raises
    ------
    ValueError
        If the preset is not known.
    """
    one_of("preset", preset, tuple(PRESETS))
    return PRESETS[preset]

"""Attacks by name: those of `lwe.ATTACKS`, and learners of attention layers as attacks."""

from collections.abc import Mapping

import lwe
import upper
from arena.names import find_names
from attention.validation import checked
from lwe import Attack, LearnerAttack

__all__ = ["ATTACKS", "choose_attacks"]

ATTACKS: Mapping[str, Attack] = {
    **lwe.ATTACKS,
    "newton": LearnerAttack(lambda heads: upper.Newton(heads=heads, examples=4000, work=3000), name="newton"),
    "adam": LearnerAttack(
        lambda heads: upper.GradientDescent(heads=heads, batch=512, work=4000, learning_rate=0.01),
        name="adam",
    ),
    # its theorem assumes uniform tokens
    "six-phase": LearnerAttack(
        lambda heads: upper.SixPhase(heads=heads), on_gate_only=False, name="six-phase"
    ),
}
"""The registry `lwe.ATTACKS` with three learners of attention layers, in the order of tables."""


@checked
def choose_attacks(names: str | None = None) -> list[Attack]:
    """The attacks in a comma-separated list of names; if None, all attacks that are not learners.

    ValueError if a name is not known, or none is given.

    Examples
    --------
    >>> [attack.title for attack in choose_attacks("least-squares, BKW")]
    ['Least squares', 'BKW']
    """
    if names is None:
        return list(lwe.ATTACKS.values())
    return [ATTACKS[name] for name in find_names(names, ATTACKS, "attack")]

"""Attacks by name: those of `lwe.ATTACKS`, and learners of attention layers as attacks."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import lwe
import upper
from arena.engines import require_setting, with_settings
from arena.names import find_names
from attention.validation import checked
from lwe import Attack, LearnerAttack

__all__ = ["ATTACKS", "attacks_with", "choose_attacks"]

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

    Raises
    ------
    ValueError
        If a name is not known, or none is given.

    Examples
    --------
    >>> [attack.title for attack in choose_attacks("least-squares, BKW")]
    ['Least squares', 'BKW']
    """
    if names is None:
        return list(lwe.ATTACKS.values())
    return [ATTACKS[name] for name in find_names(names, ATTACKS, "attack")]


def attacks_with(attacks: Sequence[Attack], settings: Mapping[str, Any]) -> list[Attack]:
    """The attacks; learners with such settings, an engine or a device, have the given ones.

    Raises
    ------
    ValueError
        If no learner is among them that has such a setting.
    """

    def changed(attack: Attack) -> Attack:
        if not settings or not isinstance(attack, LearnerAttack):
            return attack
        given = attack.learner
        learner = (lambda heads: with_settings(given(heads), settings)) if callable(given) else given
        return replace(attack, learner=learner if callable(given) else with_settings(given, settings))

    own = [attack.learner for attack in attacks if isinstance(attack, LearnerAttack)]
    require_setting([learner(1) if callable(learner) else learner for learner in own], settings, "attacks")
    return [changed(attack) for attack in attacks]

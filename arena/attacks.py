"""Attacks by name: those of `lwe.ATTACKS`, and learners of attention layers as attacks."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import lwe
import upper
from arena.engines import placed
from arena.names import find_names
from attention.validation import checked
from lwe import Attack, LearnerAttack

__all__ = ["ATTACKS", "choose_attacks", "learners_on_engine"]

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


def learners_on_engine(
    attacks: Sequence[Attack], *, engine: str | None = None, device: str | None = None
) -> list[Attack]:
    """The attacks; learners that let one choose an engine or a device are built with the given choice.

    Raises
    ------
    ValueError
        If none of them is a learner with such a choice.
    """
    could = {"engine": ("newton",), "device": ("newton", "adam")}
    asked = {name: value for name, value in (("engine", engine), ("device", device)) if value is not None}
    for name in asked:
        if not any(attack.name in could[name] for attack in attacks):
            raise ValueError(
                f"None of these attacks has a choice of {name}, which {' and '.join(could[name])} have: leave it out."
            )

    def placed_attack(attack: Attack) -> Attack:
        if not asked or not isinstance(attack, LearnerAttack):
            return attack
        learner = attack.learner
        made = (lambda heads: placed(learner(heads), asked)) if callable(learner) else placed(learner, asked)
        return replace(attack, learner=made)

    return [placed_attack(attack) for attack in attacks]

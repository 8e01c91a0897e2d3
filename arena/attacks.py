"""Attacks by name: those of `lwe.attacks`, and learners of attention layers as attacks."""

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import lwe.attacks
import upper
from arena.engines import asked_settings, placed
from arena.names import find_names
from attention.validation import checked
from lwe import Attack, LWEParameters
from lwe.costs.deviations import deviations

__all__ = ["ATTACKS", "AttackKind", "choose_attacks", "learners_on_engine"]

_MOST_HEADS = 64


@dataclass(frozen=True)
class AttackKind:
    """An attack by name."""

    name: str  #: what the command line calls it
    title: str  #: what a table calls it
    build: Callable[[LWEParameters], Attack]  #: builds it for the parameters of the problem
    learner: bool = False  #: whether it is a learner of attention layers that runs on the samples


@checked
def choose_attacks(names: str | None = None) -> list[AttackKind]:
    """The attacks in a comma-separated list of names; if None, all attacks that are not learners.

    Raises
    ------
    ValueError
        If a name is not known, or none is given.

    Examples
    --------
    >>> [kind.title for kind in choose_attacks("least-squares, BKW")]
    ['Least squares', 'BKW']
    """
    if names is None:
        return [kind for kind in ATTACKS.values() if not kind.learner]
    return [ATTACKS[name] for name in find_names(names, ATTACKS, "attack")]


def learners_on_engine(
    kinds: Sequence[AttackKind], *, engine: str | None = None, device: str | None = None
) -> list[AttackKind]:
    """The attacks; learners that let one choose an engine or a device are built with the given choice.

    Raises
    ------
    ValueError
        If none of them is a learner with such a choice.
    """
    asked = asked_settings(engine, device)
    could = {"engine": ("newton",), "device": ("newton", "adam")}
    for name in asked:
        if not any(kind.name in could[name] for kind in kinds):
            raise ValueError(
                f"None of these attacks has a choice of {name}, which {' and '.join(could[name])} have: leave it out."
            )
    return [_placed(kind, asked) if asked and kind.learner else kind for kind in kinds]


def _placed(kind: AttackKind, settings: Mapping[str, str]) -> AttackKind:
    def build(parameters: LWEParameters) -> Attack:
        attack = kind.build(parameters)
        assert isinstance(attack, lwe.LearnerAttack)
        return replace(attack, learner=placed(attack.learner, settings))

    return replace(kind, build=build)


def _plain(name: str, attack: type[Attack]) -> AttackKind:
    return AttackKind(name, attack().title, lambda parameters: attack())


def _learner(name: str, title: str, build: Callable[[int], Attack]) -> AttackKind:
    return AttackKind(name, title, lambda parameters: build(_heads(parameters)), learner=True)


def _heads(parameters: LWEParameters) -> int:
    """More heads than the layer has on average, p E|v|_1 / q and two pads, but no more than a learner can train."""
    size = 0.25 if parameters.gadget else min(0.25, deviations(parameters).secret / parameters.q)
    return min(_MOST_HEADS, max(16, math.ceil(1.25 * parameters.p * parameters.covariates * size) + 4))


ATTACKS: Mapping[str, AttackKind] = {
    kind.name: kind
    for kind in (
        *itertools.starmap(_plain, lwe.attacks.ATTACKS.items()),
        _learner(
            "newton", "Newton", lambda m: lwe.LearnerAttack(upper.Newton(heads=m, examples=4000, work=3000))
        ),
        _learner(
            "adam",
            "Adam",
            lambda m: lwe.LearnerAttack(
                upper.GradientDescent(heads=m, batch=512, work=4000, learning_rate=0.01)
            ),
        ),
        # its theorem assumes uniform tokens
        _learner(
            "six-phase", "Six-phase", lambda m: lwe.LearnerAttack(upper.SixPhase(heads=m), on_gate_only=False)
        ),
    )
}
"""Every attack by name, in the order of the table: those of `lwe.attacks`, then learners of attention layers."""

"""Attacks by name: those of `lwe.attacks`, and learners of attention layers as attacks."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from arena.engines import asked_settings, placed
from attention.validation import require_instance
from lwe import Attack, LWRParameters
from lwe.attacks import (
    AroraGeAttack,
    BKWAttack,
    DualAttack,
    EliminationAttack,
    ExhaustiveAttack,
    LatticeAttack,
    LearnerAttack,
    LeastSquaresAttack,
    LinearisationAttack,
    MeetInTheMiddleAttack,
)
from lwe.costs import deviations
from upper import Adam, Newton
from upper.six_phase import SixPhase

__all__ = ["ATTACKS", "AttackKind", "choose_attacks", "learners_on_engine"]

_MOST_HEADS = 64


@dataclass(frozen=True)
class AttackKind:
    """An attack by name.

    Attributes
    ----------
    name, title : str
        What the command line calls it, and what a table does.
    reach : str
        What it is known to break, and by whom: a sentence.
    build : callable
        Makes it, with options of its own, for the parameters of what it attacks.
    learner : bool
        Whether it is a learner of attention layers that is handed samples.
    """

    name: str
    title: str
    reach: str
    build: Callable[[LWRParameters], Attack]
    learner: bool = False


def choose_attacks(names: str | None = None) -> list[AttackKind]:
    """The attacks in a comma-separated list of names; all that are no learners if None.

    Raises
    ------
    ValueError
        If a name is not known, or none is given.

    Examples
    --------
    >>> [kind.title for kind in choose_attacks("least-squares, bkw")]
    ['Least squares', 'BKW']
    """
    if names is not None:
        require_instance("names", names, str, needed="a text with commas")
    if names is None:
        return [kind for kind in ATTACKS.values() if not kind.learner]
    wanted = list(dict.fromkeys(part.strip() for part in names.split(",") if part.strip()))
    unknown = [name for name in wanted if name not in ATTACKS]
    if unknown or not wanted:
        given = f"{unknown[0]!r} is no attack" if unknown else "No attack is named"
        raise ValueError(f"{given}: choose among {', '.join(ATTACKS)}.")
    return [ATTACKS[name] for name in wanted]


def learners_on_engine(
    kinds: Sequence[AttackKind], *, engine: str | None = None, device: str | None = None
) -> list[AttackKind]:
    """The attacks, those that are learners with a choice of engine or device made with what is asked.

    Raises
    ------
    ValueError
        If none of them is a learner that has such a choice.
    """
    asked = asked_settings(engine, device)
    could = {"engine": ("newton",), "device": ("newton", "adam")}
    for name in asked:
        if not any(kind.name in could[name] for kind in kinds):
            raise ValueError(
                f"None of these attacks has a choice of {name}, which {' and '.join(could[name])} have: leave it out."
            )
    return [
        replace(kind, build=partial(_placed, kind.build, asked)) if asked and kind.learner else kind
        for kind in kinds
    ]


def _placed(
    build: Callable[[LWRParameters], Attack], settings: Mapping[str, str], parameters: LWRParameters
) -> Attack:
    attack = build(parameters)
    if not isinstance(attack, LearnerAttack):
        return attack
    return replace(attack, learner=placed(attack.learner, settings))


def _always(make: Callable[[], Attack], parameters: LWRParameters) -> Attack:
    return make()


def _newton(parameters: LWRParameters) -> Attack:
    return LearnerAttack(Newton(m=_heads(parameters), examples=4000, work=3000))


def _adam(parameters: LWRParameters) -> Attack:
    return LearnerAttack(Adam(m=_heads(parameters), batch=512, work=4000, learning_rate=0.01))


def _six_phase(parameters: LWRParameters) -> Attack:
    # its theorem is for uniform tokens
    return LearnerAttack(SixPhase(m=_heads(parameters)), on_gate_only=False)


def _heads(parameters: LWRParameters) -> int:
    """More than the layer has on average, p E|v|_1 / q and two pads, within what a learner can move."""
    size = 0.25 if parameters.gadget else min(0.25, deviations(parameters).secret / parameters.modulus)
    return min(_MOST_HEADS, max(16, math.ceil(1.25 * parameters.levels * parameters.covariates * size) + 4))


ATTACKS: Mapping[str, AttackKind] = {
    kind.name: kind
    for kind in (
        AttackKind(
            "least-squares",
            "Least squares",
            "Every coordinate where the inner product spans less than q, so that nothing wraps around.",
            partial(_always, LeastSquaresAttack),
        ),
        AttackKind(
            "exhaustive",
            "Exhaustive",
            "Secrets of few candidates: some 2^36 at most.",
            partial(_always, ExhaustiveAttack),
        ),
        AttackKind(
            "meet-in-the-middle",
            "Meet in the middle",
            "Secrets of few candidates, about the square root of exhaustive search's time.",
            partial(_always, MeetInTheMiddleAttack),
        ),
        AttackKind(
            "elimination",
            "Elimination",
            "Noise-free parities, q = 2, of any size.",
            partial(_always, EliminationAttack),
        ),
        AttackKind(
            "linearisation",
            "Linearisation",
            "q a power of two and q/p small: the lowest bit of the label is a polynomial of degree q/p over GF(2).",
            partial(_always, LinearisationAttack),
        ),
        AttackKind(
            "arora-ge",
            "Arora-Ge",
            "Errors from a small set, or few residues a label, q prime: linear equations in products of the secret.",
            partial(_always, AroraGeAttack),
        ),
        AttackKind(
            "bkw",
            "BKW",
            "Learning parity with noise, with about 2^(n / log n) samples.",
            partial(_always, BKWAttack),
        ),
        AttackKind(
            "lattice",
            "Primal lattice",
            "Errors small against q and moderate n: LLL and BKZ on the embedding.",
            partial(_always, LatticeAttack),
        ),
        AttackKind(
            "dual",
            "Dual lattice",
            "The same, by telling labels from random ones: it finds no secret.",
            partial(_always, DualAttack),
        ),
        AttackKind(
            "newton",
            "Newton",
            "A learner of attention layers, given the samples as examples; no theorem.",
            _newton,
            learner=True,
        ),
        AttackKind(
            "adam",
            "Adam",
            "A learner of attention layers, given the samples as examples; no theorem.",
            _adam,
            learner=True,
        ),
        AttackKind(
            "six-phase",
            "Six-phase",
            "A learner of attention layers, given the samples as examples; its theorem is for nice ones.",
            _six_phase,
            learner=True,
        ),
    )
}
"""Every attack by name, in the order of the table."""

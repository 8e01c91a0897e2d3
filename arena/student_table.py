"""The table of students: what each is called, what it guarantees, and how it is set up for a target."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from arena.effort import Effort
from arena.records import LearnerRecord
from arena.targets import Target
from attention import Learner
from lwe import Attack, AttackLearner, LatticeAttack, LinearisationAttack, describe_instance
from sq import ParityElimination
from upper import (
    LBFGS,
    SGD,
    Adam,
    FrozenAttention,
    KnownPart,
    LinearBaseline,
    Newton,
    OneGradientStep,
    TunedAdam,
)
from upper.linear_attention.features import softmax_feature_count
from upper.linear_attention.learner import LinearAttentionLearner
from upper.linear_attention.least_squares import require_feature_memory
from upper.six_phase import SixPhase

__all__ = ["STUDENTS", "DoesNotApplyError", "Student"]

_MOST_HEADS_ON_HARD_TARGETS = 8
_LATTICE = partial(LatticeAttack, largest_block=40, rounds=3)  # some twenty seconds at most at n = 24


class DoesNotApplyError(ValueError):
    """A specialised learner was asked for on a target it is not for."""


@dataclass(frozen=True)
class Student:
    """A learner by name.

    Attributes
    ----------
    name, title : str
        What the command line calls it, and what the page does.
    guarantee : str
        What is promised, and by whom.
    build : callable
        Sets the learner up for a target with an effort; raises `DoesNotApplyError` where it is not for the target.
    proper : bool
        Whether its fit is an attention layer, which can be saved.
    extra : str
        The optional dependency it needs, if any.
    by_default : bool
        Whether it runs where no learner is named.
    cost : float
        How long it takes beside others; 0 for milliseconds.
    """

    name: str
    title: str
    guarantee: str
    build: Callable[[Target, Effort], Learner]
    proper: bool = True
    extra: str = ""
    by_default: bool = True
    cost: float = 0.0

    def record(self, learners: Sequence[Learner]) -> LearnerRecord:
        """What the results remember: the parameters all its set-ups share, and the range of the others."""
        values: dict[str, list[Any]] = {}
        for learner in learners:
            for field in dataclasses.fields(learner):  # type: ignore[arg-type]
                value = getattr(learner, field.name)
                if value is None or isinstance(value, bool | int | float | str):
                    values.setdefault(field.name, []).append(value)
        parameters = {
            name: seen[0]
            if all(one == seen[0] for one in seen)
            else ", ".join(map(str, seen)) + " (target by target)"
            for name, seen in values.items()
        }
        return LearnerRecord(self.name, self.title, self.guarantee, parameters)


def _heads(target: Target) -> int:
    # on hard targets a student of as many heads as the target would only be slower
    return (
        min(target.layer.heads, _MOST_HEADS_ON_HARD_TARGETS)
        if target.instance is not None
        else target.layer.heads
    )


def _newton(target: Target, effort: Effort) -> Learner:
    work = effort.newton_passes_hard if target.instance is not None else effort.newton_passes
    return Newton(m=_heads(target), work=work)


def _adam(target: Target, effort: Effort) -> Learner:
    work = effort.adam_steps_hard if target.instance is not None else effort.adam_steps
    return Adam(m=_heads(target), work=work, tolerance=effort.adam_tolerance)


def _tuned_adam(target: Target, effort: Effort) -> Learner:
    steps = effort.adam_steps_hard if target.instance is not None else effort.adam_steps
    lengths = (max(1, steps // 3), steps)
    grid = TunedAdam(
        m=_heads(target), lengths=lengths, schedules=("cosine",), tolerance=effort.adam_tolerance
    )
    return replace(grid, work=sum(setting.work for setting in grid.settings()))


def _sgd(target: Target, effort: Effort) -> Learner:
    steps = effort.adam_steps_hard if target.instance is not None else effort.adam_steps
    return SGD(m=_heads(target), work=steps, tolerance=effort.adam_tolerance)


def _lbfgs(target: Target, effort: Effort) -> Learner:
    work = effort.newton_passes_hard if target.instance is not None else effort.newton_passes
    return LBFGS(m=_heads(target), work=work)


def _frozen_attention(target: Target, effort: Effort) -> Learner:
    return FrozenAttention()


def _one_step(target: Target, effort: Effort) -> Learner:
    return OneGradientStep()


def _six_phase(target: Target, effort: Effort) -> Learner:
    work = effort.newton_passes_hard if target.instance is not None else effort.newton_passes
    return SixPhase(m=_heads(target), accept=_accept(target, effort), work=work)


def _six_phase_paper(target: Target, effort: Effort) -> Learner:
    return SixPhase(
        m=_heads(target), mode="paper", accept=_accept(target, effort), work=effort.six_phase_tuples
    )


def _accept(target: Target, effort: Effort) -> float | None:
    return effort.six_phase_accept_hard if target.instance is not None else effort.six_phase_accept


def _linear_attention(target: Target, effort: Effort) -> Learner:
    # the best of the three sets on softmax targets
    try:
        require_feature_memory(softmax_feature_count("cent", target.layer.dim))
    except ValueError as error:
        raise DoesNotApplyError(
            f"Regression on cubic features is for tokens of some two dozen dimensions at most. {error}"
        ) from None
    return LinearAttentionLearner("cent")


def _linear(target: Target, effort: Effort) -> Learner:
    return LinearBaseline()


def _known_part(target: Target, effort: Effort) -> Learner:
    return KnownPart(None if target.instance is None else target.instance.known)


def _elimination(target: Target, effort: Effort) -> Learner:
    if target.instance is None or target.record.kind != "parity":
        raise DoesNotApplyError(
            "Gaussian elimination is an attack on hidden parities only: of two tokens, behind a gate that is known."
        )
    return ParityElimination.for_instance(target.instance)


def _attack(make: Callable[[], Attack], target: Target, effort: Effort) -> Learner:
    if target.instance is None or target.instance.family != "lwr":
        raise DoesNotApplyError("This is an attack on learning with rounding only.")
    return AttackLearner(make(), describe_instance(target.instance).parameters)


STUDENTS: Mapping[str, Student] = {
    student.name: student
    for student in (
        Student(
            "newton",
            "Newton",
            "No theorem. Measured: on nice random layers one random start at four times the counting floor of "
            "examples "
            "ends at rounding error.",
            _newton,
            cost=2.0,
        ),
        Student(
            "adam",
            "Adam",
            "No theorem. Measured: it solves nice layers too, with hundreds of times the examples, and float32 stops "
            "it near 2e-7.",
            _adam,
            cost=4.0,
            extra="torch",
        ),
        Student(
            "six-phase",
            "Six-phase",
            "Phases 1 to 5 after Chen and Li, with improvements derived here, and Newton at the end: no theorem "
            "for the "
            "whole. Measured: it ends at rounding error on nice layers of up to four heads.",
            _six_phase,
        ),
        Student(
            "six-phase-paper",
            "Six-phase (paper)",
            "Proved by Chen and Li under non-degeneracy conditions: time (dk)^O(m^3), squared error "
            "(kd)^-Omega(m), for "
            "constants of theirs. With ours it is measured only; a phase that cannot do its work says so.",
            _six_phase_paper,
        ),
        Student(
            "linear",
            "Linear baseline",
            "Exact least squares: no predictor linear in the token and the mean token does better on the examples.",
            _linear,
            proper=False,
        ),
        Student(
            "known-part",
            "Known part",
            "By definition at 1.0: it predicts what is known in advance and nothing else.",
            _known_part,
            proper=False,
        ),
        Student(
            "elimination",
            "Elimination",
            "Proved: noise-free hidden parities fall to Gaussian elimination over GF(2) from about 2 (d + 9) "
            "examples, "
            "with probability above .998. It is no statistical-query algorithm and knows the family.",
            _elimination,
        ),
        Student(
            "linearisation",
            "Linearisation",
            "Proved for q and p powers of two: the lowest bit of a rounded label is a polynomial of degree q/p over "
            "GF(2), and falls to elimination once there are as many examples as monomials. It knows the family.",
            partial(_attack, LinearisationAttack),
        ),
        Student(
            "lattice",
            "Lattice",
            "No theorem. Measured: LLL and BKZ find secrets of moderate size where rounding is fine. It knows the "
            "family; that it fails is no claim of security.",
            partial(_attack, _LATTICE),
            extra="fpylll",
        ),
        # baselines, which run when they are named: side by side they take longer than all the others
        Student(
            "tuned-adam",
            "Tuned Adam",
            "No theorem. The best of six settings of Adam, with the cost of all six: what Adam costs who has to find "
            "them.",
            _tuned_adam,
            cost=8.0,
            extra="torch",
            by_default=False,
        ),
        Student(
            "sgd",
            "SGD",
            "No theorem. Gradient descent with momentum: as fast as Adam (measured), if the rate suits the dimension.",
            _sgd,
            cost=3.0,
            by_default=False,
        ),
        Student(
            "l-bfgs",
            "L-BFGS",
            "No theorem. Measured: on most nice layers it ends at rounding error, with twice Newton's examples and "
            "several times its passes.",
            _lbfgs,
            cost=6.0,
            by_default=False,
        ),
        Student(
            "frozen-attention",
            "Frozen attention",
            "The best projections of 64 random heads that stay as they are, by ridge regression: a convex problem, "
            "exactly solved.",
            _frozen_attention,
            by_default=False,
        ),
        Student(
            "one-step",
            "One step",
            "Phase 1 of Chen and Li as the first step of training: an estimate of the sum of the projections, with a "
            "bias that stays.",
            _one_step,
            by_default=False,
        ),
        Student(
            "linear-attention",
            "Linear attention",
            "Exact least squares on cubic features, with tokens centred: no linear attention of that form does better "
            "on the examples. On softmax attention that is no claim to learn it.",
            _linear_attention,
            proper=False,
            by_default=False,
        ),
    )
}
"""Every student by name, in the order of the table; baselines that are not `by_default` run when they are named."""

"""The table of learners: the name, the guarantee and the set-up of each for a target and its budgets."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import lwe
import sq
import upper
from arena.records import LearnerRecord
from arena.target import Target
from attention import Learner, RotaryLayer
from attention.foreign import printable
from attention.learning import access_of
from runs.figures import line_look

_MOST_HEADS_ON_HARD_TARGETS = 8


class DoesNotApplyError(ValueError):
    """A specialised learner does not apply to the target."""


@dataclass(frozen=True)
class Budgets:
    """The budgets of the learners, so that results do not depend on the machine.

    The pairs are for targets without and with a secret; None keeps the learner's default.
    """

    steps: tuple[int, int]  #: of Adam and of gradient descent
    tolerance: float  #: the error at which these learners stop
    passes: tuple[int, int]  #: over the data for Newton, for L-BFGS and for the last of the six phases
    seeds: int  #: the default number of seeds
    #: the share of rows that the six-phase learners certify; the smaller, the more rows they examine
    accept: tuple[float | None, float | None] = (None, None)
    tuples: int | None = None  #: of the net of the six phases in paper mode


PRESETS: Mapping[str, Budgets] = {
    "quick": Budgets((1500, 4000), 1e-4, (20_000, 3000), seeds=1, accept=(None, 0.05), tuples=50_000),
    "full": Budgets((8000, 12_000), 0.0, (50_000, 20_000), seeds=3),
}
"""Budgets by name: quick gives an overview within a minute or two, full lets Adam reach its floor."""


@dataclass(frozen=True)
class LearnerEntry:
    """A learner by name."""

    name: str  #: on the command line
    title: str  #: on the page
    guarantee: str  #: and its source
    #: sets the learner up for a target within budgets; raises `DoesNotApplyError` if it does not apply to the target
    build: Callable[[Target, Budgets], Learner]
    proper: bool = True  #: whether its fit is an attention layer, so that it can be saved
    extra: str = ""  #: the optional dependency that it needs, if any
    by_default: bool = True  #: whether it runs if no learner is named
    #: about how many seconds it takes on a nice target and on a hard instance, at the sizes of `compare`; 0 for
    #: milliseconds; progress estimates the time left by them
    costs: tuple[float, float] = (0.0, 0.0)

    def __post_init__(self) -> None:
        object.__setattr__(self, "name", printable(self.name))

    def record(self, learners: Sequence[Learner]) -> LearnerRecord:
        """The record for the results: the parameters that all set-ups share, and the range of the others."""
        values: dict[str, list[Any]] = {}
        for learner in learners:
            for field in dataclasses.fields(learner):  # type: ignore[arg-type]
                value = getattr(learner, field.name)
                if value is None or isinstance(value, bool | int | float | str):
                    values.setdefault(field.name, []).append(value)
        parameters = {
            name: own[0]
            if own.count(own[0]) == len(own)
            else f"{', '.join(map(str, own))} (target by target)"
            for name, own in values.items()
        }
        access = access_of(learners[0] if learners else None)
        return LearnerRecord(self.name, self.title, self.guarantee, parameters, access)


def _is_hard(target: Target) -> bool:
    return target.instance is not None


def _without_positions(target: Target) -> Target:
    if isinstance(target.layer, RotaryLayer) and (target.layer.frequencies > 0).any():
        raise DoesNotApplyError(
            "The learner fits no positions, and the layer's are rotary: take the learner named rotary."
        )
    return target


def _heads(target: Target) -> int:
    # on hard targets as many heads as the target has would only be slower
    heads = _without_positions(target).layer.heads
    return min(heads, _MOST_HEADS_ON_HARD_TARGETS) if _is_hard(target) else heads


def _newton(target: Target, budgets: Budgets) -> Learner:
    heads, layer = _heads(target), target.layer
    work = budgets.passes[_is_hard(target)]
    return upper.Newton(heads, work=work, biases=layer.biased, causal=layer.causal)


def _descent(target: Target, budgets: Budgets, **settings: Any) -> Learner:
    work = budgets.steps[_is_hard(target)]
    return upper.GradientDescent(_heads(target), work=work, tolerance=budgets.tolerance, **settings)


def _six_phase(target: Target, budgets: Budgets, *, paper: bool = False) -> Learner:
    heads, accept = _heads(target), budgets.accept[_is_hard(target)]
    if target.layer.biased:
        raise DoesNotApplyError(
            "The six phases are for layers without biases, as the theorem is: drop the biases or take Newton."
        )
    if paper:
        return upper.SixPhase(heads=heads, mode="paper", accept=accept, work=budgets.tuples)
    return upper.SixPhase(heads=heads, accept=accept, work=budgets.passes[_is_hard(target)])


def _linear_attention(target: Target, budgets: Budgets) -> Learner:
    from upper.linear_attention.features import softmax_feature_count
    from upper.linear_attention.least_squares import require_feature_memory

    # the best of the three sets on softmax targets
    try:
        require_feature_memory(softmax_feature_count("cent", target.layer.dim))
    except ValueError as error:
        raise DoesNotApplyError(
            f"Regression on cubic features is for tokens of some two dozen dimensions at most. {error}"
        ) from None
    return upper.LinearAttentionLearner("cent")


def _elimination(target: Target, budgets: Budgets) -> Learner:
    if target.instance is None or target.kind != "parity":
        raise DoesNotApplyError(
            "Gaussian elimination is an attack on hidden parities only: of two tokens, behind a gate that is known."
        )
    return sq.ParityElimination.for_instance(target.instance)


def _lattice(target: Target, budgets: Budgets) -> Learner:
    if target.instance is not None and target.kind == "periodic":
        return sq.PeriodicLattice.for_instance(target.instance)
    # at most about twenty seconds at n = 24
    return _attack(target, lwe.LatticeAttack(largest_block=40, rounds=3))


def _attack(target: Target, attack: lwe.Attack, *, examples: int | None = None) -> Learner:
    if target.instance is None or target.block or not isinstance(target.instance.family, lwe.LWRFamily):
        raise DoesNotApplyError(
            "This is an attack on learning with rounding only; lattices also attack periodic waves."
        )
    return lwe.AttackLearner(attack, target.instance.family.parameters, examples)


def _by_queries(target: Target, budgets: Budgets) -> Learner:
    _without_positions(target)
    return upper.ByQueries()


def _block(target: Target, budgets: Budgets) -> Learner:
    if target.inputs.tokens == 1 or target.layer.dim < 4:
        raise DoesNotApplyError(
            "The learner of blocks asks two tokens or more, of four coordinates at least."
        )
    _without_positions(target)
    return upper.BlockByQueries()


def _rotary(target: Target, budgets: Budgets) -> Learner:
    if target.layer.dim < 4:
        raise DoesNotApplyError("The learner of rotary positions needs four coordinates at least.")
    return upper.RotaryByQueries()


_ENTRIES = (
    LearnerEntry(
        "newton",
        "Newton",
        "No theorem. Measured: on nice random layers one random start at four times the counting floor of examples "
        "ends at rounding error.",
        _newton,
        costs=(1.0, 10.0),
    ),
    LearnerEntry(
        "adam",
        "Adam",
        "No theorem. Measured: it solves nice layers too, with hundreds of times the examples, and float32 stops it "
        "near 2e-7.",
        _descent,
        costs=(5.0, 24.0),
        extra="torch",
    ),
    LearnerEntry(
        "six-phase",
        "Six-phase",
        "Phases 1 to 5 after Chen and Li, with improvements derived here, and Newton at the end: no theorem for the "
        "whole. Measured: it ends at rounding error on nice layers of up to four heads.",
        _six_phase,
        costs=(4.0, 2.0),
    ),
    LearnerEntry(
        "six-phase-paper",
        "Six-phase (paper)",
        "Proved by Chen and Li under non-degeneracy conditions, for k at most logarithmic in d and m far below d: "
        "time (dk)^O(m^3), squared error (kd)^-Omega(m), for constants of theirs. With ours it is measured only; a "
        "phase that cannot do its work says so.",
        partial(_six_phase, paper=True),
        costs=(6.0, 2.0),
    ),
    LearnerEntry(
        "linear",
        "Linear baseline",
        "Exact least squares: no predictor linear in the token and the mean token does better on the examples.",
        lambda target, budgets: upper.LinearBaseline(),
        proper=False,
    ),
    LearnerEntry(
        "known-component",
        "Known component",
        "By definition at 1.0: it predicts what is known in advance and nothing else.",
        lambda target, budgets: upper.KnownComponentBaseline(target.known),
        proper=False,
    ),
    LearnerEntry(
        "elimination",
        "Elimination",
        "Proved: noise-free hidden parities fall to Gaussian elimination over GF(2) from about 2 (d + 9) examples, "
        "with probability above .998. It is no statistical-query algorithm and knows the family.",
        _elimination,
    ),
    LearnerEntry(
        "linearisation",
        "Linearisation",
        "Proved for q and p powers of two: the lowest bit of a rounded label is a polynomial of degree q/p over "
        "GF(2), and falls to elimination once there are as many examples as monomials. It knows the family.",
        lambda target, budgets: _attack(target, lwe.LinearisationAttack()),
        costs=(1.0, 1.0),
    ),
    LearnerEntry(
        "bkw",
        "BKW",
        "No theorem for rounding. Measured: differences of examples that agree in many bits give away rounding mod "
        "64 with 24 covariates in a second. It knows the family; that it fails is no claim of security.",
        # half of the examples are samples
        lambda target, budgets: _attack(target, lwe.BKWAttack(), examples=50_000),
        by_default=False,
    ),
    LearnerEntry(
        "lattice",
        "Lattice",
        "No theorem. Measured: LLL and BKZ find secrets of moderate size where rounding is fine, and LLL finds "
        "the direction of a periodic wave. It knows the family; that it fails is no claim of security.",
        _lattice,
        costs=(1.0, 1.0),
        extra="fpylll",
    ),
    LearnerEntry(
        "by-queries",
        "By queries",
        "Derived here: heads whose outputs are independent are determined by value queries, F(X) at an X of one's "
        "choice, and found by linear algebra. Measured: heads of one output direction are read off by their steps. "
        "It sees more than the others, who draw random examples.",
        _by_queries,
        costs=(0.1, 1.5),
    ),
    # baselines run only when named: together they take longer than all the others
    LearnerEntry(
        "sgd",
        "SGD",
        "No theorem. Gradient descent with momentum: as fast as Adam (measured), if the rate suits the dimension.",
        partial(_descent, optimizer="sgd", dtype="float64"),
        extra="torch",
        by_default=False,
        costs=(4.0, 20.0),
    ),
    LearnerEntry(
        "muon",
        "Muon",
        "No theorem. Momentum with steps that are made nearly orthogonal, every head for itself.",
        partial(_descent, optimizer="muon", power=2.5),
        extra="torch",
        by_default=False,
        costs=(4.0, 20.0),
    ),
    LearnerEntry(
        "soap",
        "SOAP",
        "No theorem. Adam in the eigenbases of Shampoo, of every head for itself.",
        partial(_descent, optimizer="soap"),
        extra="pytorch_optimizer",
        by_default=False,
        costs=(4.0, 20.0),
    ),
    LearnerEntry(
        "l-bfgs",
        "L-BFGS",
        "No theorem. Measured: on most nice layers it ends at rounding error, with twice Newton's examples and "
        "several times its passes.",
        lambda target, budgets: upper.LBFGS(_heads(target), work=budgets.passes[_is_hard(target)]),
        costs=(3.0, 30.0),
        by_default=False,
    ),
    LearnerEntry(
        "one-step",
        "One step",
        "Phase 1 of Chen and Li as the first step of training: an estimate of the sum of the projections, with a bias "
        "that stays.",
        lambda target, budgets: upper.OneGradientStep(),
        by_default=False,
    ),
    LearnerEntry(
        "linear-attention",
        "Linear attention",
        "Exact least squares on cubic features, with tokens centred: no linear attention of that form does better "
        "on the examples. On softmax attention that is no claim to learn it.",
        _linear_attention,
        proper=False,
        by_default=False,
    ),
    LearnerEntry(
        "block",
        "Block by queries",
        "Derived here: value queries determine a block, attention and a network of ReLU or GELU, if its neurons can be "
        "told apart. Measured: found on all nice blocks. A layer is a block without network.",
        _block,
        costs=(1.0, 5.0),
        by_default=False,
    ),
    LearnerEntry(
        "rotary",
        "Rotary by queries",
        "Derived here: value queries determine a layer with rotary positions, at every length, if its heads can be "
        "told apart. Measured: found on nice layers of up to 16 heads, without search.",
        _rotary,
        costs=(1.0, 1.0),
        by_default=False,
    ),
)

LEARNERS: Mapping[str, LearnerEntry] = {entry.name: entry for entry in _ENTRIES}
"""Every learner by name, in the order of the table; those that are not `by_default` run only when named."""


def learner_looks(names: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Colour, marker and line of each learner in every figure: fixed for `LEARNERS`, then the next free ones.

    Examples
    --------
    >>> learner_looks(["own", "adam"])["adam"] == learner_looks(["adam"])["adam"]
    True
    """
    order = list(dict.fromkeys([*LEARNERS, *names]))
    return {name: line_look(order.index(name)) for name in names}

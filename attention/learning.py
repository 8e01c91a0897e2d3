"""What a learner is and what it returns: the protocol every learner and every attack speaks."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import cached_property
from typing import Any, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float, Shaped

from attention.examples import ExampleOracle
from attention.inputs import Inputs, Rng
from attention.layer import AttentionLayer
from attention.metrics import parameter_errors, relative_error, unknown_part_error
from attention.validation import PositiveInt, checked, require_finite, require_shape

__all__ = [
    "Fit",
    "GroundTruth",
    "Learner",
    "Outcome",
    "Predictor",
    "Progress",
    "Recorder",
    "Step",
    "check_budget",
    "draw_examples",
    "require_oracle",
]

Predictor = Callable[[Any], Any]


class Outcome(Enum):
    """How a fit ended; each value is a sentence a user can act on."""

    EXACT = "Exact: the held-out examples are reproduced to the precision of the arithmetic."
    REACHED_TOLERANCE = "Reached: the error on fresh examples is below the requested tolerance."
    PRECISION_FLOOR = (
        "Floor: the error stopped falling at the floor of the arithmetic; use a wider dtype for more."
    )
    UNCONFIRMED = (
        "Unconfirmed: the held-out examples are reproduced, but too few of them say anything new, as the others follow "
        "from fitted ones by a symmetry; give more examples, of more different inputs."
    )
    NOTHING_LEARNED = (
        "Nothing learned: held-out examples are predicted no better than by zero; allow more examples, or take it as "
        "evidence that the labels are random or the target is hard for this learner."
    )
    BEST_OF_CLASS = (
        "Best of its class: no better predictor of this kind exists on the examples, but the examples are not "
        "reproduced; a richer class is needed."
    )
    LOCAL_MINIMUM = (
        "Stuck: every start ended in a local minimum; allow more restarts or examples, or another number of heads, or "
        "take it as evidence that the target is hard for this learner."
    )
    OVERFITTED = (
        "Overfitted: the examples are reproduced but held-out ones are not; allow more examples, or take it as "
        "evidence that the target is hard for this learner."
    )
    RESIDUAL_FLOOR = (
        "Floor of the residual: independent starts end at the same error, on held-out examples too; the labels are "
        "noisy at that level, or the student is too small: too few heads, too low a rank, or a head too weak to be "
        "found."
    )
    WORK_SPENT = (
        "Out of work: the budget of passes over the data was spent before convergence; allow more work."
    )
    ONE_PASS = (
        "One pass done: this learner estimates once and promises no error; one that iterates may go further."
    )
    EXAMPLES_SPENT = (
        "Out of examples: the budget of examples was spent before convergence; allow more examples."
    )
    EXAMPLES_RAN_OUT = "Out of examples: the given examples ran out before convergence; give more of them."
    DIVERGED = (
        "Diverged: the parameters left the finite numbers; lower the learning rate or rescale the target."
    )
    NO_PROJECTION_SUM = (
        "Phase 1 failed: the estimate of the sum of the projections does not stand out from its statistical error; "
        "allow more examples, or take it that the projections cancel."
    )
    NO_AGREEMENT = (
        "Too few rows were found on which all heads have the same attention pattern; allow more "
        "examples: agreement within eps has probability of order eps^((m-1)(k-1))."
    )
    CONTRADICTION = (
        "Phase 2 or 4 failed: no attention matrix satisfies what the certified rows say; the certificates are false, "
        "as they are where the projections are not in general position."
    )
    NO_LARGE_MARGIN = (
        "Phase 3 failed: too few rows were found on which every head attends to one token; the asymptotics have not "
        "set in at this number of coordinates, or the heads attend too weakly."
    )
    NOT_REFINED = (
        "Phase 4 failed: with the refined sum of the projections the rows agree no better, or no longer; allow more "
        "examples to phase 3."
    )
    NO_SPECTRAL_GAP = (
        "Phase 5 failed: the body has no m - 1 directions that are clearly wider than the others; allow more "
        "examples, or check the number of heads."
    )
    NET_TOO_COARSE = (
        "Phase 6 failed: no tuple of the net reaches the tolerance on held-out examples; allow more work or more "
        "examples, or a larger tolerance."
    )
    NOT_APPLICABLE = (
        "Not of this kind: the examples contradict what this attack assumes; use a general learner."
    )

    @property
    def succeeded(self) -> bool:
        """Whether held-out examples confirm a small error: the best of a class need not have one."""
        return self in _SUCCESSES

    def __str__(self) -> str:
        return self.value


_SUCCESSES = frozenset({Outcome.EXACT, Outcome.REACHED_TOLERANCE, Outcome.PRECISION_FLOOR})


@dataclass(frozen=True)
class Step:
    """One record of a trace: a phase or step, what it had cost until then, and what was measured.

    Attributes
    ----------
    name : str
        The phase or step, in the paper's words where it has some.
    examples : int
        Examples drawn since the fit began.
    seconds : float
        Seconds since the fit began, the measuring itself left out.
    measures : mapping of str to float
        What the step measured; with ground truth at least ``relative_error`` and ``unknown_part_error``.
    phase : int or None
        The number of the phase, for a learner that has phases.
    round : int or None
        The round within which the phase ran, where it runs more than once.
    engine : str
        What computed it, as "numpy" or "torch cuda:0 bfloat16", for a learner that has a choice; else empty.
    layer : AttentionLayer or None
        The layer as it was then, where there is one: in what `progress` is called with, and not in a trace, which
        would hold them all.
    """

    name: str
    examples: int
    seconds: float
    measures: Mapping[str, float] = field(default_factory=dict)
    phase: int | None = None
    round: int | None = None
    engine: str = ""
    layer: AttentionLayer | None = field(default=None, repr=False, compare=False)

    def to_json(self) -> dict[str, Any]:
        """The numbers as JSON values, without the layer."""
        found = {name: getattr(self, name) for name in ("name", "examples", "seconds")}
        found["measures"] = dict(self.measures)
        if self.phase is not None:
            found |= {"phase": self.phase, "round": self.round}
        return found | {"engine": self.engine} if self.engine else found


Progress = Callable[[Step], None]


@dataclass(frozen=True, repr=False)
class Fit:
    """What a learner returns.

    Printed, it is the outcome's sentence and a line of counts; the trace is left to `trace`.

    Attributes
    ----------
    predict : callable
        Maps token matrices (n, k, d) to predicted labels (n, k, d).
    layer : AttentionLayer or None
        The fitted layer; None for improper learners.
    outcome : Outcome
        How it ended, as a sentence.
    examples_used : int
        Examples drawn from the oracle.
    seconds : float
        Wall-clock seconds, measuring against ground truth left out.
    trace : tuple of Step
        One record per phase or step.
    alone : str
        What did all the work where the learner's other parts found nothing, as "Newton" of the six phases; else empty.
    examples_needed : int or None
        About how many examples the learner needs, where it had fewer and did not succeed.
    """

    predict: Predictor
    layer: AttentionLayer | None
    outcome: Outcome
    examples_used: int
    seconds: float
    trace: tuple[Step, ...] = ()
    alone: str = ""
    examples_needed: int | None = None

    def __repr__(self) -> str:
        return f"<Fit: {self.outcome.name}, {self._counts()}>"

    def __str__(self) -> str:
        return f"{self.outcome}\n  {self._counts()}"

    def _counts(self) -> str:
        heads = "no layer" if self.layer is None else _plural(self.layer.heads, "head")
        examples, steps = _plural(self.examples_used, "example"), _plural(len(self.trace), "step")
        by = f", by {self.alone} alone" if self.alone else ""
        if self.examples_needed is not None:
            examples += f" of about {self.examples_needed} needed"
        return f"{heads}, {examples}, {self.seconds:.2f} seconds, {steps} in the trace{by}"


def _plural(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


@runtime_checkable
class Learner(Protocol):
    """A frozen dataclass of hyper-parameters with a `fit`; attacks speak the same protocol.

    Budgets are in examples and in work (passes over the data), never in seconds, so that a result does not
    depend on the machine. `attention.testing.check_learner` is the contract.
    """

    @property
    def examples(self) -> int | None:
        """The budget in examples; None lets the learner choose."""

    def minimum_examples(self, k: int, d: int) -> int:
        """The fewest examples of k tokens in d dimensions that `fit` accepts as a budget."""

    def fit(
        self,
        oracle: ExampleOracle,
        *,
        rng: Rng = None,
        truth: "GroundTruth | None" = None,
        progress: Progress | None = None,
    ) -> Fit:
        """Learn from the oracle; `truth` only measures and never helps."""


@dataclass(frozen=True, eq=False)
@checked
class GroundTruth:
    """The target, its known part and fresh inputs: what errors are measured against, never learned from.

    Parameters
    ----------
    layer : AttentionLayer
        The target.
    x : array (n, k, d)
        Fresh inputs, drawn apart from every oracle.
    known : callable, optional
        The part of the target known in advance; zero for nice layers.
    """

    layer: AttentionLayer
    x: Shaped[Any, "n k d"]
    known: Predictor | None = None

    def __post_init__(self) -> None:
        if self.x.shape[2] != self.layer.dim:
            raise ValueError(
                f"x has {self.x.shape[2]} coordinates: {self.layer.dim}, those of the layer, are needed."
            )
        if isinstance(self.x, np.ndarray):  # its bytes may be in the order of another machine
            object.__setattr__(self, "x", self.x.astype(self.x.dtype.newbyteorder("="), copy=False))

    @classmethod
    @checked
    def draw(
        cls,
        layer: AttentionLayer,
        inputs: Inputs,
        n: PositiveInt = 2000,
        *,
        known: Predictor | None = None,
        rng: Rng = None,
    ) -> "GroundTruth":
        """Ground truth on `n` fresh inputs."""
        return cls(layer=layer, x=inputs.sample(n, rng=rng), known=known)

    @cached_property
    def y(self) -> Float[np.ndarray, "n k d"]:
        """The target's outputs on `x`."""
        return self.layer(self.x)

    @cached_property
    def y_known(self) -> Float[np.ndarray, "n k d"] | None:
        """The known part on `x`; None for zero."""
        return None if self.known is None else np.asarray(self.known(self.x))

    @checked
    def measure(
        self, *, predict: Predictor | None = None, layer: AttentionLayer | None = None
    ) -> dict[str, float]:
        """Errors of a predictor (or a layer): relative, on the unknown part and, where they compare, of parameters.

        ``theta_error`` and ``w_error`` are the worst head's, heads matched by the Hungarian algorithm.
        """
        predict = layer if predict is None else predict
        measures: dict[str, float] = {}
        if predict is not None:
            predicted = np.asarray(predict(self.x), dtype=np.float64)
            measures["relative_error"] = relative_error(predicted, self.y)
            measures["unknown_part_error"] = unknown_part_error(predicted, self.y, self.y_known)
        if layer is not None and (layer.heads, layer.dim) == (self.layer.heads, self.layer.dim):
            errors = parameter_errors(layer, self.layer)
            measures |= {"theta_error": float(errors.theta.max()), "w_error": float(errors.w.max())}
        return measures


class Recorder:
    """Keeps the clock, the count of examples and the trace of one fit; measuring stops the clock.

    Parameters
    ----------
    oracle : ExampleOracle
        The oracle the fit draws from; only draws from now on count.
    truth : GroundTruth, optional
        What to measure each step against.
    progress : callable, optional
        Called with each `Step` as it is recorded.

    Raises
    ------
    ValueError
        If the oracle is none: a layer, say, or arrays.
    """

    @checked
    def __init__(
        self, oracle: Any, *, truth: GroundTruth | None = None, progress: Progress | None = None
    ) -> None:
        require_oracle(oracle)
        self._oracle, self._truth, self._progress = oracle, truth, progress
        self._drawn_before = oracle.drawn
        self._trace: list[Step] = []
        self._paused = 0.0
        self._start = time.perf_counter()

    @property
    def examples(self) -> int:
        """Examples drawn since the fit began."""
        return self._oracle.drawn - self._drawn_before

    @property
    def seconds(self) -> float:
        """Seconds since the fit began, measuring left out."""
        return time.perf_counter() - self._start - self._paused

    @property
    def measuring(self) -> bool:
        """Whether anyone looks at the steps: a learner may skip preparing a predictor when nobody does."""
        return self._truth is not None

    def step(
        self,
        name: str,
        *,
        predict: Predictor | None = None,
        layer: AttentionLayer | None = None,
        against: Callable[[AttentionLayer], Mapping[str, float]] | None = None,
        phase: int | None = None,
        round: int | None = None,
        engine: str = "",
        **measures: float | int,
    ) -> None:
        """Record a step with its own `measures` and, where ground truth is given, the errors against it.

        `against` gives a phase's own error measures when called with the target; the others are those of `Step`.
        """
        examples, seconds, began = self.examples, self.seconds, time.perf_counter()
        if self._truth is not None:
            own = {} if against is None else dict(against(self._truth.layer))
            measures = {**measures, **own, **self._truth.measure(predict=predict, layer=layer)}
        measured = {key: float(value) for key, value in measures.items()}
        step = Step(name, examples, seconds, measured, phase, round, engine)
        self._trace.append(step)
        if self._progress is not None:
            self._progress(replace(step, layer=layer))
        self._paused += time.perf_counter() - began

    def fit(
        self,
        outcome: Outcome,
        *,
        predict: Predictor | None = None,
        layer: AttentionLayer | None = None,
        alone: str = "",
        examples_needed: int | None = None,
    ) -> Fit:
        """The `Fit` of what was recorded; a layer predicts by itself."""
        predictor = layer if predict is None else predict
        if predictor is None:
            raise ValueError("A fit needs a predictor or a layer; neither was given.")
        trace = tuple(self._trace)
        return Fit(predictor, layer, outcome, self.examples, self.seconds, trace, alone, examples_needed)


def check_budget(learner: Learner, oracle: ExampleOracle) -> int | None:
    """The learner's budget in examples, held against its own minimum and against what the oracle has left.

    Returns
    -------
    int or None
        The smaller of the budget and what is left; None when neither ends.

    Raises
    ------
    ValueError
        If that is fewer than the learner's minimum for the oracle's k and d, or the oracle is none.
    """
    require_oracle(oracle)
    if not all(hasattr(learner, name) for name in ("examples", "minimum_examples")):
        raise ValueError(f"learner is of the type {type(learner).__name__}: an attention.Learner is needed.")
    budgets = [budget for budget in (learner.examples, oracle.remaining) if budget is not None]
    if not budgets:
        return None
    budget, least = min(budgets), learner.minimum_examples(oracle.k, oracle.d)
    if budget < least:
        raise ValueError(
            f"{type(learner).__name__} has {budget} examples of {oracle.k} tokens in {oracle.d} dimensions: "
            f"at least {least} are needed."
        )
    return budget


def require_oracle(oracle: Any) -> None:
    """Refuse what learners cannot draw from.

    Raises
    ------
    ValueError
        If it is a layer, an array or anything else that is no oracle.
    """
    # what speaks the protocol may be a stand-in of the caller's own
    if not all(hasattr(oracle, name) for name in ("draw", "drawn", "k", "d")):
        raise ValueError(
            f"The oracle is a {type(oracle).__name__}: learners draw from an ExampleOracle. Of a layer, give "
            "ExampleOracle(layer, inputs); of arrays, ExampleOracle.from_arrays(x, y)."
        )


def draw_examples(
    oracle: ExampleOracle, n: int
) -> tuple[Float[np.ndarray, "n k d"], Float[np.ndarray, "n k d"]]:
    """Draw `n` examples and hold them to their shape and to finite entries.

    Raises
    ------
    ValueError
        If the oracle's examples have wrong shapes or entries that are not finite.
    """
    if not hasattr(oracle, "draw"):
        require_oracle(oracle)  # for its words
    x, y = oracle.draw(n)
    for name, array in (("x", x), ("y", y)):
        require_shape(f"The oracle's {name}", array, (n, oracle.k, oracle.d))
        require_finite(f"The oracle's {name}", array)
    return x, y

"""The protocol of learners and attacks: what a learner is, and what it returns."""

import math
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar, Literal, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float, Shaped

from attention.evaluation import (
    CONFIDENCE,
    HeldOut,
    Outcome,
    Predictor,
    Verdict,
    hold_out,
    parameter_errors,
    percent,
    relative_error,
    unknown_part_error,
)
from attention.examples import ExampleOracle
from attention.inputs import Inputs, Rng
from attention.layer import AttentionLayer
from attention.validation import PositiveInt, checked, one_of, random_generator, require_array
from attention.value_oracle import AnswerPrecision


@dataclass(frozen=True)
class Step:
    """One record of a trace: a phase or step, the cost of the fit up to its end, and what was measured."""

    name: str  #: the step; a step of a phase is named as in the paper where the paper names it
    examples: int  #: examples drawn since the fit began
    seconds: float  #: seconds since the fit began, without the time for measuring
    #: what the step measured, floats or tuples of floats; with ground truth at least ``relative_error`` and
    #: ``unknown_part_error``
    measures: Mapping[str, Any] = field(default_factory=dict)
    phase: int | None = None  #: the number of the phase, for a learner that has phases
    round: int | None = None  #: the round in which the phase ran, if it runs more than once
    #: the engine, such as "numpy" or "torch cuda:0 bfloat16", for a learner with several; else empty
    engine: str = ""
    #: the layer at this step, if there is one. Only `progress` gets it; a trace does not keep it, since
    #: the layers of all steps take much memory
    layer: AttentionLayer | None = field(default=None, repr=False, compare=False)

    @property
    def title(self) -> str:
        """The name for a reader, with its phase and round if there are such."""
        if self.phase is None:
            return self.name
        return f"Phase {self.phase}: {self.name}" + ("" if self.round is None else f", round {self.round}")

    def to_json(self) -> dict[str, Any]:
        """The numbers as JSON values, without the layer."""
        values = {name: getattr(self, name) for name in ("name", "examples", "seconds")}
        values["measures"] = dict(self.measures)
        if self.phase is not None:
            values |= {"phase": self.phase, "round": self.round}
        return values | {"engine": self.engine} if self.engine else values


Progress = Callable[[Step], None]

Access = Literal["random examples", "value queries", "samples of rounding"]
"""How a learner sees its target; a learner that does not declare it draws random examples.

Samples of rounding are random examples of a layer that hides learning with rounding, read as rows and labels.
"""
# for each access: the method of its oracle, and what the oracle counts
_ORACLES: dict[Access, tuple[str, str]] = {
    "random examples": ("draw", "examples"),
    "value queries": ("ask", "queries"),
    "samples of rounding": ("draw", "examples"),
}
# for each method: what it gives, and how to make an oracle that has it
_MADE = {
    "draw": ("random examples", "ExampleOracle(layer, inputs) or ExampleOracle.from_arrays(x, y)"),
    "ask": ("value queries", "ValueOracle(layer) or ValueOracle.from_callable(f, k, d)"),
}


@dataclass(frozen=True, repr=False)
class Fit:
    """What a learner returns; its text is the sentence of the outcome and a line of counts."""

    predict: Predictor  #: maps token matrices (n, k, d) to predicted labels (n, k, d)
    layer: AttentionLayer | None  #: the fitted layer; None for improper learners
    outcome: Outcome  #: how it ended, as a sentence
    examples_used: int  #: examples drawn from the oracle
    seconds: float  #: wall-clock seconds, without measuring against ground truth
    trace: tuple[Step, ...] = ()  #: one record per phase or step
    #: the part of the learner that did all the work because the others found nothing, such as "Newton" in
    #: the six phases; else empty
    alone: str = ""
    #: about how many examples the learner needs, if it had fewer and did not succeed
    examples_needed: int | None = None
    #: what the oracle counts, "example" or "query": what is drawn, held out and spent
    counted: Literal["example", "query"] = "example"
    held_out_error: float = math.nan  #: the relative error on the examples held out; NaN if none were
    #: of a success, the upper confidence bound on its error rate: with confidence .95, the fit is worse than on all
    #: held-out examples on at most this share of inputs, drawn as those were. Inputs on which the fitted examples
    #: determine every layer, by a symmetry or as all tokens are equal, count neither as held out nor in the share
    error_rate_bound: float | None = None
    precision: AnswerPrecision | None = None  #: how exact the answers to value queries were
    #: what the learner found besides its layer, in a type of its own, such as `upper.six_phase.SixPhases`
    details: Any = field(default=None, compare=False)

    @property
    def explanation(self) -> str:
        """The sentence of the outcome, which says queries where those were counted."""
        return self.outcome.sentence(self.counted)

    def __repr__(self) -> str:
        return f"<Fit: {self.outcome.name}, {self._counts()}>"

    def __str__(self) -> str:
        lines = [self.explanation, f"  {self._counts()}"]
        if self.error_rate_bound is not None:
            share = percent(self.error_rate_bound)
            lines.append(f"  wrong on at most {share} of inputs, with confidence {CONFIDENCE:g}")
        if self.precision is not None:
            lines.append(f"  answers: {self.precision}")
        return "\n".join(lines)

    def _counts(self) -> str:
        heads = "no layer" if self.layer is None else _plural(self.layer.heads, "head")
        examples, steps = _plural(self.examples_used, self.counted), _plural(len(self.trace), "step")
        by = f", by {self.alone} alone" if self.alone else ""
        if self.examples_needed is not None:
            examples += f" of about {self.examples_needed} needed"
        return f"{heads}, {examples}, {self.seconds:.2f} seconds, {steps} in the trace{by}"


def _plural(number: int, noun: str) -> str:
    several = noun.removesuffix("y") + "ies" if noun.endswith("y") else noun + "s"
    return f"{number} {noun if number == 1 else several}"


@runtime_checkable
class Learner(Protocol):
    """A frozen dataclass of hyper-parameters with a method `fit`; attacks have the same protocol.

    Budgets are in examples and in work (passes over the data), never in seconds, so that a result does not
    depend on the machine. `attention.testing.check_learner` tests the contract.
    """

    @property
    def examples(self) -> int | None:
        """The budget in examples; None lets the learner choose."""

    def minimum_examples(self, k: int, d: int) -> int:
        """The fewest examples of k tokens in d dimensions that `fit` accepts as a budget."""

    def fit(
        self,
        oracle: Any,
        *,
        rng: Rng = None,
        truth: "GroundTruth | None" = None,
        progress: Progress | None = None,
    ) -> Fit:
        """Learn from the oracle.

        `truth` is only measured against; it never helps the learner. `progress` is called with every step.
        The oracle is an `ExampleOracle`, or a `ValueOracle` if the learner's `access` is "value queries".
        """


@dataclass(frozen=True, eq=False)
@checked
class GroundTruth:
    """The target, its known part and fresh inputs, to measure errors; a learner never learns from them.

    Parameters
    ----------
    layer : AttentionLayer
        The target.
    x : array (n, k, d)
        Fresh inputs, drawn independently of every oracle.
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
        """Errors of a predictor or a layer: relative and on the unknown part; for a layer, also of its parameters.

        ``theta_error`` and ``w_error`` are errors of the worst head, with heads matched by the Hungarian algorithm.
        They are given only if both layers have the same shape; ``key_bias_error`` and ``bias_error`` only if one of
        them has biases.
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
            if layer.biased or self.layer.biased:
                measures |= {"key_bias_error": float(errors.key_bias.max()), "bias_error": errors.bias}
        return measures


class Recorder:
    """Keeps the clock, the count of examples and the trace of one fit; the clock stops during measuring.

    Parameters
    ----------
    oracle : ExampleOracle
        The oracle of the fit; only draws from now on count.
    truth : GroundTruth, optional
        The ground truth against which each step is measured.
    progress : callable, optional
        Called with each `Step` as it is recorded.
    """

    @checked
    def __init__(
        self, oracle: Any, *, truth: GroundTruth | None = None, progress: Progress | None = None
    ) -> None:
        require_oracle(oracle, None)
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
        """Seconds since the fit began, without the time for measuring."""
        return time.perf_counter() - self._start - self._paused

    @property
    def measuring(self) -> bool:
        """Whether there is ground truth; if not, a learner need not prepare a predictor for its steps."""
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
        **measures: float | int | Iterable[float | int],
    ) -> None:
        """Record a step with its own `measures`, numbers or lists of them, and, with ground truth, the errors.

        `against`, called with the target, gives error measures of the phase; the other parameters are those of `Step`.
        """
        examples, seconds, began = self.examples, self.seconds, time.perf_counter()
        if self._truth is not None:
            own = {} if against is None else dict(against(self._truth.layer))
            measures = {**measures, **own, **self._truth.measure(predict=predict, layer=layer)}
        measured = {
            key: tuple(map(float, value)) if isinstance(value, Iterable) else float(value)
            for key, value in measures.items()
        }
        step = Step(name, examples, seconds, measured, phase, round, engine)
        self._trace.append(step)
        if self._progress is not None:
            self._progress(replace(step, layer=layer))
        self._paused += time.perf_counter() - began

    def fit(
        self,
        ended: Outcome | Verdict,
        *,
        predict: Predictor | None = None,
        layer: AttentionLayer | None = None,
        alone: str = "",
        examples_needed: int | None = None,
        precision: AnswerPrecision | None = None,
        details: Any = None,
    ) -> Fit:
        """The `Fit` from the records; without `predict`, the layer is the predictor.

        An outcome alone is that of a fit without held-out examples.
        """
        verdict = Verdict(ended) if isinstance(ended, Outcome) else ended
        predictor = layer if predict is None else predict
        if predictor is None:
            raise ValueError("A fit needs a predictor or a layer; neither was given.")
        trace = tuple(self._trace)
        counted: Literal["example", "query"] = "query" if hasattr(self._oracle, "ask") else "example"
        return Fit(
            predictor,
            layer,
            verdict.outcome,
            self.examples,
            self.seconds,
            trace,
            alone,
            examples_needed,
            counted,
            verdict.held_out_error,
            verdict.error_rate_bound,
            precision,
            details,
        )


class LearnerBase:
    """A learner with the common part of `fit`; subclasses define `_learn`, and `_prepare` for work before the clock."""

    access: ClassVar[Access] = "random examples"

    examples: int | None = None

    def minimum_examples(self, k: int, d: int) -> int:
        """One example to fit and one to hold out."""
        return 2

    def fit(
        self,
        oracle: Any,
        *,
        rng: Rng = None,
        truth: GroundTruth | None = None,
        progress: Progress | None = None,
    ) -> Fit:
        """Learn from the oracle.

        Raises
        ------
        ValueError
            If the budget is below `minimum_examples`, the oracle's examples are malformed, or the learner asks the
            oracle for what its `access` does not declare.
        """
        begun = self._begin(oracle, rng, truth, progress)
        try:
            return self._learn(oracle, *begun)
        except AttributeError as error:
            if error.obj is not oracle or error.name not in _MADE:
                raise
            raise ValueError(
                f"{type(self).__name__} declares access to {access_of(self)}, and calls oracle.{error.name}, which "
                f"gives {_MADE[error.name][0]}: declare that access instead."
            ) from error

    def _begin(
        self, oracle: Any, rng: Rng, truth: GroundTruth | None, progress: Progress | None
    ) -> tuple[Recorder, int | None, np.random.Generator]:
        """Check the oracle and start the clock; gives the recorder, the budget and the generator."""
        require_oracle(oracle, access_of(self))
        self._prepare(oracle)
        recorder = Recorder(oracle, truth=truth, progress=progress)
        return recorder, check_budget(self, oracle), random_generator(rng)

    def _prepare(self, oracle: Any) -> None:
        """Refuse an oracle that does not fit, and import slow libraries, before the clock starts."""

    def _learn(self, oracle: Any, recorder: Recorder, budget: int | None, rng: np.random.Generator) -> Any:
        raise NotImplementedError


def apart(rng: np.random.Generator) -> np.random.Generator:
    """A generator with a stream different from that of `rng`.

    Otherwise, a learner with the same seed as the generator of its target would draw the target itself as its start.
    """
    return np.random.default_rng([int(rng.integers(2**63)), 1])


def check_budget(learner: Learner, oracle: Any) -> int | None:
    """The smaller of the learner's budget and the examples that the oracle has left; None if neither has a limit.

    A ValueError if it is below the learner's minimum for the oracle's k and d.
    """
    require_oracle(oracle, access_of(learner))
    if not all(hasattr(learner, name) for name in ("examples", "minimum_examples")):
        raise ValueError(f"learner is of the type {type(learner).__name__}: an attention.Learner is needed.")
    budgets = [budget for budget in (learner.examples, oracle.remaining) if budget is not None]
    if not budgets:
        return None
    budget, least = min(budgets), learner.minimum_examples(oracle.k, oracle.d)
    if budget < least:
        raise ValueError(
            f"{type(learner).__name__} has {budget} {_ORACLES[access_of(learner)][1]} of {oracle.k or 'any number of'} "
            f"tokens in {oracle.d} dimensions: at least {least} are needed."
        )
    return budget


def access_of(learner: Any) -> Access:
    """How a learner sees its target.

    A ValueError if it declares something else than an `Access`.
    """
    access: Access = getattr(learner, "access", "random examples")
    one_of(f"{type(learner).__name__}.access", access, tuple(_ORACLES))
    return access


def require_oracle(oracle: Any, access: Access | None = "random examples") -> None:
    """Refuse what a learner with this access cannot use: a layer, an array, or an oracle of another kind."""
    # any object with these attributes will do: the caller may have an oracle of their own
    counts = all(hasattr(oracle, name) for name in ("drawn", "k", "d"))
    able = [verb for verb in _MADE if counts and hasattr(oracle, verb)]
    wanted = list(_MADE) if access is None else [_ORACLES[access][0]]
    if any(verb in able for verb in wanted):
        return
    given = f"gives {_MADE[able[0]][0]}" if able else f"is of the type {type(oracle).__name__}"
    needed = "an oracle is needed" if access is None else f"{access} are needed"
    raise ValueError(f"The oracle {given}: {needed}, of {' or '.join(_MADE[verb][1] for verb in wanted)}.")


def draw_and_hold_out(
    oracle: ExampleOracle, n: int, *, least: int | None = None
) -> tuple[tuple[Float[np.ndarray, "n k d"], Float[np.ndarray, "n k d"]], HeldOut]:
    """Draw `n` examples, and divide them as `hold_out` does, unless the oracle has held-out examples itself."""
    x, y = draw_examples(oracle, n)
    given = getattr(oracle, "held_out", None)
    if given is None:
        return hold_out(x, y, least=least)
    x_held, y_held = given
    return (x, y), HeldOut(x_held, y_held, x)


def draw_examples(
    oracle: ExampleOracle, n: int
) -> tuple[Float[np.ndarray, "n k d"], Float[np.ndarray, "n k d"]]:
    """Draw `n` examples; a ValueError if their shapes are wrong or an entry is not finite."""
    require_oracle(oracle)
    x, y = oracle.draw(n)
    for name, array in (("x", x), ("y", y)):
        require_array(f"The oracle's {name}", array, (n, oracle.k, oracle.d))
    return x, y

"""The protocol of learners and attacks: what a learner is, and what records its steps."""

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any, ClassVar, Literal, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float

from attention.block import Block
from attention.evaluation import HeldOut, Predictor, Verdict, hold_out
from attention.examples import ExampleOracle
from attention.fits import Fit, GroundTruth, Progress, Step
from attention.inputs import Rng
from attention.layer import Layer
from attention.outcome import Outcome
from attention.validation import check, random_generator, require_array

Access = Literal["random examples", "value queries", "samples of rounding"]
"""How a learner sees its target; a learner that does not declare it draws random examples.

Samples of rounding are random examples of a layer that hides learning with rounding, read as rows and labels.
"""
# for each method of an oracle: what it gives, and how to make an oracle that has it
_MADE: dict[str, tuple[Access, str]] = {
    "draw": ("random examples", "ExampleOracle(layer, inputs) or ExampleOracle.from_arrays(x, y)"),
    "ask": ("value queries", "ValueOracle(layer) or ValueOracle.from_callable(f, k, d)"),
}


@runtime_checkable
class Learner(Protocol):
    """A frozen dataclass of hyper-parameters with a method `fit`; attacks have the same protocol.

    Budgets are in examples and in work (passes over the data), never in seconds, so that a result does not
    depend on the machine. `attention.testing.check_learner` tests the contract.
    """

    @property
    def examples(self) -> int | None:
        """The budget in examples; None lets the learner choose."""

    def minimum_examples(self, tokens: int, dim: int) -> int:
        """The fewest examples of k tokens in d dimensions that `fit` accepts as a budget."""

    def fit(
        self,
        oracle: Any,
        *,
        rng: Rng = None,
        truth: GroundTruth | None = None,
        progress: Progress | None = None,
    ) -> Fit:
        """Learn from the oracle.

        `truth` is only measured against; it never helps the learner. `progress` is called with every step.
        The oracle is an `ExampleOracle`, or a `ValueOracle` if the learner's `access` is "value queries".
        """


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

    def __init__(
        self, oracle: Any, *, truth: GroundTruth | None = None, progress: Progress | None = None
    ) -> None:
        require_oracle(oracle, None)
        check("truth", truth, GroundTruth | None)
        check("progress", progress, Progress | None)
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
        layer: Layer | Block | None = None,
        against: Callable[[Any], Mapping[str, float]] | None = None,
        phase: int | None = None,
        engine: str = "",
        **measures: float | int | Iterable[float | int],
    ) -> None:
        """Record a step with its own `measures`, numbers or lists of them, and, with ground truth, the errors.

        `against`, called with the target, gives error measures of the phase; the other parameters are those of `Step`.
        """
        examples, seconds, began = self.examples, self.seconds, time.perf_counter()
        if self._truth is not None:
            own = {} if against is None else dict(against(self._truth.attention))
            measures = {**measures, **own, **self._truth.measure(predict=predict, layer=layer)}
        measured = {
            key: tuple(map(float, value)) if isinstance(value, Iterable) else float(value)
            for key, value in measures.items()
        }
        step = Step(name, examples, seconds, measured, phase, engine)
        self._trace.append(step)
        if self._progress is not None:
            self._progress(replace(step, layer=layer))
        self._paused += time.perf_counter() - began

    def fit(
        self,
        ended: Outcome | Verdict,
        *,
        predict: Predictor | None = None,
        layer: Layer | Block | None = None,
        **more: Any,
    ) -> Fit:
        """The `Fit` from the records, with `more` of its fields; without `predict`, the layer is the predictor.

        An outcome alone is that of a fit without held-out examples.
        """
        verdict = Verdict(ended) if isinstance(ended, Outcome) else ended
        predictor = layer if predict is None else predict
        if predictor is None:
            raise ValueError("A fit needs a predictor or a layer; neither was given.")
        return Fit(
            predictor,
            layer,
            verdict.outcome,
            self.examples,
            self.seconds,
            tuple(self._trace),
            counted="query" if hasattr(self._oracle, "ask") else "example",
            held_out_error=verdict.held_out_error,
            error_rate_bound=verdict.error_rate_bound,
            **more,
        )


class LearnerBase:
    """A learner with the common part of `fit`; subclasses define `_learn`, and `_prepare` for work before the clock."""

    access: ClassVar[Access] = "random examples"
    any_length: ClassVar[bool] = False  #: whether its queries have other numbers of tokens than examples

    examples: int | None = None

    def minimum_examples(self, tokens: int, dim: int) -> int:
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
        require_oracle(oracle, access_of(self))
        self._prepare(oracle)
        recorder = Recorder(oracle, truth=truth, progress=progress)
        begun = recorder, check_budget(self, oracle), random_generator(rng)
        try:
            return self._learn(oracle, *begun)
        except AttributeError as error:
            if error.obj is not oracle or error.name not in _MADE:
                raise
            raise ValueError(
                f"{type(self).__name__} declares access to {access_of(self)}, and calls oracle.{error.name}, which "
                f"gives {_MADE[error.name][0]}: declare that access instead."
            ) from error

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
    budget, least = min(budgets), learner.minimum_examples(oracle.tokens, oracle.dim)
    if budget < least:
        raise ValueError(
            f"{type(learner).__name__} has {budget} {'queries' if hasattr(oracle, 'ask') else 'examples'} of "
            f"{oracle.tokens or 'any number of'} tokens in {oracle.dim} dimensions: at least {least} are needed."
        )
    return budget


def access_of(learner: Any) -> Access:
    """How a learner sees its target.

    A ValueError if it declares something else than an `Access`.
    """
    access: Access = getattr(learner, "access", "random examples")
    return check(f"{type(learner).__name__}.access", access, Access)


def asks_any_length(learner: Any) -> bool:
    """Whether the queries of a learner have other numbers of tokens than examples."""
    return bool(getattr(learner, "any_length", False))


def require_oracle(oracle: Any, access: Access | None = "random examples") -> None:
    """Refuse what a learner with this access cannot use: a layer, an array, or an oracle of another kind."""
    # any object with these attributes will do: the caller may have an oracle of their own
    counts = all(hasattr(oracle, name) for name in ("drawn", "tokens", "dim"))
    able = [verb for verb in _MADE if counts and hasattr(oracle, verb)]
    wanted = list(_MADE) if access is None else ["ask" if access == "value queries" else "draw"]
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
        require_array(f"The oracle's {name}", array, (n, oracle.tokens, oracle.dim))
    return x, y

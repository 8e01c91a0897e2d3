"""The contract of learners: one set of tests that every learner and every attack must pass."""

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

from attention.block import Block
from attention.examples import ExampleOracle
from attention.feed_forward import FeedForward
from attention.fits import Fit, GroundTruth, Step
from attention.inputs import Inputs
from attention.layer import Layer
from attention.learning import Learner, access_of, asks_any_length
from attention.outcome import Outcome
from attention.value_oracle import ValueOracle

__all__ = ["check_learner"]

# numbers of separate random streams, since a target may be drawn from the seed itself
_EXAMPLES, _LEARNER, _FEW = 1, 2, 3
# With few inputs, each is drawn this many times on average: some are never drawn, and most held-out ones are copies.
_TIMES_DRAWN, _MOST_FEW, _FEW_INPUTS = 2.5, 4096, 3


def check_learner(
    learner: Learner,
    target: Layer | Block | FeedForward,
    inputs: Inputs,
    *,
    seed: int = 0,
    known: Callable[[Any], Any] | None = None,
) -> Fit:
    """Test whether `learner` keeps the contract of `attention.learning.Learner` on `target`.

    Parameters
    ----------
    learner : Learner
        The learner, with budgets small enough that a dozen fits are affordable.
    target : AttentionLayer, RotaryLayer, Block or FeedForward
        A target for the fits; the learner need not succeed on it.
    inputs : Inputs
        The distribution of the tokens.
    seed : int
        Seed of every random choice.
    known : callable, optional
        The part of the target known in advance.

    Returns
    -------
    Fit
        The fit on the target.

    Raises
    ------
    AssertionError
        If a sentence of the contract does not hold; the message is that sentence.

    Notes
    -----
    The contract:

    * The learner is a frozen dataclass and returns a complete Fit.
    * It counts the examples that it draws, and never draws more than its budget.
    * The same rng gives the same bits, with or without ground truth to measure against.
    * Its outcome claims no more than fresh examples confirm.
    * It claims no success on labels that are pure noise.
    * If only few inputs occur, permuted and with either sign, it claims no success unless it also predicts those that
      were not drawn.
    * NaN in labels or tokens, wrong shapes, m < 1 and too few examples are a ValueError.

    A learner from value queries has the same contract, with queries for examples and answers for labels; the sentence
    on few inputs is left out, since the learner chooses its inputs.
    """
    _require(dataclasses.is_dataclass(learner) and not isinstance(learner, type), "A learner is a dataclass.")
    _require(isinstance(learner, Learner), "A learner has examples, minimum_examples and fit.")
    _require(type(learner).__dataclass_params__.frozen, "A learner is frozen.")  # type: ignore[attr-defined]
    truth = GroundTruth.draw(target, inputs, 200, known=known, rng=seed + 1)
    contract = _Contract(learner, target, inputs, truth, seed, access_of(learner) == "value queries")
    fit = contract.whole_fit()
    contract.reproducible(fit)
    contract.honest(fit)
    if not contract.queries:  # a learner that asks queries chooses its inputs
        contract.honest_on_few_inputs(fit)
    contract.budget_respected()
    contract.bad_examples_refused()
    contract.bad_parameters_refused()
    return fit


@dataclass(frozen=True, eq=False)
class _Contract:
    learner: Learner
    target: Any
    inputs: Inputs
    truth: GroundTruth
    seed: int
    queries: bool  #: whether the learner asks for values

    @property
    def tokens(self) -> int | None:
        """The number of tokens of a query; None for any."""
        return None if asks_any_length(self.learner) else self.inputs.tokens

    def fit(self, oracle: Any, learner: Any = None, **options: Any) -> Fit:
        return (learner or self.learner).fit(oracle, rng=[self.seed, _LEARNER], **options)

    def oracle(self, noise: Any = 0.0, kind: type[ExampleOracle] = ExampleOracle) -> Any:
        # a separate stream: with the seed of its oracle, a learner would draw the tokens as its random start
        stream = [self.seed, _EXAMPLES]
        if not self.queries:
            return kind(self.target, self.inputs, noise=noise, rng=stream)
        target, rng = self.target, np.random.default_rng(stream)
        noisy = (lambda x: noise(x, target(x), rng)) if callable(noise) else target
        return ValueOracle.from_callable(noisy, self.tokens, self.inputs.dim)

    def served(self, n: int) -> Any:
        """An oracle of so many examples or queries."""
        n = max(n, 1)
        if not self.queries:
            return ExampleOracle.from_arrays(*self.oracle().draw(n))
        return ValueOracle.from_callable(self.target, self.tokens, self.inputs.dim, budget=n)

    def changed(self, **changes: Any) -> Any:
        """The learner with changed fields; None if it has no field of that name."""
        has = all(name in vars(self.learner) for name in changes)
        return dataclasses.replace(self.learner, **changes) if has else None  # type: ignore[type-var]

    def whole_fit(self) -> Fit:
        oracle, seen = self.oracle(), list[Step]()
        fit = self.fit(oracle, truth=self.truth, progress=seen.append)
        _require(isinstance(fit, Fit), "fit returns a Fit.")
        _require(isinstance(fit.outcome, Outcome), "The outcome is an Outcome.")
        _require(fit.examples_used == oracle.drawn, "examples_used is what was drawn from the oracle.")
        _require(fit.seconds >= 0, "seconds is not negative.")
        steps = len(fit.trace) >= 1 and all(isinstance(step, Step) for step in fit.trace)
        _require(steps, "The trace has steps.")
        _require(tuple(seen) == fit.trace, "progress sees every step of the trace, once and in order.")
        for name in ("examples", "seconds"):
            values = [getattr(step, name) for step in fit.trace]
            _require(values == sorted(values), f"The {name} of the trace never fall.")
        measured = "relative_error" in fit.trace[-1].measures
        _require(measured, "The last step is measured against the ground truth.")
        predicted = np.asarray(fit.predict(self.truth.x))
        finite = predicted.shape == self.truth.x.shape and bool(np.isfinite(predicted).all())
        _require(finite, "predict gives finite outputs.")
        same = fit.layer is None or np.allclose(fit.layer(self.truth.x), predicted, atol=1e-9)
        _require(same, "The layer predicts what predict does.")
        return fit

    def reproducible(self, fit: Fit) -> None:
        for truth in (self.truth, None):
            again = self.fit(self.oracle(), truth=truth)
            same = np.array_equal(again.predict(self.truth.x), fit.predict(self.truth.x))
            _require(same, "The same rng gives the same bits, measured or not.")
            drawn = again.examples_used == fit.examples_used
            _require(drawn, "The same rng draws as many examples, measured or not.")
            _require(again.outcome is fit.outcome, "The same rng gives the same outcome, measured or not.")

    def honest(self, fit: Fit) -> None:
        self._claims_no_more(fit, self.truth, "fresh examples")
        noise_only = self.oracle(lambda x, y, rng: 3.7 * rng.standard_normal(y.shape))
        outcome = self.fit(noise_only).outcome
        _require(
            not outcome.succeeded,
            f"Labels that are pure noise cannot be learned; the outcome said {outcome.name}.",
        )

    def honest_on_few_inputs(self, fit: Fit) -> None:
        # choose the number so that most of them are drawn and some are not
        few = max(2, min(int(fit.examples_used / _TIMES_DRAWN), _MOST_FEW))
        for draw in range(_FEW_INPUTS):
            x = self.inputs.sample(few, rng=[self.seed, _FEW, draw])
            truth = GroundTruth(self.target, x, known=self.truth.known)
            there = np.any(truth.y if truth.y_known is None else truth.y - truth.y_known)
            if fit.examples_used == 0 or not there:
                continue
            oracle = _Repeating(self.target, self.inputs, x, rng=[self.seed, _EXAMPLES, draw])
            self._claims_no_more(self.fit(oracle), truth, f"all of {few} inputs that repeat themselves")

    def _claims_no_more(self, fit: Fit, truth: GroundTruth, what: str) -> None:
        error = truth.measure(predict=fit.predict)["unknown_part_error"]
        tolerance = getattr(self.learner, "tolerance", None) or 1e-6
        most = {
            Outcome.EXACT: 1e-8,
            Outcome.REACHED_TOLERANCE: max(4 * tolerance, 1e-8),
            Outcome.PRECISION_FLOOR: 1e-4,
            Outcome.BEST_OF_CLASS: 1.5,  # predicting what is known in advance has error 1
        }.get(fit.outcome)
        _require(
            most is None or error <= most,
            f"A fit that says {fit.outcome.name} agrees with {what}; its error there is {error:.1e}.",
        )

    def budget_respected(self) -> None:
        least = self.learner.minimum_examples(self.inputs.tokens, self.inputs.dim)
        for budget in filter(None, (least, 2 * least + 3)):
            for learner, oracle in (
                (self.changed(examples=budget), self.oracle()),
                (self.learner, self.served(budget)),
            ):
                if learner is not None:
                    used = self.fit(oracle, learner).examples_used
                    _require(max(used, oracle.drawn) <= budget, "No more examples are drawn than the budget.")
        too_few = self.changed(examples=least - 1)
        if least > 0 and too_few is not None:
            self._refuses(self.oracle(), "Too few examples are an error.", too_few)
        if least > 1:
            self._refuses(self.served(least - 1), "Too few examples are an error.")

    def bad_examples_refused(self) -> None:
        least = self.learner.minimum_examples(self.inputs.tokens, self.inputs.dim)
        if not self.queries and least == 0:  # it draws none
            return
        nan = self.oracle(lambda x, y, rng: _last_is_nan(y))
        self._refuses(nan, f"NaN {'answers' if self.queries else 'labels'} are an error.")
        self._refuses(
            self.oracle(lambda x, y, rng: np.concatenate([y, y[..., :1]], axis=-1)),
            "Wrong shapes are an error.",
        )
        if not self.queries:
            self._refuses(self.oracle(kind=_NotANumberTokens), "NaN tokens are an error.")

    def _refuses(self, oracle: Any, sentence: str, learner: Any = None) -> None:
        _require_error(lambda: self.fit(oracle, learner), sentence)

    def bad_parameters_refused(self) -> None:
        names = {one.name for one in dataclasses.fields(self.learner)}  # type: ignore[arg-type]
        for name, value in product(sorted({"heads", "work"} & names), (0, -1, 1.5)):
            _require_error(
                lambda name=name, value=value: self.fit(self.oracle(), self.changed(**{name: value})),  # type: ignore[misc]
                f"{name} = {value} is an error.",
            )
        if "examples" in names:
            _require_error(lambda: self.changed(examples=-1), "A negative budget is an error.")


class _Repeating(ExampleOracle):
    """Examples from few inputs, with the tokens in random order and a random sign."""

    def __init__(self, target: Any, inputs: Inputs, x: np.ndarray, *, rng: Any) -> None:
        super().__init__(target, inputs, rng=rng)
        self._layer, self._few, self._random = target, x, np.random.default_rng(rng)

    def draw(self, n: int) -> tuple[np.ndarray, np.ndarray]:
        super().draw(n)  # counts the draws
        x = self._few[self._random.integers(len(self._few), size=n)]
        order = self._random.permuted(np.tile(np.arange(x.shape[1]), (n, 1)), axis=1)
        x = np.take_along_axis(x, order[:, :, None], axis=1) * self._random.choice([-1.0, 1.0], (n, 1, 1))
        return x, np.asarray(self._layer(x))


class _NotANumberTokens(ExampleOracle):
    def draw(self, n: int) -> tuple[np.ndarray, np.ndarray]:
        x, y = super().draw(n)
        return _last_is_nan(x), y


def _last_is_nan(array: np.ndarray) -> np.ndarray:
    return np.where(np.arange(array.size).reshape(array.shape) == array.size - 1, np.nan, array)


def _require(holds: bool, sentence: str) -> None:
    if not holds:
        raise AssertionError(sentence)


def _require_error(action: Callable[[], Any], sentence: str) -> None:
    try:
        action()
    except ValueError as error:
        words = len(str(error).split())
        _require(words >= 4, f"{sentence} Its message must be a sentence, not {str(error)!r}.")
        return
    raise AssertionError(f"{sentence} It was accepted.")

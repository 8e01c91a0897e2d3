"""The contract of learners: one suite that every learner and every attack must pass."""

import dataclasses
from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np

from attention.examples import ExampleOracle
from attention.inputs import Inputs
from attention.layer import AttentionLayer
from attention.learning import Fit, GroundTruth, Learner, Outcome, Step

__all__ = ["check_learner"]

# name the streams of the examples and of the learner: a target drawn from the same seed has the seed itself
_EXAMPLES, _LEARNER, _FEW = 1, 2, 3
# so many times each of few inputs is drawn on average: some are not, and most of those held out are copies
_TIMES_DRAWN, _MOST_FEW, _FEW_INPUTS = 2.5, 4096, 3


def check_learner(
    learner: Learner,
    target: AttentionLayer,
    inputs: Inputs,
    *,
    seed: int = 0,
    known: Callable[[Any], Any] | None = None,
) -> Fit:
    """Hold `learner` to the contract of `attention.learning.Learner` on `target`.

    Parameters
    ----------
    learner : Learner
        The learner, with budgets small enough that a dozen fits are affordable.
    target : AttentionLayer
        A target it may be run on; it need not learn it.
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
        With the sentence of the contract that does not hold.

    Notes
    -----
    The sentences: it is a frozen dataclass; it returns a whole Fit; it counts the examples it draws and never draws
    more than its budget; the same rng gives the same bits, with or without ground truth to measure against;
    its outcome claims no more than fresh examples bear out, no success on labels that are pure noise, and none where
    few inputs repeat themselves, permuted and with the other sign, unless the others are learned too; NaN in
    labels or tokens, wrong shapes, m < 1 and too few examples are a ValueError.
    """
    _require(dataclasses.is_dataclass(learner) and not isinstance(learner, type), "A learner is a dataclass.")
    _require(isinstance(learner, Learner), "A learner has examples, minimum_examples and fit.")
    _require(type(learner).__dataclass_params__.frozen, "A learner is frozen.")  # type: ignore[attr-defined]
    truth = GroundTruth.draw(target, inputs, 200, known=known, rng=seed + 1)

    fit = _check_fit(learner, target, inputs, truth, seed)
    _check_reproducible(learner, target, inputs, truth, seed, fit)
    _check_honest(learner, target, inputs, truth, seed, fit)
    _check_few_inputs(learner, target, inputs, truth, seed, fit)
    _check_budget_respected(learner, target, inputs, seed)
    _check_bad_examples(learner, target, inputs, seed)
    _check_bad_parameters(learner, target, inputs, seed)
    return fit


def _check_fit(learner: Learner, target: Any, inputs: Inputs, truth: GroundTruth, seed: int) -> Fit:
    oracle = _oracle(target, inputs, seed)
    seen: list[Step] = []
    fit = learner.fit(oracle, rng=[seed, _LEARNER], truth=truth, progress=seen.append)
    _require(isinstance(fit, Fit), "fit returns a Fit.")
    _require(isinstance(fit.outcome, Outcome), "The outcome is an Outcome.")
    _require(fit.examples_used == oracle.drawn, "examples_used is what was drawn from the oracle.")
    _require(fit.seconds >= 0, "seconds is not negative.")
    _require(
        len(fit.trace) >= 1 and all(isinstance(step, Step) for step in fit.trace), "The trace has steps."
    )
    _require(tuple(seen) == fit.trace, "progress sees every step of the trace, once and in order.")
    for name in ("examples", "seconds"):
        values = [getattr(step, name) for step in fit.trace]
        _require(values == sorted(values), f"The {name} of the trace never fall.")
    _require(
        "relative_error" in fit.trace[-1].measures, "The last step is measured against the ground truth."
    )
    predicted = np.asarray(fit.predict(truth.x))
    _require(
        predicted.shape == truth.x.shape and bool(np.isfinite(predicted).all()),
        "predict gives finite outputs.",
    )
    if fit.layer is not None:
        _require(
            np.allclose(fit.layer(truth.x), predicted, atol=1e-9), "The layer predicts what predict does."
        )
    return fit


def _check_reproducible(
    learner: Learner, target: Any, inputs: Inputs, truth: GroundTruth, seed: int, fit: Fit
) -> None:
    for again_truth in (truth, None):
        again = learner.fit(_oracle(target, inputs, seed), rng=[seed, _LEARNER], truth=again_truth)
        same = np.array_equal(np.asarray(again.predict(truth.x)), np.asarray(fit.predict(truth.x)))
        _require(same, "The same rng gives the same bits, measured or not.")
        _require(
            again.examples_used == fit.examples_used, "The same rng draws as many examples, measured or not."
        )
        _require(again.outcome is fit.outcome, "The same rng gives the same outcome, measured or not.")


def _check_honest(
    learner: Learner, target: Any, inputs: Inputs, truth: GroundTruth, seed: int, fit: Fit
) -> None:
    _require_no_more_than_so(learner, fit, truth, "fresh examples")
    noise_only = _oracle(target, inputs, seed, noise=lambda y, rng: 3.7 * rng.standard_normal(y.shape))
    outcome = learner.fit(noise_only, rng=[seed, _LEARNER]).outcome
    _require(
        not outcome.succeeded,
        f"Labels that are pure noise cannot be learned; the outcome said {outcome.name}.",
    )


def _require_no_more_than_so(learner: Learner, fit: Fit, truth: GroundTruth, what: str) -> None:
    error = truth.measure(predict=fit.predict)["unknown_part_error"]
    tolerance = getattr(learner, "tolerance", None) or 1e-6
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


def _check_few_inputs(
    learner: Learner, target: Any, inputs: Inputs, truth: GroundTruth, seed: int, fit: Fit
) -> None:
    # so many that most of them are drawn, and some are not
    few = max(2, min(int(fit.examples_used / _TIMES_DRAWN), _MOST_FEW))
    for draw in range(_FEW_INPUTS):
        x = inputs.sample(few, rng=[seed, _FEW, draw])
        there = np.any(target(x) if truth.known is None else target(x) - np.asarray(truth.known(x)))
        if fit.examples_used == 0 or not there:
            continue
        again = learner.fit(_Repeating(target, inputs, x, rng=[seed, _EXAMPLES, draw]), rng=[seed, _LEARNER])
        few_inputs = GroundTruth(target, x, known=truth.known)
        _require_no_more_than_so(learner, again, few_inputs, f"all of {few} inputs that repeat themselves")


def _check_budget_respected(learner: Learner, target: Any, inputs: Inputs, seed: int) -> None:
    least = learner.minimum_examples(inputs.k, inputs.d)
    for budget in (least, 2 * least + 3):
        for limited, oracle in (
            (_with(learner, examples=budget), _oracle(target, inputs, seed)),
            (learner, _served(target, inputs, budget, seed)),
        ):
            if limited is None or budget == 0:
                continue
            fit = limited.fit(oracle, rng=[seed, _LEARNER])
            _require(
                fit.examples_used <= budget and oracle.drawn <= budget,
                "No more examples are drawn than the budget.",
            )
    if least == 0:
        return
    too_few = _with(learner, examples=least - 1)
    if too_few is not None:
        _require_error(
            lambda: too_few.fit(_oracle(target, inputs, seed), rng=[seed, _LEARNER]),
            "Too few examples are an error.",
        )
    if least > 1:
        _require_error(
            lambda: learner.fit(_served(target, inputs, least - 1, seed), rng=[seed, _LEARNER]),
            "Too few examples are an error.",
        )


def _check_bad_examples(learner: Learner, target: Any, inputs: Inputs, seed: int) -> None:
    def not_a_number(y: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        return np.where(np.arange(y.size).reshape(y.shape) == y.size - 1, np.nan, y)

    def too_wide(y: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        return np.concatenate([y, y[..., :1]], axis=-1)

    if learner.minimum_examples(inputs.k, inputs.d) == 0:
        return
    for oracle, sentence in (
        (_oracle(target, inputs, seed, noise=not_a_number), "NaN labels are an error."),
        (_oracle(target, inputs, seed, noise=too_wide), "Wrong shapes are an error."),
        (_NotANumberTokens(target, inputs, rng=[seed, _EXAMPLES]), "NaN tokens are an error."),
    ):
        _require_error(lambda oracle=oracle: learner.fit(oracle, rng=[seed, _LEARNER]), sentence)  # type: ignore[misc]


class _Repeating(ExampleOracle):
    """Examples of few inputs, the tokens in any order and with any sign."""

    def __init__(self, target: Any, inputs: Inputs, x: np.ndarray, *, rng: Any) -> None:
        super().__init__(target, inputs, rng=rng)
        self._layer, self._few, self._random = target, x, np.random.default_rng(rng)

    def draw(self, n: int) -> tuple[np.ndarray, np.ndarray]:
        super().draw(n)  # counts
        x = self._few[self._random.integers(len(self._few), size=n)]
        order = self._random.permuted(np.tile(np.arange(x.shape[1]), (n, 1)), axis=1)
        x = np.take_along_axis(x, order[:, :, None], axis=1) * self._random.choice([-1.0, 1.0], (n, 1, 1))
        return x, np.asarray(self._layer(x))


class _NotANumberTokens(ExampleOracle):
    def draw(self, n: int) -> tuple[np.ndarray, np.ndarray]:
        x, y = super().draw(n)
        return np.where(np.arange(x.size).reshape(x.shape) == x.size - 1, np.nan, x), y


def _check_bad_parameters(learner: Learner, target: Any, inputs: Inputs, seed: int) -> None:
    names = {one.name for one in dataclasses.fields(learner)}  # type: ignore[arg-type]
    for name, value in product(sorted({"m", "work"} & names), (0, -1, 1.5)):
        _require_error(
            lambda name=name, value=value: _with(learner, **{name: value}).fit(  # type: ignore[misc]
                _oracle(target, inputs, seed), rng=[seed, _LEARNER]
            ),
            f"{name} = {value} is an error.",
        )
    if "examples" in names:
        _require_error(lambda: _with(learner, examples=-1), "A negative budget is an error.")


def _oracle(target: Any, inputs: Inputs, seed: int, **noise: Any) -> ExampleOracle:
    # a stream of its own: a learner seeded like its oracle would draw the very tokens as its random start
    return ExampleOracle(target, inputs, rng=[seed, _EXAMPLES], **noise)


def _served(target: Any, inputs: Inputs, n: int, seed: int) -> ExampleOracle:
    return ExampleOracle.from_arrays(*_oracle(target, inputs, seed).draw(max(n, 1)))


def _with(learner: Learner, **changes: Any) -> Any:
    names = {one.name for one in dataclasses.fields(learner)}  # type: ignore[arg-type]
    if not changes.keys() <= names:
        return None
    return dataclasses.replace(learner, **changes)  # type: ignore[type-var]


def _require(holds: bool, sentence: str) -> None:
    if not holds:
        raise AssertionError(sentence)


def _require_error(action: Callable[[], Any], sentence: str) -> None:
    try:
        action()
    except ValueError as error:
        _require(
            len(str(error).split()) >= 4, f"{sentence} Its message must be a sentence, not {str(error)!r}."
        )
        return
    raise AssertionError(f"{sentence} It was accepted.")

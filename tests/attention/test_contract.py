"""The contract of learners: it passes a learner that keeps it, and names the sentence that another breaks."""

import dataclasses
from dataclasses import dataclass

import numpy as np
import pytest

from attention import BooleanInputs, Outcome, Recorder, check_budget, draw_examples, make_nice_layer
from attention.testing import check_learner

pytestmark = pytest.mark.bad_input


@dataclass(frozen=True)
class MeanLabel:
    """Predicts the mean label: a learner that keeps the whole contract and learns next to nothing."""

    examples: int | None = 20

    def __post_init__(self):
        if self.examples is not None and self.examples < 0:
            raise ValueError(f"examples is {self.examples}: at least 0 is needed.")

    def minimum_examples(self, k, d):
        return 5

    def fit(self, oracle, *, rng=None, truth=None, progress=None):
        recorder = Recorder(oracle, truth=truth, progress=progress)
        _, y = self.drawn(oracle, check_budget(self, oracle))
        mean = y.mean(axis=0) + self.shift(rng, truth)

        def predict(x):
            return np.broadcast_to(mean, x.shape)

        recorder.step("Mean", predict=predict)
        return recorder.fit(self.outcome(), predict=predict)

    def drawn(self, oracle, budget):
        return draw_examples(oracle, budget)

    def shift(self, rng, truth):
        return 0.0

    def outcome(self):
        return Outcome.BEST_OF_CLASS


class Thirsty(MeanLabel):
    def drawn(self, oracle, budget):
        return draw_examples(oracle, budget + 1)


class Erratic(MeanLabel):
    def shift(self, rng, truth):
        return np.random.default_rng(None).standard_normal()


class Peeking(MeanLabel):
    def shift(self, rng, truth):
        return 0.0 if truth is None else truth.y.mean(axis=0)


class Boasting(MeanLabel):
    def outcome(self):
        return Outcome.EXACT


class Overconfident(MeanLabel):
    def outcome(self):
        return Outcome.REACHED_TOLERANCE


class Careless(MeanLabel):
    def drawn(self, oracle, budget):
        x, y = oracle.draw(budget)
        return x, np.nan_to_num(y)[..., : oracle.d]


class CarelessOfTokens(MeanLabel):
    def drawn(self, oracle, budget):
        _, y = oracle.draw(budget)
        given = {"draw": lambda self, n: (y, y), "drawn": budget, "k": oracle.k, "d": oracle.d}
        return draw_examples(type("Labels", (), given)(), budget)


class Random(MeanLabel):
    def shift(self, rng, truth):
        return 10 * np.random.default_rng(rng).standard_normal()


class Frugal(MeanLabel):
    def fit(self, oracle, **given):
        return dataclasses.replace(super().fit(oracle, **given), examples_used=0)


class Silent(MeanLabel):
    def fit(self, oracle, *, progress=None, **given):
        return super().fit(oracle, **given)


class Headless(MeanLabel):
    def fit(self, oracle, **given):
        return dataclasses.replace(super().fit(oracle, **given), predict=lambda x: x[0])


class Undemanding(MeanLabel):
    def fit(self, oracle, **given):
        budget = min(one for one in (self.examples, oracle.remaining) if one is not None)
        return super().fit(oracle, **given) if budget >= 5 else dataclasses.replace(self, examples=None)


@dataclass(frozen=True)
class Modest(MeanLabel):
    """Says that it needs `least` examples, and makes do with one fewer where no more are there."""

    least: int = 2

    def minimum_examples(self, k, d):
        return self.least

    def fit(self, oracle, **given):
        fewer = self.least - 1
        if self.examples is not None and self.examples < self.least:
            raise ValueError(f"{self.least} examples are needed.")
        return (Modest(fewer, fewer) if oracle.remaining == fewer else super()).fit(oracle, **given)


@dataclass(frozen=True)
class AnyHeads(MeanLabel):
    m: int = 1


@dataclass(frozen=True)
class WorkOnly(MeanLabel):
    work: int = 1


@dataclass
class Mutable:
    examples: int | None = 20
    minimum_examples = MeanLabel.minimum_examples
    fit = MeanLabel.fit


@dataclass(frozen=True)
class Unfinished:
    examples: int | None = 20


def _check(learner):
    return check_learner(learner, make_nice_layer(heads=1, dim=3, rng=0), BooleanInputs(2, 3))


def test_a_learner_that_keeps_the_contract_passes():
    assert _check(MeanLabel()).outcome is Outcome.BEST_OF_CLASS


@pytest.mark.parametrize(
    ("learner", "sentence"),
    [
        (Thirsty(), "No more examples are drawn"),
        (Erratic(), "same bits"),
        (Peeking(), "same bits"),
        (Boasting(), "says EXACT agrees"),
        (Random(), "says BEST_OF_CLASS agrees"),
        (CarelessOfTokens(), "NaN tokens are an error"),
        (WorkOnly(), "work = 0 is an error"),
        (Overconfident(), "says REACHED_TOLERANCE agrees"),
        (Careless(), "NaN labels are an error"),
        (Frugal(), "examples_used is what was drawn"),
        (Silent(), "progress sees every step"),
        (Headless(), "finite outputs"),
        (Undemanding(), "Too few examples"),
        (Modest(least=2), "Too few examples are an error"),
        (Modest(least=3), "Too few examples are an error"),
        (AnyHeads(), "m = 0 is an error"),
        (Mutable(), "frozen"),
        (Unfinished(), "has examples, minimum_examples and fit"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, MeanLabel | Mutable | Unfinished) else "",
)
def test_each_broken_sentence_is_named(learner, sentence):
    with pytest.raises(AssertionError, match=sentence):
        _check(learner)

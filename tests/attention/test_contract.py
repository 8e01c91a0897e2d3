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
    outcome = Outcome.BEST_OF_CLASS

    def __post_init__(self):
        if self.examples is not None and self.examples < 0:
            raise ValueError(f"examples is {self.examples}: at least 0 is needed.")

    def minimum_examples(self, tokens, dim):
        return 5

    def fit(self, oracle, *, rng=None, truth=None, progress=None):
        recorder = Recorder(oracle, truth=truth, progress=progress)
        _, y = self.drawn(oracle, check_budget(self, oracle))
        mean = y.mean(axis=0) + self.shift(rng, truth)

        def predict(x):
            return np.broadcast_to(mean, x.shape)

        recorder.step("Mean", predict=predict)
        return recorder.fit(self.outcome, predict=predict)

    def drawn(self, oracle, budget):
        return draw_examples(oracle, budget)

    def shift(self, rng, truth):
        return 0.0


def careless(self, oracle, budget):
    x, y = oracle.draw(budget)
    return x, np.nan_to_num(y)[..., : oracle.dim]


def careless_of_tokens(self, oracle, budget):
    _, y = oracle.draw(budget)
    given = {"draw": lambda self, n: (y, y), "drawn": budget, "tokens": oracle.tokens, "dim": oracle.dim}
    return draw_examples(type("Labels", (), given)(), budget)


def changed_fit(**fields):
    return lambda self, oracle, **given: dataclasses.replace(MeanLabel.fit(self, oracle, **given), **fields)


def silent(self, oracle, *, progress=None, **given):
    return MeanLabel.fit(self, oracle, **given)


def undemanding(self, oracle, **given):
    budget = min(one for one in (self.examples, oracle.remaining) if one is not None)
    return MeanLabel.fit(self, oracle, **given) if budget >= 5 else None


# what a learner does otherwise than `MeanLabel`, and the sentence it breaks
BROKEN = [
    ({"drawn": lambda self, oracle, budget: draw_examples(oracle, budget + 1)}, "No more examples are drawn"),
    ({"shift": lambda self, rng, truth: np.random.default_rng(None).standard_normal()}, "same bits"),
    ({"shift": lambda self, rng, truth: 0.0 if truth is None else truth.y.mean(axis=0)}, "same bits"),
    (
        {"shift": lambda self, rng, truth: 10 * np.random.default_rng(rng).standard_normal()},
        "says BEST_OF_CLASS agrees",
    ),
    ({"outcome": Outcome.EXACT}, "says EXACT agrees"),
    ({"outcome": Outcome.REACHED_TOLERANCE}, "says REACHED_TOLERANCE agrees"),
    ({"drawn": careless}, "NaN labels are an error"),
    ({"drawn": careless_of_tokens}, "NaN tokens are an error"),
    ({"fit": changed_fit(examples_used=0)}, "examples_used is what was drawn"),
    ({"fit": changed_fit(predict=lambda x: x[0])}, "finite outputs"),
    ({"fit": silent}, "progress sees every step"),
    ({"fit": undemanding}, "Too few examples are an error"),
]


def check(learner):
    return check_learner(learner, make_nice_layer(heads=1, dim=3, rng=0), BooleanInputs(2, 3))


def test_a_learner_that_keeps_the_contract_passes():
    assert check(MeanLabel()).outcome is Outcome.BEST_OF_CLASS


@pytest.mark.parametrize(("otherwise", "sentence"), BROKEN, ids=[sentence for _, sentence in BROKEN])
def test_each_broken_sentence_is_named(otherwise, sentence):
    with pytest.raises(AssertionError, match=sentence):
        check(type("Broken", (MeanLabel,), otherwise)())


def test_fields_are_held_and_frozen():
    kept = {"minimum_examples": MeanLabel.minimum_examples, "fit": MeanLabel.fit}
    fields = [("examples", int, 20)]
    for learner, sentence in [
        (dataclasses.make_dataclass("Mutable", fields, namespace=kept), "frozen"),
        (
            dataclasses.make_dataclass("Unfinished", fields, frozen=True),
            "has examples, minimum_examples and fit",
        ),
        (
            dataclasses.make_dataclass("Heads", [("heads", int, 1)], bases=(MeanLabel,), frozen=True),
            "heads = 0 is",
        ),
        (
            dataclasses.make_dataclass("Work", [("work", int, 1)], bases=(MeanLabel,), frozen=True),
            "work = 0 is",
        ),
    ]:
        with pytest.raises(AssertionError, match=sentence):
            check(learner())

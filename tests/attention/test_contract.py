"""The contract of learners: it passes a learner that keeps it, and names the sentence that another breaks."""

import dataclasses
from dataclasses import dataclass
from itertools import product

import numpy as np
import pytest

from attention import (
    AttentionLayer,
    BooleanInputs,
    Outcome,
    Recorder,
    check_budget,
    draw_examples,
    make_nice_layer,
)
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


def overfits(self, oracle, *, rng=None, truth=None, progress=None):
    """Learn examples by heart, hold the last twentieth out as it comes, and believe what copies tell."""
    recorder = Recorder(oracle, truth=truth, progress=progress)
    x, y = draw_examples(oracle, check_budget(self, oracle))
    n, known = len(x) - max(1, len(x) // 20), {}
    for tokens, labels in zip(x[:n], y[:n], strict=True):
        for sign, order in product((1.0, -1.0), ([0, 1], [1, 0])):
            known[(sign * tokens[order] + 0.0).tobytes()] = sign * labels[order]

    def predict(new):
        return np.stack([known.get((one + 0.0).tobytes(), np.zeros(one.shape)) for one in np.asarray(new)])

    recorder.step("By heart", predict=predict)
    exact = np.allclose(predict(x[n:]), y[n:], atol=1e-12)
    return recorder.fit(Outcome.EXACT if exact else Outcome.OVERFITTED, predict=predict)


# what a learner does otherwise than `MeanLabel`, and the sentence it breaks
BROKEN = [
    ({"drawn": lambda self, oracle, budget: draw_examples(oracle, budget + 1)}, "No more examples are drawn"),
    ({"shift": lambda self, rng, truth: np.random.default_rng(None).standard_normal()}, "same bits"),
    ({"shift": lambda self, rng, truth: 0.0 if truth is None else truth.y.mean(axis=0)}, "same bits"),
    ({"shift": lambda self, rng, truth: 1.9}, "says BEST_OF_CLASS agrees"),  # an error of 2.2
    ({"outcome": Outcome.EXACT}, "says EXACT agrees"),
    ({"outcome": Outcome.REACHED_TOLERANCE}, "says REACHED_TOLERANCE agrees"),
    ({"drawn": careless}, "NaN labels are an error"),
    ({"drawn": careless_of_tokens}, "NaN tokens are an error"),
    ({"fit": changed_fit(examples_used=0)}, "examples_used is what was drawn"),
    ({"fit": changed_fit(predict=lambda x: x[0])}, "finite outputs"),
    (
        {"fit": changed_fit(layer=AttentionLayer(*np.zeros((2, 1, 3, 3))))},
        "The layer predicts what predict does",
    ),
    ({"fit": silent}, "progress sees every step"),
    ({"fit": undemanding}, "Too few examples are an error"),
    ({"fit": overfits, "minimum_examples": lambda self, tokens, dim: 2}, "inputs that repeat themselves"),
]


def check(learner, dim=3):
    return check_learner(learner, make_nice_layer(heads=1, dim=dim, rng=0), BooleanInputs(2, dim))


def test_a_learner_that_keeps_the_contract_passes():
    assert check(MeanLabel()).outcome is Outcome.BEST_OF_CLASS


@pytest.mark.parametrize(("otherwise", "sentence"), BROKEN, ids=[sentence for _, sentence in BROKEN])
def test_each_broken_sentence_is_named(otherwise, sentence):
    with pytest.raises(AssertionError, match=sentence):
        check(type("Broken", (MeanLabel,), otherwise)(60), 6 if otherwise.get("fit") is overfits else 3)


def test_fields_are_held_and_frozen():
    held = {"minimum_examples": MeanLabel.minimum_examples, "fit": MeanLabel.fit}
    make, fields = dataclasses.make_dataclass, [("examples", int, 20)]
    more = {"bases": (MeanLabel,), "frozen": True}
    for learner, sentence in [
        (make("Mutable", fields, namespace=held), "frozen"),
        (make("Unfinished", fields, frozen=True), "has examples, minimum_examples and fit"),
        (make("Heads", [("heads", int, 1)], **more), "heads = 0 is"),
        (make("Work", [("work", int, 1)], **more), "work = 0 is"),
    ]:
        with pytest.raises(AssertionError, match=sentence):
            check(learner())

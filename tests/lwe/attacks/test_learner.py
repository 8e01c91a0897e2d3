import dataclasses

import numpy as np
import pytest

from attention import Outcome, Recorder, draw_examples
from attention.testing import check_learner
from lwe.attacks.attack import AttackOutcome, Budget, run_attack
from lwe.attacks.exhaustive import ExhaustiveAttack
from lwe.attacks.learner import AttackLearner, LearnerAttack
from lwe.attacks.least_squares import LeastSquaresAttack
from lwe.attacks.meet_in_the_middle import MeetInTheMiddleAttack
from lwe.distributions import TERNARY, SparseSigned
from lwe.families import LWRFamily
from lwe.parameters import LWEParameters
from lwe.samples import make_samples

FAMILIES = [
    LWEParameters(6, 16, 4),
    LWEParameters(3, 8, 2, matrix="gadget"),
    LWEParameters(8, 2, 2, matrix="uniform"),
    LWEParameters(3, 8, 4, matrix="uniform"),
]


@dataclasses.dataclass(frozen=True)
class Memory:
    """Looks new tokens up among the examples it was given, up to the sign of the first token."""

    examples: int | None = None
    seconds: float = 0.0

    def minimum_examples(self, tokens, dim):
        return 10

    def fit(self, oracle, *, rng=None, truth=None, progress=None):
        recorder = Recorder(oracle, truth=truth, progress=progress)
        x, y = draw_examples(oracle, 3000)
        known = {(x[i, 0] * x[i, 1]).tobytes(): y[i] * x[i, :, :1] for i in range(len(x))}
        nothing = np.zeros_like(y[0])

        def predict(x):
            found = [known.get((one[0] * one[1]).tobytes(), nothing) for one in x]
            return np.stack(found) * x[:, :, :1]

        recorder.step("Remember", predict=predict)
        return recorder.fit(Outcome.EXACT, predict=predict)


@pytest.mark.parametrize("made", FAMILIES, ids=str)
def test_a_learner_with_a_memory_breaks_what_has_few_rows(made):
    samples, _ = make_samples(made, 8000, rng=0)
    result = LearnerAttack(lambda heads: Memory())(samples, made, rng=0)
    assert result.outcome is AttackOutcome.BROKEN, str(result)
    np.testing.assert_array_equal(result.predict(samples.public[:50]), samples.labels[:50])


def test_a_learner_that_breaks_down_or_misses_a_package_has_a_result():
    @dataclasses.dataclass(frozen=True)
    class Failing(Memory):
        error: type = ValueError

        def fit(self, oracle, *, rng=None, truth=None, progress=None):
            raise self.error("no")

    samples, _ = make_samples(FAMILIES[0], 500, rng=0)
    learners = [Failing(), Failing(error=ImportError), Failing(error=ZeroDivisionError)]
    results = [run_attack(LearnerAttack(one), samples, FAMILIES[0]) for one in learners]
    assert [one.outcome.name for one in results] == ["FAILED", "MISSING", "FAILED"]


@dataclasses.dataclass(frozen=True)
class Slow(Memory):
    """Records what it remembers, or zeros, and never ends; other budgets are passed over."""

    remembers: bool = True

    def fit(self, oracle, *, rng=None, truth=None, progress=None):
        known = super().fit(oracle, truth=truth, progress=progress).predict
        recorder = Recorder(oracle, truth=truth, progress=progress)
        while True:
            recorder.step("again", predict=known if self.remembers else np.zeros_like)
            draw_examples(oracle, 10)


def test_a_learner_stopped_by_the_clock_is_judged_by_what_it_recorded_last():
    samples, _ = make_samples(FAMILIES[0], 4000, rng=0)
    found = LearnerAttack(Slow())(samples, FAMILIES[0], rng=0, budget=Budget(seconds=0.3))
    assert found.outcome is AttackOutcome.BROKEN
    assert found.accuracy == 1
    assert found.details["fit"] == "STOPPED"
    assert "not done" in found.explanation
    nothing = LearnerAttack(Slow(remembers=False))(samples, FAMILIES[0], rng=0, budget=Budget(seconds=0.3))
    assert nothing.outcome is AttackOutcome.BUDGET_SPENT
    assert nothing.accuracy is not None


@pytest.mark.bad_input
@pytest.mark.parametrize(
    ("made", "attack"),
    [
        (LWEParameters(5, 8, 2), ExhaustiveAttack()),
        (LWEParameters(3, 8, 2, matrix="gadget"), MeetInTheMiddleAttack()),
        (LWEParameters(6, 64, 8, Xs=TERNARY), LeastSquaresAttack()),
        (LWEParameters(24, 64, 2), LeastSquaresAttack()),
        (LWEParameters(12, 16, 4, matrix="ternary", Xs=SparseSigned(3)), MeetInTheMiddleAttack()),
    ],
    ids=str,
)
def test_attacks_keep_the_contract_of_learners(made, attack):
    instance = LWRFamily.of(made).instance(rng=0)
    fit = check_learner(
        AttackLearner(attack, made, examples=1500), instance.layer, instance.inputs, known=instance.known
    )
    if made.n < 24:
        assert fit.outcome is Outcome.EXACT
        assert fit.layer is not None
        assert fit.trace[-1].measures["relative_error"] == 0
    else:
        assert fit.outcome is Outcome.LOCAL_MINIMUM

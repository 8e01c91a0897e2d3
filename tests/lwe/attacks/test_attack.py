import dataclasses

import numpy as np
import pytest

from lwe.attacks.attack import Attack, Attempt, run_attacks
from lwe.attacks.evidence import secret_predictor, share_right
from lwe.attacks.outcome import AttackOutcome, BudgetSpentError
from lwe.distributions import TERNARY, DiscreteGaussian, Flips
from lwe.parameters import LWEParameters
from lwe.samples import LWRSamples, make_samples

TOY = LWEParameters(n=4, q=8, p=2)


def toy(number=500, parameters=TOY, rng=0):
    return make_samples(parameters, number, rng=rng)


@dataclasses.dataclass(frozen=True)
class Raising(Attack):
    error: type[BaseException] = RuntimeError
    name = "raising"

    def run(self, attempt, generator):
        raise self.error("it went wrong")


@dataclasses.dataclass(frozen=True)
class Knowing(Attack):
    """Knows the secret, or says whatever it is told to."""

    secret: tuple[int, ...] = ()
    constant: int | None = None
    name = "knowing"

    def run(self, attempt, generator):
        if self.constant is not None:
            return attempt.predicts(lambda public: np.full(len(public), self.constant), "constant")
        return attempt.found(np.array(self.secret), "known")


def test_failures_time_outs_and_interrupts_lose_nobody_elses_results():
    samples, secret = toy()
    knowing = Knowing(tuple(secret.tolist()))
    results = run_attacks(
        [knowing, Raising(), Raising(BudgetSpentError), knowing, Raising(KeyboardInterrupt), knowing],
        samples,
        TOY,
        rng=0,
    )
    assert [one.outcome.name for one in results] == [
        "BROKEN", "FAILED", "BUDGET_SPENT", "BROKEN", "INTERRUPTED", "INTERRUPTED",
    ]  # fmt: skip
    assert "it went wrong" in results[1].explanation
    assert "RuntimeError" in results[1].explanation
    assert "not begun" in results[5].explanation


def test_an_attack_has_the_same_stream_whatever_those_before_it_draw():
    @dataclasses.dataclass(frozen=True)
    class Drawing(Attack):
        draws: int
        name = "drawing"

        def run(self, attempt, generator):
            attempt.details["drawn"] = generator.integers(1 << 30, size=self.draws).tolist()[-1]
            return attempt.ended(AttackOutcome.NOTHING, "drawn")

    samples, _ = toy()
    last = [run_attacks([Drawing(n), Drawing(1)], samples, TOY, rng=3)[1].details["drawn"] for n in (1, 7)]
    assert last[0] == last[1]


def test_a_prediction_without_a_secret_is_judged_by_the_last_fifth_and_a_secret_by_all():
    samples, secret = toy(503)
    attempt = Attempt("a", samples, TOY)
    np.testing.assert_array_equal(attempt.training.public, samples.public[:403])
    wrong = LWRSamples(samples.public, np.append(samples.labels[:403], 1 - samples.labels[403:]))
    told = Attempt("a", wrong, TOY)
    assert told.predicts(secret_predictor(secret, TOY), "").accuracy == 0
    assert told.found(secret, "").accuracy == pytest.approx(403 / 503)
    assert told.found(secret, "").tested == 503


def test_a_constant_predicts_nothing_however_uneven_the_labels():
    uneven = LWEParameters(n=6, q=64, p=2, Xs=TERNARY)
    samples, _ = toy(5000, uneven)
    result = Knowing(constant=int(np.argmax(np.bincount(samples.labels))))(samples, uneven)
    assert result.outcome is AttackOutcome.NOTHING
    assert result.accuracy == result.chance > 0.5


def test_better_than_chance_is_claimed_in_at_most_a_share_of_the_level_of_random_predictions():
    # level 1e-4: of 1500 fair-coin predictions none, or hardly ever one
    samples, _ = toy(400)
    generator = np.random.default_rng(0)
    attempt = Attempt("a", samples, TOY)
    found = [
        attempt.predicts(lambda public: generator.integers(2, size=len(public)), "").outcome.succeeded
        for _ in range(1500)
    ]
    assert sum(found) <= 2


def test_with_errors_the_secret_itself_breaks_and_half_the_labels_are_a_part():
    noisy = LWEParameters(n=8, q=2, p=2, Xe=Flips(0.2))
    samples, secret = toy(5000, noisy)
    assert Knowing(tuple(secret.tolist()))(samples, noisy).outcome is AttackOutcome.BROKEN
    part = LWEParameters(n=8, q=2, p=2, Xe=Flips(0.05))
    assert Knowing(tuple(secret.tolist()))(samples, part).outcome is AttackOutcome.PREDICTS


@pytest.mark.parametrize("sigma", [1.0, 3.0])
def test_with_wide_errors_a_secret_shows_itself_by_its_likelihood_and_a_wrong_one_does_not(sigma):
    wide = LWEParameters(n=5, q=3329, p=3329, matrix="uniform", Xe=DiscreteGaussian(sigma))
    samples, secret = toy(400, wide)
    assert Knowing(tuple(secret.tolist()))(samples, wide).outcome is AttackOutcome.BROKEN
    assert (
        Knowing(tuple((secret + np.eye(5, dtype=int)[1]).tolist()))(samples, wide).outcome
        is AttackOutcome.NOTHING
    )


def test_a_prediction_without_a_secret_breaks_only_where_the_share_of_right_labels_tells():
    for rate, outcome in ((0.1, AttackOutcome.BROKEN), (0.45, AttackOutcome.PREDICTS)):
        noisy = LWEParameters(n=8, q=2, p=2, Xe=Flips(rate))
        samples, secret = toy(2000, noisy)
        fresh = samples.held_out(400)[1]
        known = np.where(np.arange(400) % 4, fresh.labels, secret_predictor(secret, noisy)(fresh.public))
        predicted = Attempt("a", samples, noisy).predicts(lambda public, known=known: known, "")
        assert predicted.accuracy > 0.8  # of flipped labels too
        assert predicted.outcome is outcome, predicted
        assert share_right(secret, fresh, noisy) == pytest.approx(1 - rate, abs=0.1)


def test_what_was_found_before_the_budget_was_spent_is_out_of_budget_unless_it_is_a_success():
    samples, secret = toy()
    attempt = Attempt("a", samples, TOY)
    found = attempt.stopped(attempt.found(secret, "Found."), "Stopped.")
    assert found.outcome is AttackOutcome.BROKEN
    assert found.explanation == "Found. Stopped."
    wrong = attempt.stopped(attempt.found(secret + 4, "Found."), "Stopped.")
    assert wrong.outcome is AttackOutcome.BUDGET_SPENT
    assert wrong.accuracy is not None

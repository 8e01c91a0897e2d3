import dataclasses
import math

import numpy as np
import pytest

from lwe.attacks.attack import Attack, AttackEndedError, AttackOutcome, Finding, run_attack
from lwe.attacks.evidence import secret_predictor, share_right
from lwe.distributions import TERNARY, DiscreteGaussian, Flips
from lwe.parameters import LWEParameters
from lwe.samples import LWRSamples, make_samples

TOY = LWEParameters(n=4, q=8, p=2)
SPENT = AttackEndedError(AttackOutcome.BUDGET_SPENT, "Stopped.")


def toy(number=500, parameters=TOY, rng=0):
    return make_samples(parameters, number, rng=rng)


@dataclasses.dataclass(frozen=True)
class Script(Attack):
    """Yields these findings, then raises the error, if there is one."""

    findings: tuple[Finding, ...] = ()
    error: BaseException | None = None
    name = "script"

    def run(self, attempt, rng):
        yield from self.findings
        if self.error is not None:
            raise self.error


def secret_script(secret, error=None):
    return Script((Finding("Known.", np.array(secret)),), error)


def predicting(predict):
    return Script((Finding("Constant.", predict=predict),))


def test_an_attack_that_breaks_down_or_has_no_time_has_a_result():
    samples, _ = toy()
    failed, spent = (run_attack(Script(error=error), samples, TOY) for error in (RuntimeError("no"), SPENT))
    assert [failed.outcome.name, spent.outcome.name] == ["FAILED", "BUDGET_SPENT"]
    assert "RuntimeError: no" in failed.explanation


def test_a_prediction_without_a_secret_is_judged_by_the_last_fifth_and_a_secret_by_all():
    samples, secret = toy(503)
    wrong = LWRSamples(samples.public, np.append(samples.labels[:403], 1 - samples.labels[403:]))
    assert predicting(secret_predictor(secret, TOY))(wrong, TOY).accuracy == 0
    known = secret_script(secret)(wrong, TOY)
    assert known.accuracy == pytest.approx(403 / 503)
    assert known.tested == 503


def test_a_prediction_without_an_error_is_false_with_the_chance_of_coins_over_that_of_an_unknown_rate():
    samples, secret = toy()
    found = predicting(secret_predictor(secret, TOY))(samples, TOY)
    tested = found.tested  # a rate of Jeffreys's prior has so many successes with chance C(2n, n) / 4^n
    assert found.log10_false == pytest.approx(math.log10(2**tested / math.comb(2 * tested, tested)))


def test_a_constant_predicts_nothing_however_uneven_the_labels():
    uneven = LWEParameters(n=6, q=64, p=2, Xs=TERNARY)
    samples, _ = toy(5000, uneven)
    constant = int(np.argmax(np.bincount(samples.labels)))
    result = predicting(lambda public: np.full(len(public), constant))(samples, uneven)
    assert result.outcome is AttackOutcome.NOTHING
    assert result.accuracy == result.chance > 0.5


def test_better_than_chance_is_claimed_in_at_most_a_share_of_the_level_of_random_predictions():
    # level 1e-4: of 500 fair-coin predictions none, or hardly ever one
    samples, _ = toy(400)
    generator = np.random.default_rng(0)
    coins = [generator.integers(2, size=80) for _ in range(500)]
    results = [predicting(lambda public, coin=coin: coin)(samples, TOY) for coin in coins]
    assert sum(result.outcome.succeeded for result in results) <= 2


def test_with_errors_the_secret_itself_breaks_and_half_the_labels_are_a_part():
    noisy = LWEParameters(n=8, q=2, p=2, Xe=Flips(0.2))
    samples, secret = toy(5000, noisy)
    assert secret_script(secret)(samples, noisy).outcome is AttackOutcome.BROKEN
    part = LWEParameters(n=8, q=2, p=2, Xe=Flips(0.05))
    assert secret_script(secret)(samples, part).outcome is AttackOutcome.PREDICTS


@pytest.mark.parametrize("sigma", [1.0, 3.0])
def test_with_wide_errors_a_secret_shows_itself_by_its_likelihood_and_a_wrong_one_does_not(sigma):
    wide = LWEParameters(n=5, q=3329, p=3329, matrix="uniform", Xe=DiscreteGaussian(sigma))
    samples, secret = toy(400, wide)
    assert secret_script(secret)(samples, wide).outcome is AttackOutcome.BROKEN
    assert secret_script(secret + np.eye(5, dtype=int)[1])(samples, wide).outcome is AttackOutcome.NOTHING


def test_a_prediction_without_a_secret_breaks_only_where_the_share_of_right_labels_tells():
    for rate, outcome in ((0.1, AttackOutcome.BROKEN), (0.45, AttackOutcome.PREDICTS)):
        noisy = LWEParameters(n=8, q=2, p=2, Xe=Flips(rate))
        samples, secret = toy(2000, noisy)
        fresh = samples.held_out(400)[1]
        known = np.where(np.arange(400) % 4, fresh.labels, secret_predictor(secret, noisy)(fresh.public))
        predicted = predicting(lambda public, known=known: known)(samples, noisy)
        assert predicted.accuracy > 0.8  # of flipped labels too
        assert predicted.outcome is outcome, predicted
        assert share_right(secret, fresh, noisy) == pytest.approx(1 - rate, abs=0.1)


def test_what_was_found_before_the_budget_was_spent_is_out_of_budget_unless_it_is_a_success():
    noisy = LWEParameters(n=8, q=2, p=2, Xe=Flips(0.05))
    samples, secret = toy(5000, noisy.updated(Xe=Flips(0.2)))
    part = secret_script(secret, SPENT)(samples, noisy)
    assert part.outcome is AttackOutcome.PREDICTS
    assert part.explanation == "Known. Stopped."
    samples, secret = toy()
    wrong = secret_script(secret + 4, SPENT)(samples, TOY)
    assert wrong.outcome is AttackOutcome.BUDGET_SPENT
    assert wrong.accuracy is not None


def test_the_best_finding_counts_and_none_is_asked_for_after_one_that_breaks():
    samples, secret = toy()
    right, wrong = (Finding(str(value), value) for value in (secret, secret + 4))
    assert np.array_equal(Script((wrong, right, wrong), SPENT)(samples, TOY).secret, secret)
    assert Script((wrong, right), SPENT)(samples, TOY).explanation == right.explanation


def test_a_near_secret_is_made_exact_with_rows_of_bits_alone():
    for matrix, broken in (("binary", True), ("uniform", False)):
        made = LWEParameters(24, q=128, p=4, matrix=matrix)
        samples, secret = make_samples(made, 2000, rng=2)
        near = secret + np.random.default_rng(0).integers(-2, 3, size=24)
        result = Script((Finding("Near.", near, near=True),))(samples, made)
        assert (result.outcome is AttackOutcome.BROKEN) is broken

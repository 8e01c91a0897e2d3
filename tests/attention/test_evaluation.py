"""EXACT has one meaning: what is held out says something new, and no learner claims more, on tiny domains too."""

import dataclasses
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attention import (
    AttentionLayer,
    BooleanInputs,
    ExampleOracle,
    GaussianInputs,
    Outcome,
    make_nice_layer,
)
from attention.evaluation import (
    CONFIDENCE,
    HeldOut,
    error_rate_bound,
    hold_out,
    orbits,
    verdict,
    which_held_out,
)
from lwe import LWEParameters, LWRFamily
from lwe.attacks.exhaustive import ExhaustiveAttack
from lwe.attacks.learner import AttackLearner
from upper import (
    LBFGS,
    GradientDescent,
    LinearAttentionLearner,
    LinearBaseline,
    Newton,
    OneGradientStep,
)


def domain(k, d):
    return np.array(list(product([-1.0, 1.0], repeat=k * d))).reshape(-1, k, d)


@given(
    n=st.integers(1, 8),
    k=st.integers(1, 4),
    d=st.integers(1, 3),
    seed=st.integers(0, 2**20),
    signs=st.booleans(),
)
def test_an_orbit_is_the_tokens_in_any_order_and_of_either_sign(n, k, d, seed, signs):
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((n, k, d))
    x = np.sign(x) if signs else x
    other = rng.choice([-1.0, 1.0], (n, 1, 1)) * x[:, rng.permutation(k)]
    np.testing.assert_array_equal(orbits(x), orbits(other))
    if not signs:
        assert len(set(orbits(x).tolist())) == n
        np.testing.assert_array_equal(orbits(x), orbits(x[::-1])[::-1])


@pytest.mark.parametrize(("k", "d"), [(2, 2), (2, 3), (3, 2), (3, 3), (4, 2)])
def test_orbits_are_as_many_as_burnside_counts(k, d):
    # fixed multisets of k of the 2^d tokens, and those that the other sign leaves as they are: pairs {t, -t}
    tokens = 2**d
    multisets = np.prod([(tokens + i) / (i + 1) for i in range(k)])
    pairs = tokens // 2
    symmetric = np.prod([(pairs + i) / (i + 1) for i in range(k // 2)]) if k % 2 == 0 else 0
    assert len(set(orbits(domain(k, d)).tolist())) == (multisets + symmetric) / 2


def test_what_follows_from_fitted_inputs_is_no_evidence():
    x = GaussianInputs(3, 4).sample(5, rng=0)
    equal = np.repeat(GaussianInputs(1, 4).sample(5, rng=1), 3, axis=1)
    for follows in (x, x[:, ::-1], -x, equal):
        assert HeldOut(follows, follows, x).evidence == 0
    new = GaussianInputs(3, 4).sample(5, rng=2)
    held = np.concatenate([new, -new, x])
    assert HeldOut(held, held, x).evidence == 5


def test_one_token_is_evidence_where_the_fitted_ones_span_all():
    x = GaussianInputs(1, 4).sample(6, rng=0)
    assert HeldOut(x[4:], x[4:], x[:4]).evidence == 2
    assert HeldOut(x[4:], x[4:], x[:3]).evidence == 0


@given(distinct=st.integers(1, 30), n=st.integers(2, 80), least=st.integers(1, 20), seed=st.integers(0, 1000))
def test_whole_orbits_are_held_out_and_enough_is_left_to_fit(distinct, n, least, seed):
    rng = np.random.default_rng(seed)
    x = GaussianInputs(2, 2).sample(distinct, rng=seed)[rng.integers(distinct, size=n)]
    order = rng.permuted([[0, 1]] * n, axis=1)
    x = rng.choice([-1.0, 1.0], (n, 1, 1)) * np.take_along_axis(x, order[..., None], 1)
    held = which_held_out(x, least=min(least, n - 1))
    assert 1 <= held.sum() <= n - min(least, n - 1)
    if distinct >= 16 and n >= 60 and least < 10:
        assert not set(orbits(x[held]).tolist()) & set(orbits(x[~held]).tolist())
    fitted, held_out = hold_out(x, x)
    assert len(fitted[0]) + len(held_out.x) == n


def test_a_success_without_evidence_is_unconfirmed():
    def of(evidence, fitted=1e-15, held_out=1e-15, **standard):
        return verdict(
            fitted=fitted,
            held_out=held_out,
            evidence=evidence,
            otherwise=Outcome.LOCAL_MINIMUM,
            **standard,
        ).outcome

    assert of(2) is Outcome.EXACT
    assert of(2, held_out=1e-8) is Outcome.PRECISION_FLOOR
    assert of(2, 0.01, 0.01, tolerance=0.02) is Outcome.REACHED_TOLERANCE
    assert of(1) is of(1, held_out=1e-8) is of(1, 0.01, 0.01, tolerance=0.02) is Outcome.UNCONFIRMED
    assert not Outcome.UNCONFIRMED.succeeded
    assert of(2, 0.01, 0.5) is Outcome.OVERFITTED
    assert of(2, 0.3, 0.5) is Outcome.LOCAL_MINIMUM
    # more work lowers the held-out error, unless nothing is left to fit
    assert of(2, 0.01, 0.5, converged=False) is Outcome.LOCAL_MINIMUM
    assert of(2, 1e-12, 0.5, converged=False) is Outcome.OVERFITTED


@given(n=st.integers(1, 10**6), share=st.floats(1e-6, 1))
def test_a_larger_error_rate_than_the_bound_shows_with_confidence(n, share):
    unseen = (1 - share) ** n  # the probability that no held-out input is wrong
    assert (unseen < 1 - CONFIDENCE) == (share > error_rate_bound(n)) or np.isclose(unseen, 1 - CONFIDENCE)


@pytest.mark.parametrize(
    ("n", "least", "held"), [(100, None, 5), (100, 90, 5), (100, 20, 15), (1000, 20, 59)]
)
def test_what_a_fit_can_spare_is_held_out(n, least, held):
    assert which_held_out(GaussianInputs(3, 4).sample(n, rng=0), least=least).sum() == held


def test_copies_count_as_one_input_held_out_whatever_their_order():
    x = GaussianInputs(3, 4).sample(40, rng=0)
    counts = {len({*orbits(y[which_held_out(y)])}) for y in (np.tile(x, (5, 1, 1)), np.repeat(x, 5, axis=0))}
    assert len(counts) == 1
    assert min(counts) > 1


def test_inputs_of_unequal_tokens_are_fitted_too_where_they_are_rare():
    x = GaussianInputs(3, 4).sample(800, rng=0)
    x[40:] = x[40:, :1]
    held = which_held_out(x)
    assert held.sum() == held[:40].sum() == 5


@pytest.mark.parametrize("learner", [Newton(2), LinearAttentionLearner("aug")])
def test_a_success_states_its_error_rate_and_no_other_outcome_does(learner):
    inputs, zero = GaussianInputs(3, 4), np.zeros((2, 4, 4))
    for layer in (AttentionLayer(zero, zero + np.eye(4)), make_nice_layer(heads=2, dim=4, rng=0)):
        fit = learner.fit(ExampleOracle(layer, inputs, rng=1), rng=2)
        assert (fit.error_rate_bound is not None) == fit.outcome.succeeded
        assert fit.outcome.succeeded == ("wrong on at most" in str(fit))
        assert fit.held_out_error >= 0


@pytest.mark.slow
def test_fresh_examples_of_a_tiny_domain_confirm_nothing_and_those_of_a_large_one_do():
    pytest.importorskip("torch", reason="torch is not installed")
    learner = GradientDescent(1, optimizer="sgd", work=2000, batch=32, tolerance=0.05)
    ends = {BooleanInputs(2, 3): Outcome.UNCONFIRMED, BooleanInputs(3, 8): Outcome.REACHED_TOLERANCE}
    for inputs, outcome in ends.items():
        layer = make_nice_layer(heads=1, dim=inputs.dim, rng=0)
        assert learner.fit(ExampleOracle(layer, inputs, rng=1), rng=2).outcome is outcome


def test_an_attack_whose_samples_hold_fewer_bits_than_secrets_is_unconfirmed():
    parameters = LWEParameters(n=8, q=4, p=2)
    instance = LWRFamily(n=8, q=4, p=2).instance(rng=0)
    x, y = ExampleOracle(instance.layer, instance.inputs, rng=1).draw(500)
    on_gate = np.flatnonzero(np.any(y, axis=(1, 2)))[:22]
    few = np.tile(on_gate, 20)
    for chosen, outcome in ((np.arange(500), Outcome.EXACT), (few, Outcome.UNCONFIRMED)):
        learner = AttackLearner(ExhaustiveAttack(), parameters)
        assert learner.fit(ExampleOracle.from_arrays(x[chosen], y[chosen]), rng=0).outcome is outcome


@pytest.mark.parametrize(("share", "outcome"), [(0.07, "NOTHING_LEARNED"), (0.12, "LOCAL_MINIMUM")])
def test_an_error_two_standard_errors_below_that_of_zero_is_something(share, outcome):
    x, y, noise = np.random.default_rng(1).standard_normal((3, 20, 3, 4))
    noise -= np.sum(noise * y) / np.sum(y**2) * y
    noise *= np.linalg.norm(y) / np.linalg.norm(noise)
    found = HeldOut(x, y, x[:0]).verdict(
        lambda _: share * y + 0.3 * noise, fitted=0.9, otherwise=Outcome.LOCAL_MINIMUM
    )
    assert found.held_out_error == pytest.approx(np.hypot(1 - share, 0.3))
    assert found.outcome.name == outcome


LEARNERS = [Newton(1, work=100), Newton("auto", starts=1, work=50), LBFGS(1, work=20)]


@pytest.mark.parametrize(
    "learner", [*LEARNERS, OneGradientStep(), LinearBaseline(), LinearAttentionLearner()]
)
def test_all_examples_that_are_given_are_used_unless_told_otherwise(learner):
    x, y = ExampleOracle(make_nice_layer(heads=1, dim=4, rng=0), GaussianInputs(3, 4), rng=1).draw(700)
    assert learner.fit(ExampleOracle.from_arrays(x, y), rng=0).examples_used == 700
    told = dataclasses.replace(learner, examples=150)
    assert told.fit(ExampleOracle.from_arrays(x, y), rng=0).examples_used == 150

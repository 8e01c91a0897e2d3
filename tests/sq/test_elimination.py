import dataclasses

import numpy as np
import pytest

from attention import (
    BooleanInputs,
    ExampleOracle,
    GaussianInputs,
    Learner,
    Outcome,
    make_nice_layer,
)
from attention.testing import check_learner
from sq import ParityElimination, make_parity_instance


def attack(instance, seed, **oracle):
    return ParityElimination.for_instance(instance).fit(
        ExampleOracle(instance.layer, instance.inputs, rng=seed, **oracle), rng=0
    )


def test_the_secret_is_never_read():
    instance = make_parity_instance(dim=20, heads=2, rng=0)
    lying = dataclasses.replace(
        instance, secret=np.array([1, 2, 3]), layer=make_nice_layer(heads=2, dim=20, rng=0)
    )
    fit = ParityElimination.for_instance(lying).fit(ExampleOracle(instance.layer, instance.inputs, rng=0))
    assert fit.outcome is Outcome.EXACT
    np.testing.assert_array_equal(fit.layer.theta, instance.layer.theta)


def test_too_few_examples_end_without_a_claim():
    instance = make_parity_instance(dim=40, heads=2, rng=0)
    for budget in (40, 60, 80):
        learner = ParityElimination.for_instance(instance, examples=budget)
        fit = learner.fit(ExampleOracle(instance.layer, instance.inputs, rng=0))
        assert fit.outcome is Outcome.EXAMPLES_SPENT
        assert fit.examples_used <= budget
    # enough to determine the secret, too few to check it: the answer is given, success is not claimed
    learner = ParityElimination.for_instance(instance, examples=84)
    fits = [learner.fit(ExampleOracle(instance.layer, instance.inputs, rng=seed)) for seed in range(20)]
    unchecked = [fit for fit in fits if fit.outcome is Outcome.EXAMPLES_SPENT and fit.layer is not None]
    assert len(unchecked) >= 5
    for fit in unchecked:
        np.testing.assert_array_equal(fit.layer.theta, instance.layer.theta)
    given = ExampleOracle.from_arrays(*ExampleOracle(instance.layer, instance.inputs, rng=0).draw(60))
    assert ParityElimination.for_instance(instance).fit(given).outcome is Outcome.EXAMPLES_RAN_OUT


def test_an_and_of_three_bits_is_no_parity():
    def target(x):
        bits = (x[:, 0, 1:4] != x[:, 1, 1:4]).all(axis=1)
        half = (x[:, 0, 0] - x[:, 1, 0]) / 2 * np.where(bits, -1, 1)
        return half[:, None, None] * np.array([[1.0], [-1.0]]) * np.eye(6)[0]

    fits = [
        ParityElimination().fit(ExampleOracle(target, BooleanInputs(2, 6), rng=seed)) for seed in range(40)
    ]
    exact = [fit for fit in fits if fit.outcome.succeeded]
    assert len(exact) <= 2  # with half as many equations held out it was every eleventh
    assert all(fit.error_rate_bound > 1 / 16 for fit in exact)  # the share that is wrong


@pytest.mark.parametrize(
    ("k", "inputs"), [(2, BooleanInputs(2, 20)), (3, BooleanInputs(3, 20)), (2, GaussianInputs(2, 20))]
)
def test_targets_of_other_kinds_are_called_so(k, inputs):
    layer = make_nice_layer(heads=2, dim=20, rng=0)
    for learner in (
        ParityElimination(),
        ParityElimination.for_instance(make_parity_instance(dim=20, heads=2, rng=0)),
    ):
        fit = learner.fit(ExampleOracle(layer, inputs, rng=0))
        assert fit.outcome is Outcome.NOT_APPLICABLE
        assert fit.predict(inputs.sample(3, rng=0)).shape == (3, k, 20)


@pytest.mark.bad_input
@pytest.mark.parametrize("construction", ["B", "D"])
def test_contract_on_a_parity(construction):
    instance = make_parity_instance(dim=12, bits=3, construction=construction, rng=0)
    learner = ParityElimination.for_instance(instance)
    assert isinstance(learner, Learner)
    fit = check_learner(learner, instance.layer, instance.inputs, known=instance.known)
    assert fit.outcome is Outcome.EXACT

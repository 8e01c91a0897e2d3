"""Lattice reduction finds periodic directions without noise, and not with it."""

import numpy as np
import pytest

from attention import BooleanInputs, ExampleOracle, GroundTruth, Outcome
from attention.testing import check_learner
from sq import PeriodicFamily, PeriodicLattice, ProfileFamily

pytest.importorskip("fpylll")
pytestmark = pytest.mark.extras


def attack(family, seed, *, noise=0.0, bits=44):
    instance = family.instance(rng=seed, direction=np.arange(1.0, family.dim + 1))
    truth = GroundTruth.draw(instance.layer, instance.inputs, 500, rng=seed)
    oracle = ExampleOracle(instance.layer, instance.inputs, noise=noise, rng=[seed, 1])
    fit = PeriodicLattice.for_instance(instance, bits=bits).fit(oracle, rng=0)
    return fit, truth.measure(predict=fit.predict, layer=fit.layer)


@pytest.mark.parametrize(
    "family",
    [
        PeriodicFamily(dim=8),
        PeriodicFamily(dim=8, gamma=5.6, sharpness=0.8),
        PeriodicFamily(dim=8, sharpness=40.0),
        pytest.param(PeriodicFamily(dim=16), marks=pytest.mark.slow),
        pytest.param(PeriodicFamily(dim=24), marks=pytest.mark.slow),
        pytest.param(PeriodicFamily(dim=24, gamma=10.0), marks=pytest.mark.slow),
    ],
    ids=lambda one: f"{one.dim}-{one.gamma}-{one.sharpness}",
)
def test_it_finds_the_direction_without_noise(family):
    for seed in range(2):
        fit, measures = attack(family, seed)
        assert fit.outcome is Outcome.EXACT
        assert measures["theta_error"] < 1e-10
        assert measures["unknown_part_error"] < 1e-9


@pytest.mark.parametrize("noise", [1e-6, 0.05])
def test_label_noise_breaks_it(noise):
    for seed in range(5):
        fit, measures = attack(PeriodicFamily(dim=8), seed, noise=noise)
        assert fit.outcome is Outcome.NOTHING_LEARNED
        assert measures["unknown_part_error"] == 1.0


def test_fewer_bits_of_more_rows_stand_small_noise():
    family = PeriodicFamily(dim=8)
    assert PeriodicLattice(family, bits=20).rows > PeriodicLattice(family).rows
    fit, _ = attack(family, 0, noise=1e-6, bits=20)
    assert fit.outcome is Outcome.REACHED_TOLERANCE
    assert PeriodicLattice(family, bits=10).rows is None
    assert attack(family, 0, noise=1e-3, bits=10)[0].outcome is Outcome.NOTHING_LEARNED


@pytest.mark.bad_input
def test_it_says_what_does_not_fit_it():
    family = PeriodicFamily(dim=8)
    instance = family.instance(rng=0)
    signs = ExampleOracle(instance.layer, BooleanInputs(2, 8), rng=0)
    assert PeriodicLattice(family).fit(signs).outcome is Outcome.NOT_APPLICABLE
    few = PeriodicLattice(family, examples=37)
    spent = few.fit(ExampleOracle(instance.layer, instance.inputs, rng=0)).outcome
    assert spent in (Outcome.EXAMPLES_SPENT, Outcome.EXACT)
    with pytest.raises(ValueError, match="sq-periodic"):
        PeriodicLattice.for_instance(ProfileFamily.bump(dim=8, bits=4).instance(0))
    check_learner(PeriodicLattice(family), instance.layer, instance.inputs)

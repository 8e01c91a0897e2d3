"""Every learner keeps the contract of learners: what it counts, what it claims, and what it refuses."""

from importlib.util import find_spec

import pytest

from attention import BooleanInputs, make_nice_layer
from attention.testing import check_learner
from upper import (
    LBFGS,
    ByQueries,
    GradientDescent,
    KnownComponentBaseline,
    LinearAttentionLearner,
    LinearBaseline,
    Newton,
    OneGradientStep,
    SixPhase,
)

SMALL = {"work": 60, "batch": 16}
LEARNERS = [
    Newton("auto"),
    ByQueries(),
    LBFGS(2, work=200),
    OneGradientStep(),
    LinearBaseline(),
    KnownComponentBaseline(),
    *(
        LinearAttentionLearner(kind, least_norm=one)
        for kind in ("plain", "aug", "cent")
        for one in (False, True)
    ),
]
TORCH = [
    GradientDescent(2, **SMALL),
    GradientDescent(2, **SMALL, reused=100, dtype="float64", schedule="linear"),
    GradientDescent(2, optimizer="sgd", **SMALL, reused=100),
    GradientDescent(2, optimizer="sgd", **SMALL, eliminates_w=True),
    pytest.param(GradientDescent(2, optimizer="muon", **SMALL), marks=pytest.mark.slow),
]
if find_spec("pytorch_optimizer"):
    TORCH.append(pytest.param(GradientDescent(2, optimizer="soap", **SMALL), marks=pytest.mark.slow))
PHASES = [
    SixPhase(heads=2, examples=10_000),
    pytest.param(SixPhase(heads=2, mode="paper", examples=60_000, tolerance=0.05), marks=pytest.mark.slow),
]


def name(learner):
    return type(learner).__name__


@pytest.mark.bad_input
@pytest.mark.parametrize("learner", [*LEARNERS, *(TORCH if find_spec("torch") else [])], ids=name)
def test_learners_keep_their_contract(learner):
    check_learner(learner, make_nice_layer(heads=2, dim=5, rng=0), BooleanInputs(2, 5))


@pytest.mark.bad_input
@pytest.mark.parametrize("learner", PHASES, ids=name)
def test_the_six_phases_keep_their_contract(learner):
    check_learner(learner, make_nice_layer(heads=2, dim=8, rng=0), BooleanInputs(2, 8), seed=1)

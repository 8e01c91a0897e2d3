"""Every hard family, of heads of rank one in one direction, falls to value queries in any basis, and its secret."""

from functools import partial
from itertools import product

import numpy as np
import pytest

from attention import AnswerPrecision, AttentionLayer, Outcome, ValueOracle
from lwe import BINARY, LWRFamily
from sq import HiddenGateFamily, PairFamily, ParityFamily, ProfileFamily, TokenParityFamily
from upper import ByQueries
from upper.value_queries.learner import judge
from upper.value_queries.queries import TwoTokens, linear_part

# of a dimension; those of many heads are larger
FAMILIES = {
    "parity A": partial(ParityFamily, bits=2, construction="A"),
    "parity B": partial(ParityFamily, bits=3, construction="B"),
    "parity C": partial(ParityFamily, bits=3, construction="C"),
    "parity D, 2 heads": partial(ParityFamily, heads_count=2, construction="D"),
    "parity D, 3 heads": partial(ParityFamily, heads_count=3, construction="D"),
    "two slopes": partial(ProfileFamily.two_slope, bits=8),
    "bump": partial(ProfileFamily.bump, bits=8),
    "designed steps": partial(ProfileFamily.designed_steps, bits=6, heads_count=4),
    "centre thresholds": partial(ProfileFamily.centre_threshold, bits=8, heads_count=4),
    "pair": PairFamily,
    "hidden gate": lambda dim: HiddenGateFamily(base=ParityFamily(dim=dim, bits=3)),
    "token parity, 3 tokens": partial(TokenParityFamily, tokens=3, bits=2),
    "token parity, 2 tokens": partial(TokenParityFamily, tokens=2, bits=3),
    "rounding": lambda dim: LWRFamily(n=dim - 4, q=8, p=2, Xs=BINARY),
    "ternary rounding": lambda dim: LWRFamily(n=dim - 4, q=8, p=2, matrix="ternary", Xs=BINARY),
    "gadget rounding": lambda dim: LWRFamily(n=dim // 4, q=8, p=2, matrix="gadget"),
}


def check(family, rotated, seed=1):
    """The layer of an instance is found, so its secret is, which is the argument of no other function."""
    instance = family.instance(rng=seed)
    d = instance.layer.dim
    basis = np.linalg.qr(np.random.default_rng(seed).standard_normal((d, d)))[0] if rotated else np.eye(d)
    layer = AttentionLayer(*(basis.T @ part @ basis for part in (instance.layer.theta, instance.layer.w)))
    fit = ByQueries().fit(ValueOracle(layer, tokens=instance.inputs.tokens), rng=seed)
    assert fit.outcome is Outcome.EXACT
    assert fit.layer.heads == layer.heads
    x = instance.inputs.sample(2000, rng=[seed, 1])
    assert (
        np.abs(fit.layer(x @ basis) @ basis.T - instance.layer(x)).max()
        < 1e-9 * np.abs(instance.layer(x)).max()
    )


@pytest.mark.parametrize(
    ("family", "rotated", "dim"),
    [
        # 14 is enough for each; the small ones are rotated every other time, and one of them takes seconds
        pytest.param(
            name,
            rotated,
            dim,
            marks=[pytest.mark.slow]
            * (dim > 14 or rotated == bool(number % 2) or name == "ternary rounding"),
        )
        for (number, name), rotated, dim in product(enumerate(FAMILIES), (False, True), (14, 32))
    ],
)
def test_every_family_is_found_in_any_basis(family, rotated, dim):
    check(FAMILIES[family](dim=dim), rotated)


@pytest.mark.parametrize("k", [2, 3, 4])
def test_any_heads_of_one_output_direction(k):
    layer = generic(k)
    fit = ByQueries().fit(ValueOracle(layer, tokens=k), rng=1)
    assert fit.outcome is Outcome.EXACT
    x = np.random.default_rng(k).standard_normal((500, k, 8))
    assert np.abs(fit.predict(x) - layer(x)).max() < 1e-9 * np.abs(layer(x)).max()


def generic(seed, d=8):
    """Three heads with full Theta_i and one direction of outputs."""
    rng = np.random.default_rng(seed)
    theta = rng.standard_normal((3, d, d)) / np.sqrt(d)
    return AttentionLayer(theta, rng.standard_normal((3, d, 1)) * rng.standard_normal(d))


def test_heads_that_cancel_are_found_where_all_are_saturated_at_tokens_of_unit_length():
    check(LWRFamily(n=24, q=64, p=2), rotated=True, seed=2010)


def test_the_trace_shows_the_steps_and_the_worst_condition():
    fit = ByQueries().fit(ValueOracle(generic(2), tokens=2), rng=1)
    steps = {step.name: step.measures for step in fit.trace}
    assert steps["Steps found"]["heads"] == 3
    assert steps["Steps followed"]["rank"] == 8
    assert steps["Heads assembled"]["heads"] == 3
    # the logits that cancel where a head steps are large
    assert steps["Heads assembled"]["condition"] > 10


@pytest.mark.parametrize("k", [2, 3])
def test_more_heads_than_coordinates_of_one_output_direction(k):
    """At one difference their slopes are always combinations of one another, at all differences they are not."""
    rng = np.random.default_rng(k)
    layer = AttentionLayer(
        rng.standard_normal((6, 4, 4)) / 2, rng.standard_normal((6, 4, 1)) * rng.standard_normal(4)
    )
    fit = ByQueries().fit(ValueOracle(layer, tokens=k), rng=1)
    assert fit.outcome is Outcome.EXACT
    assert fit.layer.heads == 6
    # two tokens do not tell the signs of Theta
    x = rng.standard_normal((500, k, 4))
    assert np.abs(fit.predict(x) - layer(x)).max() < 1e-9 * np.abs(layer(x)).max()


def test_heads_is_the_most_heads():
    oracle = ValueOracle(generic(2, d=4), tokens=2)
    assert ByQueries(heads=3).fit(oracle, rng=1).outcome is Outcome.EXACT
    assert ByQueries(heads=2).fit(oracle, rng=1).outcome is Outcome.NOT_SEPARATED


def test_steep_heads_that_nearly_cancel_are_missed_by_no_check():
    """Two steep heads that differ by 1e-6 show on few tokens that are not short."""
    rng = np.random.default_rng(0)
    weak, steep = 1e-3 * rng.standard_normal((8, 8)), 1e3 * rng.standard_normal((8, 8))
    a, w = rng.standard_normal(8), rng.standard_normal(8)
    full = AttentionLayer(
        np.array([weak, steep, steep + 1e-3 * rng.standard_normal((8, 8))]),
        np.outer(a, w) * np.array([1, 1, -1])[:, None, None],
    )
    without = AttentionLayer(full.theta[:1], full.w[:1])
    for seed in range(5):
        assert agreement(full, without, scale=30.0, seed=seed) is Outcome.NOT_SEPARATED
        assert agreement(full, full, scale=30.0, seed=seed) is Outcome.EXACT


@pytest.mark.parametrize("i", [15, 16])
def test_neighbouring_heads_of_a_gadget_rounding_are_missed_by_no_check(i):
    """Heads 15 to 17 of 19 step at so large values that two of them cancel on most tokens that are not short."""
    layer = LWRFamily(n=8, q=16, p=2, matrix="gadget").instance(rng=2).layer
    theta, w = np.delete(layer.theta, i, axis=0), np.delete(layer.w, i, axis=0)
    theta[i], w[i] = 0, layer.w[[i, i + 1]].sum(axis=0)
    found = [agreement(layer, AttentionLayer(theta, w), scale=0.7, seed=seed) for seed in range(3)]
    assert found == [Outcome.NOT_SEPARATED] * 3


def agreement(target, layer, scale, seed):
    oracle = ValueOracle(target, tokens=2)
    pairs = TwoTokens(oracle, linear_part(oracle), AnswerPrecision(), scale=scale)
    return judge(pairs, layer, np.random.default_rng(seed), checks=96).outcome

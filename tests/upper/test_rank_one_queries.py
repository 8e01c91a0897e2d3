"""Every hard family, of heads of rank one in one direction, falls to value queries in any basis, and its secret."""

import numpy as np
import pytest

from attention import AttentionLayer, ValueOracle
from lwe.families import LWRFamily
from lwe.laws import IntegerLaw
from sq.hidden_gate import HiddenGateFamily
from sq.pairs import PairFamily
from sq.parities import ParityFamily
from sq.profiles import BumpFamily, CentreThresholdFamily, DesignedStepsFamily, TwoSlopeFamily
from sq.token_parity import TokenParityFamily
from upper.value_queries import ByQueries


def families(d, minimal):
    """Every family of sets, `minimal` being parities of construction D."""
    return [
        ParityFamily(dim=d, bits=2, construction="A"),
        ParityFamily(dim=d, bits=3, construction="B"),
        ParityFamily(dim=d, bits=3, construction="C"),
        *(ParityFamily(dim=size, heads_count=heads, construction="D") for size, heads in minimal),
        TwoSlopeFamily(dim=d, bits=8),
        BumpFamily(dim=d, bits=8),
        DesignedStepsFamily(dim=d, bits=6, heads_count=4),
        CentreThresholdFamily(dim=d, bits=8, heads_count=4),
        PairFamily(dim=d),
        HiddenGateFamily(base=ParityFamily(dim=d, bits=3)),
        TokenParityFamily(dim=d, tokens=3, bits=2),
        TokenParityFamily(dim=d, tokens=2, bits=3),
    ]


def rounding(n, matrix="binary", law="uniform", modulus=8):
    return LWRFamily(secret_dim=n, modulus=modulus, levels=2, matrix=matrix, secret=IntegerLaw(law))


def found_in_basis(instance, seed, rotated):
    """The outcome on a layer in a random basis or its own, and what was found in its own."""
    d = instance.layer.dim
    basis = np.linalg.qr(np.random.default_rng(seed).standard_normal((d, d)))[0] if rotated else np.eye(d)
    layer = AttentionLayer(*(basis.T @ part @ basis for part in (instance.layer.theta, instance.layer.w)))
    oracle = ValueOracle(layer, k=instance.inputs.k)
    fit = ByQueries().fit(oracle, rng=seed)
    found = fit.predict
    if fit.outcome.succeeded:
        found = AttentionLayer(*(basis @ part @ basis.T for part in (found.theta, found.w)))
    return fit, found


def named_set(instance, found):
    """The secret coordinates: where some Theta_i is not zero, other than the gate, which is where W_i is not."""
    gate = int(np.argmax(np.linalg.norm(found.w, axis=(0, 2))))
    entries = np.abs(found.theta).max(axis=0)
    rows, columns = np.nonzero(entries > 1e-6 * entries.max())
    named = {*rows.tolist(), *columns.tolist()} - {gate}
    if instance.family == "sq-token-parity":
        named -= {1}
    return [gate, *sorted(named)] if instance.family == "sq-hidden-gate" else sorted(named)


def named_secret(instance, found):
    """The centred secret of a rounding: the diagonal over the slope, in the sign of which labels agree."""
    size = {name: instance.parameters[name] for name in ("modulus", "levels", "beta")}
    heads = found.theta[np.abs(found.theta).max(axis=(1, 2)) > 1]
    form = np.rint(np.diag(heads[0])[1:] / size["beta"])
    x = instance.inputs.sample(200, rng=0)
    gate = x[:, 0, 0] != x[:, 1, 0]
    told = found(x)[gate, 0, 0] * x[gate, 0, 0] + (size["levels"] - 1) / 2
    changed = x[gate, 0, 1:] != x[gate, 1, 1:]
    for sign in (1, -1):
        total = changed @ (sign * form) % size["modulus"]
        if np.allclose(np.floor(size["levels"] * total / size["modulus"]), told):
            return sign * form % size["modulus"]
    return None


def check(family, seed, rotated):
    instance = family.instance(rng=seed)
    fit, found = found_in_basis(instance, seed, rotated)
    assert fit.outcome.succeeded
    x = instance.inputs.sample(2000, rng=seed)
    answers = instance.layer(x)
    assert np.abs(found(x) - answers).max() < 1e-8 * np.abs(answers).max()
    if instance.family == "lwr":
        named, q = named_secret(instance, found), instance.parameters["modulus"]
        secret = np.atleast_1d(instance.secret)
        powers = 2 ** np.arange(len(named) // len(secret))
        assert np.array_equal(named, np.outer(secret, powers).ravel() % q)
    else:
        assert named_set(instance, found) == instance.secret.tolist()


@pytest.mark.parametrize("rotated", [False, True], ids=["coordinates", "rotated"])
@pytest.mark.parametrize("family", families(14, [(14, 2), (14, 3)]), ids=lambda family: family.title)
def test_small_families_of_sets(family, rotated):
    check(family, 1, rotated)


@pytest.mark.slow
@pytest.mark.parametrize("rotated", [False, True], ids=["coordinates", "rotated"])
@pytest.mark.parametrize("family", families(32, [(48, 2), (48, 3), (48, 4)]), ids=lambda family: family.title)
def test_families_of_sets(family, rotated):
    check(family, 1, rotated)


@pytest.mark.parametrize("rotated", [False, True], ids=["coordinates", "rotated"])
@pytest.mark.parametrize(
    "family",
    [
        rounding(10, law="binary"),
        rounding(3, matrix="gadget"),
        pytest.param(rounding(24, law="binary"), marks=pytest.mark.slow),
        pytest.param(rounding(24, modulus=64), marks=pytest.mark.slow),
        pytest.param(rounding(8, matrix="gadget", modulus=16), marks=pytest.mark.slow),
    ],
    ids=lambda family: family.title,
)
def test_rounding(family, rotated):
    check(family, 1, rotated)


@pytest.mark.parametrize("k", [2, 3, 4])
def test_any_heads_of_one_output_direction(k):
    rng = np.random.default_rng(k)
    theta = rng.standard_normal((3, 8, 8)) / np.sqrt(8)
    w = rng.standard_normal((3, 8, 1)) * rng.standard_normal(8)
    layer = AttentionLayer(theta, w)
    fit = ByQueries().fit(ValueOracle(layer, k=k), rng=1)
    assert fit.outcome.succeeded
    x = rng.standard_normal((500, k, 8))
    assert np.abs(fit.predict(x) - layer(x)).max() < 1e-9 * np.abs(layer(x)).max()

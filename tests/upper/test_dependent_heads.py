"""`ByQueries` on layers whose heads depend on each other: what three tokens determine, and what two leave open."""

import numpy as np
import pytest

from attention import AttentionLayer, Outcome, ValueOracle, parameter_errors, relative_error
from upper import ByQueries

DIM, HEADS = 10, 3


def dependent_layer(kind: str, seed: int, *, biased: bool = False) -> AttentionLayer:
    rng = np.random.default_rng(seed)
    theta = rng.normal(0, 2 / DIM, (HEADS, DIM, DIM))
    w = rng.normal(0, DIM**-0.5, (HEADS, DIM, DIM))
    c = rng.normal(size=(HEADS, DIM)) if biased else np.zeros((HEADS, DIM))
    match kind:
        case "two cancel":
            w[1] = -w[0]
        case "all cancel":
            w[2] = -w[0] - w[1]
        case "opposite":
            theta[1], c[1] = -theta[0], -c[0]
        case "alike":
            theta[0] = 0
            c[0] = 0
        case "twice":
            theta[1], c[1] = 2 * theta[0], 2 * c[0]
        case "one output":
            w[1:] = np.array([2.0, -0.5])[:, None, None] * w[0]
    return AttentionLayer(theta, w, c, rng.normal(size=DIM)) if biased else AttentionLayer(theta, w)


KINDS = [
    *("two cancel", "all cancel", "opposite", "alike", "twice"),
    pytest.param("one output", marks=pytest.mark.slow),
]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("biased", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_three_tokens_determine_every_parameter(kind, biased):
    layer = dependent_layer(kind, 0, biased=biased)
    fit = ByQueries().fit(ValueOracle(layer, tokens=3), rng=0)
    assert fit.outcome is Outcome.EXACT
    errors = parameter_errors(fit.layer, layer)
    assert max(errors.theta.max(), errors.w.max()) < 1e-9
    x = np.random.default_rng(1).standard_normal((20, 3, DIM))
    assert relative_error(fit.layer(x), layer(x)) < 1e-10


@pytest.mark.parametrize(
    ("kind", "sizes", "uniform"),
    [
        ("two cancel", [2], False),
        ("all cancel", [3], False),
        ("opposite", [1, 1], True),
        ("alike", [1, 1], True),
        ("twice", [], False),
    ],
)
def test_two_tokens_leave_the_signs_of_sets_whose_projections_cancel(kind, sizes, uniform):
    layer = dependent_layer(kind, 1)
    fit = ByQueries().fit(ValueOracle(layer, tokens=2), rng=0)
    assert fit.outcome is Outcome.EXACT
    x = np.random.default_rng(1).standard_normal((20, 2, DIM))
    assert relative_error(fit.layer(x), layer(x)) < 1e-10
    signs = fit.details
    assert [len(heads) for heads in signs.sets] == sizes
    assert signs.uniform == uniform
    for heads in signs.sets:
        turned = np.isin(np.arange(fit.layer.heads), heads)
        sign, w = np.where(turned, -1, 1)[:, None, None], fit.layer.w.copy()
        if uniform:  # the head that attends to all tokens alike takes the difference
            alike = np.linalg.norm(fit.layer.theta, axis=(1, 2)) < 1e-6
            w[alike] += 2 * w[turned].sum(axis=0)
        other = AttentionLayer(sign * fit.layer.theta, sign * w)
        assert relative_error(other(x), layer(x)) < 1e-10
        more = np.random.default_rng(2).standard_normal((20, 3, DIM))
        assert relative_error(other(more), fit.layer(more)) > 1e-3


def test_heads_of_general_layers_leave_nothing_open():
    layer = dependent_layer("general", 0)
    signs = ByQueries().fit(ValueOracle(layer, tokens=2), rng=0).details
    assert signs.sets == ()
    assert not signs.uniform

"""Phase 3: the sum by rows of large margin and by consistency, with errors as measured, and how either fails."""

import numpy as np
import pytest

from attention import AttentionLayer, BooleanInputs, ExampleOracle, GaussianInputs, Outcome, make_nice_layer
from upper.six_phase import (
    Contrasts,
    PhaseFailedError,
    certify_agreement,
    estimate_projection_sum,
    refine_by_consistency,
    refine_by_margin,
    sculpt,
    sculpt_affine_hull,
)


def _oracle(layer, k, rng, inputs=BooleanInputs):
    return ExampleOracle(layer, inputs(k=k, d=layer.dim), rng=rng)


def _agreeing(heads, d, rng, scale=1):
    nice = make_nice_layer(heads=heads, dim=d, rng=rng)
    return AttentionLayer(theta=scale * np.stack([nice.theta[0]] * heads), w=nice.w)


def _body(theta, rng):
    """The body of one matrix, from equations that hold exactly."""
    d = len(theta)
    rows, differences = np.random.default_rng(rng).standard_normal((2, 5 * d * d, d))
    right = np.einsum("na,ab,nb->n", rows, theta, differences)
    return sculpt(Contrasts(rows, differences[:, None], right[:, None], np.ones(len(rows))), wide=0)


# ---- by margin


def test_hard_attention_gives_the_sum_exactly():
    """With logits of hundreds every pattern is one-hot: Y_a = x_b sum_i W_i to rounding."""
    layer = _agreeing(2, 10, 12, scale=300)
    body = _body(layer.theta[0], 13)
    for over in ("body", "proxy"):
        oracle = _oracle(layer, 3, 14)
        found = refine_by_margin(oracle, body, wide=0, examples=500, margin=40.0, over=over)
        assert found.error(layer) < 1e-12
        assert found.series["margins"].min() >= 40
        assert (oracle.drawn, found.examples) == (500, 500)


def test_error_is_of_the_order_of_the_exponential_of_the_margin(monkeypatch):
    """One head: |Y_a - x_b W| <= sum_(c != b) p_c |(x_c - x_b) W|, so that the error falls as e^-margin."""
    monkeypatch.setattr("upper.six_phase.phase3_refine_sum._ROWS", 10_000)
    layer = make_nice_layer(heads=1, dim=8, rng=15, sigma=4.0)
    body = _body(layer.theta[0], 16)
    errors = []
    for margin in (2.0, 5.0, 8.0):
        oracle = _oracle(layer, 2, 17)
        found = refine_by_margin(oracle, body, wide=0, examples=20_000, margin=margin)
        assert found.series["margins"][-1] >= margin
        assert np.all(np.diff(found.series["margins"]) <= 0)
        errors.append(found.error(layer))
        assert found.error(layer) < 4 * np.exp(-margin)
    assert errors[2] < 0.1 * errors[1] < 0.01 * errors[0]


def test_error_by_margin_falls_as_measured():
    """From about .083 to about .003 at (m, k, d) = (2, 2, 32)."""
    layer = make_nice_layer(heads=2, dim=32, rng=0)
    oracle = _oracle(layer, 2, 10)
    crude = estimate_projection_sum(oracle, 32_000)
    assert 0.07 < crude.error(layer) < 0.1
    hull = sculpt_affine_hull(oracle, crude.w, wide=1, accept=0.05)
    found = refine_by_margin(oracle, hull.body, wide=1, examples=100_000)
    assert found.error(layer) < 0.006
    assert found.series["margins"].shape == (8 * 32,)
    assert 1 <= found.measures["condition"] < 5


@pytest.mark.parametrize("over", ["body", "proxy"])
def test_a_margin_that_no_row_has_fails_with_margin(over):
    layer = make_nice_layer(heads=1, dim=8, rng=18)
    with pytest.raises(PhaseFailedError, match="margin of 100 logits") as failure:
        refine_by_margin(
            _oracle(layer, 2, 20), _body(layer.theta[0], 19), wide=0, examples=300, margin=100.0, over=over
        )
    assert failure.value.outcome is Outcome.NO_LARGE_MARGIN


# ---- by consistency


@pytest.mark.parametrize("inputs", [BooleanInputs, GaussianInputs])
@pytest.mark.parametrize("k", [2, 3])
def test_true_sum_is_a_fixed_point_when_heads_agree(k, inputs):
    layer = _agreeing(3, 12, 0)
    total = layer.w.sum(axis=0)
    found = refine_by_consistency(_oracle(layer, k, 1, inputs), total, examples=500)
    np.testing.assert_allclose(found.w, total, atol=1e-8)
    assert found.series["changes"].max() < 1e-8
    assert found.series["thresholds"].max() < 1e-8


def test_scale_is_not_free():
    """From 1.2 times the true sum, with heads that agree everywhere, the scale comes back by itself."""
    layer = _agreeing(2, 12, 4)
    total = layer.w.sum(axis=0)
    found = refine_by_consistency(_oracle(layer, 2, 5), 1.2 * total, examples=4_000, shares=(0.1,) * 6)
    scale = np.vdot(found.w, total) / np.vdot(total, total)
    assert abs(scale - 1) < 0.05


@pytest.mark.parametrize(
    ("m", "k", "d", "before", "after"),
    [(2, 2, 32, 0.088, 0.0004), pytest.param(2, 3, 32, 0.13, 0.004, marks=pytest.mark.slow)],
)
def test_error_by_consistency_falls_as_measured(m, k, d, before, after):
    layer = make_nice_layer(heads=m, dim=d, rng=0)
    oracle = _oracle(layer, k, 10)
    crude = estimate_projection_sum(oracle, 32_000)
    assert crude.error(layer) == pytest.approx(before, rel=0.15)
    found = refine_by_consistency(oracle, crude.w, examples=50_000)
    assert found.error(layer) < 2 * after
    assert oracle.drawn == 32_000 + found.examples == 32_000 + 7 * 50_000


def test_given_examples_too_few_for_all_rounds_are_shared_out():
    layer = make_nice_layer(heads=2, dim=8, rng=24)
    oracle = ExampleOracle.from_arrays(*_oracle(layer, 2, 25).draw(1_001))
    found = refine_by_consistency(oracle, layer.w.sum(axis=0), examples=900, shares=(0.2, 0.1))
    assert (found.examples, oracle.remaining) == (1_000, 1)
    with pytest.raises(PhaseFailedError, match="no example is left") as failure:
        refine_by_consistency(oracle, layer.w.sum(axis=0), examples=900, shares=(0.2, 0.1))
    assert (failure.value.outcome, oracle.remaining) == (Outcome.EXAMPLES_SPENT, 1)


def test_rows_kept_of_each_batch_are_the_best_of_all():
    """Keeping twice its share of each batch loses no row: as one batch of all the examples would have it."""
    layer = make_nice_layer(heads=2, dim=8, rng=12)
    total = layer.w.sum(axis=0)
    x, y = _oracle(layer, 2, 13, GaussianInputs).draw(70_000)  # several batches, no two rows alike
    found = refine_by_consistency(ExampleOracle.from_arrays(x, y), total, examples=70_000, shares=(0.02,))
    certificates = certify_agreement(x, y, total)
    inside = certificates.pattern.min(axis=-1) > -0.1
    residual = np.where(inside, certificates.residual, np.inf)
    threshold = np.sort(residual, axis=None)[int(0.02 * 140_000) - 1]
    assert found.series["thresholds"][0] == pytest.approx(threshold, rel=1e-9)
    chosen = residual <= threshold
    read = np.einsum("nab,nbd->nad", certificates.pattern, x)[chosen]
    np.testing.assert_allclose(found.w, np.linalg.lstsq(read, y[chosen], rcond=None)[0], atol=1e-9)


@pytest.mark.parametrize(
    ("refine", "outcome"),
    [
        (
            lambda layer, oracle: refine_by_consistency(oracle, layer.w[0], examples=500, shares=(0.5,)),
            "NO_AGREEMENT",
        ),
        (
            lambda layer, oracle: refine_by_margin(
                oracle, _body(layer.theta[0], 25), wide=0, examples=500, margin=0.1
            ),
            "NO_LARGE_MARGIN",
        ),
    ],
    ids=["consistency", "margin"],
)
def test_tokens_that_do_not_span_fail(refine, outcome):
    layer = make_nice_layer(heads=1, dim=8, rng=18)
    x = GaussianInputs(k=2, d=8).sample(500, rng=19)
    x[..., -1] = 0.0
    with pytest.raises(PhaseFailedError, match="rank 7 of 8") as failure:
        refine(layer, ExampleOracle.from_arrays(x, layer(x)))
    assert failure.value.outcome.name == outcome

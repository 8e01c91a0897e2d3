"""Phases 1 to 3: the crude sum, agreement events, the sum by rows of large margin and by consistency."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attention import (
    AttentionLayer,
    BooleanInputs,
    ExampleOracle,
    GaussianInputs,
    Outcome,
    SphereInputs,
    make_nice_layer,
)
from tests.upper.six_phase.agreeing import agreeing_layer, exact_contrasts
from upper.six_phase import (
    PhaseFailedError,
    attention_span,
    estimate_projection_sum,
    refine_by_consistency,
    refine_by_margin,
    sculpt_affine_hull,
)
from upper.six_phase.agreement import certify_agreement, contrasts_of
from upper.six_phase.convex_body import Ellipsoid


def _oracle(layer, k, rng, inputs=BooleanInputs):
    return ExampleOracle(layer, inputs(tokens=k, dim=layer.dim), rng=rng)


def _body(theta, rng):
    """The body of one matrix, from equations that hold exactly."""
    return Ellipsoid.of(exact_contrasts(theta[None], 5 * len(theta) ** 2, rng=rng), wide=0)


@given(
    n=st.integers(1, 60),
    m=st.integers(1, 3),
    k=st.integers(1, 4),
    d=st.integers(1, 9),
    seed=st.integers(0, 2**32 - 1),
)
@settings(max_examples=40, deadline=None)
def test_phase_1_is_one_gradient_step_of_a_head_without_attention(n, m, k, d, seed):
    """Half the mean squared error of J X W / k at W = 0 has the gradient -(J X / k)^T Y."""
    x, y = _oracle(make_nice_layer(heads=m, dim=d, rng=seed), k, seed).draw(n)
    estimate = estimate_projection_sum(ExampleOracle.from_arrays(x, y), n)
    read = np.repeat(x.mean(axis=1, keepdims=True), k, axis=1)
    step = np.einsum("nai,naj->ij", read, y) / n
    np.testing.assert_allclose(estimate.w, step, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("inputs", [BooleanInputs, GaussianInputs, SphereInputs])
def test_without_attention_only_the_standard_error_remains(inputs):
    """error^2 is a mean of d^2 squares with expectation the squared standard error; its spread comes with 100 runs."""
    layer = AttentionLayer(theta=np.zeros((2, 8, 8)), w=make_nice_layer(heads=2, dim=8, rng=5).w)
    total = layer.w.sum(axis=0)
    oracle = ExampleOracle(layer, inputs(tokens=3, dim=8), rng=6)
    ratios = []
    for _ in range(100):
        estimate = estimate_projection_sum(oracle, 400)
        error = estimate.standard_error * np.linalg.norm(estimate.w)
        ratios.append(np.sum((estimate.w - total) ** 2) / error**2)
    spread = np.std(ratios) / np.sqrt(len(ratios))
    assert spread < 0.05
    assert abs(np.mean(ratios) - 1) < 4 * spread + 1 / 400


# ---- by margin


def test_hard_attention_gives_the_sum_exactly():
    """With logits of hundreds every pattern is one-hot: Y_a = x_b sum_i W_i to rounding."""
    layer = agreeing_layer(2, 10, 12, scale=300)
    body = _body(layer.theta[0], 13)
    for over in ("body", "proxy"):
        oracle = _oracle(layer, 3, 14)
        found = refine_by_margin(oracle, body, examples=500, margin=40.0, over=over)
        assert found.error(layer) < 1e-12
        assert found.margins.min() >= 40
        assert (oracle.drawn, found.examples) == (500, 500)


@pytest.mark.parametrize("over", ["body", "proxy"])
def test_a_margin_that_no_row_has_fails_with_margin(over):
    layer = make_nice_layer(heads=1, dim=8, rng=18)
    with pytest.raises(PhaseFailedError, match="margin of 100 logits") as failure:
        refine_by_margin(
            _oracle(layer, 2, 20), _body(layer.theta[0], 19), examples=300, margin=100.0, over=over
        )
    assert failure.value.outcome is Outcome.NO_LARGE_MARGIN


# ---- by consistency


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
    assert found.thresholds[0] == pytest.approx(threshold, rel=1e-9)
    chosen = residual <= threshold
    read = np.einsum("nab,nbd->nad", certificates.pattern, x)[chosen]
    np.testing.assert_allclose(found.w, np.linalg.lstsq(read, y[chosen], rcond=None)[0], atol=1e-9)


@pytest.mark.parametrize("examples", [4, 3])
def test_as_many_certified_rows_as_coordinates_are_enough(examples):
    """Two rows an example; equal tokens certify nothing."""
    layer = agreeing_layer(2, 8, 4)
    x = GaussianInputs(tokens=2, dim=8).sample(50, rng=5)
    x[examples:, 1] = x[examples:, 0]
    oracle = ExampleOracle.from_arrays(x, layer(x))
    if 2 * examples == 8:
        found = refine_by_consistency(oracle, layer.w.sum(axis=0), examples=50, shares=(0.5,))
        assert found.error(layer) < 1e-9
    else:
        with pytest.raises(PhaseFailedError, match="6 of 100 rows could be certified: 8 are"):
            refine_by_consistency(oracle, layer.w.sum(axis=0), examples=50, shares=(0.5,))


@pytest.mark.parametrize(
    ("refine", "outcome"),
    [
        (
            lambda layer, oracle: refine_by_consistency(oracle, layer.w[0], examples=500, shares=(0.5,)),
            "NO_AGREEMENT",
        ),
        (
            lambda layer, oracle: refine_by_margin(
                oracle, _body(layer.theta[0], 25), examples=500, margin=0.1
            ),
            "NO_LARGE_MARGIN",
        ),
    ],
    ids=["consistency", "margin"],
)
def test_tokens_that_do_not_span_fail(refine, outcome):
    layer = make_nice_layer(heads=1, dim=8, rng=18)
    x = GaussianInputs(tokens=2, dim=8).sample(500, rng=19)
    x[..., -1] = 0.0
    with pytest.raises(PhaseFailedError, match="rank 7 of 8") as failure:
        refine(layer, ExampleOracle.from_arrays(x, layer(x)))
    assert failure.value.outcome.name == outcome


FIELDS = ("rows", "differences", "log_ratios", "weights")


def _usable(certificates):
    return np.isfinite(certificates.residual) & (certificates.pattern.min(axis=-1) > 0.05)


@pytest.mark.parametrize(("m", "k", "d", "accept"), [(2, 2, 16, 0.01), (2, 3, 16, 0.05), (3, 2, 16, 0.05)])
def test_share_accepted_is_that_of_all_rows(m, k, d, accept):
    """The threshold's 100 rows leave a tenth of the share to chance: four times that is allowed."""
    layer = make_nice_layer(heads=m, dim=d, rng=0)
    hull = sculpt_affine_hull(_oracle(layer, k, 1), layer.w.sum(axis=0), wide=m - 1, accept=accept)
    assert hull.acceptance == pytest.approx(accept, rel=0.4)
    assert hull.rows == k * hull.examples
    assert hull.histogram.sum() <= hull.rows
    # as many examples as the share says, and hardly more equations than were wanted
    assert hull.examples == pytest.approx(6 * d * d / (accept * k * (k - 1)), rel=0.5)
    assert 6 * d * d <= hull.contrasts.equations < 1.3 * 6 * d * d


@pytest.mark.parametrize("wide", [1, None])
def test_accepted_are_the_usable_rows_up_to_the_threshold(wide):
    layer = make_nice_layer(heads=2, dim=8, rng=2)
    total = layer.w.sum(axis=0)
    x, y = _oracle(layer, 2, 3).draw(20_000)
    hull = sculpt_affine_hull(ExampleOracle.from_arrays(x, y), total, wide=wide, accept=0.02)
    x, y = x[: hull.examples], y[: hull.examples]
    certificates = certify_agreement(x, y, total)
    accepted = _usable(certificates) & (certificates.residual <= hull.threshold)
    expected = contrasts_of(x, certificates.pattern, accepted)
    assert hull.accepted == accepted.sum()
    for name in FIELDS:
        # in pieces: every stretch of the examples is in its order
        np.testing.assert_allclose(getattr(hull.contrasts, name), getattr(expected, name), atol=1e-9)
    # the threshold is the quantile of the pilot's rows
    pilot = slice(0, int(100 / 0.02 / 2))
    usable = np.where(_usable(certificates), certificates.residual, np.inf)[pilot]
    assert hull.threshold == pytest.approx(np.sort(usable, axis=None)[99], rel=1e-9)


@pytest.mark.parametrize("wide", [0, None])
def test_of_one_head_half_of_the_usable_rows_are_accepted(wide):
    layer = make_nice_layer(heads=1, dim=12, rng=6)
    # a sum that is a little off: residuals are of its size, in every row
    off = layer.w[0] + 0.03 * np.random.default_rng(7).standard_normal((12, 12)) / np.sqrt(12)
    x, y = _oracle(layer, 2, 8).draw(4_000)
    hull = sculpt_affine_hull(ExampleOracle.from_arrays(x, y), off, wide=wide, accept=0.01)
    usable = _usable(certify_agreement(x[: hull.examples], y[: hull.examples], off)).sum()
    assert hull.accepted == pytest.approx(usable / 2, rel=0.4)
    assert attention_span(hull.body).errors(layer)["span_error"] < 0.03


def test_no_usable_row_is_said():
    layer = make_nice_layer(heads=2, dim=8, rng=18)
    x = np.repeat(BooleanInputs(tokens=1, dim=8).sample(500, rng=19), 2, axis=1)
    oracle = ExampleOracle.from_arrays(x, layer(x))
    with pytest.raises(PhaseFailedError, match="no row of") as failure:
        sculpt_affine_hull(oracle, layer.w.sum(axis=0), wide=1)
    assert failure.value.outcome is Outcome.NO_AGREEMENT

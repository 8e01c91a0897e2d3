"""Agreement events: the share of rows that is accepted, which they are, and what they cost in examples and memory."""

import numpy as np
import pytest

from attention import BooleanInputs, ExampleOracle, Outcome, make_nice_layer
from upper.six_phase import PhaseFailedError, attention_span, sculpt_affine_hull
from upper.six_phase.agreement import certify_agreement, contrasts_of

FIELDS = ("rows", "differences", "log_ratios", "weights")


def _oracle(layer, k, rng):
    return ExampleOracle(layer, BooleanInputs(tokens=k, dim=layer.dim), rng=rng)


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

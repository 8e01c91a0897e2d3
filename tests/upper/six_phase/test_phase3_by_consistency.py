"""The self-consistent refinement: the true sum is a fixed point, and the error falls as measured."""

import numpy as np
import pytest

from attention import AttentionLayer, BooleanInputs, ExampleOracle, GaussianInputs, Outcome, make_nice_layer
from upper.six_phase import (
    PhaseFailedError,
    certify_agreement,
    estimate_projection_sum,
    refine_by_consistency,
)


def _oracle(layer, k, rng, inputs=BooleanInputs):
    return ExampleOracle(layer, inputs(k=k, d=layer.dim), rng=rng)


def _agreeing(heads, d, rng):
    nice = make_nice_layer(heads=heads, dim=d, rng=rng)
    return AttentionLayer(theta=np.stack([nice.theta[0]] * heads), w=nice.w)


@pytest.mark.parametrize("inputs", [BooleanInputs, GaussianInputs])
@pytest.mark.parametrize("k", [2, 3])
def test_true_sum_is_a_fixed_point_when_heads_agree(k, inputs):
    layer = _agreeing(3, 12, 0)
    total = layer.w.sum(axis=0)
    found = refine_by_consistency(_oracle(layer, k, 1, inputs), total, examples=500)
    np.testing.assert_allclose(found.w, total, atol=1e-8)
    assert found.series["changes"].max() < 1e-8
    assert found.series["thresholds"].max() < 1e-8


def test_true_sum_is_a_fixed_point_up_to_the_disagreement_of_the_accepted_rows():
    layer = make_nice_layer(heads=2, dim=16, rng=2)
    found = refine_by_consistency(
        _oracle(layer, 2, 3), layer.w.sum(axis=0), examples=20_000, shares=(0.05, 0.01)
    )
    assert found.error(layer) < found.series["thresholds"][-1]
    assert (
        found.series["thresholds"][1] < 0.3 * found.series["thresholds"][0]
    )  # rows agree up to eps at a rate of eps


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
def test_error_falls_as_measured(m, k, d, before, after):
    layer = make_nice_layer(heads=m, dim=d, rng=0)
    oracle = _oracle(layer, k, 10)
    crude = estimate_projection_sum(oracle, 32_000)
    assert crude.error(layer) == pytest.approx(before, rel=0.15)
    found = refine_by_consistency(oracle, crude.w, examples=50_000)
    assert found.error(layer) < 2 * after
    assert oracle.drawn == 32_000 + found.examples == 32_000 + 7 * 50_000


def test_rounds_are_recorded_and_every_example_is_counted():
    layer = make_nice_layer(heads=2, dim=8, rng=6)
    oracle = _oracle(layer, 2, 7)
    found = refine_by_consistency(oracle, layer.w.sum(axis=0), examples=600, shares=(0.2, 0.1, 0.05))
    assert found.series["thresholds"].shape == found.series["changes"].shape == (3,)
    assert found.examples == oracle.drawn == 3 * 600
    assert np.all(np.diff(found.series["thresholds"]) < 0)
    assert 1 <= found.measures["condition"] < 100


def test_given_examples_are_used_once_each():
    layer = make_nice_layer(heads=2, dim=8, rng=8)
    oracle = ExampleOracle.from_arrays(*_oracle(layer, 2, 9).draw(1_000))
    found = refine_by_consistency(oracle, layer.w.sum(axis=0), examples=500, shares=(0.2, 0.1))
    assert (found.examples, oracle.remaining) == (1_000, 0)


@pytest.mark.parametrize("unit", [1e-160, 1e160])
def test_refinement_does_not_depend_on_the_unit_of_the_labels(unit):
    layer = make_nice_layer(heads=2, dim=8, rng=22)
    large = AttentionLayer(theta=layer.theta, w=unit * layer.w)
    start = 1.05 * layer.w.sum(axis=0)
    one, other = (
        refine_by_consistency(_oracle(each, 2, 23), u * start, examples=2_000, shares=(0.2, 0.1))
        for each, u in ((layer, 1.0), (large, unit))
    )
    np.testing.assert_allclose(other.w / unit, one.w, rtol=1e-9)
    np.testing.assert_allclose(other.series["changes"], one.series["changes"], rtol=1e-9)
    np.testing.assert_allclose(other.series["thresholds"], one.series["thresholds"], rtol=1e-9)
    assert other.error(large) == pytest.approx(one.error(layer), rel=1e-9)


def test_given_examples_too_few_for_all_rounds_are_shared_out():
    layer = make_nice_layer(heads=2, dim=8, rng=24)
    oracle = ExampleOracle.from_arrays(*_oracle(layer, 2, 25).draw(1_001))
    found = refine_by_consistency(oracle, layer.w.sum(axis=0), examples=900, shares=(0.2, 0.1))
    assert (found.examples, oracle.remaining) == (1_000, 1)
    with pytest.raises(PhaseFailedError, match="no example is left") as failure:
        refine_by_consistency(oracle, layer.w.sum(axis=0), examples=900, shares=(0.2, 0.1))
    assert (failure.value.outcome, oracle.remaining) == (Outcome.EXAMPLES_SPENT, 1)


@pytest.mark.bad_input
def test_no_round_is_refused():
    layer = make_nice_layer(heads=1, dim=4, rng=26)
    with pytest.raises(ValueError, match="shares is empty"):
        refine_by_consistency(_oracle(layer, 2, 27), layer.w[0], shares=())


def test_bits_do_not_depend_on_jobs():
    layer = make_nice_layer(heads=2, dim=8, rng=10)
    total = layer.w.sum(axis=0)
    # 40 000 examples are several batches
    one, two = (
        refine_by_consistency(_oracle(layer, 2, 11), total, examples=40_000, shares=(0.1, 0.05), jobs=jobs)
        for jobs in (1, 2)
    )
    assert np.array_equal(one.w, two.w)
    assert np.array_equal(one.series["thresholds"], two.series["thresholds"])


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


def test_too_few_certified_rows_fail_with_agreement():
    layer = make_nice_layer(heads=2, dim=8, rng=14)
    with pytest.raises(PhaseFailedError, match="could be certified") as failure:
        refine_by_consistency(_oracle(layer, 2, 15), layer.w.sum(axis=0), examples=3)
    assert failure.value.outcome is Outcome.NO_AGREEMENT


def test_repeated_tokens_alone_fail_with_agreement():
    layer = make_nice_layer(heads=2, dim=8, rng=16)
    x = np.repeat(BooleanInputs(k=1, d=8).sample(500, rng=17), 2, axis=1)
    oracle = ExampleOracle.from_arrays(x, layer(x))
    with pytest.raises(PhaseFailedError) as failure:
        refine_by_consistency(oracle, layer.w.sum(axis=0), examples=500, shares=(0.1,))
    assert failure.value.outcome is Outcome.NO_AGREEMENT


def test_tokens_that_do_not_span_fail_with_agreement():
    layer = make_nice_layer(heads=2, dim=8, rng=18)
    x = GaussianInputs(k=2, d=8).sample(500, rng=19)
    x[..., -1] = 0.0
    oracle = ExampleOracle.from_arrays(x, layer(x))
    with pytest.raises(PhaseFailedError, match="rank 7 of 8") as failure:
        refine_by_consistency(oracle, layer.w.sum(axis=0), examples=500, shares=(0.5,))
    assert failure.value.outcome is Outcome.NO_AGREEMENT

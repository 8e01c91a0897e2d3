"""Agreement within eps in logits has probability of order eps^((m-1)(k-1))."""

import numpy as np
import pytest

from attention import AttentionLayer, BooleanInputs, GaussianInputs, SphereInputs, make_nice_layer
from upper.six_phase import measure_agreement
from upper.six_phase.agreement_law import disagreement


@pytest.mark.parametrize(
    ("m", "k", "inputs"),
    [
        (2, 3, BooleanInputs),
        pytest.param(3, 2, GaussianInputs, marks=pytest.mark.slow),
        pytest.param(2, 2, SphereInputs, marks=pytest.mark.slow),
    ],
)
def test_the_probability_of_agreement_has_slope_m_minus_1_times_k_minus_1(m, k, inputs):
    layer = make_nice_layer(heads=m, dim=32, rng=0)
    law = measure_agreement(layer, inputs(tokens=k, dim=32), rows=1_000_000, rng=1)
    assert law.exponent == (m - 1) * (k - 1)
    assert abs(law.slope - law.exponent) < 0.1 * law.exponent


def test_equal_heads_always_agree_and_a_shift_of_all_logits_is_no_disagreement():
    theta = np.random.default_rng(0).standard_normal((5, 5))
    equal = AttentionLayer(theta=np.stack([theta, theta]), w=np.zeros((2, 5, 5)))
    x = BooleanInputs(tokens=3, dim=5).sample(20, rng=1)
    assert np.all(disagreement(equal, x) == 0)
    law = measure_agreement(equal, BooleanInputs(tokens=3, dim=5), rows=100, tolerances=(0.1, 0.2), rng=2)
    assert law.counts.tolist() == [law.rows, law.rows]
    assert law.rows == 102  # whole examples of three rows
    for heads, k, tolerances in ((1, 2, (0.1, 0.2)), (2, 1, (0.1, 0.2)), (2, 3, (1e-9, 1e-8))):
        layer, inputs = make_nice_layer(heads=heads, dim=8, rng=0), BooleanInputs(tokens=k, dim=8)
        with pytest.raises(ValueError, match=r"every row agrees|look at more rows"):
            _ = measure_agreement(layer, inputs, rows=9, tolerances=tolerances, rng=1).slope

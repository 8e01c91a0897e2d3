"""Agreement within eps in logits has probability of order eps^((m-1)(k-1))."""

import numpy as np
import pytest

from attention import AttentionLayer, BooleanInputs, GaussianInputs, SphereInputs, make_nice_layer
from upper.six_phase import disagreement, measure_agreement


@pytest.mark.parametrize(
    ("m", "k"),
    [pytest.param(2, 2, marks=pytest.mark.slow), (2, 3), pytest.param(3, 2, marks=pytest.mark.slow)],
)
@pytest.mark.parametrize(
    "inputs",
    [
        BooleanInputs,
        pytest.param(GaussianInputs, marks=pytest.mark.slow),
        pytest.param(SphereInputs, marks=pytest.mark.slow),
    ],
)
def test_the_probability_of_agreement_has_slope_m_minus_1_times_k_minus_1(m, k, inputs):
    layer = make_nice_layer(heads=m, dim=32, rng=0)
    law = measure_agreement(layer, inputs(k=k, d=32), rows=1_000_000, rng=1)
    assert law.exponent == (m - 1) * (k - 1)
    assert abs(law.slope - law.exponent) < 0.1 * law.exponent


def test_disagreement_is_the_largest_difference_of_contrasts():
    layer = make_nice_layer(heads=3, dim=6, rng=0)
    x = GaussianInputs(k=4, d=6).sample(5, rng=1)
    found = disagreement(layer, x)
    for example, tokens in enumerate(x):
        for a in range(4):
            differences = [
                tokens[a] @ (layer.theta[i] - layer.theta[j]) @ (tokens[b] - tokens[c])
                for i in range(3)
                for j in range(3)
                for b in range(4)
                for c in range(4)
            ]
            assert np.isclose(found[example, a], max(differences))


def test_equal_heads_always_agree_and_a_shift_of_all_logits_is_no_disagreement():
    theta = np.random.default_rng(0).standard_normal((5, 5))
    equal = AttentionLayer(theta=np.stack([theta, theta]), w=np.zeros((2, 5, 5)))
    x = BooleanInputs(k=3, d=5).sample(20, rng=1)
    assert np.all(disagreement(equal, x) == 0)
    law = measure_agreement(equal, BooleanInputs(k=3, d=5), rows=100, tolerances=(0.1, 0.2), rng=2)
    assert law.counts.tolist() == [law.rows, law.rows]
    assert law.rows == 102  # whole examples of three rows


@pytest.mark.bad_input
@pytest.mark.parametrize(
    ("heads", "k", "changes", "complaint"),
    [
        (1, 2, {}, "with one of either every row agrees"),
        (2, 1, {}, "with one of either every row agrees"),
        (2, 2, {"rows": 0}, "rows is 0"),
        (2, 2, {"tolerances": (0.0, 1.0)}, "tolerances is a sequence with 0.0"),
    ],
)
def test_wrong_parameters_are_sentences(heads, k, changes, complaint):
    with pytest.raises(ValueError, match=complaint):
        measure_agreement(make_nice_layer(heads=heads, dim=4, rng=0), BooleanInputs(k=k, d=4), **changes)


def test_a_slope_needs_two_tolerances_with_rows():
    layer = make_nice_layer(heads=2, dim=8, rng=0)
    law = measure_agreement(layer, BooleanInputs(k=3, d=8), rows=9, tolerances=(1e-9, 1e-8), rng=1)
    with pytest.raises(ValueError, match="look at more rows"):
        _ = law.slope

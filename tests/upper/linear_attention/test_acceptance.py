"""Figures of acceptance, one test each; 6 to 9 are those of studies, and tested there."""

import numpy as np
import pytest

from upper.linear_attention import (
    LinearAttention,
    certify,
    exact_rank,
    feature_moment,
    features_from_tensor,
    fit_heads,
    make_linear_attention,
    population_moment,
    regress,
    symmetric_rank,
)


def relative_error(learned, model, x):
    return np.linalg.norm(learned(x) - model(x)) / np.linalg.norm(model(x))


@pytest.mark.parametrize(
    ("tokens", "n", "rank"),
    [
        ("gaussian", 5, 40),
        ("gaussian", 1, 20),
        ("boolean", 3, 28),
        ("boolean", 1, 8),
        ("boolean-constant", 3, 55),
    ],
)
def test_1_ranks_of_four_dimensions(tokens, n, rank):
    moment = population_moment(tokens, 4, n)
    assert certify(moment, moment).rank == exact_rank(tokens, 4, n) == rank


def test_2_smallest_gaussian_eigenvalue_is_8_and_the_boolean_spectrum():
    assert np.linalg.eigvalsh(population_moment("gaussian", 4, 5))[0] == pytest.approx(8, abs=1e-10)
    # of 5e6 samples it is within 2 per cent; half a million are enough for 4
    x = np.random.default_rng(0).standard_normal((500_000, 5, 4))
    assert np.linalg.eigvalsh(feature_moment(x))[0] == pytest.approx(8, rel=0.04)
    spectrum = np.linalg.eigvalsh(population_moment("boolean", 4, 3))
    distinct = spectrum[np.append(True, np.diff(spectrum) > 1e-6)]
    np.testing.assert_allclose(distinct, [0, 3.3786, 4, 10, 42.6214], atol=5e-5)


def test_3_as_many_examples_as_features_are_the_threshold():
    rng = np.random.default_rng(3)
    model = make_linear_attention(heads=8, dim=8, rng=rng)
    x, fresh = rng.standard_normal((1152, 10, 8)), rng.standard_normal((500, 10, 8))
    errors = {
        n: relative_error(regress(x[:n], model(x[:n]), method=method, least_norm=True), model, fresh)
        for n, method in ((287, "svd"), (288, "svd"), (1152, "auto"))
    }
    assert errors[287] > 1e-2
    assert errors[288] < 1e-11
    assert errors[1152] < 1e-13


def test_4_symmetric_rank_64_becomes_4_heads():
    rng = np.random.default_rng(4)
    model = make_linear_attention(heads=4, dim=8, rng=rng)
    x, fresh = rng.standard_normal((576, 10, 8)), rng.standard_normal((500, 10, 8))
    learned = regress(x, model(x))
    found = fit_heads(learned)
    assert symmetric_rank(learned.tensor) == 64
    assert found.model.heads == 4
    assert relative_error(found.model, model, fresh) < 1e-9


def test_5_signs_transfer_to_other_lengths_and_not_to_gaussian_tokens():
    rng = np.random.default_rng(5)
    model = make_linear_attention(heads=3, dim=5, rng=rng)
    signs, more = np.sign(rng.standard_normal((200, 4, 5))), rng.standard_normal((20, 4, 5))
    longer, gaussian = np.sign(rng.standard_normal((500, 30, 5))), rng.standard_normal((500, 4, 5))
    learned = regress(signs, model(signs))
    assert relative_error(learned, model, longer) < 1e-13
    assert relative_error(learned, model, gaussian) > 0.1
    both = np.concatenate([signs, more])
    learned = regress(both, model(both))
    assert learned.rank == 75
    assert relative_error(learned, model, gaussian) < 1e-11


def test_10_the_antisymmetric_pair_of_heads_outputs_exactly_zero():
    v, q = np.zeros((2, 2, 4, 4))
    v[0, 0, 1] = q[0, 2, 3] = q[1, 1, 3] = 1
    v[1, 0, 2] = -1
    pair = LinearAttention(v, q)
    assert not features_from_tensor(pair.tensor()).any()
    assert not pair(np.random.default_rng(10).integers(-9, 10, (500, 6, 4)).astype(float)).any()
    found = fit_heads(pair)
    assert (found.heads, found.lower_bound, found.tail, found.minimal) == (0, 0, 0, True)
    assert "No head" in str(found)

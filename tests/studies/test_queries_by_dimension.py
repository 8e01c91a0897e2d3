"""Value queries: the bound beside them, and what a fit of all answers adds under noise."""

import numpy as np

from attention import make_nice_layer
from studies import query_noise
from studies.noise import derivative
from studies.queries_by_dimension import measure


def measured(**cell):
    return cell | measure(rng=np.random.default_rng(0), draw=0, **cell)


def test_nice_layers_are_found_above_the_bound():
    pairs = measured(part="nice", name="two tokens", dim=16)
    several = measured(part="nice", name="any tokens", dim=16)
    assert pairs["bound"] == 128
    assert pairs["bound"] < pairs["count"] < 4 * pairs["bound"]
    assert several["count"] < pairs["count"]
    assert max(pairs["error"], several["error"]) < 1e-10


def test_a_parity_is_found_and_has_the_bound_of_its_certificate():
    row = measured(part="hard", name="parity of 3 bits", dim=12)
    assert row["bound"] == 2  # 165 secrets, 99 of which one query can rule out
    assert row["error"] < 1e-8


def test_a_fit_of_all_answers_lowers_the_error_of_the_reading():
    cell = {"heads": 2, "dim": 8, "level": 1e-2, "draw": 0}
    row = query_noise.measure(rng=np.random.default_rng(0), **cell)
    assert row["outcome"] == "NOISE_FLOOR"
    assert 0 < 1.5 * row["theta_polished"] < row["theta_estimate"]
    # the first-order prediction of the one, and the bound of the other
    for name in ("theta", "w"):
        assert row[f"{name}_condition"] / 4 < row[f"{name}_estimate"] < 1.5 * row[f"{name}_condition"]
        assert row[f"{name}_bound"] < row[f"{name}_polished"] < 10 * row[f"{name}_bound"]


def test_the_bound_is_the_covariance_of_least_squares():
    """Where errors are so small that answers are linear in them, least squares on the same answers attains it."""
    layer, rng, noise = make_nice_layer(heads=2, dim=3, rng=0), np.random.default_rng(0), 1e-3
    x = rng.standard_normal((200, 3, 3))
    rows = derivative(layer, x).reshape(-1, 36)
    errors = np.linalg.lstsq(rows, noise * rng.standard_normal((len(rows), 2000)), rcond=None)[0]
    sizes = np.sqrt(np.mean(errors.reshape(2, 2, 9, -1) ** 2, axis=3).sum(axis=2))
    relative = [
        sizes[i] / np.linalg.norm(array, axis=(1, 2)) for i, array in enumerate((layer.theta, layer.w))
    ]
    bounds = query_noise.cramer_rao_errors(layer, [x[:120], x[120:]], noise)
    np.testing.assert_allclose([part.max() for part in relative], bounds, rtol=0.03)

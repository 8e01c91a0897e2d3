"""Every condition against brute force, on layers that meet all and on layers built to violate one."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attention import (
    AttentionLayer,
    check_conditions,
    make_affinely_dependent_layer,
    make_block_diagonal_layer,
    make_close_heads_layer,
    make_low_rank_layer,
    make_nice_layer,
)
from attention.head_measures import largest_characteristic_value

NAMES = {
    *(f"theta_{one}" for one in ("incoherence", "stable_rank", "norms_comparable", "trace")),
    *(f"theta_{one}" for one in ("non_arithmetic", "norms", "pairwise_distance")),
    *("theta_linear_independence", "theta_affine_independence"),
    *(f"w_{one}" for one in ("incoherence", "stable_rank", "norms_comparable")),
    *("heads_against_dimension", "tokens_against_dimension"),
}
layers = st.builds(
    lambda heads, dim, seed, sigma: make_nice_layer(heads=heads, dim=dim, sigma=sigma, rng=seed),
    st.integers(2, 5),
    st.integers(2, 8),
    st.integers(0, 2**32),
    st.floats(0.01, 100),
)


def frobenius(matrix):
    return math.sqrt(sum(entry**2 for entry in matrix.ravel()))


def brute_force(layer, tokens):
    """Every measured value by loops over heads, pairs and columns."""
    m, d = layer.heads, layer.dim
    values = {"heads_against_dimension": m / d, "tokens_against_dimension": tokens / d}
    for letter, matrices in (("theta", layer.theta), ("w", layer.w)):
        pairs = list(itertools.combinations(matrices, 2))
        norms = [frobenius(one) for one in matrices]
        values |= {
            f"{letter}_incoherence": max(
                abs(np.trace(a.T @ b)) / (frobenius(a) * frobenius(b)) for a, b in pairs
            ),
            f"{letter}_stable_rank": min(
                frobenius(one) ** 2 / np.linalg.eigvalsh(one.T @ one)[-1] for one in matrices
            ),
            f"{letter}_norms_comparable": max(norms) / min(norms),
        }
    theta = layer.theta
    flat = theta.reshape(m, -1)
    units = np.array([one / frobenius(one) for one in flat])
    centred = flat - sum(flat) / m
    spectrum = np.linalg.eigvalsh(centred @ centred.T)[::-1]
    return values | {
        "theta_trace": max(sum(one[j, j] for j in range(d)) ** 2 / frobenius(one) ** 2 for one in theta),
        "theta_norms": max(frobenius(one) for one in theta),
        "theta_pairwise_distance": min(
            frobenius(a - b) / max(frobenius(a), frobenius(b)) for a, b in itertools.combinations(theta, 2)
        ),
        "theta_linear_independence": math.sqrt(max(np.linalg.eigvalsh(units @ units.T)[0], 0)),
        "theta_affine_independence": math.sqrt(max(spectrum[m - 2], 0) / (sum(spectrum) / (m - 1))),
    }


class TestMeasured:
    @given(layer=layers, tokens=st.integers(1, 9))
    @settings(max_examples=15, deadline=None)
    def test_values_are_those_of_brute_force(self, layer, tokens):
        report = check_conditions(layer, tokens=tokens)
        assert {one.name for one in report.conditions} == NAMES
        expected = brute_force(layer, tokens)
        for name, value in expected.items():
            # the brute force of the independence goes by Gram matrices, and loses half the digits
            assert report[name].measured == pytest.approx(value, rel=1e-9, abs=2e-7), name
        for one in report.conditions:
            if one.per_head is not None:
                assert len(one.per_head) == layer.heads
                assert one.measured == (max if one.better == "small" else min)(one.per_head)

    @given(layer=layers, scale=st.sampled_from([1e-200, 1e-3, 7.0, 1e150]), seed=st.integers(0, 99))
    @settings(max_examples=25, deadline=None)
    def test_scale_and_order_of_the_heads_change_nothing_but_the_norms(self, layer, scale, seed):
        order = np.random.default_rng(seed).permutation(layer.heads)
        other = AttentionLayer(theta=scale * layer.theta[order], w=scale * layer.w[order])
        for one, two in zip(
            check_conditions(layer).conditions, check_conditions(other).conditions, strict=True
        ):
            factor = scale if one.name == "theta_norms" else 1
            if one.measured is not None:
                assert two.measured == pytest.approx(factor * one.measured, rel=1e-6, abs=1e-12)
            if one.per_head is not None:
                np.testing.assert_allclose(
                    two.per_head, factor * np.array(one.per_head)[order], rtol=1e-6, atol=1e-12
                )


class TestLargestCharacteristicValue:
    def test_it_is_one_on_a_lattice(self):
        rng = np.random.default_rng(0)
        columns = np.zeros((64, 4))
        columns[:, 0] = rng.choice([-1.0, 1.0], size=64)
        columns[:, 1] = rng.integers(-6, 7, size=64)  # multiples of a quarter of the root mean square
        columns[5, 2] = 0.3  # one entry alone; the last column has none
        np.testing.assert_allclose(largest_characteristic_value(columns), 1, atol=0.01)

    @given(seed=st.integers(0, 2**32), d=st.integers(1, 40))
    @settings(max_examples=25, deadline=None)
    def test_dropping_hopeless_points_changes_nothing(self, seed, d):
        columns = np.random.default_rng(seed).standard_normal((d, 3))
        units = columns / np.linalg.norm(columns, axis=0)
        last = 4 * np.pi * np.sqrt(d)
        grid = np.linspace(4, last, int(np.ceil((last - 4) / 0.25)) + 1)
        everywhere = np.abs(np.cos(grid[:, None, None] * units)).prod(axis=1).max(axis=0)
        np.testing.assert_allclose(largest_characteristic_value(columns), everywhere, rtol=1e-9)


# what each is built to violate, with what that implies; and what that makes likely
STRUCTURES = [
    (make_nice_layer, {}, "", ""),
    (make_block_diagonal_layer, {"block": 1}, "non_arithmetic", "trace"),
    (make_block_diagonal_layer, {"block": 4}, "non_arithmetic", "trace"),
    (make_low_rank_layer, {"rank": 3}, "stable_rank", ""),
    (make_low_rank_layer, {"rank": 3, "w_rank": 3}, "stable_rank w_stable_rank", ""),
    (make_close_heads_layer, {"gap": 0.03}, "pairwise_distance incoherence linear_independence", ""),
    (make_affinely_dependent_layer, {"heads": 3}, "affine_independence incoherence linear_independence", ""),
    (make_affinely_dependent_layer, {"heads": 8}, "affine_independence linear_independence", ""),
]


def named(text):
    """The names of conditions, on Theta where nothing else is said."""
    return {one if one in NAMES else f"theta_{one}" for one in text.split()}


@pytest.mark.parametrize(("make", "options", "built", "likely"), STRUCTURES)
def test_each_structure_violates_what_it_was_built_to_violate_and_nothing_else(make, options, built, likely):
    for seed in range(2):
        layer = make(**{"heads": 4, "dim": 64, "rng": seed} | options)
        violated = set(check_conditions(layer, tokens=4).violated)
        assert named(built) <= violated <= named(built) | named(likely)


# what is done to four nice heads
ONE = np.eye(4)[:, :, None, None]  # which head is changed
CHANGED = [
    ("theta", lambda a: a + 4 * ONE[1] * a, "norms_comparable"),
    ("theta", lambda a: 100 * a, "norms"),
    ("theta", lambda a: a + ONE[2] * np.eye(64) * np.linalg.norm(a[2]) / 8, "trace"),
    ("theta", lambda a: a + ONE[1] * (a[0] - a[1] / 2), "incoherence"),
    ("theta", np.sign, "non_arithmetic norms"),
    ("w", lambda a: a + 4 * ONE[1] * a, "w_norms_comparable"),
    ("w", lambda a: a + ONE[1] * (a[0] - a[1] / 2), "w_incoherence"),
]


@pytest.mark.parametrize(("name", "change", "violated"), CHANGED, ids=[row[-1] for row in CHANGED])
def test_each_other_condition_can_be_violated_alone(name, change, violated):
    nice = make_nice_layer(heads=4, dim=64, rng=0)
    layer = AttentionLayer(**{"theta": nice.theta, "w": nice.w, name: change(getattr(nice, name))})
    assert set(check_conditions(layer, tokens=4).violated) == named(violated)


def test_more_than_a_quarter_as_many_heads_or_tokens_as_dimensions_are_too_many():
    report = check_conditions(make_nice_layer(heads=17, dim=64, rng=0), tokens=17)
    too_many = "heads_against_dimension tokens_against_dimension"
    assert set(report.violated) == named(f"{too_many} stable_rank w_stable_rank")


class TestDegenerate:
    @pytest.mark.parametrize("zero", [[0], [0, 1], [0, 1, 2]])
    def test_zero_heads_neither_warn_nor_divide(self, zero):
        nice = make_nice_layer(heads=3, dim=16, rng=0)
        theta, w = np.array(nice.theta), np.array(nice.w)
        theta[zero] = w[zero] = 0
        report = check_conditions(AttentionLayer(theta=theta, w=w), tokens=2)
        assert not any(one.measured is not None and math.isnan(one.measured) for one in report.conditions)
        assert report["theta_stable_rank"].per_head[0] == 0
        assert report["theta_non_arithmetic"].per_head[0] == 1
        assert report["theta_linear_independence"].measured < 1e-12
        assert report["w_norms_comparable"].measured == (1 if len(zero) == 3 else math.inf)
        assert report["theta_pairwise_distance"].measured == pytest.approx(0 if len(zero) > 1 else 1)
        assert "inf" in str(report) or len(zero) == 3

    def test_conditions_about_pairs_are_vacuous_for_one_head(self):
        report = check_conditions(make_nice_layer(heads=1, dim=64, rng=0), tokens=2)
        vacuous = {one.name for one in report.conditions if one.measured is None}
        pairs = "incoherence norms_comparable pairwise_distance affine_independence"
        assert vacuous == named(f"{pairs} w_incoherence w_norms_comparable")
        for name in vacuous:
            assert report[name].verdict
        assert report["theta_linear_independence"].measured == pytest.approx(1)
        assert report.satisfied


class TestReport:
    def test_a_threshold_decides_the_verdict(self):
        layer = make_nice_layer(heads=2, dim=16, rng=0)
        for one in check_conditions(layer, tokens=2).conditions:
            for bound in (one.measured, 0.9 * one.measured, 1.1 * one.measured):
                again = check_conditions(layer, tokens=2, thresholds={one.name: bound})[one.name]
                assert again.threshold == bound
                holds = one.measured <= bound if one.better == "small" else one.measured >= bound
                assert again.verdict == holds

"""Every condition against brute force, on layers that meet all and on layers built to violate one."""

import itertools
import json
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
    make_diagonal_layer,
    make_low_rank_layer,
    make_nice_layer,
    make_repeated_singular_values_layer,
)
from attention.conditions import largest_characteristic_value

NAMES = {
    "theta_incoherence",
    "theta_stable_rank",
    "theta_trace",
    "theta_heavy_column",
    "theta_non_arithmetic",
    "theta_norms",
    "theta_norms_comparable",
    "theta_pairwise_distance",
    "theta_distinct_singular_values",
    "theta_linear_independence",
    "theta_affine_independence",
    "w_incoherence",
    "w_stable_rank",
    "w_norms_comparable",
    "heads_against_dimension",
    "tokens_against_dimension",
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


def characteristic_value(column, points):
    """The maximum over a grid, entry by entry."""
    t = np.linspace(4 / frobenius(column), 4 * np.pi * np.sqrt(column.size) / frobenius(column), points)
    phi = np.ones(points)
    for entry in column:
        phi *= np.abs(np.cos(t * entry))
    return phi.max()


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
    singular = [np.linalg.svd(one)[1] for one in theta]
    flat = theta.reshape(m, -1)
    units = np.array([one / frobenius(one) for one in flat])
    centred = flat - sum(flat) / m
    spectrum = np.linalg.eigvalsh(centred @ centred.T)[::-1]
    return values | {
        "theta_trace": max(sum(one[j, j] for j in range(d)) ** 2 / frobenius(one) ** 2 for one in theta),
        "theta_heavy_column": max(
            frobenius(one[:, j]) ** 2 / frobenius(one) ** 2 for one in theta for j in range(d)
        ),
        "theta_norms": max(frobenius(one) for one in theta),
        "theta_pairwise_distance": min(
            frobenius(a - b) / max(frobenius(a), frobenius(b)) for a, b in itertools.combinations(theta, 2)
        ),
        "theta_distinct_singular_values": min(
            (s[j] - s[j + 1]) / s[0] for s in singular for j in range(d - 1)
        ),
        "theta_linear_independence": math.sqrt(max(np.linalg.eigvalsh(units @ units.T)[0], 0)),
        "theta_affine_independence": math.sqrt(max(spectrum[m - 2], 0) / (sum(spectrum) / (m - 1))),
    }


class TestMeasured:
    @given(layer=layers, tokens=st.integers(1, 9))
    @settings(max_examples=50, deadline=None)
    def test_values_are_those_of_brute_force(self, layer, tokens):
        report = check_conditions(layer, tokens=tokens)
        assert {one.name for one in report.conditions} == NAMES
        expected = brute_force(layer, tokens)
        for name, value in expected.items():
            # the brute force of the independence goes by Gram matrices, and loses half the digits
            assert report[name].measured == pytest.approx(value, rel=1e-9, abs=2e-7), name

    @given(layer=layers)
    @settings(max_examples=30, deadline=None)
    def test_non_arithmetic_is_the_maximum_over_a_much_finer_grid(self, layer):
        report = check_conditions(layer)
        finest = max(
            characteristic_value(head[:, j], 5_000) for head in layer.theta for j in range(layer.dim)
        )
        measured = report["theta_non_arithmetic"].measured
        assert 0.97 * finest <= measured <= finest * (1 + 1e-4)

    @given(layer=layers, scale=st.sampled_from([1e-200, 1e-3, 7.0, 1e150]), seed=st.integers(0, 99))
    @settings(max_examples=50, deadline=None)
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

    @given(layer=layers)
    @settings(max_examples=30, deadline=None)
    def test_the_worst_head_counts(self, layer):
        for one in check_conditions(layer, tokens=2).conditions:
            if one.per_head is not None:
                assert len(one.per_head) == layer.heads
                assert one.measured == (max if one.better == "small" else min)(one.per_head)

    def test_other_libraries_and_float32_give_the_same_values(self):
        layer = make_nice_layer(heads=3, dim=8, rng=0)
        expected = check_conditions(layer, tokens=2)
        narrow = AttentionLayer(theta=layer.theta.astype(np.float32), w=layer.w.astype(np.float32))
        others = [check_conditions(narrow, tokens=2)]
        torch = pytest.importorskip("torch", reason="PyTorch is an extra")
        others.append(check_conditions(layer.map(torch.from_numpy), tokens=2))
        for other in others:
            for one, two in zip(expected.conditions, other.conditions, strict=True):
                assert two.measured == pytest.approx(one.measured, rel=1e-4), one.name


class TestLargestCharacteristicValue:
    def test_a_column_of_equal_sizes_is_a_lattice(self):
        signs = np.random.default_rng(0).choice([-1.0, 1.0], size=(64, 3))
        np.testing.assert_allclose(largest_characteristic_value(signs), 1, atol=0.01)

    def test_multiples_of_a_quarter_of_the_root_mean_square_are_a_lattice(self):
        column = np.random.default_rng(0).integers(-6, 7, size=(64, 1)).astype(float)
        assert np.sqrt(np.mean(column**2)) < 4
        np.testing.assert_allclose(largest_characteristic_value(column), 1, atol=0.01)

    def test_one_entry_and_no_entry(self):
        columns = np.zeros((16, 2))
        columns[5, 0] = 0.3
        np.testing.assert_allclose(largest_characteristic_value(columns), [1, 1], atol=0.01)

    def test_gaussian_columns_have_their_value_at_the_start(self):
        columns = np.random.default_rng(0).standard_normal((256, 4))
        start = np.prod(np.abs(np.cos(4 * columns / np.linalg.norm(columns, axis=0))), axis=0)
        np.testing.assert_allclose(largest_characteristic_value(columns), start, rtol=1e-9)
        assert np.all(np.abs(np.log(start) + 8) < 1)

    @given(seed=st.integers(0, 2**32), d=st.integers(1, 40))
    @settings(max_examples=50, deadline=None)
    def test_dropping_hopeless_points_changes_nothing(self, seed, d):
        columns = np.random.default_rng(seed).standard_normal((d, 3))
        units = columns / np.linalg.norm(columns, axis=0)
        last = 4 * np.pi * np.sqrt(d)
        grid = np.linspace(4, last, int(np.ceil((last - 4) / 0.25)) + 1)
        everywhere = np.abs(np.cos(grid[:, None, None] * units)).prod(axis=1).max(axis=0)
        np.testing.assert_allclose(largest_characteristic_value(columns), everywhere, rtol=1e-9)


class TestNiceLayers:
    @pytest.mark.parametrize("seed", range(5))
    def test_gaussian_heads_meet_all_conditions_at_64(self, seed):
        report = check_conditions(make_nice_layer(heads=4, dim=64, rng=seed), tokens=4)
        assert report.satisfied
        assert report.violated == ()

    def test_gaussian_heads_meet_them_better_as_the_dimension_grows(self):
        reports = {
            dim: [
                check_conditions(make_nice_layer(heads=3, dim=dim, rng=seed), tokens=2) for seed in range(5)
            ]
            for dim in (16, 48, 144)
        }
        for name in NAMES - {"theta_non_arithmetic", "theta_norms", "theta_distinct_singular_values"}:
            small, middle, large = (
                np.median([report[name].measured for report in reports[dim]]) for dim in (16, 48, 144)
            )
            better = reports[16][0][name].better
            assert (small > middle > large) if better == "small" else (small < middle < large), name
        # stable rank of a square Gaussian matrix: d / 4
        ranks = [report["theta_stable_rank"].measured for report in reports[144]]
        assert np.median(ranks) == pytest.approx(36, rel=0.1)


IMPLIED = {"theta_incoherence", "theta_linear_independence"}
STRUCTURES = {
    # what is built to be violated, what that implies or makes likely, and the layer
    "diagonal": (
        {"theta_non_arithmetic"},
        {"theta_trace"},
        lambda seed: make_diagonal_layer(heads=4, dim=64, rng=seed),
    ),
    "blocks of 4": (
        {"theta_non_arithmetic"},
        {"theta_trace"},
        lambda seed: make_block_diagonal_layer(heads=4, dim=64, block=4, rng=seed),
    ),
    "rank 1": (
        {"theta_stable_rank"},
        set(),
        lambda seed: make_low_rank_layer(heads=4, dim=64, rank=1, rng=seed),
    ),
    "rank 3": (
        {"theta_stable_rank"},
        set(),
        lambda seed: make_low_rank_layer(heads=4, dim=64, rank=3, rng=seed),
    ),
    "rank 3 of both": (
        {"theta_stable_rank", "w_stable_rank"},
        set(),
        lambda seed: make_low_rank_layer(heads=4, dim=64, rank=3, w_rank=3, rng=seed),
    ),
    "close heads": (
        {"theta_pairwise_distance"} | IMPLIED,
        set(),
        lambda seed: make_close_heads_layer(heads=4, dim=64, gap=0.03, rng=seed),
    ),
    "repeated singular values": (
        {"theta_distinct_singular_values"},
        set(),
        lambda seed: make_repeated_singular_values_layer(heads=4, dim=64, rng=seed),
    ),
    "orthogonal": (
        {"theta_distinct_singular_values"},
        set(),
        lambda seed: make_repeated_singular_values_layer(heads=4, dim=64, multiplicity=64, rng=seed),
    ),
    "three affinely dependent heads": (
        {"theta_affine_independence"} | IMPLIED,
        set(),
        lambda seed: make_affinely_dependent_layer(heads=3, dim=64, rng=seed),
    ),
    "eight affinely dependent heads": (
        {"theta_affine_independence", "theta_linear_independence"},
        set(),
        lambda seed: make_affinely_dependent_layer(heads=8, dim=64, rng=seed),
    ),
}


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(("built", "likely", "make"), STRUCTURES.values(), ids=STRUCTURES.keys())
def test_each_structure_violates_what_it_was_built_to_violate_and_nothing_else(built, likely, make, seed):
    violated = set(check_conditions(make(seed), tokens=4).violated)
    assert built <= violated <= built | likely


def nice_but(theta=None, w=None):
    layer = make_nice_layer(heads=4, dim=64, rng=0)
    new = {"theta": np.array(layer.theta), "w": np.array(layer.w)}
    for name, change in (("theta", theta), ("w", w)):
        if change is not None:
            change(new[name])
    return AttentionLayer(**new)


def heavy(a):
    a[0, :, 3] *= 8


def louder(a):
    a[1] *= 5


def large(a):
    a *= 100


def alike(a):
    a[1] = a[0] + 0.5 * a[1]


def identity(a):
    a[2] = a[2] + np.eye(64) * np.linalg.norm(a[2]) / 8


@pytest.mark.parametrize(
    ("layer", "violated"),
    [
        (nice_but(theta=heavy), {"theta_heavy_column", "theta_stable_rank"}),
        (nice_but(theta=louder), {"theta_norms_comparable"}),
        (nice_but(theta=large), {"theta_norms"}),
        (nice_but(theta=identity), {"theta_trace"}),
        (nice_but(theta=alike), {"theta_incoherence"}),
        (nice_but(w=louder), {"w_norms_comparable"}),
        (nice_but(w=alike), {"w_incoherence"}),
        (nice_but(theta=lambda a: np.sign(a, out=a)), {"theta_non_arithmetic", "theta_norms"}),
        (
            make_nice_layer(heads=17, dim=64, rng=0),
            {"heads_against_dimension", "theta_stable_rank", "w_stable_rank"},
        ),
    ],
)
def test_the_other_conditions_can_be_violated_too(layer, violated):
    assert set(check_conditions(layer, tokens=4).violated) == violated


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
        assert report["theta_distinct_singular_values"].per_head[0] == 0
        assert report["theta_linear_independence"].measured < 1e-12
        assert report["w_norms_comparable"].measured == (1 if len(zero) == 3 else math.inf)
        assert report["theta_pairwise_distance"].measured == pytest.approx(0 if len(zero) > 1 else 1)
        assert json.loads(json.dumps(report.to_json(), allow_nan=False)) == report.to_json()
        assert "inf" in str(report) or len(zero) == 3

    def test_conditions_about_pairs_are_vacuous_for_one_head(self):
        report = check_conditions(make_nice_layer(heads=1, dim=64, rng=0), tokens=2)
        vacuous = {one.name for one in report.conditions if one.measured is None}
        assert vacuous == {
            "theta_incoherence",
            "theta_norms_comparable",
            "theta_pairwise_distance",
            "theta_affine_independence",
            "w_incoherence",
            "w_norms_comparable",
        }
        for name in vacuous:
            assert report[name].verdict
            assert "one head makes no pair" in report[name].explanation
        assert report["theta_linear_independence"].measured == pytest.approx(1)
        assert report.satisfied
        assert "nothing to measure" in str(report)

    def test_more_heads_than_the_space_holds_are_dependent(self):
        report = check_conditions(make_nice_layer(heads=6, dim=2, rng=0))
        assert report["theta_linear_independence"].measured == 0
        assert report["theta_affine_independence"].measured == 0

    def test_equal_heads(self):
        layer = make_close_heads_layer(heads=3, dim=16, gap=0.0, rng=0)
        report = check_conditions(layer)
        assert report["theta_pairwise_distance"].measured == 0
        assert report["theta_affine_independence"].measured == 0
        assert report["theta_linear_independence"].measured < 1e-12

    def test_one_dimension(self):
        report = check_conditions(AttentionLayer(theta=np.ones((1, 1, 1)), w=np.ones((1, 1, 1))))
        assert report["theta_distinct_singular_values"].measured == 1

    def test_low_rank_has_distinct_singular_values(self):
        report = check_conditions(make_low_rank_layer(heads=2, dim=16, rank=3, rng=0))
        values = np.linalg.svd(make_low_rank_layer(heads=2, dim=16, rank=3, rng=0).theta, compute_uv=False)
        expected = min(np.diff(-np.append(s[:3], 0)).min() / s[0] for s in values)
        assert report["theta_distinct_singular_values"].measured == pytest.approx(expected)


class TestReport:
    def test_table_has_a_row_for_every_condition(self):
        report = check_conditions(make_diagonal_layer(heads=2, dim=32, rng=0), tokens=3)
        lines = str(report).splitlines()
        assert "m=2 heads in d=32 coordinates, k=3 tokens" in lines[0]
        rows = {line.split()[0]: line for line in lines[3:-1]}
        assert set(rows) == NAMES
        for one in report.conditions:
            assert rows[one.name].endswith("holds" if one.verdict else "VIOLATED")
        assert "toolkit's own" in lines[-1]
        assert "not known to us" in lines[-1]
        assert all(line == line.rstrip() for line in lines)

    @pytest.mark.parametrize("by", [1e-4, 1e-6, 1e-14])
    def test_a_verdict_by_little_is_printed_with_digits_that_show_it(self, by):
        layer = make_diagonal_layer(heads=2, dim=32, rng=0)
        name = "theta_norms_comparable"
        measured = check_conditions(layer)[name].measured
        for threshold, word in ((measured * (1 - by), "VIOLATED"), (measured * (1 + by), "holds")):
            report = check_conditions(layer, thresholds={name: threshold})
            row = next(line for line in str(report).splitlines() if line.startswith(name)).split()
            _, _, shown, bound, wanted, verdict = row
            assert (bound, verdict) == ("<=", word)
            assert (float(shown) > float(wanted)) == (word == "VIOLATED")
        equal = str(check_conditions(layer, thresholds={name: measured}))
        row = next(line for line in equal.splitlines() if line.startswith(name)).split()
        assert row[2] == row[4] == f"{measured:.3g}"

    def test_json_is_json_and_says_the_same(self):
        report = check_conditions(make_nice_layer(heads=2, dim=32, rng=0))
        data = json.loads(json.dumps(report.to_json(), allow_nan=False))
        assert data["satisfied"] == report.satisfied
        assert data["violated"] == list(report.violated)
        assert data["tokens"] is None
        by_name = {one["name"]: one for one in data["conditions"]}
        assert set(by_name) == NAMES
        for one in report.conditions:
            assert by_name[one.name]["measured"] == one.measured
            assert by_name[one.name]["threshold"] == one.threshold
            assert by_name[one.name]["applies_to"] in ("Theta", "W", "shape")
            assert len(one.explanation) > 20

    def test_tokens_not_given_are_not_judged(self):
        report = check_conditions(make_nice_layer(heads=2, dim=64, rng=0))
        assert report["tokens_against_dimension"].measured is None
        assert report["tokens_against_dimension"].verdict
        assert "k not given" in str(report)
        assert not check_conditions(make_nice_layer(heads=2, dim=64, rng=0), tokens=40).satisfied

    def test_stable_rank_is_held_against_heads_tokens_and_log_dimension(self):
        def threshold(heads, tokens):
            layer = make_nice_layer(heads=heads, dim=64, rng=0)
            return check_conditions(layer, tokens=tokens)["theta_stable_rank"].threshold

        assert (threshold(2, 2), threshold(8, 2), threshold(2, 9)) == (math.log(64), 8, 9)

    @pytest.mark.parametrize("name", sorted(NAMES))
    def test_a_threshold_decides_the_verdict(self, name):
        layer = make_nice_layer(heads=2, dim=16, rng=0)
        measured = check_conditions(layer, tokens=2)[name].measured
        for bound in (measured, 0.9 * measured, 1.1 * measured):
            one = check_conditions(layer, tokens=2, thresholds={name: bound})[name]
            assert one.threshold == bound
            assert one.verdict == (measured <= bound if one.better == "small" else measured >= bound)

    @pytest.mark.bad_input
    def test_wrong_arguments(self):
        layer = make_nice_layer(heads=2, dim=16, rng=0)
        with pytest.raises(ValueError, match="thresholds names incoherence: only theta_incoherence, "):
            check_conditions(layer, thresholds={"incoherence": 0.1})
        with pytest.raises(KeyError):
            check_conditions(layer)["incoherence"]

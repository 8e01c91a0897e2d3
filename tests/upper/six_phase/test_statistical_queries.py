import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from attention import BooleanInputs, ExampleOracle, make_nice_layer
from upper.six_phase import AttentionSpan
from upper.six_phase.agreement import EquationMoments, certify_agreement, contrasts_of
from upper.six_phase.common import PhaseFailedError
from upper.six_phase.phase1_projection_sum import estimate_projection_sum
from upper.six_phase.phase2_affine_hull import sculpt_affine_hull
from upper.six_phase.phase3_refine_sum import refine_by_margin
from upper.six_phase.phase5_span import attention_span
from upper.six_phase.query_learner import QueryCount, QueryPlan, learn_by_queries, six_phase_queries
from upper.six_phase.statistical_queries import (
    StatisticalQuery,
    agreement_queries,
    bounded_margins,
    largest_log_ratio,
    projection_sum_queries,
    regression_queries,
    share_queries,
)

EXAMPLES = 50_000
SEED = 1


class Empirical:
    """Empirical means with errors up to so many tolerances; counts the queries."""

    def __init__(self, x, y, *, tolerances=0.0, rng=0):
        self.x, self.y, self.asked = x, y, 0
        self.tolerances, self.rng, self.declared = tolerances, np.random.default_rng(rng), {}

    def query(self, query):
        raise NotImplementedError  # all are asked many at once

    def query_many(self, queries):
        self.asked += len(queries)
        self.declared.setdefault(queries.phase, set()).add(queries.tolerance)
        parts = range(0, len(self.x), 5000)
        means = np.mean([queries.means(self.x[a : a + 5000], self.y[a : a + 5000]) for a in parts], axis=0)
        error = self.rng.uniform(-1, 1, len(means)) * queries.tolerance
        return means + self.tolerances * error


@pytest.fixture(scope="module")
def target():
    layer = make_nice_layer(heads=2, dim=10, rng=SEED)
    x, y = ExampleOracle(layer, BooleanInputs(k=2, d=10), rng=SEED + 50).draw(EXAMPLES)
    return layer, x, y


@pytest.fixture(scope="module")
def exact(target):
    _, x, y = target
    oracle = Empirical(x, y)
    return learn_by_queries(oracle, QueryPlan(m=2, k=2, d=10)), oracle


def span_error(found, layer):
    return found.span.errors(layer)["span_error"]


def of_agreement(w, threshold, k):
    return agreement_queries(w, threshold, k, phase=2, tolerances=(0.1, 0.1, 0.1))


def values_of(family, x, y):
    return np.stack([query(x, y) for query in family], axis=1)


def small_families(k=3, d=5, *, label_bound=2.0, rng=0):
    rng = np.random.default_rng(rng)
    w, centre, direction = rng.standard_normal((3, d, d))
    hull = AttentionSpan(centre, direction[None], np.array([0.25]), 0.25, None)
    return [
        projection_sum_queries(d, k, tolerance=0.1, label_bound=label_bound),
        share_queries(lambda x, y: certify_agreement(x, y, w).residual, 0.5, phase=2, tolerance=0.1),
        share_queries(lambda x, y: -bounded_margins(hull, label_bound, x, y)[0], 0.0, phase=3, tolerance=0.1),
        *of_agreement(w, 0.8, k),
        *regression_queries(hull, 0.3, label_bound=label_bound, tolerance=0.1),
    ]


def test_phase_one_answers_are_the_projection_sum_of_the_same_examples(target):
    _, x, y = target
    family = projection_sum_queries(10, 2, tolerance=0.1, label_bound=float(np.abs(y).max()))
    answered = family.unit * Empirical(x, y).query_many(family)
    expected = estimate_projection_sum(ExampleOracle.from_arrays(x, y), EXAMPLES).w
    np.testing.assert_allclose(answered.reshape(10, 10), expected, rtol=1e-10, atol=1e-13)


@pytest.mark.parametrize("k", [2, 3])
def test_moment_answers_are_the_moments_of_the_accepted_equations(k):
    d, n = 6, 3000
    layer = make_nice_layer(heads=2, dim=d, rng=0)
    x, y = ExampleOracle(layer, BooleanInputs(k=k, d=d), rng=1).draw(n)
    total = layer.w.sum(axis=0)
    found = certify_agreement(x, y, total)
    accepted = (found.residual <= 0.2) & (found.pattern.min(axis=-1) >= 0.05)
    moments = EquationMoments(contrasts_of(x, found.pattern, accepted))
    expected, right, size = moments.matrix(), moments.right, moments.size

    sizes, matrix_family, right_family = of_agreement(total, 0.2, k)
    acceptance, weight, square = sizes.means(x, y)
    pairs = list(zip(*np.triu_indices(d), strict=True))
    asked = (matrix_family.unit * matrix_family.means(x, y)).reshape(len(pairs), len(pairs))
    answered = np.empty((d, d, d, d))
    for s, (i, j) in enumerate(pairs):
        for t, (p, q) in enumerate(pairs):
            answered[i, p, j, q] = answered[j, p, i, q] = answered[i, q, j, p] = answered[j, q, i, p] = asked[
                s, t
            ]
    unit = 1 / (weight * (k - 1))
    assert acceptance == pytest.approx(accepted.mean(), abs=1e-12)
    np.testing.assert_allclose(unit * answered.reshape(d * d, d * d), expected, atol=1e-12)
    np.testing.assert_allclose(unit * right_family.unit * right_family.means(x, y), right, atol=1e-12)
    assert unit * square * k * largest_log_ratio(k) ** 2 / 4 == pytest.approx(size**2, rel=1e-12)


@settings(max_examples=10, deadline=None)
@given(
    x=arrays(np.float64, (4, 3, 5), elements=st.sampled_from([-1.0, 1.0])),
    y=arrays(np.float64, (4, 3, 5), elements=st.floats(-50, 50)),
    seed=st.integers(0, 5),
)
def test_every_value_lies_in_the_declared_range(x, y, seed):
    # what hypothesis makes up is degenerate more often than not: ordinary examples with large labels come along
    rng = np.random.default_rng(seed)
    x = np.concatenate([x, np.sign(rng.standard_normal((20, 3, 5)))])
    y = np.concatenate([y, 20 * rng.standard_normal((20, 3, 5))])
    for family in small_families(rng=seed):
        assert -1 <= family.low < family.high <= 1
        left, right = family.features(x, y)
        values = np.matmul(np.swapaxes(left, 1, 2), right)
        assert values.shape[1:] == family.shape
        # up to rounding, which a query clips
        assert values.min() >= family.low - 1e-12
        assert values.max() <= family.high + 1e-12


def test_single_queries_and_means_agree():
    x, y = ExampleOracle(make_nice_layer(heads=2, dim=5, rng=0), BooleanInputs(k=3, d=5), rng=1).draw(50)
    for family in small_families(label_bound=8.0):
        values = values_of(family, x, y)
        assert values.shape == (50, len(family))
        assert all(isinstance(one, StatisticalQuery) for one in family[:2])
        assert {(one.phase, one.tolerance) for one in family} == {(family.phase, family.tolerance)}
        np.testing.assert_allclose(family.means(x, y), values.mean(axis=0), atol=1e-14)


def test_learner_asks_what_was_announced(exact):
    found, oracle = exact
    assert found.counts == six_phase_queries(QueryPlan(m=2, k=2, d=10))
    assert oracle.asked == sum(one.count for one in found.counts)
    for one in found.counts[:4]:
        assert one.tolerance == min(oracle.declared[one.phase])
    assert found.counts[4] == QueryCount(5, 0, 1.0)


def test_span_by_queries_is_as_good_as_by_examples(target, exact):
    layer, x, y = target
    found, _ = exact
    total = estimate_projection_sum(ExampleOracle.from_arrays(x, y), EXAMPLES).w
    hull = sculpt_affine_hull(
        ExampleOracle.from_arrays(x, y), total, wide=1, accept=0.05, examples=EXAMPLES, equations=10**6
    )
    refined = refine_by_margin(ExampleOracle.from_arrays(x, y), hull.body, wide=1, examples=EXAMPLES)
    again = sculpt_affine_hull(
        ExampleOracle.from_arrays(x, y), refined.w, wide=1, accept=0.01, examples=EXAMPLES, equations=10**6
    )
    first = attention_span(hull.body, 1).errors(layer)["span_error"]
    last = attention_span(again.body, 1).errors(layer)["span_error"]
    assert found.first_span.errors(layer)["span_error"] == pytest.approx(first, rel=0.2)
    assert span_error(found, layer) < 3 * last
    assert span_error(found, layer) < first / 10
    np.testing.assert_allclose(found.span.reach, attention_span(again.body, 1).reach, rtol=0.2)


@pytest.mark.slow
def test_answers_within_tolerance_degrade_the_span_as_stated(target, exact):
    layer, x, y = target
    plan = QueryPlan(m=2, k=2, d=10)
    noisy = learn_by_queries(Empirical(x, y, tolerances=1.0), plan)
    assert span_error(noisy, layer) <= span_error(exact[0], layer) + plan.degradation


def test_unrelated_labels_end_in_a_phase_that_failed():
    rng = np.random.default_rng(0)
    x = BooleanInputs(k=2, d=10).sample(5000, rng=rng)
    with pytest.raises(PhaseFailedError):
        learn_by_queries(Empirical(x, rng.standard_normal(x.shape)), QueryPlan(m=2, k=2, d=10))


@pytest.mark.bad_input
@pytest.mark.parametrize("answers", [[math.nan] * 64, [0.0], None], ids=["nan", "one", "one by one"])
def test_answers_must_be_finite_numbers_one_a_query(answers):
    class Broken:
        def query(self, query):
            return math.nan

    if answers:
        Broken.query_many = lambda self, queries: answers
    with pytest.raises(ValueError, match="one finite number a query"):
        learn_by_queries(Broken(), QueryPlan(m=2, k=2, d=8))


def test_tolerances_of_each_agreement_phase_follow_its_own_share_of_rows():
    plan = QueryPlan(m=2, k=2, d=10, accept=(0.02, 0.005))
    assert plan.agreement_tolerances(2)[0] == pytest.approx(4 * plan.agreement_tolerances(4)[0])
    assert plan.agreement_tolerances(2)[1] > plan.agreement_tolerances(4)[1]


@pytest.mark.bad_input
@pytest.mark.parametrize("options", [{"k": 8}, {"accept": (0.1,)}, {"k": 20, "d": 30}])
def test_plans_that_do_not_fit_together_are_refused(options):
    with pytest.raises(ValueError, match=r"2 <= k < d|one for phase 4|k is 20"):
        QueryPlan(**{"m": 2, "k": 2, "d": 8, **options})

"""The six phases as statistical queries: counts, and a span learned from answers."""

import numpy as np
from fuzzing import Subject, anything, assert_finite, made, real, whole
from upper_makers import is_orthonormal

import upper.six_phase as phases
from attention import BooleanInputs, ExampleOracle, make_nice_layer

__all__ = ["QUERY_SUBJECTS"]

SHARP = make_nice_layer(heads=1, dim=5, sigma=4.0, rng=1)


def a_plan():
    return phases.QueryPlan(m=2, k=2, d=3)


class Means:
    """Answers with means over examples of one sharp head: the simplest oracle there is."""

    def __init__(self):
        self.x, self.y = ExampleOracle(SHARP, BooleanInputs(2, 5), rng=1).draw(2000)

    def query(self, query):
        return float(np.mean(query(self.x, self.y)))

    def query_many(self, queries):
        return queries.means(self.x, self.y)


def an_easy_plan():
    """Shares so large that a few thousand examples fill them."""
    return phases.QueryPlan(m=1, k=2, d=5, accept=(0.3, 0.3), margin_share=0.03, label_bound=8.0)


# ------------------------------------------------------------------------------------------- what is right


def plan_keeps(result, arguments):
    m, k, d = (int(arguments[name]) for name in ("m", "k", "d"))
    assert (result.m, result.k, result.d) == (m, k, d)
    assert result.labels > 0
    tolerances = [result.sum_tolerance(), result.regression_tolerance(), *result.moment_tolerances(2)]
    assert all(one >= 0 for one in tolerances)


def counts_are_right(result, arguments):
    plan = arguments["plan"]
    d, steps = plan.d, plan.steps
    moments = (d * (d + 1) // 2) ** 2 + d * d + 3 + steps
    wanted = [d * d, moments, d * (d + 1) // 2 + d * d + steps, moments, 0]
    assert [one.count for one in result] == wanted
    assert all(0 < one.tolerance <= 1 for one in result)


def span_of_answers_is_right(result, arguments):
    plan = arguments["plan"]
    wide = plan.m - 1
    assert_finite((result.projection_sum, result.first_sum))
    for span in (result.span, result.first_span):
        assert span.directions.shape == (wide, plan.d, plan.d)
        is_orthonormal(span.basis, "the basis", 1e-6)
    asked, planned = result.counts, phases.six_phase_queries(plan)
    assert [one.count for one in asked] == [one.count for one in planned]
    # phase 1 is the mean of the examples: labels of a nice layer are not clipped
    if isinstance(arguments["oracle"], Means):
        own = arguments["oracle"]
        wanted = np.einsum("nad,nbe->de", own.x, own.y) / (len(own.x) * own.x.shape[1])
        np.testing.assert_allclose(result.first_sum, wanted, atol=0.05 * np.abs(wanted).max())
        # one head agrees with itself, so that its span is found
        assert result.span.errors(SHARP)["span_error"] < 1e-3


QUERY_SUBJECTS = [
    Subject(
        "upper.six_phase.QueryPlan",
        phases.QueryPlan,
        {
            "m": whole(1, 2),
            "k": whole(2, 2),
            "d": whole(3, 4),
            "accept": anything((0.05, 0.01)),
            "margin_share": real(0.0005, 0.001),
            "degradation": real(0.02, 0.03),
            "label_bound": real(4.0, 8.0),
            "token_bound": real(1.0, 2.0),
            "steps": whole(3, 12),
        },
        right=plan_keeps,
    ),
    Subject(
        "upper.six_phase.six_phase_queries",
        phases.six_phase_queries,
        {"plan": made(a_plan, "<plan>")},
        right=counts_are_right,
    ),
    Subject(
        "upper.six_phase.learn_by_queries",
        phases.learn_by_queries,
        {"oracle": made(Means, "<means>"), "plan": made(an_easy_plan, "<plan>")},
        right=span_of_answers_is_right,
        also=(phases.PhaseFailedError,),
        share=0.4,
    ),
]

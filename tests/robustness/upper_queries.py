"""The six phases as statistical queries: families of means in their range, counts, and a span learned from answers."""

import math

import numpy as np
from fuzzing import Subject, anything, array, assert_finite, choice, fixed, made, real, whole
from upper_makers import is_orthonormal, numbers, oracle
from upper_phases import SUM, W

import upper.six_phase as phases
from attention import BooleanInputs, ExampleOracle, make_nice_layer

__all__ = ["QUERY_SUBJECTS"]

SHARP = make_nice_layer(heads=1, dim=5, sigma=4.0, rng=1)
DRAWN = oracle(2, 2, 3).draw(60)


def a_plan():
    return phases.QueryPlan(m=2, k=2, d=3)


def agreement_rows():
    return phases.AgreementRows(SUM, threshold=0.1)


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


def family_of(number):
    """So many queries, each within its range, and all at once as one by one."""

    def right(result, arguments):
        repr(result)
        assert len(result) == number(arguments)
        assert -1 <= result.low <= result.high <= 1
        assert result.tolerance >= 0
        assert result.phase == int(arguments.get("phase", 1))
        if arguments.get("k", 2) != 2 or arguments.get("d", 3) != 3 or len(result) > 2000:
            return
        x, y = DRAWN
        values, means = result.values(x, y), result.means(x, y)
        assert values.shape == (len(x), len(result))
        assert ((values >= result.low) & (values <= result.high)).all()
        np.testing.assert_allclose(means, values.mean(axis=0), atol=1e-9)
        for place in (0, len(result) - 1):
            np.testing.assert_allclose(result[place](x, y), values[:, place], atol=1e-12)

    return right


def moment_number(arguments):
    return (3 * 4 // 2) ** 2


def square_number(arguments):
    return int(arguments.get("d", 3)) ** 2


def share_number(arguments):
    return len(np.atleast_1d(np.asarray(arguments["thresholds"])))


def three(arguments):
    return 3


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


def rows_keep(result, arguments):
    """Accepted are rows of small residual, of a pattern without small entries."""
    x, y = DRAWN
    if numbers(result.projection_sum).shape != (3, 3):
        return
    residual, (weights, logs) = result.residuals(x, y), result.weights(x, y)
    assert (weights >= 0).all()
    assert (weights <= 1 + 1e-9).all()
    assert (residual[weights > 0] <= float(arguments["threshold"])).all()
    np.testing.assert_allclose(logs.sum(axis=-1), 0, atol=1e-9)


def bound_is_right(result, arguments):
    """No negative number; zero where the answers are exact."""
    assert result >= 0
    assert not math.isnan(result)
    if float(arguments["moment_error"]) == float(arguments["right_error"]) == 0:
        assert result in (0, math.inf)


def span_of_answers_is_right(result, arguments):
    plan = arguments["plan"]
    wide = plan.m - 1
    assert_finite((result.projection_sum, result.first_sum))
    assert result.bound >= 0
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
            "independent": choice(False, True),
            "label_bound": real(4.0, 8.0),
            "token_bound": real(1.0, 2.0),
            "smallest_weight": real(0.05, 0.06),
            "edge": anything((0.035, 0.004)),
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
        "upper.six_phase.AgreementRows",
        phases.AgreementRows,
        {
            "projection_sum": W,
            "threshold": real(0.1, 0.2),
            "smallest_weight": real(0.01, 0.05),
            "token_bound": real(1.0, 2.0),
        },
        right=rows_keep,
    ),
    Subject(
        "upper.six_phase.moment_queries",
        phases.moment_queries,
        {
            "rows": made(agreement_rows, "<rows>"),
            "k": whole(2, 3),
            "phase": whole(2, 2),
            "tolerance": real(0.01, 0.1),
        },
        right=family_of(moment_number),
    ),
    Subject(
        "upper.six_phase.right_side_queries",
        phases.right_side_queries,
        {
            "rows": made(agreement_rows, "<rows>"),
            "k": whole(2, 3),
            "phase": whole(2, 2),
            "tolerance": real(0.01, 0.1),
        },
        right=family_of(square_number),
    ),
    Subject(
        "upper.six_phase.share_queries",
        phases.share_queries,
        {
            "score": anything(fixed(lambda x, y: x[..., 0], "<score>")),
            "thresholds": anything((0.1, 0.2)),
            "phase": whole(2, 2),
            "tolerance": real(0.01, 0.1),
            "name": anything("share"),
        },
        right=family_of(share_number),
    ),
    Subject(
        "upper.six_phase.size_queries",
        phases.size_queries,
        {
            "rows": made(agreement_rows, "<rows>"),
            "k": whole(2, 3),
            "phase": whole(2, 2),
            "tolerance": real(0.01, 0.1),
        },
        right=family_of(three),
    ),
    Subject(
        "upper.six_phase.projection_sum_queries",
        phases.projection_sum_queries,
        {
            "d": whole(2, 3),
            "k": whole(2, 3),
            "tolerance": real(0.01, 0.1),
            "label_bound": real(4.0, 8.0),
            "token_bound": real(1.0, 2.0),
        },
        right=family_of(square_number),
    ),
    Subject(
        "upper.six_phase.span_change_bound",
        phases.span_change_bound,
        {
            "moments": array((9, 9), of=lambda rng, shape: np.diag(np.arange(1.0, 10.0)), torch=False),
            "right": array((9,), torch=False),
            "wide": whole(1, 2),
            "moment_error": real(1e-6, 1e-5),
            "right_error": real(1e-6, 1e-5),
        },
        right=bound_is_right,
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

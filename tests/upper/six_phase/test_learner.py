"""The six-phase learner: exact in practical mode, (kd)^-m in paper mode, honest where a phase cannot do its work."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attention import (
    AttentionLayer,
    BooleanInputs,
    ExampleOracle,
    GaussianInputs,
    GroundTruth,
    Outcome,
    SphereInputs,
    make_nice_layer,
)
from upper.six_phase import (
    PhaseFailedError,
    SixPhase,
    attention_span,
    six_phase_queries,
)
from upper.six_phase.common import Wish, remaining, share_of_budget

# the fewest and the most heads and tokens of the table; those in between run through the same code
SPANS_AT_1_PERCENT = {(2, 2): 0.003, (4, 3): 0.45}
REFINED = {(2, 2): 0.0024, (4, 3): 0.037}
CRUDE = {(2, 2): 0.088, (4, 3): 0.12}


def run(learner, heads, k, d, *, seed=0, inputs=BooleanInputs):
    layer, tokens = make_nice_layer(heads=heads, dim=d, rng=seed), inputs(tokens=k, dim=d)
    truth = GroundTruth.draw(layer, tokens, 1000, rng=[seed, 1])
    fit = learner.fit(ExampleOracle(layer, tokens, rng=[seed, 2]), rng=[seed, 3], truth=truth)
    return fit, truth.measure(layer=fit.layer)


def measure(fit, name, phase):
    return [step for step in fit.trace if step.phase == phase][-1].measures[name]


@pytest.mark.slow
@pytest.mark.parametrize(("m", "k"), [(1, 2), *SPANS_AT_1_PERCENT])
def test_practical_mode_ends_at_rounding_error_through_phases_as_good_as_the_table(m, k):
    fit, errors = run(SixPhase(heads=m), m, k, 32)
    assert fit.outcome is Outcome.EXACT
    assert errors["relative_error"] < 1e-10
    assert fit.details.heads == m
    if m > 1:
        assert measure(fit, "sum_error", 1) <= 2 * CRUDE[m, k]
        assert measure(fit, "sum_error", 3) <= 2 * REFINED[m, k]
        assert measure(fit, "span_error", 5) <= 2 * SPANS_AT_1_PERCENT[m, k]


@pytest.mark.slow
@pytest.mark.parametrize("inputs", [GaussianInputs, SphereInputs])
@pytest.mark.parametrize("mode", ["practical", "paper"])
def test_other_inputs_run_through_the_same_code(inputs, mode):
    fit, errors = run(SixPhase(heads=2, mode=mode), 2, 2, 16, inputs=inputs)
    assert fit.outcome.succeeded
    assert errors["relative_error"] < {"practical": 1e-10, "paper": 1 / 32}[mode]


@pytest.mark.parametrize(
    ("m", "d", "over"),
    [
        (1, 16, "body"),
        (2, 10, "body"),
        pytest.param(2, 32, "body", marks=pytest.mark.slow),
        pytest.param(2, 32, "proxy", marks=pytest.mark.slow),
    ],
)
def test_paper_mode_reaches_a_squared_error_of_kd_to_the_minus_m_from_the_phases_alone(m, d, over):
    fit, errors = run(SixPhase(heads=m, mode="paper", margin_over=over), m, 2, d)
    assert fit.outcome is Outcome.REACHED_TOLERANCE
    assert errors["relative_error"] ** 2 <= (2 * d) ** -m
    assert fit.details.net.error <= (2 * d) ** -m
    # phases 3 and 4 lower the error of the span
    before, after = (measure(fit, "span_error", phase) for phase in (2, 4))
    assert after < {"proxy": before / 2, "body": before / 10}[over]


@pytest.mark.parametrize("m", [1, pytest.param(2, marks=pytest.mark.slow), 3])
@pytest.mark.parametrize("mode", [pytest.param("practical", marks=pytest.mark.slow), "paper"])
def test_the_number_of_heads_is_found_by_the_gap(m, mode):
    if (m, mode) == (3, "paper"):
        pytest.skip("three heads by a net take minutes")
    fit, _ = run(SixPhase(heads="auto", mode=mode), m, 2, 32 if m == 3 else 16)
    assert fit.details.heads == m
    assert fit.layer.heads == m
    if m > 1:
        assert measure(fit, "gap", 5) > 10
    assert fit.outcome.succeeded


def nice(d, m=2):
    return make_nice_layer(heads=m, dim=d, rng=0)


def without_attention(m):
    return AttentionLayer(theta=np.zeros((m, 12, 12)), w=nice(12, m).w)


def opposite(factor):
    return AttentionLayer(theta=np.stack([nice(10).theta[0], factor * nice(10).theta[0]]), w=nice(10).w)


def noise(x, y, rng):
    return rng.standard_normal(y.shape)


PAPER, PROXY = SixPhase(heads=2, mode="paper"), SixPhase(heads=2, mode="paper", margin_over="proxy")
MANY = {
    (m, mode): SixPhase(heads=m, mode=mode, work=100) for m in (12, 64) for mode in ("paper", "practical")
}
ENDS = [  # learner, target, k, d, noise, outcome, phase that failed or None
    (PROXY, nice(8), 2, 8, 0, "NO_LARGE_MARGIN", 3),
    (SixPhase(heads=2), np.zeros_like, 2, 8, 0, "NO_PROJECTION_SUM", 1),
    (SixPhase(heads=2), nice(8), 1, 8, 0, "NOT_APPLICABLE", None),
    (SixPhase(heads=2), nice(8), 8, 8, 0, "NOT_APPLICABLE", None),
    (MANY[64, "paper"], nice(8), 2, 8, 0, "NOT_APPLICABLE", None),
    (MANY[64, "practical"], nice(8), 2, 8, 0, "NOT_APPLICABLE", None),
    (MANY[12, "paper"], nice(8), 2, 8, 0, "NO_LARGE_MARGIN", 3),
    (replace(PROXY, examples=4000), nice(16), 2, 16, 0, "NO_LARGE_MARGIN", 3),
    (PAPER, nice(12), 2, 12, noise, "NO_PROJECTION_SUM", 1),
    (PAPER, without_attention(1), 2, 12, 0, "NO_LARGE_MARGIN", 3),
    (SixPhase(heads=1), without_attention(1), 2, 12, 0, "EXACT", None),
    # an affine hull through zero is no contradiction
    (PAPER, opposite(-1.0), 2, 10, 0, "NO_LARGE_MARGIN", 3),
    (SixPhase(heads=2), opposite(-1.0), 2, 10, 0, "EXACT", None),
    (SixPhase(heads=2), nice(8), 2, 8, 0.1, "NOISE_FLOOR", None),
]


@pytest.mark.parametrize(("learner", "target", "k", "d", "noise", "outcome", "failed"), ENDS)
def test_every_end_is_an_outcome_and_its_phase(learner, target, k, d, noise, outcome, failed):
    oracle = ExampleOracle(target, BooleanInputs(tokens=k, dim=d), noise=noise, rng=1)
    fit = learner.fit(oracle, rng=2)
    assert (fit.outcome.name, fit.details.failed) == (outcome, failed)
    assert (f"Phase {failed} failed: " in fit.details.explanation) == (failed is not None)
    assert fit.details.heads == fit.layer.heads == learner.heads
    assert outcome == "NOT_APPLICABLE" or all(step.phase for step in fit.trace)
    assert outcome != "NOT_APPLICABLE" or fit.examples_used == 0


def test_a_spectrum_without_a_step_ends_paper_mode_and_is_a_doubt_in_practical_mode(monkeypatch):
    def without_a_step(body):
        span = attention_span(body)
        return replace(span, gap=replace(span.gap, ratio=1.1))

    monkeypatch.setattr("upper.six_phase.learner.attention_span", without_a_step)
    paper, practical = (run(SixPhase(heads=2, mode=mode), 2, 2, 8)[0] for mode in ("paper", "practical"))
    assert paper.details.failed == 5
    assert "no clear step" in paper.details.explanation
    assert "no clear gap" in practical.details.explanation


@pytest.mark.slow
def test_no_gap_is_said_where_the_number_of_heads_is_to_be_found():
    fit, _ = run(SixPhase(heads="auto"), 5, 2, 24)
    assert fit.details.heads == 1
    assert not fit.outcome.succeeded
    assert "found no wide direction (a factor of 1." in fit.details.explanation
    assert 1 <= measure(fit, "gap", 5) < 1.5


def test_the_details_have_what_each_phase_returned():
    paper, practical = (
        run(SixPhase(heads=2, mode=mode, work=20_000), 2, 2, 10)[0] for mode in ("paper", "practical")
    )
    phases = paper.details
    results = [
        phases.crude_sum,
        phases.crude_hull,
        phases.refined_sum,
        phases.hull,
        phases.span,
        phases.net,
    ]
    for step, result in zip(paper.trace, results, strict=True):
        for name, value in result.measures.items():
            np.testing.assert_allclose(step.measures[name], value)
    assert phases.net.layer is paper.layer
    assert sum(result.examples for result in results if result is not phases.span) == paper.examples_used
    phases = practical.details
    assert (phases.crude_hull, phases.net) == (None, None)


@pytest.mark.bad_input
def test_what_does_not_go_together_is_refused():
    for changes in ({"net_over": "span"}, {"margin_over": "proxy"}):
        with pytest.raises(ValueError, match="is for mode 'paper'"):
            SixPhase(**{"heads": 2, **changes})


def test_exact_says_so_where_newton_alone_did_the_work():
    # phases 4 and 5 see no step in the spectrum: the rows that agree are too few
    layer, inputs = make_nice_layer(heads=2, dim=8, rng=0), BooleanInputs(tokens=3, dim=8)
    given = ExampleOracle.from_arrays(*ExampleOracle(layer, inputs, rng=1).draw(2_000))
    fit = SixPhase(heads=2, work=4000).fit(given, rng=2)
    assert fit.outcome is Outcome.EXACT
    assert "no clear gap" in fit.details.explanation
    assert fit.alone == "Newton"
    assert "by Newton alone" in str(fit)
    fit, _ = run(SixPhase(heads=2, examples=20_000), 2, 2, 8)
    assert (fit.outcome, fit.alone) == (Outcome.EXACT, "")


@pytest.mark.parametrize("served", [True, False])
def test_too_few_examples_say_how_many_the_phases_need(served):
    # a student of two heads cannot fit three
    layer, inputs = make_nice_layer(heads=3, dim=12, rng=0), BooleanInputs(tokens=3, dim=12)
    oracle = ExampleOracle(layer, inputs, rng=1)
    if served:
        oracle = ExampleOracle.from_arrays(*oracle.draw(2000))
    fit = SixPhase(heads=2, examples=None if served else 2000, work=4000).fit(oracle, rng=2)
    assert fit.outcome is (Outcome.EXAMPLES_RAN_OUT if served else Outcome.EXAMPLES_SPENT)
    assert fit.examples_needed == 12_000 + 350_000 + 21_600 + 104
    assert f"of about {fit.examples_needed} needed" in str(fit)
    assert "12000 for phase 1, 350000 for phase 3" in fit.details.explanation


WISHES = st.lists(
    st.tuples(st.integers(1, 10**6), st.integers(0, 10**3)).map(lambda two: Wish(max(two), min(two))),
    min_size=1,
    max_size=6,
)


@given(WISHES, st.integers(0, 10**7), st.floats(0, 1))
def test_phases_that_draw_what_they_may_stay_within_the_budget(wishes, budget, used):
    plan = {str(place): wish for place, wish in enumerate(wishes)}
    drawn = 0
    enough = budget >= sum(wish.least for wish in wishes)
    for name, wish in plan.items():
        share = share_of_budget(plan, name, budget, drawn)
        assert 0 <= share <= wish.wanted
        assert not enough or share >= wish.least
        drawn += int(used * share)
    assert drawn <= budget


def test_the_last_phase_takes_all_that_is_left_of_given_examples():
    wishes = {"one": Wish(100, 10), "two": Wish(400, 0)}
    assert share_of_budget(wishes, "two", 2000, 100) == 400
    assert share_of_budget(wishes, "one", 2000, use_all=True) == 100
    assert share_of_budget(wishes, "two", 2000, 100, use_all=True) == 1900
    assert share_of_budget(wishes, "two", None, 100, use_all=True) == 400


def test_remaining_is_what_is_left_of_given_examples_and_all_of_others():
    endless = ExampleOracle(nice(6), BooleanInputs(tokens=2, dim=6), rng=6)
    oracle = ExampleOracle.from_arrays(*endless.draw(50))
    oracle.draw(20)
    left = [remaining(one, n, "to look at") for one, n in ((oracle, 29), (oracle, 31), (endless, 31))]
    assert left == [29, 30, 31]
    oracle.draw(30)
    with pytest.raises(PhaseFailedError, match="no example is left to look at"):
        remaining(oracle, 1, "to look at")


@given(d=st.integers(3, 200), k=st.integers(2, 5))
def test_the_count_is_that_of_the_entries_of_the_moments(d, k):
    """Phase 1: d^2 entries. Phases 2, 4: a form symmetric in two factors. Phase 3: a symmetric and a square matrix."""
    counts = six_phase_queries(tokens=min(k, d - 1), dim=d)
    symmetric = d * (d + 1) // 2
    form = symmetric**2 + d**2 + 3 + 12
    assert [one.count for one in counts] == [d**2, form, symmetric + d**2 + 12, form, 0]
    assert all(0 < one.tolerance <= 1 for one in counts)

"""The six-phase learner: exact in practical mode, (kd)^-m in paper mode, honest where a phase cannot do its work."""

import ast
import importlib
import inspect
import re
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import scipy.optimize

import upper
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
from attention.testing import check_learner
from upper.baselines.descent import squared_error_gradient, stack_heads
from upper.engine import Engine
from upper.newton.full_heads import FullHeads
from upper.newton.loop import gauss_newton
from upper.six_phase import (
    AttentionSpan,
    PhaseFailedError,
    QueryPlan,
    SixPhase,
    attention_span,
    estimate_projection_sum,
    learn_by_queries,
    one_gradient_step,
    refine_by_margin,
    sculpt_affine_hull,
)
from upper.six_phase.learner import _Run
from upper.six_phase.phase6_heads import fit_heads

MODES = ("practical", "paper")
PAPER = (*("phase1_projection_sum", "phase2_affine_hull", "phase3_refine_sum", "phase5_span", "phase6_net"),)

# the fewest and the most heads and tokens of the table; those in between run through the same code
SPANS_AT_1_PERCENT = {(2, 2): 0.003, (4, 3): 0.45}
REFINED = {(2, 2): 0.0024, (4, 3): 0.037}
CRUDE = {(2, 2): 0.088, (4, 3): 0.12}


def run(learner, heads, k, d, *, seed=0, inputs=BooleanInputs):
    layer, tokens = make_nice_layer(heads=heads, dim=d, rng=seed), inputs(k=k, d=d)
    truth = GroundTruth.draw(layer, tokens, 1000, rng=[seed, 1])
    phases = learner.run(ExampleOracle(layer, tokens, rng=[seed, 2]), rng=[seed, 3], truth=truth)
    return phases, truth.measure(layer=phases.fit.layer)


def measure(phases, name, phase):
    return [step for step in phases.fit.trace if step.phase == phase][-1].measures[name]


@pytest.mark.slow
@pytest.mark.parametrize(("m", "k"), [(1, 2), *SPANS_AT_1_PERCENT])
def test_practical_mode_ends_at_rounding_error_through_phases_as_good_as_the_table(m, k):
    phases, errors = run(SixPhase(m=m), m, k, 32)
    assert phases.fit.outcome is Outcome.EXACT
    assert errors["relative_error"] < 1e-10
    assert phases.heads == m
    if m > 1:
        assert measure(phases, "sum_error", 1) <= 2 * CRUDE[m, k]
        assert measure(phases, "sum_error", 3) <= 2 * REFINED[m, k]
        assert measure(phases, "span_error", 5) <= 2 * SPANS_AT_1_PERCENT[m, k]


@pytest.mark.slow
@pytest.mark.parametrize("inputs", [GaussianInputs, SphereInputs])
@pytest.mark.parametrize("mode", ["practical", "paper"])
def test_other_inputs_run_through_the_same_code(inputs, mode):
    phases, errors = run(SixPhase(m=2, mode=mode), 2, 2, 16, inputs=inputs)
    assert phases.fit.outcome.succeeded
    assert errors["relative_error"] < {"practical": 1e-10, "paper": 1 / 32}[mode]


@pytest.fixture(scope="module")
def paper_32():
    return run(SixPhase(m=2, mode="paper"), 2, 2, 32)


@pytest.mark.parametrize(
    ("m", "d"),
    [(1, 16), pytest.param(2, 16, marks=pytest.mark.slow), pytest.param(2, 32, marks=pytest.mark.slow)],
)
def test_paper_mode_reaches_a_squared_error_of_kd_to_the_minus_m_from_the_phases_alone(m, d, request):
    if d == 32:
        phases, errors = request.getfixturevalue("paper_32")
    else:
        phases, errors = run(SixPhase(m=m, mode="paper"), m, 2, d)
    assert phases.fit.outcome is Outcome.REACHED_TOLERANCE
    assert errors["relative_error"] ** 2 <= (2 * d) ** -m
    assert phases.net.error <= (2 * d) ** -m


@pytest.mark.parametrize("over", [pytest.param("proxy", marks=pytest.mark.slow), "body"])
def test_phases_3_and_4_lower_the_error_of_the_span(over, request):
    if over == "body":  # as it is by default
        phases, _ = request.getfixturevalue("paper_32")
    else:
        phases, _ = run(SixPhase(m=2, mode="paper", margin_over=over), 2, 2, 32)
    before, after = (measure(phases, "span_error", phase) for phase in (2, 4))
    assert after < {"proxy": before / 2, "body": before / 10}[over]


@pytest.mark.slow
def test_every_round_of_phases_3_and_4_is_reported():
    phases, _ = run(SixPhase(m=2, mode="paper", rounds=2), 2, 2, 16)
    places = [(step.phase, step.round) for step in phases.fit.trace]
    assert places == [(1, None), (2, None), (3, 1), (4, 1), (3, 2), (4, 2), (5, None), (6, None)]
    assert phases.fit.trace[4].name == "Phase 3: refine the sum, round 2"
    assert len(phases.hulls) == len(phases.spans) == 3
    assert len(phases.refinements) == 2


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_at_8_coordinates_the_margin_of_the_proxy_is_never_large_and_phase_3_says_so(seed):
    phases, _ = run(SixPhase(m=2, mode="paper", margin_over="proxy"), 2, 2, 8, seed=seed)
    assert phases.fit.outcome is Outcome.NO_LARGE_MARGIN
    assert "Phase 3 failed" in str(phases.fit.outcome)
    assert phases.explanation.startswith("Phase 3 failed: ")


@pytest.mark.parametrize("m", [1, pytest.param(2, marks=pytest.mark.slow), 3])
@pytest.mark.parametrize("mode", [pytest.param("practical", marks=pytest.mark.slow), "paper"])
def test_the_number_of_heads_is_found_by_the_gap(m, mode):
    if (m, mode) == (3, "paper"):
        pytest.skip("three heads by a net take minutes")
    phases, _ = run(SixPhase(m="auto", mode=mode), m, 2, 32 if m == 3 else 16)
    assert phases.heads == m
    assert phases.fit.layer.heads == m
    if m > 1:
        assert measure(phases, "gap", 5) > 10
    assert phases.fit.outcome.succeeded


@pytest.mark.parametrize("m", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_heads_without_attention_are_learned_and_contradict_nothing(m):
    layer, inputs = make_nice_layer(heads=m, dim=12, rng=0), BooleanInputs(k=2, d=12)
    layer = AttentionLayer(theta=np.zeros_like(layer.theta), w=layer.w)
    fits = [SixPhase(m=m, mode=mode).fit(ExampleOracle(layer, inputs, rng=1), rng=2) for mode in MODES]
    x = inputs.sample(500, rng=3)
    np.testing.assert_allclose(fits[0].predict(x), layer(x), atol=1e-8)
    assert fits[1].outcome is Outcome.NO_LARGE_MARGIN


def test_paper_mode_reaches_no_module_with_a_gradient_or_a_newton_step():
    """Followed through the source: what the modules of its phases import, and what those import, within `upper`."""
    seen, todo = set(), [f"upper.six_phase.{name}" for name in PAPER]
    while todo:
        name = todo.pop()
        if name in seen or not name.startswith("upper."):
            continue
        seen.add(name)
        for node in ast.walk(ast.parse(inspect.getsource(importlib.import_module(name)))):
            if isinstance(node, ast.ImportFrom):
                todo.append(node.module)
    assert {"upper.six_phase.phase6_net", "upper.six_phase.convex_body"} < seen
    assert not [name for name in seen if name.startswith(("upper.newton", "upper.baselines", "upper.linear"))]
    assert not seen & {f"upper.six_phase.{name}" for name in ("phase6_heads", "learner")}


# the phases and what they share; every other file of `upper` differentiates a layer or serves what does
PAPER_MODE = {"products.py"} | {
    f"six_phase/{name}.py"
    for name in [
        *PAPER,
        *("agreement", "common", "convex_body", "learner", "polytope"),
    ]
}
UPPER, SCIPY = (Path(one.__file__).parent for one in (upper, scipy))


def derivatives_called(learner, layer, inputs):
    """Run a learner, and name the functions it called that may differentiate or minimise something."""
    called = set()

    def note(frame, event, argument):
        if event == "call":
            called.add((Path(frame.f_code.co_filename), frame.f_code.co_qualname))

    oracle, before = ExampleOracle(layer, inputs, rng=1), sys.getprofile()
    sys.setprofile(note)
    try:
        phases = learner.run(oracle, rng=2)
    finally:
        sys.setprofile(before)
    found = {
        f"{path.name}: {name}"
        for path, name in called
        if (path.is_relative_to(UPPER) and path.relative_to(UPPER).as_posix() not in PAPER_MODE)
        or (
            path.is_relative_to(UPPER)
            and re.search("gradient|jacobian|newton|derivative|descen", name.lower())
        )
        # roots in one variable are of bracketing; everything else there goes downhill
        or (path.is_relative_to(SCIPY / "optimize") and path.name != "_zeros_py.py")
        or "torch" in path.parts
    }
    return found, phases


def test_paper_mode_calls_nothing_that_differentiates():
    layer, inputs = make_nice_layer(heads=2, dim=10, rng=0), BooleanInputs(k=2, d=10)
    found, phases = derivatives_called(SixPhase(m=2, mode="paper"), layer, inputs)
    assert phases.fit.outcome is Outcome.REACHED_TOLERANCE
    assert found == set()


def _jacobian(x, y, layer):
    m, d, _ = layer.theta.shape
    heads, theta = (
        FullHeads(Engine.of(x), x, m, np.random.default_rng(0)),
        stack_heads(layer.theta, layer.w)[0],
    )
    heads.reads(theta)
    heads.linearise(theta, layer.w.reshape(m * d, d))
    heads.times(theta)


@pytest.mark.parametrize(
    "differentiate",
    [
        lambda x, y, layer: squared_error_gradient(x, y, *stack_heads(layer.theta, layer.w)),
        _jacobian,
        lambda x, y, layer: next(gauss_newton(x, y, layer.theta, rng=np.random.default_rng(0))),
        lambda x, y, layer: one_gradient_step(x, y),
        lambda x, y, layer: scipy.optimize.minimize(np.sum, np.ones(2), options={"maxiter": 1}),
    ],
    ids=["gradient", "jacobian", "newton", "gradient of phase 1", "minimiser"],
)
def test_a_derivative_within_paper_mode_is_seen(differentiate, monkeypatch):
    layer, inputs = make_nice_layer(heads=2, dim=8, rng=0), BooleanInputs(k=2, d=8)

    def crude_sum(oracle, n, **named):
        x, y = oracle.draw(40)
        differentiate(x, y, layer)
        raise PhaseFailedError(Outcome.EXAMPLES_SPENT, "seen enough.")

    monkeypatch.setattr("upper.six_phase.learner.estimate_projection_sum", crude_sum)
    found, _ = derivatives_called(SixPhase(m=2, mode="paper"), layer, inputs)
    assert found


def test_too_few_examples_for_the_net_are_an_outcome(monkeypatch):
    begin = _Run.begin
    # 2 d m / k to regress on, and two to hold out
    few = lambda run, phase, number=1: min(begin(run, phase, number), 21 if phase == 6 else 10**9)  # noqa: E731
    monkeypatch.setattr(_Run, "begin", few)
    phases, _ = run(SixPhase(m=2, mode="paper"), 2, 2, 10)
    assert phases.failed == 6
    assert "21 examples are left for the net, and 2 heads need 22" in phases.explanation


def test_a_spectrum_without_a_step_ends_paper_mode_and_is_a_doubt_in_practical_mode(monkeypatch):
    def without_a_step(body, wide):
        span = attention_span(body, wide)
        return replace(span, gap=replace(span.gap, ratio=1.1))

    monkeypatch.setattr("upper.six_phase.learner.attention_span", without_a_step)
    paper, practical = (run(SixPhase(m=2, mode=mode), 2, 2, 10)[0] for mode in ("paper", "practical"))
    assert paper.failed == 5
    assert "no clear step" in paper.explanation
    assert "no clear gap" in practical.explanation


def test_pure_noise_is_told_by_a_phase():
    layer, inputs = make_nice_layer(heads=2, dim=12, rng=0), BooleanInputs(k=2, d=12)
    noise = lambda y, rng: rng.standard_normal(y.shape)  # noqa: E731
    for mode in ("paper", "practical"):
        phases = SixPhase(m=2, mode=mode).run(ExampleOracle(layer, inputs, noise=noise, rng=1), rng=2)
        assert not phases.fit.outcome.succeeded
        assert phases.explanation.startswith("Phase ")


def test_projections_that_cancel_end_in_phase_1():
    layer = make_nice_layer(heads=2, dim=8, rng=0)
    zero = lambda x: np.zeros_like(x)  # noqa: E731
    phases = SixPhase(m=2).run(ExampleOracle(zero, BooleanInputs(k=2, d=8), rng=1), rng=2)
    assert phases.fit.outcome is Outcome.NO_PROJECTION_SUM
    assert "is zero" in phases.explanation
    assert phases.fit.layer.theta.shape == layer.theta.shape


@pytest.mark.parametrize(
    ("k", "d", "why"), [(1, 8, "one token has no"), (8, 8, "k < d is needed"), (9, 4, "k < d")]
)
def test_one_token_or_as_many_as_coordinates_is_not_its_kind(k, d, why):
    layer = make_nice_layer(heads=2, dim=d, rng=0)
    phases = SixPhase(m=2).run(ExampleOracle(layer, BooleanInputs(k=k, d=d), rng=1), rng=2)
    assert phases.fit.outcome is Outcome.NOT_APPLICABLE
    assert why in phases.explanation
    assert phases.fit.examples_used == 0


@pytest.mark.parametrize("mode", ["paper", pytest.param("practical", marks=pytest.mark.slow)])
def test_a_budget_too_small_for_the_phases_is_said(mode):
    layer, inputs = make_nice_layer(heads=2, dim=16, rng=0), BooleanInputs(k=2, d=16)
    learner = SixPhase(m=2, mode=mode, examples=2000, work=1000)
    phases = learner.run(ExampleOracle(layer, inputs, rng=1), rng=2)
    assert phases.fit.examples_used <= 2000
    assert not phases.fit.outcome.succeeded or mode == "practical"


@pytest.mark.parametrize("factor", [pytest.param(0.0, marks=pytest.mark.slow), -1.0])
@pytest.mark.parametrize("mode", MODES)
def test_an_affine_hull_through_zero_is_no_contradiction(factor, mode):
    layer, inputs = make_nice_layer(heads=2, dim=16, rng=0), BooleanInputs(k=2, d=16)
    layer = AttentionLayer(theta=np.stack([layer.theta[0], factor * layer.theta[0]]), w=layer.w)
    phases = SixPhase(m=2, mode=mode).run(ExampleOracle(layer, inputs, rng=1), rng=2)
    if mode == "practical":
        assert phases.fit.outcome is Outcome.EXACT
    else:
        assert (phases.fit.outcome, phases.failed) == (Outcome.NO_LARGE_MARGIN, 3)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    "m", [pytest.param(11, marks=pytest.mark.slow), pytest.param(12, marks=pytest.mark.slow), 64, 65]
)
def test_more_heads_than_there_are_end_in_an_outcome(m, mode):
    layer, inputs = make_nice_layer(heads=2, dim=8, rng=0), BooleanInputs(k=2, d=8)
    phases = SixPhase(m=m, mode=mode, work=100).run(ExampleOracle(layer, inputs, rng=1), rng=2)
    assert (phases.fit.outcome is Outcome.NOT_APPLICABLE) == (m > 63)
    assert phases.heads == m


@pytest.mark.slow
def test_no_gap_is_said_where_the_number_of_heads_is_to_be_found():
    phases, _ = run(SixPhase(m="auto"), 5, 2, 24)
    assert phases.heads == 1
    assert not phases.fit.outcome.succeeded
    assert "found no wide direction (a factor of 1." in phases.explanation
    assert 1 <= measure(phases, "gap", 5) < 1.5


def test_the_default_tolerance_is_that_of_the_heads_found():
    phases, errors = run(SixPhase(m="auto", mode="paper", examples=30_000), 1, 2, 12)
    assert phases.heads == 1
    assert phases.fit.outcome is Outcome.REACHED_TOLERANCE
    assert errors["relative_error"] <= 24**-0.5


@pytest.mark.parametrize("noise", [0.1, pytest.param(1e-4, marks=pytest.mark.slow)])
def test_noisy_labels_end_at_the_residual_floor(noise):
    layer, inputs = make_nice_layer(heads=2, dim=12, rng=0), BooleanInputs(k=2, d=12)
    phases = SixPhase(m=2).run(ExampleOracle(layer, inputs, noise=noise, rng=1), rng=2)
    assert phases.fit.outcome is Outcome.RESIDUAL_FLOOR


def test_a_limited_budget_keeps_the_outcome_of_the_phase_and_is_told():
    layer, inputs = make_nice_layer(heads=2, dim=16, rng=0), BooleanInputs(k=2, d=16)
    learner = SixPhase(m=2, mode="paper", margin_over="proxy", examples=4_000)
    phases = learner.run(ExampleOracle(layer, inputs, rng=1), rng=2)
    assert phases.explanation.startswith(f"Phase {phases.failed} failed: ")
    assert str(phases.fit.outcome).startswith("Phase ")
    assert "The phases had 4000 examples of the " in phases.explanation


def test_no_example_left_is_said_by_phase_2():
    x = GaussianInputs(k=2, d=8).sample(3, rng=0)
    oracle = ExampleOracle.from_arrays(x, x)
    oracle.draw(3)
    with pytest.raises(PhaseFailedError, match="no example is left"):
        sculpt_affine_hull(oracle, np.eye(8))


def test_every_step_has_the_number_of_its_phase_in_both_modes():
    layer, inputs = make_nice_layer(heads=2, dim=8, rng=0), BooleanInputs(k=2, d=8)
    for mode, expected in (("practical", [1, 3, 4, 5, 6]), ("paper", [1, 2, 3, 4, 5, 6])):
        phases = SixPhase(m=2, mode=mode, work=500).run(ExampleOracle(layer, inputs, rng=1), rng=2)
        numbers = [step.phase for step in phases.fit.trace]
        assert sorted(set(numbers)) == expected[: len(set(numbers))]
        assert [step.name[: len("Phase 1: ")] for step in phases.fit.trace] == [
            f"Phase {number}: " for number in numbers
        ]
        assert phases.failed in (None, *expected)


def test_the_fit_of_phase_6_needs_two_examples():
    oracle = ExampleOracle(make_nice_layer(heads=1, dim=4, rng=0), BooleanInputs(k=2, d=4), rng=1)
    span = AttentionSpan(np.eye(4), np.zeros((0, 4, 4)), np.zeros(0), 0.0, None)
    with pytest.raises(PhaseFailedError, match="no example is left to fit the heads to") as failure:
        fit_heads(oracle, span, examples=1, work=9, tolerance=0.0, rng=np.random.default_rng(2), tell=print)
    assert failure.value.outcome is Outcome.EXAMPLES_SPENT


def test_threads_change_no_bit():
    fits = [run(SixPhase(m=2, mode="paper", jobs=jobs), 2, 2, 12)[0].fit for jobs in (1, 2)]
    assert np.array_equal(fits[0].layer.theta, fits[1].layer.theta)
    assert np.array_equal(fits[0].layer.w, fits[1].layer.w)
    assert fits[0].examples_used == fits[1].examples_used


@pytest.mark.parametrize("mode", [pytest.param("paper", marks=pytest.mark.slow), "practical"])
@pytest.mark.bad_input
def test_the_contract_of_learners(mode):
    layer, inputs = make_nice_layer(heads=2, dim=8, rng=0), BooleanInputs(k=2, d=8)
    tolerance = 0.05 if mode == "paper" else None
    check_learner(SixPhase(m=2, mode=mode, examples=60_000, tolerance=tolerance), layer, inputs, seed=1)


@pytest.mark.bad_input
@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"m": "many"}, "m is 'many'"),
        ({"accept": 1.5}, "accept is 1.5"),
        ({"jobs": 0}, "jobs is 0"),
        ({"rounds": 2}, "rounds is 2 and mode 'practical': rounds is for mode 'paper'"),
        ({"margin_over": "proxy"}, "margin_over is for mode 'paper'"),
        ({"mode": "paper", "m": "auto", "body": "polytope"}, "a body with a spectrum"),
    ],
)
def test_wrong_parameters_are_sentences(changes, complaint):
    with pytest.raises(ValueError, match=complaint):
        SixPhase(**{"m": 2, **changes})


@pytest.mark.bad_input
def test_a_result_in_place_of_what_it_holds_is_a_sentence():
    layer, inputs = make_nice_layer(heads=2, dim=12, rng=0), BooleanInputs(k=2, d=12)
    oracle = ExampleOracle(layer, inputs, rng=1)
    crude = estimate_projection_sum(oracle, 1000)
    with pytest.raises(ValueError, match="projection_sum is an array of object"):
        sculpt_affine_hull(oracle, crude)
    hull = sculpt_affine_hull(oracle, layer.w.sum(axis=0), accept=0.05)
    with pytest.raises(ValueError, match="body is of the type AffineHull"):
        attention_span(hull, 1)
    with pytest.raises(ValueError, match="body is of the type AffineHull"):
        refine_by_margin(oracle, hull, wide=1)
    with pytest.raises(ValueError, match="oracle is of the type ExampleOracle: a QueryOracle"):
        learn_by_queries(oracle, QueryPlan(m=2, k=2, d=12))


@pytest.mark.slow
def test_findings_hold_what_each_mode_found():
    practical, _ = run(SixPhase(m=2), 2, 2, 12)
    paper, _ = run(SixPhase(m=2, mode="paper", examples=60_000), 2, 2, 12)
    assert (len(practical.hulls), len(paper.hulls)) == (1, 2)
    assert practical.net is None
    assert paper.net is not None
    assert repr(practical).startswith("<Phases: EXACT, 2 heads. The fit ended")


def test_exact_says_so_where_newton_alone_did_the_work():
    # phases 4 and 5 see no step in the spectrum: the rows that agree are too few
    layer, inputs = make_nice_layer(heads=3, dim=12, rng=0), BooleanInputs(k=3, d=12)
    given = ExampleOracle.from_arrays(*ExampleOracle(layer, inputs, rng=1).draw(20_000))
    phases = SixPhase(m=3, work=4000).run(given, rng=2)
    assert phases.fit.outcome is Outcome.EXACT
    assert "no clear gap" in phases.explanation
    assert phases.fit.alone == "Newton"
    assert str(phases.fit).endswith("by Newton alone")
    phases, _ = run(SixPhase(m=2, examples=20_000), 2, 2, 8)
    assert (phases.fit.outcome, phases.fit.alone) == (Outcome.EXACT, "")


@pytest.mark.parametrize("served", [True, False])
def test_too_few_examples_say_how_many_the_phases_need(served):
    # a student of two heads cannot fit three
    layer, inputs = make_nice_layer(heads=3, dim=12, rng=0), BooleanInputs(k=3, d=12)
    oracle = ExampleOracle(layer, inputs, rng=1)
    if served:
        oracle = ExampleOracle.from_arrays(*oracle.draw(2000))
    phases = SixPhase(m=2, examples=None if served else 2000, work=4000).run(oracle, rng=2)
    assert phases.fit.outcome is (Outcome.EXAMPLES_RAN_OUT if served else Outcome.EXAMPLES_SPENT)
    assert phases.fit.examples_needed == 12_000 + 350_000 + 21_600 + 104
    assert f"of about {phases.fit.examples_needed} needed" in str(phases.fit)
    assert "12000 for phase 1, 350000 for phase 3" in phases.explanation

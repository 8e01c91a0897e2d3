"""The study of violations: layers with one condition violated, the errors of phases, and its committed record."""

import numpy as np
import pytest

from attention import BooleanInputs, ExampleOracle, check_conditions
from studies import violations_layers
from studies.violations_layers import NICE, VIOLATIONS, violated_layer
from studies.violations_runs import BREAKS_AT, broken_phase, phase_errors


def made(name, step, seed=0):
    heads = 2 if name == NICE else VIOLATIONS[name].heads
    return violated_layer(name, step, heads=heads, tokens=2, dim=16, rng=np.random.default_rng(seed))


@pytest.mark.parametrize("name", VIOLATIONS)
def test_the_condition_is_violated_and_more_so_step_by_step(name, monkeypatch):
    monkeypatch.setattr(violations_layers, "_TRIES", 2)
    kind = VIOLATIONS[name]
    layers = [made(name, step).layer for step in (kind.steps[0], kind.steps[-1])]
    mild, extreme = (check_conditions(layer, tokens=2)[kind.condition] for layer in layers)
    assert not mild.verdict
    assert not extreme.verdict
    assert extreme.measured >= mild.measured if mild.better == "small" else extreme.measured <= mild.measured


@pytest.mark.parametrize(
    ("name", "step", "measured"),
    [
        ("close heads", 0.2, 1 - 0.2**2 / 2),
        ("opposed heads", 0.9, 0.9),
        ("heavy column", 0.6, 0.6),
        ("trace", 3, 3),
        ("weak head", 20, 20),
        ("large norms", 32, 32),
        ("lattice", 0, 1),
        ("alike W", 0.99, 0.99),
        ("opposed W", 1, 1),
        ("low-rank W", 1, 1),
        ("weak W", 6, 6),
    ],
)
def test_the_amount_is_what_the_condition_measures(name, step, measured):
    assert made(name, float(step)).measured == pytest.approx(measured, rel=1e-9)


def test_violations_with_one_seed_begin_with_the_same_nice_layer():
    nice, weak, alike = made(NICE, 0.0), made("weak W", 6.0), made("alike W", 0.9)
    assert check_conditions(nice.layer, tokens=2).satisfied
    np.testing.assert_array_equal(nice.layer.theta, weak.layer.theta)
    np.testing.assert_array_equal(nice.layer.w[0], alike.layer.w[0])


def test_opposed_projections_cancel_in_the_sum_and_end_paper_mode():
    layer = made("opposed W", 1.0).layer
    np.testing.assert_allclose(layer.w.sum(axis=0), 0, atol=1e-12)
    run = phase_errors(layer, "paper", tokens=2, rng=np.random.default_rng(5))
    assert run["failed"] is not None
    assert run["errors"]["6"] is None


@pytest.mark.slow
def test_error_of_phase_one_is_that_of_its_mean_and_the_end_is_exact():
    layer = made(NICE, 0.0).layer
    run = phase_errors(layer, "practical", tokens=2, rng=np.random.default_rng(5))
    for_oracle, *_ = np.random.default_rng(5).spawn(3)
    x, y = ExampleOracle(layer, BooleanInputs(2, 16), rng=for_oracle).draw(16_000)
    estimate = np.einsum("nad,nbe->de", x, y) / (2 * len(x))
    true = layer.w.sum(axis=0)
    error = np.linalg.norm(estimate - true) / np.linalg.norm(true)
    assert run["errors"]["1"] == pytest.approx(error, rel=0.1)  # other examples, the same bias
    assert list(run["errors"]) == ["1", "3", "4", "5", "6"]
    assert run["failed"] is None
    assert run["error"] < 1e-10
    assert run["errors"]["5"] < 0.05


def test_the_first_phase_to_break_is_the_first_above_the_factor_or_the_one_that_ends_the_run():
    def run(*errors, failed=None):
        return {"errors": {str(at + 1): one for at, one in enumerate(errors)}, "failed": failed}

    usual = {"1": 0.2, "2": 0.2, "3": 0.01}
    just_over = BREAKS_AT * 1.01
    assert broken_phase(run(0.2, 0.2, 0.01), usual) is None
    assert broken_phase(run(0.2, 0.2 * just_over, 1.0), usual) == 2
    assert broken_phase(run(0.2, 0.2, None, failed=3), usual) == 3
    assert broken_phase(run(0.2 * just_over, 0.2, None, failed=2), usual) == 1
    assert broken_phase(run(9.0, 9.0, 9.0), {}) is None

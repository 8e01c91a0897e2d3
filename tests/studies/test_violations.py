"""The study of violations: layers with one condition violated, the errors of phases, and its committed record."""

import numpy as np
import pytest

from attention import check_conditions
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


def test_opposed_projections_cancel_in_the_sum_and_end_paper_mode():
    layer = made("opposed W", 1.0).layer
    np.testing.assert_allclose(layer.w.sum(axis=0), 0, atol=1e-12)
    run = phase_errors(layer, "paper", tokens=2, rng=np.random.default_rng(5))
    assert run["failed"] is not None
    assert run["errors"]["6"] is None


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

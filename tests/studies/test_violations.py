"""The study of violations: layers with one condition violated by a known amount, and the phase that breaks first."""

import numpy as np
import pytest

from attention import check_conditions
from studies.violations import NICE, VIOLATIONS, breaks, run_learner, violated_layer


def made(name, amount):
    return violated_layer(name, amount, dim=16, rng=np.random.default_rng(0))


@pytest.mark.parametrize("name", [name for name in VIOLATIONS if name != NICE])
def test_the_condition_is_violated_and_more_so_with_the_amount(name, monkeypatch):
    monkeypatch.setattr("studies.violations._TRIES", 2)
    condition, amounts, _ = VIOLATIONS[name]
    layers = [made(name, amount)[0] for amount in (amounts[0], amounts[-1])]
    mild, extreme = (check_conditions(layer, tokens=2)[condition] for layer in layers)
    assert not mild.verdict
    assert not extreme.verdict
    assert extreme.measured >= mild.measured if mild.better == "small" else extreme.measured <= mild.measured


@pytest.mark.parametrize(
    ("name", "amount", "measured"),
    [
        ("close heads", 0.2, 1 - 0.2**2 / 2),
        ("opposed heads", 0.9, 0.9),
        ("weak head", 20, 20),
        ("large norms", 32, 32),
        ("lattice", 0, 1),
        ("alike W", 0.99, 0.99),
        ("opposed W", 1, 1),
        ("low-rank W", 1, 1),
        ("weak W", 6, 6),
    ],
)
def test_the_amount_is_what_the_condition_measures(name, amount, measured):
    assert made(name, float(amount))[1] == pytest.approx(measured, rel=1e-9)


def test_opposed_projections_cancel_in_the_sum_and_end_paper_mode():
    layer, _, _ = made("opposed W", 1.0)
    np.testing.assert_allclose(layer.w.sum(axis=0), 0, atol=1e-12)
    run = run_learner(layer, "paper", np.random.default_rng(5))
    assert run["failed"] is not None
    assert not run["success"]
    assert "phase_6" not in run


def test_the_first_phase_to_break_is_the_first_above_three_times_the_usual_or_the_one_that_ends_the_runs():
    usual = {"phase_1": 0.2, "phase_2": 0.2, "phase_3": 0.01}

    def broken(*errors, failed=None):
        return breaks({**dict(zip(usual, errors, strict=True)), "failed": failed}, usual)

    assert broken(0.2, 0.2, 0.01) is None
    assert broken(0.2, 0.61, 1.0) == 2
    assert broken(0.2, 0.2, None, failed=3) == 3
    assert broken(0.61, 0.2, None, failed=2) == 1

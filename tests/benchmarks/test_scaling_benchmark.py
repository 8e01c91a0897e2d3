"""The benchmark of scaling: exponents that are exact on powers, and the least multiple by few trials."""

import json
from math import inf

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks import scaling
from benchmarks.scaling import BASE, MULTIPLES, fit_power, least_multiple, run_scaling, stated_bytes
from upper import counting_floor


@given(
    exponent=st.floats(-4, 4),
    factor=st.floats(1e-6, 1e6),
    x=st.lists(st.integers(1, 100), min_size=3, max_size=8, unique=True),
)
def test_a_power_law_has_its_exponent(exponent, factor, x):
    power = fit_power(x, [factor * one**exponent for one in x])
    assert power["exponent"] == pytest.approx(exponent, abs=1e-6)
    assert power["factor"] == pytest.approx(factor, rel=1e-5)
    assert power["low"] - 1e-9 <= exponent <= power["high"] + 1e-9
    assert power["worst residual"] == pytest.approx(0, abs=1e-6)


def test_the_interval_holds_the_exponent_nineteen_times_of_twenty():
    rng, x = np.random.default_rng(0), [16, 24, 32, 48, 64, 96]
    held = 0
    for _ in range(400):
        y = [one**2 * np.exp(0.1 * rng.standard_normal()) for one in x]
        power = fit_power(x, y)
        held += power["low"] <= 2 <= power["high"]
    assert 0.91 < held / 400 < 0.985  # four standard deviations of a binomial about .95


@pytest.mark.parametrize("least", [*MULTIPLES, inf])
def test_the_least_multiple_is_found_by_few_trials(least):
    tried = []

    def enough(multiple):
        tried.append(multiple)
        return multiple >= least

    assert least_multiple(enough) == least
    assert len(tried) == len(set(tried)) <= 4


@pytest.mark.slow
def test_each_point_varies_one_number_about_the_base(monkeypatch, tmp_path):
    measured = []

    def measure(m, k, d, *, targets, engine):
        assert engine in ("numpy", "torch")
        measured.append((m, k, d))
        return {
            **{"m": m, "k": k, "d": d, "floor": counting_floor(heads=m, tokens=k, dim=d), "multiple": 2.0},
            **{"examples": m * d**2 / k, "seconds": m**2 * d**3 / k, "passes": 500.0},
            **{"bytes": m * d**2, "stated bytes": stated_bytes(100, m, k, d)},
        }

    monkeypatch.setattr(scaling, "_measure", measure)
    found = run_scaling(tmp_path / "s.json", tmp_path / "s.svg")
    assert len(measured) - 1 == len(set(measured[1:])) == 6 + 7 + 7 - 2
    assert all(sum(a != b for a, b in zip(one, BASE.values(), strict=True)) <= 1 for one in measured[1:])
    for name, exponents in {"d": (3, 2, 2), "m": (2, 1, 1), "k": (-1, -1, 0)}.items():
        for what, exponent in zip(("seconds", "examples", "bytes"), exponents, strict=True):
            assert found["powers"][name][what]["exponent"] == pytest.approx(exponent)
    assert json.loads((tmp_path / "s.json").read_text(encoding="utf-8"))["powers"]["d"]["passes"]


def test_a_real_case_is_exact_within_the_stated_memory():
    case = scaling._measure(2, 3, 8, targets=2)
    assert case["floor"] == 11
    assert 1.5 <= case["multiple"] <= 8
    assert case["examples"] == case["multiple"] * 11
    assert 0 < case["bytes"] < case["stated bytes"]
    assert case["passes"] > 50

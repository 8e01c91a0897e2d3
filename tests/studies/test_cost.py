"""What learning costs: laws are found again in rows that obey them, also beyond the sizes they were fitted to."""

import math

import numpy as np
import pytest

from studies.cost import STUDY, excess, fit_laws
from upper import Newton, counting_floor

SIZES = [(m, k, d) for m in (1, 2, 4) for k in (2, 3, 8) for d in (8, 16, 32)]
FITTED = {"role": "fitted", "outcome": "EXACT"}


def newton_row(m, k, d, *, noise=1.0):
    n = 4 * counting_floor(heads=m, tokens=k, dim=d)
    return FITTED | {
        **dict(zip("mkd", (m, k, d), strict=True)),
        "passes": noise * 150 * m**0.4 * k**0.3 * d**0.2 / math.sqrt(n / 4 * k * (k - 1) / d**2),
        "memory": noise * (n * k * m * (24 * d + 40 * k) + 600 * m * d**2 + 48 * (m * d) ** 2 + 5e4),
    }


@pytest.mark.parametrize("size", [(8, 8, 96), (12, 64, 384), (32, 2048, 4096)])
def test_a_law_is_found_again_and_holds_far_beyond_the_sizes_it_was_fitted_to(size):
    (passes, memory), true = fit_laws([newton_row(*size) for size in SIZES]), newton_row(*size)
    # the patterns set the floor or W does: the excess is what rounding up leaves, or a real one
    assert excess(*size) >= 1
    assert passes(*size) == pytest.approx(true["passes"], rel=1e-6)
    assert memory(*size) == pytest.approx(true["memory"], rel=1e-6)


def test_checks_and_fits_that_are_not_exact_are_no_part_of_the_fit():
    fitted = [newton_row(*size) for size in SIZES]
    others = [{**row, "memory": 50 * row["memory"]} for row in fitted]
    failed, checked = (
        [row | change for row in others] for change in ({"outcome": "SADDLE"}, {"role": "checked"})
    )
    assert fit_laws(fitted) == fit_laws([*fitted, *checked, *failed])
    assert fit_laws(fitted) != fit_laws([*fitted, *others])
    assert fit_laws(fitted[:5]) is None


@pytest.mark.slow
def test_the_interval_of_passes_holds_as_many_further_medians_as_it_says():
    rng, inside = np.random.default_rng(0), []
    for _ in range(200):
        noise = dict(zip(SIZES, np.exp(0.3 * rng.standard_normal(len(SIZES))), strict=True))
        law = fit_laws([newton_row(*size, noise=noise[size]) for size in SIZES])[0]
        low, high = law.interval(8, 8, 96)
        inside.append(low <= newton_row(8, 8, 96)["passes"] * np.exp(0.3 * rng.standard_normal()) <= high)
    assert 0.9 <= np.mean(inside) <= 0.985


@pytest.mark.slow
def test_a_cell_measures_one_fit():
    cell = {"m": 1, "k": 3, "d": 8, "draw": 0, "role": "fitted"}
    row, again = (STUDY.measure(rng=np.random.default_rng(3), **cell) for _ in range(2))
    n = Newton(1).default_examples(1, 3, 8)
    assert row["outcome"] == "EXACT"
    assert 100 < row["passes"] < 1000
    # at least tokens and labels as drawn; at most ten times what the solver states
    stated = 4 * (6 * n * 3 * (8 + 9) + 16 * n * 3 * 8 + 160 * 8**2 + 8 * 8**2) + (64 << 10)
    assert 16 * n * 3 * 8 < row["memory"] < stated + 10 * 8 * n * 3 * 8 + (64 << 10)
    assert {**again, "memory": 0} == {**row, "memory": 0}
    assert again["memory"] == pytest.approx(row["memory"], rel=0.1, abs=64 << 10)

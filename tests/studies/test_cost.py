"""What learning costs: laws are found again in rows that obey them, also beyond the sizes they were fitted to."""

import math

import numpy as np
import pytest

from studies.cost import STUDY
from studies.cost_model import CostModel
from upper import Newton, counting_floor

SIZES = [(m, k, d) for m in (1, 2, 4) for k in (2, 3, 8) for d in (8, 16, 32)]


def newton_row(m, k, d, *, noise=1.0):
    n = 4 * counting_floor(heads=m, tokens=k, dim=d)
    excess = n / 4 * k * (k - 1) / d**2
    return {
        "learner": "newton",
        "m": m,
        "k": k,
        "d": d,
        "examples": n,
        "passes": noise * 150 * m**0.4 * k**0.3 * d**0.2 / math.sqrt(excess),
        "memory": noise * (n * k * m * (24 * d + 40 * k) + 600 * m * d**2 + 48 * (m * d) ** 2 + 5e4),
    }


def linear_row(k, d):
    features = d * d * (d + 1) // 2
    rows = 4 * features * k / min(k, d)
    numbers = rows * features
    blocks = 2 * numbers if numbers <= 2**23 else min(numbers, 2**24)
    memory = 40 * features**2 + 8 * blocks + 32 * rows * d + 1e5
    return {"learner": "linear", "m": 2, "k": k, "d": d} | {
        "examples": rows / k + 16,
        "passes": None,
        "memory": memory,
    }


@pytest.fixture(scope="module")
def model():
    rows = [newton_row(*size) for size in SIZES]
    return CostModel.fit(rows + [linear_row(k, d) for k in (2, 4) for d in (4, 8, 12, 16, 20)])


@pytest.mark.parametrize("size", [(8, 8, 96), (12, 64, 384), (32, 2048, 4096)])
def test_a_law_is_found_again_and_holds_far_beyond_the_sizes_it_was_fitted_to(model, size):
    said, true = model.predict("newton", *size), newton_row(*size)
    # the patterns set the floor or W does: the excess is what rounding up leaves, or a real one
    for name in ("examples", "passes", "memory"):
        assert getattr(said, name) == pytest.approx(true[name], rel=1e-6)
    assert said.examples == pytest.approx(Newton(heads=size[0]).default_examples(*size))


@pytest.mark.bad_input
def test_a_cost_that_no_law_gives_is_refused(model):
    with pytest.raises(ValueError, match="was not measured at enough sizes"):
        model.predict("six-phase", 2, 2, 16)
    with pytest.raises(ValueError, match="enough sizes"):
        CostModel.fit([])


def test_checks_and_fits_that_are_not_exact_are_no_part_of_the_fit():
    fitted = [linear_row(4, d) for d in (4, 6, 8, 12)]
    others = [{**row, "examples": 50 * row["examples"]} for row in fitted]
    failed = [{**row, "outcome": "LOCAL_MINIMUM"} for row in others]
    checked = [{**row, "role": "checked"} for row in others]
    alone = CostModel.fit(fitted)
    assert alone == CostModel.fit([*fitted, *checked, *failed])
    assert alone != CostModel.fit([*fitted, *others])
    assert alone.predict("linear", 2, 4, 10).beyond == ()
    assert alone.predict("linear", 3, 4, 24).beyond == ("m", "d")


@pytest.mark.slow
def test_the_interval_of_passes_holds_as_many_further_medians_as_it_says():
    rng, inside = np.random.default_rng(0), []
    for _ in range(200):
        noise = dict(zip(SIZES, np.exp(0.3 * rng.standard_normal(len(SIZES))), strict=True))
        said = CostModel.fit([newton_row(*size, noise=noise[size]) for size in SIZES]).predict(
            "newton", 8, 8, 96
        )
        true = newton_row(8, 8, 96)["passes"] * np.exp(0.3 * rng.standard_normal())
        inside.append(said.passes_range[0] <= true <= said.passes_range[1])
    assert 0.9 <= np.mean(inside) <= 0.985


@pytest.mark.slow
def test_a_cell_measures_one_fit():
    cell = {"learner": "newton", "m": 1, "k": 3, "d": 8, "draw": 0, "role": "fitted"}
    found, again = (STUDY.measure(rng=np.random.default_rng(3), **cell) for _ in range(2))
    n = Newton(1).default_examples(1, 3, 8)
    assert (found["examples"], found["outcome"], found["starts"]) == (n, "EXACT", 1)
    assert 100 < found["passes"] < 1000
    # at least tokens and labels as drawn; at most ten times what the solver states
    stated = 4 * (6 * n * 3 * (8 + 9) + 16 * n * 3 * 8 + 160 * 8**2 + 8 * 8**2) + (64 << 10)
    assert 16 * n * 3 * 8 < found["memory"] < stated + 10 * 8 * n * 3 * 8 + (64 << 10)
    assert {**again, "memory": 0} == {**found, "memory": 0}
    assert again["memory"] == pytest.approx(found["memory"], rel=0.1, abs=64 << 10)

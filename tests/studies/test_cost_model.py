"""What learning costs: laws are found again in numbers that obey them, and structure is kept beyond them."""

import math

import numpy as np
import pytest

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
    assert said.examples == pytest.approx(Newton(m=size[0]).default_examples(*size))


def test_numbers_of_the_laws_are_those_that_made_the_rows(model):
    passes = model.laws["newton", "passes"]
    assert passes.numbers == pytest.approx({"factor": 150, "m": 0.4, "k": 0.3, "d": 0.2, "excess": -0.5})
    assert passes.sizes == len(SIZES)
    assert passes.worst == pytest.approx(1.0)
    memory = model.laws["newton", "memory"].numbers
    expected = {"N k m d": 24, "N k m k": 40, "N k d": 0, "m d^2": 600, "(m d)^2": 48, "1": 5e4}
    assert memory == pytest.approx(expected, rel=1e-4, abs=1e-3)


def test_cubic_regression_beyond_a_block_is_told_from_within(model):
    said, true = model.predict("linear", 2, 8, 64), linear_row(8, 64)
    assert said.memory == pytest.approx(true["memory"], rel=1e-4)
    assert said.examples == pytest.approx(true["examples"])
    assert said.passes is None
    features = 64 * 64 * 65 // 2
    assert said.operations == pytest.approx(true["examples"] * 8 * features**2 + features**3 / 3)


def test_operations_are_those_of_the_products_of_a_pass(model):
    m, k, d = 4, 8, 32
    said = model.predict("newton", m, k, d)
    n = said.examples
    # J: tokens by directions, by tokens, patterns by values; Z: reads by a factor; G^-1 once in two passes
    products = (
        n * k * d * m * d + n * k * m * k * d + n * k * k * m * d + n * k * m * d * d + (m * d) ** 2 * d / 2
    )
    assert said.operations == pytest.approx(said.passes * products)


def _linear_rows(role: str, factor: int) -> list[dict]:
    return [
        {
            "learner": "linear",
            "role": role,
            "m": 1,
            "k": 2,
            "d": d,
            "examples": factor * d**3,
            "passes": None,
            "memory": 9 * d**6,
        }
        for d in (4, 6, 8, 12)
    ]


@pytest.mark.bad_input
def test_a_cost_that_no_law_gives_is_refused(model):
    with pytest.raises(ValueError, match="was not measured at enough sizes"):
        model.predict("six-phase", 2, 2, 16)
    with pytest.raises(ValueError, match="enough sizes"):
        CostModel.fit([])


def test_checks_and_fits_that_are_not_exact_are_no_part_of_the_fit():
    fitted = _linear_rows("fitted", 2)
    failed = [{**row, "outcome": "LOCAL_MINIMUM"} for row in _linear_rows("fitted", 50)]
    alone = CostModel.fit(fitted)
    assert alone == CostModel.fit([*fitted, *_linear_rows("checked", 50), *failed])
    assert alone != CostModel.fit([*fitted, *_linear_rows("fitted", 50)])


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

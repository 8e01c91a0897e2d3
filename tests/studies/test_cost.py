"""What learning costs: what a cell measures, which figures test a law, and the committed record."""

import numpy as np
import pytest

from runs import Scale
from studies.cost import STUDY
from upper import Newton


def measured(learner, m, k, d):
    cell = {"learner": learner, "m": m, "k": k, "d": d, "draw": 0, "role": "fitted"}
    return STUDY.measure(rng=np.random.default_rng(3), **cell)


def made_up(scale, *, check=1.0, **of_checks):
    """Rows of every cell by known laws, those of the checks off by a factor."""
    rows = []
    for cell in STUDY.cells(scale):
        m, k, d = cell["m"], cell["k"], cell["d"]
        factor = check if cell["role"] == "checked" else 1.0
        examples, passes, memory = {
            "newton": (
                Newton(m).default_examples(m, k, d),
                200 * m**0.5 * (1.1 if k % 2 else 1.0),
                9000 * m * d**2,
            ),
            "linear": (2 * d**2 * (d + 1) / min(k, d) + 16, None, 4 * d**4 * (d + 1) ** 2),
            "six-phase": (350_000 + 1000 * d, None, 1e7 + 1e5 * k * d),
        }[cell["learner"]]
        passes = None if passes is None else factor * passes
        costs = {
            "examples": factor * examples,
            "passes": passes,
            "memory": factor * memory,
            "outcome": "EXACT",
        }
        rows.append({**cell, **costs, **(of_checks if cell["role"] == "checked" else {})})
    return rows


@pytest.mark.parametrize("scale", list(Scale))
def test_checks_are_larger_than_what_is_fitted(scale):
    cells = STUDY.cells(scale)
    for learner in {cell["learner"] for cell in cells}:
        own = [cell for cell in cells if cell["learner"] == learner]
        most = {name: max(cell[name] for cell in own if cell["role"] == "fitted") for name in "mkd"}
        for cell in own:
            larger = [name for name in "mkd" if cell[name] > most[name]]
            assert cell["role"] == "fitted" or "d" in larger or larger == ["m", "k"]


@pytest.mark.slow
def test_a_cell_measures_one_fit():
    found = measured("newton", 1, 3, 8)
    n = Newton(1).default_examples(1, 3, 8)
    assert (found["examples"], found["outcome"], found["starts"]) == (n, "EXACT", 1)
    assert 100 < found["passes"] < 1000
    # at least tokens and labels as drawn; at most ten times what the solver states
    stated = 4 * (6 * n * 3 * (8 + 9) + 16 * n * 3 * 8 + 160 * 8**2 + 8 * 8**2) + (64 << 10)
    assert 16 * n * 3 * 8 < found["memory"] < stated + 10 * 8 * n * 3 * 8 + (64 << 10)
    again = measured("newton", 1, 3, 8)
    assert {**again, "memory": 0} == {**found, "memory": 0}
    assert again["memory"] == pytest.approx(found["memory"], rel=0.1)


def test_ratios_of_the_checks_are_those_of_measured_to_predicted():
    good, off = (STUDY.numbers(made_up(Scale.FULL, check=check)) for check in (1.0, 1.5))
    assert (good["near"], good["inside"], off["near"]) == ("8 of 8", "3 of 3", "0 of 8")
    for name in ("least_ratio", "largest_ratio"):
        assert float(off[name]) == pytest.approx(1.5 * float(good[name]), abs=0.01)
    assert off["newton_passes_law"] == good["newton_passes_law"]

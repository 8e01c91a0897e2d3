"""Value queries: the bound beside them, and what a fit of all answers adds under noise."""

import numpy as np

from studies import query_noise
from studies.queries_by_dimension import STUDY


def measured(**cell):
    return cell | STUDY.measure(rng=np.random.default_rng(0), draw=0, **cell)


def test_nice_layers_are_found_above_the_bound():
    pairs = measured(part="nice", name="two tokens", dim=16)
    several = measured(part="nice", name="any tokens", dim=16)
    assert pairs["bound"] == 128
    assert pairs["bound"] < pairs["count"] < 4 * pairs["bound"]
    assert several["count"] < pairs["count"]
    assert max(pairs["error"], several["error"]) < 1e-10


def test_a_parity_is_found_and_has_the_bound_of_its_certificate():
    row = measured(part="hard", name="parity of 3 bits", dim=12)
    assert row["bound"] == 2  # 165 secrets, 99 of which one query can rule out
    assert row["error"] < 1e-8


def test_a_fit_of_all_answers_lowers_the_error_of_the_reading():
    cell = {"heads": 2, "dim": 8, "level": 1e-2, "draw": 0}
    row = query_noise.STUDY.measure(rng=np.random.default_rng(0), **cell)
    assert row["outcome"] == "NOISE_FLOOR"
    assert 0 < 1.5 * row["theta_polished"] < row["theta_estimate"]

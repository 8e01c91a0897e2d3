"""The study of value queries: its cells, the bound beside them, slopes, and one colour a learner."""

import numpy as np

from studies.queries_by_dimension import STUDY


def measured(**cell):
    return cell | STUDY.measure(rng=np.random.default_rng(0), draw=0, **cell)


def test_nice_layers_are_found_above_the_bound():
    pairs = measured(part="nice", name="two tokens", dim=16)
    several = measured(part="nice", name="any tokens", dim=16)
    assert pairs["bound"] == 128
    assert pairs["bound"] < pairs["count"] < 4 * pairs["bound"]
    assert several["count"] < pairs["count"]
    assert several["tokens"] > 2 * several["count"]
    assert max(pairs["error"], several["error"]) < 1e-10


def test_a_parity_is_found_and_has_the_bound_of_its_certificate():
    row = measured(part="hard", name="parity of 3 bits", dim=12)
    assert (row["bound"], row["heads"]) == (2, 2)  # 165 secrets, 99 of which one query can rule out
    assert row["error"] < 1e-8

"""Low-degree tests: the fewest samples of a parity by its formula."""

import math

import numpy as np

from studies.low_degree import measure


def test_fewest_samples_of_a_parity_are_those_of_its_formula():
    rows = measure(rng=np.random.default_rng(0), family="parity, l = 3", dim=12, rate=0.1, runs=2)
    # with flips each touched sample has the factor .64/2; the lowest degree 8 allows one, 16 two
    targets, share = math.comb(11, 3), 0.32
    samples = {row["degree"]: row["samples"] for row in rows if "degree" in row}
    assert samples[8] == math.ceil(targets / share)
    values = [n * share + math.comb(n, 2) * share**2 for n in (samples[16] - 1, samples[16])]
    assert values[0] < targets <= values[1]
    assert rows[0]["any_degree"] == math.ceil(math.log1p(targets) / math.log1p(share))
    assert rows[0]["eliminated"] == 0

import math

import numpy as np

from runs import Scale
from studies import find_studies

(STUDY,) = find_studies(["low-degree"])


def test_fewest_samples_of_a_parity_are_those_of_its_formula():
    wanted = {"family": "parity, l = 3", "rate": 0.1}
    (cell,) = [one for one in STUDY.cells(Scale.QUICK) if wanted.items() <= one.items()]
    found = STUDY.measure(rng=np.random.default_rng(0), **{**cell, "runs": 2})
    # with flips each touched sample has the factor .64/2; the lowest degree 8 allows one, 16 two
    targets, share = math.comb(11, 3), 0.32
    assert found["samples"][0] == math.ceil(targets / share)
    second = found["samples"][1]
    values = [n * share + math.comb(n, 2) * share**2 for n in (second - 1, second)]
    assert values[0] < targets <= values[1]
    assert found["any_degree"] == math.ceil(math.log1p(targets) / math.log1p(share))
    assert found["eliminated"] == 0

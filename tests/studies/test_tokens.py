"""The study of tokens against dimensions: planted agreement, and certificates with both sums."""

import numpy as np

from attention import AttentionLayer, BooleanInputs, make_nice_layer
from studies.tokens import STUDY, planted_labels


def test_planted_rows_disagree_by_the_planted_gap():
    layer, x = make_nice_layer(heads=2, dim=8, rng=0), BooleanInputs(3, 8).sample(50, rng=1)
    # with projections 1 and -1 the planted labels are the difference of the two patterns
    opposite = AttentionLayer(theta=layer.theta, w=np.stack([np.eye(8), -np.eye(8)]))
    planted = planted_labels(opposite, x, gap=0.5, rng=np.random.default_rng(3))
    first = layer.patterns(x)[:, 0]
    read = np.matmul(planted, np.linalg.pinv(x))
    fine = np.linalg.matrix_rank(x) == 3
    gaps = np.ptp(np.log(first - read) - np.log(first), axis=-1)
    assert np.allclose(gaps[fine], 0.5)


def test_certificates_with_the_exact_sum_are_better_than_with_phase_1():
    cell = {"part": "certificates", "dim": 12, "tokens": 2, "draw": 0, "rows": 2000}
    row = STUDY.measure(rng=np.random.default_rng(0), **cell)
    assert row["false_exact"] <= row["false_crude"]
    assert row["rate_exact"] < 0.1 < row["agreeing"]

"""The study of tokens against dimensions: the law of the residual, thresholds, and its committed record."""

import numpy as np
import pytest

from attention import AttentionLayer, BooleanInputs, make_nice_layer
from studies.tokens_certificates import draw_rows, judge_certificates, residual_law


def rows_of(*, tokens, dim, n=800, seed=0, planted_gap=0.1):
    rng = np.random.default_rng(seed)
    layer = make_nice_layer(heads=2, dim=dim, rng=rng)
    return draw_rows(layer, BooleanInputs(tokens, dim).sample(n, rng=rng), planted_gap=planted_gap, rng=rng)


@pytest.mark.parametrize("tokens", [2, 5, 9])
def test_the_square_of_the_residual_shrinks_like_1_minus_k_minus_1_over_d(tokens):
    laws = [residual_law(rows_of(tokens=tokens, dim=10, n=300, seed=seed)) for seed in range(8)]
    assert laws[0]["left_predicted"] == pytest.approx(1 - (tokens - 1) / 10)
    assert np.mean([law["left"] for law in laws]) == pytest.approx(laws[0]["left_predicted"], rel=0.12)
    if tokens < 9:  # with one dimension left the tail depends on the layer
        assert np.mean([law["tail"] for law in laws]) == pytest.approx(laws[0]["tail_predicted"], rel=0.25)


def test_planted_rows_disagree_by_the_planted_gap():
    rows = rows_of(tokens=3, dim=8, n=50)
    # with projections 1 and -1 the planted labels are the difference of the two patterns
    same = AttentionLayer(theta=rows.layer.theta, w=np.stack([np.eye(8), -np.eye(8)]))
    again = draw_rows(same, rows.x, planted_gap=0.5, rng=np.random.default_rng(3))
    first = rows.layer.patterns(rows.x)[:, 0]
    read = np.matmul(again.planted, np.linalg.pinv(rows.x))
    fine = np.linalg.matrix_rank(rows.x) == 3
    gaps = np.ptp(np.log(first - read) - np.log(first), axis=-1)
    assert np.allclose(gaps[fine], 0.5)


def test_with_the_exact_sum_only_agreement_leaves_no_residual():
    rows = rows_of(tokens=3, dim=12, planted_gap=1e-9)
    judged = judge_certificates(rows, rows.layer.w.sum(axis=0))
    assert judged["fair_threshold"] < 1e-8
    assert judged["false_rate"] == 0

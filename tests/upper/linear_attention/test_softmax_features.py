"""Features for softmax targets: what they span, and how much of softmax attention they explain."""

import numpy as np
import pytest

from attention import AttentionLayer, BooleanInputs
from paper_checks.linear_attention.softmax import SoftmaxRow, softmax_rows
from upper.linear_attention.features import (
    SOFTMAX_KINDS,
    cubic_features,
    softmax_feature_count,
    softmax_features,
)


@pytest.mark.parametrize("kind", SOFTMAX_KINDS)
def test_as_many_features_as_are_counted(kind):
    x = np.random.default_rng(0).standard_normal((2, 5, 3, 4))
    every = softmax_features(x, kind)
    assert every.shape == (2, 5, 3, softmax_feature_count(kind, 4))
    np.testing.assert_array_equal(softmax_features(x, kind, every_row=False), every[..., -1, :])


def test_the_features_are_what_their_names_say():
    x = np.random.default_rng(1).standard_normal((6, 3, 4))
    mean = x.mean(axis=1)
    last = {kind: softmax_features(x, kind, every_row=False) for kind in SOFTMAX_KINDS}
    plain = cubic_features(x)
    np.testing.assert_allclose(last["plain"], plain)
    np.testing.assert_allclose(last["aug"], np.hstack([plain, mean]))
    np.testing.assert_allclose(last["tokens"], np.hstack([x[:, -1], mean]))
    centred = np.einsum("nkb,nkc->nbc", x - mean[:, None], x - mean[:, None])
    b, c = np.triu_indices(4)
    weighted = centred[:, b, c] * np.where(b == c, 1, np.sqrt(2))
    cubic = np.einsum("np,ne->npe", weighted, x[:, -1]).reshape(6, -1)
    np.testing.assert_allclose(last["cent"], np.hstack([cubic, x[:, -1], mean]))


def test_every_row_is_a_query_in_turn():
    x = np.random.default_rng(2).standard_normal((4, 3, 2))
    for row in range(3):
        rolled = x[:, [*(other for other in range(3) if other != row), row]]
        for kind in SOFTMAX_KINDS:
            np.testing.assert_allclose(
                softmax_features(rolled, kind, every_row=False), softmax_features(x, kind)[:, row], atol=1e-12
            )


def test_softmax_to_first_order_is_in_the_span_of_the_centred_features():
    """softmax(eps x_q^T Theta X^T) X = mean + eps x_q^T Theta (centred G)/k + O(eps^2)."""
    rng = np.random.default_rng(3)
    x, theta = rng.standard_normal((50, 4, 3)), rng.standard_normal((1, 3, 3))
    phi = softmax_features(x, "cent").reshape(200, -1)
    left_over = []
    for eps in (1e-2, 1e-3):
        y = AttentionLayer(eps * theta, np.eye(3)[None])(x).reshape(200, 3)
        left_over.append(np.linalg.norm(y - phi @ np.linalg.lstsq(phi, y, rcond=None)[0]))
    assert 80 < left_over[0] / left_over[1] < 125  # second order: a hundredth
    plain = np.hstack([softmax_features(x, kind).reshape(200, -1) for kind in ("plain", "tokens")])
    y = AttentionLayer(1e-3 * theta, np.eye(3)[None])(x).reshape(200, 3)
    assert np.linalg.norm(y - plain @ np.linalg.lstsq(plain, y, rcond=None)[0]) > 50 * left_over[1]


def test_torch_tensors_give_torch_features():
    torch = pytest.importorskip("torch")
    x = np.random.default_rng(4).standard_normal((3, 2, 4))
    for kind in SOFTMAX_KINDS:
        np.testing.assert_allclose(
            softmax_features(torch.from_numpy(x), kind).numpy(), softmax_features(x, kind)
        )


@pytest.mark.parametrize("every_row", [False, True])
@pytest.mark.parametrize("kind", SOFTMAX_KINDS)
def test_whole_numbers_are_taken_as_their_floats(kind, every_row):
    x = np.random.default_rng(5).integers(-3, 4, (6, 5, 3))
    found = softmax_features(x, kind, every_row=every_row)
    np.testing.assert_array_equal(found, softmax_features(x.astype(float), kind, every_row=every_row))


@pytest.fixture(scope="module")
def four_tokens() -> dict[tuple[float, str], SoftmaxRow]:
    rows = softmax_rows((0.03, 0.1, 1.0, 10.0), samples=8000, rng=np.random.default_rng(0))
    return {(row.theta_norm, row.kind): row for row in rows}


@pytest.mark.parametrize(
    ("norm", "aug", "cent", "tokens"),
    [(0.1, 2.0e-3, 1.8e-5, 6e-3), (1.0, 0.13, 0.050, 0.32), (10.0, 0.40, 0.31, 0.61)],
)
def test_the_table_of_four_tokens(four_tokens, norm, aug, cent, tokens):
    for kind, missed in (("aug", aug), ("cent", cent), ("tokens", tokens)):
        assert four_tokens[norm, kind].missed == pytest.approx(missed, rel=0.2)


def test_most_of_what_little_attention_does_is_the_row_mean(four_tokens):
    """Without the baseline of tokens alone an R^2 near 1 would look like learned attention."""
    assert four_tokens[0.1, "tokens"].r_squared > 0.99
    for norm in (0.1, 1.0, 10.0):
        missed = [four_tokens[norm, kind].missed for kind in ("cent", "aug", "tokens", "plain")]
        assert missed[:3] == sorted(missed[:3])
    assert not four_tokens[0.1, "tokens"].exact


def test_two_tokens_in_the_population():
    """Of 2^12 inputs all: the squared error of exact least squares, by another route."""
    (row,) = softmax_rows((1.0,), d=6, k=2, kinds=("cent",), draws=2, rng=np.random.default_rng(5))
    assert row.exact
    generator = np.random.default_rng(5)
    theta = generator.standard_normal((1, 2, 6, 6))
    theta /= np.linalg.norm(theta, axis=(2, 3), keepdims=True)
    w = generator.standard_normal((1, 2, 6, 6)) / np.sqrt(6)
    x = (
        2.0 * np.unpackbits(np.arange(1 << 12, dtype=">u2").view(np.uint8)).reshape(-1, 16)[:, 4:] - 1
    ).reshape(-1, 2, 6)
    phi = softmax_features(x, "cent", every_row=False)
    missed = []
    for head in range(2):
        y = AttentionLayer(theta[0, head][None], w[0, head][None])(x)[:, -1]
        error = y - phi @ np.linalg.lstsq(phi, y, rcond=1e-10)[0]
        missed.append(np.sum(error**2) / np.sum(y**2))
    assert row.missed == pytest.approx(np.mean(missed), rel=1e-8)
    assert row.low < row.missed < row.high


def test_two_tokens_at_little_attention():
    """d = 8, k = 2, |Theta| = .1, in the population: aug 2.4e-3, cent 9e-8, where the table has 2.7e-3 and 1.8e-7."""
    rows = softmax_rows((0.1,), k=2, kinds=("aug", "cent"), draws=5, rng=np.random.default_rng(6))
    assert 2e-3 < rows[0].missed < 3e-3
    assert 4e-8 < rows[1].missed < 1.8e-7


@pytest.mark.bad_input
def test_bad_tokens_are_sentences():
    with pytest.raises(ValueError, match="a token a row"):
        softmax_features(np.ones(3), "plain")
    with pytest.raises(ValueError, match="quartic"):
        softmax_features(BooleanInputs(2, 3).sample(1, rng=0), "quartic")

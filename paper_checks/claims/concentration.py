"""Softmax and concentration.

A slice fixes the Hamming weights of substrings of a token. The talk states that softmax attention does not
concentrate on the whole cube but does on slices. The choice of substrings and the gain are derived here:
cut the coordinates, sorted by v = Theta^T x_a, into blocks in which v hardly varies.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.random import Generator

from attention import AttentionLayer, BooleanInputs
from paper_checks.claim import Basis, claim
from paper_checks.comparison import Comparison, covers, surely_below
from paper_checks.faults import Fault, given
from runs import Scale
from studies.intervals import mean_interval, proportion_interval

_TALK = "the talk on Chen and Li's paper, as retold here; the quantities are derived here"


@claim(
    "concentration/not-on-the-cube",
    source="softmax does not concentrate globally, and the example: " + _TALK,
    basis=Basis.DERIVED,
    fault=Fault(
        "attention.layer:attention_pattern",
        given(lambda logits: logits / np.sqrt(200)),
        "logits divided by sqrt(d)",
    ),
    false_alarm=0.005,
)
def not_on_the_cube(scale: Scale, rng: Generator) -> Iterator[Comparison]:
    """Let d = 200 and draw the entries of Theta from N(0, .01). Then a logit between two Boolean tokens has standard
    deviation .1 d = 20, and a difference of two logits of a row sqrt(2) times that. A pattern of two tokens has mean
    1/2 within 5 %. A typical entry lies .48 away from 1/2, where .50 is the most possible. Of the rows 87 % put more
    than .99 on one token. So patterns do not concentrate about their expectation.

    Computes patterns of the layer on random Boolean tokens for several Theta. The figures are those of a Gaussian
    contrast of standard deviation 28.3. The distance is 1/2 - ln 4 * phi(0)/28.3, and the fraction is P(|z| > ln
    99). Mean squares of logits have a margin of 3 %: |Theta| of one draw is within about 0.4 % of .1 d.
    """
    dim, heads, draws = 200, (10 if scale is Scale.QUICK else 100), 400
    entries = []
    for _ in range(heads):
        theta = rng.normal(0, 0.1, size=(1, dim, dim))
        layer = AttentionLayer(theta=theta, w=np.eye(dim)[None])
        entries.append(layer.patterns(BooleanInputs(2, dim).sample(draws, rng=rng))[:, 0, 0, 0])
    p = np.concatenate(entries)
    sharp = proportion_interval(int((np.maximum(p, 1 - p) > 0.99).sum()), p.size)
    yield covers("mean entry", mean_interval(p), 0.5, margin=0.05)
    yield covers("mean distance from 1/2", mean_interval(np.abs(p - 0.5)), 0.48, margin=0.005)
    yield covers("rows with more than 0.99 on one token", sharp, 0.87, margin=0.01)
    theta = rng.normal(0, 0.1, size=(dim, dim))
    x = BooleanInputs(3, dim).sample(3000 if scale is Scale.QUICK else 100_000, rng=rng)
    v = x[:, 0] @ theta
    for name, token, expected in (
        ("mean squared logit", x[:, 1], 400.0),
        ("mean squared difference", x[:, 1] - x[:, 2], 800.0),
    ):
        yield covers(name, mean_interval((v * token).sum(axis=1) ** 2), expected, margin=0.03 * expected)


@claim(
    "concentration/softmax-on-slices",
    source="softmax concentrates on slices: " + _TALK,
    basis=Basis.MEASURED,
    fault={"blocks": 4},
    false_alarm=0.003,
)
def softmax_on_slices(scale: Scale, rng: Generator, *, blocks: int = 40) -> Iterator[Comparison]:
    """In the example a softmax between two other tokens lies .48 from its mean on the cube. It lies less than .06
    from its mean on the slice of the two tokens, for 40 blocks of 5 coordinates sorted by v. For 20 blocks of 10 the
    standard deviation of a logit on a slice is .127 of that on the cube, as a root mean square over slices.

    Computes mean absolute deviations of sigmoid(<v, x_b - x_c>): on the cube from 1/2, and on the slices of random
    pairs of tokens from the slice's mean. Many slices are saturated, which makes deviations small. On the others the
    spread of the logits decides. On a slice with w of the n signs of a block positive a logit has the variance of
    sampling without replacement, 4 w (n - w)/(n (n - 1)) times the sum of squares about the block's mean. As w (n -
    w) has mean n (n - 1)/4, the last figure needs no draws of w.
    """
    dim, many, draws = 200, *((200, 40) if scale is Scale.QUICK else (1500, 100))
    sizes = [dim // blocks] * blocks
    cube, on_slices, ratios = [], [], []
    for _ in range(many):
        v = np.sort(rng.normal(0, 0.1, size=(dim, dim)).T @ rng.choice([-1.0, 1.0], size=dim))
        first, second = BooleanInputs(2, dim).sample(1, rng=rng)[0]
        cube.append(abs(_sigmoid(float(v @ (first - second))) - 0.5))
        weights = [tuple(int(rng.binomial(n, 0.5)) for n in sizes) for _ in range(2)]
        x = _slice(sizes, weights, draws, rng)
        p = _sigmoid((x[:, 0] - x[:, 1]) @ v)
        on_slices.append(float(np.abs(p - p.mean()).mean()))
        parts = v.reshape(20, 10)
        ratios.append(float(((parts - parts.mean(axis=1, keepdims=True)) ** 2).sum() / (v @ v)))
    yield covers("on the cube", mean_interval(cube), 0.48, margin=0.005)
    yield surely_below("on slices", mean_interval(on_slices), 0.06)
    yield covers("mean variance over that on the cube", mean_interval(ratios), 0.127**2, margin=0.001)


def _slice(sizes: list[int], weights: list[tuple[int, ...]], draws: int, rng: Generator) -> np.ndarray:
    """Boolean tokens, each with these numbers of +1 in its blocks of these sizes."""
    parts = []
    for size, *ones in zip(sizes, *weights, strict=True):
        order = rng.random((draws, len(weights), size)).argsort(axis=-1)
        parts.append(np.where(order < np.asarray(ones)[:, None], 1.0, -1.0))
    return np.concatenate(parts, axis=-1)


def _sigmoid(z: Any) -> Any:
    return 0.5 * (1 + np.tanh(z / 2))

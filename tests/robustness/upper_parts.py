"""Parts of the learners of `upper` as subjects: counts, factors, starts, descents, regressions at fixed attention."""

import math

import numpy as np
from fuzzing import Given, Subject, anything, assert_finite, choice, made, real, whole
from upper_makers import (
    EXAMPLES,
    OPTIONAL,
    ORACLE,
    THETA,
    X,
    Y,
    agrees,
    done,
    numbers,
    only,
    softmax_attention,
)

import upper
import upper.baselines
from upper.newton.low_rank import random_factors
from upper.products import read_tokens

__all__ = ["PART_SUBJECTS"]

GENERATOR = anything(Given("<generator>", lambda: np.random.default_rng(0)))


def iterates(make):
    """The first two iterates of a run."""

    def call(**arguments):
        found = make(**arguments)
        return [iterate for iterate, _ in zip(found, range(2), strict=False)]

    return call


def floor_is_right(result, arguments):
    m, k, d, r = (int(arguments[name]) for name in ("heads", "tokens", "dim", "rank"))
    unknowns = d * d - (d - r) ** 2
    from_rows = math.ceil(unknowns / (k * (k - 1))) if k > 1 and k * k < 2**50 else 0
    if max(m, k, d) < 2**20:
        assert result == max(from_rows, math.ceil(2 * m * unknowns / (k * d)))
    assert result >= 1


def residual(x, y, theta, w):
    """|Y - F(X)| / |Y| as it is written."""
    y = numbers(y)
    # squares of huge labels are still numbers in the widest type
    rest = numbers(y) - softmax_attention(x, theta, w)
    return float(np.sqrt((rest**2).sum() / (y**2).sum()))


def descent_is_honest(result, arguments):
    """Residuals never rise, and are what the parameters give."""
    assert_finite([one.residual for one in result])
    assert len(result) == 2
    assert result[1].residual <= result[0].residual * (1 + 1e-6)
    assert 0 <= result[0].passes <= result[1].passes
    for one in result:
        if hasattr(one, "theta"):
            theta, w = numbers(one.theta), numbers(one.w)
        else:
            found = one.factors.layer()
            theta, w = numbers(found.theta), numbers(found.w)
        if np.any(numbers(arguments["y"])):
            wanted = residual(arguments["x"], arguments["y"], theta, w)
            # computed in float32
            np.testing.assert_allclose(one.residual, wanted, rtol=1e-3, atol=1e-3)


def linear_in_the_token_and_the_mean(result, arguments):
    x = numbers(arguments["x"])
    agrees(result, x + x.mean(axis=-2, keepdims=True), size=np.abs(x).max(initial=0) * np.ones(1))


def regression_has_no_slope(result, arguments):
    """At least squares Z^T (Y - Z W) is zero, and without a ridge no W does better."""
    assert_finite(result)
    x, y, theta = (numbers(arguments[name]) for name in ("x", "y", "theta"))
    ridges = np.atleast_1d(np.asarray(arguments["ridges"], float))
    assert result.shape == (len(ridges), *theta.shape)
    _, read = read_tokens(x.astype(float), theta.astype(float))
    read = numbers(read)
    gram = read.T @ read
    mean = np.trace(gram) / len(gram)
    flat = y.reshape(-1, y.shape[-1])
    for ridge, w in zip(ridges, result, strict=True):
        w = numbers(w).reshape(len(gram), -1)
        slope = read.T @ (flat - read @ w) - ridge * mean * w
        size = np.sqrt((read**2).sum() * (flat**2).sum()) + ridge * mean * np.sqrt((w**2).sum())
        assert float(np.abs(slope).max()) <= 1e-7 * float(size), (
            f"a slope of {float(np.abs(slope).max()):.3g}"
        )


def loss_is_right(result, arguments):
    loss, gradient = result
    assert_finite(result)
    flat, x, y = (numbers(arguments[name]) for name in ("flat", "x", "y"))
    assert gradient.shape == flat.shape
    d = x.shape[-1]
    theta, w = np.split(flat, 2)
    theta = theta.reshape(d, -1, d).swapaxes(0, 1)
    w = w.reshape(-1, d, d)
    energy = (y**2).sum() or 1.0
    if float(np.abs(theta).max(initial=0)) < 1e3 and float(np.abs(x).max(initial=0)) < 1e3:
        rest = y - softmax_attention(x, theta, w)
        np.testing.assert_allclose(loss, float(0.5 * (rest**2).sum() / energy), rtol=1e-7)
        # F is linear in W, so the loss is a parabola along it: the gradient is exact in one difference
        step = np.concatenate([np.zeros(flat.size // 2), np.ones(flat.size // 2)])
        along = softmax_attention(x, theta, np.ones_like(w))
        wanted = float(-(rest * along).sum() / energy)
        size = float(np.sqrt((rest**2).sum() * (along**2).sum()) / energy)
        np.testing.assert_allclose(float(gradient @ step), wanted, rtol=0, atol=1e-9 * size)


def engine_is_chosen(result, arguments):
    done(result, arguments)
    assert result.kind in ("numpy", "torch")
    if arguments["name"] != "auto":
        assert result.kind == arguments["name"]


def a_known_part(result, arguments):
    assert result.examples_used == 0
    assert not np.any(result.predict(EXAMPLES[0]))


PART_SUBJECTS = [
    Subject(
        "upper.counting_floor",
        upper.counting_floor,
        {"heads": whole(), "tokens": whole(), "dim": whole(2, 5), "rank": whole(1, 2)},
        right=floor_is_right,
    ),
    Subject(
        "upper.choose_engine",
        upper.choose_engine,
        {"name": choice("auto", "numpy"), "device": OPTIONAL},
        right=engine_is_chosen,
        words=("engine",),
    ),
    Subject(
        "upper.gauss_newton",
        iterates(upper.gauss_newton),
        {
            "x": X,
            "y": Y,
            "start": THETA,
            "tolerance": real(0.0, 1e-3),
            "rng": GENERATOR,
        },
        right=descent_is_honest,
        repeatable=False,
    ),
    Subject(
        "upper.gauss_newton.low_rank",
        iterates(upper.gauss_newton),
        {
            "x": X,
            "y": Y,
            "start": made(lambda: random_factors(heads=1, dim=3, rank=1, rng=0), "<factors>"),
            "tolerance": real(0.0, 1e-3),
            "rng": GENERATOR,
        },
        right=descent_is_honest,
        repeatable=False,
    ),
    Subject(
        "upper.KnownPart.call",
        lambda own, oracle: own.fit(oracle),
        {"own": only(upper.KnownPart, "<known part>"), "oracle": ORACLE},
        right=a_known_part,
    ),
]

"""Parts of the learners of `upper` as subjects: counts, factors, starts, descents, regressions at fixed attention."""

import math

import numpy as np
from fuzzing import Given, Sizes, Subject, anything, array, assert_finite, choice, made, real, seed, whole
from upper_makers import (
    EXAMPLES,
    OPTIONAL,
    ORACLE,
    THETA,
    X,
    Y,
    agrees,
    done,
    is_orthonormal,
    numbers,
    only,
    softmax_attention,
)

import upper
import upper.baselines

__all__ = ["PART_SUBJECTS"]

GENERATOR = anything(Given("<generator>", lambda: np.random.default_rng(0)))


def iterates(make):
    """The first two iterates of a descent."""

    def call(**arguments):
        found = make(**arguments)
        return [iterate for iterate, _ in zip(found, range(2), strict=False)]

    return call


def factors(size: Sizes):
    m, d = size.m, size.d
    r = min(2, d)
    return {
        name: array(shape)
        for name, shape in {"a": (m, d, r), "b": (m, d, r), "v": (m, d, r), "o": (m, r, d)}.items()
    }


def floor_is_right(result, arguments):
    m, k, d, r = (int(arguments[name]) for name in ("heads", "tokens", "dim", "rank"))
    unknowns = d * d - (d - r) ** 2
    from_rows = math.ceil(unknowns / (k * (k - 1))) if k > 1 and k * k < 2**50 else 0
    if max(m, k, d) < 2**20:
        assert result == max(from_rows, math.ceil(2 * m * unknowns / (k * d)))
    assert result >= 1


def heads_are_products(result, arguments):
    m, d, r = numbers(arguments["a"]).shape
    assert (result.heads, result.dim, result.rank) == (m, d, r)
    found = result.layer()
    for name, left, right in (("theta", "a", "b"), ("w", "v", "o")):
        one, other = numbers(getattr(result, left)), numbers(getattr(result, right))
        other = other.swapaxes(-1, -2) if right == "b" else other
        # the type of the factors tells how many digits there are
        product = np.matmul(one, other)
        size = np.matmul(np.abs(one), np.abs(other))
        agrees(getattr(found, name), product, size=size, rtol=1e-5, what=name)


def factors_are_drawn(result, arguments):
    m, d, r = (int(arguments[name]) for name in ("heads", "dim", "rank"))
    assert result.a.shape == result.b.shape == (m, d, r)
    assert result.v.shape[:2] == (m, d)
    assert result.o.shape == (m, result.v.shape[2], d)
    assert_finite((result.a, result.b, result.v, result.o))
    assert not np.any(result.o)
    if result.v.shape[2] == d:
        assert np.array_equal(result.v, np.broadcast_to(np.eye(d), result.v.shape))


def patterns_and_reads(result, arguments):
    pattern, read = result
    x, theta = numbers(arguments["x"]), numbers(arguments["theta"])
    (n, k, d), m = x.shape, len(theta)
    assert tuple(pattern.shape) == (n, k, m, k)
    found = numbers(pattern)
    assert (found >= 0).all()
    agrees(pattern, found, what="patterns")
    np.testing.assert_allclose(found.astype(float).sum(axis=-1), 1, atol=3e-2)
    # what is read are means of tokens under these very patterns
    agrees(
        read,
        np.einsum("namb,nbd->namd", found, x).reshape(n * k, m * d),
        size=np.abs(x).max() * np.ones(1),
        what="reads",
    )


def patterns_of_moderate_logits(result, arguments):
    patterns_and_reads(result, arguments)
    x, theta = numbers(arguments["x"]), numbers(arguments["theta"])
    if result[0].dtype.itemsize < 8 or max(np.abs(x).max(), np.abs(theta).max()) > 1e3:
        return
    logits = np.einsum("nad,mde,nbe->namb", x, theta, x)
    wanted = np.exp(logits - logits.max(axis=-1, keepdims=True))
    # an error of a logit is a relative error of its weight
    rounding = 1e-13 * (1 + float(np.abs(logits).max()))
    agrees(result[0], wanted / wanted.sum(axis=-1, keepdims=True), rtol=max(rounding, 1e-12), what="patterns")


def stacked(result, arguments):
    w = numbers(arguments["w"])
    found = numbers(result)
    assert found.shape == (w.shape[0] * w.shape[1], w.shape[2])
    assert np.array_equal(found, w.reshape(found.shape), equal_nan=True)


def moments_are_singular_triples(result, arguments):
    assert_finite(result)
    assert (np.diff(result.values) <= 1e-6 * result.values[0]).all()
    assert (result.values >= 0).all()
    is_orthonormal(result.theta, "theta", 1e-4)
    is_orthonormal(result.w, "w", 1e-4)
    assert len(result.values) == len(result.theta) == len(result.w) == int(arguments["directions"])


def heads_to_start_from(result, arguments):
    assert_finite(result)
    assert result.shape == (int(arguments["m"]), 3, 3)


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
    _, read = upper.read_tokens(x.astype(float), theta.astype(float))
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
    Subject("upper.FactoredHeads", upper.FactoredHeads, factors, right=heads_are_products),
    Subject(
        "upper.random_factors",
        upper.random_factors,
        {"heads": whole(), "dim": whole(3, 5), "rank": whole(1, 3), "w_rank": whole(1, 3), "rng": seed()},
        right=factors_are_drawn,
    ),
    Subject(
        "upper.read_tokens",
        upper.read_tokens,
        lambda size: {"x": array((size.n, size.k, size.d)), "theta": array((size.m, size.d, size.d))},
        right=patterns_of_moderate_logits,
        words=("logits",),
    ),
    Subject(
        "upper.stack_projections",
        upper.stack_projections,
        lambda size: {"w": array((size.m, size.d, size.d))},
        right=stacked,
    ),
    Subject(
        "upper.cross_moment",
        upper.cross_moment,
        {"x": X, "y": Y, "directions": whole(1, 4), "rng": seed()},
        right=moments_are_singular_triples,
        words=("tokens", "labels"),
    ),
    Subject(
        "upper.spectral_start",
        upper.spectral_start,
        {"x": X, "y": Y, "m": whole(1, 2), "rng": seed()},
        right=heads_to_start_from,
        words=("tokens", "labels"),
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
            "start": made(lambda: upper.random_factors(heads=1, dim=3, rank=1, rng=0), "<factors>"),
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

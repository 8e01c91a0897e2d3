"""Claims: Phase 1: the crude sum of projections."""

from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import product

import numpy as np
from numpy.random import Generator

from attention import AttentionLayer, BooleanInputs, ExampleOracle, make_nice_layer
from paper_checks.check import Constants, Scale
from paper_checks.claims._faults import NO_ONE_OVER_K
from paper_checks.claims.tables import checks
from paper_checks.comparison import Comparison, close, covers, equal, surely_above
from paper_checks.faults import returned
from studies.intervals import Interval, mean_interval, slope_interval
from upper.six_phase import estimate_projection_sum, one_gradient_step

_SIZES = ((1, 3), (2, 2), (2, 3), (3, 2), (3, 3))


@checks("crude-sum/exact-at-zero")
def exact_at_zero(claim: Constants, scale: Scale, rng: Generator) -> Iterator[Comparison]:
    """Enumerates all 2^(kd) inputs in rational numbers at five (k, d) with random whole W_i. For all sizes
    the claim follows in one line from E[X^T J X] = k I. The enumeration checks the 1/k again.
    """
    for k, d in _SIZES if scale is Scale.QUICK else (*_SIZES, (2, 5), (4, 3)):
        w = rng.integers(-5, 6, size=(claim.heads, d, d))
        total = np.zeros((d, d), dtype=np.int64)
        for x in _boolean(k, d):
            labels = np.ones((k, k), dtype=np.int64) @ x @ w.sum(axis=0)  # k times those of zero attention
            total += x.T @ np.ones((k, k), dtype=np.int64) @ labels
        share = Fraction(1, 2 ** (k * d) * k * k**claim.power_of_tokens)
        mean = [int(entry) * share for entry in total.ravel()]
        yield equal(f"the mean at k = {k}, d = {d}", mean, w.sum(axis=0).ravel())


@checks("crude-sum/gradient-step", NO_ONE_OVER_K)
def gradient_step(claim: Constants, scale: Scale, rng: Generator) -> Iterator[Comparison]:
    """Writes the loss as a loop and differentiates it by central differences, which are exact for a
    quadratic. Compares the library's step and its estimate from the same examples with that, to rounding.
    """
    k, d, n = (3, 5, 20) if scale is Scale.QUICK else (5, 9, 60)
    layer = make_nice_layer(heads=2, dim=d, rng=rng)
    x = BooleanInputs(k, d).sample(n, rng=rng)
    y = layer(x)

    def loss(w: np.ndarray) -> float:
        misses = [
            labels - np.tile(tokens.mean(axis=0), (k, 1)) @ w for tokens, labels in zip(x, y, strict=True)
        ]
        return claim.share_of_square * sum(float((miss**2).sum()) for miss in misses) / n

    step = np.zeros((d, d))
    for place in np.ndindex(d, d):
        moved = np.zeros((d, d))
        moved[place] = 0.5
        step[place] = -claim.step * (loss(moved) - loss(-moved))
    estimate = estimate_projection_sum(ExampleOracle.from_arrays(x, y), n).w
    size = float(np.linalg.norm(step))
    for what, found in (("the estimate", estimate), ("the library's step", one_gradient_step(x, y))):
        yield close(
            f"{what}, distance from the step relative to its size",
            float(np.linalg.norm(found - step)) / size,
            0.0,
            absolute=claim.rounding,
        )


@checks("crude-sum/first-order-bias", returned(lambda inputs: ((x + 1) // 2 for x in inputs)))
def first_order_bias(claim: Constants, scale: Scale, rng: Generator) -> Iterator[Comparison]:
    """For a pattern with logits l the derivative at Theta = 0 is (1/k) (l_ab - mean_b l_ab). Its mean is
    taken over all inputs in rational numbers at small (k, d) with random whole matrices. The bound is |Theta
    W|_F <= |Theta|_op |W|_F = |Theta|_F r^(-1/2) |W|_F. Larger Theta are left to the measured checks.
    """
    for k, d in _SIZES if scale is Scale.QUICK else (*_SIZES, (2, 5), (4, 3)):
        theta, w = rng.integers(-4, 5, size=(2, d, d)), rng.integers(-4, 5, size=(2, d, d))
        theta[0, 0, 0] = 3  # a diagonal that is there
        w[0] = np.eye(d, dtype=np.int64)
        total = np.zeros((d, d), dtype=np.int64)
        for x in _boolean(k, d):
            for one, projection in zip(theta, w, strict=True):
                logits = x @ one @ x.T
                change = k * logits - logits.sum(axis=1, keepdims=True)  # k^2 times that of the pattern
                total += x.T @ np.ones((k, k), dtype=np.int64) @ change @ x @ projection
        mean = [Fraction(int(entry), 2 ** (k * d) * k**3) for entry in total.ravel()]
        diagonal = np.stack([np.diag(np.diag(one)) for one in theta])
        # k^2 times the formula
        by_formula = (k - 1) * np.sum((k * theta - claim.diagonal * diagonal) @ w, axis=0)
        expected = [Fraction(int(entry), k * k) for entry in by_formula.ravel()]
        yield equal(f"the derivative of the mean at k = {k}, d = {d}", mean, expected)


@checks("crude-sum/exponent", NO_ONE_OVER_K)
def exponent(claim: Constants, scale: Scale, rng: Generator) -> Iterator[Comparison]:
    """|bias|^2 of each layer is the inner product of the errors of two independent halves of the examples,
    which has no bias of its own. The line is fitted to the logarithms of all layers. The .05 allows for
    finite d: r/d falls towards 1/4 from above. d and r grow together here, so the check does not tell them
    apart.
    """
    dims, layers, n = ((16, 32, 64), 8, 2500) if scale is Scale.QUICK else ((32, 64, 128), 15, 8000)
    ranks, biases = [], []
    for d in dims:
        for _ in range(layers):
            layer = make_nice_layer(heads=2, dim=d, rng=rng)
            ranks.append(_stable_rank(layer))
            biases.append(_relative_bias(layer, 2, n, rng))
    interval = slope_interval(np.log(ranks), np.log(biases))
    yield covers("exponent of the bias in r", interval, claim.exponent, margin=claim.finite_size)


@checks("crude-sum/rank-alone", NO_ONE_OVER_K)
def rank_alone(claim: Constants, scale: Scale, rng: Generator) -> Iterator[Comparison]:
    """Takes one head Theta = (2/sqrt q) U V^T with q from 4 to d orthonormal columns, so that r = q. W is V Z
    with Gaussian Z, or Gaussian. The bias is measured by two halves of the examples as for the exponent. So
    the r^(-1/2) is a worst case over W: for a generic W |Theta W|_F is |Theta|_F |W|_F d^(-1/2). Measured at
    d = 32 and 64 only. Last, the mean bias at d = 32 with W apart is compared with the figures.
    """
    d, layers, n = (32, 5, 2500) if scale is Scale.QUICK else (64, 8, 10_000)
    ranks = [q for q in (4, 8, 16, 32, 64) if q <= d for _ in range(layers)]
    biases: dict[str, list[float]] = {"aligned": [], "apart": []}
    for q in ranks:
        for kind, values in biases.items():
            values.append(_relative_bias(_one_head(d, q, rng, aligned=kind == "aligned"), 2, n, rng))
    slopes = {kind: slope_interval(np.log(ranks), np.log(values)) for kind, values in biases.items()}
    yield covers(
        "exponent in r, W reads what Theta attends to",
        slopes["aligned"],
        claim.aligned,
        margin=claim.finite_size,
    )
    yield surely_above("exponent in r, W drawn apart", slopes["apart"], claim.apart)
    for step, figure in enumerate(claim.biases):
        values = [_relative_bias(_one_head(32, 2**step, rng), 2, n, rng) for _ in range(8 * layers)]
        interval = mean_interval(values, confidence=0.9999)
        yield covers(f"bias at d = 32, r = {2**step}, W drawn apart", interval, figure, margin=claim.spread)


@checks("crude-sum/figures", NO_ONE_OVER_K)
def figures(claim: Constants, scale: Scale, rng: Generator) -> Iterator[Comparison]:
    """Draws layers anew and measures each bias by two independent halves of the examples. A mean is checked
    by its interval, with a margin of 2 % for the constants. A single figure is checked by the prediction
    interval of one more layer, with a margin for its rounding. Quick runs use d = 16 and 32 only.
    """
    sizes = ((2, 16), (2, 32), (3, 32), (4, 32), (2, 64))
    layers, n, looked_at = (12, 3000, 3) if scale is Scale.QUICK else (20, 8000, 5)
    for place, (k, d) in enumerate(sizes[:looked_at]):
        biases = [_relative_bias(make_nice_layer(heads=2, dim=d, rng=rng), k, n, rng) for _ in range(layers)]
        mean, single = claim.means[place], claim.single[place]
        interval = mean_interval(biases, confidence=0.9995)
        yield covers(f"mean error at k = {k}, d = {d}", interval, mean, margin=claim.means_to * mean)
        yield covers(
            f"error of one layer at k = {k}, d = {d}",
            _prediction_interval(biases, 0.9995),
            single,
            margin=claim.rounded_to[place],
        )


def _one_head(d: int, q: int, rng: Generator, *, aligned: bool = False) -> AttentionLayer:
    """Theta = (2/sqrt q) U V^T with q orthonormal columns each, and W = V Z or Z with Gaussian Z."""
    u, v = (np.linalg.qr(rng.standard_normal((d, q)))[0] for _ in range(2))
    w = v @ rng.standard_normal((q, d)) / np.sqrt(q) if aligned else rng.standard_normal((d, d)) / np.sqrt(d)
    return AttentionLayer(theta=(2 / np.sqrt(q) * u @ v.T)[None], w=w[None])


def _boolean(k: int, d: int) -> Iterator[np.ndarray]:
    """All inputs of k tokens in d coordinates."""
    for signs in product((-1, 1), repeat=k * d):
        yield np.array(signs, dtype=np.int64).reshape(k, d)


def _stable_rank(layer: AttentionLayer) -> float:
    """The mean of |Theta|_F^2 / |Theta|_op^2 over the heads."""
    values = np.linalg.svd(layer.theta, compute_uv=False)
    return float(np.mean(np.sum(values**2, axis=1) / values[:, 0] ** 2))


def _relative_bias(layer: AttentionLayer, k: int, n: int, rng: Generator) -> float:
    """|bias| / |sum_i W_i| by the inner product of the errors of two independent halves of n examples each."""
    true = layer.w.sum(axis=0)
    oracle = ExampleOracle(layer, BooleanInputs(k, layer.dim), rng=rng)
    errors = [estimate_projection_sum(oracle, n).w - true for _ in range(2)]
    # the inner product may be negative by chance; the floor is far below every bias here
    square = max(float(np.vdot(*errors)), 1e-12)
    return float(np.sqrt(square) / np.linalg.norm(true))


def _prediction_interval(values: Sequence[float], confidence: float) -> Interval:
    """Where one more value lies, by Student's t."""
    mean = mean_interval(values, confidence=confidence)
    half = (mean.high - mean.estimate) * float(np.sqrt(len(values) + 1))
    return Interval(
        mean.estimate - half, mean.estimate, mean.estimate + half, confidence, "Student's t, one more value"
    )

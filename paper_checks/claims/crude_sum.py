"""Phase 1: the crude sum of projections."""

from collections.abc import Iterator
from fractions import Fraction
from itertools import product

import numpy as np
from numpy.random import Generator

from attention import AttentionLayer, BooleanInputs, ExampleOracle, make_nice_layer
from paper_checks.claim import Basis, claim
from paper_checks.comparison import Comparison, covers, equal, surely_above
from paper_checks.faults import Fault, returned
from runs import Scale
from studies.intervals import mean_interval, slope_interval
from upper.six_phase import estimate_projection_sum

_SIZES = ((1, 3), (2, 2), (2, 3), (3, 2), (3, 3))
_NO_ONE_OVER_K = Fault(
    "upper.six_phase.phases1_3_projection_sum:_correlate",
    lambda right: lambda x, y: (x.shape[1] * right(x, y)[0], right(x, y)[1]),
    "phase 1 without the factor 1/k",
)


@claim(
    "crude-sum/exact-at-zero",
    source="Chen and Li, arXiv 2402.04084, phase 1",
    basis=Basis.PROVED,
    fault={"power_of_tokens": 0},
)
def exact_at_zero(scale: Scale, rng: Generator, *, power_of_tokens: int = 1) -> Iterator[Comparison]:
    """With all Theta_i = 0 and uniform Boolean tokens the mean of (1/k) X^T J Y is exactly sum_i W_i. J is the k x k
    matrix of ones.

    Enumerates all 2^(kd) inputs in rational numbers at five (k, d) with random whole W_i. For all sizes the claim
    follows in one line from E[X^T J X] = k I. The enumeration checks the 1/k again.
    """
    for k, d in _SIZES if scale is Scale.QUICK else (*_SIZES, (2, 5), (4, 3)):
        w = rng.integers(-5, 6, size=(2, d, d))
        total = np.zeros((d, d), dtype=np.int64)
        for x in _boolean(k, d):
            labels = np.ones((k, k), dtype=np.int64) @ x @ w.sum(axis=0)  # k times those of zero attention
            total += x.T @ np.ones((k, k), dtype=np.int64) @ labels
        share = Fraction(1, 2 ** (k * d) * k * k**power_of_tokens)
        mean = [int(entry) * share for entry in total.ravel()]
        yield equal(f"the mean at k = {k}, d = {d}", mean, w.sum(axis=0).ravel())


@claim(
    "crude-sum/first-order-bias",
    source="derived here, for the bias of phase 1 of Chen and Li, arXiv 2402.04084",
    basis=Basis.DERIVED,
    fault=Fault(
        "paper_checks.claims.crude_sum:_boolean",
        returned(lambda inputs: ((x + 1) // 2 for x in inputs)),
        "tokens of 0 and 1",
    ),
)
def first_order_bias(scale: Scale, rng: Generator) -> Iterator[Comparison]:
    """For uniform Boolean tokens and small Theta the bias of phase 1 is ((k-1)/k) sum_i (Theta_i - (2/k) diag
    Theta_i) W_i to first order. So its Frobenius norm is at most about |Theta|_F r^(-1/2) |W|_F a head, where r is
    the stable rank of Theta: an upper bound over all W.

    For a pattern with logits l the derivative at Theta = 0 is (1/k) (l_ab - mean_b l_ab). Its mean is taken over all
    inputs in rational numbers at small (k, d) with random whole matrices. The bound is |Theta W|_F <= |Theta|_op
    |W|_F = |Theta|_F r^(-1/2) |W|_F. Larger Theta are left to the measured claims.
    """
    for k, d in _SIZES if scale is Scale.QUICK else (*_SIZES, (2, 5), (4, 3)):
        theta, w = rng.integers(-4, 5, size=(2, d, d)), rng.integers(-4, 5, size=(2, d, d))
        theta[0, 0, 0] = 3  # a diagonal that is there
        w[0] = np.eye(d, dtype=np.int64)
        total = np.zeros((d, d), dtype=np.int64)
        for x in _boolean(k, d):
            for matrix, projection in zip(theta, w, strict=True):
                logits = x @ matrix @ x.T
                change = k * logits - logits.sum(axis=1, keepdims=True)  # k^2 times that of the pattern
                total += x.T @ np.ones((k, k), dtype=np.int64) @ change @ x @ projection
        mean = [Fraction(int(entry), 2 ** (k * d) * k**3) for entry in total.ravel()]
        diagonal = np.stack([np.diag(np.diag(matrix)) for matrix in theta])
        by_formula = (k - 1) * np.sum((k * theta - 2 * diagonal) @ w, axis=0)  # times k^2
        expected = [Fraction(int(entry), k * k) for entry in by_formula.ravel()]
        yield equal(f"the derivative of the mean at k = {k}, d = {d}", mean, expected)


@claim(
    "crude-sum/rank-alone",
    source="derived here from the first-order bias Theta W; Chen and Li, phase 1, has r^(-1/2)",
    basis=Basis.MEASURED,
    fault=_NO_ONE_OVER_K,
    false_alarm=0.0027,
    slow=True,
)
def rank_alone(scale: Scale, rng: Generator) -> Iterator[Comparison]:
    """Fix d and |Theta|_F and vary the stable rank r. If W reads just what Theta attends to, the bias of phase 1
    falls like r^(-1/2), up to .06 in the exponent. If W is drawn independently of Theta, the bias does not fall: the
    exponent in r is above -.25. At d = 32, |Theta|_F = 2 it is then .067, .073, .079, .083, .084 and .085 for r = 1,
    2, 4, ..., 32.

    Takes one head Theta = (2/sqrt q) U V^T with q from 4 to d orthonormal columns, so that r = q. W is V Z with
    Gaussian Z, or Gaussian. |bias|^2 is the inner product of the errors of two independent halves of the examples,
    which has no bias of its own. So the r^(-1/2) is a worst case over W: for a generic W |Theta W|_F is |Theta|_F
    |W|_F d^(-1/2). Measured at d = 32 and 64 only. Last, the mean bias at d = 32 with W apart is compared with the
    figures.
    """
    d, layers, n = (32, 5, 2500) if scale is Scale.QUICK else (64, 8, 10_000)
    ranks = [q for q in (4, 8, 16, 32, 64) if q <= d for _ in range(layers)]
    biases: dict[str, list[float]] = {"aligned": [], "apart": []}
    for q in ranks:
        for kind, values in biases.items():
            values.append(_relative_bias(_one_head(d, q, rng, aligned=kind == "aligned"), 2, n, rng))
    slopes = {kind: slope_interval(np.log(ranks), np.log(values)) for kind, values in biases.items()}
    yield covers("exponent in r, W reads what Theta attends to", slopes["aligned"], -0.5, margin=0.06)
    yield surely_above("exponent in r, W drawn apart", slopes["apart"], -0.25)
    for step, figure in enumerate((0.067, 0.073, 0.079, 0.083, 0.084, 0.085)):
        values = [_relative_bias(_one_head(32, 2**step, rng), 2, n, rng) for _ in range(8 * layers)]
        interval = mean_interval(values, confidence=0.9999)
        yield covers(f"bias at d = 32, r = {2**step}, W drawn apart", interval, figure, margin=0.003)


@claim(
    "crude-sum/figures",
    source="measured here, of phase 1 of Chen and Li, arXiv 2402.04084",
    basis=Basis.MEASURED,
    fault=_NO_ONE_OVER_K,
    false_alarm=0.0025,
    slow=True,
)
def figures(scale: Scale, rng: Generator) -> Iterator[Comparison]:
    """With unlimited examples the relative error of phase 1 on a nice layer of two heads has the mean .116, .085 and
    .0595 at k = 2 and d = 16, 32 and 64: it falls like r^(-1/2), as the stable rank r is about d/4. At d = 32 it is
    .124 at k = 3 and .150 at k = 4.

    Draws layers anew and measures each bias by two independent halves of the examples, with a margin of 2 %. Quick
    runs use d = 16 and 32 only. d and r grow together here, so the check does not tell them apart.
    """
    sizes = ((2, 16, 0.116), (2, 32, 0.085), (3, 32, 0.124), (4, 32, 0.15), (2, 64, 0.0595))
    layers, n, many = (12, 3000, 3) if scale is Scale.QUICK else (20, 8000, 5)
    for k, d, mean in sizes[:many]:
        biases = [_relative_bias(make_nice_layer(heads=2, dim=d, rng=rng), k, n, rng) for _ in range(layers)]
        interval = mean_interval(biases, confidence=0.9995)
        yield covers(f"mean error at k = {k}, d = {d}", interval, mean, margin=0.02 * mean)


def _one_head(d: int, q: int, rng: Generator, *, aligned: bool = False) -> AttentionLayer:
    """Theta = (2/sqrt q) U V^T with q orthonormal columns each, and W = V Z or Z with Gaussian Z."""
    u, v = (np.linalg.qr(rng.standard_normal((d, q)))[0] for _ in range(2))
    w = v @ rng.standard_normal((q, d)) / np.sqrt(q) if aligned else rng.standard_normal((d, d)) / np.sqrt(d)
    return AttentionLayer(theta=(2 / np.sqrt(q) * u @ v.T)[None], w=w[None])


def _boolean(k: int, d: int) -> Iterator[np.ndarray]:
    """All inputs of k tokens in d coordinates."""
    for signs in product((-1, 1), repeat=k * d):
        yield np.array(signs, dtype=np.int64).reshape(k, d)


def _relative_bias(layer: AttentionLayer, k: int, n: int, rng: Generator) -> float:
    """|bias| / |sum_i W_i| by the inner product of the errors of two independent halves of n examples each."""
    true = layer.w.sum(axis=0)
    oracle = ExampleOracle(layer, BooleanInputs(k, layer.dim), rng=rng)
    errors = [estimate_projection_sum(oracle, n).w - true for _ in range(2)]
    # the inner product may be negative by chance; the floor is far below every bias here
    square = max(float(np.vdot(*errors)), 1e-12)
    return float(np.sqrt(square) / np.linalg.norm(true))

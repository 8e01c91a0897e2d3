"""Phase 2: agreement and the convex body."""

from collections.abc import Iterator
from itertools import product

import numpy as np
from jaxtyping import Float
from numpy.random import Generator
from scipy.optimize import linprog

from attention import AttentionLayer, BooleanInputs, make_nice_layer
from paper_checks.claim import Basis, claim
from paper_checks.claims._faults import HALF_LOGITS
from paper_checks.comparison import Comparison, at_most, covers, equal, surely_above, surely_below
from paper_checks.faults import Fault, returned
from runs import Scale
from studies.intervals import Interval, mean_interval, proportion_interval
from upper.six_phase.agreement import certify_agreement, has_repeated_tokens

_SOURCE = "Chen and Li, arXiv 2402.04084, phase 2"


@claim("agreement/log-ratios", source=_SOURCE, basis=Basis.PROVED, fault=HALF_LOGITS)
def log_ratios(scale: Scale, rng: Generator, *, rounding: float = 1e-10) -> Iterator[Comparison]:
    """If all heads have the pattern p in row a, then Y_a = p X sum_i W_i. Every head i then satisfies x_a Theta_i
    (x_b - x_c) = ln(p_b / p_c).

    Takes x_0 (x) (x_b - x_c) out of the heads' differences, so that they agree on row 0 of an example. The pattern
    is the layer's own. A loop over heads and pairs of tokens computes the ratios. The comparison is to rounding.
    """
    sizes = ((2, 2, 16), (3, 3, 16), (4, 5, 24))
    labels, ratios = 0.0, 0.0
    for m, k, d in sizes if scale is Scale.QUICK else (*sizes, (5, 6, 64), (8, 4, 64)):
        layer, x = _planted_agreement(m, k, d, rng)
        p = layer.patterns(x)[0, :, 0]
        read = p[0] @ x[0] @ layer.w.sum(axis=0)
        labels = max(labels, float(np.abs(layer(x)[0, 0] - read).max()))
        for theta, b, c in product(layer.theta, range(k), range(k)):
            contrast = x[0, 0] @ theta @ (x[0, b] - x[0, c])
            ratios = max(ratios, float(abs(contrast - np.log(p[0, b] / p[0, c]))))
    yield at_most("largest entry of Y_a - p X sum W", labels, rounding)
    yield at_most("largest error of a log-ratio", ratios, rounding)


@claim(
    "agreement/linear-program",
    source=_SOURCE + "; that least squares may take its place is derived here",
    basis=Basis.PROVED,
    fault=Fault(
        "upper.six_phase.agreement:_least_squares",
        returned(lambda pair: (pair[0][..., ::-1], pair[1])),
        "the weights of a pattern in the opposite order",
    ),
)
def linear_program(scale: Scale, rng: Generator, *, rounding: float = 1e-7) -> Iterator[Comparison]:
    """The test of agreement may be a linear program: the weights p >= 0 of sum 1 that minimise the largest entry of
    Y_a - p X sum_i W_i. On a row on which all heads agree it gives the pattern and no residual, as least squares
    does. On labels that no pattern explains its largest entry is never above that of least squares, if those weights
    are >= 0.

    Solves one program a row by HiGHS, on planted rows of agreement and on random labels near a pattern. Either
    optimum is attained by the other's weights if these are feasible, so the comparison is one inequality.
    """
    error, residual, above = 0.0, 0.0, -np.inf
    for m, k, d in ((2, 2, 16), (3, 3, 16), (4, 5, 24)) * (2 if scale is Scale.QUICK else 20):
        layer, x = _planted_agreement(m, k, d, rng)
        w, y = layer.w.sum(axis=0), layer(x)
        weights, largest = _least_largest_entry(x[0] @ w, y[0, 0])
        certificate = certify_agreement(x, y, w)
        error = max(error, float(np.abs(certificate.pattern[0, 0] - weights).max()))
        residual = max(residual, largest)
        y = y + 0.01 * rng.standard_normal(y.shape)
        certificate = certify_agreement(x, y, w)
        _, largest = _least_largest_entry(x[0] @ w, y[0, 0])
        if certificate.pattern[0, 0].min() >= 0:
            entries = y[0, 0] - certificate.pattern[0, 0] @ x[0] @ w
            above = max(above, largest - float(np.abs(entries).max()))
    yield at_most("difference of the patterns on planted rows", error, rounding)
    yield at_most("largest entry of the residual there", residual, rounding)
    yield at_most("largest entry, above that of least squares", above, rounding)


@claim(
    "agreement/false-certificates",
    source=_SOURCE + ", for no false positives; the shares are measured here",
    basis=Basis.MEASURED,
    fault={"logits": 0.15},
    false_alarm=0.004,
    slow=True,
)
def false_certificates(
    scale: Scale, rng: Generator, *, logits: float = 1.5, rounding: float = 1e-8
) -> Iterator[Comparison]:
    """For k and m much smaller than d and incoherent W_i a small residual certifies agreement. Take nice layers at d
    = 32 and the rows with a residual below .02 and no weight below .05. Less than 15 % of them disagree by more than
    1.5 logits, at (m, k) = (2, 2), (2, 3) and (3, 2). At k = 5, d = 6 more than three tenths do. With W_1 = W_2 the
    patterns (.9, .05, .05) and (.1, .8, .1) leave no residual.

    The library certifies fresh Boolean examples with the true sum, and measures the disagreement in logits. One row
    an example is used, so that rows are independent. The interval is Clopper and Pearson's. At d = 32 usually none
    of hundreds of certificates is false, at d = 6 four in five are. Equal W are tried on rows with two given
    patterns.
    """
    x, w = BooleanInputs(3, 16).sample(1, rng=rng), rng.standard_normal((16, 16))
    apart = np.array([[0.9, 0.05, 0.05], [0.1, 0.8, 0.1]])
    label = np.broadcast_to(apart.sum(axis=0) @ x @ w, x.shape)
    residual = float(certify_agreement(x, label, 2 * w).residual.max())
    yield equal("W_1 = W_2, other patterns: no residual", residual < rounding, True)
    layers, n = (5, 1 << 14) if scale is Scale.QUICK else (12, 1 << 18)
    for m, k, d in ((2, 2, 32), (2, 3, 32), (3, 2, 32), (2, 5, 6)):
        share = n // 4 if (m - 1) * (k - 1) == 1 else n
        false = certified = 0
        for _ in range(layers):
            layer = make_nice_layer(heads=m, dim=d, rng=rng)
            x = BooleanInputs(k, d).sample(share, rng=rng)
            certificates = certify_agreement(x, layer(x), layer.w.sum(axis=0))
            small = (certificates.residual[:, 0] <= 0.02) & (certificates.pattern[:, 0].min(axis=-1) > 0.05)
            certified += int(small.sum())
            false += int((_disagreement(layer, x[small])[:, 0] > logits).sum())
        interval = proportion_interval(false, certified)
        what = f"share of {certified} rows certified that disagree, at (m, k, d) = ({m}, {k}, {d})"
        yield surely_below(what, interval, 0.15) if d == 32 else surely_above(what, interval, 0.3)


@claim(
    "agreement/exponent",
    source=_SOURCE + ", for where the exponent comes from; the fits are measured here",
    basis=Basis.MEASURED,
    fault=Fault("paper_checks.claims.agreement:_disagreement", returned(np.square), "squares of differences"),
    false_alarm=0.004,
    slow=True,
)
def exponent(scale: Scale, rng: Generator) -> Iterator[Comparison]:
    """All heads of a nice layer agree in a row within eps, in logits, with probability of order eps^((m-1)(k-1)).
    For eps up to .4 the fitted exponents at d = 32 are 1, 2 and 2 at (m, k) = (2, 2), (2, 3) and (3, 2). Labels that
    do not depend on the tokens are certified up to a residual eps with probability of order eps^(d-k+1). So false
    certificates outnumber true ones unless d - k + 1 is the larger exponent.

    Hill's estimate uses all rows of ten fresh layers below .4, one row an example, with a margin of .05 because eps
    is not small. Full scale adds (3, 3) with eps up to .7 and a margin of .2. Then tokens, labels and sum are
    Gaussian, and residuals below a third are used, with a margin of a tenth: a residual has d - k + 1 dimensions and
    a density at zero. It is not checked that labels of disagreeing heads behave like unrelated ones.
    """
    n = 20_000 if scale is Scale.QUICK else 200_000
    sizes = ((2, 2, 0.4, 0.05), (2, 3, 0.4, 0.05), (3, 2, 0.4, 0.05), (3, 3, 0.7, 0.2))
    for m, k, largest, margin in sizes[: 3 if scale is Scale.QUICK else 4]:
        apart = []
        for _ in range(10):
            layer = make_nice_layer(heads=m, dim=32, rng=rng)
            for _ in range(1 if k * m < 9 else 4):
                apart.append(_disagreement(layer, BooleanInputs(k, 32).sample(n, rng=rng))[:, 0])
        interval = _exponent_interval(np.concatenate(apart), largest)
        yield covers(f"exponent at m = {m}, k = {k}", interval, float((m - 1) * (k - 1)), margin=margin)
    n = 30_000 if scale is Scale.QUICK else 300_000
    for k, d in ((3, 4), (5, 6), (3, 5), (5, 7)):
        x, y = rng.standard_normal((2, n, k, d))
        residuals = certify_agreement(x, y, rng.standard_normal((d, d))).residual[:, 0]
        interval = _exponent_interval(residuals, 1 / 3)
        yield covers(f"exponent at k = {k}, d = {d}", interval, d - k + 1.0, margin=0.1 * (d - k + 1))


def _planted_agreement(
    m: int, k: int, d: int, rng: Generator
) -> tuple[AttentionLayer, Float[np.ndarray, "1 k d"]]:
    """A layer that is nice apart from the planted agreement, and one example on whose row 0 all its heads agree."""
    layer = make_nice_layer(heads=m, dim=d, sigma=1.0, rng=rng)
    x = BooleanInputs(k, d).sample(1, rng=rng)
    while has_repeated_tokens(x)[0]:
        x = BooleanInputs(k, d).sample(1, rng=rng)
    theta = layer.theta.copy()
    contrasts = np.linalg.qr((x[0, 1:] - x[0, 0]).T)[0]
    for i in range(1, m):
        apart = x[0, 0] @ (theta[i] - theta[0]) @ contrasts  # what the heads differ by, contrast by contrast
        theta[i] -= np.outer(x[0, 0], contrasts @ apart) / d
    return AttentionLayer(theta=theta, w=layer.w), x


def _disagreement(layer: AttentionLayer, x: Float[np.ndarray, "n k d"]) -> Float[np.ndarray, "n k"]:
    """The largest difference of x_a Theta (x_b - x_c) between two heads, over all pairs of tokens b, c, for each row.

    In logits, since saturated rows have nearly equal patterns for very different logits.
    """
    logits = np.moveaxis(layer.logits(x), -3, -2)  # n, k, m, k
    gaps = logits[:, :, :, None] - logits[:, :, None]
    return np.asarray((gaps.max(axis=-1) - gaps.min(axis=-1)).max(axis=(2, 3)))


def _least_largest_entry(
    read: Float[np.ndarray, "k d"], y: Float[np.ndarray, " d"]
) -> tuple[Float[np.ndarray, " k"], float]:
    """The weights p >= 0 of sum 1 that minimise the largest entry of y - p read, and that entry."""
    k, d = read.shape
    bound = np.ones((d, 1))
    solved = linprog(
        c=np.append(np.zeros(k), 1.0),
        A_ub=np.block([[read.T, -bound], [-read.T, -bound]]),
        b_ub=np.concatenate([y, -y]),
        A_eq=np.append(np.ones(k), 0.0)[None],
        b_eq=[1.0],
    )
    return solved.x[:k], float(solved.x[k])


def _exponent_interval(values: Float[np.ndarray, " n"], largest: float) -> Interval:
    """The power alpha in P(value <= e) ~ e^alpha, by Hill's estimate over the independent values up to `largest`.

    ln(largest / value) has mean 1 / alpha, whose interval is Student's.
    """
    values = values[(values <= largest) & (values > 0)]
    mean = mean_interval(np.log(largest / values), confidence=0.9995)
    low, high = 1 / mean.high, 1 / mean.low if mean.low > 0 else np.inf
    return Interval(low, 1 / mean.estimate, float(high), 0.9995, f"Hill, {values.size} values")

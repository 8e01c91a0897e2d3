"""Claims: Phase 2: agreement and the convex body."""

from collections.abc import Sequence
from itertools import product

import numpy as np
from numpy.random import Generator
from sympy import Matrix

from attention import AttentionLayer, BooleanInputs, make_nice_layer
from paper_checks.check import Basis, Constants, Scale, check
from paper_checks.claims._agreement import (
    disagreements,
    exponent_interval,
    planted_agreement,
    residual_without_constraint,
    weights_of_any_sum,
)
from paper_checks.claims._faults import HALF_LOGITS
from paper_checks.comparison import (
    Comparison,
    Kind,
    at_least,
    at_most,
    covers,
    equal,
    surely_above,
    surely_below,
)
from paper_checks.faults import Fault, given, returned
from paper_checks.intervals import proportion_interval
from upper.six_phase import certify_agreement, disagreement, has_repeated_tokens, measure_agreement

_PHASE = "Chen and Li, arXiv 2402.04084, phase 2"


@check(
    "agreement/log-ratios",
    claim="If all heads have the pattern p in row a, then Y_a = p X sum_i W_i, and x_a Theta_i (x_b - x_c) = ln(p_b "
    "/ p_c) for every head i at once.",
    source=_PHASE,
    kind=Kind.NUMERIC,
    basis=Basis.PROVED,
    how="Heads are made to agree on row 0 of an example by taking x_0 (x) (x_b - x_c) out of their differences. The "
    "pattern is the layer's own, the ratios are a loop over heads and pairs of tokens. To rounding.",
    constants={"ratio_power": 1, "rounding": 1e-10},
    wrong=HALF_LOGITS,
)
def log_ratios(constants: Constants, scale: Scale, rng: Generator) -> Sequence[Comparison]:
    """One planted example a size."""
    sizes = ((2, 2, 16), (3, 3, 16), (4, 5, 24))
    labels, ratios = 0.0, 0.0
    for m, k, d in sizes if scale is Scale.QUICK else (*sizes, (5, 6, 64), (8, 4, 64)):
        layer, x = planted_agreement(m, k, d, rng)
        p = layer.patterns(x)[0, :, 0]
        read = p[0] @ x[0] @ layer.w.sum(axis=0)
        labels = max(labels, float(np.abs(layer(x)[0, 0] - read).max()))
        for theta, b, c in product(layer.theta, range(k), range(k)):
            ratio = constants["ratio_power"] * np.log(p[0, b] / p[0, c])
            ratios = max(ratios, float(abs(x[0, 0] @ theta @ (x[0, b] - x[0, c]) - ratio)))
    return [
        at_most("largest entry of Y_a - p X sum W", labels, constants["rounding"]),
        at_most("largest error of a log-ratio", ratios, constants["rounding"]),
    ]


@check(
    "agreement/zero-residual",
    claim="On a row on which all heads agree the regression of Y_a on X sum_i W_i with weights that sum to 1 leaves "
    "nothing and gives back the pattern; on a row whose heads' logits differ by 1 to 3 it leaves more than .01 of "
    "Y_a.",
    source=f"{_PHASE}; the .01 is measured here",
    kind=Kind.NUMERIC,
    basis=Basis.MEASURED,
    how="The library's certificates on planted rows of agreement, against the softmax of the planted logits; then "
    "rows of nice layers at (2, 2, 32) with no pattern entry below .05. The first half is proved, as Y_a = p X sum_i "
    "W_i there; the second is measured, at that size.",
    constants={"rounding": 1e-9, "least": 0.01, "disagreement": (1.0, 3.0)},
    wrong=Fault(
        "upper.six_phase.phase2_agreement:_least_squares_of_pairs",
        returned(lambda found: (found[0][..., ::-1], found[1])),
        "the two weights of a pattern exchanged",
    ),
)
def zero_residual(constants: Constants, scale: Scale, rng: Generator) -> Sequence[Comparison]:
    """Planted rows, then rows that happen to differ."""
    residual, error = 0.0, 0.0
    for m, k, d in ((2, 2, 16), (3, 3, 16), (4, 5, 24)):
        layer, x = planted_agreement(m, k, d, rng)
        logits = x[0, 0] @ layer.theta[-1] @ x[0].T
        pattern = np.exp(logits) / np.exp(logits).sum()
        found = certify_agreement(x, layer(x), layer.w.sum(axis=0))
        residual = max(residual, float(found.residual[0, 0]))
        error = max(error, float(np.abs(found.pattern[0, 0] - pattern).max()))
    layer = make_nice_layer(heads=2, dim=32, rng=rng)
    x = BooleanInputs(2, 32).sample(4000 if scale is Scale.QUICK else 100_000, rng=rng)
    found = certify_agreement(x, layer(x), layer.w.sum(axis=0))
    low, high = constants["disagreement"]
    apart = disagreements(layer, x)[0]
    chosen = (apart >= low) & (apart <= high) & (layer.patterns(x)[:, :, 0].min(axis=(1, 2)) > 0.05)
    return [
        at_most("residual on planted rows", residual, constants["rounding"]),
        at_most("error of the pattern there", error, constants["rounding"]),
        at_least(
            "least residual of rows that differ", float(found.residual[chosen, 0].min()), constants["least"]
        ),
    ]


@check(
    "agreement/sum-to-one",
    claim="Without the constraint that weights sum to 1 a row of agreement is explained by any multiple of sum_i W_i "
    "as well, so that the scale is free; with it, a sum too large by a tenth leaves more than .03 of Y_a at k = 2.",
    source="derived here, for phase 2 of Chen and Li",
    kind=Kind.NUMERIC,
    basis=Basis.DERIVED,
    how="Planted rows of agreement and the sum times a scale: ordinary least squares of Y_a on the rows of X W, and "
    "the library's constrained one. The .03 is measured, over 20 planted rows at (2, 2, 32).",
    constants={"scale": 1.1, "rounding": 1e-9, "least": 0.03},
    wrong=Fault(
        "upper.six_phase.phase2_agreement:_least_squares_of_pairs",
        lambda right: weights_of_any_sum,
        "weights of any sum",
    ),
)
def sum_to_one(constants: Constants, scale: Scale, rng: Generator) -> Sequence[Comparison]:
    """The same rows by both regressions."""
    free, constrained = [], []
    for _ in range(20 if scale is Scale.QUICK else 200):
        layer, x = planted_agreement(2, 2, 32, rng)
        scaled = constants["scale"] * layer.w.sum(axis=0)
        y = layer(x)
        free.append(residual_without_constraint(x[0] @ scaled, y[0, 0]))
        constrained.append(float(certify_agreement(x, y, scaled).residual[0, 0]))
    return [
        at_most("largest residual without the constraint", max(free), constants["rounding"]),
        at_least("least residual with it", min(constrained), constants["least"]),
    ]


@check(
    "agreement/repeated-tokens",
    claim="Two equal tokens take one from the rank k - 1 of the regression with weights that sum to 1, and two "
    "opposite ones take nothing from it, but put zero into the tokens' affine hull, so that the scale of the sum is "
    "free again; the certificates refuse both.",
    source="derived here; that such examples are to be dropped was seen at d = 16",
    kind=Kind.EXACT,
    basis=Basis.PROVED,
    how="Ranks in rational numbers by sympy of the tokens' differences, and of the tokens (zero is in the affine "
    "hull if they have no more rank than the differences), for random whole tokens with a planted pair. A projection "
    "of full rank changes neither.",
    constants={"equal_takes": 1, "opposite_takes": 0, "zero_in_hull": True},
    wrong=Fault(
        "upper.six_phase.phase2_agreement:has_repeated_tokens",
        lambda right: lambda x: np.array([len(np.unique(one, axis=0)) < len(one) for one in x]),
        "opposite tokens are not seen",
    ),
)
def repeated_tokens(constants: Constants, scale: Scale, rng: Generator) -> Sequence[Comparison]:
    """A pair is planted in tokens that are independent without it."""
    found = []
    for k, d in ((2, 8), (3, 8), (4, 10)):
        x = BooleanInputs(k, d).sample(1, rng=rng)[0].astype(int)
        while Matrix(x.tolist()).rank() < k:
            x = BooleanInputs(k, d).sample(1, rng=rng)[0].astype(int)
        for kind, sign, takes in (
            ("equal", 1, constants["equal_takes"]),
            ("opposite", -1, constants["opposite_takes"]),
        ):
            planted = x.copy()
            planted[1] = sign * planted[0]
            differences = Matrix((planted[1:] - planted[0]).tolist()).rank()
            found.append(equal(f"rank with two {kind} tokens of k = {k}", differences, k - 1 - takes))
            if kind == "opposite":
                through_zero = Matrix(planted.tolist()).rank() == differences
                found.append(
                    equal(f"zero in their affine hull, k = {k}", through_zero, constants["zero_in_hull"])
                )
            refused = bool(has_repeated_tokens(planted[None].astype(float))[0])
            found.append(equal(f"refused, two {kind} tokens of k = {k}", refused, True))
        found.append(
            equal(f"refused, k = {k} others", bool(has_repeated_tokens(x[None].astype(float))[0]), False)
        )
    return found


@check(
    "agreement/too-many-tokens",
    claim="The regression with weights that sum to 1 leaves d - k + 1 dimensions for a residual; from k = d on, "
    "where k projected tokens span everything and at most one dimension is left, the certificates are refused.",
    source=f"{_PHASE} (k much smaller than d); the count is derived here",
    kind=Kind.EXACT,
    basis=Basis.PROVED,
    how="The rank of the differences of independent random whole tokens by sympy, and the least k refused, for small "
    "d.",
    constants={"dimensions_beyond": 1, "refused_from_d_plus": 0},
    wrong=Fault(
        "upper.six_phase.phase2_agreement:certify_agreement",
        lambda right: lambda x, y, total: None if x.shape[1] == x.shape[2] else right(x, y, total),
        "k = d is let through",
    ),
)
def too_many_tokens(constants: Constants, scale: Scale, rng: Generator) -> Sequence[Comparison]:
    """All k up to d + 1."""
    found = []
    for d in (4, 6):
        refused = []
        for k in range(2, d + 2):
            x = rng.integers(-9, 10, size=(k, d))
            while Matrix(x.tolist()).rank() < min(k, d):
                x = rng.integers(-9, 10, size=(k, d))
            left = d - Matrix((x[1:] - x[0]).tolist()).rank()
            if k <= d:
                found.append(
                    equal(
                        f"dimensions left at k = {k}, d = {d}", left, d - k + constants["dimensions_beyond"]
                    )
                )
            try:
                certify_agreement(x[None].astype(float), np.ones((1, k, d)), np.eye(d))
            except ValueError:
                refused.append(k)
        found.append(equal(f"least k refused at d = {d}", min(refused), d + constants["refused_from_d_plus"]))
    return found


@check(
    "agreement/false-certificates",
    claim="For k and m much smaller than d a small residual certifies: of the rows of nice layers at d = 32 with a "
    "residual below .02 and no weight below .05, less than 15 % disagree by more than 1.5 logits, at (m, k) = (2, "
    "2), (2, 3) and (3, 2); at k = 5, d = 6 more than three tenths do.",
    source=f"{_PHASE}, for no false positives; the shares are measured here",
    kind=Kind.STATISTICAL,
    basis=Basis.MEASURED,
    how="The library certifies fresh Boolean examples with the true sum; disagreement in logits is a loop of its "
    "own. One row an example, so that rows are independent; Clopper and Pearson's interval. None of hundreds is the "
    "rule at d = 32, four in five at d = 6.",
    constants={"few_tokens": 0.15, "k_near_d": 0.3, "logits": 1.5, "residual": 0.02},
    wrong={"logits": 0.15},
    false_alarm=0.004,
)
def false_certificates(constants: Constants, scale: Scale, rng: Generator) -> Sequence[Comparison]:
    """Many layers, since one layer may be unlucky."""
    found = []
    layers, n = (5, 1 << 14) if scale is Scale.QUICK else (12, 1 << 18)
    for m, k, d in ((2, 2, 32), (2, 3, 32), (3, 2, 32), (2, 5, 6)):
        share = n // 4 if (m - 1) * (k - 1) == 1 else n
        false = certified = 0
        for _ in range(layers):
            layer = make_nice_layer(heads=m, dim=d, rng=rng)
            x = BooleanInputs(k, d).sample(share, rng=rng)
            certificates = certify_agreement(x, layer(x), layer.w.sum(axis=0))
            small = (certificates.residual[:, 0] <= constants["residual"]) & (
                certificates.pattern[:, 0].min(axis=-1) > 0.05
            )
            certified += int(small.sum())
            false += int((disagreements(layer, x[small])[0] > constants["logits"]).sum())
        interval = proportion_interval(false, certified, confidence=0.999)
        what = f"share of {certified} rows certified that disagree, at (m, k, d) = ({m}, {k}, {d})"
        compare, bound = (
            (surely_below, constants["few_tokens"]) if k < d - 1 else (surely_above, constants["k_near_d"])
        )
        found.append(compare(what, interval, bound))
    return found


@check(
    "agreement/false-certificate-exponent",
    claim="Labels that have nothing to do with the tokens are certified up to a residual eps with probability of "
    "order eps^(d-k+1), to be held against eps^((m-1)(k-1)) for agreement: false certificates outnumber true ones "
    "unless d - k + 1 is the larger exponent.",
    source="derived here, for phase 2 of Chen and Li",
    kind=Kind.STATISTICAL,
    basis=Basis.DERIVED,
    how="Gaussian tokens, labels and sum; Hill's estimate of the exponent from residuals below a third, one row an "
    "example. A residual has d - k + 1 dimensions and a density at zero; the margin of a tenth is for eps not small. "
    "That labels of disagreeing heads behave like unrelated ones is not checked.",
    constants={"dimensions_beyond": 1, "relative_margin": 0.1},
    wrong=Fault("upper.six_phase.phase2_agreement:_lengths", returned(np.square), "residuals squared"),
    false_alarm=0.004,
)
def false_certificate_exponent(constants: Constants, scale: Scale, rng: Generator) -> Sequence[Comparison]:
    """Small d - k, so that there are false certificates to count."""
    found = []
    n = 30_000 if scale is Scale.QUICK else 300_000
    for k, d in ((3, 4), (5, 6), (3, 5), (5, 7)):
        x, y = rng.standard_normal((2, n, k, d))
        residuals = certify_agreement(x, y, rng.standard_normal((d, d))).residual[:, 0]
        expected = float(d - k + constants["dimensions_beyond"])
        found.append(
            covers(
                f"exponent at k = {k}, d = {d}",
                exponent_interval(residuals, 1 / 3, confidence=0.999),
                expected,
                margin=constants["relative_margin"] * expected,
            )
        )
    return found


@check(
    "agreement/exponent",
    claim="All heads of a nice layer agree in a row within eps, in logits, with probability of order "
    "eps^((m-1)(k-1)): for eps up to .4 the fitted exponents are 1, 2 and 2 at (m, k) = (2, 2), (2, 3) and (3, 2), d "
    "= 32, as are the 1.01, 2.00 and 2.02 measured of one layer each.",
    source=f"{_PHASE}, for where the exponent comes from; the fits are measured here",
    kind=Kind.STATISTICAL,
    basis=Basis.MEASURED,
    how="The largest difference of logits over pairs of heads and tokens, written out, on fresh rows of ten layers; "
    "Hill's estimate over all rows below .4, one row an example, with a margin of .05 for eps not small. Full scale "
    "adds (3, 3), eps up to .7, where 3.87 was fitted, with a margin of .2. A local limit theorem says more than "
    "this.",
    constants={"less_heads": 1, "less_tokens": 1, "single": (1.01, 2.0, 2.02, 3.87), "margin": (0.05, 0.2)},
    wrong=Fault(
        "paper_checks.claims._agreement:disagreements",
        returned(lambda found: (found[0] ** 2, found[1])),
        "squares of differences",
    ),
    false_alarm=0.004,
)
def exponent(constants: Constants, scale: Scale, rng: Generator) -> Sequence[Comparison]:
    """Rows whose heads differ by more than the largest eps say nothing."""
    found = []
    n = 20_000 if scale is Scale.QUICK else 200_000
    for place, (m, k) in enumerate(((2, 2), (2, 3), (3, 2), (3, 3))[: 3 if scale is Scale.QUICK else 4]):
        coarse = (m, k) == (3, 3)
        largest, margin = (0.7, constants["margin"][1]) if coarse else (0.4, constants["margin"][0])
        apart: list[np.ndarray] = []
        for _ in range(10):
            layer = make_nice_layer(heads=m, dim=32, rng=rng)
            for _ in range(4 if coarse else 1):
                apart.append(disagreements(layer, BooleanInputs(k, 32).sample(n, rng=rng))[0])
        interval = exponent_interval(np.concatenate(apart), largest, confidence=0.9995)
        expected = float((m - constants["less_heads"]) * (k - constants["less_tokens"]))
        found.append(covers(f"exponent at m = {m}, k = {k}", interval, expected, margin=margin))
        found.append(covers("the same, as once fitted", interval, constants["single"][place], margin=margin))
    return found


@check(
    "agreement/in-patterns",
    claim="Measured in patterns instead of logits, rows agree within eps = .1 with an exponent well below "
    "(m-1)(k-1): saturated rows have nearly equal patterns whatever their logits are.",
    source="derived here, for phase 2 of Chen and Li",
    kind=Kind.STATISTICAL,
    basis=Basis.MEASURED,
    how="As the exponent in logits, with the largest difference of a pattern's entry, at the same three sizes. The "
    "bounds are fractions of (m-1)(k-1); the share goes on falling with sigma, not looked at here.",
    constants={"share_of_exponent": 0.9, "eps": 0.1, "sigma": 2.0},
    wrong={"sigma": 0.1},
    false_alarm=0.003,
)
def in_patterns(constants: Constants, scale: Scale, rng: Generator) -> Sequence[Comparison]:
    """With small logits nothing is saturated, and the two measures have one exponent."""
    found = []
    n = 6000 if scale is Scale.QUICK else 100_000
    for m, k in ((2, 2), (2, 3), (3, 2)):
        apart = []
        for _ in range(10):
            layer = make_nice_layer(heads=m, dim=32, sigma=constants["sigma"], rng=rng)
            apart.append(disagreements(layer, BooleanInputs(k, 32).sample(n, rng=rng))[1])
        # where no logit is large, eps is to be small against the patterns' spread
        largest = constants["eps"] * min(1.0, constants["sigma"] / 2)
        interval = exponent_interval(np.concatenate(apart), largest, confidence=0.999)
        bound = constants["share_of_exponent"] * (m - 1) * (k - 1)
        found.append(surely_below(f"exponent in patterns at m = {m}, k = {k}", interval, bound))
    return found


@check(
    "agreement/disagreement",
    claim="The library's disagreement of a row is the largest |x_a (Theta_i - Theta_j) (x_b - x_c)| over pairs of "
    "heads and of tokens, and its law of agreement counts the rows on which that is within a tolerance.",
    source="derived here: agreement in logits",
    kind=Kind.NUMERIC,
    basis=Basis.PROVED,
    how="A loop over all pairs on random tokens, to rounding; the exponent checks above use a third formula.",
    constants={"rounding": 1e-12, "times": 1},
    wrong=Fault(
        "upper.six_phase.phase2_agreement:disagreement",
        given(lambda layer: AttentionLayer(theta=layer.theta[:2], w=layer.w[:2])),
        "the first two heads alone",
    ),
)
def disagreement_in_logits(constants: Constants, scale: Scale, rng: Generator) -> Sequence[Comparison]:
    """From the definition."""
    layer: AttentionLayer = make_nice_layer(heads=3, dim=8, rng=rng)
    inputs, seed, tolerances = BooleanInputs(4, 8), int(rng.integers(2**32)), (2.0, 4.0, 8.0)
    x = inputs.sample(10, rng=seed)
    found, third = disagreement(layer, x), disagreements(layer, x)[0]
    law = measure_agreement(layer, inputs, rows=40, tolerances=tolerances, rng=seed)
    gap, gap_third, counts = 0.0, 0.0, [0] * len(tolerances)
    for n, a in np.ndindex(10, 4):
        worst = max(
            x[n, a] @ (one - other) @ (x[n, b] - x[n, c])
            for one, other in product(layer.theta, repeat=2)
            for b, c in product(range(4), repeat=2)
        )
        gap = max(gap, abs(found[n, a] - constants["times"] * worst))
        gap_third = max(gap_third, abs(third[n] - worst)) if a == 0 else gap_third
        counts = [one + int(worst <= tolerance) for one, tolerance in zip(counts, tolerances, strict=True)]
    return [
        equal("rows of 40 that agree within 2, 4 and 8 by the library", law.counts, counts),
        at_most("largest gap of the library's", float(gap), constants["rounding"]),
        at_most("largest gap of the formula used here", float(gap_third), constants["rounding"]),
    ]

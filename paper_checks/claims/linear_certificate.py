"""Claims: Linear attention: regression, heads and certificate."""

from collections.abc import Sequence

import numpy as np
from numpy.random import Generator

from paper_checks.check import Basis, Constants, Scale, check
from paper_checks.claims._faults import ONE_WEIGHT
from paper_checks.claims._linear_certified import (
    deficit_positive,
    deficit_zero,
    every_length,
    restricted_eigenvalue,
)
from paper_checks.claims._linear_exact import (
    cubic,
    gaussian_moment,
    pairs,
    rank,
    weighted,
)
from paper_checks.claims._linear_heads import (
    alternation,
    at_most_square,
    general_linear,
    heads_found,
    heads_identified,
    heads_under_noise,
    newton,
    symmetric_rank,
)
from paper_checks.comparison import (
    Comparison,
    Kind,
    at_least,
    at_most,
    close,
    covers,
    equal,
    may_be_at_most,
)
from paper_checks.faults import Fault, given, returned
from paper_checks.intervals import mean_interval, slope_interval
from upper.linear_attention import (
    FeatureMoments,
    Method,
    feature_count,
    features_from_tensor,
    make_linear_attention,
    regress,
    train_linear_attention,
)

__all__ = [
    "adam",
    "agnostic",
    "alternation",
    "at_most_square",
    "deficit_positive",
    "deficit_zero",
    "every_length",
    "general_linear",
    "heads_found",
    "heads_identified",
    "heads_under_noise",
    "newton",
    "noise",
    "normal_equations",
    "restricted_eigenvalue",
    "sample_bound",
    "stream",
    "symmetric_rank",
    "threshold",
]

_THEOREM = "Yau et al., arXiv 2410.10101, Algorithm 1 and Theorem 2.2"


@check(
    "linear-certificate/threshold",
    claim="On Gaussian tokens exactly N = D examples without noise determine linear attention, whatever its number H "
    "of heads: N = D - 1 leaves a relative error above 1e-2, N = D only rounding, N = 4 D at most 1e-13.",
    source="derived here",
    kind=Kind.NUMERIC,
    basis=Basis.DERIVED,
    how="Least squares of least norm by NumPy's SVD on features of our own, and by the library, errors on fresh "
    "inputs. At N = D the error is rounding times the condition of a random square matrix, hence only 1e-9 is asked. "
    "That the rank is D is exact, in linear-features/gaussian-rank; the size of the error at D - 1 is measured.",
    constants={"missing": 1, "left": 1e-2, "rounding": 1e-9, "four_times": 1e-13},
    wrong=Fault(
        "upper.linear_attention.regression:regress",
        lambda right: lambda x, y, **named: right(x[1:], y[1:], **named),
        "the regression without the first example",
    ),
)
def threshold(constants: Constants, scale: Scale, rng: Generator) -> Sequence[Comparison]:
    """One network a number of heads."""
    sizes = (
        ((4, 1), (4, 16), (8, 8))
        if scale is Scale.QUICK
        else ((4, 1), (4, 4), (4, 16), (6, 6), (8, 1), (8, 8), (8, 64))
    )
    comparisons = []
    for d, heads in sizes:
        features = feature_count(d)
        model = make_linear_attention(heads=heads, dim=d, rng=rng)
        x, fresh = rng.standard_normal((4 * features, 10, d)), rng.standard_normal((300, 10, d))
        y, wanted = model(x), model(fresh)
        phi, phi_fresh = weighted(x), weighted(fresh)
        of = f"d = {d}, H = {heads}"

        errors = {}
        for number in (features - constants["missing"], features, 4 * features):
            coefficients = np.linalg.lstsq(phi[:number], y[:number], rcond=1e-10)[0]
            method: Method = "svd" if number <= features else "auto"
            learned = regress(x[:number], y[:number], method=method, least_norm=True)
            errors[number] = [
                float(np.linalg.norm(outputs - wanted) / np.linalg.norm(wanted))
                for outputs in (phi_fresh @ coefficients, learned(fresh))
            ]
        comparisons += [
            at_least(f"fewer than D, {of}", min(errors[features - constants["missing"]]), constants["left"]),
            at_most(f"N = D, {of}", max(errors[features]), constants["rounding"]),
            at_most(f"N = 4 D, {of}", max(errors[4 * features]), constants["four_times"]),
        ]
    return comparisons


@check(
    "linear-certificate/noise",
    claim="With independent noise of standard deviation s the excess error, a mean square an output, is s^2 D/N to "
    "first order: 1.0e-4 for s = 0.1, d = 4 (D = 40), N = 4000.",
    source="derived here",
    kind=Kind.STATISTICAL,
    basis=Basis.DERIVED,
    how="Independent draws of examples and noise, least squares by NumPy; the excess of each in closed form by the "
    "exact Gaussian moment. The interval is for its mean, the margin half the last digit of the figure, which covers "
    "the second order.",
    constants={"features": 40, "power_of_noise": 2, "excess": 1.0e-4, "half_digit": 0.05e-4},
    wrong=ONE_WEIGHT,
    false_alarm=0.001,
)
def noise(constants: Constants, scale: Scale, rng: Generator) -> Sequence[Comparison]:
    """The model itself drops out: what is learned is noise beside it."""
    d, tokens, examples, s = 4, 10, 4000, 0.1
    squared = np.repeat([1 if b == c else 2 for b, c in pairs(d)], d)
    moment = gaussian_moment(d, tokens).astype(float) * np.sqrt(np.outer(squared, squared))
    model = make_linear_attention(heads=4, dim=d, rng=rng)
    planted = features_from_tensor(model.tensor())
    values = []
    for _ in range(30 if scale is Scale.QUICK else 200):
        x = rng.standard_normal((examples, tokens, d))
        phi = weighted(x)
        y = model(x) + s * rng.standard_normal((examples, d))
        error = np.linalg.solve(phi.T @ phi, phi.T @ y) - planted
        values.append(float(np.einsum("ip,ij,jp->", error, moment, error, optimize=True) / d))
    found = mean_interval(values, confidence=0.999)
    predicted = s ** constants["power_of_noise"] * constants["features"] / examples
    return [
        close("s^2 D/N", predicted, constants["excess"], relative=1e-9),
        covers("mean excess", found, predicted, margin=constants["half_digit"]),
    ]


@check(
    "linear-certificate/normal-equations",
    claim="At N = D the error of normal equations grows with the square of the features' condition, that of singular "
    "values no faster than the condition itself: the first lose by a factor of about the condition.",
    source="derived here; textbook perturbation theory",
    kind=Kind.STATISTICAL,
    basis=Basis.MEASURED,
    how="Many random square problems at d = 4, whose conditions range over three decades: slopes of the logarithms of "
    "both relative errors over the logarithm of the condition. The bounds are Higham's, Accuracy and Stability, "
    "chapter 20; that they are attained is measured.",
    constants={"power_normal": 2.0, "power_singular": 1.0, "margin": 0.2, "ratio": 100.0},
    wrong=Fault(
        "upper.linear_attention.model:LinearAttention.__call__",
        returned(lambda y: y.astype(np.float32).astype(float)),
        "outputs rounded to single precision",
    ),
    false_alarm=0.003,
)
def normal_equations(constants: Constants, scale: Scale, rng: Generator) -> Sequence[Comparison]:
    """Both by NumPy on features of our own."""
    d = 4
    features = feature_count(d)
    fresh = rng.standard_normal((200, 10, d))
    phi_fresh = weighted(fresh)
    conditions: list[float] = []
    normal: list[float] = []
    singular: list[float] = []
    for _ in range(150 if scale is Scale.QUICK else 1500):
        model = make_linear_attention(heads=4, dim=d, rng=rng)
        x = rng.standard_normal((features, 10, d))
        phi, y, wanted = weighted(x), model(x), model(fresh)
        conditions.append(float(np.linalg.cond(phi)))
        for errors, found in (
            (normal, np.linalg.solve(phi.T @ phi, phi.T @ y)),
            (singular, np.linalg.lstsq(phi, y, rcond=None)[0]),
        ):
            errors.append(float(np.linalg.norm(phi_fresh @ found - wanted) / np.linalg.norm(wanted)))
    logs = np.log(conditions)
    ratios = np.log10(np.array(normal) / np.array(singular))
    return [
        covers(
            "power of the condition, normal equations",
            slope_interval(logs, np.log(normal), confidence=0.999),
            constants["power_normal"],
            margin=constants["margin"],
        ),
        may_be_at_most(
            "power of the condition, singular values",
            slope_interval(logs, np.log(singular), confidence=0.999),
            constants["power_singular"],
        ),
        at_least("median factor lost", float(10 ** np.median(ratios)), constants["ratio"]),
    ]


@check(
    "linear-certificate/stream",
    claim="The sums of phi phi^T and phi y^T can be gathered block by block, and a sequence gives an example at every "
    "position t, with the Gram matrix of the tokens up to t.",
    source="derived here, for Algorithm 1 of Yau et al., arXiv 2410.10101",
    kind=Kind.NUMERIC,
    basis=Basis.PROVED,
    how="The library's sums over sequences, added in two parts, against a loop over positions. To rounding.",
    constants={"causal": True, "rounding": 1e-12},
    wrong=Fault(
        "upper.linear_attention.features:prefix_features",
        given(lambda x: x[:, ::-1]),
        "tokens in reverse order",
    ),
)
def stream(constants: Constants, scale: Scale, rng: Generator) -> Sequence[Comparison]:
    """Labels are arbitrary."""
    number, n, d = (7, 5, 3) if scale is Scale.QUICK else (40, 12, 6)
    x, y = rng.standard_normal((number, n, d)), rng.standard_normal((number, n, 2))
    moments = FeatureMoments(feature_count(d), 2)
    for part in (slice(0, 3), slice(3, None)):
        moments.add_sequences(x[part], y[part])
    gram = np.zeros((feature_count(d), feature_count(d)))
    cross = np.zeros((feature_count(d), 2))
    for one, labels in zip(x, y, strict=True):
        for t in range(n):
            seen = one[: t + 1] if constants["causal"] else one
            # the query is the token at t, and the last of those seen counts in G as any other
            order = np.concatenate([np.delete(seen, t, axis=0), one[t : t + 1]])
            phi = weighted(order[None])[0]
            gram, cross = gram + np.outer(phi, phi), cross + np.outer(phi, labels[t])
    scale_of = np.abs(gram).max()
    return [
        at_most(
            "phi phi^T, relative",
            float(np.abs(moments.full_gram() - gram).max() / scale_of),
            constants["rounding"],
        ),
        at_most(
            "phi y^T, relative",
            float(np.abs(moments.cross - cross).max() / np.abs(cross).max()),
            constants["rounding"],
        ),
    ]


@check(
    "linear-certificate/agnostic",
    claim="On labels of any kind the regression has the least empirical risk of all linear attention, whatever the "
    "number of heads: a model whose coefficients differ by Delta has more by exactly mean |Delta^T phi|^2.",
    source=_THEOREM + ", says agnostic; the identity is that of least squares",
    kind=Kind.NUMERIC,
    basis=Basis.PROVED,
    how="Labels from a softmax head; random models, and neighbours of the learned one, have their risks computed by "
    "their own outputs. Proof: the residual is orthogonal to the features. Empirical risk only.",
    constants={"factor": 1.0, "rounding": 1e-9},
    wrong=ONE_WEIGHT,
)
def agnostic(constants: Constants, scale: Scale, rng: Generator) -> Sequence[Comparison]:
    """Differences of risks against the features' own."""
    d, number = 4, 300
    x = rng.standard_normal((number, 6, d))
    logits = np.einsum("ne,ntb->nt", x[:, -1], x)
    weights = np.exp(logits - logits.max(axis=1, keepdims=True))
    y = np.einsum("nt,ntb->nb", weights / weights.sum(axis=1, keepdims=True), x)
    learned = regress(x, y)

    def risk(outputs: np.ndarray) -> float:
        return float(np.mean(np.sum((outputs - y) ** 2, axis=1)))

    best, phi, gaps, more = risk(learned(x)), weighted(x), [], []
    for heads in (1, 2, 8, 16) if scale is Scale.QUICK else range(1, 40):
        model = make_linear_attention(heads=heads, dim=d, rng=rng)
        delta = features_from_tensor(model.tensor()) - learned.coefficients
        extra = float(np.mean(np.sum((phi @ delta) ** 2, axis=1)))
        more.append(risk(model(x)) - best)
        gaps.append(abs(more[-1] - constants["factor"] * extra) / extra)
    return [
        at_least("least excess of the models", min(more), 0.0),
        at_most("largest difference from mean |Delta^T phi|^2, relative", max(gaps), constants["rounding"]),
        at_least("the risk itself: no linear attention fits", best, 0.01),
    ]


@check(
    "linear-certificate/sample-bound",
    claim="D = d^2 (d + 1)/2 is at most d^4 for every d, so that N = D examples without noise are no more than "
    "Theorem 2.2's (d^4 + log 1/delta)/eps with its constant taken as 1 and eps <= 1, and fewer by a factor of "
    "about 2 d.",
    source=_THEOREM + "; the comparison is derived here",
    kind=Kind.EXACT,
    basis=Basis.PROVED,
    how="2 (d^4 - D) = d^2 (d - 1)(2 d + 1), checked in whole numbers at more places than its degree; that D examples "
    "suffice is shown by the exact rank of random whole ones. The theorem's constant is not known to us, its setting "
    "is agnostic: nothing here contradicts it.",
    constants={"power": 4},
    wrong={"power": 2},
)
def sample_bound(constants: Constants, scale: Scale, rng: Generator) -> Sequence[Comparison]:
    """A polynomial of degree 4 is zero if it is at five places."""
    dims = range(1, 51)
    count = {d: d * d * (d + 1) // 2 for d in dims}
    power = constants["power"]
    comparisons = [
        equal("D at most d^4 for d = 1 to 50", all(count[d] <= d**power for d in dims), True),
        equal(
            "the factorisation at d = 1 to 50",
            all(2 * (d**power - count[d]) == d * d * (d - 1) * (2 * d + 1) for d in dims),
            True,
        ),
    ]
    for d in (2, 3, 4) if scale is Scale.QUICK else (2, 3, 4, 5, 6):
        x = rng.integers(-9, 10, (count[d], 3, d))
        comparisons.append(equal(f"rank of D examples, d = {d}", rank(cubic(x)), count[d]))
    return comparisons


@check(
    "linear-certificate/adam",
    claim="Adam on the heads, with their number known, reaches the regression's function too, below 1e-6 relative "
    "error; with one head fewer it does not.",
    source="measured here",
    kind=Kind.NUMERIC,
    basis=Basis.MEASURED,
    how="One small planted model a run, full batches, several starts, of which the best on the examples counts: a "
    "start may end in a local minimum. That it takes longer is not checked, for times are the machine's. No theorem.",
    constants={"fewer": 0, "error": 1e-6},
    wrong={"fewer": 1},
    needs=("torch",),
)
def adam(constants: Constants, scale: Scale, rng: Generator) -> Sequence[Comparison]:
    """Two heads in four dimensions, or four, and the error on fresh inputs."""
    d, heads, steps = (4, 2, 1000) if scale is Scale.QUICK else (4, 4, 8000)
    model = make_linear_attention(heads=heads, dim=d, rng=rng)
    x, fresh = rng.standard_normal((4 * feature_count(d), 10, d)), rng.standard_normal((500, 10, d))
    best = None
    for _ in range(5):
        fit = train_linear_attention(
            x, model(x), heads=heads - constants["fewer"], steps=steps, learning_rate=0.1, rng=rng
        )
        best = fit if best is None or fit.error < best.error else best
        if best.error < constants["error"] / 10 or constants["fewer"]:
            break
    assert best is not None
    error = np.linalg.norm(best.model(fresh) - model(fresh)) / np.linalg.norm(model(fresh))
    return [at_most("error on fresh inputs", float(error), constants["error"])]

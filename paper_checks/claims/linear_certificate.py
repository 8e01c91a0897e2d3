"""Claims: Linear attention: regression, heads and certificate."""

from collections.abc import Iterator

import numpy as np
from numpy.random import Generator

from paper_checks.check import Constants, Scale
from paper_checks.claims._faults import ONE_WEIGHT
from paper_checks.claims._linear_exact import (
    all_inputs,
    cubic,
    distance,
    gap,
    gaussian_moment,
    pairs,
    rank,
    weighted,
)
from paper_checks.claims.tables import checks
from paper_checks.comparison import Comparison, at_least, at_most, close, covers, equal, may_be_at_most
from paper_checks.faults import given, returned
from studies.intervals import mean_interval, slope_interval
from upper.linear_attention import (
    FeatureMoments,
    LinearAttention,
    another_minimiser,
    certify,
    feature_count,
    feature_moment,
    features_from_tensor,
    make_linear_attention,
    regress,
    train_linear_attention,
)
from upper.linear_attention.regression import Method


@checks("linear-certificate/threshold", lambda right: lambda x, y, **named: right(x[1:], y[1:], **named))
def threshold(claim: Constants, scale: Scale, rng: Generator) -> Iterator[Comparison]:
    """Compares least squares of least norm by NumPy's SVD, on features of our own, with the library's
    regression. Errors are on fresh inputs. At N = D the error is rounding times the condition of a random
    square matrix, so only 1e-9 is required. That the rank is D is exact, in linear-features/gaussian-rank.
    The size of the error at D - 1 is measured.
    """
    sizes = (
        ((4, 1), (4, 16), (8, 8))
        if scale is Scale.QUICK
        else ((4, 1), (4, 4), (4, 16), (6, 6), (8, 1), (8, 8), (8, 64))
    )
    for d, heads in sizes:
        features = feature_count(d)
        model = make_linear_attention(heads=heads, dim=d, rng=rng)
        x, fresh = rng.standard_normal((4 * features, 10, d)), rng.standard_normal((300, 10, d))
        y, wanted = model(x), model(fresh)
        phi, phi_fresh = weighted(x), weighted(fresh)
        of = f"d = {d}, H = {heads}"

        errors = {}
        for number in (features - claim.missing, features, 4 * features):
            coefficients = np.linalg.lstsq(phi[:number], y[:number], rcond=1e-10)[0]
            method: Method = "svd" if number <= features else "auto"
            learned = regress(x[:number], y[:number], method=method, least_norm=True)
            errors[number] = [
                distance(outputs, wanted) for outputs in (phi_fresh @ coefficients, learned(fresh))
            ]
        yield at_least(f"fewer than D, {of}", min(errors[features - claim.missing]), claim.left)
        yield at_most(f"N = D, {of}", max(errors[features]), claim.rounding)
        yield at_most(f"N = 4 D, {of}", max(errors[4 * features]), claim.four_times)


@checks("linear-certificate/noise", ONE_WEIGHT)
def noise(claim: Constants, scale: Scale, rng: Generator) -> Iterator[Comparison]:
    """Draws examples and noise independently, and solves least squares by NumPy. The exact Gaussian moment
    gives the excess of each draw in closed form. The interval is for its mean. The margin is half the last
    digit of the figure, which covers the second order.
    """
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
    found = mean_interval(values)
    predicted = s**claim.power_of_noise * claim.features / examples
    yield close("s^2 D/N", predicted, claim.excess, relative=1e-9)
    yield covers("mean excess", found, predicted, margin=claim.half_digit)


@checks("linear-certificate/normal-equations", returned(lambda y: y.astype(np.float32).astype(float)))
def normal_equations(claim: Constants, scale: Scale, rng: Generator) -> Iterator[Comparison]:
    """Takes many random square problems at d = 4, whose conditions range over three decades. Fits slopes of
    the logarithms of both relative errors over the logarithm of the condition. The bounds are Higham's,
    Accuracy and Stability, chapter 20. That they are attained is measured.
    """
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
            errors.append(distance(phi_fresh @ found, wanted))
    logs = np.log(conditions)
    ratios = np.log10(np.array(normal) / np.array(singular))
    yield covers(
        "power of the condition, normal equations",
        slope_interval(logs, np.log(normal)),
        claim.power_normal,
        margin=claim.margin,
    )
    yield may_be_at_most(
        "power of the condition, singular values",
        slope_interval(logs, np.log(singular)),
        claim.power_singular,
    )
    yield at_least("median factor lost", float(10 ** np.median(ratios)), claim.ratio)


@checks("linear-certificate/stream", given(lambda x: x[:, ::-1]))
def stream(claim: Constants, scale: Scale, rng: Generator) -> Iterator[Comparison]:
    """Compares the library's sums over sequences, added in two parts, with a loop over positions, to
    rounding.
    """
    number, n, d = (7, 5, 3) if scale is Scale.QUICK else (40, 12, 6)
    x, y = rng.standard_normal((number, n, d)), rng.standard_normal((number, n, 2))
    moments = FeatureMoments(feature_count(d), 2)
    for part in (slice(0, 3), slice(3, None)):
        moments.add_sequences(x[part], y[part])
    gram = np.zeros((feature_count(d), feature_count(d)))
    cross = np.zeros((feature_count(d), 2))
    for one, labels in zip(x, y, strict=True):
        for t in range(n):
            seen = one[: t + 1] if claim.causal else one
            # the query is the token at t; G sums over all tokens seen
            order = np.concatenate([np.delete(seen, t, axis=0), one[t : t + 1]])
            phi = weighted(order[None])[0]
            gram, cross = gram + np.outer(phi, phi), cross + np.outer(phi, labels[t])
    scale_of = np.abs(gram).max()
    yield at_most(
        "phi phi^T, relative", float(np.abs(moments.gram() - gram).max() / scale_of), claim.rounding
    )
    yield at_most(
        "phi y^T, relative", float(np.abs(moments.cross - cross).max() / np.abs(cross).max()), claim.rounding
    )


@checks("linear-certificate/agnostic", ONE_WEIGHT)
def agnostic(claim: Constants, scale: Scale, rng: Generator) -> Iterator[Comparison]:
    """Labels come from a softmax head. The risks of random models and of neighbours of the learned one are
    computed from their own outputs. Proof: the residual is orthogonal to the features. Only the empirical
    risk is meant.
    """
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
        gaps.append(abs(more[-1] - claim.factor * extra) / extra)
    yield at_least("least excess of the models", min(more), 0.0)
    yield at_most("largest difference from mean |Delta^T phi|^2, relative", max(gaps), claim.rounding)
    yield at_least("the risk itself: no linear attention fits", best, 0.01)


@checks("linear-certificate/adam")
def adam(claim: Constants, scale: Scale, rng: Generator) -> Iterator[Comparison]:
    """Each run has one small planted model, full batches and several starts. The start that is best on the
    examples counts, because a start may end in a local minimum. Times depend on the machine, so they are not
    checked. There is no theorem.
    """
    d, heads, steps = (4, 2, 1000) if scale is Scale.QUICK else (4, 4, 8000)
    model = make_linear_attention(heads=heads, dim=d, rng=rng)
    x, fresh = rng.standard_normal((4 * feature_count(d), 10, d)), rng.standard_normal((500, 10, d))
    best = None
    for _ in range(5):
        fit = train_linear_attention(
            x, model(x), heads=heads - claim.fewer, steps=steps, learning_rate=0.1, rng=rng
        )
        best = fit if best is None or fit.error < best.error else best
        if best.error < claim.error / 10 or claim.fewer:
            break
    assert best is not None
    yield at_most("error on fresh inputs", distance(best.model(fresh), model(fresh)), claim.error)


@checks("linear-certificate/deficit-zero", lambda right: lambda data, domain: right(domain, data))
def deficit_zero(claim: Constants, scale: Scale, rng: Generator) -> Iterator[Comparison]:
    """The data are all sign inputs of 2 tokens, and the domain is all of 3. tau is computed again from a
    pseudoinverse root. The library's tau, its direction and its other minimisers are tried. Proof: the null
    directions of Lambda_D vanish on the domain, and the rest is a quotient of two forms.
    """
    d = 3 if scale is Scale.QUICK else 4
    x, domain = (all_inputs((-1, 1), n, d).astype(float) for n in (2, 3))
    phi, phi_domain = weighted(x), weighted(domain)
    data, on_domain = (one.T @ one / len(one) for one in (phi, phi_domain))
    upper, lower = (on_domain, data) if claim.domain_over_data else (data, on_domain)
    values, vectors = np.linalg.eigh(lower)
    kept = values > 1e-9
    root = vectors[:, kept] / np.sqrt(values[kept])
    tau = float(np.linalg.eigvalsh(root.T @ upper @ root)[-1])
    certificate = certify(feature_moment(x), feature_moment(domain))
    deltas = np.concatenate(
        [rng.standard_normal((len(data), 1000)), certificate.worst_direction[:, None]], axis=1
    )
    ratios = np.mean((phi_domain @ deltas) ** 2, axis=0) / np.mean((phi @ deltas) ** 2, axis=0)
    one = regress(x, rng.standard_normal((len(x), 2)), least_norm=True)
    two = another_minimiser(one, certificate, on_domain=False, rng=rng)
    moved = distance(two.coefficients, one.coefficients)
    apart = np.abs(two(domain) - one(domain)).max() / np.abs(one(domain)).max()
    bound = claim.rounding
    yield equal("deficit", int(rank(cubic(np.rint(domain).astype(int)))) - rank(cubic(x.astype(int))), 0)
    yield close("the library's tau", certificate.factor, tau, relative=bound)
    yield at_most("largest quotient of 1000 pairs of models", float(ratios[:-1].max()), tau * (1 + bound))
    yield close("quotient of the worst direction", float(ratios[-1]), tau, relative=bound)
    yield at_least("distance of two minimisers' coefficients, relative", moved, 0.1)
    yield at_most("distance of their outputs on the domain, relative", float(apart), bound)


@checks("linear-certificate/deficit-positive", lambda right: lambda x, domain: right(domain, x))
def deficit_positive(claim: Constants, scale: Scale, rng: Generator) -> Iterator[Comparison]:
    """Computes the ranks of all 4096 sign inputs in whole numbers, alone and together with random whole
    inputs. Two whole models that differ by a null tensor are run on both. Proof: Lambda_X is not zero on some
    null direction of Lambda_D.
    """
    signs, others = all_inputs((-1, 1), 3, 4), rng.integers(-5, 6, (120, 3, 4))
    both = np.concatenate([signs, others])
    v, q = rng.integers(-3, 4, (2, 2, 4, 4))
    # the null tensor t_00e = 1, t_11e = -1 for e = 2, as two heads
    extra_v, extra_q = np.zeros((2, 2, 4, 4), dtype=int)
    extra_v[0, 0, 0], extra_q[0, 0, 2] = 1, 1
    extra_v[1, 0, 1], extra_q[1, 1, 2] = -1, 1
    one, two = (
        LinearAttention(v, q),
        LinearAttention(np.concatenate([v, extra_v]), np.concatenate([q, extra_q])),
    )
    on_signs, on_others = ((one(x.astype(float)), two(x.astype(float))) for x in (signs, others))
    yield equal("deficit", rank(cubic(both)) - rank(cubic(signs)), claim.deficit)
    yield equal("the library's", certify(signs.astype(float), others.astype(float)).deficit, claim.deficit)
    yield equal("largest difference on all of the data", gap(*on_signs), 0)
    yield equal("a difference elsewhere", gap(*on_others) > 0, True)


@checks("linear-certificate/restricted-eigenvalue", lambda right: lambda x, domain: right(x, x))
def restricted_eigenvalue(claim: Constants, scale: Scale, rng: Generator) -> Iterator[Comparison]:
    """Gives a counterexample in whole numbers. The features' inner product is (z . z')^3 = 1, so the form is
    positive. The ranks give deficit 1, and two whole models are run on both.
    """
    x, domain = np.array([[[1, 0]]]), np.array([[[1, 1]]])
    squared = np.repeat([1 if b == c else 2 for b, c in pairs(2)], 2)
    product = int(np.sum(cubic(x) * squared * cubic(domain)))
    unit = np.eye(2, dtype=int)
    one = LinearAttention(unit[None, :1], np.diag([1, 0])[None])
    two = LinearAttention(np.stack([unit[:1], unit[1:]]), np.array([[[1, 0], [0, 0]], [[0, 0], [1, 0]]]))
    values = [int(model(at.astype(float))[0, 0]) for at in (x, domain) for model in (one, two)]
    joint = rank(np.concatenate([cubic(x), cubic(domain)]))
    yield equal("inner product of the features, whose square is the form", product, claim.inner_product)
    yield equal("deficit", joint - rank(cubic(x)), claim.deficit)
    yield equal("the library's", certify(x.astype(float), domain.astype(float)).deficit, claim.deficit)
    yield equal("both models on the example, both on the domain", values, [1, 1, 1, 1 + claim.deficit])


@checks("linear-certificate/every-length")
def every_length(claim: Constants, scale: Scale, rng: Generator) -> Iterator[Comparison]:
    """Solves least squares by NumPy on features of our own, and by the library, from 3 D examples. Relative
    errors are on fresh inputs of each length. Proof: full rank determines the coefficients.
    """
    d = 4 if scale is Scale.QUICK else 8
    model = make_linear_attention(heads=4, dim=d, rng=rng)
    fresh = [rng.standard_normal((100, n, d)) for n in (1, 5, 30)]
    errors, smallest = {}, {}
    for tokens in (claim.tokens, claim.short):
        x = rng.standard_normal((3 * feature_count(d), tokens, d))
        phi = weighted(x)
        smallest[tokens] = float(np.linalg.eigvalsh(phi.T @ phi / len(x))[0])
        coefficients = np.linalg.lstsq(phi, model(x), rcond=1e-10)[0]
        learned = regress(x, model(x), least_norm=True)
        errors[tokens] = [
            distance(outputs, model(inputs))
            for inputs in fresh
            for outputs in (weighted(inputs) @ coefficients, learned(inputs))
        ]
    yield at_least("lambda_min", smallest[claim.tokens], 1e-6)
    yield at_most("largest error at lengths 1, 5, 30", max(errors[claim.tokens]), claim.rounding)
    yield at_most("lambda_min of single tokens", smallest[claim.short], 1e-9)
    yield at_least("error at 30 of what single tokens teach", errors[claim.short][-1], claim.left)

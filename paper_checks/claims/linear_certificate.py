"""Linear attention: regression, heads and certificate."""

from collections.abc import Iterator

import numpy as np
from numpy.random import Generator

from lower import all_sign_matrices
from paper_checks import Basis, Comparison, Fault, Scale, at_least, at_most, claim, close, covers, equal
from studies.intervals import mean_interval
from upper.linear_attention import (
    LinearAttention,
    another_minimiser,
    certify,
    cubic_features,
    feature_count,
    feature_moment,
    features_from_tensor,
    fit_heads,
    make_linear_attention,
    population_moment,
    regress,
    symmetric_rank,
)

_NO_FIRST = Fault(
    "upper.linear_attention.regression:regress",
    lambda right: lambda x, y, **named: right(x[1:], y[1:], **named),
    "the regression without the first example",
)


@claim("linear-certificate/threshold", source="derived here", basis=Basis.DERIVED, fault=_NO_FIRST)
def threshold(
    scale: Scale,
    rng: Generator,
    *,
    left: float = 0.01,
    rounding: float = 1e-9,
    four_times: float = 1e-13,
) -> Iterator[Comparison]:
    """On Gaussian tokens exactly N = D examples without noise determine linear attention, for any number H of heads. N
    = D - 1 leaves a relative error above 1e-2. N = D leaves only rounding, and N = 4 D at most 1e-13.

    Errors are on fresh inputs. At N = D the error is rounding times the condition of a random square matrix, so only
    1e-9 is required. That the rank is D is exact, in linear-features/ranks. The size of the error at D - 1 is measured.
    """
    sizes = ((4, 1), (4, 16), (8, 8))
    for d, heads in sizes if scale is Scale.QUICK else (*sizes, (4, 4), (6, 6), (8, 1), (8, 64)):
        many = feature_count(d)
        model = make_linear_attention(heads=heads, dim=d, rng=rng)
        x, fresh = rng.standard_normal((4 * many, 10, d)), rng.standard_normal((300, 10, d))
        fewer, exact = (regress(x[:n], model(x[:n]), method="svd", least_norm=True) for n in (many - 1, many))
        most, of = regress(x, model(x), least_norm=True), f"d = {d}, H = {heads}"
        yield at_least(f"{of}: fewer than D", _distance(fewer(fresh), model(fresh)), left)
        yield at_most(f"{of}: N = D", _distance(exact(fresh), model(fresh)), rounding)
        yield at_most(f"{of}: N = 4 D", _distance(most(fresh), model(fresh)), four_times)


@claim(
    "linear-certificate/noise",
    source="derived here",
    basis=Basis.DERIVED,
    fault=Fault(
        "upper.linear_attention.regression:regress",
        lambda right: lambda x, y, **named: right(x[::2], y[::2], **named),
        "the regression on every second example",
    ),
    false_alarm=0.001,
)
def noise(
    scale: Scale, rng: Generator, *, excess: float = 1.0e-4, half_digit: float = 5e-6
) -> Iterator[Comparison]:
    """Let the labels have independent noise of standard deviation s. The excess error, a mean square an output, is s^2
    D/N to first order. It is 1.0e-4 for s = 0.1, d = 4 (D = 40) and N = 4000.

    Draws examples and noise independently. The exact Gaussian moment gives the excess of each draw in closed form. The
    interval is for its mean. The margin is half the last digit of the figure, which covers the second order.
    """
    d, examples, s = 4, 4000, 0.1
    moment, model = population_moment("gaussian", d, 10), make_linear_attention(heads=4, dim=d, rng=rng)
    planted, found = features_from_tensor(model.tensor()), []
    for _ in range(30 if scale is Scale.QUICK else 200):
        x = rng.standard_normal((examples, 10, d))
        error = regress(x, model(x) + s * rng.standard_normal((examples, d))).coefficients - planted
        found.append(float(np.trace(error.T @ moment @ error)) / d)
    yield close("s^2 D/N", s**2 * feature_count(d) / examples, excess, relative=1e-9)
    yield covers("mean excess", mean_interval(found), excess, margin=half_digit)


@claim(
    "linear-certificate/agnostic",
    source="""Yau et al., arXiv 2410.10101, Algorithm 1 and Theorem 2.2, says agnostic; the identity is that of least
    squares""",
    basis=Basis.PROVED,
    fault=_NO_FIRST,
)
def agnostic(scale: Scale, rng: Generator, *, rounding: float = 1e-9) -> Iterator[Comparison]:
    """On labels of any kind the regression has the least empirical risk of all linear attention with any number of
    heads. A model whose coefficients differ by Delta has a risk that is larger by exactly mean |Delta^T phi|^2.

    Labels come from a softmax head. The risks of random models and of the learned one are computed from their own
    outputs. Proof: the residual is orthogonal to the features. Only the empirical risk is meant.
    """
    x = rng.standard_normal((300, 6, 4))
    weights = np.exp(np.einsum("ne,nte->nt", x[:, -1], x))
    y = np.einsum("nt,ntb->nb", weights / weights.sum(axis=1, keepdims=True), x)
    learned, phi = regress(x, y), cubic_features(x)
    best = float(np.mean(np.sum((learned(x) - y) ** 2, axis=1)))
    yield at_least("the least risk: no linear attention fits", best, 0.01)
    for heads in (1, 2, 8, 16) if scale is Scale.QUICK else range(1, 40):
        model = make_linear_attention(heads=heads, dim=4, rng=rng)
        delta = features_from_tensor(model.tensor()) - learned.coefficients
        extra = float(np.mean(np.sum((phi @ delta) ** 2, axis=1)))
        more = float(np.mean(np.sum((model(x) - y) ** 2, axis=1))) - best
        yield close(f"H = {heads}: excess over mean |Delta^T phi|^2", more / extra, 1, absolute=rounding)


@claim(
    "linear-certificate/at-most-d2-heads",
    source="Yau et al., arXiv 2410.10101, Theorem 2.2, for at most d^2 heads; the construction is derived here",
    basis=Basis.PROVED,
    fault={"power": 1},
)
def at_most_d2_heads(scale: Scale, rng: Generator, *, power: int = 2) -> Iterator[Comparison]:
    """At most d^2 heads suffice. Every linear attention equals one with the heads Q = E_ce and (V)_ab = M_abce, one for
    each pair c, e.

    Takes more than d^2 random heads with whole entries and the d^2 built from them. Both output the same whole numbers.
    Proof: the sum of V_h (x) Q_h is M in both. Nothing is said about fewer heads.
    """
    for d in (2, 3) if scale is Scale.QUICK else (2, 3, 4, 6):
        v, q = rng.integers(-3, 4, (2, d * d + 4, d, d)).astype(float)
        units = np.eye(d * d).reshape(d * d, d, d)[: d**power]
        built = np.einsum("hab,hce->ceab", v, q).reshape(d * d, d, d)[: d**power]
        x = rng.integers(-4, 5, (20, 5, d)).astype(float)
        gap = np.abs(LinearAttention(built, units)(x) - LinearAttention(v, q)(x)).max()
        yield equal(f"d = {d}: largest difference", gap, 0)


@claim(
    "linear-certificate/heads",
    source="derived here",
    basis=Basis.MEASURED,
    fault=Fault(
        "upper.linear_attention.heads:fit_heads",
        lambda right: lambda *given, **named: right(*given, heads=5, **named),
        "one head too many",
    ),
)
def heads_found(scale: Scale, rng: Generator, *, heads: int = 4, error: float = 1e-9) -> Iterator[Comparison]:
    """Unfold the symmetrised coefficients (M_abce + M_acbe)/2 to (a b) by (c e). For one generic head with d outputs
    they already have rank d^2, 64 at d = 8, while M itself has rank H. So the singular values of what regression gives
    do not count heads. The search minimises the rank over the antisymmetric part, which does not act. From regression
    on a model of 4 heads at d = 8 it returns 4 heads, which is proved to be the fewest. The relative error on fresh
    inputs is below 1e-9.

    One draw of full rank proves the rank for almost all heads of that size, up to rounding. The library's lower bound
    shows for each draw that fewer heads do not suffice; its docstring has the proof. Heads are determined only up to an
    invertible H x H matrix A: V'_h = sum_g A_hg V_g with Q'_h = sum_g (A^-T)_hg Q_g are the same function.
    """
    for d, planted in ((2, 1), (3, 1), (4, 3), (8, 1), (8, 4)):
        rank = symmetric_rank(make_linear_attention(heads=planted, dim=d, rng=rng).tensor())
        yield equal(f"d = {d}, H = {planted}: rank of the symmetrised coefficients", rank, d * d)
    for draw in range(1 if scale is Scale.QUICK else 10):
        model = make_linear_attention(heads=4, dim=8, rng=rng)
        x, fresh = rng.standard_normal((576, 10, 8)), rng.standard_normal((200, 10, 8))
        found = fit_heads(regress(x, model(x)), rng=rng)
        yield equal(f"heads, proved the fewest, draw {draw}", [found.heads, found.minimal], [heads, True])
        yield at_most(f"error on fresh inputs, draw {draw}", _distance(found.model(fresh), model(fresh)), error)


@claim(
    "linear-certificate/deficit-zero",
    source="derived here",
    basis=Basis.PROVED,
    fault=Fault(
        "upper.linear_attention.certificate:certify",
        lambda right: lambda data, domain: right(domain, data),
        "examples and domain exchanged",
    ),
)
def deficit_zero(scale: Scale, rng: Generator, *, rounding: float = 1e-8) -> Iterator[Comparison]:
    """Let the deficit rank(Lambda_D + Lambda_X) - rank(Lambda_D) be 0. Then all empirical risk minimisers agree on the
    domain. Any two models satisfy E_X |f - f*|^2 <= tau E_D |f - f*|^2, where tau is the largest generalised eigenvalue
    of (Lambda_X, Lambda_D) on the range of Lambda_D. The bound is attained.

    The data are all sign inputs of 2 tokens, and the domain is all of 3. tau is computed again from a pseudoinverse
    root. The library's tau, its direction and another minimiser are tried. Proof: the null directions of Lambda_D
    vanish on the domain, and the rest is a quotient of two forms.
    """
    d = 3 if scale is Scale.QUICK else 4
    x, domain = all_sign_matrices(2, d), all_sign_matrices(3, d)
    phi, phi_domain = cubic_features(x), cubic_features(domain)
    values, vectors = np.linalg.eigh(phi.T @ phi / len(x))
    root = vectors[:, values > 1e-9] / np.sqrt(values[values > 1e-9])
    tau = float(np.linalg.eigvalsh(root.T @ phi_domain.T @ phi_domain @ root)[-1]) / len(domain)
    certificate = certify(feature_moment(x), feature_moment(domain))
    deltas = np.column_stack([rng.standard_normal((phi.shape[1], 1000)), certificate.worst_direction])
    ratios = np.mean((phi_domain @ deltas) ** 2, axis=0) / np.mean((phi @ deltas) ** 2, axis=0)
    one = regress(x, rng.standard_normal((len(x), 2)), least_norm=True)
    two = another_minimiser(one, certificate, on_domain=False, rng=rng)
    yield equal("deficit", certificate.deficit, 0)
    yield close("the library's tau", certificate.factor, tau, relative=rounding)
    yield at_most("largest quotient of 1000 pairs of models, over tau", ratios[:-1].max() / tau, 1 + rounding)
    yield close("quotient of the worst direction, over tau", ratios[-1] / tau, 1, absolute=rounding)
    moved = _distance(two.coefficients, one.coefficients)
    yield at_least("distance of two minimisers' coefficients, relative", moved, 0.1)
    yield at_most("distance of their outputs on the domain, relative", _distance(two(domain), one(domain)), rounding)


@claim(
    "linear-certificate/deficit-positive",
    source="derived here",
    basis=Basis.PROVED,
    fault=Fault(
        "upper.linear_attention.certificate:certify",
        lambda right: lambda data, domain: right(data, data),
        "the examples for the domain",
    ),
)
def deficit_positive(scale: Scale, rng: Generator, *, deficit: int = 12) -> Iterator[Comparison]:
    """If the deficit is positive, two models agree on all of the data and differ on the domain. For example, signs of 3
    tokens in 4 dimensions as data and any real tokens as domain have deficit 12. That Lambda_D is positive definite on
    the range of Lambda_X certifies nothing: it is so for one example z = (1, 0) and one domain input z = (1, 1), of one
    token each, and the deficit is 1.

    Runs two whole models that differ by a null tensor on both, in whole numbers. Proof: Lambda_X is not zero on some
    null direction of Lambda_D. In the second example the features' inner product is (z . z')^3 = 1, so the form is
    positive.
    """
    signs, others = all_sign_matrices(3, 4), rng.integers(-5, 6, (120, 3, 4)).astype(float)
    v, q = rng.integers(-3, 4, (2, 2, 4, 4)).astype(float)
    # the null tensor t_00e = 1, t_11e = -1 for e = 2, as two heads
    extra_v, extra_q = np.zeros((2, 2, 4, 4))
    extra_v[0, 0, 0] = extra_q[0, 0, 2] = extra_q[1, 1, 2] = 1
    extra_v[1, 0, 1] = -1
    one = LinearAttention(v, q)
    two = LinearAttention(np.concatenate([v, extra_v]), np.concatenate([q, extra_q]))
    yield equal("signs: deficit", certify(signs, others).deficit, deficit)
    yield equal("signs: largest difference on all of the data", np.abs(one(signs) - two(signs)).max(), 0)
    yield equal("signs: a difference elsewhere", bool(np.any(one(others) != two(others))), True)
    x, domain = np.array([[[1.0, 0.0]]]), np.array([[[1.0, 1.0]]])
    product = float((cubic_features(x) @ cubic_features(domain).T)[0, 0])
    yield close("one example: inner product of the features", product, 1, absolute=1e-12)
    yield equal("one example: deficit", certify(x, domain).deficit, 1)
    unit = np.eye(2)
    one = LinearAttention(unit[None, :1], np.diag([1.0, 0.0])[None])
    two = LinearAttention(np.stack([unit[:1], unit[1:]]), np.stack([np.diag([1.0, 0.0]), np.diag([0.0, 1.0])]))
    outputs = [float(model(at)[0, 0]) for at in (x, domain) for model in (one, two)]
    yield equal("one example: both models on it, both on the domain", outputs, [1, 1, 1, 2])


@claim(
    "linear-certificate/every-length", source="derived here", basis=Basis.PROVED, fault={"tokens": 1}
)
def every_length(
    scale: Scale, rng: Generator, *, tokens: int = 2, rounding: float = 1e-10, left: float = 0.05
) -> Iterator[Comparison]:
    """If lambda_min(Lambda_D) > 0, all minimisers agree on all inputs of every length. Examples of 2 Gaussian tokens
    determine linear attention on 1, 5 and 30 tokens. Examples of 1 token do not.

    Solves least squares from 3 D examples. Relative errors are on fresh inputs of each length. Proof: full rank
    determines the coefficients.
    """
    d = 4 if scale is Scale.QUICK else 8
    model = make_linear_attention(heads=4, dim=d, rng=rng)
    few, single = (rng.standard_normal((3 * feature_count(d), n, d)) for n in (tokens, 1))
    smallest = [float(np.linalg.eigvalsh(feature_moment(x))[0]) for x in (few, single)]
    learned, from_single = (regress(x, model(x), least_norm=True) for x in (few, single))
    yield at_least("two tokens: lambda_min", smallest[0], 1e-6)
    for n in (1, 5, 30):
        fresh = rng.standard_normal((100, n, d))
        yield at_most(f"two tokens: error at length {n}", _distance(learned(fresh), model(fresh)), rounding)
    yield at_most("single tokens: lambda_min", abs(smallest[1]), 1e-9)
    yield at_least("single tokens: error at length 30", _distance(from_single(fresh), model(fresh)), left)


def _distance(found: np.ndarray, wanted: np.ndarray) -> float:
    return float(np.linalg.norm(found - wanted) / np.linalg.norm(wanted))

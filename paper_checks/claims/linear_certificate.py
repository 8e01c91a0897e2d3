"""Linear attention: regression, heads and certificate."""

from collections.abc import Iterator

import numpy as np
from numpy.random import Generator

from lower import all_sign_matrices
from paper_checks.claim import Basis, claim
from paper_checks.comparison import Comparison, at_least, at_most, close, equal
from paper_checks.faults import Fault
from runs import Scale
from upper.linear_attention import (
    LinearAttention,
    another_minimiser,
    certify,
    cubic_features,
    feature_count,
    feature_moment,
    features_from_tensor,
    make_linear_attention,
    regress,
)

_NO_FIRST = Fault(
    "upper.linear_attention.regression:regress",
    lambda right: lambda x, y, **named: right(x[1:], y[1:], **named),
    "the regression without the first example",
)


@claim("linear-certificate/threshold", source="derived here", basis=Basis.DERIVED, fault=_NO_FIRST)
def threshold(scale: Scale, rng: Generator) -> Iterator[Comparison]:
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
        yield at_least(f"{of}: fewer than D", _distance(fewer(fresh), model(fresh)), 0.01)
        yield at_most(f"{of}: N = D", _distance(exact(fresh), model(fresh)), 1e-9)
        yield at_most(f"{of}: N = 4 D", _distance(most(fresh), model(fresh)), 1e-13)


@claim(
    "linear-certificate/agnostic",
    source="Yau et al., arXiv 2410.10101, Algorithm 1 and Theorem 2.2; the identity is that of least squares",
    basis=Basis.PROVED,
    fault=_NO_FIRST,
)
def agnostic(scale: Scale, rng: Generator) -> Iterator[Comparison]:
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
        yield close(f"H = {heads}: excess over mean |Delta^T phi|^2", more / extra, 1.0, absolute=1e-9)


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
    "linear-certificate/deficit-zero",
    source="derived here",
    basis=Basis.PROVED,
    fault=Fault(
        "upper.linear_attention.certificate:certify",
        lambda right: lambda data, domain: right(domain, data),
        "examples and domain exchanged",
    ),
)
def deficit_zero(scale: Scale, rng: Generator) -> Iterator[Comparison]:
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
    yield close("the library's tau", certificate.factor, tau, relative=1e-8)
    yield at_most(
        "largest quotient of 1000 pairs of models, over tau", float(ratios[:-1].max()) / tau, 1 + 1e-8
    )
    yield close("quotient of the worst direction, over tau", float(ratios[-1]) / tau, 1.0, absolute=1e-8)
    moved = _distance(two.coefficients, one.coefficients)
    yield at_least("distance of two minimisers' coefficients, relative", moved, 0.1)
    yield at_most(
        "distance of their outputs on the domain, relative", _distance(two(domain), one(domain)), 1e-8
    )


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
def deficit_positive(scale: Scale, rng: Generator) -> Iterator[Comparison]:
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
    yield equal("signs: deficit", certify(signs, others).deficit, 12)
    yield equal("signs: largest difference on all of the data", np.abs(one(signs) - two(signs)).max(), 0)
    yield equal("signs: a difference elsewhere", bool(np.any(one(others) != two(others))), True)
    x, domain = np.array([[[1.0, 0.0]]]), np.array([[[1.0, 1.0]]])
    product = float((cubic_features(x) @ cubic_features(domain).T)[0, 0])
    yield close("one example: inner product of the features", product, 1.0, absolute=1e-12)
    yield equal("one example: deficit", certify(x, domain).deficit, 1)
    unit = np.eye(2)
    one = LinearAttention(unit[None, :1], np.diag([1.0, 0.0])[None])
    two = LinearAttention(
        np.stack([unit[:1], unit[1:]]), np.stack([np.diag([1.0, 0.0]), np.diag([0.0, 1.0])])
    )
    outputs = [float(model(at)[0, 0]) for at in (x, domain) for model in (one, two)]
    yield equal("one example: both models on it, both on the domain", outputs, [1, 1, 1, 2])


def _distance(found: np.ndarray, wanted: np.ndarray) -> float:
    return float(np.linalg.norm(found - wanted) / np.linalg.norm(wanted))

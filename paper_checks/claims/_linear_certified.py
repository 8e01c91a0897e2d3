"""Claims: what examples determine of linear attention on a domain, and what does not tell it."""

from collections.abc import Sequence

import numpy as np
from numpy.random import Generator

from paper_checks.check import Basis, Constants, Scale, check
from paper_checks.claims._linear_exact import (
    all_inputs,
    cubic,
    gap,
    pairs,
    rank,
    weighted,
)
from paper_checks.comparison import (
    Comparison,
    Kind,
    at_least,
    at_most,
    close,
    equal,
)
from paper_checks.faults import Fault
from upper.linear_attention import (
    LinearAttention,
    another_minimiser,
    certify,
    feature_count,
    feature_moment,
    make_linear_attention,
    regress,
)


@check(
    "linear-certificate/deficit-zero",
    claim="Where the deficit rank(Lambda_D + Lambda_X) - rank(Lambda_D) is 0, all empirical risk minimisers agree on "
    "the domain, and E_X |f - f*|^2 <= tau E_D |f - f*|^2 for any two models, tau the largest generalised eigenvalue "
    "of (Lambda_X, Lambda_D) on the range of Lambda_D, which is attained.",
    source="derived here",
    kind=Kind.NUMERIC,
    basis=Basis.PROVED,
    how="Data: all sign inputs of 2 tokens, domain: all of 3. tau is computed again from a pseudoinverse root, and the "
    "library's, its direction and its other minimisers are tried. Proof: the null directions of Lambda_D vanish on the "
    "domain, and the rest is a quotient of two forms.",
    constants={"domain_over_data": True, "rounding": 1e-8},
    wrong=Fault(
        "upper.linear_attention.certificate:certify",
        lambda right: lambda data, domain: right(domain, data),
        "examples and domain exchanged",
    ),
)
def deficit_zero(constants: Constants, scale: Scale, rng: Generator) -> Sequence[Comparison]:
    """Labels with noise: minimisers need not fit."""
    d = 3 if scale is Scale.QUICK else 4
    x, domain = (all_inputs((-1, 1), n, d).astype(float) for n in (2, 3))
    phi, phi_domain = weighted(x), weighted(domain)
    data, on_domain = (one.T @ one / len(one) for one in (phi, phi_domain))
    upper, lower = (on_domain, data) if constants["domain_over_data"] else (data, on_domain)
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
    moved = np.linalg.norm(two.coefficients - one.coefficients) / np.linalg.norm(one.coefficients)
    apart = np.abs(two(domain) - one(domain)).max() / np.abs(one(domain)).max()
    bound = constants["rounding"]
    return [
        equal("deficit", int(rank(cubic(np.rint(domain).astype(int)))) - rank(cubic(x.astype(int))), 0),
        close("the library's tau", certificate.factor, tau, relative=bound),
        at_most("largest quotient of 1000 pairs of models", float(ratios[:-1].max()), tau * (1 + bound)),
        close("quotient of the worst direction", float(ratios[-1]), tau, relative=bound),
        at_least("distance of two minimisers' coefficients, relative", float(moved), 0.1),
        at_most("distance of their outputs on the domain, relative", float(apart), bound),
    ]


@check(
    "linear-certificate/deficit-positive",
    claim="Where the deficit is positive two models agree on all of the data and differ on the domain: signs of 3 "
    "tokens in 4 dimensions against tokens of any numbers, deficit 12.",
    source="derived here",
    kind=Kind.EXACT,
    basis=Basis.PROVED,
    how="The ranks of all 4096 sign inputs, alone and together with random whole inputs, in whole numbers; two whole "
    "models that differ by a null tensor are run on both. Proof: a null direction of Lambda_D that Lambda_X sees.",
    constants={"deficit": 12},
    wrong=Fault(
        "upper.linear_attention.certificate:certify",
        lambda right: lambda x, domain: right(domain, x),
        "examples and domain exchanged",
    ),
)
def deficit_positive(constants: Constants, scale: Scale, rng: Generator) -> Sequence[Comparison]:
    """16 would forget that the trace acts: d^2 entries t_bbe."""
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
    return [
        equal("deficit", rank(cubic(both)) - rank(cubic(signs)), constants["deficit"]),
        equal(
            "the library's",
            certify(signs.astype(float), others.astype(float)).deficit,
            constants["deficit"],
        ),
        equal("largest difference on all of the data", gap(*on_signs), 0),
        equal("a difference elsewhere", gap(*on_others) > 0, True),
    ]


@check(
    "linear-certificate/restricted-eigenvalue",
    claim="That Lambda_D is positive definite on the range of Lambda_X certifies nothing: with one example z = (1, 0) "
    "and one domain input z = (1, 1), a token each, it is, yet two models agree on the first and differ on the second.",
    source="derived here",
    kind=Kind.EXACT,
    basis=Basis.PROVED,
    how="A counterexample in whole numbers: the features' inner product is (z . z')^3 = 1, so the form is positive; "
    "the ranks give deficit 1, and two whole models are run on both.",
    constants={"deficit": 1, "inner_product": 1},
    wrong=Fault(
        "upper.linear_attention.certificate:certify",
        lambda right: lambda x, domain: right(x, x),
        "the examples for the domain",
    ),
)
def restricted_eigenvalue(constants: Constants, scale: Scale, rng: Generator) -> Sequence[Comparison]:
    """G_00 z_0 and G_00 z_0 + G_11 z_0 are 1 and 1 on the data, 1 and 2 on the domain."""
    x, domain = np.array([[[1, 0]]]), np.array([[[1, 1]]])
    squared = np.repeat([1 if b == c else 2 for b, c in pairs(2)], 2)
    product = int(np.sum(cubic(x) * squared * cubic(domain)))
    unit = np.eye(2, dtype=int)
    one = LinearAttention(unit[None, :1], np.diag([1, 0])[None])
    two = LinearAttention(np.stack([unit[:1], unit[1:]]), np.array([[[1, 0], [0, 0]], [[0, 0], [1, 0]]]))
    values = [int(model(at.astype(float))[0, 0]) for at in (x, domain) for model in (one, two)]
    joint = rank(np.concatenate([cubic(x), cubic(domain)]))
    return [
        equal("inner product of the features, whose square is the form", product, constants["inner_product"]),
        equal("deficit", joint - rank(cubic(x)), constants["deficit"]),
        equal(
            "the library's",
            certify(x.astype(float), domain.astype(float)).deficit,
            constants["deficit"],
        ),
        equal("both models on the example, both on the domain", values, [1, 1, 1, 1 + constants["deficit"]]),
    ]


@check(
    "linear-certificate/every-length",
    claim="If lambda_min(Lambda_D) > 0 all minimisers agree on all inputs of every length: examples of 2 Gaussian "
    "tokens determine linear attention on 1, 5 and 30; examples of 1 token do not.",
    source="derived here",
    kind=Kind.NUMERIC,
    basis=Basis.PROVED,
    how="Least squares by NumPy on features of our own and by the library, from 3 D examples; relative errors on fresh "
    "inputs of each length. Proof: full rank determines the coefficients.",
    constants={"tokens": 2, "rounding": 1e-10, "short": 1, "left": 0.05},
    wrong={"tokens": 1},
)
def every_length(constants: Constants, scale: Scale, rng: Generator) -> Sequence[Comparison]:
    """Twice: with the number of tokens that suffices and with the one that does not."""
    d = 4 if scale is Scale.QUICK else 8
    model = make_linear_attention(heads=4, dim=d, rng=rng)
    fresh = [rng.standard_normal((100, n, d)) for n in (1, 5, 30)]
    errors, smallest = {}, {}
    for tokens in (constants["tokens"], constants["short"]):
        x = rng.standard_normal((3 * feature_count(d), tokens, d))
        phi = weighted(x)
        smallest[tokens] = float(np.linalg.eigvalsh(phi.T @ phi / len(x))[0])
        coefficients = np.linalg.lstsq(phi, model(x), rcond=1e-10)[0]
        learned = regress(x, model(x), least_norm=True)
        errors[tokens] = [
            float(np.linalg.norm(outputs - model(inputs)) / np.linalg.norm(model(inputs)))
            for inputs in fresh
            for outputs in (weighted(inputs) @ coefficients, learned(inputs))
        ]
    return [
        at_least("lambda_min", smallest[constants["tokens"]], 1e-6),
        at_most("largest error at lengths 1, 5, 30", max(errors[constants["tokens"]]), constants["rounding"]),
        at_most("lambda_min of single tokens", smallest[constants["short"]], 1e-9),
        at_least(
            "error at 30 of what single tokens teach", errors[constants["short"]][-1], constants["left"]
        ),
    ]

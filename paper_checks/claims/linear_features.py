"""Claims: Linear attention: features and ranks."""

from collections.abc import Sequence

import numpy as np
from numpy.random import Generator

from paper_checks.check import Basis, Constants, Scale, check
from paper_checks.claims._faults import ONE_WEIGHT
from paper_checks.claims._linear_exact import (
    cubic,
    gap,
    pairs,
    polynomials,
    rank,
    weighted,
)
from paper_checks.claims._linear_ranks import (
    constant_rank,
    gaussian_rank,
    gaussian_spectrum,
    one_hot_rank,
    sign_null_space,
    sign_rank,
    sign_spectrum,
)
from paper_checks.comparison import Comparison, Kind, at_least, at_most, close, equal
from paper_checks.faults import Fault
from upper.linear_attention import (
    LinearAttention,
    cubic_features,
    cubic_kernel,
    feature_count,
    features_from_tensor,
    make_linear_attention,
    regress,
)

__all__ = [
    "antisymmetric_pair",
    "constant_rank",
    "count",
    "gaussian_rank",
    "gaussian_spectrum",
    "kernel",
    "least_norm",
    "length_transfer",
    "one_hot_rank",
    "output",
    "same_function",
    "sign_null_space",
    "sign_rank",
    "sign_spectrum",
]

_SOURCE = "derived here, for the model of Yau et al., arXiv 2410.10101"


@check(
    "linear-features/count",
    claim="The products G_bc z_e of a Gram matrix G = Z Z^T and a query z in d dimensions are D = d^2 (d + 1)/2 "
    "different functions, because G is symmetric.",
    source=_SOURCE,
    kind=Kind.EXACT,
    basis=Basis.PROVED,
    how="For each d every product of all d^3 is written out as a polynomial in the entries of two tokens, and "
    "different ones are counted, beside the library's count. Proof: the monomials x_b x_c z_e of another token x are "
    "distinct.",
    constants={"in_the_bracket": 1, "at_8": 288},
    wrong=Fault(
        "upper.linear_attention.features:feature_count",
        lambda right: lambda d: d**3,
        "all d^3 products, though G is symmetric",
    ),
)
def count(constants: Constants, scale: Scale, rng: Generator) -> Sequence[Comparison]:
    """Polynomials as sorted lists of monomials."""
    dims = range(1, 9 if scale is Scale.QUICK else 17)
    found = [
        len(
            {
                tuple(sorted(tuple(sorted([(t, b), (t, c), (0, e)])) for t in (0, 1)))
                for b in range(d)
                for c in range(d)
                for e in range(d)
            }
        )
        for d in dims
    ]
    formula = [d**2 * (d + constants["in_the_bracket"]) // 2 for d in dims]
    return [
        equal("different products, d = 1, 2, ...", found, formula),
        equal("the library's count", [feature_count(d) for d in dims], formula),
        equal("at d = 8", found[7], constants["at_8"]),
    ]


@check(
    "linear-features/kernel",
    claim="With phi_(bc),e = w_bc G_bc z_e for b <= c, w_bb^2 = 1 and w_bc^2 = 2, the inner product of the features of "
    "two inputs is |Z^T Z'|_F^2 (z . z'), whatever their lengths.",
    source=_SOURCE,
    kind=Kind.EXACT,
    basis=Basis.PROVED,
    how="Both sides in whole numbers on random whole tokens of two lengths, the squares of the weights in a sum over "
    "features; the library's kernel is rounded to whole numbers first. Proof: both are the sum over all b, c of "
    "G_bc G'_bc, times z . z'.",
    constants={"off_diagonal_squared": 2},
    wrong=ONE_WEIGHT,
)
def kernel(constants: Constants, scale: Scale, rng: Generator) -> Sequence[Comparison]:
    """Whole numbers throughout."""
    dims, number = ((1, 2, 3, 5), 6) if scale is Scale.QUICK else ((1, 2, 3, 5, 8, 12), 20)
    comparisons = []
    for d in dims:
        x, other = rng.integers(-5, 6, (number, 4, d)), rng.integers(-5, 6, (number, 3, d))
        squared = np.repeat([1 if b == c else constants["off_diagonal_squared"] for b, c in pairs(d)], d)
        by_features = (cubic(x) * squared) @ cubic(other).T
        by_tokens = [[int(((a @ b.T) ** 2).sum() * (a[-1] @ b[-1])) for b in other] for a in x]
        comparisons += [
            equal(f"inner products, largest difference, d = {d}", gap(by_features, by_tokens), 0),
            equal(f"the library's kernel, d = {d}", gap(np.rint(cubic_kernel(x, other)), by_tokens), 0),
        ]
    return comparisons


@check(
    "linear-features/output",
    claim="The output sum_h V_h G Q_h z is linear in the features: it is the sum over b <= c and e of the coefficient "
    "M_abce + M_acbe (once on the diagonal b = c) times G_bc z_e, with M_abce = sum_h (V_h)_ab (Q_h)_ce.",
    source=_SOURCE,
    kind=Kind.EXACT,
    basis=Basis.PROVED,
    how="Whole random heads and tokens: matrix products head by head against coefficients times features in whole "
    "numbers, and the library's model and its coefficients rounded to whole numbers. Proof: expand, and G is "
    "symmetric.",
    constants={"swapped_share": 1},
    wrong=ONE_WEIGHT,
)
def output(constants: Constants, scale: Scale, rng: Generator) -> Sequence[Comparison]:
    """M is summed head by head."""
    heads, outputs, d = (3, 2, 4) if scale is Scale.QUICK else (7, 5, 8)
    v, q = rng.integers(-4, 5, (heads, outputs, d)), rng.integers(-4, 5, (heads, d, d))
    x = rng.integers(-4, 5, (12, 5, d))
    by_heads = [sum(v[h] @ (one.T @ one) @ q[h] @ one[-1] for h in range(heads)) for one in x]
    m = sum(v[h][:, :, None, None] * q[h][None, None] for h in range(heads))
    share = constants["swapped_share"]
    coefficients = np.array(
        [m[:, b, c, e] + (share * m[:, c, b, e] if b < c else 0) for b, c in pairs(d) for e in range(d)]
    )
    model = LinearAttention(v.astype(float), q.astype(float))
    by_library = cubic_features(x.astype(float)) @ features_from_tensor(model.tensor())
    return [
        equal("features times coefficients, largest difference", gap(cubic(x) @ coefficients, by_heads), 0),
        equal("the library's features and coefficients", gap(np.rint(by_library), by_heads), 0),
        equal("the library's model", gap(model(x.astype(float)), by_heads), 0),
    ]


@check(
    "linear-features/least-norm",
    claim="With w_bc^2 = 2 off the diagonal the solution of least norm on the D features is that of least norm on all "
    "d^3 coefficients, and of the same norm.",
    source=_SOURCE,
    kind=Kind.NUMERIC,
    basis=Basis.PROVED,
    how="Fewer examples than features: the least-norm solution on all d^3 products by a pseudoinverse, against that on "
    "weighted features, unfolded, and against the library's regression. Proof: an isometry of symmetric tensors.",
    constants={"off_diagonal_squared": 2.0, "rounding": 1e-8},
    wrong=ONE_WEIGHT,
)
def least_norm(constants: Constants, scale: Scale, rng: Generator) -> Sequence[Comparison]:
    """Both pseudoinverses are NumPy's."""
    d = 4 if scale is Scale.QUICK else 8
    number = feature_count(d) // 2
    model = make_linear_attention(heads=3, dim=d, rng=rng)
    x = rng.standard_normal((number, 6, d))
    y, z = model(x), x[:, -1]
    every = np.einsum("Ntb,Ntc,Ne->Nbce", x, x, z).reshape(number, -1)
    wanted = (np.linalg.pinv(every, rcond=1e-10) @ y).T.reshape(d, d, d, d)
    weight = constants["off_diagonal_squared"]
    coefficients = np.linalg.pinv(weighted(x, weight), rcond=1e-10) @ y
    found = np.zeros_like(wanted)
    for i, (b, c) in enumerate(pairs(d)):
        # G_bc and G_cb share one feature
        block = coefficients[i * d : (i + 1) * d].T * (1.0 if b == c else weight**0.5 / 2)
        found[:, b, c] = found[:, c, b] = block
    learned = regress(x, y, least_norm=True)
    size, bound = np.linalg.norm(wanted), constants["rounding"]
    return [
        at_most("distance of the tensors, relative", float(np.linalg.norm(found - wanted) / size), bound),
        close("norm on the features", float(np.linalg.norm(coefficients) / size), 1.0, absolute=bound),
        at_most(
            "distance of the library's tensor, relative",
            float(np.linalg.norm(learned.tensor - wanted) / size),
            bound,
        ),
    ]


@check(
    "linear-features/same-function",
    claim="Two models agree as functions of all inputs if and only if M + M^(swap bc) agrees; what does not act is "
    "exactly the part antisymmetric in b and c, d^2 (d - 1)/2 dimensions an output.",
    source=_SOURCE,
    kind=Kind.EXACT,
    basis=Basis.PROVED,
    how="The output as a polynomial in the entries of two tokens is linear in M: its kernel is computed in whole "
    "numbers, by its dimension, and compared with the tensors for which M + M^(swap bc) vanishes, each of a basis of "
    "which is put in. Proof: the monomials x_b x_c z_e.",
    constants={"swap_sign": 1},
    wrong={"swap_sign": -1},
)
def same_function(constants: Constants, scale: Scale, rng: Generator) -> Sequence[Comparison]:
    """A row of the map is a coefficient of the polynomial."""
    comparisons = []
    for d in (2, 3) if scale is Scale.QUICK else (2, 3, 4):
        columns = polynomials(d)
        names = {name: i for i, name in enumerate({name for one in columns for name in one})}
        to_polynomial = np.zeros((len(names), d**3), dtype=int)
        for i, column in enumerate(columns):
            for name, times in column.items():
                to_polynomial[names[name], i] = times
        unit = np.eye(d**3, dtype=int)
        swapped = unit.reshape(d, d, d, d**3).transpose(1, 0, 2, 3).reshape(d**3, d**3)
        condition = unit + constants["swap_sign"] * swapped  # M + M^(swap bc)
        both = np.concatenate([to_polynomial, condition])
        ranks = [rank(one) for one in (to_polynomial, condition, both)]
        # two kernels are equal if and only if either has the dimension of their intersection
        comparisons += [
            equal(f"dimension of what does not act, d = {d}", d**3 - ranks[0], d * d * (d - 1) // 2),
            equal(f"of M + M^swap = 0, and of both at once, d = {d}", ranks[1:], [ranks[0], ranks[0]]),
        ]
    return comparisons


@check(
    "linear-features/antisymmetric-pair",
    claim="The two heads V = E_01, Q = E_23 and V = -E_02, Q = E_13 together output exactly 0 on every input, though "
    "neither does alone.",
    source=_SOURCE,
    kind=Kind.EXACT,
    basis=Basis.PROVED,
    how="Whole tokens of several lengths, by products of whole matrices and by the library's model. Proof: "
    "G_12 z_3 - G_21 z_3 = 0.",
    constants={"second_value": -1},
    wrong={"second_value": 1},
)
def antisymmetric_pair(constants: Constants, scale: Scale, rng: Generator) -> Sequence[Comparison]:
    """In whole numbers."""
    v, q = np.zeros((2, 2, 4, 4), dtype=int)
    v[0, 0, 1] = q[0, 2, 3] = q[1, 1, 3] = 1
    v[1, 0, 2] = constants["second_value"]
    together, alone, by_library = 0, 0, 0
    for n in range(1, 7 if scale is Scale.QUICK else 30):
        x = rng.integers(-9, 10, (50, n, 4))
        parts = [[v[h] @ (one.T @ one) @ q[h] @ one[-1] for one in x] for h in range(2)]
        together += int(np.abs(np.sum(parts, axis=0)).sum())
        alone += int(np.abs(parts[0]).sum())
        by_library += int(np.abs(LinearAttention(v, q)(x.astype(float))).sum())
    return [
        equal("sum of the absolute outputs", together, 0),
        equal("the library's", by_library, 0),
        equal("the first head alone outputs something", alone > 0, True),
    ]


@check(
    "linear-features/length-transfer",
    claim="Learned from tokens in {-1, 1}^5 of length 4, linear attention is exact on such tokens of every length and "
    "wrong by more than 0.1 on Gaussian ones, until 20 Gaussian examples are added, which make the rank 75.",
    source="derived here",
    kind=Kind.NUMERIC,
    basis=Basis.DERIVED,
    how="Least squares of least norm by NumPy on features of our own and by the library, relative errors on fresh "
    "tokens of 1 to 30 places. 20 is the dimension of the null space, d (d - 1); one example fewer leaves an error.",
    constants={"added": 20, "rank": 75, "rounding": 1e-12, "repaired": 1e-9, "wrong_by": 0.1},
    wrong={"added": 19},
)
def length_transfer(constants: Constants, scale: Scale, rng: Generator) -> Sequence[Comparison]:
    """Three heads."""
    model = make_linear_attention(heads=3, dim=5, rng=rng)
    signs = rng.choice([-1.0, 1.0], (300, 4, 5))
    gaussian = rng.standard_normal((500, 4, 5))
    both = np.concatenate([signs, rng.standard_normal((constants["added"], 4, 5))])
    learned = regress(signs, model(signs), least_norm=True)
    coefficients = np.linalg.lstsq(weighted(signs), model(signs), rcond=1e-10)[0]
    repaired = regress(both, model(both), least_norm=True)

    def error(predicted: np.ndarray, x: np.ndarray) -> float:
        return float(np.linalg.norm(predicted - model(x)) / np.linalg.norm(model(x)))

    comparisons = []
    for n in (1, 2, 7, 30):
        longer = rng.choice([-1.0, 1.0], (300, n, 5))
        largest = max(error(learned(longer), longer), error(weighted(longer) @ coefficients, longer))
        comparisons.append(at_most(f"error at length {n}", largest, constants["rounding"]))
    return [
        *comparisons,
        at_least("on Gaussian tokens", error(learned(gaussian), gaussian), constants["wrong_by"]),
        equal("rank with Gaussian examples", int(np.linalg.matrix_rank(weighted(both))), constants["rank"]),
        at_most("error with them", error(repaired(gaussian), gaussian), constants["repaired"]),
    ]

"""Claims: Linear attention: features and ranks."""

import math
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
    polynomial_table,
    polynomials,
    rank,
    semidefinite,
    weighted,
)
from paper_checks.claims.tables import checks
from paper_checks.comparison import Comparison, at_least, at_most, close, equal
from upper.linear_attention import (
    LinearAttention,
    cubic_features,
    cubic_kernel,
    exact_rank,
    feature_count,
    features_from_tensor,
    make_linear_attention,
    population_moment,
    regress,
)


@checks("linear-features/count", lambda right: lambda d: d**3)
def count(claim: Constants, scale: Scale, rng: Generator) -> Iterator[Comparison]:
    """For each d, writes out all d^3 products as polynomials in the entries of two tokens, counts the
    different ones, and compares with the library's count. Proof: the monomials x_b x_c z_e of another token x
    are distinct.
    """
    dims = range(1, 9 if scale is Scale.QUICK else 17)
    found = [len({tuple(sorted(one.items())) for one in polynomials(d)}) for d in dims]
    formula = [d**2 * (d + claim.in_the_bracket) // 2 for d in dims]
    yield equal("different products, d = 1, 2, ...", found, formula)
    yield equal("the library's count", [feature_count(d) for d in dims], formula)
    yield equal("at d = 8", found[7], claim.at_8)


@checks("linear-features/kernel", ONE_WEIGHT)
def kernel(claim: Constants, scale: Scale, rng: Generator) -> Iterator[Comparison]:
    """Computes both sides in whole numbers on random whole tokens of two lengths, with the squares of the
    weights in a sum over features. The library's kernel is rounded to whole numbers first. Proof: both are
    the sum over all b, c of G_bc G'_bc, times z . z'.
    """
    dims, number = ((1, 2, 3, 5), 6) if scale is Scale.QUICK else ((1, 2, 3, 5, 8, 12), 20)
    for d in dims:
        x, other = rng.integers(-5, 6, (number, 4, d)), rng.integers(-5, 6, (number, 3, d))
        squared = np.repeat([1 if b == c else claim.off_diagonal_squared for b, c in pairs(d)], d)
        by_features = (cubic(x) * squared) @ cubic(other).T
        by_tokens = [[int(((a @ b.T) ** 2).sum() * (a[-1] @ b[-1])) for b in other] for a in x]
        yield equal(f"inner products, largest difference, d = {d}", gap(by_features, by_tokens), 0)
        yield equal(f"the library's kernel, d = {d}", gap(np.rint(cubic_kernel(x, other)), by_tokens), 0)


@checks("linear-features/output", ONE_WEIGHT)
def output(claim: Constants, scale: Scale, rng: Generator) -> Iterator[Comparison]:
    """Takes whole random heads and tokens. Compares matrix products head by head with coefficients times
    features in whole numbers. The library's model and its coefficients are rounded to whole numbers and
    compared too. Proof: expand the output; G is symmetric.
    """
    heads, outputs, d = (3, 2, 4) if scale is Scale.QUICK else (7, 5, 8)
    v, q = rng.integers(-4, 5, (heads, outputs, d)), rng.integers(-4, 5, (heads, d, d))
    x = rng.integers(-4, 5, (12, 5, d))
    by_heads = [sum(v[h] @ (one.T @ one) @ q[h] @ one[-1] for h in range(heads)) for one in x]
    m = sum(v[h][:, :, None, None] * q[h][None, None] for h in range(heads))
    share = claim.swapped_share
    coefficients = np.array(
        [m[:, b, c, e] + (share * m[:, c, b, e] if b < c else 0) for b, c in pairs(d) for e in range(d)]
    )
    model = LinearAttention(v.astype(float), q.astype(float))
    by_library = cubic_features(x.astype(float)) @ features_from_tensor(model.tensor())
    yield equal("features times coefficients, largest difference", gap(cubic(x) @ coefficients, by_heads), 0)
    yield equal("the library's features and coefficients", gap(np.rint(by_library), by_heads), 0)
    yield equal("the library's model", gap(model(x.astype(float)), by_heads), 0)


@checks("linear-features/least-norm", ONE_WEIGHT)
def least_norm(claim: Constants, scale: Scale, rng: Generator) -> Iterator[Comparison]:
    """Uses fewer examples than features. The least-norm solution on all d^3 products comes from a
    pseudoinverse. It is compared with the unfolded solution on weighted features, and with the library's
    regression. Proof: an isometry of symmetric tensors.
    """
    d = 4 if scale is Scale.QUICK else 8
    number = feature_count(d) // 2
    model = make_linear_attention(heads=3, dim=d, rng=rng)
    x = rng.standard_normal((number, 6, d))
    y, z = model(x), x[:, -1]
    every = np.einsum("Ntb,Ntc,Ne->Nbce", x, x, z).reshape(number, -1)
    wanted = (np.linalg.pinv(every, rcond=1e-10) @ y).T.reshape(d, d, d, d)
    weight = claim.off_diagonal_squared
    coefficients = np.linalg.pinv(weighted(x, weight), rcond=1e-10) @ y
    found = np.zeros_like(wanted)
    for i, (b, c) in enumerate(pairs(d)):
        # G_bc and G_cb share one feature
        block = coefficients[i * d : (i + 1) * d].T * (1.0 if b == c else weight**0.5 / 2)
        found[:, b, c] = found[:, c, b] = block
    learned = regress(x, y, least_norm=True)
    size, bound = np.linalg.norm(wanted), claim.rounding
    yield at_most("distance of the tensors, relative", distance(found, wanted), bound)
    yield close("norm on the features", float(np.linalg.norm(coefficients) / size), 1.0, absolute=bound)
    yield at_most("distance of the library's tensor, relative", distance(learned.tensor, wanted), bound)


@checks("linear-features/same-function")
def same_function(claim: Constants, scale: Scale, rng: Generator) -> Iterator[Comparison]:
    """The output as a polynomial in the entries of two tokens is linear in M. Its kernel is computed in whole
    numbers. The dimension is compared with that of the tensors for which M + M^(swap bc) vanishes, and each
    tensor of a basis of these is inserted. Proof: the monomials x_b x_c z_e are independent.
    """
    for d in (2, 3) if scale is Scale.QUICK else (2, 3, 4):
        to_polynomial = polynomial_table(d).T
        unit = np.eye(d**3, dtype=int)
        swapped = unit.reshape(d, d, d, d**3).transpose(1, 0, 2, 3).reshape(d**3, d**3)
        condition = unit + claim.swap_sign * swapped  # M + M^(swap bc)
        both = np.concatenate([to_polynomial, condition])
        ranks = [rank(one) for one in (to_polynomial, condition, both)]
        # two kernels are equal if and only if either has the dimension of their intersection
        yield equal(f"dimension of what does not act, d = {d}", d**3 - ranks[0], d * d * (d - 1) // 2)
        yield equal(f"of M + M^swap = 0, and of both at once, d = {d}", ranks[1:], [ranks[0], ranks[0]])


@checks("linear-features/antisymmetric-pair")
def antisymmetric_pair(claim: Constants, scale: Scale, rng: Generator) -> Iterator[Comparison]:
    """Takes whole tokens of several lengths, by products of whole matrices and by the library's model. Proof:
    G_12 z_3 - G_21 z_3 = 0.
    """
    v, q = np.zeros((2, 2, 4, 4), dtype=int)
    v[0, 0, 1] = q[0, 2, 3] = q[1, 1, 3] = 1
    v[1, 0, 2] = claim.second_value
    together, alone, by_library = 0, 0, 0
    for n in range(1, 7 if scale is Scale.QUICK else 30):
        x = rng.integers(-9, 10, (50, n, 4))
        parts = [[v[h] @ (one.T @ one) @ q[h] @ one[-1] for one in x] for h in range(2)]
        together += int(np.abs(np.sum(parts, axis=0)).sum())
        alone += int(np.abs(parts[0]).sum())
        by_library += int(np.abs(LinearAttention(v, q)(x.astype(float))).sum())
    yield equal("sum of the absolute outputs", together, 0)
    yield equal("the library's", by_library, 0)
    yield equal("the first head alone outputs something", alone > 0, True)


@checks("linear-features/length-transfer")
def length_transfer(claim: Constants, scale: Scale, rng: Generator) -> Iterator[Comparison]:
    """Solves least squares of least norm by NumPy on features of our own, and by the library. Relative errors
    are on fresh tokens of 1 to 30 places. The null space has dimension d (d - 1) = 20. One example fewer
    leaves an error.
    """
    model = make_linear_attention(heads=3, dim=5, rng=rng)
    signs = rng.choice([-1.0, 1.0], (300, 4, 5))
    gaussian = rng.standard_normal((500, 4, 5))
    both = np.concatenate([signs, rng.standard_normal((claim.added, 4, 5))])
    learned = regress(signs, model(signs), least_norm=True)
    coefficients = np.linalg.lstsq(weighted(signs), model(signs), rcond=1e-10)[0]
    repaired = regress(both, model(both), least_norm=True)
    for n in (1, 2, 7, 30):
        longer = rng.choice([-1.0, 1.0], (300, n, 5))
        both_ways = (learned(longer), weighted(longer) @ coefficients)
        largest = max(distance(one, model(longer)) for one in both_ways)
        yield at_most(f"error at length {n}", largest, claim.rounding)
    yield at_least("on Gaussian tokens", distance(learned(gaussian), model(gaussian)), claim.wrong_by)
    yield equal("rank with Gaussian examples", int(np.linalg.matrix_rank(weighted(both))), claim.rank)
    yield at_most("error with them", distance(repaired(gaussian), model(gaussian)), claim.repaired)


@checks("linear-features/gaussian-rank", lambda right: lambda tokens, d, n: right(tokens, d, max(n, 2)))
def gaussian_rank(claim: Constants, scale: Scale, rng: Generator) -> Iterator[Comparison]:
    """Computes the rank of the features as polynomials in the tokens' entries, in whole numbers. A Gaussian
    has no polynomial relations but identities. The library's formula and its exact moment are compared with
    it.
    """
    dims = (1, 2, 3, 4) if scale is Scale.QUICK else (1, 2, 3, 4, 5, 6)
    several, alone = ([rank(polynomial_table(d, n)) for d in dims] for n in (2, 1))
    shift = claim.forms_shift
    yield equal("n = 2", several, [d * d * (d + 1) // 2 for d in dims])
    yield equal("n = 1", alone, [math.comb(d + shift, 3) for d in dims])
    yield equal("at d = 4", [several[3], alone[3]], [claim.several_at_4, claim.one_at_4])
    yield equal(
        "the library's formula at d = 4, n = 2, 5 and 1",
        [exact_rank("gaussian", 4, n) for n in (2, 5, 1)],
        [claim.several_at_4, claim.several_at_4, claim.one_at_4],
    )
    yield equal(
        "rank of the exact moment, d = 3, n = 5", len(g := gaussian_moment(3, 5)) - semidefinite(g)[1], 18
    )


@checks("linear-features/sign-rank", lambda right: lambda tokens, d, n: right("gaussian", d, n))
def sign_rank(claim: Constants, scale: Scale, rng: Generator) -> Iterator[Comparison]:
    """Lists all inputs for n = 1 to 3 and computes the rank in whole numbers. For longer inputs the library's
    docstring argues that the null space is the same. The library's formula is compared.
    """
    dims = (1, 2, 3, 4) if scale is Scale.QUICK else (1, 2, 3, 4, 5)
    found = {n: [rank(cubic(all_inputs((-1, 1), n, d))) for d in dims] for n in (1, 2, 3)}
    linear = claim.from_diagonal  # the features G_bb z_e = n z_e
    several = [linear * d + d * d * (d - 1) // 2 for d in dims]
    yield equal("n = 2", found[2], several)
    yield equal("n = 3", found[3], several)
    yield equal("n = 1", found[1], [linear * d + math.comb(d, 3) for d in dims])
    yield equal("at d = 4", [found[3][3], found[1][3]], [claim.several_at_4, claim.one_at_4])
    yield equal("the library's, n = 3", [exact_rank("boolean", d, 3) for d in dims], found[3])
    yield equal("the library's, n = 1", [exact_rank("boolean", d, 1) for d in dims], found[1])


@checks("linear-features/constant-rank", lambda right: lambda tokens, d, n: right(tokens, d, 1))
def constant_rank(claim: Constants, scale: Scale, rng: Generator) -> Iterator[Comparison]:
    """Lists all inputs of 2 tokens, and of 3 up to d = 3, and computes the rank in whole numbers. Longer
    inputs rest on the argument in the library's docstring.
    """
    dims = (1, 2, 3, 4) if scale is Scale.QUICK else (1, 2, 3, 4, 5, 6)

    def found(n: int, d: int) -> int:
        signs = all_inputs((-1, 1), n, d)
        return rank(cubic(np.concatenate([signs, np.ones((len(signs), n, 1), dtype=int)], axis=2)))

    wanted = [1 + claim.linear * d + d * d + d * (d - 1) // 2 + d * d * (d - 1) // 2 for d in dims]
    two = [found(2, d) for d in dims]
    yield equal("n = 2", two, wanted)
    yield equal("n = 3", [found(3, d) for d in dims[:3]], wanted[:3])
    yield equal("at d = 4", two[3], claim.at_4)
    yield equal("the library's", [exact_rank("boolean-constant", d, 2) for d in dims], two)
    yield equal("of d + 1 signs", [exact_rank("boolean", d + 1, 2) for d in dims], two)


@checks("linear-features/one-hot-rank", lambda right: lambda tokens, d, n: right(tokens, d, 1))
def one_hot_rank(claim: Constants, scale: Scale, rng: Generator) -> Iterator[Comparison]:
    """Lists all inputs of 2 to 4 one-hot tokens and computes the rank in whole numbers. Proof for every n: G
    is the diagonal of the counts n_b. Let z be e and all other tokens b. Then sum_b c_b n_b = 0 says c_e + (n
    - 1) c_b = 0, so c = 0.
    """
    dims = (2, 3, 4) if scale is Scale.QUICK else (2, 3, 4, 5, 6)
    for n in (2, 3, 4):
        yield equal(
            f"n = {n}, d = 2, 3, ...",
            [rank(cubic(np.eye(d, dtype=int)[all_inputs(range(d), n, 1)[:, :, 0]])) for d in dims],
            [d**claim.power for d in dims],
        )
    yield equal("the library's", [exact_rank("one-hot", d, 3) for d in dims], [d * d for d in dims])


@checks("linear-features/gaussian-spectrum", lambda right: lambda tokens, d, n: right(tokens, d, n + 1))
def gaussian_spectrum(claim: Constants, scale: Scale, rng: Generator) -> Iterator[Comparison]:
    """Computes the exact moments by Isserlis' pairings in whole numbers. Whole elimination shows that the
    matrix less the eigenvalue is positive semidefinite with that nullity; at d = 2 it is definite. The
    library's moment, rounded, is the same. The check covers the sizes computed. The docstring of
    `population_moment` has the representation argument for all d.
    """
    sizes = (
        ((2, 4), (3, 2), (3, 4), (4, 5)) if scale is Scale.QUICK else ((2, 4), (3, 3), (4, 5), (5, 3), (5, 8))
    )
    for d, n in sizes:
        form = gaussian_moment(d, n)
        squared = np.repeat([1 if b == c else 2 for b, c in pairs(d)], d)
        value = claim.factor * (n - claim.less)
        # phi = w * G z: Lambda - value is semidefinite if and only if form - value / w^2 is
        shifted = 2 * form - np.diag([2 * value // int(one) for one in squared])
        by_library = population_moment("gaussian", d, n) / np.sqrt(np.outer(squared, squared))
        yield equal(
            f"semidefinite and its nullity, d = {d}, n = {n}",
            list(semidefinite(shifted)),
            [True, d * (d * d - 4) // 3],
        )
        yield equal(
            f"the library's moment, largest difference, d = {d}, n = {n}", gap(np.rint(by_library), form), 0
        )
    at = claim.factor * (5 - claim.less)
    yield equal("at d = 4, n = 5", at, claim.at_4_5)


@checks("linear-features/sign-spectrum", lambda right: lambda tokens, d, n: right("gaussian", d, n))
def sign_spectrum(claim: Constants, scale: Scale, rng: Generator) -> Iterator[Comparison]:
    """Computes the moment over all 4096 inputs and its eigenvalues in floating point. They agree with the
    figures within half their last digit and with the closed form within rounding. Twelve of them are 0.
    """
    x = all_inputs((-1, 1), 3, 4)
    phi = weighted(x)
    values = np.linalg.eigvalsh(phi.T @ phi / len(x))
    distinct = values[np.append(True, np.diff(values) > 1e-6)]
    bound = claim.rounding
    yield equal("number of different eigenvalues", len(distinct), len(claim.spectrum))
    for i, (value, wanted) in enumerate(zip(distinct, claim.spectrum, strict=False)):
        yield close(f"eigenvalue {i}", float(value), wanted, absolute=claim.half_digit)
    yield equal("zeros", int((values < 1e-6).sum()), claim.nullity)
    yield close("the second", float(distinct[1]), 23 - math.sqrt(385), absolute=bound)
    yield close("the last", float(distinct[-1]), 23 + math.sqrt(385), absolute=bound)
    yield at_most(
        "distance of the library's moment",
        float(np.abs(population_moment("boolean", 4, 3) - phi.T @ phi / len(x)).max()),
        bound,
    )


@checks("linear-features/sign-null-space", lambda right: lambda values, n, d: right((0, 1), n, d))
def sign_null_space(claim: Constants, scale: Scale, rng: Generator) -> Iterator[Comparison]:
    """Takes all inputs of 2 and 3 tokens. Inserts a basis of these tensors in whole numbers and compares its
    size with the nullity, so there are no others. For any n the diagonal of G is n. That nothing else
    vanishes rests on n = 2.
    """
    for n, d in (
        ((2, 3), (3, 3), (2, 4)) if scale is Scale.QUICK else ((2, 3), (3, 3), (3, 4), (2, 5), (2, 6))
    ):
        phi = cubic(all_inputs((-1, 1), n, d))
        place = {pair: i * d for i, pair in enumerate(pairs(d))}
        basis = np.zeros((d * (d - 1), phi.shape[1]), dtype=int)
        for row, (b, e) in enumerate((b, e) for b in range(1, d) for e in range(d)):
            basis[row, place[0, 0] + e] = 1
            basis[row, place[b, b] + e] = claim.sum_over_b - 1
        yield equal(f"largest output, n = {n}, d = {d}", int(np.abs(phi @ basis.T).max()), 0)
        yield equal(f"dimension of the null space, n = {n}, d = {d}", phi.shape[1] - rank(phi), rank(basis))

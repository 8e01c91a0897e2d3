"""Linear attention: features and ranks."""

import math
from collections.abc import Iterator
from itertools import product

import numpy as np
from numpy.random import Generator

from lower import all_sign_matrices
from paper_checks.claim import Basis, claim
from paper_checks.comparison import Comparison, close, equal
from paper_checks.faults import Fault, returned
from runs import Scale
from upper.linear_attention import (
    LinearAttention,
    cubic_features,
    cubic_kernel,
    exact_rank,
    feature_count,
    features_from_tensor,
    population_moment,
)
from upper.linear_attention.populations import Tokens

_SOURCE = "derived here, for the model of Yau et al., arXiv 2410.10101"
_ONE_WEIGHT = Fault(
    "upper.linear_attention.features:_weights",
    returned(np.ones_like),
    "features of weight 1 off the diagonal, too",
)


@claim("linear-features/output", source=_SOURCE, basis=Basis.PROVED, fault=_ONE_WEIGHT)
def output(scale: Scale, rng: Generator) -> Iterator[Comparison]:
    """Let G = Z Z^T be a Gram matrix and z a query in d dimensions. The products G_bc z_e are D = d^2 (d + 1)/2
    different functions, because G is symmetric: 288 at d = 8. The output sum_h V_h G Q_h z is linear in them, with the
    coefficient M_abce + M_acbe of G_bc z_e (once on the diagonal b = c), where M_abce = sum_h (V_h)_ab (Q_h)_ce. With
    the weights 1 on the diagonal and sqrt 2 off it the inner product of the features of two inputs is |Z^T Z'|_F^2 (z .
    z'), for inputs of any lengths.

    Takes whole random heads and tokens, and compares features and coefficients of the library, rounded, with matrix
    products head by head. Proof: expand the output; the kernel is the sum over all b, c of G_bc G'_bc, times z . z'.
    """
    heads, outputs, d = (3, 2, 4) if scale is Scale.QUICK else (7, 5, 8)
    v, q = rng.integers(-4, 5, (heads, outputs, d)), rng.integers(-4, 5, (heads, d, d))
    x, other = rng.integers(-4, 5, (12, 5, d)), rng.integers(-4, 5, (9, 3, d))
    by_heads = [sum(v[h] @ (one.T @ one) @ q[h] @ one[-1] for h in range(heads)) for one in x]
    model = LinearAttention(v.astype(float), q.astype(float))
    phi, phi_other = cubic_features(x.astype(float)), cubic_features(other.astype(float))
    gap = np.abs(np.rint(phi @ features_from_tensor(model.tensor())) - by_heads).max()
    yield equal("features", [phi.shape[1], feature_count(8)], [d * d * (d + 1) // 2, 288])
    yield equal("features times coefficients, largest difference", gap, 0)
    yield equal("the model, largest difference", np.abs(model(x.astype(float)) - by_heads).max(), 0)
    kernel = np.array([[int(((a @ b.T) ** 2).sum() * (a[-1] @ b[-1])) for b in other] for a in x])
    yield equal("inner products, largest difference", np.abs(np.rint(phi @ phi_other.T) - kernel).max(), 0)
    by_library = cubic_kernel(x.astype(float), other.astype(float))
    yield equal("the library's kernel, largest difference", np.abs(np.rint(by_library) - kernel).max(), 0)


@claim("linear-features/same-function", source=_SOURCE, basis=Basis.PROVED, fault={"swap_sign": -1})
def same_function(scale: Scale, rng: Generator, *, swap_sign: int = 1) -> Iterator[Comparison]:
    """Two models agree as functions of all inputs if and only if M + M^(swap bc) agrees. Exactly the part antisymmetric
    in b and c does not act. It has d^2 (d - 1)/2 dimensions an output. So the two heads V = E_01, Q = E_23 and V =
    -E_02, Q = E_13 together output exactly 0 on every input, and neither does so alone.

    The monomials x_b x_c z_e of another token x than the query are independent. Evaluates all d^3 products at whole
    random inputs of two tokens. The exact rank of these evaluations, of the tensors M + M^(swap bc), and of both
    together is the same, so both vanish on the same tensors.
    """
    for d in (2, 3) if scale is Scale.QUICK else (2, 3, 4):
        x = rng.integers(-9, 10, (2 * d**3, 2, d))
        evaluated = np.einsum("ntb,ntc,ne->nbce", x, x, x[:, -1]).reshape(len(x), -1)
        unit = np.eye(d**3, dtype=int).reshape(d, d, d, -1)
        condition = (unit + swap_sign * unit.transpose(1, 0, 2, 3)).reshape(d**3, -1)
        ranks = [_rank(rows) for rows in (evaluated, condition, np.concatenate([evaluated, condition]))]
        yield equal(f"d = {d}: ranks of both and together", ranks, [d * d * (d + 1) // 2] * 3)
    v, q = np.zeros((2, 2, 4, 4))
    v[0, 0, 1] = q[0, 2, 3] = q[1, 1, 3] = 1
    v[1, 0, 2] = -1
    x = rng.integers(-9, 10, (200, 5, 4)).astype(float)
    yield equal("the pair, largest output", np.abs(LinearAttention(v, q)(x)).max(), 0)
    alone = [bool(np.any(LinearAttention(v[[h]], q[[h]])(x))) for h in range(2)]
    yield equal("each alone outputs something", alone, [True, True])


@claim(
    "linear-features/ranks",
    source=_SOURCE,
    basis=Basis.DERIVED,
    fault=Fault(
        "upper.linear_attention.populations:exact_rank",
        lambda right: lambda tokens, d, n: right(tokens, d, 3 - min(n, 2)),
        "the ranks of single and of several tokens exchanged",
    ),
)
def ranks(scale: Scale, rng: Generator) -> Iterator[Comparison]:
    """The features have rank D = d^2 (d + 1)/2 on Gaussian tokens, n >= 2, and C(d + 2, 3) for n = 1; d + d^2 (d - 1)/2
    on tokens in {-1, 1}^d, n >= 2, and d + C(d, 3) for n = 1; 1 + 2 d + d^2 + d (d - 1)/2 + d^2 (d - 1)/2 on signs with
    a constant coordinate, n >= 2, which is the rank of d + 1 signs; and d^2 on one-hot tokens, n >= 2. At d = 4 these
    are 40, 20, 28, 8, 55 and 16.

    Exact ranks in whole numbers. Gaussian tokens: of the products at random whole inputs, which have no more relations
    than the polynomials; the ranks are the numbers of different monomials, so they are proved. Signs: of all inputs, n
    = 1 to 3. One-hot: of all inputs, n = 2 to 4. For longer inputs the library's docstring argues. For one-hot tokens:
    G is the diagonal of the counts n_b; let z be e and all other tokens b, then sum_b c_b n_b = 0 says c_e + (n - 1)
    c_b = 0, so c = 0. The library's formula is compared.
    """
    for d in (2, 3, 4) if scale is Scale.QUICK else (2, 3, 4, 5):
        whole = {n: rng.integers(-9, 10, (2 * d * d * (d + 1), n, d)) for n in (1, 2)}
        signs = {n: all_sign_matrices(n, d).astype(int) for n in (1, 2, 3)}
        constant = np.concatenate([signs[2], np.ones((4**d, 2, 1), dtype=int)], axis=2)
        one_hot = {n: np.eye(d, dtype=int)[list(product(range(d), repeat=n))] for n in (2, 3, 4)}
        squares = d * d * (d - 1) // 2
        found: list[tuple[Tokens, int, np.ndarray, int]] = [
            ("gaussian", 2, whole[2], d * d + squares),
            ("gaussian", 1, whole[1], math.comb(d + 2, 3)),
            ("boolean", 1, signs[1], d + math.comb(d, 3)),
            *(("boolean", n, signs[n], d + squares) for n in (2, 3)),
            ("boolean-constant", 2, constant, 1 + 2 * d + d * d + d * (d - 1) // 2 + squares),
            *(("one-hot", n, one_hot[n], d * d) for n in (2, 3, 4)),
        ]
        for tokens, n, x, formula in found:
            by_both = [_cubic_rank(x), exact_rank(tokens, d, n)]
            yield equal(f"{tokens}, d = {d}, n = {n}: rank, the library's", by_both, [formula] * 2)


@claim(
    "linear-features/spectra",
    source="derived here, for the model of Yau et al., arXiv 2410.10101; the closed form of the two is found here",
    basis=Basis.DERIVED,
    fault=Fault(
        "upper.linear_attention.populations:population_moment",
        lambda right: lambda tokens, d, n: right(tokens, d, n + 1),
        "the moment of one token more",
    ),
)
def spectra(scale: Scale, rng: Generator) -> Iterator[Comparison]:
    """The smallest eigenvalue of E phi phi^T for n independent N(0, I) tokens is exactly 2 (n - 1) for every d >= 3: 8
    at d = 4, n = 5. Its multiplicity is d (d^2 - 4)/3. For three independent tokens uniform in {-1, 1}^4 the
    eigenvalues are 0, 3.3786, 4, 10 and 42.6214. The second and the last are 23 -+ sqrt 385.

    Computes eigenvalues of the library's exact moments, which the tests compare with quadrature and enumeration. The
    check covers the sizes computed. The docstring of `population_moment` has the argument for all d.
    """
    for d, n in (
        ((3, 2), (3, 4), (4, 5)) if scale is Scale.QUICK else ((3, 2), (3, 4), (4, 5), (5, 3), (6, 8))
    ):
        values = np.linalg.eigvalsh(population_moment("gaussian", d, n))
        yield close(f"d = {d}, n = {n}: smallest", float(values[0]), 2.0 * (n - 1), relative=1e-9)
        many = int((values < values[0] * (1 + 1e-6)).sum())
        yield equal(f"d = {d}, n = {n}: its multiplicity", many, d * (d * d - 4) // 3)
        if (d, n) == (4, 5):
            yield close("d = 4, n = 5: smallest", float(values[0]), 8.0, relative=1e-9)
    values = np.linalg.eigvalsh(population_moment("boolean", 4, 3))
    distinct = values[np.append(True, np.diff(values) > 1e-6)]
    yield equal("signs: different eigenvalues, zeros", [len(distinct), int((values < 1e-6).sum())], [5, 12])
    for i, figure in enumerate((0.0, 3.3786, 4.0, 10.0, 42.6214)):
        yield close(
            f"signs: eigenvalue {i}", float(np.append(distinct, np.zeros(5))[i]), figure, absolute=5e-5
        )
    yield close("signs: the second", float(distinct[1]), 23 - math.sqrt(385), absolute=1e-9)
    yield close("signs: the last", float(distinct[-1]), 23 + math.sqrt(385), absolute=1e-9)


def _cubic_rank(x: np.ndarray) -> int:
    """The exact rank of the products G_bc z_e, b <= c, at whole tokens."""
    gram = np.einsum("ntb,ntc->nbc", x, x)[:, *np.triu_indices(x.shape[2])]
    return _rank(np.einsum("np,ne->npe", gram, x[:, -1]).reshape(len(x), -1))


def _rank(rows: np.ndarray) -> int:
    """The exact rank of a whole matrix, as that of its products with itself."""
    from sympy import ZZ
    from sympy.polys.matrices import DomainMatrix

    gram = rows.T @ rows
    return DomainMatrix([[ZZ(int(one)) for one in row] for row in gram], gram.shape, ZZ).to_field().rank()

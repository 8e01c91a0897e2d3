"""Claims: the ranks and spectra of cubic features on known distributions of tokens."""

import math
from collections.abc import Sequence

import numpy as np
from numpy.random import Generator

from paper_checks.check import Basis, Constants, Scale, check
from paper_checks.claims._linear_exact import (
    all_inputs,
    cubic,
    gap,
    gaussian_moment,
    pairs,
    polynomials,
    rank,
    semidefinite,
    weighted,
)
from paper_checks.comparison import Comparison, Kind, at_most, close, equal
from paper_checks.faults import Fault
from upper.linear_attention import (
    exact_rank,
    population_moment,
)

_SOURCE = "derived here, for the model of Yau et al., arXiv 2410.10101"


@check(
    "linear-features/gaussian-rank",
    claim="On Gaussian tokens the features have rank D = d^2 (d + 1)/2 for n >= 2 tokens and C(d + 2, 3) = "
    "d (d + 1)(d + 2)/6 for n = 1: at d = 4, 40 and 20.",
    source=_SOURCE,
    kind=Kind.EXACT,
    basis=Basis.PROVED,
    how="The rank of the features as polynomials in the tokens' entries, in whole numbers; a Gaussian has no "
    "polynomial relations but identities. The library's formula and its exact moment are held to the same.",
    constants={"several_at_4": 40, "one_at_4": 20, "forms_shift": 2},
    wrong=Fault(
        "upper.linear_attention.populations:exact_rank",
        lambda right: lambda tokens, d, n: right(tokens, d, max(n, 2)),
        "the rank of several tokens for single ones",
    ),
)
def gaussian_rank(constants: Constants, scale: Scale, rng: Generator) -> Sequence[Comparison]:
    """Rank of the coefficients of polynomials."""
    dims = (1, 2, 3, 4) if scale is Scale.QUICK else (1, 2, 3, 4, 5, 6)
    several: list[int] = []
    alone: list[int] = []
    for d in dims:
        for n, found in ((2, several), (1, alone)):
            columns = polynomials(d, n)
            names = {name: i for i, name in enumerate({name for one in columns for name in one})}
            table = np.zeros((len(columns), len(names)), dtype=int)
            for i, column in enumerate(columns):
                for name, times in column.items():
                    table[i, names[name]] = times
            found.append(rank(table))
    shift = constants["forms_shift"]
    return [
        equal("n = 2", several, [d * d * (d + 1) // 2 for d in dims]),
        equal("n = 1", alone, [math.comb(d + shift, 3) for d in dims]),
        equal("at d = 4", [several[3], alone[3]], [constants["several_at_4"], constants["one_at_4"]]),
        equal(
            "the library's formula at d = 4, n = 2, 5 and 1",
            [exact_rank("gaussian", 4, n) for n in (2, 5, 1)],
            [constants["several_at_4"], constants["several_at_4"], constants["one_at_4"]],
        ),
        equal(
            "rank of the exact moment, d = 3, n = 5", len(g := gaussian_moment(3, 5)) - semidefinite(g)[1], 18
        ),
    ]


@check(
    "linear-features/sign-rank",
    claim="On tokens in {-1, 1}^d the features have rank d + d^2 (d - 1)/2 for n >= 2 tokens and d + C(d, 3) for n = "
    "1: at d = 4, 28 and 8.",
    source=_SOURCE,
    kind=Kind.EXACT,
    basis=Basis.DERIVED,
    how="All inputs are listed, for n = 1 to 3, and the rank is computed in whole numbers; for longer inputs the "
    "library's docstring argues that the null space is the same. The library's formula is compared.",
    constants={"several_at_4": 28, "one_at_4": 8, "from_diagonal": 1},
    wrong=Fault(
        "upper.linear_attention.populations:exact_rank",
        lambda right: lambda tokens, d, n: right("gaussian", d, n),
        "the rank of Gaussian tokens",
    ),
)
def sign_rank(constants: Constants, scale: Scale, rng: Generator) -> Sequence[Comparison]:
    """Everything is enumerated."""
    dims = (1, 2, 3, 4) if scale is Scale.QUICK else (1, 2, 3, 4, 5)
    found = {n: [rank(cubic(all_inputs((-1, 1), n, d))) for d in dims] for n in (1, 2, 3)}
    linear = constants["from_diagonal"]  # the features G_bb z_e = n z_e
    several = [linear * d + d * d * (d - 1) // 2 for d in dims]
    return [
        equal("n = 2", found[2], several),
        equal("n = 3", found[3], several),
        equal("n = 1", found[1], [linear * d + math.comb(d, 3) for d in dims]),
        equal("at d = 4", [found[3][3], found[1][3]], [constants["several_at_4"], constants["one_at_4"]]),
        equal("the library's, n = 3", [exact_rank("boolean", d, 3) for d in dims], found[3]),
        equal("the library's, n = 1", [exact_rank("boolean", d, 1) for d in dims], found[1]),
    ]


@check(
    "linear-features/constant-rank",
    claim="On tokens in {-1, 1}^d with a constant coordinate, n >= 2, the rank is 1 + 2 d + d^2 + d (d - 1)/2 + "
    "d^2 (d - 1)/2, which is that of d + 1 signs: 55 at d = 4.",
    source=_SOURCE,
    kind=Kind.EXACT,
    basis=Basis.DERIVED,
    how="All inputs of 2 tokens, and of 3 up to d = 3, are listed, and the rank is computed in whole numbers. Longer "
    "inputs rest on the argument in the library's docstring.",
    constants={"at_4": 55, "linear": 2},
    wrong=Fault(
        "upper.linear_attention.populations:exact_rank",
        lambda right: lambda tokens, d, n: right(tokens, d, 1),
        "the rank of single tokens",
    ),
)
def constant_rank(constants: Constants, scale: Scale, rng: Generator) -> Sequence[Comparison]:
    """The last coordinate is one."""
    dims = (1, 2, 3, 4) if scale is Scale.QUICK else (1, 2, 3, 4, 5, 6)

    def found(n: int, d: int) -> int:
        signs = all_inputs((-1, 1), n, d)
        return rank(cubic(np.concatenate([signs, np.ones((len(signs), n, 1), dtype=int)], axis=2)))

    wanted = [1 + constants["linear"] * d + d * d + d * (d - 1) // 2 + d * d * (d - 1) // 2 for d in dims]
    two = [found(2, d) for d in dims]
    return [
        equal("n = 2", two, wanted),
        equal("n = 3", [found(3, d) for d in dims[:3]], wanted[:3]),
        equal("at d = 4", two[3], constants["at_4"]),
        equal("the library's", [exact_rank("boolean-constant", d, 2) for d in dims], two),
        equal("of d + 1 signs", [exact_rank("boolean", d + 1, 2) for d in dims], two),
    ]


@check(
    "linear-features/one-hot-rank",
    claim="On one-hot tokens, n >= 2, the features have rank d^2.",
    source=_SOURCE,
    kind=Kind.EXACT,
    basis=Basis.PROVED,
    how="All inputs of 2 to 4 one-hot tokens are listed, and the rank is computed in whole numbers. Proof for every n: "
    "G is the diagonal of the counts n_b, and where z is e and all other tokens are b, sum_b c_b n_b = 0 says "
    "c_e + (n - 1) c_b = 0, so c = 0.",
    constants={"power": 2},
    wrong=Fault(
        "upper.linear_attention.populations:exact_rank",
        lambda right: lambda tokens, d, n: right(tokens, d, 1),
        "the rank of single tokens",
    ),
)
def one_hot_rank(constants: Constants, scale: Scale, rng: Generator) -> Sequence[Comparison]:
    """One token alone has rank d only: not claimed, but shown."""
    dims = (2, 3, 4) if scale is Scale.QUICK else (2, 3, 4, 5, 6)
    return [
        equal(
            f"n = {n}, d = 2, 3, ...",
            [rank(cubic(np.eye(d, dtype=int)[all_inputs(range(d), n, 1)[:, :, 0]])) for d in dims],
            [d ** constants["power"] for d in dims],
        )
        for n in (2, 3, 4)
    ] + [equal("the library's", [exact_rank("one-hot", d, 3) for d in dims], [d * d for d in dims])]


@check(
    "linear-features/gaussian-spectrum",
    claim="The smallest eigenvalue of E phi phi^T for n independent N(0, I) tokens is exactly 2 (n - 1) for every "
    "d >= 3, d (d^2 - 4)/3 times: 8 at d = 4, n = 5.",
    source=_SOURCE,
    kind=Kind.EXACT,
    basis=Basis.DERIVED,
    how="The exact moments by Isserlis' pairings in whole numbers; less the eigenvalue the matrix is positive "
    "semidefinite, of that nullity, by whole elimination; at d = 2 it is definite. The library's moment is the same, "
    "rounded. For the sizes computed; the representation argument for all d is in `population_moment`'s docstring.",
    constants={"factor": 2, "less": 1, "at_4_5": 8},
    wrong=Fault(
        "upper.linear_attention.populations:population_moment",
        lambda right: lambda tokens, d, n: right(tokens, d, n + 1),
        "the moment of one token more",
    ),
)
def gaussian_spectrum(constants: Constants, scale: Scale, rng: Generator) -> Sequence[Comparison]:
    """The weights turn a form on coefficients into the moment's own: squares 1 and 2 beside the eigenvalue."""
    sizes = (
        ((2, 4), (3, 2), (3, 4), (4, 5)) if scale is Scale.QUICK else ((2, 4), (3, 3), (4, 5), (5, 3), (5, 8))
    )
    comparisons = []
    for d, n in sizes:
        form = gaussian_moment(d, n)
        squared = np.repeat([1 if b == c else 2 for b, c in pairs(d)], d)
        value = constants["factor"] * (n - constants["less"])
        # phi = w * G z: Lambda - value is semidefinite if and only if form - value / w^2 is
        shifted = 2 * form - np.diag([2 * value // int(one) for one in squared])
        by_library = population_moment("gaussian", d, n) / np.sqrt(np.outer(squared, squared))
        comparisons += [
            equal(
                f"semidefinite and its nullity, d = {d}, n = {n}",
                list(semidefinite(shifted)),
                [True, d * (d * d - 4) // 3],
            ),
            equal(
                f"the library's moment, largest difference, d = {d}, n = {n}",
                gap(np.rint(by_library), form),
                0,
            ),
        ]
    at = constants["factor"] * (5 - constants["less"])
    return [*comparisons, equal("at d = 4, n = 5", at, constants["at_4_5"])]


@check(
    "linear-features/sign-spectrum",
    claim="For three independent tokens uniform in {-1, 1}^4 the eigenvalues of E phi phi^T are 0, 3.3786, 4, 10 and "
    "42.6214; the second and the last are 23 -+ sqrt 385.",
    source="derived here; the closed form of the two is found here",
    kind=Kind.NUMERIC,
    basis=Basis.DERIVED,
    how="The moment over all 4096 inputs, its eigenvalues in floating point against the figures within half their last "
    "digit and against the closed form within rounding; twelve of them are 0.",
    constants={
        "spectrum": (0.0, 3.3786, 4.0, 10.0, 42.6214),
        "half_digit": 5e-5,
        "nullity": 12,
        "rounding": 1e-9,
    },
    wrong=Fault(
        "upper.linear_attention.populations:population_moment",
        lambda right: lambda tokens, d, n: right("gaussian", d, n),
        "the moment of Gaussian tokens",
    ),
)
def sign_spectrum(constants: Constants, scale: Scale, rng: Generator) -> Sequence[Comparison]:
    """Distinct eigenvalues are told apart at 1e-6."""
    x = all_inputs((-1, 1), 3, 4)
    phi = weighted(x)
    values = np.linalg.eigvalsh(phi.T @ phi / len(x))
    distinct = values[np.append(True, np.diff(values) > 1e-6)]
    bound = constants["rounding"]
    return [
        equal("number of different eigenvalues", len(distinct), len(constants["spectrum"])),
        *(
            close(f"eigenvalue {i}", float(value), wanted, absolute=constants["half_digit"])
            for i, (value, wanted) in enumerate(zip(distinct, constants["spectrum"], strict=False))
        ),
        equal("zeros", int((values < 1e-6).sum()), constants["nullity"]),
        close("the second", float(distinct[1]), 23 - math.sqrt(385), absolute=bound),
        close("the last", float(distinct[-1]), 23 + math.sqrt(385), absolute=bound),
        at_most(
            "distance of the library's moment",
            float(np.abs(population_moment("boolean", 4, 3) - phi.T @ phi / len(x)).max()),
            bound,
        ),
    ]


@check(
    "linear-features/sign-null-space",
    claim="For n >= 2 tokens in {-1, 1}^d the symmetric tensors t that output 0 everywhere are those with t_bce = 0 "
    "for b != c and sum_b t_bbe = 0 for each e: d (d - 1) dimensions.",
    source=_SOURCE,
    kind=Kind.EXACT,
    basis=Basis.DERIVED,
    how="All inputs of 2 and 3 tokens: a basis of these tensors is put in, in whole numbers, and its size is held to "
    "the nullity, so that there are no others. Any n: the diagonal of G is n; that nothing else vanishes rests on n = "
    "2.",
    constants={"sum_over_b": 0},
    wrong=Fault(
        "paper_checks.claims._linear_exact:all_inputs",
        lambda right: lambda values, n, d: right((0, 1), n, d),
        "tokens of 0 and 1",
    ),
)
def sign_null_space(constants: Constants, scale: Scale, rng: Generator) -> Sequence[Comparison]:
    """A basis: 1 at (0, 0, e) and so much at (b, b, e) that the sum is what it should be."""
    comparisons = []
    for n, d in (
        ((2, 3), (3, 3), (2, 4)) if scale is Scale.QUICK else ((2, 3), (3, 3), (3, 4), (2, 5), (2, 6))
    ):
        phi = cubic(all_inputs((-1, 1), n, d))
        place = {pair: i * d for i, pair in enumerate(pairs(d))}
        basis = np.zeros((d * (d - 1), phi.shape[1]), dtype=int)
        for row, (b, e) in enumerate((b, e) for b in range(1, d) for e in range(d)):
            basis[row, place[0, 0] + e] = 1
            basis[row, place[b, b] + e] = constants["sum_over_b"] - 1
        comparisons += [
            equal(f"largest output, n = {n}, d = {d}", int(np.abs(phi @ basis.T).max()), 0),
            equal(f"dimension of the null space, n = {n}, d = {d}", phi.shape[1] - rank(phi), rank(basis)),
        ]
    return comparisons

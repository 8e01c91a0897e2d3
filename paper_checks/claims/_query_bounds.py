"""Claims on what one statistical query can rule out, and on the dimensions that follow."""

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import combinations
from math import ceil, comb

import numpy as np
from numpy.random import Generator

from paper_checks.check import Basis, Constants, Scale, check
from paper_checks.claims._gated_parities import all_inputs, hidden_parity, secrets_of
from paper_checks.comparison import Comparison, Kind, at_most, close, equal
from paper_checks.faults import Fault, returned
from sq import (
    VSTAT,
    BumpFamily,
    SecretSet,
    closed_form_gram,
    full_query_cap,
    maximum_clique,
    orthogonal_cap,
    overlap_graph,
    packing_bound,
    reference_gram,
    spectral_cap,
    statistical_dimension,
    szorenyi_cap,
    vstat_calls,
)

__all__ = [
    "cliques",
    "correlational_cap",
    "identification",
    "most_correlated",
    "reference_dimension",
    "statistical_cap",
    "szorenyi",
    "vstat_tolerance",
]

_TAUS = ("0.9", "0.6", "0.5", "0.4", "0.35")


@check(
    "queries/correlational-cap",
    claim="One correlational query |h| <= 1 of tolerance tau is off 0 by more than tau on at most M* = ceil(1/tau^2) - "
    "1 of orthonormal targets, and (f_1 + ... + f_M*)/sqrt(M*) is on so many: M* = 1, 3, 11, 99, 399 at "
    "tau = .9, .5, .3, .1, .05.",
    source="Blum et al. 1994 for the argument; derived here in this form",
    kind=Kind.NUMERIC,
    basis=Basis.PROVED,
    how="Bessel's inequality. The figures and attainment in fractions; random queries, sparse and dense, on the ten "
    "parities l = 3, d = 6, by sums over all inputs.",
    constants={"less": 1, "figures": (1, 3, 11, 99, 399)},
    wrong=Fault(
        "sq.caps:orthogonal_cap",
        returned(lambda cap: replace(cap, whole=cap.whole + 1)),
        "ceil(1/tau^2), not one less",
    ),
)
def correlational_cap(constants: Constants, scale: Scale, rng: Generator) -> Sequence[Comparison]:
    """Squares of correlations add up to at most 1."""
    found = []
    for text, figure in zip(("0.9", "0.5", "0.3", "0.1", "0.05"), constants["figures"], strict=True):
        tau = Fraction(text)
        most = ceil(1 / tau**2) - constants["less"]
        found.append(equal(f"tau = {text}: M*", most, figure))
        found.append(equal(f"tau = {text}: the library's", orthogonal_cap(text).whole, most))
        # the answer 1/sqrt(M) on each of M targets: above tau where M tau^2 < 1
        seen = [size * tau**2 < 1 for size in (most, most + 1)]
        found.append(equal(f"tau = {text}: M*, M* + 1 seen at once", seen, [True, False]))
    x = all_inputs(2, 6)
    targets = np.array([hidden_parity(x, one).ravel() for one in secrets_of(6, 3)]) / np.sqrt(len(x))
    most_seen = dict.fromkeys(_TAUS, 0)
    for _ in range(100 if scale is Scale.QUICK else 3000):
        weights = rng.normal(size=10) ** int(rng.integers(0, 4)) * (rng.random(10) < rng.random())
        h = weights @ targets + rng.normal(size=targets.shape[1]) * float(rng.choice([0.0, 1e-3, 1e-2]))
        answers = np.abs(targets @ h) / max(float(np.linalg.norm(h)), 1e-9)
        for text in _TAUS:
            most_seen[text] = max(most_seen[text], int((answers > float(text) + 1e-12).sum()))
    for text in _TAUS:
        cap = ceil(1 / Fraction(text) ** 2) - constants["less"]
        found.append(
            at_most(f"tau = {text}: most seen by a random query", float(most_seen[text]), float(cap))
        )
    return found


@check(
    "queries/statistical-cap",
    claim="One query q(X, Y) in [-1, 1] of two-valued parity labels differs from its mean under a fair sign on the "
    "gate by E[1_gate r(X) chi_S(y) s(X)]; the squares of these add up to at most 1/4, as they do for one character, "
    "so a query of STAT(tau) rules out at most ceil(1/(4 tau^2)) - 1 targets.",
    source="derived here",
    kind=Kind.NUMERIC,
    basis=Basis.PROVED,
    how="Proved in the notes of sq.full_query_cap. Queries as tables of values for both labels of every input, d = 5, "
    "l = 2: random, signs of sums of characters, and one character; caps 2, 24, 99 at tau = .3, .1, .05.",
    constants={"largest": 0.25, "caps": (2, 24, 99), "rounding": 1e-12},
    wrong=Fault(
        "sq.caps:full_query_cap",
        returned(lambda cap: replace(cap, whole=2 * cap.whole)),
        "1/(2 tau^2) in place of 1/(4 tau^2)",
    ),
)
def statistical_cap(constants: Constants, scale: Scale, rng: Generator) -> Sequence[Comparison]:
    """Full means over the labels, and no formula for the deviation."""
    x = all_inputs(2, 5)
    signs = np.array([hidden_parity(x, one)[:, 0] for one in secrets_of(5, 2)])
    plus_minus = rng.uniform(-1, 1, (20 if scale is Scale.QUICK else 500, 2, len(x)))
    sums = [signs[: int(rng.integers(1, 7))].sum(axis=0) for _ in range(10)]
    tables = [*plus_minus, *(np.stack([np.sign(one), -np.sign(one)]) for one in sums)]
    worst, off_formula = 0.0, 0.0
    for table in tables:
        deviations, by_formula = _deviations(table, signs)
        worst = max(worst, float((deviations**2).sum()))
        off_formula = max(off_formula, float(np.abs(deviations - by_formula).max()))
    one = _deviations(np.stack([signs[3], -signs[3]]), signs)[0]
    found = [
        at_most("deviations off the formula by", off_formula, constants["rounding"]),
        at_most("largest sum of squares", worst, constants["largest"] + constants["rounding"]),
        close(
            "sum of squares of one character",
            float((one**2).sum()),
            constants["largest"],
            absolute=constants["rounding"],
        ),
    ]
    for tau, cap in zip(("0.3", "0.1", "0.05"), constants["caps"], strict=True):
        from_sum = ceil(Fraction(constants["largest"]) / Fraction(tau) ** 2) - 1
        found.append(equal(f"tau = {tau}: cap", [from_sum, full_query_cap(tau).whole], [cap, cap]))
    return found


@check(
    "queries/szorenyi-cap",
    claim="Of unit targets with pairwise |correlations| <= gamma < tau^2 one correlational query is off by more than "
    "tau on fewer than 2(1-gamma)/(tau^2-gamma); targets of equal correlations gamma have fewer than half of that on "
    "one side, and the largest such number is reached.",
    source="Szörényi 2009, the argument; constants derived here",
    kind=Kind.EXACT,
    basis=Basis.PROVED,
    how="Proved in the notes of sq.szorenyi_cap. In fractions: the normalised sum of n targets of equal correlation "
    "has the squared answer (1 + (n-1) gamma)/n on each, above tau^2 for the n claimed and not for n + 1.",
    constants={"sign": -1, "sides": 2},
    wrong=Fault(
        "sq.caps:szorenyi_cap",
        returned(lambda cap: replace(cap, value=cap.value / 2)),
        "one sign of the correlations alone",
    ),
)
def szorenyi(constants: Constants, scale: Scale, rng: Generator) -> Sequence[Comparison]:
    """Where the bound of one side is met."""
    found = []
    for gamma, tau in (("1/100", "1/5"), ("0", "3/10"), ("1/50", "1/4"), ("1/20", "2/5"), ("1/1000", "1/20")):
        g, t = Fraction(gamma), Fraction(tau)
        one_side = (1 + constants["sign"] * g) / (t**2 - g)
        n = ceil(one_side) - 1
        seen = [(1 + (size - 1) * g) / size > t**2 for size in (n, n + 1)]
        found.append(equal(f"gamma = {gamma}, tau = {tau}: n, n + 1 = {n + 1} seen", seen, [True, False]))
        cap = szorenyi_cap(gamma, tau).value
        found.append(
            equal(f"gamma = {gamma}, tau = {tau}: the library's", cap, constants["sides"] * one_side)
        )
    return found


@check(
    "queries/spectral-cap",
    claim="Whatever the Gram matrix of the targets, the squares of one query's answers add up to at most lambda_max, "
    "so it is off by more than tau on fewer than lambda_max/tau^2; the query along the top eigenvector reaches that "
    "sum.",
    source="derived here",
    kind=Kind.NUMERIC,
    basis=Basis.PROVED,
    how="sum_S <h, f_S>^2 <= lambda_max |h|^2. The bump family l = 4, d = 9: targets as vectors with that Gram matrix, "
    "random queries and the top one, beside sq.spectral_cap.",
    constants={"power": 1, "rounding": 1e-9},
    wrong=Fault(
        "sq.caps:spectral_cap",
        returned(lambda cap: replace(cap, value=cap.value * Fraction("0.3"))),
        "tau in place of tau^2",
    ),
)
def most_correlated(constants: Constants, scale: Scale, rng: Generator) -> Sequence[Comparison]:
    """Vectors in place of functions: only their Gram matrix matters."""
    matrix = closed_form_gram(BumpFamily(dim=9, bits=4)).matrix
    values, vectors = np.linalg.eigh(matrix)
    targets = vectors * np.sqrt(np.maximum(values, 0))  # a target a row
    largest = float(values[-1]) ** constants["power"]
    sums = []
    for _ in range(50 if scale is Scale.QUICK else 2000):
        h = rng.normal(size=len(values)) ** int(rng.integers(1, 6))
        sums.append(float(np.sum((targets @ h) ** 2) / (h @ h)))
    top = targets[:, -1]
    cap = spectral_cap(closed_form_gram(BumpFamily(dim=9, bits=4)), "0.3")
    return [
        at_most("largest sum of squares, random", max(sums), largest + constants["rounding"]),
        close("sum of squares, top query", float(top @ top), largest, absolute=constants["rounding"]),
        close("the library's at tau = .3", float(cap), largest / 0.09, relative=constants["rounding"]),
    ]


@check(
    "queries/error-identifies",
    claim="E|H - F|^2 below kappa^2/2 = 1/2 identifies S: two parity targets are at squared distance 2 kappa^2, and a "
    "hypothesis within 1/2 of one is farther from every other; at 1/2 it no longer does.",
    source="derived here",
    kind=Kind.EXACT,
    basis=Basis.PROVED,
    how="The triangle inequality: sqrt 2 - sqrt(1/2) = sqrt(1/2). Whole numbers over all inputs, d = 5, l = 2, 3: all "
    "distances, points between two targets, and random rational hypotheses near one.",
    constants={"radius": Fraction(1, 2), "distance": 2},
    wrong=Fault(
        "paper_checks.claims._gated_parities:hidden_parity",
        returned(lambda found: 2 * found),
        "targets of twice the size",
    ),
)
def identification(constants: Constants, scale: Scale, rng: Generator) -> Sequence[Comparison]:
    """Distances in E sum_a (.)^2."""
    found, x = [], all_inputs(2, 5)
    for bits in (2, 3):
        targets = np.array([hidden_parity(x, one).ravel() for one in secrets_of(5, bits)]).astype(np.int64)
        pairs = list(combinations(range(len(targets)), 2))
        distances = {Fraction(int(((targets[i] - targets[j]) ** 2).sum()), len(x)) for i, j in pairs}
        found.append(equal(f"l = {bits}: squared distances", sorted(distances), [constants["distance"]]))
        # (f_S + f_T)/2, as whole numbers
        middle = {
            Fraction(int(((targets[i] + targets[j] - 2 * targets[i]) ** 2).sum()), 4 * len(x))
            for i, j in pairs
        }
        found.append(equal(f"l = {bits}: error half-way between two", sorted(middle), [constants["radius"]]))
        unique = []
        for _ in range(40):
            near = targets[int(rng.integers(len(targets)))]
            other = targets[int(rng.integers(len(targets)))]
            h = 16 * near + int(rng.integers(0, 9)) * (other - near) + rng.integers(-4, 5, near.shape)
            errors = [Fraction(int(((h - 16 * one) ** 2).sum()), 256 * len(x)) for one in targets]
            unique.append(sum(one < constants["radius"] for one in errors) <= 1)
        found.append(equal(f"l = {bits}: never two targets within it", all(unique), True))
    return found


@check(
    "queries/sda",
    claim="Under a reference with a fair sign on the gate the chi^2 Gram matrix of N parities is I/2, and SDA(gamma) = "
    "2 gamma N: 7 at N = 35, gamma = .1 (8 for whole sets), and 2N/(3n) = 5483.4 and 548.34 calls to VSTAT(n) for "
    "d = 40, l = 4, n = 10, 100.",
    source="Feldman, Grigorescu, Reyzin, Vempala, Xiao 2017, definition and constant as later papers restate them, the "
    "original not compared; the proof is in the notes of sq.vstat_calls",
    kind=Kind.EXACT,
    basis=Basis.PROVED,
    how="The Gram matrix in fractions over all inputs and labels, d = 5; then sizes of sets by trying them, as the "
    "average correlation of s orthogonal targets is diagonal/s.",
    constants={
        "diagonal": Fraction(1, 2),
        "real": 7,
        "whole": 8,
        "calls": (Fraction(54834, 10), Fraction(54834, 100)),
    },
    wrong=Fault(
        "sq.dimension:vstat_calls",
        returned(lambda calls: replace(calls, value=3 * calls.value)),
        "2N/n calls in place of 2N/(3n)",
    ),
)
def reference_dimension(constants: Constants, scale: Scale, rng: Generator) -> Sequence[Comparison]:
    """D_S/D_0 - 1 is the sign's character on the gate."""
    x, diagonal = all_inputs(2, 5), constants["diagonal"]
    # on the gate the label s has chance 1 under S if it is the parity's, and 1/2 under the reference
    ratios = np.array([hidden_parity(x, one)[:, 0] for one in secrets_of(5, 2)]).astype(int)
    gram = ratios @ ratios.T  # the two labels have chance 1/2 each and the ratio's square is the same
    wanted = diagonal * len(x) * np.eye(len(gram), dtype=int).astype(object)
    found = [equal("Gram matrix over inputs", gram, wanted)]
    gamma, targets = Fraction(1, 10), 35
    found.append(equal("SDA(.1), real form", targets / (diagonal / gamma), constants["real"]))
    whole = max(
        q
        for q in range(1, targets + 1)
        if all(diagonal / size <= gamma for size in range(ceil(Fraction(targets, q)), targets + 1))
    )
    found.append(equal("SDA(.1), whole sets", whole, constants["whole"]))
    library = statistical_dimension(reference_gram(SecretSet(dim=8, bits=3)), "0.1")
    found.append(
        equal("the library's", [library.value, library.whole], [constants["real"], constants["whole"]])
    )
    many = comb(39, 4)
    for n, calls in zip((10, 100), constants["calls"], strict=True):
        found.append(equal(f"VSTAT({n})", many * Fraction(1, 3 * n) / diagonal, calls))
        found.append(
            equal(
                f"VSTAT({n}), the library's",
                vstat_calls(reference_gram(SecretSet(dim=40, bits=4)), n).value,
                calls,
            )
        )
    return found


@check(
    "queries/vstat-tolerance",
    claim="VSTAT(n) may be off by max(1/n, sqrt(p(1-p)/n)); a reply p_0 <= 1/2 that is off by more than that, D = |p - "
    "p_0|, has D^2 > p_0/(3n), which is why gamma = 1/(3n).",
    source="Feldman et al. 2017, as later papers restate it",
    kind=Kind.EXACT,
    basis=Basis.PROVED,
    how="Proved in the notes of sq.vstat_calls. A grid of fractions p, p_0 in steps of 1/120, and n from 2 to 400; the "
    "library's tolerance at squares. That 3 is the best constant is not claimed; 1 is too small.",
    constants={"factor": 3},
    wrong={"factor": 1},
)
def vstat_tolerance(constants: Constants, scale: Scale, rng: Generator) -> Sequence[Comparison]:
    """Whole numbers over a common denominator."""
    grid = 120 if scale is Scale.QUICK else 480
    p, p0 = np.meshgrid(np.arange(grid + 1), np.arange(1, grid // 2 + 1), indexing="ij")
    found = []
    for n in (2, 3, 5, 10, 40, 100, 400):
        gap = np.abs(p - p0)
        refused = (gap * n > grid) & (n * gap**2 > p * (grid - p))
        kept = constants["factor"] * n * gap**2 > p0 * grid
        found.append(equal(f"n = {n}: holds wherever refused", bool(np.all(kept[refused])), True))
    # p(1-p) = (12/25)^2 for p = 9/25: the roots are rational
    errors = VSTAT(100).errors(np.array([9 / 25, 0.0])).tolist()
    found.append(
        equal("VSTAT(100) at p = 9/25 and 0, in 1e-3", [round(1000 * one) for one in errors], [48, 10])
    )
    return found


@check(
    "queries/cliques",
    claim="The most l-subsets of n points that share at most o points pairwise, maximum cliques of the correlation "
    "graph, are 4, 7, 14, 12, 2 for (n, l, o) = (6,3,1), (7,3,1), (8,4,2), (9,3,1), (7,4,1); the approximate clique of "
    "networkx is smaller for (9,3,1).",
    source="derived here; the first four meet Johnson's bound",
    kind=Kind.EXACT,
    basis=Basis.PROVED,
    how="The cliques sq finds are looked at pair by pair; none is larger by Johnson's bound in the first four and, for "
    "(7,4,1), by all triples. That the approximation is smaller is seen with the networkx at hand (9 once).",
    constants={"sizes": (4, 7, 14, 12, 2)},
    wrong=Fault(
        "sq.cliques:overlap_graph",
        lambda right: lambda secrets, overlap: right(secrets, overlap + 1),
        "sets that share one point too many",
    ),
)
def cliques(constants: Constants, scale: Scale, rng: Generator) -> Sequence[Comparison]:
    """A set found below and a proof from above."""
    from networkx.algorithms.approximation import max_clique

    found = []
    codes = ((6, 3, 1), (7, 3, 1), (8, 4, 2), (9, 3, 1), (7, 4, 1))
    for (n, bits, overlap), size in zip(codes, constants["sizes"], strict=True):
        secrets = SecretSet(dim=n + 1, bits=bits)
        graph = overlap_graph(secrets, overlap)
        clique = maximum_clique(graph, transitive=True, at_most=packing_bound(n, bits, overlap))
        sets = [set(secrets.unrank(number).tolist()) for number in clique.vertices]
        apart = all(len(one & other) <= overlap for one, other in combinations(sets, 2))
        name = f"({n}, {bits}, {overlap})"
        found.append(equal(f"{name}: size, and apart", [len(sets), apart], [size, True]))
        if n == 7 and bits == 4:
            blocks = [set(one) for one in combinations(range(n), bits)]
            three = any(
                len(a & b) <= overlap and len(a & c) <= overlap and len(b & c) <= overlap
                for a, b, c in combinations(blocks, 3)
            )
            found.append(equal(f"{name}: three exist", three, size > 2))
        else:
            found.append(equal(f"{name}: Johnson's bound", _johnson(n, bits, overlap), size))
        if n == 9:
            found.append(equal(f"{name}: the approximation is smaller", len(max_clique(graph)) < size, True))
    return found


def _deviations(table: np.ndarray, signs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    # of E q(X, label) from the mean under a fair sign, target by target, and what the formula says
    gate = signs[0] != 0
    means = np.array([np.where(one >= 0, table[0], table[1]).mean() for one in signs])
    reference = np.where(gate, table.mean(axis=0), table[0]).mean()
    half = (table[0] - table[1]) / 2
    return means - reference, np.array([(half * one).mean() for one in signs])


def _johnson(n: int, bits: int, overlap: int) -> int:
    # floor(n/l floor((n-1)/(l-1) ...)): each point lies in at most as many sets as the others allow
    if overlap < 0:
        return 1
    return n * _johnson(n - 1, bits - 1, overlap - 1) // bits

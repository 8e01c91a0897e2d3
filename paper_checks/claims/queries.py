"""Claims: Statistical queries: bounds and counts."""

from collections.abc import Sequence
from fractions import Fraction
from math import ceil, comb

import numpy as np
from numpy.random import Generator

from paper_checks.check import Basis, Constants, Scale, check
from paper_checks.claims._faults import REPLIES_NEAR_ONE
from paper_checks.claims._query_bounds import (
    cliques,
    correlational_cap,
    identification,
    most_correlated,
    reference_dimension,
    statistical_cap,
    szorenyi,
    vstat_tolerance,
)
from paper_checks.comparison import Comparison, Kind, at_most, covers, equal
from paper_checks.faults import Fault, returned
from paper_checks.intervals import mean_interval
from sq import (
    CSQ,
    CorrelationalQueries,
    DescentLearner,
    ExactOracle,
    GroupLearner,
    GroupQuery,
    HonestOracle,
    MostPreservingAdversary,
    ParityFamily,
    ReferenceAdversary,
    ScanLearner,
    SignedGroupLearner,
)
from upper.six_phase import QueryPlan, six_phase_queries

__all__ = [
    "adversaries",
    "cliques",
    "convention",
    "correlational_cap",
    "honest_scan",
    "identification",
    "lower_bound",
    "most_correlated",
    "randomised_bound",
    "reference_dimension",
    "sandwich",
    "signed_groups",
    "six_phase",
    "statistical_cap",
    "szorenyi",
    "table",
    "unlearnable",
    "vstat_tolerance",
]

_TAUS = ("0.9", "0.5", "0.3", "0.1", "0.05")
_TABLE = {
    (10, 2): (36, 35, 12, 4, 1, 1),
    (10, 4): (126, 125, 42, 12, 2, 1),
    (16, 3): (455, 454, 152, 42, 5, 2),
    (20, 3): (969, 968, 323, 88, 10, 3),
    (20, 4): (3876, 3875, 1292, 353, 40, 10),
    (30, 3): (3654, 3653, 1218, 333, 37, 10),
    (30, 4): (23751, 23750, 7917, 2160, 240, 60),
    (40, 2): (741, 740, 247, 68, 8, 2),
    (40, 3): (9139, 9138, 3046, 831, 93, 23),
    (40, 4): (82251, 82250, 27417, 7478, 831, 207),
}


@check(
    "queries/lower-bound",
    claim="A deterministic learner of N orthonormal targets asks at least ceil((N-1)/M*) correlational queries, "
    "M* = ceil(1/tau^2) - 1: an oracle that replies 0 while a candidate allows it leaves two or more before that.",
    source="Blum et al. 1994 for the argument; derived here in this form",
    kind=Kind.EXACT,
    basis=Basis.PROVED,
    how="Each reply rules out at most M* candidates. Learners of random groups (of every size, signed or not) against "
    "the reference adversary, N = 35, tau = .5, .3, .9; the group learner meets the bound.",
    constants={"one": 1},
    wrong=REPLIES_NEAR_ONE,
)
def lower_bound(constants: Constants, scale: Scale, rng: Generator) -> Sequence[Comparison]:
    """No run of any learner tried is shorter."""
    family, found = ParityFamily(dim=8, bits=3), []
    runs = 4 if scale is Scale.QUICK else 60
    for text in ("0.9", "0.5", "0.3"):
        tau = Fraction(text)
        most = ceil(1 / tau**2) - 1
        least = ceil(Fraction(35 - constants["one"], most))
        counts = []
        for _ in range(runs):
            oracle = ReferenceAdversary(CSQ(float(tau)), family)
            while len(left := oracle.survivors) > 1 and oracle.asked < 200:
                group = rng.permutation(left)[: int(rng.integers(1, most + 2))]
                cut = int(rng.integers(0, len(group)))
                oracle.query(GroupQuery.signed(group[cut:], group[:cut]))
            counts.append(oracle.asked)
        found.append(equal(f"tau = {text}: none asks fewer than {least}", min(counts) >= least, True))
        asked = GroupLearner().learn(ReferenceAdversary(CSQ(float(tau)), family), family).asked
        found.append(equal(f"tau = {text}: the group learner", asked, least))
    return found


@check(
    "queries/randomised-bound",
    claim="With Q correlational queries of tolerance tau a learner names a uniformly drawn one of N orthonormal "
    "targets with probability at most (Q M* + 1)/N, so success delta takes (delta N - 1)/M* queries; a guess after Q "
    "groups, with every hit resolved free of charge, reaches it.",
    source="derived here",
    kind=Kind.EXACT,
    basis=Basis.PROVED,
    how="The reply 0 is valid for all targets but Q M*. For each target of N = 35 the generous learner is run with the "
    "exact oracle, Q = 1, 2, 4, tau = .5 and .6.",
    constants={"guess": 1},
    wrong=Fault(
        "sq.oracles:ExactOracle._reply", returned(lambda reply: reply / 2), "half of the true answer"
    ),
)
def randomised_bound(constants: Constants, scale: Scale, rng: Generator) -> Sequence[Comparison]:
    """Count the targets on which it succeeds."""
    family, found = ParityFamily(dim=8, bits=3), []
    for text in ("0.5", "0.6"):
        tau = Fraction(text)
        most = ceil(1 / tau**2) - 1
        for queries in (1, 2, 4):
            order, successes = rng.permutation(35), 0
            for target in range(35):
                oracle = ExactOracle(CSQ(float(tau)), family, target)
                groups = [order[i * most : (i + 1) * most] for i in range(queries)]
                hit = any(oracle.query(GroupQuery.signed(one)) > float(tau) for one in groups)
                successes += int(hit or target == order[-1])
            bound = Fraction(queries * most + constants["guess"], 35)
            found.append(equal(f"tau = {text}, Q = {queries}: success", Fraction(successes, 35), bound))
    return found


@check(
    "queries/table",
    claim="Against the reference adversary the group learner asks exactly the lower bound ceil((N-1)/M*) for all (d, "
    "l) of the table from (10,2) to (40,4) and tau = .9, .5, .3, .1, .05, M* = 1, 3, 11, 99, 399: 93 queries at d = "
    "40, l = 3, tau = .1.",
    source="derived here",
    kind=Kind.EXACT,
    basis=Basis.PROVED,
    how="The learner is run and its queries counted, cell by cell; quick: cells of at most 160 queries, full: all, "
    "up to 82250. Every scalar query counts one.",
    constants={"cap": (1, 3, 11, 99, 399), "cells": _TABLE},
    wrong=REPLIES_NEAR_ONE,
)
def table(constants: Constants, scale: Scale, rng: Generator) -> Sequence[Comparison]:
    """Three ways to one number: the run, the formula, the table."""
    found = []
    for (dim, bits), (targets, *counts) in constants["cells"].items():
        found.append(equal(f"d = {dim}, l = {bits}: N", comb(dim - 1, bits), targets))
        family = ParityFamily(dim=dim, bits=bits)
        for tau, most, count in zip(_TAUS, constants["cap"], counts, strict=True):
            name = f"d = {dim}, l = {bits}, tau = {tau}"
            found.append(equal(f"{name}: lower bound", ceil(Fraction(targets - 1, most)), count))
            if scale is Scale.QUICK and count > 160:
                continue
            oracle = ReferenceAdversary(CSQ(float(tau)), family)
            result = GroupLearner().learn(oracle, family)
            found.append(
                equal(f"{name}: asked, candidates left", [result.asked, result.survivors], [count, 1])
            )
    return found


@check(
    "queries/sandwich",
    claim="lower bound <= queries of the group learner against the reference adversary <= ceil((N-1)/M*) + ceil(log2 "
    "M*), and with exact answers the latter holds for every target, which it finds.",
    source="derived here",
    kind=Kind.EXACT,
    basis=Basis.PROVED,
    how="One group after another and bisection of the one that is hit. All 126 targets of (d, l) = (10, 4), tau = .3, "
    ".1; full: all 455 of (16, 3) as well. Without the logarithm it fails.",
    constants={"bisection": 1},
    wrong=Fault(
        "sq.oracles:ExactOracle._reply", returned(lambda reply: reply / 2), "half of the true answer"
    ),
)
def sandwich(constants: Constants, scale: Scale, rng: Generator) -> Sequence[Comparison]:
    """The worst target decides."""
    found = []
    for dim, bits in ((10, 4),) if scale is Scale.QUICK else ((10, 4), (16, 3)):
        family = ParityFamily(dim=dim, bits=bits)
        targets = comb(dim - 1, bits)
        for text in ("0.3", "0.1"):
            most = ceil(1 / Fraction(text) ** 2) - 1
            least = ceil(Fraction(targets - 1, most))
            bound = least + constants["bisection"] * (most - 1).bit_length()
            name, model = f"d = {dim}, l = {bits}, tau = {text}", CSQ(float(text))
            asked = GroupLearner().learn(ReferenceAdversary(model, family), family).asked
            found.append(equal(f"{name}: {least} <= {asked} <= {bound}", least <= asked <= bound, True))
            results = [
                GroupLearner().learn(ExactOracle(model, family, one), family) for one in range(targets)
            ]
            right = all(result.number == one for one, result in enumerate(results))
            worst = max(result.asked for result in results)
            found.append(equal(f"{name}: found, all within {bound}", [right, worst <= bound], [True, True]))
    return found


@check(
    "queries/signed-groups",
    claim="Against the most-preserving adversary a positive group of M* targets rules out nothing; the signed group "
    "(sum_A+ f - sum_A- f)/sqrt(M*) rules out at least floor(M*/2) whatever the valid reply, 93 queries at N = 455, "
    "tau = .3, where the lower bound is 42; positive groups need 1/sqrt|A| > 2 tau.",
    source="derived here",
    kind=Kind.EXACT,
    basis=Basis.PROVED,
    how="Proved in the notes of sq.SignedGroupLearner, but 93 is counted: the adversary is greedy, not the worst. d = "
    "16, l = 3; positive groups of 1 to 11 one by one.",
    constants={"queries": 93, "cap": 11, "largest_positive": 2},
    wrong=Fault(
        "sq.adversaries:MostPreservingAdversary._choose",
        lambda right: ReferenceAdversary._choose,
        "replies of the reference adversary",
    ),
)
def signed_groups(constants: Constants, scale: Scale, rng: Generator) -> Sequence[Comparison]:
    """A reply in between is valid for both sides of a positive group."""
    family, model, cap = ParityFamily(dim=16, bits=3), CSQ(0.3), constants["cap"]
    oracle = MostPreservingAdversary(model, family)
    oracle.query(GroupQuery.signed(np.arange(cap)))
    found = [equal(f"left after a positive group of {cap}", len(oracle.survivors), 455)]
    effective = []
    for size in range(1, cap + 1):
        oracle = MostPreservingAdversary(model, family)
        oracle.query(GroupQuery.signed(np.arange(size)))
        effective.append(len(oracle.survivors) < 455)
    wanted = [size <= constants["largest_positive"] for size in range(1, cap + 1)]
    found.append(equal("positive groups that rule someone out", effective, wanted))
    two_sided = [Fraction(1, size) > 4 * Fraction("0.3") ** 2 for size in range(1, cap + 1)]
    found.append(equal("those with 1/sqrt|A| > 2 tau", two_sided, wanted))
    oracle, least = MostPreservingAdversary(model, family), []
    while len(left := oracle.survivors) > cap:
        half = ceil(cap / 2)
        oracle.query(GroupQuery.signed(left[:half], left[half:cap]))
        least.append(len(left) - len(oracle.survivors))
    found.append(equal("fewest ruled out by a signed group", min(least), cap // 2))
    result = SignedGroupLearner().learn(MostPreservingAdversary(model, family), family)
    found.append(
        equal("queries, candidates left", [result.asked, result.survivors], [constants["queries"], 1])
    )
    return found


@check(
    "queries/midpoint",
    claim="From tau = 1/sqrt 2 on a reply midway between two orthonormal targets is valid for both, whatever is asked, "
    "so N >= 2 targets cannot be learned; below, (f - g)/sqrt 2 tells them apart.",
    source="derived here",
    kind=Kind.EXACT,
    basis=Basis.PROVED,
    how="|<h, f - g>| <= |f - g| = sqrt 2. The signed-group learner of ten targets against the most-preserving "
    "adversary at tau just below and just above; scans and positive groups above as well.",
    constants={"below": "0.7071", "above": "0.7072"},
    wrong=Fault("sq.models:CSQ.errors", returned(lambda errors: errors / 2), "half of the tolerance"),
)
def unlearnable(constants: Constants, scale: Scale, rng: Generator) -> Sequence[Comparison]:
    """A threshold that no learner passes."""
    family, found = ParityFamily(dim=6, bits=2), []
    for name, learned in (("below", True), ("above", False)):
        text = constants[name]
        found.append(equal(f"{text}: 2 tau below sqrt 2", 4 * Fraction(text) ** 2 < 2, learned))
        for learner in (SignedGroupLearner(), *(() if learned else (ScanLearner(), GroupLearner()))):
            oracle = MostPreservingAdversary(CSQ(float(text)), family)
            result = learner.learn(oracle, family)
            found.append(equal(f"{text}, {result.learner}: found", result.number is not None, learned))
    return found


@check(
    "queries/adversaries",
    claim="Every reply of both adversaries is valid for some candidate and the survivors are those for which all were; "
    "the most-preserving one keeps as many as any valid reply could.",
    source="derived here",
    kind=Kind.EXACT,
    basis=Basis.PROVED,
    how="Random signed groups, d = 6, l = 2; survivors kept here by the definition |reply - answer| <= tau, and "
    "replies from a fine grid tried for one that keeps more.",
    constants={"width": 1.0},
    wrong=Fault(
        "sq.candidates:Candidates.update",
        lambda right: lambda self, answers, reply: right(self, answers, reply / 2),
        "survivors by half of the reply",
    ),
)
def adversaries(constants: Constants, scale: Scale, rng: Generator) -> Sequence[Comparison]:
    """Bookkeeping beside the oracle's own."""
    family, found = ParityFamily(dim=6, bits=2), []
    for kind in (ReferenceAdversary, MostPreservingAdversary):
        agree, best = [], []
        for _ in range(6 if scale is Scale.QUICK else 100):
            tau = float(rng.uniform(0.2, 0.6))
            oracle, left = kind(CSQ(tau), family), set(range(10))
            for _ in range(6):
                group = rng.permutation(10)[: int(rng.integers(1, 7))]
                cut = int(rng.integers(0, len(group)))
                reply = oracle.query(GroupQuery.signed(group[cut:], group[:cut]))
                size = 1 / np.sqrt(len(group))
                answers = {int(one): (-size if i < cut else size) for i, one in enumerate(group)}
                width = constants["width"] * tau + 1e-9
                grid = np.linspace(-1, 1, 401)
                kept = [sum(abs(g - answers.get(one, 0.0)) <= width - 2e-9 for one in left) for g in grid]
                left = {one for one in left if abs(reply - answers.get(one, 0.0)) <= width}
                agree.append(left == set(oracle.survivors.tolist()) and len(left) > 0)
                best.append(len(left) >= max(kept))
        found.append(equal(f"{kind.__name__}: survivors agree", all(agree), True))
        if kind is MostPreservingAdversary:
            found.append(equal(f"{kind.__name__}: none keeps more", all(best), True))
    return found


@check(
    "queries/honest-scan",
    claim="Asked by a scan of single characters on real outputs of the layer, d = 12, l = 2, an oracle that draws "
    "fresh examples is asked (N+1)/2 - 1/N queries on average, N = 55: the last candidate is known without asking.",
    source="derived here",
    kind=Kind.STATISTICAL,
    basis=Basis.PROVED,
    how="The place of a random target in a random order is uniform. Runs of sq.ScanLearner with 300 examples a query, "
    "tau = .5; full: (12,3) and (16,2) beside. That every reply keeps tau fails with chance below 1e-4 (quick; 1e-3 in "
    "full).",
    constants={"numerator": 1, "halves": 2},
    wrong=Fault(
        "sq.oracles:SQOracle.asked",
        lambda right: property(lambda self: 2 * right.fget(self)),
        "each query counted twice",
    ),
    false_alarm=0.003,
)
def honest_scan(constants: Constants, scale: Scale, rng: Generator) -> Sequence[Comparison]:
    """A mean over runs."""
    found, runs = [], 24 if scale is Scale.QUICK else 120
    for dim, bits in ((12, 2),) if scale is Scale.QUICK else ((12, 2), (12, 3), (16, 2)):
        family = ParityFamily(dim=dim, bits=bits)
        size, counts = comb(dim - 1, bits), []
        for _ in range(runs):
            number = int(rng.integers(size))
            instance = family.instance(number)
            oracle = HonestOracle.for_instance(CSQ(0.5), instance, batch=300, family=family, rng=rng)
            result = ScanLearner(shuffled=True).learn(oracle, family, rng=rng)
            counts.append(float(result.asked))
        mean = (size + constants["numerator"]) / constants["halves"] - 1 / size
        found.append(covers(f"d = {dim}, l = {bits}: mean", mean_interval(counts, confidence=0.999), mean))
    return found


@check(
    "queries/convention",
    claim="One scalar query counts one: a vector of d queries counts d, and a gradient step of a student of m heads "
    "counts m (d^2 + d), one a parameter.",
    source="a convention of this project, stated wherever a count is shown",
    kind=Kind.EXACT,
    basis=Basis.DERIVED,
    how="The counter of an exact oracle before and after a vector of d = 4 monomials and after one step of "
    "sq.DescentLearner, m = 2.",
    constants={"vector": 4, "step": 40},
    wrong=Fault(
        "sq.oracles:SQOracle.query_many",
        lambda right: lambda self, queries: np.full(len(queries), self.query(queries[0])),
        "a vector of queries counted one",
    ),
)
def convention(constants: Constants, scale: Scale, rng: Generator) -> Sequence[Comparison]:
    """Counted by the oracle, not by the learner."""
    family = ParityFamily(dim=4, bits=2)
    oracle = ExactOracle(CSQ(0.1), family, 0)
    oracle.query_many(CorrelationalQueries(lambda x: x / np.sqrt(2), 4))
    found = [equal("a vector of d = 4", oracle.asked, constants["vector"])]
    result = DescentLearner(heads=2, steps=1).learn(ExactOracle(CSQ(0.1), family, 0), family, rng=rng)
    return [*found, equal("one gradient step of 2 heads", result.asked, constants["step"])]


@check(
    "queries/six-phase",
    claim="Phases 1 to 5 of the six-phase learner are statistical queries: for fixed m and k their number is a "
    "polynomial in d of degree 4 with leading coefficient 1/2, at a tolerance proportional to d^-2; phase 6, the net, "
    "asks for none here.",
    source="derived here for Chen and Li, arXiv 2402.04084",
    kind=Kind.NUMERIC,
    basis=Basis.DERIVED,
    how="Differences of the counts of upper.six_phase_queries in d = 10, ..., 40 beside d^2 + 2 ((d(d+1)/2)^2 + d^2 + "
    "3 + steps) + d(d+1)/2 + d^2 + steps, and the smallest tolerance times d^2. Plans, not runs: that the answers "
    "suffice is measured elsewhere.",
    constants={"degree": 4, "leading": 12, "power": 2, "spread": 1e-9},
    wrong=Fault(
        "upper.six_phase.query_learner:six_phase_queries",
        returned(lambda phases: phases[:3]),
        "phase 4 not counted",
    ),
)
def six_phase(constants: Constants, scale: Scale, rng: Generator) -> Sequence[Comparison]:
    """Moments of the certified equations are what costs."""
    found, dims, steps = [], range(10, 41), 12
    for m, k in ((2, 2), (3, 2), (2, 3)):
        plans = [six_phase_queries(QueryPlan(m=m, k=k, d=d, steps=steps)) for d in dims]
        totals = [sum(one.count for one in plan) for plan in plans]
        formula = [
            d**2 + 2 * ((d * (d + 1) // 2) ** 2 + d**2 + 3 + steps) + d * (d + 1) // 2 + d**2 + steps
            for d in dims
        ]
        found.append(equal(f"m = {m}, k = {k}: counts are the formula's", totals == formula, True))
        differences = np.diff(np.array(totals, dtype=object), n=constants["degree"])
        name = f"m = {m}, k = {k}: fourth differences"  # 4! times the leading coefficient
        found.append(equal(name, sorted(set(differences.tolist())), [constants["leading"]]))
        scaled = [
            min(one.tolerance for one in plan) * d ** constants["power"]
            for plan, d in zip(plans, dims, strict=True)
        ]
        spread = max(scaled) / min(scaled) - 1
        found.append(at_most(f"m = {m}, k = {k}: spread of tolerance d^2", spread, constants["spread"]))
    return found

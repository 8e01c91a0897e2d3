"""Claims: Outside statistical queries: elimination and gradient descent."""

from collections.abc import Sequence
from fractions import Fraction
from itertools import product
from math import prod

import numpy as np
from numpy.random import Generator

from attention import BooleanInputs, ExampleOracle, GroundTruth, Outcome
from lower import HardInstance, solve_gf2
from paper_checks.check import Basis, Constants, Scale, check
from paper_checks.claims._faults import EQUATION_LOST
from paper_checks.comparison import (
    Comparison,
    Kind,
    at_least,
    at_most,
    close,
    covers,
    equal,
    may_be_at_least,
)
from paper_checks.faults import Fault, returned
from paper_checks.intervals import mean_interval, proportion_interval
from sq import ParityElimination, make_parity_instance
from upper import KnownPart

_KEARNS = "Kearns 1998 for parities, elimination and statistical queries; figures derived here"


@check(
    "outside-queries/full-rank",
    claim="d - 1 + r equations over GF(2) in d - 1 unknowns, drawn uniformly, determine them with probability "
    "prod_{i=r+1}^{d-1+r} (1 - 2^-i): .289, .770, .969, .999 for r = 0, 2, 5, 10 at d = 40.",
    source="any textbook on random matrices over finite fields",
    kind=Kind.EXACT,
    basis=Basis.PROVED,
    how="Column by column: each of the d - 1 is outside the span of those before with chance 1 - 2^-(rows - their "
    "number). Fractions, thousandths rounded; all matrices of up to 12 entries counted.",
    constants={"first": 1, "thousandths": (289, 770, 969, 999)},
    wrong=Fault(
        "paper_checks.claims.outside_queries:_of_full_rank",
        lambda right: lambda rows, columns: right(rows, columns) - 1,
        "one matrix not counted",
    ),
)
def full_rank(constants: Constants, scale: Scale, rng: Generator) -> Sequence[Comparison]:
    """Whole numbers of matrices, and a product."""
    found = []
    for columns, surplus in ((1, 0), (1, 3), (2, 0), (2, 1), (3, 0), (3, 1)):
        rows = columns + surplus
        many = _of_full_rank(rows, columns)
        chance = _full_rank(columns + 1, surplus, constants["first"])
        found.append(equal(f"{rows} x {columns}, counted", Fraction(many, 2 ** (rows * columns)), chance))
    for surplus, figure in zip((0, 2, 5, 10), constants["thousandths"], strict=True):
        thousandths = round(1000 * _full_rank(40, surplus, constants["first"]))
        found.append(equal(f"d = 40, r = {surplus}: thousandths", thousandths, figure))
    return found


@check(
    "outside-queries/elimination",
    claim="Noise-free parity falls to Gaussian elimination: d - 1 + r labelled examples on the gate determine S with "
    "probability prod_{i=r+1}^{d-1+r} (1 - 2^-i), whatever l, at d = 40 in about 29, 77, 97 and 99.9 of 100 runs for "
    "r = 0, 2, 5, 10.",
    source=_KEARNS,
    kind=Kind.STATISTICAL,
    basis=Basis.PROVED,
    how="Real outputs of two heads, l = 3, the known part taken off; the equations of each run solved, and a run "
    "counts if the solution is unique and S. Clopper-Pearson.",
    constants={"first": 1},
    wrong=EQUATION_LOST,
    false_alarm=4e-4,
)
def elimination(constants: Constants, scale: Scale, rng: Generator) -> Sequence[Comparison]:
    """The success of runs against the product."""
    found, d, runs = [], 40, 100 if scale is Scale.QUICK else 2000
    instance = make_parity_instance(dim=d, heads=2, rng=rng)
    for surplus in (0, 2, 5, 10):
        won = 0
        for _ in range(runs):
            equations, bits = _equations(instance, d - 1 + surplus, rng)
            solved = solve_gf2(equations, bits)
            won += solved.unique and _names(solved.solution, instance)
        interval = proportion_interval(won, runs, confidence=0.9999)
        chance = float(_full_rank(d, surplus, constants["first"]))
        found.append(covers(f"r = {surplus}: S found", interval, chance))
    return found


@check(
    "outside-queries/raw-examples",
    claim="Elimination takes about 2 (d + 9) raw examples, as every other one is on the gate: d + 9 equations on "
    "average from exactly that many, 98 at d = 40, and the toolkit's attack then finds S in almost every run (.999).",
    source=_KEARNS,
    kind=Kind.STATISTICAL,
    basis=Basis.PROVED,
    how="The mean number of raw examples until d + 9 are on the gate (negative binomial); and runs of "
    "sq.ParityElimination, whose successes are counted and held against .999, the product of "
    "outside-queries/elimination at r = 10, and which may use at most twice as many.",
    constants={"per_equation": 2, "surplus": 9, "success": 0.999},
    wrong=Fault(
        "lower.gf2:solve_gf2",
        lambda right: lambda equations, bits: right(equations[10:], bits[10:]),
        "elimination without ten of the equations",
    ),
    false_alarm=2e-3,
)
def raw_examples(constants: Constants, scale: Scale, rng: Generator) -> Sequence[Comparison]:
    """Half of all inputs are on the gate."""
    d, runs = 40, 60 if scale is Scale.QUICK else 600
    equations = d + constants["surplus"]
    expected = constants["per_equation"] * equations
    x = BooleanInputs(2, d).sample(40 * runs * 4, rng=rng).reshape(-1, 2, d)
    gate = (x[:, 0, 0] != x[:, 1, 0]).reshape(-1, 160)
    places = np.argsort(~gate, axis=1, kind="stable")[:, equations - 1] + 1
    full = places[gate.sum(axis=1) >= equations].astype(float)
    found = [
        covers(
            "raw examples until d + 9 are on the gate", mean_interval(full, confidence=0.999), float(expected)
        )
    ]
    won, most = 0, 0
    for _ in range(runs):
        instance = make_parity_instance(dim=d, heads=2, rng=rng)
        attack = ParityElimination.for_instance(instance)
        fit = attack.fit(ExampleOracle(instance.layer, instance.inputs, rng=rng))
        same = fit.layer is not None and np.array_equal(fit.layer.theta, instance.layer.theta)
        won += fit.outcome is Outcome.EXACT and same
        most = max(most, fit.examples_used)
    found.append(at_most("most examples of a run", float(most), 2.0 * expected))
    interval = proportion_interval(won, runs, confidence=0.999)
    return [*found, may_be_at_least("share of runs that find S", interval, constants["success"])]


@check(
    "outside-queries/label-flips",
    claim="If hidden signs flip independently with rate eta, elimination from d - 1 independent equations names S with "
    "probability (1 - eta)^(d-1), as any flip moves the solution: .68, .14, .016 for eta = .01, .05, .1 at d = 40.",
    source="derived here",
    kind=Kind.STATISTICAL,
    basis=Basis.PROVED,
    how="An invertible system has the right solution only without a flip. Equations from real outputs of two heads are "
    "drawn until 39 are independent, flipped and solved; Clopper-Pearson. Learners that tolerate noise are left open.",
    constants={"equations": 39, "survival": (0.68, 0.14, 0.016), "digits": 6e-3},
    wrong=EQUATION_LOST,
    false_alarm=3e-4,
)
def label_flips(constants: Constants, scale: Scale, rng: Generator) -> Sequence[Comparison]:
    """All equations must be free of flips."""
    found, d, runs = [], 40, 120 if scale is Scale.QUICK else 3000
    instance = make_parity_instance(dim=d, heads=2, rng=rng)
    for rate, figure in zip((0.01, 0.05, 0.1), constants["survival"], strict=True):
        chance = (1 - rate) ** constants["equations"]
        found.append(close(f"eta = {rate}: (1 - eta)^(d-1)", chance, figure, absolute=constants["digits"]))
        won = 0
        for _ in range(runs):
            equations, bits = _independent(instance, rng)
            solved = solve_gf2(equations, bits ^ (rng.random(len(bits)) < rate))
            won += solved.unique and _names(solved.solution, instance)
        interval = proportion_interval(won, runs, confidence=0.9999)
        found.append(covers(f"eta = {rate}: S named", interval, chance))
    return found


@check(
    "outside-queries/knowing-nothing",
    claim="A learner that predicts the known part alone scores 1.0 on the unknown part, E|H - F|^2 / kappa^2; scored "
    "on the labels' energy C^2 + c0^2 + kappa^2 it would seem to be at 1/47.01 for D with two heads.",
    source="derived here",
    kind=Kind.NUMERIC,
    basis=Basis.PROVED,
    how="E|H - F|^2 over random inputs of the layer, l = 3, d = 12, by this sum and as attention.GroundTruth measures "
    "it: near 1 as half of the inputs are on the gate, so up to sampling.",
    constants={"score": 1.0, "energy": 47.0101, "sampling": 0.05, "rounding": 1e-9},
    wrong=Fault(
        "lower.known:LinearKnownPart.__call__", returned(lambda y: -y), "the known part of the opposite sign"
    ),
)
def knowing_nothing(constants: Constants, scale: Scale, rng: Generator) -> Sequence[Comparison]:
    """What a score of 1 means."""
    instance = make_parity_instance(dim=12, bits=3, rng=rng)
    examples = 40_000 if scale is Scale.QUICK else 1_000_000
    x = instance.inputs.sample(examples, rng=rng)
    y = instance.layer(x)
    unknown = float(((y - instance.known(x)) ** 2).sum() / examples)
    energy = float((y**2).sum() / examples)
    truth = GroundTruth.draw(instance.layer, instance.inputs, 4000, known=instance.known, rng=rng)
    oracle = ExampleOracle(instance.layer, instance.inputs, rng=rng)
    fit = KnownPart(instance.known).fit(oracle, rng=rng, truth=truth)
    measured = fit.trace[-1].measures["unknown_part_error"]
    sampling = constants["sampling"]
    return [
        close("E|K - F|^2", unknown, constants["score"], absolute=sampling),
        close("the toolkit's measure", measured, constants["score"], absolute=constants["rounding"]),
        close("energy of the labels", energy, constants["energy"], relative=sampling),
    ]


@check(
    "outside-queries/adam-one-bit",
    claim="Adam (a student of 8 heads, batches of 256, rate .01) learns l = 1 at d = 32: below .02 of the unknown part "
    "in 1000 steps.",
    source="measured here",
    kind=Kind.NUMERIC,
    basis=Basis.MEASURED,
    how="One run of upper.Adam on labels of construction D, error on fresh inputs with the known part taken off. "
    "Quick: only d = 8, 400 steps and a bound of .06, an easier case; full: d = 32 and 1000 steps.",
    constants={"bits": 1, "error": 0.02, "quick_error": 0.06},
    wrong=Fault("upper.baselines.minibatches:rate", returned(lambda step: -step), "steps up the gradient"),
    needs=("torch",),
)
def adam_one_bit(constants: Constants, scale: Scale, rng: Generator) -> Sequence[Comparison]:
    """The last error of a run."""
    dim, steps, bound = (8, 400, "quick_error") if scale is Scale.QUICK else (32, 1000, "error")
    errors = _adam(constants["bits"], dim, steps, rng)
    return [at_most(f"d = {dim}, {steps} steps: error", errors[-1], constants[bound])]


@check(
    "outside-queries/adam-three-bits",
    claim="The same Adam does not learn l = 3 at d = 48: in 4000 steps its error on the unknown part never falls below "
    ".95, where 1.0 is what knowing nothing scores.",
    source="measured here",
    kind=Kind.NUMERIC,
    basis=Basis.MEASURED,
    how="One run of upper.Adam, errors every 50 steps. Quick: the first 150 steps only, which says next to nothing of "
    "4000 (a single bit is seen by then); full: all 4000. Longer runs and other settings are left open.",
    constants={"bits": 3, "error": 0.95},
    wrong={"bits": 1},
    needs=("torch",),
)
def adam_three_bits(constants: Constants, scale: Scale, rng: Generator) -> Sequence[Comparison]:
    """The least error of a run."""
    steps = 150 if scale is Scale.QUICK else 4000
    errors = _adam(constants["bits"], 48, steps, rng)
    return [at_least(f"d = 48, {steps} steps: least error", min(errors), constants["error"])]


@check(
    "outside-queries/adam-fewer-coordinates",
    claim="At d = 16 the same Adam (rate .01) does learn l = 3: below .1 of the unknown part in 6000 steps.",
    source="measured here",
    kind=Kind.NUMERIC,
    basis=Basis.MEASURED,
    how="One run of upper.Adam, the last error. Quick: only d = 5, 500 steps at twice the rate and a bound of .85, "
    "which shows that three bits are seen, not that they are learned; full: d = 16 and 6000 steps. wrong takes a rate "
    "far too small.",
    constants={"rate": 0.01, "error": 0.1, "quick_error": 0.85},
    wrong={"rate": 0.0002},
    needs=("torch",),
)
def adam_fewer_coordinates(constants: Constants, scale: Scale, rng: Generator) -> Sequence[Comparison]:
    """The last error of a run."""
    dim, steps, bound = (5, 500, "quick_error") if scale is Scale.QUICK else (16, 6000, "error")
    rate = constants["rate"] * (2 if scale is Scale.QUICK else 1)
    errors = _adam(3, dim, steps, rng, rate=rate)
    return [at_most(f"d = {dim}, {steps} steps: error", errors[-1], constants[bound])]


def _of_full_rank(rows: int, columns: int) -> int:
    # no set of columns adds up to zero, that is no vector is orthogonal to all rows
    return sum(
        all(any((row & s).bit_count() % 2 for row in bits) for s in range(1, 2**columns))
        for bits in product(range(2**columns), repeat=rows)
    )


def _full_rank(d: int, surplus: int, first: int) -> Fraction:
    return prod(
        (1 - Fraction(1, 2**i) for i in range(surplus + first, d - 1 + surplus + first)), start=Fraction(1)
    )


def _equations(instance: HardInstance, many: int, rng: Generator) -> tuple[np.ndarray, np.ndarray]:
    # which coordinates differ, and the hidden sign, for so many examples on the gate
    d = instance.inputs.d
    x = instance.inputs.sample(3 * many + 40, rng=rng)
    x = x[x[:, 0, 0] != x[:, 1, 0]][:many]
    if len(x) < many:
        return _equations(instance, many, rng)
    direction = np.asarray(instance.parameters["direction"])
    hidden = (instance.layer(x) - instance.known(x))[:, 0] @ direction
    return x[:, 0, 1:d] != x[:, 1, 1:d], hidden * x[:, 0, 0] < 0


def _independent(instance: HardInstance, rng: Generator) -> tuple[np.ndarray, np.ndarray]:
    # d - 1 equations of full rank, the first such among those drawn
    d = instance.inputs.d
    equations, bits = _equations(instance, d + 19, rng)
    rows: list[int] = []
    basis: dict[int, int] = {}
    for place, row in enumerate(equations):
        left = int.from_bytes(np.packbits(row).tobytes(), "big")
        while left and (lead := left.bit_length()) in basis:
            left ^= basis[lead]
        if left:
            basis[left.bit_length()] = left
            rows.append(place)
    if len(rows) < d - 1:
        return _independent(instance, rng)
    return equations[rows], bits[rows]


def _names(solution: np.ndarray, instance: HardInstance) -> bool:
    return np.array_equal(np.flatnonzero(solution) + 1, instance.secret)


def _adam(bits: int, dim: int, steps: int, rng: Generator, *, rate: float = 0.01) -> list[float]:
    # errors on the unknown part, look by look
    from upper import Adam

    instance = make_parity_instance(dim=dim, bits=bits, construction="D", rng=rng)
    truth = GroundTruth.draw(instance.layer, instance.inputs, 2000, known=instance.known, rng=rng)
    oracle = ExampleOracle(instance.layer, instance.inputs, rng=rng)
    fit = Adam(8, work=steps, batch=256, learning_rate=rate).fit(oracle, rng=rng, truth=truth)
    return [float(step.measures["unknown_part_error"]) for step in fit.trace]

"""Claims: Outside statistical queries: elimination and gradient descent."""

from collections.abc import Iterator
from fractions import Fraction
from itertools import product
from math import prod

import numpy as np
from numpy.random import Generator

from attention import BooleanInputs, ExampleOracle, GroundTruth, Outcome
from lower import HardInstance, solve_gf2
from paper_checks.check import Constants, Scale
from paper_checks.claims._faults import EQUATION_LOST
from paper_checks.claims.tables import checks
from paper_checks.comparison import Comparison, at_least, at_most, close, covers, equal, may_be_at_least
from paper_checks.faults import returned
from sq import ParityElimination, make_parity_instance
from studies.intervals import mean_interval, proportion_interval
from upper import KnownPart


@checks("outside-queries/full-rank", lambda right: lambda rows, columns: right(rows, columns) - 1)
def full_rank(claim: Constants, scale: Scale, rng: Generator) -> Iterator[Comparison]:
    """Goes column by column. Each of the d - 1 columns is outside the span of those before with probability 1
    - 2^-(rows - their number). Fractions give the thousandths, rounded. All matrices of up to 12 entries are
    counted.
    """
    for columns, surplus in ((1, 0), (1, 3), (2, 0), (2, 1), (3, 0), (3, 1)):
        rows = columns + surplus
        many = _of_full_rank(rows, columns)
        chance = _full_rank(columns + 1, surplus, claim.first)
        yield equal(f"{rows} x {columns}, counted", Fraction(many, 2 ** (rows * columns)), chance)
    for surplus, figure in zip((0, 2, 5, 10), claim.thousandths, strict=True):
        thousandths = round(1000 * _full_rank(40, surplus, claim.first))
        yield equal(f"d = 40, r = {surplus}: thousandths", thousandths, figure)


@checks("outside-queries/elimination", EQUATION_LOST)
def elimination(claim: Constants, scale: Scale, rng: Generator) -> Iterator[Comparison]:
    """Takes real outputs of two heads, l = 3, and subtracts the known part. The equations of each run are
    solved. A run counts if the solution is unique and equals S. The interval is Clopper and Pearson's.
    """
    d, runs = 40, 100 if scale is Scale.QUICK else 2000
    instance = make_parity_instance(dim=d, heads=2, rng=rng)
    for surplus in (0, 2, 5, 10):
        won = 0
        for _ in range(runs):
            equations, bits = _equations(instance, d - 1 + surplus, rng)
            solved = solve_gf2(equations, bits)
            won += solved.unique and _names(solved.solution, instance)
        interval = proportion_interval(won, runs, confidence=0.9999)
        chance = float(_full_rank(d, surplus, claim.first))
        yield covers(f"r = {surplus}: S found", interval, chance)


@checks(
    "outside-queries/raw-examples", lambda right: lambda equations, bits: right(equations[30:], bits[30:])
)
def raw_examples(claim: Constants, scale: Scale, rng: Generator) -> Iterator[Comparison]:
    """Computes the mean number of raw examples until d + 9 are on the gate (negative binomial). Then counts
    the successes of runs of sq.ParityElimination, which may use at most twice as many. They are compared with
    .999, the product of outside-queries/elimination at r = 10.
    """
    d, runs = 40, 60 if scale is Scale.QUICK else 600
    equations = d + claim.surplus
    expected = claim.per_equation * equations
    x = BooleanInputs(2, d).sample(40 * runs * 4, rng=rng).reshape(-1, 2, d)
    gate = (x[:, 0, 0] != x[:, 1, 0]).reshape(-1, 160)
    places = np.argsort(~gate, axis=1, kind="stable")[:, equations - 1] + 1
    full = places[gate.sum(axis=1) >= equations].astype(float)
    yield covers("raw examples until d + 9 are on the gate", mean_interval(full), float(expected))
    won, most = 0, 0
    for _ in range(runs):
        instance = make_parity_instance(dim=d, heads=2, rng=rng)
        attack = ParityElimination.for_instance(instance)
        fit = attack.fit(ExampleOracle(instance.layer, instance.inputs, rng=rng))
        same = fit.layer is not None and np.array_equal(fit.layer.theta, instance.layer.theta)
        won += fit.outcome is Outcome.EXACT and same
        most = max(most, fit.examples_used)
    yield at_most("most examples of a run", float(most), 2.0 * expected)
    interval = proportion_interval(won, runs)
    yield may_be_at_least("share of runs that find S", interval, claim.success)


@checks("outside-queries/label-flips", EQUATION_LOST)
def label_flips(claim: Constants, scale: Scale, rng: Generator) -> Iterator[Comparison]:
    """An invertible system has the right solution only without a flip. Equations from real outputs of two
    heads are drawn until 39 are independent, then flipped and solved. The interval is Clopper and Pearson's.
    Learners that tolerate noise are not covered.
    """
    d, runs = 40, 120 if scale is Scale.QUICK else 3000
    instance = make_parity_instance(dim=d, heads=2, rng=rng)
    for rate, figure in zip((0.01, 0.05, 0.1), claim.survival, strict=True):
        chance = (1 - rate) ** claim.equations
        yield close(f"eta = {rate}: (1 - eta)^(d-1)", chance, figure, absolute=claim.digits)
        won = 0
        for _ in range(runs):
            equations, bits = _independent(instance, rng)
            solved = solve_gf2(equations, bits ^ (rng.random(len(bits)) < rate))
            won += solved.unique and _names(solved.solution, instance)
        interval = proportion_interval(won, runs, confidence=0.9999)
        yield covers(f"eta = {rate}: S named", interval, chance)


@checks("outside-queries/knowing-nothing", returned(lambda y: -y))
def knowing_nothing(claim: Constants, scale: Scale, rng: Generator) -> Iterator[Comparison]:
    """Computes E|H - F|^2 over random inputs of the layer, l = 3, d = 12, by this sum and by
    attention.GroundTruth. The result is near 1 up to sampling, as half of the inputs are on the gate.
    """
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
    sampling = claim.sampling
    yield close("E|K - F|^2", unknown, claim.score, absolute=sampling)
    yield close("the toolkit's measure", measured, claim.score, absolute=claim.rounding)
    yield close("energy of the labels", energy, claim.energy, relative=sampling)


@checks("outside-queries/adam-one-bit", returned(lambda step: -step))
def adam_one_bit(claim: Constants, scale: Scale, rng: Generator) -> Iterator[Comparison]:
    """Runs upper.GradientDescent once on labels of construction D. The error is on fresh inputs with the known part
    subtracted. Quick runs only d = 8, 400 steps and a bound of .06, an easier case. Full runs d = 32 and 1000
    steps.
    """
    dim, steps, bound = (8, 400, "quick_error") if scale is Scale.QUICK else (32, 1000, "error")
    errors = _adam(claim.bits, dim, steps, rng)
    yield at_most(f"d = {dim}, {steps} steps: error", errors[-1], claim[bound])


@checks("outside-queries/adam-three-bits")
def adam_three_bits(claim: Constants, scale: Scale, rng: Generator) -> Iterator[Comparison]:
    """Runs upper.GradientDescent once and measures errors every 50 steps. Quick runs the first 150 steps only, which
    show almost nothing about 4000; a single bit is learned by then. Full runs all 4000. Longer runs and other
    settings are not covered.
    """
    steps = 150 if scale is Scale.QUICK else 4000
    errors = _adam(claim.bits, 48, steps, rng)
    yield at_least(f"d = 48, {steps} steps: least error", min(errors), claim.error)


@checks("outside-queries/adam-fewer-coordinates")
def adam_fewer_coordinates(claim: Constants, scale: Scale, rng: Generator) -> Iterator[Comparison]:
    """Runs upper.GradientDescent once and takes the last error. Quick runs only d = 5, 500 steps at twice the
    rate and a bound of .85, which shows that three bits have an effect, not that they are learned. Full runs
    d = 16 and 6000 steps. The wrong value is a rate far too small.
    """
    dim, steps, bound = (5, 500, "quick_error") if scale is Scale.QUICK else (16, 6000, "error")
    rate = claim.rate * (2 if scale is Scale.QUICK else 1)
    errors = _adam(3, dim, steps, rng, rate=rate)
    yield at_most(f"d = {dim}, {steps} steps: error", errors[-1], claim[bound])


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
    d = instance.inputs.dim
    x = instance.inputs.sample(3 * many + 40, rng=rng)
    x = x[x[:, 0, 0] != x[:, 1, 0]][:many]
    if len(x) < many:
        return _equations(instance, many, rng)
    direction = np.asarray(instance.parameters["direction"])
    hidden = (instance.layer(x) - instance.known(x))[:, 0] @ direction
    return x[:, 0, 1:d] != x[:, 1, 1:d], hidden * x[:, 0, 0] < 0


def _independent(instance: HardInstance, rng: Generator) -> tuple[np.ndarray, np.ndarray]:
    # d - 1 equations of full rank, the first such among those drawn
    d = instance.inputs.dim
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
    from upper import GradientDescent

    instance = make_parity_instance(dim=dim, bits=bits, construction="D", rng=rng)
    truth = GroundTruth.draw(instance.layer, instance.inputs, 2000, known=instance.known, rng=rng)
    oracle = ExampleOracle(instance.layer, instance.inputs, rng=rng)
    fit = GradientDescent(8, work=steps, batch=256, learning_rate=rate).fit(oracle, rng=rng, truth=truth)
    return [float(step.measures["unknown_part_error"]) for step in fit.trace]

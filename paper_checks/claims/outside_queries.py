"""Outside statistical queries: elimination and gradient descent."""

from collections.abc import Iterator
from math import prod

import numpy as np
from numpy.random import Generator

from lower import HardInstance, solve_gf2
from paper_checks.claim import Basis, claim
from paper_checks.comparison import Comparison, close, covers
from paper_checks.faults import Fault
from runs import Scale
from sq import make_parity_instance
from studies.intervals import proportion_interval


@claim(
    "outside-queries/elimination",
    source="Kearns 1998 for parities, elimination and statistical queries; figures derived here",
    basis=Basis.PROVED,
    fault=Fault(
        "lower.gf2:solve_gf2",
        lambda right: lambda equations, bits: right(equations, bits ^ (np.arange(len(bits)) == 0)),
        "elimination with the first sign flipped",
    ),
    false_alarm=0.0007,
    slow=True,
)
def elimination(scale: Scale, rng: Generator) -> Iterator[Comparison]:
    """Gaussian elimination solves noise-free parity. From d - 1 + r labelled examples on the gate it determines S with
    probability prod_{i=r+1}^{d-1+r} (1 - 2^-i), for every l: .289, .770, .969, .999 at d = 40 for r = 0, 2, 5, 10. If
    hidden signs flip independently at rate eta, it finds S from d - 1 independent equations with probability (1 -
    eta)^(d-1): .68, .14, .016 at d = 40 for eta = .01, .05, .1.

    Column by column, each of d - 1 is outside the span of those before with probability 1 - 2^-(rows - their number),
    and any flip changes the solution of an invertible system. Takes real outputs of two heads, l = 3, and subtracts the
    known part. A run counts if the solution is unique and equals S. Learners that tolerate noise are not covered.
    """
    d, runs = 40, 100 if scale is Scale.QUICK else 2000
    instance = make_parity_instance(dim=d, heads=2, rng=rng)
    secret = np.isin(np.arange(1, d), instance.secret)
    for surplus, figure in ((0, 0.289), (2, 0.770), (5, 0.969), (10, 0.999)):
        won = 0
        for _ in range(runs):
            solved = solve_gf2(*_equations(instance, d - 1 + surplus, rng))
            won += solved.unique and np.array_equal(solved.solution, secret)
        chance = prod(1 - 2.0**-i for i in range(surplus + 1, d + surplus))
        yield close(f"r = {surplus}: the product", chance, figure, absolute=5.1e-4)
        yield covers(f"r = {surplus}: S found", proportion_interval(won, runs, confidence=0.9999), chance)
    systems = [_equations(instance, d - 1, rng) for _ in range(4 * runs)]
    independent = [system for system in systems if solve_gf2(*system).unique]
    for rate, figure in ((0.01, 0.68), (0.05, 0.14), (0.1, 0.016)):
        won = 0
        for equations, bits in independent:
            solved = solve_gf2(equations, bits ^ (rng.random(len(bits)) < rate))
            won += solved.unique and np.array_equal(solved.solution, secret)
        interval = proportion_interval(won, len(independent), confidence=0.9999)
        yield close(f"eta = {rate}: (1 - eta)^(d-1)", (1 - rate) ** (d - 1), figure, absolute=6e-3)
        yield covers(f"eta = {rate}: S found", interval, (1 - rate) ** (d - 1))


def _equations(instance: HardInstance, many: int, rng: Generator) -> tuple[np.ndarray, np.ndarray]:
    """Which coordinates differ, and the hidden sign, for so many examples on the gate."""
    x = instance.inputs.sample(4 * many + 40, rng=rng)
    x = x[x[:, 0, 0] != x[:, 1, 0]][:many]
    direction = instance.direction
    hidden = (instance.layer(x) - instance.known(x))[:, 0] @ direction
    return x[:, 0, 1:] != x[:, 1, 1:], hidden * x[:, 0, 0] < 0

"""Phases 5 and 6: span and net."""

from collections.abc import Iterator

import numpy as np
import sympy
from numpy.random import Generator

from paper_checks.claim import Basis, claim
from paper_checks.claims._layer_by_fractions import rank
from paper_checks.comparison import Comparison, equal
from paper_checks.faults import Fault
from runs import Scale


@claim(
    "span-and-net/hull-dimension",
    source="Chen and Li, arXiv 2402.04084, phase 5",
    basis=Basis.PROVED,
    fault=Fault(
        "paper_checks.claims.span_and_net:_dimensions_left",
        lambda right: lambda theta, rng: right(theta[:2], rng),
        "the rows on which the first two heads agree",
    ),
    slow=True,
)
def hull_dimension(scale: Scale, rng: Generator) -> Iterator[Comparison]:
    """Take the equations x_a Theta (x_b - x_c) = t of all rows on which m <= d generic heads agree exactly. Their
    solutions are just the heads' affine hull. It has dimension m - 1, and one less where the heads are affinely
    dependent. More heads may agree on no row: at d = 2, m = 4 generic heads leave all 4 dimensions, and at d = 4, m
    = 5 heads whose differences are the units of the quaternions leave all 16.

    Takes random whole heads. For random whole x, all v orthogonal to the x (Theta_i - Theta_1) are found in rational
    numbers. The dimension is d^2 less the rank of the x (x) v. Proof for m <= d: by Bertini's theorem the pairs (x,
    v) form an irreducible variety that lies in no smaller linear space, and real pairs are dense in it, as every
    real x has a real v. At d = 2, x (Theta_i - Theta_1) v = 0 for i = 2, 3, 4 asks for a common zero of two
    quadratic forms in x; their resultant is not 0. For quaternions the x (Theta_i - Theta_1) have the determinant
    |x|^4, so no v is orthogonal to all; the same holds for heads near these.
    """
    for d, m in ((2, 2), (3, 2), (3, 3), (4, 3), (4, 4)) * (1 if scale is Scale.QUICK else 5):
        theta = rng.integers(-9, 10, (m, d, d))
        yield equal(f"dimensions left, d = {d}, m = {m}", _dimensions_left(theta, rng), m - 1)
        line = np.stack([theta[0], theta[1], 2 * theta[1] - theta[0]])
        yield equal(f"dimensions left by three on a line, d = {d}", _dimensions_left(line, rng), 1)
    s = sympy.Symbol("s")
    x = sympy.Matrix([[1, s]])  # up to scale all x but (0, 1), which is no zero of a generic form
    resultants = []
    for _ in range(10 if scale is Scale.QUICK else 100):
        first, *rest = (sympy.Matrix(matrix) for matrix in rng.integers(-99, 100, (3, 2, 2)))
        forms = [sympy.Matrix.vstack(x * first, x * matrix).det() for matrix in rest]
        resultants.append(sympy.resultant(*forms, s))
    yield equal("d = 2, m = 4: layers with a row that agrees", resultants.count(0), 0)
    a, b, c, e = x = sympy.symbols("x:4", real=True)
    rows = sympy.Matrix([x, (-b, a, -e, c), (-c, e, a, -b), (-e, -c, b, a)])
    square = sum(entry**2 for entry in x) ** 2
    yield equal("quaternions: the determinant less |x|^4", sympy.expand(rows.det() - square), 0)


def _dimensions_left(theta: np.ndarray, rng: Generator) -> int:
    """d^2 less the rank of the x (x) v with x Theta_i v the same for all heads, for 6 d random whole x."""
    d, rows = theta.shape[1], []
    for x in rng.integers(-9, 10, (6 * d, d)):
        across = sympy.Matrix(x @ (theta[1:] - theta[0]))
        rows += [
            np.outer(x, [int(entry) for entry in v / sympy.gcd(tuple(v))]).ravel() for v in across.nullspace()
        ]
    return int(d * d - rank(rows))

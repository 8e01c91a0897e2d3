"""Lattice attacks and arithmetic mod q; part of the claims on attacks."""

import itertools
from collections.abc import Sequence

import numpy as np
from numpy.random import Generator

from lwe import Budget, LatticeAttack, LWRParameters, make_samples
from paper_checks.check import Basis, Constants, Scale, check
from paper_checks.claims._heads_by_hand import all_bits, label
from paper_checks.comparison import Comparison, Kind, at_least, at_most, close, equal

_NO_CLOCK = Budget(seconds=None)


@check(
    "attacks/lattice",
    claim="Lattice reduction (LLL on Kannan's embedding) breaks uniform public matrices, so the gadget family, at q "
    "= 128, p = 32, n' = 24: all fresh labels right; sizes where an untuned run stops are no claim of security.",
    source="Kannan 1987; Lenstra, Lenstra and Lovasz 1982; measured here",
    kind=Kind.NUMERIC,
    basis=Basis.MEASURED,
    how="The library's attack on a drawn secret, one basis and blocks of 10 at most; labels of new rows by whole "
    "numbers. Beside it up to six bases and blocks of 38: p = 8, 4, 2 at n' = 12, 8, 4, and in full n' = 56, 28, 14, "
    "6 for p = 32, 8, 4, 2.",
    constants={
        "q": 128,
        "levels": 32,
        "n": 24,
        "accuracy": 1.0,
        "others": ((8, 12), (4, 8), (2, 4)),
        "others_in_full": ((32, 56), (8, 28), (4, 14), (2, 6)),
    },
    wrong={"levels": 4},
    needs=("fpylll",),
)
def lattice(constants: Constants, scale: Scale, rng: Generator) -> Sequence[Comparison]:
    """Attack, and count again."""
    found: list[Comparison] = []
    q, others = constants["q"], constants["others" if scale is Scale.QUICK else "others_in_full"]
    cases = [(constants["levels"], constants["n"]), *others]
    for p, n in cases:
        parameters = LWRParameters(n, q, p, matrix="uniform")
        samples, secret = make_samples(parameters, 600, rng=rng)
        # without a clock, so that the result does not depend on the machine; LLL is enough for the first case
        first = len(found) == 0
        attack = LatticeAttack(rounds=1 if first else 6, largest_block=10 if first else 38)
        result = attack(samples, parameters, rng=rng, budget=_NO_CLOCK)
        rows = rng.integers(q, size=(300, n))
        right = [
            label(sum(x * y for x, y in zip(row, secret.tolist(), strict=True)), q, p)
            for row in rows.tolist()
        ]
        share = 0.0 if result.predict is None else float(np.mean(result.predict(rows) == right))
        found.append(at_least(f"share of new labels, p = {p}, n' = {n}", share, constants["accuracy"]))
    return found


@check(
    "attacks/lattice-bits",
    claim="With bits as public matrix and p = 4 levels, q = 64, lattice reduction predicts at least .9 of fresh "
    "labels at n = 24; that p = 2 resists an untuned run from about n = 28 on is no claim of security.",
    source="measured here",
    kind=Kind.NUMERIC,
    basis=Basis.MEASURED,
    how="The library's attack, one basis and blocks of 10 at most, on a drawn secret; labels of new rows by whole "
    "numbers. In full up to six bases and blocks of 30, also n = 32 and 40. That p = 2 resists is seen in the wrong "
    "run alone, at n = 28.",
    constants={"q": 64, "levels": 4, "n": (24,), "n_in_full": (24, 32, 40), "accuracy": 0.9},
    wrong={"levels": 2, "n": (28,)},
    needs=("fpylll",),
)
def lattice_bits(constants: Constants, scale: Scale, rng: Generator) -> Sequence[Comparison]:
    """Attack, and count again."""
    q, p, found = constants["q"], constants["levels"], []
    attack = LatticeAttack(rounds=1, largest_block=10)
    if scale is Scale.FULL:
        attack = LatticeAttack(rounds=6, largest_block=30)
    for n in constants["n" if scale is Scale.QUICK else "n_in_full"]:
        parameters = LWRParameters(n, q, p)
        samples, secret = make_samples(parameters, 1500, rng=rng)
        result = attack(samples, parameters, rng=rng, budget=_NO_CLOCK)
        rows = rng.integers(2, size=(500, n))
        right = [label(sum(map(int, row * secret)), q, p) for row in rows]
        share = 0.0 if result.predict is None else float(np.mean(result.predict(rows) == right))
        found.append(at_least(f"share of new labels, n = {n}", share, constants["accuracy"]))
    return found


@check(
    "attacks/short-columns",
    claim="A lattice attack on bits as public matrix meets the matrix's own columns, of mean square 1/2 an entry, "
    "which are shorter than the rounding errors it looks for, of mean square ((q/p)^2 - 1)/12, from q/p = 3 on: what "
    "it looks for is not the shortest vector; where it fails for that, that is no claim of security.",
    source="derived here",
    kind=Kind.NUMERIC,
    basis=Basis.DERIVED,
    how="Mean squares of columns and of centred rounding errors, exactly over bits and over residues for q/p = 2 to "
    "64.",
    constants={"errors": 12, "columns": 0.5, "from_width": 3, "rounding": 1e-12},
    wrong={"errors": 3},
)
def short_columns(constants: Constants, scale: Scale, rng: Generator) -> Sequence[Comparison]:
    """Both mean squares, and where they cross."""
    columns, gap, crossing = float(np.mean(all_bits(4) ** 2)), 0.0, []
    for width in range(2, 65):
        residues = np.arange(width) - (width - 1) / 2
        exact = float(np.mean(residues**2))
        gap = max(gap, abs(exact - (width**2 - 1) / constants["errors"]))
        crossing.append(exact > columns)
    return [
        close(
            "mean square of an entry of a column",
            columns,
            constants["columns"],
            absolute=constants["rounding"],
        ),
        at_most("gap of the errors' mean square to ((q/p)^2 - 1)/12", gap, constants["rounding"]),
        equal(
            "widths q/p whose errors are longer than columns start at",
            2 + crossing.index(True),
            constants["from_width"],
        ),
    ]


@check(
    "attacks/unit-pivots",
    claim="For q = 2^kappa a square matrix over Z_q is invertible exactly where it is mod 2, so elimination needs "
    "an odd pivot: an even one has no inverse; that elimination alone does not solve rounded labels is no claim of "
    "security.",
    source="derived here",
    kind=Kind.EXACT,
    basis=Basis.PROVED,
    how="All 2 x 2 matrices over Z_4, by a search for the inverse, and all residues at q = 4 to 64 by a search for "
    "a factor that makes 1. In general the determinant is a unit just where it is odd.",
    constants={"unit_remainder": 1, "invertible": 96},
    wrong={"unit_remainder": 0},
)
def unit_pivots(constants: Constants, scale: Scale, rng: Generator) -> Sequence[Comparison]:
    """Search for inverses."""
    odd_only = all(
        any(one * other % q == 1 for other in range(q)) == (one % 2 == constants["unit_remainder"])
        for q in (4, 8, 16, 32, 64)
        for one in range(q)
    )
    matrices = np.array(list(itertools.product(range(4), repeat=4))).reshape(-1, 2, 2)
    products = np.einsum("aij,bjk->abik", matrices, matrices) % 4
    invertible = (products == np.eye(2, dtype=int)).all(axis=(2, 3)).any(axis=1)
    determinants = matrices[:, 0, 0] * matrices[:, 1, 1] - matrices[:, 0, 1] * matrices[:, 1, 0]
    odd = determinants % 2 == constants["unit_remainder"]
    return [
        equal("units are the odd residues", odd_only, True),
        equal("invertible matrices are those of odd determinant", bool((invertible == odd).all()), True),
        equal("invertible 2 x 2 matrices mod 4", int(invertible.sum()), constants["invertible"]),
    ]

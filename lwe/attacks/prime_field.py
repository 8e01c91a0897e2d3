"""Linear equations modulo a prime: elimination by blocks of exact floating-point matrix products."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

__all__ = ["LARGEST_PRIME", "PrimeFieldSolution", "solve_prime_field"]

LARGEST_PRIME = 1 << 24
"""The largest prime: sums of 64 products of centred residues then stay below 2^53, and floats are exact."""

_PANEL = 32
_BLOCK_ROWS = 256


@dataclass(frozen=True)
class PrimeFieldSolution:
    """The result of Gaussian elimination for the last unknowns of A x = b modulo a prime.

    `solution` has their values, in [0, q), in one solution of the equations that contain only them; free values are 0.
    The rows of `kernel` are a basis of the vectors that may be added to it; there are none if these unknowns are
    determined. `rank` is the rank of A, and `consistent` whether A x = b has a solution.
    """

    solution: Int[np.ndarray, " last"]
    kernel: Int[np.ndarray, "free last"]
    rank: int
    consistent: bool


def solve_prime_field(
    system: Float[np.ndarray, "rows columns"],
    modulus: int,
    last: int,
    *,
    check: Callable[[], None] = lambda: None,
) -> PrimeFieldSolution:
    """Solve A x = b modulo a prime of at most 2^24 for the `last` unknowns; `system` is [A | b], eliminated in place.

    The last unknowns may be determined even if earlier ones are not. `check` is called once for every 32 columns; an
    exception that it raises ends the elimination. At most (2/3) rows columns^2 floating-point operations, most of them
    in matrix products of float64, which are exact because all residues are centred.
    """
    rows, unknowns = system.shape[0], system.shape[1] - 1
    for start in range(0, rows, _BLOCK_ROWS):
        _centre(system[start : start + _BLOCK_ROWS], modulus)

    pivots: list[int] = []
    for first in range(0, unknowns, _PANEL):
        check()
        rank, end = len(pivots), min(first + _PANEL, unknowns)
        columns, multipliers = _eliminate_panel(system, rank, first, end, modulus)
        rest, size = system[rank:, end:], len(columns)
        for row in range(1, size):
            rest[row] -= multipliers[row, :row] @ rest[:row]
            _centre(rest[row : row + 1], modulus)
        for start in range(size, len(rest) if size else 0, _BLOCK_ROWS):
            block = rest[start : start + _BLOCK_ROWS]
            block -= multipliers[start : start + _BLOCK_ROWS, :size] @ rest[:size]
            _centre(block, modulus)
        pivots += columns
        if len(pivots) == rows:
            break
    rank = len(pivots)
    wanted = [row for row, column in enumerate(pivots) if column >= unknowns - last]
    columns = [pivots[row] - (unknowns - last) for row in wanted]
    solution, kernel = _last_unknowns(system[wanted, unknowns - last :], columns, modulus)
    return PrimeFieldSolution(solution, kernel, rank, not bool(system[rank:, unknowns].any()))


def _centre(values: np.ndarray, modulus: int) -> None:
    # a multiple of the modulus becomes exactly 0: its quotient is off by less than 1/2
    quotients = values * (1.0 / modulus)
    np.rint(quotients, out=quotients)
    quotients *= modulus
    values -= quotients


def _eliminate_panel(
    work: np.ndarray, rank: int, first: int, end: int, modulus: int
) -> tuple[list[int], np.ndarray]:
    """Eliminate columns [first, end) below pivots; return the pivot columns and the multipliers of the pivot rows.

    Pivot rows have multipliers too, for earlier pivots. Pivot rows are not scaled.
    """
    panel = work[rank:, first:end].copy()
    multipliers = np.zeros_like(panel)
    pivots: list[int] = []
    for column in range(panel.shape[1]):
        top = len(pivots)
        if top == len(panel):
            break
        nonzero = panel[top:, column] != 0
        pivot = top + int(nonzero.argmax())
        if not nonzero[pivot - top]:
            continue
        if pivot != top:
            for array in (panel, multipliers, work[rank:]):
                array[[top, pivot]] = array[[pivot, top]]
        inverse = pow(int(panel[top, column]), -1, modulus)
        factors = panel[top + 1 :, column] * float(inverse)
        _centre(factors, modulus)
        panel[top + 1 :, column:] -= np.multiply.outer(factors, panel[top, column:])
        _centre(panel[top + 1 :, column:], modulus)
        multipliers[top + 1 :, top] = factors
        pivots.append(first + column)
    work[rank:, first:end] = panel
    return pivots, multipliers


def _last_unknowns(
    rows: np.ndarray, pivots: list[int], modulus: int
) -> tuple[Int[np.ndarray, " last"], Int[np.ndarray, "free last"]]:
    """A solution and a basis of the kernel of a small system [R | b] in echelon form with these pivot columns."""
    system = np.mod(np.rint(rows).astype(np.int64), modulus)
    for row in reversed(range(len(pivots))):
        system[row] = system[row] * pow(int(system[row, pivots[row]]), -1, modulus) % modulus
        system[:row] -= np.multiply.outer(system[:row, pivots[row]], system[row])
        system[:row] %= modulus
    last = rows.shape[1] - 1
    free = [column for column in range(last) if column not in set(pivots)]
    solution, kernel = np.zeros(last, dtype=np.int64), np.zeros((len(free), last), dtype=np.int64)
    solution[pivots] = system[:, last]
    for vector, column in zip(kernel, free, strict=True):
        vector[column] = 1
        vector[pivots] = -system[:, column] % modulus
    return solution, kernel

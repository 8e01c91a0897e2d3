"""Linear equations modulo a prime: elimination by blocks of exact floating-point matrix products."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Int, Shaped

from attention.validation import count
from lwe.residues import is_prime

__all__ = ["LARGEST_PRIME", "PrimeFieldSolution", "solve_prime_field"]

LARGEST_PRIME = 1 << 24
"""The largest prime: sums of 64 products of centred residues then stay below 2^53, and floats are exact."""

_PANEL = 32
_BLOCK_ROWS = 256


@dataclass(frozen=True)
class PrimeFieldSolution:
    """What Gaussian elimination found out about the last unknowns of A x = b modulo a prime.

    Attributes
    ----------
    solution : array of int (last,)
        Their values in one solution of the equations that hold only them, in [0, q); free ones are 0.
    kernel : array of int (free, last)
        What may be added to it: a basis. No rows mean that these unknowns are determined.
    rank : int
        The rank of A.
    consistent : bool
        Whether A x = b has a solution.
    """

    solution: Int[np.ndarray, " last"]
    kernel: Int[np.ndarray, "free last"]
    rank: int
    consistent: bool


def solve_prime_field(
    system: Shaped[np.ndarray, "rows columns"],
    modulus: int,
    last: int,
    *,
    overwrite: bool = False,
    on_panel: Callable[[], None] | None = None,
) -> PrimeFieldSolution:
    """Solve A x = b modulo a prime for the last unknowns.

    Parameters
    ----------
    system : array of whole numbers (rows, columns)
        [A | b].
    modulus : int
        The prime, at most 2^24.
    last : int
        How many unknowns are wanted: the last ones. They may be determined where earlier ones are not.
    overwrite : bool
        Whether a system of float64 may be eliminated in place, which saves a copy of it.
    on_panel : callable, optional
        Called once for every 32 columns; what it raises ends the elimination.

    Raises
    ------
    ValueError
        If the modulus is no prime, or too large, or `last` more than the unknowns.

    Notes
    -----
    (2/3) rows columns^2 floating-point operations at most, most of them in matrix products of float64, exact because
    all residues are centred.

    Examples
    --------
    >>> found = solve_prime_field(np.array([[1, 2, 5], [3, 4, 4], [4, 6, 2]]), 7, 2)
    >>> found.solution.tolist(), found.rank, found.consistent
    ([1, 2], 2, True)
    """
    rows, unknowns = system.shape[0], system.shape[1] - 1
    last, modulus = count("last", last), count("modulus", modulus, least=2)
    if last > unknowns:
        raise ValueError(f"last is {last}: there are {unknowns} unknowns.")
    if modulus > LARGEST_PRIME or not is_prime(modulus):
        raise ValueError(f"modulus is {modulus}: a prime of at most 2^24 = {LARGEST_PRIME} is needed.")
    in_place = overwrite and system.dtype == np.float64
    work = system if in_place else np.array(system, dtype=np.float64, order="C")
    for start in range(0, rows, _BLOCK_ROWS):
        _centre(work[start : start + _BLOCK_ROWS], modulus)

    pivots: list[int] = []
    for first in range(0, unknowns, _PANEL):
        if on_panel is not None:
            on_panel()
        rank, end = len(pivots), min(first + _PANEL, unknowns)
        found, multipliers = _eliminate_panel(work, rank, first, end, modulus)
        rest = work[rank:, end:]
        size = len(found)
        for row in range(1, size):
            rest[row] -= multipliers[row, :row] @ rest[:row]
            _centre(rest[row : row + 1], modulus)
        if size:
            for start in range(size, len(rest), _BLOCK_ROWS):
                block = rest[start : start + _BLOCK_ROWS]
                block -= multipliers[start : start + _BLOCK_ROWS, :size] @ rest[:size]
                _centre(block, modulus)
        pivots += found
        if len(pivots) == rows:
            break
    rank = len(pivots)
    wanted = [row for row, column in enumerate(pivots) if column >= unknowns - last]
    columns = [pivots[row] - (unknowns - last) for row in wanted]
    solution, kernel = _last_unknowns(work[wanted, unknowns - last :], columns, modulus)
    return PrimeFieldSolution(solution, kernel, rank, not bool(work[rank:, unknowns].any()))


def _centre(values: np.ndarray, modulus: int) -> None:
    # a multiple of the modulus becomes exactly 0: its quotient is off by less than 1/2
    quotients = values * (1.0 / modulus)
    np.rint(quotients, out=quotients)
    quotients *= modulus
    values -= quotients


def _eliminate_panel(
    work: np.ndarray, rank: int, first: int, end: int, modulus: int
) -> tuple[list[int], np.ndarray]:
    """Eliminate columns [first, end) below pivots; which have one, and how much of each pivot row a row gets taken off.

    Row k of the multipliers holds for pivot rows too: those of earlier pivots. Pivot rows are not scaled.
    """
    panel = work[rank:, first:end].copy()
    multipliers = np.zeros_like(panel)
    found: list[int] = []
    for column in range(panel.shape[1]):
        top = len(found)
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
        found.append(first + column)
    work[rank:, first:end] = panel
    return found, multipliers


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

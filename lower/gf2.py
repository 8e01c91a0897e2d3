"""Linear equations over the field of two elements, rows packed into machine words."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Shaped

from attention._arrays import to_numpy

__all__ = ["GF2Solution", "solve_gf2"]


@dataclass(frozen=True)
class GF2Solution:
    """What Gaussian elimination found out about a system A s = b over GF(2).

    Attributes
    ----------
    solution : array of bool (columns,)
        A solution, its free coordinates set to 0; meaningless where the system is inconsistent.
    rank : int
        The rank of A.
    consistent : bool
        Whether a solution exists.
    """

    solution: Bool[np.ndarray, " columns"]
    rank: int
    consistent: bool

    @property
    def unique(self) -> bool:
        """Whether the system has exactly one solution."""
        return self.consistent and self.rank == len(self.solution)


def solve_gf2(matrix: Shaped[np.ndarray, "rows columns"], bits: Shaped[np.ndarray, " rows"]) -> GF2Solution:
    """Solve A s = b over GF(2) by Gauss-Jordan elimination.

    Parameters
    ----------
    matrix : array (rows, columns)
        A: booleans, or whole numbers 0 and 1.
    bits : array (rows,)
        b: the same.

    Raises
    ------
    ValueError
        If the shapes do not fit or an entry is neither 0 nor 1.

    Notes
    -----
    O(rows columns^2 / 64) word operations.

    Examples
    --------
    >>> import numpy as np
    >>> found = solve_gf2(np.array([[1, 1, 0], [0, 1, 1], [0, 0, 1]]), np.array([1, 0, 1]))
    >>> found.solution.astype(int), found.rank, found.unique
    (array([0, 1, 1]), 3, True)
    """
    matrix, bits = to_numpy(matrix), to_numpy(bits)
    if matrix.ndim != 2 or bits.shape != matrix.shape[:1]:
        raise ValueError(
            f"matrix has shape {matrix.shape} and bits {bits.shape}: (rows, columns) and (rows,) are needed."
        )
    for name, array in (("matrix", matrix), ("bits", bits)):
        if not np.all((array == 0) | (array == 1)):
            raise ValueError(f"{name} has entries other than 0 and 1: bits are needed.")
    rows, columns = matrix.shape
    packed = np.packbits(np.column_stack([matrix, bits]).astype(np.uint8), axis=1, bitorder="little")
    words = np.zeros((rows, -(-packed.shape[1] // 8) * 8), dtype=np.uint8)
    words[:, : packed.shape[1]] = packed
    system = words.view("<u8")

    pivots: list[int] = []
    for column in range(columns):
        rank = len(pivots)
        if rank == rows:
            break
        ones = _bits_of(system, column)
        below = np.flatnonzero(ones[rank:])
        if not len(below):
            continue
        pivot = rank + int(below[0])
        if pivot != rank:
            system[[rank, pivot]] = system[[pivot, rank]]
            ones[[rank, pivot]] = ones[[pivot, rank]]
        ones[rank] = False
        # words left of the pivot's are already zero in the pivot row
        first = column // 64
        system[ones, first:] ^= system[rank, first:]
        pivots.append(column)

    right = _bits_of(system, columns)
    solution = np.zeros(columns, dtype=bool)
    solution[pivots] = right[: len(pivots)]
    return GF2Solution(solution=solution, rank=len(pivots), consistent=not bool(right[len(pivots) :].any()))


def _bits_of(system: np.ndarray, column: int) -> np.ndarray:
    return ((system[:, column // 64] >> np.uint64(column % 64)) & np.uint64(1)).astype(bool)

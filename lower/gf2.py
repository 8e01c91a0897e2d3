"""Linear equations over the field of two elements, rows packed into machine words."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Shaped, UInt64

from attention._arrays import to_numpy

# A block of rows of 256 KiB and a table of 256 rows stay in the second-level cache together.
_BLOCK_WORDS = 1 << 15
_PANEL = 8  # columns


@dataclass(frozen=True)
class GF2Solution:
    """The result of Gaussian elimination on a system A s = b over GF(2)."""

    #: A solution with its free coordinates set to 0. If the system is inconsistent, the vector solves `rank`
    #: independent equations among the given ones, and nothing else is known.
    solution: Bool[np.ndarray, " columns"]
    rank: int  #: the rank of A
    consistent: bool  #: whether a solution exists

    @property
    def unique(self) -> bool:
        """Whether the system has exactly one solution."""
        return self.consistent and self.rank == len(self.solution)


def solve_gf2(matrix: Shaped[np.ndarray, "rows columns"], bits: Shaped[np.ndarray, " rows"]) -> GF2Solution:
    """Solve A s = b over GF(2) with A = `matrix` and b = `bits`; entries are truth values or whole numbers 0 and 1.

    Examples
    --------
    >>> found = solve_gf2(np.array([[1, 1, 0], [0, 1, 1], [0, 0, 1]]), np.array([1, 0, 1]))
    >>> found.solution.astype(int), found.rank, found.unique
    (array([0, 1, 1]), 3, True)
    """
    matrix, bits = to_numpy(matrix), to_numpy(bits)
    if matrix.ndim != 2 or bits.shape != matrix.shape[:1]:
        raise ValueError(
            f"matrix has shape {matrix.shape} and bits {bits.shape}: (rows, columns) and (rows,) are needed."
        )
    return solve_packed_gf2(pack_gf2(np.column_stack([matrix, bits])), matrix.shape[1])


def pack_gf2(matrix: Shaped[np.ndarray, "rows columns"]) -> UInt64[np.ndarray, "rows words"]:
    """Rows of bits as rows of 64-bit words: column j is bit j mod 64, from the least significant, of word j // 64."""
    matrix = to_numpy(matrix)
    if matrix.ndim != 2:
        raise ValueError(f"matrix has shape {matrix.shape}: (rows, columns) is needed.")
    if matrix.dtype != bool and not np.all((matrix == 0) | (matrix == 1)):
        raise ValueError("matrix has entries other than 0 and 1: bits are needed.")
    rows, columns = matrix.shape
    words = np.zeros((rows, -(-columns // 64) * 8), dtype=np.uint8)
    words[:, : -(-columns // 8)] = np.packbits(matrix.astype(bool, copy=False), axis=1, bitorder="little")
    return words.view("<u8")


def unpack_gf2(words: UInt64[np.ndarray, "rows words"], columns: int) -> Bool[np.ndarray, "rows columns"]:
    """The first `columns` bits of packed rows, as `pack_gf2` packs them."""
    data = np.ascontiguousarray(words, dtype="<u8").view(np.uint8)
    return np.unpackbits(data, axis=1, count=columns, bitorder="little").view(bool)


def solve_packed_gf2(
    system: UInt64[np.ndarray, "rows words"], columns: int, *, on_panel: Callable[[], None] = lambda: None
) -> GF2Solution:
    """Solve A s = b over GF(2) in place, for rows [A | b] as `pack_gf2` packs them; b is column `columns`.

    `on_panel` is called for every 64 columns; an exception that it raises ends the elimination.

    The method of the four Russians (Arlazarov, Dinic, Kronrod and Faradzev 1970; Bard 2006): 8 columns are eliminated
    together, in one byte of every row. This gives each row a byte that names the pivot rows to add to it. A table holds
    the sums of pivot rows. Cost: about rows columns^2 / 1536 word operations, then back-substitution. Memory: the
    system, and 256 of its rows.
    """
    pivots: list[int] = []
    for first in range(0, columns, _PANEL):
        if first % 64 == 0:
            on_panel()
        rest = system[len(pivots) :, first // 64 :]
        found, sums = _pivots(rest, first % 64, min(_PANEL, columns - first))
        _add_pivot_rows(rest, sums, len(found))
        pivots += [first + bit for bit in found]
        if len(pivots) == len(system):
            break
    rank = len(pivots)
    right = system[rank:, columns // 64] >> np.uint64(columns % 64) & np.uint64(1)
    return GF2Solution(
        solution=_substitute_back(system, pivots, columns), rank=rank, consistent=not bool(right.any())
    )


def _pivots(rest: np.ndarray, start: int, bits: int) -> tuple[list[int], np.ndarray]:
    """Which of some bits of the first word have pivots; the pivots' rows are swapped to the top, in order.

    The second value has a byte for every row. Bit k of it is 1 if pivot row k must be added to the row. Here pivot row
    k already contains the earlier pivot rows.
    """
    values = (rest[:, 0] >> np.uint64(start)).astype(np.uint8)
    sums = np.zeros(len(values), dtype=np.uint8)
    found: list[int] = []
    for bit in range(bits):
        top = len(found)
        ones = values[top:] >> bit & 1
        pivot = int(ones.argmax()) if len(ones) else 0
        if not len(ones) or not ones[pivot]:
            continue
        if pivot:
            for array in (values, sums, rest):
                array[[top, top + pivot]] = array[[top + pivot, top]]
            ones[pivot] = ones[0]
        values[top + 1 :] ^= ones[1:] * values[top]
        sums[top + 1 :] |= ones[1:] << top
        found.append(bit)
    return found, sums


def _add_pivot_rows(rest: np.ndarray, sums: np.ndarray, pivots: int) -> None:
    """Add to every row the sum of first rows that its byte names, from a table of all sums."""
    table = np.zeros((1 << pivots, rest.shape[1]), dtype=rest.dtype)
    for row in range(pivots):
        rest[row] ^= table[sums[row]]
        np.bitwise_xor(table[: 1 << row], rest[row], out=table[1 << row : 2 << row])
    step = max(1, _BLOCK_WORDS // rest.shape[1])
    for start in range(pivots, len(rest), step):
        rest[start : start + step] ^= table[sums[start : start + step]]


def _substitute_back(system: np.ndarray, pivots: list[int], columns: int) -> np.ndarray:
    solution = np.zeros(system.shape[1], dtype=np.uint64)
    # the right side is a column like the others: its unknown is 1
    solution[columns // 64] = np.uint64(1) << np.uint64(columns % 64)
    for row in reversed(range(len(pivots))):
        word, bit = divmod(pivots[row], 64)
        if np.bitwise_count(np.bitwise_xor.reduce(system[row, word:] & solution[word:])) & 1:
            solution[word] |= np.uint64(1) << np.uint64(bit)
    return unpack_gf2(solution[None], columns)[0]

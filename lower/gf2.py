"""Linear equations over the field of two elements, rows packed into machine words."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Shaped, UInt64

from attention._arrays import to_numpy
from attention.validation import count

__all__ = ["GF2Solution", "pack_gf2", "solve_gf2", "solve_packed_gf2", "unpack_gf2"]

# A block of rows of 256 KiB and a table of 256 rows stay in the second-level cache together.
_BLOCK_WORDS = 1 << 15
_TABLE_BITS = 8


@dataclass(frozen=True)
class GF2Solution:
    """What Gaussian elimination found out about a system A s = b over GF(2).

    Attributes
    ----------
    solution : array of bool (columns,)
        A solution, its free coordinates set to 0. Where the system is inconsistent it solves `rank` independent
        equations among the given ones, and no more is known.
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
    """Solve A s = b over GF(2) by Gaussian elimination.

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
    See `solve_packed_gf2`.

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
        _require_bits(name, array)
    return solve_packed_gf2(pack_gf2(np.column_stack([matrix, bits])), matrix.shape[1], overwrite=True)


def pack_gf2(matrix: Shaped[np.ndarray, "rows columns"]) -> UInt64[np.ndarray, "rows words"]:
    """Rows of bits as rows of 64-bit words: column j is bit j mod 64, from the least significant, of word j // 64.

    Raises
    ------
    ValueError
        If the matrix has not two dimensions, or an entry is neither 0 nor 1.

    Examples
    --------
    >>> pack_gf2(np.array([[1, 0, 1], [0, 1, 1]])).tolist()
    [[5], [6]]
    """
    matrix = to_numpy(matrix)
    if matrix.ndim != 2:
        raise ValueError(f"matrix has shape {matrix.shape}: (rows, columns) is needed.")
    _require_bits("matrix", matrix)
    rows, columns = matrix.shape
    words = np.zeros((rows, -(-columns // 64) * 8), dtype=np.uint8)
    words[:, : -(-columns // 8)] = np.packbits(matrix.astype(bool, copy=False), axis=1, bitorder="little")
    return words.view("<u8")


def unpack_gf2(words: UInt64[np.ndarray, "rows words"], columns: int) -> Bool[np.ndarray, "rows columns"]:
    """The first `columns` bits of packed rows, as `pack_gf2` packs them.

    Raises
    ------
    ValueError
        If the rows have fewer.

    Examples
    --------
    >>> unpack_gf2(np.array([[5], [6]], dtype=np.uint64), 3).astype(int).tolist()
    [[1, 0, 1], [0, 1, 1]]
    """
    columns = count("columns", columns, least=0)
    if columns > 64 * words.shape[1]:
        raise ValueError(f"columns is {columns}: the rows have {64 * words.shape[1]} bits.")
    data = np.ascontiguousarray(words, dtype="<u8").view(np.uint8)
    return np.unpackbits(data, axis=1, count=columns, bitorder="little").view(bool)


def solve_packed_gf2(
    system: UInt64[np.ndarray, "rows words"],
    columns: int,
    *,
    overwrite: bool = False,
    on_panel: Callable[[], None] | None = None,
) -> GF2Solution:
    """Solve A s = b over GF(2) for packed rows [A | b].

    Parameters
    ----------
    system : array of uint64 (rows, words)
        Column j < `columns` of A is bit j mod 64 of word j // 64; b is column `columns`. Later bits are ignored.
    columns : int
        The number of unknowns.
    overwrite : bool
        Whether the system may be eliminated in place, which saves a copy of it.
    on_panel : callable, optional
        Called once for every 64 columns; what it raises ends the elimination.

    Raises
    ------
    ValueError
        If the rows have too few words.

    Notes
    -----
    The method of the four Russians: 64 columns are eliminated in one word of every row, which gives each row a word
    of the pivot rows to be added to it; the other words follow by looking up the sums of 8 pivot rows at a time.
    About rows columns^2 / (3 * 8 * 64) word operations, forward only; then back-substitution for the one right side,
    in columns^2 / 128 of them. Memory: the system, and 256 of its rows.

    References
    ----------
    Arlazarov, Dinic, Kronrod and Faradzev 1970; for elimination: Bard 2006 (IACR ePrint 2006/163).

    Examples
    --------
    >>> rows = pack_gf2(np.array([[1, 1, 1], [0, 1, 1], [1, 0, 0]]))
    >>> found = solve_packed_gf2(rows, 2)
    >>> found.solution.astype(int), found.rank, found.consistent
    (array([0, 1]), 2, True)
    """
    columns = count("columns", columns, least=0)
    if 64 * system.shape[1] <= columns:
        raise ValueError(
            f"system has {system.shape[1]} words a row: {columns} unknowns and a right side need {columns // 64 + 1}."
        )
    if not overwrite:
        system = system.copy()
    pivots: list[int] = []
    for word in range(-(-columns // 64)):
        if on_panel is not None:
            on_panel()
        rank = len(pivots)
        found, sums = _eliminate_word(system, rank, word, min(64, columns - 64 * word))
        pivots += [64 * word + bit for bit in found]
        _add_pivot_rows(system[rank:, word + 1 :], sums, len(found))
        if len(pivots) == len(system):
            break
    rank = len(pivots)
    right = system[rank:, columns // 64] >> np.uint64(columns % 64) & np.uint64(1)
    return GF2Solution(
        solution=_substitute_back(system, pivots, columns), rank=rank, consistent=not bool(right.any())
    )


def _eliminate_word(system: np.ndarray, rank: int, word: int, bits: int) -> tuple[list[int], np.ndarray]:
    """Eliminate below the pivots found in one word, of the rows from `rank` on; pivot rows are swapped to their top.

    Returns which bits have pivots, and for every row a word whose bit k says that pivot row k, once the earlier ones
    have been added to it, is to be added to the row's other words.
    """
    values = system[rank:, word].copy()
    sums = np.zeros(len(values), dtype=np.uint64)
    found: list[int] = []
    one = np.uint64(1)
    for bit in range(bits):
        top = len(found)
        if top == len(values):
            break
        ones = values[top:] >> np.uint64(bit) & one
        pivot = int(ones.argmax())
        if not ones[pivot]:
            continue
        if pivot:
            pair, swapped = [top, top + pivot], [top + pivot, top]
            values[pair], sums[pair] = values[swapped], sums[swapped]
            below = system[rank:]
            below[pair] = below[swapped]
            ones[pivot] = ones[0]
        ones = ones[1:]
        values[top + 1 :] ^= ones * values[top]
        sums[top + 1 :] |= ones << np.uint64(top)
        found.append(bit)
    system[rank:, word] = values
    return found, sums


def _add_pivot_rows(rest: np.ndarray, sums: np.ndarray, pivots: int) -> None:
    """Add to every row the rows among the first `pivots` that its sum names: first to these themselves, in order."""
    if not rest.shape[1]:
        return
    for row in range(1, pivots):
        named = np.flatnonzero(sums[row] >> np.arange(row, dtype=np.uint64) & np.uint64(1))
        rest[row] ^= np.bitwise_xor.reduce(rest[named], axis=0)
    below, names = rest[pivots:], np.ascontiguousarray(sums[pivots:], dtype="<u8").view(np.uint8)
    if not len(below):
        return
    table = np.zeros((1 << _TABLE_BITS, rest.shape[1]), dtype=rest.dtype)
    step = max(1, _BLOCK_WORDS // rest.shape[1])
    looked_up = np.empty((min(step, len(below)), rest.shape[1]), dtype=rest.dtype)
    names = names.reshape(len(below), 8)
    for first in range(0, pivots, _TABLE_BITS):
        size = 1
        for row in rest[first : min(first + _TABLE_BITS, pivots)]:
            np.bitwise_xor(table[:size], row, out=table[size : 2 * size])
            size *= 2
        indices = names[:, first // _TABLE_BITS].astype(np.intp)
        for start in range(0, len(below), step):
            block = below[start : start + step]
            # "clip" lets numpy write to `out` without a buffer; no index is out of range
            sum_of_rows = np.take(
                table, indices[start : start + step], axis=0, out=looked_up[: len(block)], mode="clip"
            )
            block ^= sum_of_rows


def _substitute_back(system: np.ndarray, pivots: list[int], columns: int) -> np.ndarray:
    solution = np.zeros(system.shape[1], dtype=np.uint64)
    # the right side is a column like the others, of an unknown that is 1
    solution[columns // 64] = np.uint64(1) << np.uint64(columns % 64)
    for row in reversed(range(len(pivots))):
        word, bit = divmod(pivots[row], 64)
        if np.bitwise_count(np.bitwise_xor.reduce(system[row, word:] & solution[word:])) & 1:
            solution[word] |= np.uint64(1) << np.uint64(bit)
    return unpack_gf2(solution[None], columns)[0]


def _require_bits(name: str, array: np.ndarray) -> None:
    if array.dtype.kind not in "biuf":
        raise ValueError(f"{name} is an array of {array.dtype}: bits are needed, 0 and 1.")
    if array.dtype != bool and not np.all((array == 0) | (array == 1)):
        raise ValueError(f"{name} has entries other than 0 and 1: bits are needed.")

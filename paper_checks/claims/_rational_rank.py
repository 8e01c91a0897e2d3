"""The rank of an integer matrix over the rationals, by elimination in whole numbers."""

from collections.abc import Sequence
from typing import Any

__all__ = ["rank"]


def rank(rows: Sequence[Any]) -> int:
    """The rank of the matrix with these rows of whole numbers.

    Notes
    -----
    Fraction-free elimination (Bareiss): every number in it is a minor of the matrix, and whole. Nothing is rounded.
    """
    left = {tuple(int(entry) for entry in row) for row in rows}  # equal rows count once
    matrix = [list(row) for row in left]
    found, last = 0, 1
    for column in range(len(matrix[0]) if matrix else 0):
        pivot = next((i for i in range(found, len(matrix)) if matrix[i][column]), None)
        if pivot is None:
            continue
        matrix[found], matrix[pivot] = matrix[pivot], matrix[found]
        top = matrix[found]
        for row in matrix[found + 1 :]:
            factor = row[column]
            row[:] = [(top[column] * a - factor * b) // last for a, b in zip(row, top, strict=True)]
        last = top[column]
        found += 1
    return found

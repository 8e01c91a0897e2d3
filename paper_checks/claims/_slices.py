"""Linear functions <v, x> on slices of the cube: the Boolean x with given Hamming weights of given blocks."""

import itertools
from collections import defaultdict
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np

__all__ = ["by_slice", "moments", "slice_moments", "within"]


def moments(values: Any) -> list[Fraction]:
    """Mean and variance of whole numbers, as fractions."""
    whole = [int(one) for one in np.ravel(values)]
    mean = Fraction(sum(whole), len(whole))
    return [mean, Fraction(sum(one * one for one in whole), len(whole)) - mean**2]


def by_slice(v: np.ndarray, blocks: Sequence[int]) -> dict[tuple[int, ...], list[int]]:
    """The values <v, x> of all Boolean x, by the numbers of positive signs in the blocks."""
    cells: dict[tuple[int, ...], list[int]] = defaultdict(list)
    ends = np.cumsum(blocks)[:-1]
    for signs in itertools.product((-1, 1), repeat=sum(blocks)):
        x = np.array(signs)
        cells[tuple(int((part == 1).sum()) for part in np.split(x, ends))].append(int(v @ x))
    return cells


def slice_moments(v: np.ndarray, blocks: Sequence[int], weights: Sequence[int]) -> tuple[float, float]:
    """Mean and variance of <v, x> on a slice: sampling without replacement, block by block."""
    mean = variance = 0.0
    for part, w in zip(np.split(v, np.cumsum(blocks)[:-1]), weights, strict=True):
        n = len(part)
        mean += (2 * w - n) * float(part.mean())
        variance += 4 * w * (n - w) / (n * (n - 1)) * float(((part - part.mean()) ** 2).sum())
    return mean, variance


def within(parts: Sequence[np.ndarray]) -> float:
    """Sum of squares about the mean of each part."""
    return sum(float(((one - one.mean()) ** 2).sum()) for one in parts if one.size)
